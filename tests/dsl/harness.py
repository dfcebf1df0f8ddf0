"""Probes from text: translated for the made-up kernel of `fake_target`, with a few maps and words at hand."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from typing import TYPE_CHECKING, Any

from pyebpf.builder.context import KernelObject
from pyebpf.builder.drop_counters import DropCounters
from pyebpf.builder.intrinsics import kernel, task
from pyebpf.compiler import compile_module
from pyebpf.dsl.module import Module
from pyebpf.dsl.unroll import unroll
from pyebpf.module.program import build_program
from pyebpf.types import Struct, char, field, ptr, s8, s16, s32, s64, u8, u16, u32, u64
from tests.dsl.fake_target import FakeTarget

if TYPE_CHECKING:
    from pyebpf.compiler import ir
    from pyebpf.errors import CompileError, Location
    from pyebpf.module.probe import Probe

NUMBERS = itertools.count()


class Record(Struct):
    at: u64
    limit: u32
    name: str = field(char[16])


class Pair(Struct):
    low: s64
    high: s64


def namespace() -> dict[str, Any]:
    """Names that the probes of tests may use: a module `bpf` with maps, words, types."""
    bpf = Module()
    names: dict[str, Any] = {
        "bpf": bpf,
        "opens": bpf.hash(key=char[16], value=u64, name="opens"),
        "counts": bpf.hash(key=u32, value=u64, name="counts"),
        "signed": bpf.hash(key=u32, value=s64, name="signed"),
        "records": bpf.hash(key=u32, value=Record, name="records"),
        "pairs": bpf.hash(key=Pair, value=u64, name="pairs"),
        "table": bpf.array(value=u64, size=8, name="table"),
        "results": bpf.array(value=s64, size=16, name="results"),
        "events": bpf.ringbuf(Record, name="events"),
        "latency": bpf.log2_hist(name="latency"),
        "KernelObject": KernelObject,
        "Record": Record,
        "Pair": Pair,
        "char": char,
        "ptr": ptr,
        "unroll": unroll,
    }
    names |= {type_.name: type_ for type_ in (u8, u16, u32, u64, s8, s16, s32, s64)}
    names |= {name: getattr(task, name) for name in ("pid", "tid", "uid", "gid", "comm", "cpu", "now")}
    names |= {name: getattr(kernel, name) for name in ("has_field", "enum", "has_enum", "user_string", "cast")}
    return names


def run(text: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run source text as a file of its own."""
    file = f"<test {next(NUMBERS)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec", dont_inherit=True), names)
    return names


def probe(body: str, parameters: str = "", outside: str = "", decorator: str = "") -> Probe[Any, Any]:
    """A probe with this body. `outside` stands before it in its file."""
    decorator = decorator or '@bpf.tracepoint("syscalls:sys_enter_openat")'
    inside = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    text = f"{textwrap.dedent(outside)}\n{decorator}\ndef probe({parameters}):\n{inside}\n"
    made: Probe[Any, Any] = run(text, namespace())["probe"]
    return made


def build(body: str, parameters: str = "", outside: str = "", decorator: str = "") -> ir.Module:
    """The IR of a probe with this body, which the compiler then takes with all its checks."""
    made = probe(body, parameters, outside, decorator)
    built = build_program(made.body, made.attachments[0], FakeTarget(), DropCounters(), "probe")
    assert compile_module(built.module, FakeTarget(), check=True).instructions
    return built.module


def marked(location: Location | None) -> str:
    """What the carets of an error stand under."""
    assert location is not None
    return location.text[location.column : location.end_column]


def message(error: CompileError) -> tuple[str, str]:
    """An error's own words, and the text that its carets stand under."""
    return error.message, marked(error.location)
