"""Modes of a tool: what it prints in place of its own where an option is given, with the same probes and options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from pyebpf.dataclass import dataclass
from pyebpf.tool.tracer import Tracer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyebpf.output.columns import Column
    from pyebpf.stop import Stop

Built = TypeVar("Built", bound=Tracer)
Options = TypeVar("Options")
Yielded = TypeVar("Yielded")


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

    records: Callable[[Built, Options, Stop], Iterator[Yielded]]
    columns: Sequence[Column] | Callable[[Options], Sequence[Column]] = ()
    record: type | None = None
    time: str = ""
    sentence: Callable[[Yielded], str] | None = None


Mode: TypeAlias = "SummaryMode[Any, Any, Any] | EventMode[Any, Any, Any]"
