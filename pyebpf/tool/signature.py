"""The `open` of a tool with its options for parameters, so that help() and editors tell them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.dataclass import MISSING, fields

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["described_open"]


def described_open(method: Callable[..., Any], options: object, name: str) -> Callable[..., Any]:
    """`method` as a function with the parameters of the class `options`, whose docstring explains each."""
    try:
        declared = [item for item in fields(options) if item.init]
    except (AttributeError, TypeError):
        return method  # a function of the author's makes the options
    if any(item.default_factory is not MISSING for item in declared):
        return method
    parameters = [f"v{number}" for number, _ in enumerate(declared)]
    scope: dict[str, Any] = {"_open": method}
    # Placeholders for names, so that nothing but numbers reaches the source.
    exec(f"def open({', '.join(parameters)}): return _open({', '.join(parameters)})", scope)  # noqa: S102 - see above
    made: Any = scope["open"]
    made.__code__ = made.__code__.replace(co_varnames=tuple(item.name for item in declared))
    made.__defaults__ = tuple(item.default for item in declared if item.default is not MISSING)
    made.__annotations__ = {item.name: item.type for item in declared}
    made.__qualname__, made.__module__ = f"{name}.open", options.__module__
    made.__doc__ = "\n".join([method.__doc__ or "", *_explained(declared)])
    return made  # type: ignore[no-any-return]  # made by exec


def _explained(declared: list[Any]) -> list[str]:
    """A line for each option."""
    lines = []
    for item in declared:
        spec = item.metadata.get("spec")
        if spec is not None:
            flags = f" ({', '.join(spec.flags)})" if spec.flags else ""
            lines.append(f"        {item.name}: {spec.help}{flags}")
    return ["", *lines, "        "] if lines else []
