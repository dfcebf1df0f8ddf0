"""`Tracer`: the interface of what a tool's `build` makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from pyebpf.tool.options import Kind


class Choice(Protocol):
    """The candidate that a probe's request took, and those before it, each with the reason against it."""

    @property
    def probe(self) -> str:
        """The probe's name."""

    @property
    def candidate(self) -> str:
        """The candidate."""

    @property
    def rejected(self) -> Sequence[tuple[str, str]]:
        """Candidates that would have been better, with reasons."""


class Tracer(Protocol):
    """The result of a tool's `build`: `BPF` is one. Entering it compiles, loads and attaches; leaving detaches.

    A class of your own inherits from this; what it does not define says nothing.
    """

    #: Called with a line of text where attaching or detaching takes seconds.
    progress: Callable[[str], None] | None = None
    #: Called when all is loaded and nothing attached yet: what it raises ends the start. `call_before_attaching` adds.
    before_attaching: Callable[[], None] | None = None

    def __enter__(self) -> object: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> object: ...

    @property
    def dropped(self) -> Mapping[str, int]:
        """Numbers of events dropped so far, by reason."""
        return {}

    @property
    def attachments(self) -> Iterable[str]:
        """A line for each attachment: which was chosen and why."""
        return ()

    @property
    def choices(self) -> Iterable[Choice]:
        """The candidate that each request took, and why not those before it."""
        return ()

    @property
    def warnings(self) -> Iterable[str]:
        """Lines on what was asked for and is not there, where the rest was attached."""
        return ()

    def check_exists(self, named: Iterable[tuple[str, Kind, Any]]) -> None:
        """Raise NotFound for a number of an option that names nothing on this machine: (option, kind, number)."""

    def resize_buffers(self, size: int) -> None:
        """Give each buffer of events `size` bytes, a power of two; before anything is loaded."""

    def buffer_sizes(self) -> Iterable[int]:
        """Bytes of each buffer of events."""
        return ()

    def listing(self) -> str:
        """The compiled programs as text, without loading them."""


def call_before_attaching(tracer: Tracer, function: Callable[[], None]) -> None:
    """Have a function called when all is loaded and nothing attached yet, after those that were given before."""
    earlier = tracer.before_attaching

    def both() -> None:
        if earlier is not None:
            earlier()
        function()

    tracer.before_attaching = both
