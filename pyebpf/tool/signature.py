"""The `open` of a tool with its options for parameters, so that help() and editors tell them."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pyebpf.dataclass import MISSING, fields
from pyebpf.errors import InvalidValue, closest
from pyebpf.tool.readers import Events, Snapshot, Stacks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyebpf.dataclass import Field
    from pyebpf.tool import AnyTool

_BUFFER = "bytes for events that wait to be read (--buffer)"
#: The element of what a function is annotated to return: `Iterator[Count]`.
_ELEMENT = re.compile(r"\w+\[(\w+)\]")


def described_open(tool: AnyTool, method: Callable[..., object]) -> Callable[..., object]:
    """`method` as a function whose parameters are the tool's options, and whose docstring explains each.

    Options of the output alone are left out; a tool that prints events has `buffer`, too.
    """
    options: Any = tool.options
    try:
        declared = [item for item in fields(options) if item.init and not _is_of_output(item)]
    except (AttributeError, TypeError):
        return method  # a function of the author's makes the options
    if any(item.default_factory is not MISSING for item in declared):
        return method
    names = [item.name for item in declared]
    parameters = [f"v{number}" for number, _ in enumerate(names)]
    scope: dict[str, object] = {"_open": method, "_names": names}
    values = f"**dict(zip(_names, ({''.join(f'{each}, ' for each in parameters)})))"
    buffer = tool.prints_events and not has_field(options, "buffer")
    # Placeholders for names, so that nothing but numbers reaches the source.
    if buffer:
        head = ", ".join([*parameters, "*", "buffer=None"])
        source = f"def open({head}): return _open(buffer=buffer, {values})"
    else:
        source = f"def open({', '.join(parameters)}): return _open({values})"
    exec(source, scope)  # noqa: S102 - see above
    made: Any = scope["open"]
    made.__code__ = made.__code__.replace(co_varnames=(*names, *(["buffer"] if buffer else [])))
    made.__defaults__ = tuple(item.default for item in declared if item.default is not MISSING)
    made.__annotations__ = {item.name: item.type for item in declared}
    if buffer:
        made.__annotations__["buffer"] = "int | None"
    made.__annotations__["return"] = _returned(tool, scope)
    made.__qualname__, made.__module__ = f"{tool.name}.open", options.__module__
    made.__doc__ = "\n".join([method.__doc__ or "", *_explained(declared, buffer=buffer)])
    return made  # type: ignore[no-any-return]  # made by exec


def has_field(options: object, name: str) -> bool:
    """Whether a tool's options have a field of that name; a function that makes them does not say."""
    try:
        return any(item.name == name for item in fields(options))
    except (AttributeError, TypeError):
        return False


def check_names(tool: str, options: object, named: Mapping[str, Iterable[object]]) -> None:
    """Raise InvalidValue for a name that is no field of a tool's options; a function that makes them does not say."""
    if not isinstance(options, type):
        return
    for what, names in named.items():
        for name in names:
            if isinstance(name, str) and not has_field(options, name):
                fields_ = [item.name for item in fields(options)]
                raise InvalidValue(f"tool {tool}: {what} names {name}, no field of its options{closest(name, fields_)}")


def _is_of_output(item: Field) -> bool:
    spec = item.metadata.get("spec")
    return spec is not None and spec.output_only


def _returned(tool: AnyTool, scope: dict[str, object]) -> str:
    """The annotation of what `open` gives, in any mode that it can give; the names that it has go to `scope`."""
    scope["AbstractContextManager"], scope["Any"] = AbstractContextManager, Any
    ruled_out = {item.name for item in fields(tool.options) if _is_of_output(item)}
    found: list[str] = []
    for each in [tool, *(mode for name, mode in tool.modes.items() if name not in ruled_out)]:
        text = _reader(each, scope)
        if text not in found:
            found.append(text)
    return f"AbstractContextManager[{' | '.join(found)}]"


def _reader(tool: Any, scope: dict[str, object]) -> str:
    """The class of what a tool's `open` gives, with that of its records."""
    if hasattr(tool, "collect"):
        scope["Stacks"] = Stacks
        return "Stacks"
    kind = Snapshot if hasattr(tool, "snapshot") else Events
    function = getattr(tool, "snapshot", None) or tool.records
    if not hasattr(function, "__globals__"):  # an object that is called, such as that of `counts_of`
        function = type(function).__call__
    annotation = str(getattr(function, "__annotations__", {}).get("return", ""))
    match = _ELEMENT.fullmatch(annotation)
    record = getattr(function, "__globals__", {}).get(match[1]) if match else None
    if not isinstance(record, type) or record is Any:
        record = tool.record
    scope[kind.__name__] = kind
    if record is None:
        return f"{kind.__name__}[Any]"
    scope[record.__name__] = record
    return f"{kind.__name__}[{record.__name__}]"


def _explained(declared: Sequence[Field], *, buffer: bool) -> list[str]:
    """A line for each option."""
    lines = []
    for item in declared:
        spec = item.metadata.get("spec")
        if spec is not None:
            flags = f" ({', '.join(spec.flags)})" if spec.flags else ""
            lines.append(f"        {item.name}: {spec.help}{flags}")
    if buffer:
        lines.append(f"        buffer: {_BUFFER}")
    return ["", *lines, "        "] if lines else []
