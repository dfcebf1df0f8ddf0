"""Base of every emulated map: its spec, its address, and the operations that helpers call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.errors import KernelError, NotLoaded, VmError
from pyebpf.uapi.errno_table import E2BIG, EEXIST, ENOENT
from pyebpf.uapi.flags import BPF_ANY, BPF_EXIST, BPF_F_LOCK, BPF_F_RDONLY_PROG, BPF_F_WRONLY_PROG, BPF_NOEXIST
from pyebpf.vm.memory import Region

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from pyebpf.specs import MapSpec
    from pyebpf.vm.memory import Memory


class VmMap:
    """One map. Keys and values are bytes; values that programs reach live in regions of the machine's memory.

    The operations return what the helpers of these names do: an address (0: NULL), or 0 or a negative error number.
    """

    def __init__(self, spec: MapSpec, memory: Memory, cpus: int) -> None:
        self.spec = spec
        self.name = spec.name
        self.memory = memory
        self.cpus = cpus
        self.key_size = spec.key.size if spec.key is not None else 0
        self.value_size = spec.value.size if spec.value is not None else 0
        self.key_type, self.value_type = spec.key_type, spec.value_type
        self.max_entries = spec.max_entries
        self.processors = cpus if spec.traits.per_cpu else 1
        self.address = memory.add(Region("map_ptr", spec.name, bytearray(1)))
        memory.maps[self.address] = self
        self.begin()

    def begin(self) -> None:
        """Make what a kind has of its own."""

    def __repr__(self) -> str:
        return f"<{self.spec.type.name} {self.name} of the vm>"

    def _region(self, value: bytes) -> Region:
        flags = self.spec.flags
        writable, loadable = not flags & BPF_F_RDONLY_PROG, not flags & BPF_F_WRONLY_PROG
        region = Region("map_value", self.name, bytearray(value), writable=writable, loadable=loadable)
        self.memory.add(region)
        return region

    def _unfit(self, operation: str) -> VmError:
        kind = self.spec.type.name.lower()
        return VmError(f"cannot pass map_type {self.spec.type} into func bpf_map_{operation} ({self.name} is a {kind})")

    # --- what programs call ---

    def lookup(self, key: bytes, cpu: int) -> int:  # noqa: ARG002 - the interface's
        """Address of the value, 0 if there is none."""
        raise self._unfit("lookup_elem")

    def update(self, key: bytes, value: bytes, flags: int, cpu: int) -> int:  # noqa: ARG002 - the interface's
        """Store a value; BPF_ANY, BPF_NOEXIST or BPF_EXIST."""
        raise self._unfit("update_elem")

    def delete(self, key: bytes) -> int:  # noqa: ARG002 - the interface's
        """Remove a key."""
        raise self._unfit("delete_elem")

    def push(self, value: bytes, flags: int) -> int:  # noqa: ARG002 - the interface's
        """Put a value into a queue or stack."""
        raise self._unfit("push_elem")

    def take(self, *, remove: bool) -> bytes | None:
        """The value at the head of a queue or stack."""
        raise self._unfit("pop_elem" if remove else "peek_elem")

    def elements(self, cpu: int) -> Iterator[tuple[bytes, int]]:  # noqa: ARG002 - the interface's
        """Keys and addresses of values, in the order of bpf_for_each_map_elem."""
        raise VmError(f"cannot pass map_type {self.spec.type} into func bpf_for_each_map_elem ({self.name})")

    # --- what user space does: as `pyebpf.maps.store.MapStore` says ---

    def lookup_elem(self, key: bytes) -> bytes | None:  # noqa: ARG002 - the interface's
        """The value as the system call gives it, a per-CPU map's slots end to end; None: no such key."""
        return None

    def peek_elem(self, value: bytes) -> bytes | None:  # noqa: ARG002 - the interface's
        """The value at the head of a queue or stack; of a Bloom filter, `value` if it was added."""
        return self.take(remove=False)

    def write(self, key: bytes, value: bytes, flags: int = BPF_ANY) -> int:
        """Store a value as the system call does; 0 or a negative error number."""
        return self.update(key, value, flags, 0)

    def update_elem(self, key: bytes, value: bytes, flags: int = BPF_ANY) -> None:
        """`write`, whose error is raised."""
        error = -self.write(key, value, flags)
        if error:
            reason = f"it is full: it holds {self.max_entries} entries" if error == E2BIG else f"error {error}"
            raise KernelError(f"writing map {self.name}: {reason}", error)

    def delete_elem(self, key: bytes) -> bool:
        """Remove a key; whether it was there."""
        return not self.delete(key)

    def lookup_and_delete_elem(self, key: bytes) -> bytes | None:
        """The value of a key, which is removed."""
        value = self.lookup_elem(key)
        if value is not None:
            self.delete_elem(key)
        return value

    def entries(self) -> dict[bytes, bytes]:
        """Everything, as the system call gives it."""
        return {}

    def lookup_batches(self) -> Iterator[tuple[bytes, bytes, int]]:
        """`entries`, keys and values laid end to end."""
        found = self.entries()
        if found:
            yield b"".join(found), b"".join(found.values()), len(found)

    def lookup_and_delete_batches(self) -> Iterator[tuple[bytes, bytes, int]]:
        """Everything, taken out."""
        found = self.entries()
        yield from self.lookup_batches()
        for key in found:
            self.delete_elem(key)

    def update_batch(self, keys: bytes, values: bytes, count: int) -> None:
        """Store many values."""
        key_size, value_size = len(keys) // count, len(values) // count
        for index in range(count):
            value = values[index * value_size : (index + 1) * value_size]
            self.update_elem(keys[index * key_size : (index + 1) * key_size], value)

    def delete_batch(self, keys: Sequence[bytes]) -> int:
        """Remove many keys; how many were there."""
        return sum(map(self.delete_elem, keys))

    def object_number(self, value: object) -> object:
        """The number that stands for an object: its descriptor."""
        return value.fileno() if hasattr(value, "fileno") else value

    def inner_store(self, number: int) -> VmMap:
        """The map that a map of maps holds under a number."""
        return self.memory.maps[number]

    def make_inner(self) -> VmMap:
        """A new map of the inner maps' shape."""
        from pyebpf.vm.maps import make_map

        assert self.spec.inner_map is not None
        return make_map(self.spec.inner_map, self.memory, self.cpus)

    def fileno(self) -> int:
        """There is no descriptor."""
        raise NotLoaded(f"map {self.name} is simulated: it has no descriptor")

    def window(self, *, writable: bool = True) -> Any:  # noqa: ARG002 - the interface's
        """There is no memory to map."""
        raise NotLoaded(f"map {self.name} is simulated: it has no memory in this process")


def exists_error(flags: int, *, exists: bool) -> int:
    """Check BPF_NOEXIST and BPF_EXIST: 0 or a negative error number."""
    flags &= ~BPF_F_LOCK
    if exists and flags == BPF_NOEXIST:
        return -EEXIST
    if not exists and flags == BPF_EXIST:
        return -ENOENT
    return 0
