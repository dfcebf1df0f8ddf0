"""`Probe`: a function that Python never runs, with the places where the kernel is to run it."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar

from pyebpf.builder.ssa.conditions import Always
from pyebpf.builder.values.entity import Entity
from pyebpf.dataclass import dataclass
from pyebpf.dsl.scope import Scope
from pyebpf.errors import InvalidValue, NotLoaded, OnlyInProbe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Protocol, TypeAlias

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.specs import AttachSpec
    from pyebpf.uapi.bpf import ProgramType

    class Attached(Protocol):
        """The result of `Probe.attach`: a link (`pyebpf.link.Link`)."""

        @property
        def target(self) -> str: ...
        def detach(self) -> None: ...
        def __enter__(self) -> Any: ...
        def __exit__(self, *error: object) -> None: ...

    Attacher: TypeAlias = Callable[["Probe[Any, Any]", tuple[Any, ...], dict[str, Any]], Attached]

__all__ = ["Attachment", "Probe", "Request", "SubprogramEntity", "Way", "plain_function", "requesting"]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Attachment:
    """One place to run at, and the kind of program that runs there; an `optional` one may be missing."""

    kind: ProgramType
    attach: AttachSpec
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run at what a request names.

    `name` is what `-v` and messages call it, `needs` the features without which the kernel is known to lack it.
    """

    name: str
    attachments: tuple[Attachment, ...]
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """The request of one decorator: `kind` is the decorator's name, `targets` what the author wrote.

    Of its `ways` the first is taken that the kernel has; most requests have just one.
    """

    kind: str
    targets: tuple[str, ...]
    ways: tuple[Way, ...]

    def __str__(self) -> str:
        return f"@{self.kind}({', '.join(map(repr, self.targets))})"


class Probe(Generic[P, R]):
    """The result of a decorator: the function, its names as they were bound then, and each request made by a decorator.

    A probe runs in the kernel on each event; calling it from Python raises OnlyInProbe.
    """

    def __init__(self, function: FunctionType, requests: tuple[Request, ...]) -> None:
        self.function = function
        self.scope = Scope(function)
        self.requests = requests
        self._attacher: Attacher | None = None
        self._find_program: Callable[[Probe[Any, Any]], Any] | None = None
        self.__name__ = function.__name__
        self.__qualname__ = function.__qualname__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__wrapped__ = function

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """Every place that the requests name, in order, each by its request's first way."""
        return tuple(attachment for request in self.requests for attachment in request.ways[0].attachments)

    def bind(self, attacher: Attacher | None, program: Callable[[Probe[Any, Any]], Any] | None = None) -> None:
        """Connect with the loaded programs; None when they are closed."""
        self._attacher = attacher
        self._find_program = program

    @property
    def program(self) -> Any:
        """The loaded program (`pyebpf.objects.Program`), the first if it was loaded for several places."""
        if self._find_program is None:
            raise NotLoaded(f"{self.__name__} is not loaded: use it inside `with bpf:`, or after bpf.load()")
        return self._find_program(self)

    def attach(self, *place: Any, **options: Any) -> Attached:
        """Attach the loaded program at a place named now, such as an interface; the link that holds it.

        For decorators that were given no place. The link ends with its `detach()`, or with the program. Raises
        NotLoaded outside `with bpf:`, InvalidValue for a kind whose place is known, and what attaching raises.
        """
        if self._attacher is None:
            raise NotLoaded(f"{self.__name__} is not loaded: attach it inside `with bpf:`, or after bpf.load()")
        return self._attacher(self, place, options)

    if not TYPE_CHECKING:  # to a checker a probe is no callable, so it finds a call before Python does

        def __call__(self, *_arguments: Any, **_keywords: Any) -> NoReturn:
            raise OnlyInProbe(f"{self.__name__} is a probe: the kernel runs it on each event, Python can't call it")

    def __repr__(self) -> str:
        return f"<Probe {self.__name__}: {' '.join(map(str, self.requests))}>"


#: Of a code object, as inspect has them; that takes a millisecond to import.
CO_COROUTINE, CO_ASYNC_GENERATOR = 0x80, 0x200


def plain_function(value: Any, decorator: str) -> FunctionType:
    """The function that a decorator was put on. Raises InvalidValue for anything else."""
    if isinstance(value, FunctionType):
        if value.__code__.co_flags & (CO_COROUTINE | CO_ASYNC_GENERATOR):
            raise InvalidValue(f"@bpf.{decorator} decorates a plain function: a probe can't wait, leave out `async`")
        return value
    raise InvalidValue(f"@bpf.{decorator} decorates a function, not {value!r}")


def requesting(probes: list[Probe[Any, Any]], request: Request) -> Callable[[Any], Probe[Any, Any]]:
    """A decorator that makes a request for a function, or one more for a probe; `probes` gets what is new."""

    def decorate(function: Any) -> Probe[Any, Any]:
        if isinstance(function, Probe):
            function.requests = (*function.requests, request)
            return function
        probe: Probe[Any, Any] = Probe(plain_function(function, request.kind), (request,))
        probes.append(probe)
        return probe

    return decorate


class SubprogramEntity(Entity):
    """A function that programs call in the kernel, compiled once for each program that uses it.

    A `replaceable` one has no context, and another program may take its place in those that are loaded.
    """

    def __init__(self, function: FunctionType, *, replaceable: bool = False) -> None:
        self.function = function
        self.replaceable = replaceable
        self.scope = Scope(function)
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def describe(self) -> str:
        return f"the subprogram {self.__name__}"

    def truth(self, p: ProgramBuilder) -> Test:  # noqa: ARG002 - the protocol's
        return Always(holds=True)

    def call(self, p: ProgramBuilder, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        from pyebpf.dsl.subprograms import call_subprogram

        return call_subprogram(p, self, arguments, keywords)

    def __call__(self, *_arguments: Any, **_keywords: Any) -> NoReturn:
        raise OnlyInProbe(f"{self.__name__} is a subprogram: probes call it in the kernel, Python can't")
