"""Kernel functions that hand out objects: control groups by their id, masks of processors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import VmError
from pyebpf.vm.memory import Region

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.vm.machine import Machine

__all__ = ["KFUNCS"]

_LOW = 0xFFFF_FFFF


def _acquired(vm: Machine, address: int) -> int:
    vm.acquired[address] = vm.acquired.get(address, 0) + 1
    return address


def _release(vm: Machine, address: int, function: str) -> None:
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
    return _acquired(vm, address) if address else 0


def bpf_cgroup_release(vm: Machine, address: int) -> None:
    """Give it back."""
    _release(vm, address, "bpf_cgroup_release")


def bpf_cpumask_create(vm: Machine) -> int:
    """An empty mask, to be given back."""
    address = vm.memory.add(Region("kernel", "cpumask", bytearray(8)))
    vm.cpumasks[address] = 0
    return _acquired(vm, address)


def bpf_cpumask_acquire(vm: Machine, address: int) -> int:
    """One more reference."""
    _mask(vm, address)
    return _acquired(vm, address)


def bpf_cpumask_release(vm: Machine, address: int) -> None:
    """Give it back."""
    _mask(vm, address)
    _release(vm, address, "bpf_cpumask_release")


def _mask(vm: Machine, address: int) -> int:
    if address not in vm.cpumasks:
        raise VmError(f"{address:#x} is no cpumask of bpf_cpumask_create()")
    return vm.cpumasks[address]


def _bit(vm: Machine, cpu: int) -> int:
    """The processor's bit; 0 for one that there is not."""
    cpu &= _LOW
    return 1 << cpu if cpu < vm.cpus else 0


def _all(vm: Machine) -> int:
    return (1 << vm.cpus) - 1


def bpf_cpumask_set_cpu(vm: Machine, cpu: int, address: int) -> None:
    """Add a processor."""
    vm.cpumasks[address] = _mask(vm, address) | _bit(vm, cpu)


def bpf_cpumask_clear_cpu(vm: Machine, cpu: int, address: int) -> None:
    """Remove a processor."""
    vm.cpumasks[address] = _mask(vm, address) & ~_bit(vm, cpu)


def bpf_cpumask_test_cpu(vm: Machine, cpu: int, address: int) -> int:
    """Whether it is in it."""
    return int(_mask(vm, address) & _bit(vm, cpu) != 0)


def bpf_cpumask_test_and_set_cpu(vm: Machine, cpu: int, address: int) -> int:
    """Add a processor; whether it was in it."""
    before = bpf_cpumask_test_cpu(vm, cpu, address)
    bpf_cpumask_set_cpu(vm, cpu, address)
    return before


def bpf_cpumask_test_and_clear_cpu(vm: Machine, cpu: int, address: int) -> int:
    """Remove a processor; whether it was in it."""
    before = bpf_cpumask_test_cpu(vm, cpu, address)
    bpf_cpumask_clear_cpu(vm, cpu, address)
    return before


def bpf_cpumask_setall(vm: Machine, address: int) -> None:
    """Add all processors."""
    _mask(vm, address)
    vm.cpumasks[address] = _all(vm)


def bpf_cpumask_clear(vm: Machine, address: int) -> None:
    """Remove all processors."""
    _mask(vm, address)
    vm.cpumasks[address] = 0


def bpf_cpumask_first(vm: Machine, address: int) -> int:
    """The lowest processor in it; a number that no processor has if it is empty."""
    return _first(vm, _mask(vm, address))


def bpf_cpumask_first_zero(vm: Machine, address: int) -> int:
    """The lowest processor that is not in it."""
    return _first(vm, ~_mask(vm, address) & _all(vm))


def _first(vm: Machine, mask: int) -> int:
    return (mask & -mask).bit_length() - 1 if mask else vm.cpus


def bpf_cpumask_weight(vm: Machine, address: int) -> int:
    """How many processors are in it."""
    return _mask(vm, address).bit_count()


def bpf_cpumask_empty(vm: Machine, address: int) -> int:
    """Whether none is."""
    return int(not _mask(vm, address))


def bpf_cpumask_full(vm: Machine, address: int) -> int:
    """Whether all are."""
    return int(_mask(vm, address) == _all(vm))


def bpf_cpumask_equal(vm: Machine, left: int, right: int) -> int:
    """Whether both have the same."""
    return int(_mask(vm, left) == _mask(vm, right))


def bpf_cpumask_intersects(vm: Machine, left: int, right: int) -> int:
    """Whether some processor is in both."""
    return int(_mask(vm, left) & _mask(vm, right) != 0)


def bpf_cpumask_subset(vm: Machine, left: int, right: int) -> int:
    """Whether the second has all of the first."""
    return int(not _mask(vm, left) & ~_mask(vm, right))


def bpf_cpumask_copy(vm: Machine, to: int, source: int) -> None:
    """Let the first be as the second."""
    _mask(vm, to)
    vm.cpumasks[to] = _mask(vm, source)


def bpf_cpumask_and(vm: Machine, to: int, left: int, right: int) -> int:
    """What is in both; whether anything is."""
    _mask(vm, to)
    vm.cpumasks[to] = _mask(vm, left) & _mask(vm, right)
    return int(vm.cpumasks[to] != 0)


def bpf_cpumask_or(vm: Machine, to: int, left: int, right: int) -> None:
    """What is in one of them."""
    _mask(vm, to)
    vm.cpumasks[to] = _mask(vm, left) | _mask(vm, right)


def bpf_cpumask_xor(vm: Machine, to: int, left: int, right: int) -> None:
    """What is in just one of them."""
    _mask(vm, to)
    vm.cpumasks[to] = _mask(vm, left) ^ _mask(vm, right)


KFUNCS: dict[str, Callable[..., int | None]] = {
    function.__name__: function
    for function in (
        bpf_cgroup_from_id, bpf_cgroup_release, bpf_cpumask_create, bpf_cpumask_acquire, bpf_cpumask_release,
        bpf_cpumask_set_cpu, bpf_cpumask_clear_cpu, bpf_cpumask_test_cpu, bpf_cpumask_test_and_set_cpu,
        bpf_cpumask_test_and_clear_cpu, bpf_cpumask_setall, bpf_cpumask_clear, bpf_cpumask_first,
        bpf_cpumask_first_zero, bpf_cpumask_weight, bpf_cpumask_empty, bpf_cpumask_full, bpf_cpumask_equal,
        bpf_cpumask_intersects, bpf_cpumask_subset, bpf_cpumask_copy, bpf_cpumask_and, bpf_cpumask_or,
        bpf_cpumask_xor,
    )
}  # fmt: skip
"""By name."""
