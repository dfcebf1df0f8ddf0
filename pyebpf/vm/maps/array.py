"""Arrays: values that always exist. kernel/bpf/arraymap.c."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.uapi.errno_table import E2BIG, EEXIST, EINVAL
from pyebpf.uapi.flags import BPF_EXIST, BPF_F_LOCK, BPF_F_RDONLY_PROG, BPF_NOEXIST
from pyebpf.vm.maps.base import VmMap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.vm.memory import Region

_INDEX = 4


def _slot(size: int) -> int:
    return size + 7 & ~7


class ArrayMap(VmMap):
    """`max_entries` values that always exist, zero at first. kernel/bpf/arraymap.c."""

    def begin(self) -> None:
        self._values: dict[int, Region] = {}

    def region(self, index: int) -> Region:
        """The memory of one value, made when it is first asked for."""
        found = self._values.get(index)
        if found is None:
            found = self._values[index] = self._region(bytes(self.value_size))
            if self.spec.flags & BPF_F_RDONLY_PROG or self.spec.frozen:
                found.writable = False
        return found

    def lookup(self, key: bytes, cpu: int) -> int:  # noqa: ARG002 - one value for all
        index = int.from_bytes(key, "little")
        return self.region(index).base if index < self.max_entries else 0

    def _check(self, index: int, flags: int) -> int:
        if (flags & ~BPF_F_LOCK) > BPF_EXIST:
            return -EINVAL
        if index >= self.max_entries:
            return -E2BIG
        if (flags & ~BPF_F_LOCK) == BPF_NOEXIST:
            return -EEXIST
        # BPF_F_LOCK is for values with a spin lock in them, which only BTF can tell.
        return -EINVAL if flags & BPF_F_LOCK else 0

    def update(self, key: bytes, value: bytes, flags: int, cpu: int) -> int:  # noqa: ARG002 - one value for all
        index = int.from_bytes(key, "little")
        error = self._check(index, flags)
        if not error:
            self.region(index).data[:] = value
        return error

    def delete(self, key: bytes) -> int:  # noqa: ARG002 - none can be removed
        return -EINVAL

    def elements(self, cpu: int) -> Iterator[tuple[bytes, int]]:  # noqa: ARG002 - one value for all
        for index in range(self.max_entries):
            yield index.to_bytes(_INDEX, "little"), self.region(index).base

    def lookup_elem(self, key: bytes) -> bytes | None:
        index = int.from_bytes(key, "little")
        if index >= self.max_entries:
            return None
        found = self._values.get(index)
        return bytes(found.data) if found is not None else bytes(self.value_size)

    def entries(self) -> dict[bytes, bytes]:
        found = {}
        for index in range(self.max_entries):
            key = index.to_bytes(_INDEX, "little")
            value = self.lookup_elem(key)
            assert value is not None
            found[key] = value
        return found


class PerCpuArrayMap(ArrayMap):
    """An array with a value for each processor under each index."""

    def region(self, index: int) -> Region:
        """The memory of one value; `index` counts processor by processor: entry times processors plus processor."""
        return super().region(index)

    def lookup(self, key: bytes, cpu: int) -> int:
        index = int.from_bytes(key, "little")
        return self.region(index * self.cpus + cpu).base if index < self.max_entries else 0

    def update(self, key: bytes, value: bytes, flags: int, cpu: int) -> int:
        index = int.from_bytes(key, "little")
        error = self._check(index, flags)
        if not error:
            self.region(index * self.cpus + cpu).data[:] = value
        return error

    def elements(self, cpu: int) -> Iterator[tuple[bytes, int]]:
        for index in range(self.max_entries):
            yield index.to_bytes(_INDEX, "little"), self.region(index * self.cpus + cpu).base

    def lookup_elem(self, key: bytes) -> bytes | None:
        index = int.from_bytes(key, "little")
        if index >= self.max_entries:
            return None
        places = range(index * self.cpus, (index + 1) * self.cpus)
        nothing, size = bytes(self.value_size), _slot(self.value_size)
        values = [bytes(self._values[place].data) if place in self._values else nothing for place in places]
        return b"".join(value.ljust(size, b"\0") for value in values)

    def write(self, key: bytes, value: bytes, flags: int = 0) -> int:
        index, size = int.from_bytes(key, "little"), _slot(self.value_size)
        error = self._check(index, flags)
        if not error:
            for cpu in range(self.cpus):
                part = value[cpu * size : cpu * size + self.value_size]
                self.region(index * self.cpus + cpu).data[:] = part
        return error
