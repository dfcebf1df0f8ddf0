"""Registers and system calls of each architecture, checked against the host where it is one of them."""

from __future__ import annotations

import os
import re

import pytest

from pyebpf.arch import architecture, host
from pyebpf.errors import NotFound


def test_x86_64():
    """Offsets in struct pt_regs; arguments of functions and of system calls differ in the fourth."""
    x86 = architecture("x86_64")
    assert [x86.register_offset(name) for name in x86.arguments] == [112, 104, 96, 88, 72, 64]
    assert [x86.register_offset(name) for name in x86.call_arguments] == [112, 104, 96, 56, 72, 64]
    assert [x86.register_offset(n) for n in (x86.result, x86.stack, x86.instruction, x86.call_number)] == [
        80,
        152,
        128,
        120,
    ]
    assert max(x86.registers.values()) + 8 == x86.registers_size


def test_aarch64():
    """x0 to x7, and the first argument of a system call kept apart."""
    arm = architecture("aarch64")
    assert [arm.register_offset(name) for name in arm.arguments] == list(range(0, 64, 8))
    assert arm.register_offset(arm.call_arguments[0]) == 272
    assert [arm.register_offset(n) for n in (arm.stack, arm.instruction, "x30")] == [248, 256, 240]


@pytest.mark.parametrize(
    ("machine", "calls"),
    [
        ("x86_64", {"read": 0, "openat": 257, "perf_event_open": 298, "bpf": 321, "uprobe": 336, "fsmount": 432}),
        ("aarch64", {"read": 63, "openat": 56, "perf_event_open": 241, "bpf": 280, "fsopen": 430, "fsmount": 432}),
    ],
)
def test_system_calls(machine, calls):
    """Numbers by name and names by number, one name a number, up to 6.18's last."""
    found = architecture(machine)
    assert {name: found.system_call(name) for name in calls} == calls
    assert found.system_call("file_setattr") == max(found.system_call_names) == 469
    assert len(found.system_call_names) == len(found.system_calls)
    assert all(found.system_call_names[number] == name for name, number in calls.items())


def test_unknown_names():
    """Closest names; known architectures."""
    with pytest.raises(NotFound, match=re.escape("x86_64 has no system call 'opena' (did you mean open")):
        architecture("x86_64").system_call("opena")
    with pytest.raises(NotFound, match="x86_64 has no register 'rdi'"):
        architecture("x86_64").register_offset("rdi")
    with pytest.raises(NotFound, match="nothing of the architecture 'vax', only of x86_64 and aarch64"):
        architecture("vax")


def test_host():
    """The same object each time, named as uname(2) names it."""
    assert host() is host()
    assert host().name == os.uname().machine
    assert len({host(), architecture("x86_64"), architecture("aarch64")}) == 2
