"""The work of every decorator: it notes a request at a probe, made of the function or decorated before."""

from __future__ import annotations

import os
from functools import wraps
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, overload

from pyebpf.errors import InvalidValue
from pyebpf.module.body import Body
from pyebpf.module.declared_arguments import checked
from pyebpf.module.probe import Attachment, Candidate, Probe, Request, request_decorator

A = ParamSpec("A")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Concatenate, Protocol, Self

    from pyebpf.module.probe import ProbeOwner
    from pyebpf.specs import AttachSpec

    P = ParamSpec("P")

    class TracingDecorator(Protocol):
        """A decorator of probes that return nothing; it stacks on another."""

        @overload
        def __call__(self, function: Callable[P, None], /) -> Probe[P, None]: ...
        @overload
        def __call__(self, function: Probe[P, None], /) -> Probe[P, None]: ...
        @overload
        def __call__(self, function: Body, /) -> Probe[..., None]: ...

    class VerdictDecorator(Protocol):
        """A decorator of programs whose every path returns a number; it stacks on another."""

        @overload
        def __call__(self, function: Callable[P, int], /) -> Probe[P, int]: ...
        @overload
        def __call__(self, function: Probe[P, int], /) -> Probe[P, int]: ...
        @overload
        def __call__(self, function: Body, /) -> Probe[..., int]: ...

    class OpenDecorator(Protocol[A]):
        """A method with `optional_arguments`, on a module: called with places, or a decorator itself."""

        @overload
        def __call__(self, function: Callable[P, int], /) -> Probe[P, int]: ...  # type: ignore[overload-overlap]  # no place is a function
        @overload
        def __call__(self, function: Probe[P, int], /) -> Probe[P, int]: ...  # type: ignore[overload-overlap]  # no place is a function
        @overload
        def __call__(self, *places: A.args, **options: A.kwargs) -> VerdictDecorator: ...


class optional_arguments(Generic[A]):  # noqa: N801 - used as a decorator of methods
    """A decorator's method whose places may all be left out: then `@bpf.xdp` is as good as `@bpf.xdp()`."""

    def __init__(self, method: Callable[Concatenate[Any, A], VerdictDecorator]) -> None:
        self._method = checked(method, f"@bpf.{method.__name__}") if isinstance(method, FunctionType) else method
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, module: None, owner: type) -> Self: ...
    @overload
    def __get__(self, module: Decorators, owner: type) -> OpenDecorator[A]: ...
    def __get__(self, module: Decorators | None, owner: type) -> object:
        if module is None:
            return self
        method: Any = self._method

        @wraps(method)
        def decorator(*places: object, **options: object) -> object:
            if len(places) == 1 and not options and is_decorated(places[0]):
                return method(module)(places[0])
            return method(module, *places, **options)

        return decorator


def attachments(places: Iterable[AttachSpec], *, optional: bool = False) -> tuple[Attachment, ...]:
    """Each place as an attachment of its own kind of program."""
    return tuple(Attachment(attach.program_type, attach, optional) for attach in places)


_DECORATORS = ("TracingDecorator", "VerdictDecorator", "HookDecorator", "ReplacingDecorator", "IteratorDecorator[T]")


def is_decorated(value: object) -> bool:
    """Whether a decorator's only argument is what it decorates: it stands there without parentheses."""
    return isinstance(value, (FunctionType, Probe, Body))


def _with_parentheses(method: FunctionType) -> object:
    """A decorator's method that says so where it stands without its parentheses, or with a wrong argument."""
    declared = checked(method, f"@bpf.{method.__name__}")

    @wraps(method)
    def decorator(module: object, *targets: object, **options: object) -> object:
        if len(targets) == 1 and not options and is_decorated(targets[0]):  # not freplace(program, function)
            name = method.__name__
            raise InvalidValue(f"@bpf.{name} is used here without parentheses: write @bpf.{name}(…), with its targets")
        return declared(module, *targets, **options)

    return decorator


class Decorators:
    """The decorators of one family, for the probes of a module."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, method in list(vars(cls).items()):
            if not isinstance(method, FunctionType) or name.startswith("_"):
                continue
            if method.__annotations__.get("return") in _DECORATORS:
                setattr(cls, name, _with_parentheses(method))
            else:
                setattr(cls, name, checked(method, f"bpf.{name}"))

    def __init__(self, module: ProbeOwner) -> None:
        self._module = module

    def _tracing(
        self, decorator: str, targets: tuple[str, ...], places: Iterable[AttachSpec], *, optional: bool = False
    ) -> TracingDecorator:
        """A decorator of tracing probes at attach points, as its only candidate."""
        made: TracingDecorator = self._decorator(
            decorator, targets, (Candidate(decorator, attachments(places, optional=optional)),)
        )
        return made

    def _verdict(
        self, decorator: str, targets: tuple[str, ...], places: Iterable[AttachSpec], *, optional: bool = False
    ) -> VerdictDecorator:
        """A decorator of programs that return a number at attach points, as its only candidate."""
        made: VerdictDecorator = self._decorator(
            decorator, targets, (Candidate(decorator, attachments(places, optional=optional)),)
        )
        return made

    def _decorator(
        self, decorator: str, targets: tuple[str, ...], candidates: tuple[Candidate, ...], subject: str = ""
    ) -> Any:
        """A decorator that asks for the best of `candidates`. Raises InvalidValue if they name no attach point.

        `subject` is what they trace, for the error where none works.
        """
        if not any(candidate.attachments for candidate in candidates):
            raise InvalidValue(f"@bpf.{decorator}() names no target")
        return request_decorator(self._module, Request(decorator, targets, candidates, subject))


def network_namespace(place: Any) -> str:
    """The file of a network namespace: a path, or a name that `ip netns` knows. Raises InvalidValue."""
    try:
        path = os.fspath(place)
    except TypeError:
        path = ""
    if not isinstance(path, str) or not path:
        raise InvalidValue(f"{place!r} names no network namespace: give a file such as /proc/self/ns/net")
    return path if "/" in path else f"/run/netns/{path}"
