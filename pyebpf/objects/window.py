"""A map's memory in this process: values as items, no system calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.closing import Closing
from pyebpf.errors import InvalidValue, NotLoaded
from pyebpf.kernel.errors_in_words import kernel_error
from pyebpf.kernel.memory import PAGE_SIZE, Mapping
from pyebpf.types import IntType
from pyebpf.types.codecs import decoder, slot_size
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_MMAPABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyebpf.objects.map import KernelMap

_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


class Window(Closing):
    """The values of an array with BPF_F_MMAPABLE: `window[i]`, `len`, iteration, `tolist()`; `memory` is the bytes.

    An integer is read and written in one piece. A record is copied byte by byte: a program that changes it at the
    same time may be seen halfway. Of an arena only `memory` is there. Raises InvalidValue for a map that can't be
    mapped and for a value that does not fit, IndexError, TypeError for writes to a read-only window.
    """

    def __init__(self, owner: KernelMap, *, writable: bool = True) -> None:
        spec = owner.spec
        if spec.type not in {MapType.ARRAY, MapType.ARENA}:
            raise InvalidValue(f"map {spec.name} ({spec.type.name}) can't be mapped: arrays and arenas can")
        if not spec.flags & BPF_F_MMAPABLE:
            raise InvalidValue(f"map {spec.name} was not made to be mapped: give flags=BPF_F_MMAPABLE")
        self._name = spec.name
        self._type = owner.value_type
        self._step = slot_size(self._type.size) if self._type is not None else PAGE_SIZE
        self._count = owner.max_entries
        size = -(-self._step * self._count // PAGE_SIZE) * PAGE_SIZE
        place = spec.extra if spec.type is MapType.ARENA else 0
        try:
            self._mapping: Mapping | None = Mapping(owner.fileno(), size, writable=writable, address=place)
        except OSError as error:
            raise kernel_error(error, f"mapping map {spec.name}", needs=("CAP_BPF",)) from error
        self._bytes = self._mapping.part(0, size, "B")
        self._words: memoryview | None = None
        kind = self._type
        if isinstance(kind, IntType) and not kind.big_endian and not kind.is_bool:
            code: Any = _CODES[kind.size] if not kind.signed else _CODES[kind.size].lower()
            self._words = self._mapping.part(0, size, code)[
                : self._count * self._step // kind.size : self._step // kind.size
            ]
            self._mapping.keep(self._words)

    def _memory(self) -> memoryview:
        if self._mapping is None:
            raise NotLoaded(f"the window of map {self._name} is closed")
        return self._bytes

    @property
    def closed(self) -> bool:
        """Whether `close()` was called, here or on the map."""
        return self._mapping is None

    @property
    def memory(self) -> memoryview:
        """All bytes; a value every `slot_size(size)`, sizes rounded up to 8."""
        return self._memory()

    def __len__(self) -> int:
        return self._count

    def _at(self, index: int) -> int:
        if self._type is None:
            raise InvalidValue(f"map {self._name} has no values of a type: use .memory")
        if not -self._count <= index < self._count:
            raise IndexError(f"map {self._name} has indices 0 to {self._count - 1}, not {index}")
        return index % self._count * self._step

    def __getitem__(self, index: int) -> Any:
        memory, at = self._memory(), self._at(index)
        assert self._type is not None
        if self._words is not None:
            return self._words[index]
        return self._type.decode(bytes(memory[at : at + self._type.size]))

    def __setitem__(self, index: int, value: Any) -> None:
        memory, at = self._memory(), self._at(index)
        assert self._type is not None
        encoded = self._type.encode(value)
        if self._words is not None:
            self._words[index] = value
        else:
            memory[at : at + self._type.size] = encoded

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """All values."""
        memory, kind = self._memory(), self._type
        self._at(0)
        assert kind is not None
        if self._words is not None:
            return self._words.tolist()
        step, size = self._step, kind.size
        return decoder(kind)(b"".join(bytes(memory[at : at + size]) for at in range(0, step * self._count, step)))

    def close(self) -> None:
        """Unmap; a second call does nothing."""
        if self._mapping is not None:
            mapping, self._mapping = self._mapping, None
            mapping.close()
