"""Kernel helpers by name: what reaches the call, what comes back, and what is refused with which words."""

from __future__ import annotations

from typing import Any

import pytest

from pyebpf import helpers
from pyebpf.builder.context import Context
from pyebpf.builder.intrinsics.helpers import _CONSTANT_TEXTS
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.kernel_objects import KernelReference
from pyebpf.builder.values.optional import OptionalInt
from pyebpf.builder.values.records import Record, StructConstructor
from pyebpf.compiler.checker import check_module
from pyebpf.compiler.evaluator import MapHandle, Pointer
from pyebpf.compiler.ir import Op
from pyebpf.errors import CompileError, OnlyInProbe
from pyebpf.maps.keyed import KeyedMap
from pyebpf.maps.ringbuf import RingBufferEntity
from pyebpf.target import KernelType
from pyebpf.types import S64, U32, U64, Struct, u32, u64
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.helpers import HELPER_IDS, helper
from tests.builder.harness import Probe


class Pair(Struct):
    left: u32
    right: u64


class Host:
    """A target that has all helpers but those named, and one kernel type."""

    def __init__(self, *missing: str) -> None:
        self.missing = missing

    def has(self, feature: str) -> bool:
        return feature not in self.missing

    def type_named(self, name: str) -> KernelType:
        return KernelType("struct", 64, name.removeprefix("struct "), id=1)


def make(*missing: str) -> Probe:
    p = Probe()
    p.target = Host(*missing)  # type: ignore[assignment]  # the part of a Target that is asked
    return p


def call(p: Probe, name: str, *arguments: Any, **keywords: Any) -> Any:
    return getattr(helpers, name).call(p, arguments, keywords)


@pytest.mark.parametrize(
    ("name", "returned", "wanted"),
    [
        ("ktime_get_boot_ns", (1 << 64) - 5, -5),
        ("get_prandom_u32", (1 << 40) + 7, 7),
        ("get_retval", 0xFFFF_FFF3, -13),
        ("get_numa_node_id", (1 << 64) - 1, -1),
    ],
)
def test_results_are_extended_by_their_c_type(name: str, returned: int, wanted: int) -> None:
    """u64 and long whole, u32 from its low half, int with its sign."""
    p = make()
    p.ret(call(p, name))
    assert p.run(helpers={HELPER_IDS[name]: lambda _: returned}) == wanted


def test_arguments_arrive_by_position_and_by_name() -> None:
    """Integers, in the prototype's order."""
    p = make()
    p.ret(call(p, "get_ns_current_pid_tgid", 3, size=8, ino=p.number(0), nsdata=None))
    seen: list[Any] = []

    def helper_(_: Any, *arguments: Any) -> int:
        seen.extend(arguments)
        return 0

    assert p.run(41, helpers={HELPER_IDS["get_ns_current_pid_tgid"]: helper_}) == 0
    assert seen == [3, 41, 0, 8]


def test_records_and_literals_are_passed_by_address() -> None:
    """A record under construction is built first; text gets its NUL, bytes stay as they are."""
    p = make()
    record = StructConstructor(Pair).call(p, (7, 9), {})
    found = call(p, "strtol", "17", 3, 0, record)
    call(p, "ringbuf_output", RingBufferEntity("ring", U64, 4096), b"abcd", 4, 0)
    p.ret(found)

    def strtol(_: Any, text: Pointer, size: int, flags: int, result: Pointer) -> int:
        assert text.region.load(text.offset, size) == b"17\0"
        assert result.region.load(result.offset, 16) == Pair(7, 9).to_bytes()
        return 5 + flags

    def output(_: Any, _ring: Any, data: Pointer, size: int, _flags: int) -> int:
        assert data.region.load(data.offset, size) == b"abcd"
        return 0

    assert p.run(helpers={HELPER_IDS["strtol"]: strtol, HELPER_IDS["ringbuf_output"]: output}) == 5


def test_text_that_the_verifier_must_know_stands_in_a_frozen_map() -> None:
    """The same text in the same map."""
    p = make()
    record = StructConstructor(Pair).call(p, (7, 9), {}).local(p)
    for text in ("ab", "ab", "cd"):
        call(p, "strncmp", record, 16, text)
    assert [spec.initial[0][1] for spec in p.maps.values()] == [b"ab\0", b"cd\0"]
    assert all(spec.frozen for spec in p.maps.values())
    with pytest.raises(CompileError, match=r"s2 of .* is a string known at compile time, not the record Pair"):
        call(p, "strncmp", record, 16, record)


def test_maps_and_the_context_are_passed() -> None:
    """A map's handle, a ring buffer's where the kernel says `void *`, and `ctx`."""
    p = make()
    ring = RingBufferEntity("ring", U64, 4096)
    stacks = KeyedMap("stacks", MapType.STACK_TRACE, U32, U64, 8)
    call(p, "ringbuf_query", ring, 0)
    p.ret(call(p, "get_stackid", Context(), stacks, 1 << 8))
    module = p.finish()
    check_module(module)
    calls = [i for block in module.main.blocks for i in block.instructions if i.op is Op.CALL]
    assert [i.imm for i in calls] == [HELPER_IDS["ringbuf_query"], HELPER_IDS["get_stackid"]]
    seen: list[Any] = []
    found = {i.imm: lambda _, *arguments: seen.append(arguments) or 3 for i in calls}
    assert p.run_module(module, 1, helpers=found) == 3
    assert seen[0] == (MapHandle("ring"), 0)
    assert seen[1][0].region.name == "context"
    assert seen[1][1:] == (MapHandle("stacks"), 256)
    assert set(p.maps) == {"ring", "stacks"}


def test_addresses_may_be_numbers_where_the_helper_checks_them() -> None:
    """probe_read_kernel takes any number as unsafe_ptr, and memory of the program's own as dst."""
    p = make()
    record = StructConstructor(Pair).call(p, (7, 9), {}).local(p)
    call(p, "probe_read_kernel", record, 16, p.number(0, U64))
    p.ret(record.attribute(p, "right"))

    def read(_: Any, to: Pointer, size: int, address: int) -> int:
        to.region.store(to.offset, bytes([address]) * size)
        return 0

    assert p.run(2, helpers={HELPER_IDS["probe_read_kernel"]: read}) == 0x0202020202020202
    assert p.gpl_only == {"probe_read_kernel"}


def test_a_look_up_by_the_helper_must_be_tested_for_none() -> None:
    """map_lookup_percpu_elem gives a number or a record, or None."""
    p = make()
    numbers = KeyedMap("numbers", MapType.PERCPU_ARRAY, U32, U64, 3)
    pairs = KeyedMap("pairs", MapType.PERCPU_ARRAY, U32, Pair.layout, 3)
    key = StructConstructor(Pair).call(p, (1, 2), {})
    number = call(p, "map_lookup_percpu_elem", numbers, key, 0)
    pair = call(p, "map_lookup_percpu_elem", pairs, key, 0)
    assert isinstance(number, OptionalInt)
    assert isinstance(pair, Record)
    with pytest.raises(CompileError, match="may be None"):
        number.binary(p, "+", 1)
    with pytest.raises(CompileError, match="may be None"):
        pair.attribute(p, "left")


def test_the_current_task_is_a_kernel_object() -> None:
    """get_current_task_btf's pointer is one that the verifier trusts."""
    task = call(make(), "get_current_task_btf")
    assert isinstance(task, KernelReference)
    assert task.trusted


def test_every_helper_has_a_word_and_is_called_in_probes_only() -> None:
    """All of the table; `help` shows the prototype."""
    assert len(dir(helpers)) == len(HELPER_IDS) > 200
    for name in dir(helpers):
        word = getattr(helpers, name)
        assert str(helper(name)) in word.__doc__
        with pytest.raises(OnlyInProbe, match=rf"helpers\.{name}\(\) is called inside a probe"):
            word()
    with pytest.raises(AttributeError, match=r"no helper bpf_ktime_get_bot_ns \(did you mean ktime_get_boot_ns"):
        helpers.__getattr__("ktime_get_bot_ns")


def test_every_helper_that_is_not_refused_knows_its_types() -> None:
    """A call with an argument of the right kind for each parameter builds, whatever the helper."""
    built, refusals = 0, []
    for name in HELPER_IDS:
        p = make()
        record = StructConstructor(Pair).call(p, (1, 2), {}).local(p)
        arguments: list[Any] = []
        for parameter in helper(name).parameters:
            c_type = parameter.type.removeprefix("const ")
            if (name, parameter.name) in _CONSTANT_TEXTS:
                arguments.append("text")
            elif c_type == "struct bpf_map *" or parameter.name in ("ringbuf", "map"):
                arguments.append(KeyedMap("m", MapType.HASH, U32, U64, 8))
            elif c_type.endswith("*"):
                arguments.append(record)
            else:
                arguments.append(8)
        try:
            result = call(p, name, *arguments)
        except CompileError as error:
            refusals.append((name, error.message))
            continue
        built += 1
        assert result is None or isinstance(result, Int | OptionalInt | KernelReference)
    assert all(f"helpers.{name}() " in message for name, message in refusals)
    assert built > 150


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("trace_printk", ("x", 2), r"cannot be called directly: it prints to a log .*: emit a record"),
        ("loop", (3, 0, 0, 0), r"cannot be called directly: write a `for` loop"),
        ("find_vma", (0, 0, 0, 0, 0), r"takes a function to call back, which a probe cannot pass"),
        ("dynptr_read", (0, 0, 0, 0, 0), r"works on dynptrs, which have functions of their own: dynptr"),
        (
            "skc_to_tcp_sock",
            (0,),
            r"returns an address that may be NULL or must be released: struct tcp_sock \*bpf_skc",
        ),
        ("ktime_get_ns", (3,), r"takes 0 arguments, not 1: u64 bpf_ktime_get_ns\(void\)"),
        ("get_current_comm", (None,), r"lacks size_of_buf: long bpf_get_current_comm\(void \*buf, u32 size_of_buf\)"),
        ("get_current_ancestor_cgroup_id", ("x",), r"ancestor_level of .* is a s32, not 'x'"),
        ("get_current_ancestor_cgroup_id", (1 << 31,), r"2147483648 does not fit s32"),
        ("get_current_comm", (5, 16), r"buf of helpers\.get_current_comm\(\) is the address of memory: .*, not 5"),
        ("get_current_comm", ("abcdef", 16), r"size_of_buf of .* is 16, but buf has only 7 bytes"),
        ("ringbuf_query", (None, 0), r"ringbuf of helpers\.ringbuf_query\(\) is a map, not None"),
        ("get_stackid", (1, None, 0), r"ctx of helpers\.get_stackid\(\) is the address of memory"),
    ],
)
def test_unfit_calls_are_refused(name: str, arguments: tuple[Any, ...], message: str) -> None:
    """With the prototype, or what to write instead."""
    with pytest.raises(CompileError, match=message):
        call(make(), name, *arguments)


def test_an_unknown_or_repeated_keyword_is_refused() -> None:
    """Names are the prototype's."""
    with pytest.raises(CompileError, match="takes no argument length"):
        call(make(), "get_current_comm", None, length=3)
    with pytest.raises(CompileError, match="takes no second argument buf"):
        call(make(), "get_current_comm", None, 3, buf=None)


def test_a_helper_that_the_kernel_lacks_is_an_error() -> None:
    """Named, with the kind of program that lacks it."""
    p = make("helper:get_func_ip@raw_tracepoint")
    with pytest.raises(CompileError, match=r"this kernel has no helper bpf_get_func_ip for raw tracepoint programs"):
        call(p, "get_func_ip", Context())


def test_numbers_keep_the_type_of_c() -> None:
    """u64 results are u64, others s64."""
    p = make()
    assert call(p, "ktime_get_tai_ns").type == U64
    assert call(p, "get_numa_node_id").type == S64
    assert call(p, "get_prandom_u32").limits == (0, (1 << 32) - 1)
