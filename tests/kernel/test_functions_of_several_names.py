"""Functions of the kernel whose code has several names: found by each of them, attached and counted once."""

from __future__ import annotations

import ctypes
import os

import pytest

from pyebpf import BPF, function_ip, pid, u64
from pyebpf.arch import host
from pyebpf.kernel.tracefs import Tracefs
from pyebpf.programs import funccount
from pyebpf.runtime.host import host_target
from pyebpf.symbols.search import SymbolText
from tests.support.needs import needs, unless

ME = os.getpid()
libc = ctypes.CDLL(None, use_errno=True)


def gettid(times: int) -> None:
    """Call it so many times. It has no arguments, so that its wrappers for 32 and 64 bits are the same code."""
    number = host().system_call("gettid")
    for _ in range(times):
        libc.syscall(number)


@pytest.fixture(scope="module")
def names() -> tuple[str, ...]:
    """The names of gettid(2)'s function."""
    text = SymbolText()
    found = text.find("__x64_sys_gettid") or text.find("__do_sys_gettid")
    several = text.names_at(found[0].address) if found else ()
    unless(len(several) > 1, "functions of one address")
    return several


def matching(pattern: str) -> list[str]:
    with Tracefs() as tracefs:
        return list(host_target(lambda: tracefs).functions(pattern))


def counted(pattern: str) -> dict[str, int]:
    """The rows of funccount after 1,009 calls."""
    with funccount.open(pattern, pid=ME) as snapshot:
        snapshot()
        gettid(1009)
        return {row.func: row.count for row in snapshot()}


def test_a_pattern_finds_a_function_by_each_of_its_names(names: tuple[str, ...]) -> None:
    """The list of ftrace has one of them. A pattern that several match has it once."""
    needs("attach:kprobe")
    for name in names:
        assert matching(f"{name[:-1]}[d]") == [name]
    assert len(set(matching("*sys_gettid")) & set(names)) == 1


def test_funccount_counts_it_once_under_all_names_that_match(names: tuple[str, ...]) -> None:
    """1,009 calls by each name alone, and by all of them."""
    needs("attach:kprobe")
    for name in names:
        assert counted(f"{name[:-1]}[d]") == {name: 1009}
    (row,) = [(set(func.split("/")), count) for func, count in counted("*sys_gettid").items() if "_gettid" in func]
    assert row == (set(names), 1009)


def test_a_pattern_of_trampolines_leaves_out_what_btf_lacks(names: tuple[str, ...]) -> None:
    """BTF has __x64_sys_getpgid, and of gettid's names another."""
    needs("attach:fentry", "helper:get_func_ip@kprobe")
    unless("__x64_sys_gettid" in names and "__x64_sys_getpgid" in matching("__x64_sys_get*"), "BTF of one name")
    bpf = BPF()
    calls = bpf.hash(key=u64, value=u64)

    @bpf.fentry("__x64_sys_get[tp]*id")
    def on_call() -> None:
        if pid() == ME:
            calls[function_ip()] += 1

    with bpf:
        gettid(5)
        os.getpgid(0)
        assert [(bpf.function_name(address), count) for address, count in calls.items()] == [("__x64_sys_getpgid", 1)]


@pytest.mark.parametrize("how", ["kprobe", "kprobe_multi", "function"])
def test_each_way_to_probe_takes_the_pattern(how: str, names: tuple[str, ...]) -> None:
    """The address has all names, for `function_names`."""
    needs("attach:kprobe", *([] if how == "function" else [f"attach:{how}"]))
    bpf = BPF()
    calls = bpf.hash(key=u64, value=u64)

    @getattr(bpf, how)("__x64_sys_getti*")
    def on_call() -> None:
        if pid() == ME:
            calls[function_ip()] += 1

    with bpf:
        gettid(1009)
        ((address, count),) = calls.items()
        assert count == 1009
        assert set(bpf.function_names(address)) == set(names)
        assert bpf.function_name(address) in names
        assert bpf.function_names(1) == ()
