"""Helpers by name and call stacks, in the kernel: the verifier takes the calls, and the answers are right."""

from __future__ import annotations

import ctypes
import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pyebpf import helpers
from pyebpf.builder.context import Context
from pyebpf.builder.intrinsics.stacks import kstack, ustack
from pyebpf.builder.values.operations import is_none
from pyebpf.builder.values.records import StructConstructor
from pyebpf.compiler import compile_module
from pyebpf.features import Features
from pyebpf.maps.keyed import KeyedMap
from pyebpf.maps.stack_trace import StackTraceMap
from pyebpf.objects import Map, Program
from pyebpf.specs import ProgramSpec
from pyebpf.types import S64, U32, U64, IntType, Struct, u32, u64
from pyebpf.uapi.bpf import MapType, ProgramType
from tests.builder.harness import Nothing, Probe
from tests.support.needs import needs

if TYPE_CHECKING:
    from collections.abc import Iterator

EVERY_TARGET = pytest.mark.parametrize("target", [Features(), Nothing()], ids=["host", "oldest"])


class Pair(Struct):
    left: u32
    right: u64


class Host(Features):
    """Whoever asks for more than features asks for the process's own namespace."""

    pid_namespace = None


class Running:
    """A probe that stores its answers into an array, `results`, whose helpers are asked of this kernel."""

    def __init__(self, size: int = 8, type_: IntType = S64) -> None:
        self.p = Probe()
        self.p.target = Host()  # type: ignore[assignment]  # features and namespace are all that is asked
        self.results = KeyedMap("results", MapType.ARRAY, U32, type_, size)

    def call(self, name: str, *arguments: Any) -> Any:
        return getattr(helpers, name).call(self.p, arguments, {})

    def keep(self, index: int, value: Any) -> None:
        self.results.set_item(self.p, index, value)

    @contextmanager
    def run(self, target: Any) -> Iterator[dict[str, Map]]:
        p = self.p
        p.ret(0)
        code = compile_module(p.finish(), target, check=True)
        lost = p.drop_counters.spec()
        maps = {spec.name: Map(spec) for spec in ({**p.maps, **({lost.name: lost} if lost else {})}).values()}
        try:
            with Program(ProgramSpec("test", ProgramType.RAW_TRACEPOINT, code), maps) as program:
                program.test_run(context=bytes(8))
                yield maps
        finally:
            for each in maps.values():
                each.close()


@EVERY_TARGET
def test_helpers_give_what_the_kernel_says(target: Any) -> None:
    """Time, ids and comparisons, by the names in linux/bpf.h."""
    needs("helper:strncmp@raw_tracepoint")
    r = Running()
    r.keep(0, r.call("ktime_get_ns"))
    r.keep(1, r.call("get_prandom_u32"))
    r.keep(2, r.call("get_current_pid_tgid").binary(r.p, ">>", 32))
    record = StructConstructor(Pair).call(r.p, (0x64636261, 0), {}).local(r.p)
    r.keep(3, r.call("strncmp", record, 5, "abcd"))
    r.keep(4, r.call("strncmp", record, 5, "abce"))
    r.keep(5, r.call("probe_read_kernel", record, 16, 8))
    before = time.monotonic_ns()
    with r.run(target) as maps:
        found = list(maps["results"].values())
    assert before <= found[0] <= time.monotonic_ns()
    assert 0 <= found[1] < 1 << 32
    assert found[2] == os.getpid()
    assert found[3] == 0
    assert found[4] < 0
    assert found[5] < 0


@EVERY_TARGET
def test_helpers_take_maps_and_their_entries(target: Any) -> None:
    """map_update_elem and map_lookup_elem with a record as key."""
    r = Running(type_=U64)
    pairs = KeyedMap("pairs", MapType.HASH, Pair.layout, U64, 8)
    key = StructConstructor(Pair).call(r.p, (3, 4), {}).local(r.p)
    missing = r.call("map_lookup_elem", pairs, key)
    with r.p.b.if_(is_none(r.p, missing)):
        r.keep(0, 1)
    value = StructConstructor(Pair).call(r.p, (17, 0), {})
    r.call("map_update_elem", pairs, key, value, 0)
    entry = r.call("map_lookup_elem", pairs, key)
    with r.p.b.if_(is_none(r.p, entry)):
        r.keep(1, 1)
    with r.p.b.else_():
        r.keep(2, entry)
    with r.run(target) as maps:
        assert list(maps["results"].values())[:3] == [1, 0, 17]
        assert dict(maps["pairs"].items()) == {Pair(3, 4): 17}


def test_a_helper_that_programs_of_this_kind_lack_is_refused_before_the_verifier() -> None:
    """skb_store_bytes is for packets."""
    from pyebpf.errors import CompileError

    r = Running()
    with pytest.raises(CompileError, match="no helper bpf_skb_store_bytes for raw tracepoint programs"):
        r.call("skb_store_bytes", Context(), 0, b"abcd", 4, 0)


@EVERY_TARGET
def test_stacks_are_kept_and_read_back(target: Any) -> None:
    """One in the kernel, one of this process; the same place in the code gives the same number."""
    r = Running()
    r.keep(0, kstack.call(r.p, (), {}))  # type: ignore[attr-defined]  # a Word
    r.keep(1, ustack.call(r.p, (), {}))  # type: ignore[attr-defined]  # a Word
    r.keep(2, kstack.call(r.p, (), {"skip": 2}))  # type: ignore[attr-defined]  # a Word
    with r.run(target) as maps:
        kernel, user, outer = list(maps["results"].values())[:3]
        stacks = StackTraceMap(maps)
        assert kernel >= 0
        assert user >= 0
        assert len(stacks[kernel]) > 3
        assert all(frame >> 63 for frame in stacks[kernel])
        assert not any(frame >> 63 for frame in stacks[user])
        assert stacks[outer] == stacks[kernel][2:]
        # The innermost frame in user space is where the C library makes its system call.
        function = ctypes.cast(ctypes.CDLL(None).syscall, ctypes.c_void_p).value
        assert function is not None
        assert function <= stacks[user][0] < function + 256
        assert sorted(stacks) == sorted({kernel, user, outer})
