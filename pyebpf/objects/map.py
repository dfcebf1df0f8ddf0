"""Maps of the kernel, each by its descriptor: byte stores by bpf(2), as the class that fits their kind."""

from __future__ import annotations

import errno
from functools import cache
from typing import TYPE_CHECKING, Any, Self

from pyebpf.closing import Closing
from pyebpf.dataclass import replace
from pyebpf.errors import InvalidValue, KernelError, NotLoaded, NotSupported, check_argument
from pyebpf.kernel import bpf, map_elements
from pyebpf.kernel.cpus import possible_cpus
from pyebpf.kernel.errors_in_words import kernel_error, pin_error
from pyebpf.kernel.memory import PAGE_SIZE
from pyebpf.maps import python_side
from pyebpf.maps.mapping import StoredMapping
from pyebpf.maps.store import Stored
from pyebpf.objects import elements
from pyebpf.specs import MapSpec
from pyebpf.specs.map_traits import Value
from pyebpf.specs.programs import kernel_name
from pyebpf.types import BytesType, StructType
from pyebpf.types.codecs import slot_size
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_LOCK, BPF_F_NUMA_NODE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.kernel.info import MapInfo
    from pyebpf.objects.window import Window
    from pyebpf.types import Type

_UNSIZED = 1 << 20
#: Bytes of a program's stack, and what is told of keys that are longer where the kernel does not take them.
_STACK = 512
_LONG_KEY = "; before Linux 5.11 keys have 512 bytes at most"


def holds_lock(kind: Type | None) -> bool:
    """Whether a value of this type has a `struct bpf_spin_lock`, which BPF_F_LOCK takes."""
    return isinstance(kind, StructType) and any(f.type.c_name == "struct bpf_spin_lock" for f in kind.fields)


class KernelMap(Closing):
    """One kernel map; owns its descriptor. Keys and values are bytes here (see `pyebpf.maps.store.MapStore`).

    `descriptor` is one of a map that is there already, which must have the spec's shape. Raises InvalidValue for a
    spec that no kernel takes, KernelError, NotSupported or NotPermitted for one that this kernel did not.
    """

    def __init__(self, spec: MapSpec, descriptor: Descriptor | None = None) -> None:
        check_argument("spec", spec, MapSpec, "a MapSpec")
        self.spec = spec
        kind = spec.type
        try:
            spec.check(PAGE_SIZE)
            traits = spec.traits
            self.key_type: Type | None = spec.key_type
            self.value_type: Type | None = spec.value_type
            self.max_entries = spec.entries(PAGE_SIZE)
            if kind is MapType.PERF_EVENT_ARRAY:
                self.max_entries = spec.max_entries or possible_cpus()
            self._lock_flag = BPF_F_LOCK if holds_lock(spec.value) else 0
            self._key_size = self.key_type.size if self.key_type is not None else 0
            size = self.value_type.size if self.value_type is not None else 0
            self.processors = possible_cpus() if traits.per_cpu else 1
            self._value_size = slot_size(size) * self.processors if traits.per_cpu else size
        except BaseException:
            if descriptor is not None:
                descriptor.close()
            raise
        self._window: Window | None = None
        if descriptor is not None:
            self._descriptor = descriptor
            self._check_shape()
            return
        self._descriptor = self._create(self._key_size, size)
        try:
            self._fill()
        except BaseException:
            self._descriptor.close()
            raise

    # --- making ---

    def _create(self, key_size: int, value_size: int) -> Descriptor:
        spec = self.spec
        flags = spec.flags | (BPF_F_NUMA_NODE if spec.numa_node is not None else 0)
        options: dict[str, int] = {"numa_node": spec.numa_node or 0, "map_extra": spec.extra}
        held: list[KernelMap | Descriptor] = []
        try:
            if spec.inner_map is not None:
                inner = KernelMap(spec.inner_map)
                held.append(inner)
                options["inner_map_fd"] = inner.fileno()
            if spec.with_btf or self._needs_types:
                value_size = self._describe(options, held, value_size)
            return bpf.map_create(
                spec.type, key_size, value_size, self.max_entries, flags=flags, name=kernel_name(spec.name), **options
            )
        except OSError as error:
            if isinstance(error, KernelError):
                raise
            sizes = f"key {key_size}, value {value_size}, {self.max_entries} entries"
            node = f", NUMA node {spec.numa_node}" if spec.numa_node is not None else ""
            shape = f"{spec.type.name}, {sizes}, flags {flags:#x}{node}"
            if error.errno == errno.EPERM:
                from pyebpf.kernel.memlock import shortage

                if full := shortage(f"creating map {spec.name}"):
                    raise full from error
            from pyebpf.features.requirements import lacking_map

            if missing := lacking_map(spec.type, f"creating map {spec.name}", error.errno or 0):
                raise missing from error
            raise kernel_error(
                error,
                f"creating map {spec.name}",
                needs=("CAP_BPF",),
                meanings={
                    errno.EINVAL: f"the kernel does not take this shape: {shape}",
                    errno.E2BIG: f"too large: {shape}{_LONG_KEY if key_size > _STACK else ''}",
                    errno.ENOMEM: f"no memory: {shape}",
                },
            ) from error
        finally:
            for each in held:
                each.close()

    @property
    def _needs_types(self) -> bool:
        """Whether the kernel makes no such map without BTF."""
        spec = self.spec
        described = spec.btf is not None
        return described or bool(self._lock_flag) or spec.traits.needs_btf or _is_special(spec.value)

    def _describe(self, options: dict[str, int], held: list[KernelMap | Descriptor], value_size: int) -> int:
        """Load BTF of key and value and note its numbers; the value's size, which a struct_ops map takes from BTF."""
        types = self.spec.btf
        if types is not None:
            from pyebpf.objects.btf import shared_btf

            btf = shared_btf(types.btf)
        else:
            from pyebpf.objects.btf import map_types

            types = map_types(self.key_type, self.value_type)
            btf = bpf.btf_load(types.btf).descriptor
        if btf is None and not self._needs_types:
            return value_size  # only other tools would have read it
        if btf is None:
            loaded = bpf.btf_load(types.btf, log_level=1, log_size=PAGE_SIZE)
            from pyebpf.features.requirements import lacking_types

            reason = lacking_types(loaded.log) or loaded.log.strip().rpartition("\n")[2]
            raise kernel_error(loaded.errno, f"loading BTF of map {self.spec.name}: {reason}", needs=("CAP_BPF",))
        held.append(btf)
        options["btf_fd"] = btf.fileno()
        if self.spec.type is MapType.STRUCT_OPS:
            from pyebpf.objects.struct_ops import value_type

            number, self.value_type = value_type(self.spec.struct_ops)
            options["btf_vmlinux_value_type_id"] = number
            self._value_size = self.value_type.size
            return self._value_size
        options["btf_key_type_id"], options["btf_value_type_id"] = types.key, types.value
        return value_size

    def _check_shape(self) -> None:
        """A map that is there already must be what the spec says. Closes it otherwise."""
        try:
            found = self.info()
            if self.spec.type is MapType.STRUCT_OPS:
                self.value_type = BytesType(found.value_size)
                self._value_size = found.value_size
            size = self._value_size // self.processors if not self.spec.traits.per_cpu else None
            wanted = {"kind": int(self.spec.type), "key size": self._key_size, "value size": size}
            real = {"kind": found.type, "key size": found.key_size, "value size": found.value_size}
            wrong = [
                f"{what} {real[what]}, not {wanted[what]}"
                for what in wanted
                if wanted[what] is not None and real[what] != wanted[what]
            ]
        except BaseException:
            self._descriptor.close()
            raise
        if wrong:
            self._descriptor.close()
            raise InvalidValue(f"map {found.name} (id {found.id}) is of another shape: {', '.join(wrong)}")
        self.max_entries = found.max_entries

    def _fill(self) -> None:
        spec = self.spec
        if spec.type is MapType.ARENA:
            for _, content in spec.initial:
                self.window().memory[: len(content)] = content
        elif spec.initial:
            keys = b"".join(key for key, _ in spec.initial)
            values = b"".join(self._spread(value) for _, value in spec.initial)
            done, error = elements.update(self.fileno(), keys, values, len(spec.initial))
            if error:
                raise kernel_error(
                    error, f"filling map {spec.name} (entry {done} of {len(spec.initial)})", needs=("CAP_BPF",)
                )
        if spec.frozen:
            map_elements.map_freeze(self.fileno())

    def _spread(self, value: bytes) -> bytes:
        """The same value for every processor, where there are several."""
        return value if not self.spec.traits.per_cpu else value.ljust(slot_size(len(value)), b"\0") * self.processors

    # --- life ---

    @property
    def name(self) -> str:
        return self.spec.name

    def __repr__(self) -> str:
        state = "closed" if self._descriptor.closed else f"fd {self._descriptor.fileno()}"
        return f"<{type(self).__name__} {self.spec.name}, {self.spec.type.name}, {state}>"

    def fileno(self) -> int:
        """The descriptor's number. Raises NotLoaded after `close()`."""
        if self._descriptor.closed:
            raise NotLoaded(f"map {self.spec.name} is closed: read it inside `with`")
        return self._descriptor.fileno()

    def close(self) -> None:
        """Give up the descriptor and mapped memory; programs that use the map keep it alive."""
        if self._window is not None:
            self._window.close()
            self._window = None
        self._descriptor.close()

    # --- as a whole ---

    def info(self) -> MapInfo:
        """Id, sizes, flags and BTF numbers, as the kernel has them."""
        from pyebpf.kernel.info import map_info

        return map_info(self.fileno())

    def freeze(self) -> None:
        """Refuse writes from user space from now on; programs still write unless BPF_F_RDONLY_PROG forbids it.

        Raises KernelError if it was frozen before or is mapped for writing, NotSupported if its values have locks,
        timers or kernel pointers.
        """
        try:
            map_elements.map_freeze(self.fileno())
        except OSError as error:
            raise kernel_error(
                error,
                f"freezing map {self.spec.name}",
                needs=("CAP_BPF",),
                meanings={
                    errno.EBUSY: "it is frozen already, or mapped for writing: close its windows first",
                    errno.EPERM: "it is frozen already, or was opened for reading only",
                },
            ) from error

    def pin(self, path: str | PathLike[str]) -> None:
        """Give the map a name in a bpf file system, which keeps it after this process; `os.unlink` takes it away."""
        try:
            bpf.obj_pin(self.fileno(), path)
        except OSError as error:
            raise pin_error(error, f"map {self.spec.name}", path) from error

    def window(self, *, writable: bool = True) -> Window:
        """The map's memory itself, read and written without system calls: BPF_F_MMAPABLE arrays, and arenas.

        One window a map; `close()` of the map closes it.
        """
        if self._window is None or self._window.closed:
            from pyebpf.objects.window import Window

            self._window = Window(self, writable=writable)
        return self._window

    # --- entries: what `pyebpf.maps.store.MapStore` says of them ---

    @property
    def store(self) -> Self:
        """Itself, which Python values are read from and written to."""
        return self

    def lookup_elem(self, key: bytes) -> bytes | None:
        try:
            return map_elements.map_lookup_elem(self.fileno(), key, self._value_size, self._lock_flag)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._diagnose(error, "reading") from error

    def peek_elem(self, value: bytes) -> bytes | None:
        try:
            return map_elements.map_lookup_elem_in_place(self.fileno(), value)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._diagnose(error, "reading") from error

    def update_elem(self, key: bytes, value: bytes, flags: int = 0) -> None:
        try:
            map_elements.map_update_elem(self.fileno(), key, value, flags | self._lock_flag)
        except OSError as error:
            raise self._diagnose(error, "writing") from error

    def delete_elem(self, key: bytes) -> bool:
        try:
            map_elements.map_delete_elem(self.fileno(), key)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._diagnose(error, "removing from") from error
        return True

    def lookup_and_delete_elem(self, key: bytes) -> bytes | None:
        try:
            return elements.take(self.fileno(), key, self._value_size)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._diagnose(error, "removing from") from error

    @property
    def _capacity(self) -> int:
        """Entries that there may be; what the kernel sizes by itself (max_entries 0) has no number."""
        return self.max_entries or _UNSIZED

    def lookup_batches(self) -> Iterator[elements.Batch]:
        sizes = self._key_size, self._value_size, self._capacity
        try:
            batches = elements.read_any(self.fileno(), *sizes, self._lock_flag)
            for batch in elements.once(batches, *sizes) if self.spec.type is MapType.LPM_TRIE else batches:
                yield batch
                self.fileno()  # raises where the map was closed meanwhile
        except OSError as error:
            raise self._diagnose(error, "reading") from error

    def lookup_and_delete_batches(self) -> Iterator[elements.Batch]:
        try:
            yield from elements.drain(self.fileno(), self._key_size, self._value_size, self._capacity)
        except OSError as error:
            raise self._diagnose(error, "emptying") from error

    def update_batch(self, keys: bytes, values: bytes, count: int) -> None:
        try:
            elements.write(self.fileno(), count, keys, values, self._lock_flag)
        except OSError as error:
            raise self._diagnose(error, "writing") from error

    def delete_batch(self, keys: Sequence[bytes]) -> int:
        try:
            return elements.remove(self.fileno(), keys)
        except OSError as error:
            raise self._diagnose(error, "removing from") from error

    def object_number(self, value: object) -> object:
        if isinstance(value, str) and self.spec.traits.value is Value.DEVICE:
            from pyebpf.kernel.interfaces import interface_index  # imports socket, which most programs do without

            return interface_index(value)
        return value.fileno() if hasattr(value, "fileno") else value

    def inner_store(self, number: int) -> KernelMap:
        assert self.spec.inner_map is not None
        try:
            descriptor = bpf.map_get_fd_by_id(number)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self._diagnose(error, f"opening map id {number} of") from error
        return self._of_inner_kind(descriptor)

    def make_inner(self) -> KernelMap:
        return self._of_inner_kind(None)

    def _of_inner_kind(self, descriptor: Descriptor | None) -> KernelMap:
        inner = self.spec.inner_map
        assert inner is not None
        return make_map(inner if descriptor is None else replace(inner, initial=(), frozen=False), descriptor)

    def _diagnose(self, error: OSError, doing: str) -> KernelError:
        if error.errno == errno.EBADF and self.spec.type is MapType.INODE_STORAGE:
            from pyebpf.kernel.privileges import security_modules

            active = security_modules()
            if active and "bpf" not in active:
                return NotSupported(
                    f"{doing} map {self.spec.name}: inodes have values where bpf is among the security modules: "
                    f"boot with lsm={','.join(active)},bpf",
                    errno.EBADF,
                )
        return kernel_error(
            error,
            f"{doing} map {self.spec.name}",
            needs=("CAP_BPF",),
            meanings={
                errno.E2BIG: f"it is full: it holds {self.max_entries} entries; give it a larger size",
                errno.EEXIST: "the key exists",
                errno.EPERM: "it is frozen, or the process has lost CAP_BPF",
            },
        )


def _is_special(kind: Type | None) -> bool:
    """Whether a value has members that the kernel has to know by BTF."""
    return isinstance(kind, StructType) and any(hasattr(f.type, "tag") for f in kind.fields)


_WHOLE = (MapType.ARENA, MapType.STRUCT_OPS, MapType.USER_RINGBUF)


class _Values(KernelMap, Stored):
    """A kernel map that is the store of its own Python values."""

    def __init__(self, spec: MapSpec, descriptor: Descriptor | None = None) -> None:
        super().__init__(spec, descriptor)
        self._begin(self)


class Map(_Values, StoredMapping[Any, Any]):
    """One kernel map, as a mapping; owns its descriptor. Keys and values are Python values of the spec's types."""


@cache
def map_class(kind: MapType) -> type[KernelMap]:
    """The class for a kind: its Python side over its own bytes."""
    if kind in _WHOLE:
        return KernelMap
    side = python_side(kind)
    return Map if side is StoredMapping else type(side.__name__.removeprefix("Stored"), (_Values, side), {})


def make_map(spec: MapSpec, descriptor: Descriptor | None = None) -> KernelMap:
    """Make the map of a spec (or take the one that `descriptor` is of), as the class that fits its kind."""
    check_argument("spec", spec, MapSpec, "a MapSpec")
    return map_class(spec.type)(spec, descriptor)
