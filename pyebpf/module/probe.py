"""`Probe`: a body and where the kernel is to run it, as decorators ask for that: each makes a `Request`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar

from pyebpf.dataclass import dataclass
from pyebpf.errors import CompileError, NotLoaded, OnlyInProbe

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol, TypeAlias

    from pyebpf.errors import PyebpfError
    from pyebpf.module.body import Body
    from pyebpf.specs import AttachSpec
    from pyebpf.uapi.bpf import ProgramType

    class Attached(Protocol):
        """The result of `Probe.attach`: a link (`pyebpf.link.Link`)."""

        @property
        def target(self) -> str: ...
        def detach(self) -> None: ...
        def __enter__(self) -> object: ...
        def __exit__(self, *error: object) -> None: ...

    class ProbeOwner(Protocol):
        """A module, as decorators see it."""

        #: The module's probes, in the order of their decorators.
        probes: list[AnyProbe]

        def body_of(self, value: object, decorator: str) -> Body:
            """The body of what a decorator was put on. Raises InvalidValue."""

    AnyProbe: TypeAlias = "Probe[Any, Any]"
    Attacher: TypeAlias = Callable[[AnyProbe, tuple[object, ...], dict[str, object]], Attached]

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Attachment:
    """One attach point, and the type of program that runs there; an `optional` one may be missing.

    `body` makes the program's body of the probe's, where it is another.
    """

    program_type: ProgramType
    attach: AttachSpec
    optional: bool = False
    body: Callable[[Body], Body] | None = None

    def body_for(self, body: Body) -> Body:
        """The body of the program, of a probe with this one."""
        return body if self.body is None else self.body(body)


@dataclass(frozen=True, slots=True)
class Candidate:
    """Attachments that do what a request asks for.

    `name` is what `-v` and messages call it, `needs` the features without which the kernel is known to lack it, and
    `missing_reason` the words for a kernel that lacks one; without them the feature is named.
    """

    name: str
    attachments: tuple[Attachment, ...]
    needs: tuple[str, ...] = ()
    missing_reason: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """The request of one decorator: `decorator` is its name, `targets` what the author wrote.

    Of the `candidates`, best first, the first is taken that the kernel has; most requests have just one. `subject` is
    what all of them trace, such as "kernel functions".
    """

    decorator: str
    targets: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    subject: str = ""

    def __str__(self) -> str:
        return f"@{self.decorator}({', '.join(map(repr, self.targets))})"


class Probe(Generic[P, R]):
    """The result of a decorator: the body, and each request made by a decorator.

    A probe runs in the kernel on each event; calling it from Python raises OnlyInProbe.
    """

    def __init__(self, body: Body, requests: tuple[Request, ...]) -> None:
        self.body = body
        self.requests = requests
        self._attacher: Attacher | None = None
        self._find_program: Callable[[AnyProbe], object] | None = None
        self.__name__ = body.name
        wrapped = body.wrapped
        if wrapped is not None:
            self.__name__ = wrapped.__name__
            self.__qualname__ = wrapped.__qualname__
            self.__doc__ = wrapped.__doc__
            self.__module__ = wrapped.__module__
            self.__wrapped__ = wrapped

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """Every attach point that the requests name, in order, each by its request's first candidate."""
        return tuple(attachment for request in self.requests for attachment in request.candidates[0].attachments)

    def blame(self, error: PyebpfError, number: int) -> None:
        """Name this probe, and the decorator that made the request of a number, in an error about it."""
        try:
            where = self.body.where_requested(number, len(self.requests))
        except CompileError:
            where = None
        error.name_probe(self.body.name, where)

    def bind(self, attacher: Attacher | None, program: Callable[[AnyProbe], object] | None = None) -> None:
        """Connect with the loaded programs; None when they are closed."""
        self._attacher = attacher
        self._find_program = program

    @property
    def program(self) -> Any:
        """The loaded program (`pyebpf.objects.Program`), the first if it was loaded for several targets."""
        if self._find_program is None:
            raise NotLoaded(f"{self.__name__} is not loaded: use it inside `with bpf:`, or after bpf.load()")
        return self._find_program(self)

    def attach(self, *target: object, **options: object) -> Attached:
        """Attach the loaded program to a target named now, such as an interface; the link that holds it.

        For decorators that were given no target. The link ends with its `detach()`, or with the program. Raises
        NotLoaded outside `with bpf:`, InvalidValue for a probe whose target is known, and what attaching raises.
        """
        if self._attacher is None:
            raise NotLoaded(f"{self.__name__} is not loaded: attach it inside `with bpf:`, or after bpf.load()")
        return self._attacher(self, target, options)

    if not TYPE_CHECKING:  # to a checker a probe is no callable, so it finds a call before Python does

        def __call__(self, *_arguments: object, **_keywords: object) -> NoReturn:
            raise OnlyInProbe(f"{self.__name__} is a probe: the kernel runs it on each event, Python can't call it")

    def __repr__(self) -> str:
        return f"<Probe {self.__name__}: {' '.join(map(str, self.requests))}>"


def request_decorator(module: ProbeOwner, request: Request) -> Callable[[Any], AnyProbe]:
    """A decorator that makes a request for a body, or one more for a probe; new probes are added to the module's."""

    def decorate(decorated: object) -> AnyProbe:
        if isinstance(decorated, Probe):
            decorated.requests = (*decorated.requests, request)
            return decorated
        probe: AnyProbe = Probe(module.body_of(decorated, request.decorator), (request,))
        module.probes.append(probe)
        return probe

    return decorate
