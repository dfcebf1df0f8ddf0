"""Maps without keys: queues, stacks, Bloom filters."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue
from pyebpf.kernel import map_elements
from pyebpf.objects.kernel_map import KernelMap
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_EXIST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.specs import MapSpec

__all__ = ["BloomFilter", "Queue"]

_MISSING: Any = object()


class _Keyless(KernelMap):
    def __init__(self, spec: MapSpec, descriptor: Descriptor | None = None) -> None:
        super().__init__(spec, descriptor)
        assert self.value_type is not None
        self._encode, self._decode = self.value_type.encode, self.value_type.decode

    def _push(self, value: Any, flags: int) -> None:
        encoded = self._encode(value)
        try:
            map_elements.map_update_elem(self.fileno(), b"", encoded, flags)
        except OSError as error:
            raise self._diagnose(error, "writing") from error


class Queue(_Keyless):
    """A queue (QUEUE, first in first out) or stack (STACK, last in first out) of values.

    Raises KernelError when a push finds it full, IndexError when a pop or peek finds it empty.
    """

    def push(self, value: Any, *, make_room: bool = False) -> None:
        """Add a value. With `make_room` a full one gives up its oldest value (BPF_EXIST)."""
        self._push(value, BPF_EXIST if make_room else 0)

    def pop(self, default: Any = _MISSING) -> Any:
        """Take the next value out; the default if there is none, else IndexError."""
        try:
            value = map_elements.map_lookup_and_delete_elem(self.fileno(), b"", self._value_size)
        except OSError as error:
            return self._empty(error, "pop", default)
        return self._decode(value)

    def peek(self, default: Any = _MISSING) -> Any:
        """The next value, which stays."""
        try:
            value = map_elements.map_lookup_elem_in_place(self.fileno(), bytes(self._value_size))
        except OSError as error:
            return self._empty(error, "peek", default)
        return self._decode(value)

    def _empty(self, error: OSError, doing: str, default: Any) -> Any:
        if error.errno != errno.ENOENT:
            raise self._diagnose(error, "reading") from error
        if default is _MISSING:
            raise IndexError(f"{doing} from map {self.name}, which is empty") from None
        return default

    def drain(self) -> list[Any]:
        """Take out all values that are there, in their order; at most `max_entries`, however fast programs push."""
        return [value for _, value in zip(range(self.max_entries), self._taken(), strict=False)]

    def _taken(self) -> Iterator[Any]:
        while (value := self.pop(_MISSING_HERE)) is not _MISSING_HERE:
            yield value


_MISSING_HERE: Any = object()


class BloomFilter(_Keyless):
    """Values that were added: `v in filter` is never wrong when False, and rarely when True."""

    def __init__(self, spec: MapSpec, descriptor: Descriptor | None = None) -> None:
        super().__init__(spec, descriptor)
        if spec.kind is not MapType.BLOOM_FILTER:
            self.close()
            raise InvalidValue(f"map {spec.name} is no Bloom filter but {spec.kind.name}")

    def add(self, value: Any) -> None:
        """Add a value; it can't be taken out again."""
        self._push(value, 0)

    def __contains__(self, value: object) -> bool:
        try:
            map_elements.map_lookup_elem_in_place(self.fileno(), self._encode(value))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._diagnose(error, "testing") from error
        return True
