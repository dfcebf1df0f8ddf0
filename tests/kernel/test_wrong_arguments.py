"""Arguments of another type at public functions: one line names the argument and what to give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pyebpf import BPF, Struct, open_map, u32
from pyebpf.asm import assemble, decode, link, listing, resolve
from pyebpf.errors import InvalidValue
from pyebpf.events import PerfBuffer, RingBuffer, UserRingBuffer
from pyebpf.link import attach
from pyebpf.objects import Map, Program, make_map
from pyebpf.objfile import list_section, read_object
from pyebpf.symbols.files import ElfFile
from pyebpf.target import RecordedTarget
from pyebpf.testing import Simulation, record, recorded
from pyebpf.vm import Machine, run

if TYPE_CHECKING:
    from collections.abc import Callable

INSTRUCTIONS = "instructions: give a list of instructions, as assemble() gives, not str"
LOADED = "give a loaded map, as bpf.loaded_map(name) gives, not NoneType"


class Number(Struct):
    number: u32


none: Any = None
word: Any = "x"
empty: Any = ""

WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: BPF().define(none), "bpf.define(text): give source text, not NoneType"),
    (lambda: BPF().specs(word), "target: give a target, such as RecordedTarget.from_json(facts), not str"),
    (lambda: BPF().specs(empty), "target: give a target, such as RecordedTarget.from_json(facts), not str"),
    (lambda: BPF().listing(empty), "target: give a target, such as RecordedTarget.from_json(facts), not str"),
    (lambda: BPF().reopen("a\0b"), r"bpf.reopen(path): there is no NUL in it ('a\x00b')"),
    (lambda: open_map(-1), "-1 is no map's id: ids are numbers of 32 bits, 1 to 4294967295"),
    (lambda: open_map(1 << 70), f"{1 << 70} is no map's id: ids are numbers of 32 bits, 1 to 4294967295"),
    (lambda: open_map(none), "open_map(None): give the path of a pin, or the map's id, not NoneType"),
    (lambda: ElfFile("a\0b"), r"path: there is no NUL in it ('a\x00b')"),
    (lambda: recorded("a\0b"), r"path: there is no NUL in it ('a\x00b')"),
    (lambda: attach(none, none), "program: give a loaded program, not NoneType"),
    (lambda: run(word), INSTRUCTIONS),
    (lambda: listing(word), "instructions: give a list of instructions, as assemble() gives, not str"),
    (lambda: link(word), INSTRUCTIONS),
    (lambda: resolve(word), INSTRUCTIONS),
    (lambda: Machine(word), "maps: give MapSpecs, not str"),
    (lambda: Simulation(none, none), "module: give a BPF or a Module, not NoneType"),
    (lambda: Simulation(BPF(), none), "target: give a target, such as recorded(path), not NoneType"),
    (lambda: record(none), "modules: give a BPF or a Module, not NoneType"),
    (lambda: RecordedTarget(none), "facts: give a dictionary; from_json() reads a text, not NoneType"),
    (lambda: RecordedTarget.from_json(none), "text: give the text that bpf.facts() gave, not NoneType"),
    (lambda: list_section(none, none), "whole: give what read_object() gives, not NoneType"),
    (lambda: read_object(none), "data: give the bytes of an object, not NoneType"),
    (lambda: Program(none, none), "spec: give a ProgramSpec, as bpf.specs().programs has them, not NoneType"),
    (lambda: Map(none), "spec: give a MapSpec, not NoneType"),
    (lambda: make_map(none), "spec: give a MapSpec, not NoneType"),
    (lambda: RingBuffer(none), f"ring: {LOADED}"),
    (lambda: UserRingBuffer(none), f"ring: {LOADED}"),
    (lambda: PerfBuffer(none), f"array: {LOADED}"),
    (lambda: u32(none), "u32: give an integer, not NoneType"),
    (lambda: BPF().usdt("python3", "gc__start", args=none), "@bpf.usdt(args=…): give a list of names, not NoneType"),
    (lambda: Number.from_bytes(none), "data: give bytes, not NoneType"),
    (lambda: decode(none), "data: give bytes, not NoneType"),
]


@pytest.mark.parametrize(("call", "expected"), WRONG, ids=[str(number) for number in range(len(WRONG))])
def test_a_wrong_argument_is_named(call: Callable[[], object], expected: str) -> None:
    """With what to give, and nothing of what Python's own machinery would say."""
    with pytest.raises(InvalidValue) as caught:
        call()
    assert str(caught.value) == expected


def test_right_ones_are_taken() -> None:
    """As lists, tuples and generators, where an iterable is what is asked for."""
    code = assemble("r0 = 7\nexit")
    assert run(list(code)).value == run(tuple(code)).value == 7
    assert listing(each for each in code) == listing(code)
