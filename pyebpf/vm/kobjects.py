"""Kernel functions that hand out objects which are counted: control groups by their id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import VmError
from pyebpf.vm.memory import Region

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.vm.machine import Machine


def acquired(vm: Machine, address: int) -> int:
    """The address of an object, of which the program now holds one more reference."""
    vm.acquired[address] = vm.acquired.get(address, 0) + 1
    return address


def release(vm: Machine, address: int, function: str) -> None:
    """Count one reference less; a VmError if there is none."""
    if not vm.acquired.get(address):
        raise VmError(
            f"release kernel function {function} expects refcounted PTR_TO_BTF_ID: {address:#x} is held by nobody"
        )
    vm.acquired[address] -= 1


def bpf_cgroup_from_id(vm: Machine, identifier: int) -> int:
    """The control group of `machine.cgroups`, or the machine's own, to be given back; NULL if there is none."""
    if identifier == vm.cgroup_id and identifier not in vm.cgroups:
        vm.cgroups[identifier] = vm.memory.add(Region("kernel", "cgroup", bytearray(8)))
    address = vm.cgroups.get(identifier, 0)
    return acquired(vm, address) if address else 0


def bpf_cgroup_release(vm: Machine, address: int) -> None:
    """Give it back."""
    release(vm, address, "bpf_cgroup_release")


KFUNCS: dict[str, Callable[..., int | None]] = {
    function.__name__: function for function in (bpf_cgroup_from_id, bpf_cgroup_release)
}
"""By name."""
