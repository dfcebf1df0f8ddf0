"""Kernel functions on masks of processors (struct bpf_cpumask). kernel/bpf/cpumask.c.

Those that only look take any struct cpumask, as the `cpus_ptr` of a task that the test made; those that change one take
what bpf_cpumask_create gave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import VmError
from pyebpf.uapi.errno_table import EACCES
from pyebpf.vm.kobjects import acquired, release
from pyebpf.vm.memory import Region

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.vm.machine import Machine

_LOW = 0xFFFF_FFFF
#: Bytes of a mask where NR_CPUS is 8192, as distributions have it; programs may load its words.
_SIZE = 1024


def bpf_cpumask_create(vm: Machine) -> int:
    """An empty mask, to be given back."""
    region = Region("mem", "cpumask", bytearray(_SIZE), writable=False)
    address = vm.memory.add(region)
    vm.cpumasks[address] = region
    return acquired(vm, address)


def bpf_cpumask_acquire(vm: Machine, address: int) -> int:
    """One more reference."""
    _own(vm, address)
    return acquired(vm, address)


def bpf_cpumask_release(vm: Machine, address: int) -> None:
    """Give it back."""
    _own(vm, address)
    release(vm, address, "bpf_cpumask_release")


def _own(vm: Machine, address: int) -> Region:
    if address not in vm.cpumasks:
        raise VmError(f"{address:#x} is not a cpumask of bpf_cpumask_create()")
    return vm.cpumasks[address]


def _mask(vm: Machine, address: int) -> int:
    """The processors in a mask as a number's bits."""
    data = vm.memory.peek(address, (vm.cpus + 63) // 64 * 8)
    if data is None:
        raise VmError(f"{address:#x} is not a cpumask")
    return int.from_bytes(data, "little") & _all(vm)


def _set(vm: Machine, address: int, mask: int) -> None:
    region = _own(vm, address)
    region.data[:] = mask.to_bytes(_SIZE, "little")


def _bit(vm: Machine, cpu: int) -> int:
    """The processor's bit; 0 for one that there is not."""
    cpu &= _LOW
    return 1 << cpu if cpu < vm.cpus else 0


def _all(vm: Machine) -> int:
    return (1 << vm.cpus) - 1


def bpf_cpumask_set_cpu(vm: Machine, cpu: int, address: int) -> None:
    """Add a processor."""
    _set(vm, address, _mask(vm, address) | _bit(vm, cpu))


def bpf_cpumask_clear_cpu(vm: Machine, cpu: int, address: int) -> None:
    """Remove a processor."""
    _set(vm, address, _mask(vm, address) & ~_bit(vm, cpu))


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
    _set(vm, address, _all(vm))


def bpf_cpumask_clear(vm: Machine, address: int) -> None:
    """Remove all processors."""
    _set(vm, address, 0)


def bpf_cpumask_first(vm: Machine, address: int) -> int:
    """The lowest processor in it; a number that no processor has if it is empty."""
    return _first(vm, _mask(vm, address))


def bpf_cpumask_first_zero(vm: Machine, address: int) -> int:
    """The lowest processor that is not in it."""
    return _first(vm, ~_mask(vm, address) & _all(vm))


def bpf_cpumask_first_and(vm: Machine, left: int, right: int) -> int:
    """The lowest processor that is in both."""
    return _first(vm, _mask(vm, left) & _mask(vm, right))


def bpf_cpumask_any_distribute(vm: Machine, address: int) -> int:
    """A processor in it, another one each time as far as there are more."""
    return _next(vm, _mask(vm, address))


def bpf_cpumask_any_and_distribute(vm: Machine, left: int, right: int) -> int:
    """A processor that is in both, another one each time as far as there are more."""
    return _next(vm, _mask(vm, left) & _mask(vm, right))


def _next(vm: Machine, mask: int) -> int:
    """The next processor after the one that was given out last, round and round."""
    found = _first(vm, mask >> vm.distributed + 1 << vm.distributed + 1) if mask else vm.cpus
    if mask and found == vm.cpus:
        found = _first(vm, mask)
    if mask:
        vm.distributed = found
    return found


def _first(vm: Machine, mask: int) -> int:
    return (mask & -mask).bit_length() - 1 if mask else vm.cpus


def bpf_cpumask_weight(vm: Machine, address: int) -> int:
    """Count the processors in a mask."""
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
    _set(vm, to, _mask(vm, source))


def bpf_cpumask_and(vm: Machine, to: int, left: int, right: int) -> int:
    """Store the intersection of two masks; whether it has a processor."""
    both = _mask(vm, left) & _mask(vm, right)
    _set(vm, to, both)
    return int(both != 0)


def bpf_cpumask_or(vm: Machine, to: int, left: int, right: int) -> None:
    """Store the union of two masks."""
    _set(vm, to, _mask(vm, left) | _mask(vm, right))


def bpf_cpumask_xor(vm: Machine, to: int, left: int, right: int) -> None:
    """Store the symmetric difference of two masks."""
    _set(vm, to, _mask(vm, left) ^ _mask(vm, right))


def bpf_cpumask_populate(vm: Machine, address: int, source: int, size: int) -> int:
    """Let it be as these bytes say. The kernel wants as many as its struct cpumask has: NR_CPUS bits."""
    if size & _LOW < (vm.cpus + 63) // 64 * 8:
        return -EACCES
    data = vm.memory.read(source, size & _LOW)
    _set(vm, address, int.from_bytes(data, "little") & _all(vm))
    return 0


KFUNCS: dict[str, Callable[..., int | None]] = {
    function.__name__: function
    for function in (
        bpf_cpumask_create, bpf_cpumask_acquire, bpf_cpumask_release, bpf_cpumask_set_cpu, bpf_cpumask_clear_cpu,
        bpf_cpumask_test_cpu, bpf_cpumask_test_and_set_cpu, bpf_cpumask_test_and_clear_cpu, bpf_cpumask_setall,
        bpf_cpumask_clear, bpf_cpumask_first, bpf_cpumask_first_zero, bpf_cpumask_first_and,
        bpf_cpumask_any_distribute, bpf_cpumask_any_and_distribute, bpf_cpumask_weight, bpf_cpumask_empty,
        bpf_cpumask_full, bpf_cpumask_equal, bpf_cpumask_intersects, bpf_cpumask_subset, bpf_cpumask_copy,
        bpf_cpumask_and, bpf_cpumask_or, bpf_cpumask_xor, bpf_cpumask_populate,
    )
}  # fmt: skip
"""By name."""
