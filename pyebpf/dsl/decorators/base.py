"""What every decorator does: it notes a request at a probe, made of the function or decorated before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, overload

from pyebpf.dsl.probe import Attachment, Probe, Request, Way, plain_function
from pyebpf.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Protocol

    from pyebpf.specs import AttachSpec

    P = ParamSpec("P")

    class TracingDecorator(Protocol):
        """A decorator of probes that return nothing; it stacks on another."""

        @overload
        def __call__(self, function: Callable[P, None], /) -> Probe[P, None]: ...
        @overload
        def __call__(self, function: Probe[P, None], /) -> Probe[P, None]: ...

    class VerdictDecorator(Protocol):
        """A decorator of programs whose every path returns a number; it stacks on another."""

        @overload
        def __call__(self, function: Callable[P, int], /) -> Probe[P, int]: ...
        @overload
        def __call__(self, function: Probe[P, int], /) -> Probe[P, int]: ...


__all__ = ["Decorators", "attachments"]


def attachments(places: Iterable[AttachSpec], *, optional: bool = False) -> tuple[Attachment, ...]:
    """Each place as an attachment of its own kind of program."""
    return tuple(Attachment(attach.kind, attach, optional) for attach in places)


class Decorators:
    """The probes of a module, in the order of their decorators."""

    def __init__(self) -> None:
        super().__init__()
        self.probes: list[Probe[Any, Any]] = []

    def _tracing(
        self, decorator: str, targets: tuple[str, ...], places: Iterable[AttachSpec], *, optional: bool = False
    ) -> TracingDecorator:
        """A decorator of tracing probes at places with one way to each."""
        made: TracingDecorator = self._decorator(
            decorator, targets, (Way(decorator, attachments(places, optional=optional)),)
        )
        return made

    def _verdict(
        self, decorator: str, targets: tuple[str, ...], places: Iterable[AttachSpec], *, optional: bool = False
    ) -> VerdictDecorator:
        """A decorator of programs that return a number, at places with one way to each."""
        made: VerdictDecorator = self._decorator(
            decorator, targets, (Way(decorator, attachments(places, optional=optional)),)
        )
        return made

    def _decorator(self, decorator: str, targets: tuple[str, ...], ways: tuple[Way, ...]) -> Any:
        """A decorator that asks for one of `ways`. Raises InvalidValue if they name no place."""
        if not any(way.attachments for way in ways):
            raise InvalidValue(f"@bpf.{decorator}() names no target")
        request = Request(decorator, targets, ways)

        def decorate(function: Any) -> Probe[Any, Any]:
            if isinstance(function, Probe):
                function.requests = (*function.requests, request)
                return function
            probe: Probe[Any, Any] = Probe(plain_function(function, decorator), (request,))
            self.probes.append(probe)
            return probe

        return decorate
