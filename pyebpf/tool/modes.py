"""Parts of a tool that print for themselves, with its probes and options: modes, and lines between summaries.

A mode is what the tool prints in place of its own where an option is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue
from pyebpf.stop import events_of, last_time
from pyebpf.tool.tracer import Tracer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyebpf.output.columns import Column
    from pyebpf.stop import Stop

Built = TypeVar("Built", bound=Tracer)
Options = TypeVar("Options")
Yielded = TypeVar("Yielded")
#: The `records` of what names none: those of the ring buffer of the class `record`.
OF_ITS_RECORD: Any = None


def read_as_declared(declared: Any) -> None:
    """Fill in what the `record` of an `EventTool` or `EventLines` tells: its `records`, and which is their time."""
    if declared.records is OF_ITS_RECORD:
        if declared.record is None:
            raise InvalidValue("say where the events come from: record=CLASS, the class of a ring buffer's records")
        object.__setattr__(declared, "records", events_of(declared.record))
    object.__setattr__(declared, "time", declared.time or last_time(declared.records))


@dataclass(frozen=True, kw_only=True)
class EventLines(Generic[Built, Options, Yielded]):
    """Lines that a summary tool prints as events happen, declared as an `EventTool`'s."""

    columns: Sequence[Column]
    record: type[Yielded] | None = None
    records: Callable[[Built, Options, Stop], Iterator[Yielded]] = OF_ITS_RECORD
    time: str = ""
    sentence: Callable[[Yielded], str] | None = None

    def __post_init__(self) -> None:
        read_as_declared(self)


@dataclass(frozen=True, kw_only=True)
class SummaryMode(Generic[Built, Options, Yielded]):
    """A mode that prints what each interval counted, declared as a `SummaryTool`; the rest is its tool's."""

    snapshot: Callable[[Built, Options], Iterable[Yielded]]
    columns: Sequence[Column] | Callable[[Options], Sequence[Column]] = ()
    record: type | None = None
    screen: bool = False
    heading: Callable[[Built, Options], str | None] | None = None
    footer: Callable[[Built, Options], Iterable[str]] | None = None


@dataclass(frozen=True, kw_only=True)
class EventMode(Generic[Built, Options, Yielded]):
    """A mode that prints a line an event, declared as an `EventTool`; the rest is its tool's."""

    columns: Sequence[Column] | Callable[[Options], Sequence[Column]] = ()
    record: type[Yielded] | None = None
    records: Callable[[Built, Options, Stop], Iterator[Yielded]] = OF_ITS_RECORD
    time: str = ""
    sentence: Callable[[Yielded], str] | None = None


Mode: TypeAlias = "SummaryMode[Any, Any, Any] | EventMode[Any, Any, Any]"
