"""The shape of what a summary tool's `snapshot` gives: records for its columns, histograms if it has none.

A tool that mixes them up is refused when it is declared, as far as the annotation tells, else before anything is
attached, else at the first summary: with what to write, not with the AttributeError of whoever prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

from pyebpf.errors import InvalidValue
from pyebpf.output.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WITH_COLUMNS = (
    "its snapshot gives histograms, and its columns are for records: leave columns out, or give records made of them"
)
_MAPPING = re.compile(r"(\w+\.)*(dict|Dict|Mapping|MutableMapping|defaultdict)\b")


def check_annotation(name: str, snapshot: Callable[..., object], *, columns: bool) -> None:
    """Raise InvalidValue if what the function says that it returns can't be printed."""
    annotation = getattr(snapshot, "__annotations__", {}).get("return")
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__qualname__", repr(annotation))
    if annotation is None or "|" in text:
        return
    if _MAPPING.match(text if isinstance(annotation, str) else repr(annotation)):
        raise InvalidValue(_mapping(name, columns=columns))
    own = getattr(snapshot, "__globals__", {}).get("Histogram", Histogram)
    if own is Histogram and re.search(r"\bHistogram\b", repr(annotation)):
        if columns:
            raise InvalidValue(f"tool {name}: {_WITH_COLUMNS}")
        if text.rpartition(".")[2] == "Histogram":
            raise InvalidValue(_single(name, columns=False))


def checked(name: str, found: object, *, columns: bool) -> Iterable[Any]:
    """The items of a snapshot. Raises InvalidValue, at once or for the first item, for what can't be printed."""
    if isinstance(found, Histogram):
        raise InvalidValue(_single(name, columns=columns))
    if isinstance(found, Mapping):
        raise InvalidValue(_mapping(name, columns=columns))
    if not isinstance(found, Iterable):
        raise InvalidValue(
            f"tool {name}: its snapshot gives {found!r}, and must give a list of "
            f"{'records' if columns else 'histograms, or of records for columns=(Column(...), ...)'}"
        )
    return _from_first(name, iter(found), columns=columns)


def _from_first(name: str, items: Iterator[object], *, columns: bool) -> Iterator[Any]:
    for first in items:
        if columns and isinstance(first, Histogram):
            raise InvalidValue(f"tool {name}: {_WITH_COLUMNS}")
        if not columns and not isinstance(first, Histogram):
            raise InvalidValue(
                f"tool {name}: its snapshot gives records ({type(first).__name__}), and it has no columns: say which "
                "of their attributes to print, columns=(Column('COUNT', 8), ...), or give histograms"
            )
        return chain((first,), items)
    return iter(())


def _single(name: str, *, columns: bool) -> str:
    if columns:
        return f"tool {name}: {_WITH_COLUMNS}"
    return f"tool {name}: its snapshot gives one histogram, and must give a list: return [bpf['NAME'].interval()]"


def _mapping(name: str, *, columns: bool) -> str:
    made = "a list of records made of its items()" if columns else "its values(), which have the key as their labels"
    return f"tool {name}: its snapshot gives a mapping, as interval() does of a map with keys: give {made}"
