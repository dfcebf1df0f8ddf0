"""The line of a record, by a function that is written for a table's columns: formatting decides nothing twice."""

from __future__ import annotations

from keyword import iskeyword
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.output.columns import Column

__all__ = ["line_of"]


def line_of(columns: Sequence[Column]) -> Callable[[Any], str]:
    """A function from a record to the cells of `columns`, none of them `below`, with a space between.

    Plain numbers and printable ASCII text are formatted in place, all else by `Column.text`, with the same result. Only
    names of attributes that Python could have read as such reach the source.
    """
    scope: dict[str, Any] = {}
    values, cells = [], []
    for index, column in enumerate(columns):
        key = column.key or column.name.lower()
        value = f"v{index}"
        if isinstance(key, str) and all(part.isidentifier() and not iskeyword(part) for part in key.split(".")):
            values.append(f" {value} = record.{key}")
        else:
            scope[f"get{index}"] = column.getter()
            values.append(f" {value} = get{index}(record)")
        scope[f"text{index}"] = column.text
        number, text, other = _number(column, value), _padded(column, value), f"text{index}({value})"
        cells.append(f"({number} if type({value}) is int else {text} if {_is_plain(column, value)} else {other})")
    source = ["def line(record):", *values, f" return ' '.join(({', '.join(cells)},)).rstrip()"]
    exec("\n".join(source), scope)  # noqa: S102 - as the decoder of records does; see the docstring for what gets in
    line: Callable[[Any], str] = scope["line"]
    return line


def _number(column: Column, value: str) -> str:
    """An expression for the text of an int, as `Column.text` makes it."""
    align = f"{column.align}{column.width}" if column.width else ""
    quotient = value if column.scale == 1 else f"{value} / {column.scale}"
    if column.decimals is None:
        return f'f"{{{quotient}!s:{align}}}"'
    if column.decimals == 0:
        return f'f"{{int({value} / {column.scale}):{align}}}"'
    return f'f"{{{quotient}:{align}.{column.decimals}f}}"'


def _padded(column: Column, value: str) -> str:
    return f'f"{{{value}:{column.align}{column.width}}}"' if column.width else value


def _is_plain(column: Column, value: str) -> str:
    """A test for text that is shown as it is, and has room."""
    room = f" and len({value}) <= {column.width}" if column.width and column.cut else ""
    return f"type({value}) is str and {value}.isascii() and {value}.isprintable() and '\\\\' not in {value}{room}"
