"""Maps whose keys or values are other kernel objects: maps, programs, sockets, processes, control groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.dataclass import replace
from pyebpf.errors import InvalidValue
from pyebpf.kernel import bpf
from pyebpf.kernel.interfaces import interface_index
from pyebpf.objects.map import Map
from pyebpf.uapi.bpf import MapType

if TYPE_CHECKING:
    from pyebpf.objects.kernel_map import KernelMap

__all__ = ["DeviceMap", "MapOfMaps", "ObjectArray", "Storage"]


def _number(value: Any) -> Any:
    """The descriptor of what has one: a map, a program, a socket, a file."""
    return value.fileno() if hasattr(value, "fileno") else value


class ObjectArray(Map):
    """Objects by their descriptors: `programs[0] = program`, `sockets[1] = socket`, `devices[0] = 2`.

    What is read back is what the kernel gives: a program's id, a socket's cookie, an interface's index. A kind whose
    values only programs read says so. Entries of indices can be removed, and those not set are no items.
    """

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, _number(value))

    def add(self, key: Any, value: Any) -> bool:
        return super().add(key, _number(value))

    def update(self, *arguments: Any, **more: Any) -> None:
        for key, value in dict(*arguments, **more).items():
            self[key] = value


class DeviceMap(ObjectArray):
    """Interfaces: `ports[0] = "eth1"`, by a name of this network namespace, or `ports[0] = 7`, by index."""

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, interface_index(value) if isinstance(value, str) else value)


class MapOfMaps(ObjectArray):
    """Maps as values, each of the spec's `inner` shape: `outer[k] = inner_map` shares it, `outer[k]` opens it.

    A map that was opened is the caller's to close. `ids()` opens none.
    """

    def __setitem__(self, key: Any, value: KernelMap) -> None:
        inner = self.spec.inner
        spec = getattr(value, "spec", None)
        if spec is not None and inner is not None and spec.kind is not inner.kind:
            raise InvalidValue(f"map {self.name} holds maps of kind {inner.kind.name}, not {spec.kind.name}")
        super().__setitem__(key, value)

    def __getitem__(self, key: Any) -> Any:
        from pyebpf.objects.opening import make_map

        number = super().__getitem__(key)
        assert self.spec.inner is not None
        try:
            descriptor = bpf.map_get_fd_by_id(number)
        except OSError as error:
            if isinstance(error, FileNotFoundError):  # replaced and gone since its id was read
                raise KeyError(key) from None
            raise self._diagnose(error, f"opening map id {number} of") from error
        return make_map(replace(self.spec.inner, initial=(), frozen=False), descriptor)

    def get(self, key: Any, default: Any = None) -> Any:
        try:
            return self[key]
        except KeyError:
            return default

    def make(self) -> KernelMap:
        """A new map of the inner maps' shape, the caller's to close; one that was put in lives on there."""
        from pyebpf.objects.opening import make_map

        assert self.spec.inner is not None
        return make_map(self.spec.inner)

    def ids(self) -> dict[Any, int]:
        """The maps' ids by key."""
        return self.snapshot()

    def items(self) -> Any:
        raise InvalidValue(f"map {self.name} holds maps: .ids() lists them, and [k] opens one")

    def values(self) -> Any:
        self.items()

    def pop(self, key: Any, default: Any = None) -> Any:  # noqa: ARG002 - the mapping's interface
        raise InvalidValue(f"map {self.name} holds maps: read [k] first, then `del`")


class Storage(Map):
    """Values that belong to a socket, task, inode or control group, and go with it.

    A key is what has a descriptor, or its number: a socket, a pidfd (`os.pidfd_open`), an open file, a control
    group's directory. Items can't be listed.
    """

    def _key(self, key: Any) -> bytes:
        return super()._key(_number(key))

    def pop(self, key: Any, *default: Any) -> Any:
        if key not in self:
            if default:
                return default[0]
            raise KeyError(key)
        value = self[key]
        del self[key]
        return value


STORAGE = (MapType.SK_STORAGE, MapType.INODE_STORAGE, MapType.TASK_STORAGE, MapType.CGRP_STORAGE)
OBJECTS = (
    MapType.PROG_ARRAY, MapType.PERF_EVENT_ARRAY, MapType.CGROUP_ARRAY, MapType.SOCKMAP, MapType.SOCKHASH,
    MapType.CPUMAP, MapType.XSKMAP, MapType.REUSEPORT_SOCKARRAY,
)  # fmt: skip
DEVICES = (MapType.DEVMAP, MapType.DEVMAP_HASH)
MAPS = (MapType.ARRAY_OF_MAPS, MapType.HASH_OF_MAPS)
