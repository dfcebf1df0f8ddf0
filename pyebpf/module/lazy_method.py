"""Functions that make a map, as methods that also put it into the module."""

from __future__ import annotations

import functools
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pyebpf.module.declared_arguments import checked

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LazyMethod"]

F = TypeVar("F", bound="Callable[..., Any]")


class LazyMethod(Generic[F]):
    """A method of Module that calls a factory, such as `aggregations.log2_hist`, and declares what that returns.

    `find` gives the factory, and imports it when the method is first used. To a type checker the method has the
    factory's own signature.
    """

    def __init__(self, find: Callable[[], F]) -> None:
        self._find = find

    def __get__(self, module: Any, owner: type | None = None) -> F:
        factory: Any = self._find()
        if module is None:
            return factory  # type: ignore[no-any-return]  # of the same signature
        made = checked(factory, f"bpf.{factory.__name__}") if isinstance(factory, FunctionType) else factory

        @functools.wraps(factory)
        def declare(*arguments: Any, **keywords: Any) -> Any:
            return module.declare(made(*arguments, **keywords))

        return declare  # type: ignore[return-value]  # of the same signature
