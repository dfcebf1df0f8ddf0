"""Common ground of the buffers of records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyebpf.builder.values.entity import describe
from pyebpf.builder.values.operations import rvalue
from pyebpf.builder.values.records import RecordLiteral
from pyebpf.builder.values.references import Reference
from pyebpf.errors import InvalidValue
from pyebpf.maps.declared import LoadedMap
from pyebpf.types import Struct, StructType

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.types import Type

T = TypeVar("T")


class Buffer(LoadedMap, Generic[T]):
    """A buffer that probes write and user space reads: `for`, `async for`, or `poll()`."""

    @property
    def reader(self) -> Any:
        """The reader of the loaded buffer."""
        return self.store

    def __iter__(self) -> Iterator[T]:
        """Records as they come, without end."""
        return iter(self.reader)

    def __aiter__(self) -> AsyncIterator[T]:
        found: AsyncIterator[T] = self.reader.__aiter__()
        return found

    def poll(self, timeout: float = 0.0) -> Sequence[T]:
        """The records that are there, or come within `timeout` seconds."""
        found: Sequence[T] = self.reader.poll(timeout)
        return found

    def fileno(self) -> int:
        """A descriptor that is readable when records are there, for event loops; call `poll()` then."""
        return super().fileno()


def emitted(p: ProgramBuilder, buffer: LoadedMap, record: Type, value: object) -> object:
    """The record that a probe emits. Fails for one of another type than the buffer's."""
    value = rvalue(p, value)
    given = value.type if isinstance(value, (RecordLiteral, Reference)) else None
    if isinstance(value, Struct):
        given = value.layout
    if isinstance(record, StructType) and given != record:
        p.fail(f"{buffer.describe()} takes {record.name} records, not {describe(value)}")
    if isinstance(value, Reference):
        value.check(p)
    return value


def record_type(record: object, word: str) -> type[Struct]:
    """The class of a buffer's records, or InvalidValue."""
    if not isinstance(record, type) or not issubclass(record, Struct):
        raise InvalidValue(f"bpf.{word}({record!r}): give the Struct class of its records")
    return record


def ring_size(size: int, word: str) -> int:
    """Bytes of a ring buffer, or InvalidValue."""
    if not 4096 <= size <= 1 << 31 or size & (size - 1):
        raise InvalidValue(f"bpf.{word}(size={size!r}): give bytes, a power of two from 4096 on, such as {256 * 1024}")
    return size
