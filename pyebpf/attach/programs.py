"""`@bpf.syscall`: a program that Python runs. `@bpf.raw_tracepoint_writable`: one that changes what it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar, overload

from pyebpf.attach.decorators import Decorators, attachments
from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue
from pyebpf.module.probe import Candidate, Probe, Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from pyebpf.attach.decorators import TracingDecorator
    from pyebpf.types import Struct, StructType

__all__ = ["ProgramDecorators", "Returned", "SyscallProbe"]

P = ParamSpec("P")
T = TypeVar("T", bound="Struct | None")

#: The number that the system call gives back is 32 bits wide.
_SIGN = 1 << 31


@dataclass(frozen=True, slots=True)
class Returned(Generic[T]):
    """The result of a run: the `value` that the program returned, as s32, and the `record` as it left it."""

    value: int
    record: T


class SyscallProbe(Probe[P, int], Generic[P, T]):
    """The result of `@bpf.syscall`: `run()` calls the program."""

    _record: StructType | None = None

    def run(self, record: T = None) -> Returned[T]:  # type: ignore[assignment]  # None stands for no record
        """Run it once, now, on this processor, as this process.

        `record` is what the decorator says, and comes back as the program left it. Raises NotLoaded outside `with
        bpf:`, InvalidValue for another record.
        """
        program = self.program
        layout = self._record
        if layout is None:
            if record is not None:
                raise InvalidValue(f"{self.__name__} takes no record: name its class, @bpf.syscall(Record)")
            return Returned(_signed(program.test_run().retval), record)
        found = program.test_run(context=layout.encode(record))
        return Returned(_signed(found.retval), layout.decode(found.context))


def _signed(number: int) -> int:
    return (number ^ _SIGN) - _SIGN


class _Refusing:
    """A stand-in for a program while a signature is read before anything is compiled."""

    def fail(self, message: str, where: Any = None) -> NoReturn:
        raise InvalidValue(message)


if TYPE_CHECKING:
    Q = ParamSpec("Q")
    R = TypeVar("R", bound="int | None")

    class ReplacingDecorator(Protocol):
        """Makes a function the one that replaces another."""

        def __call__(self, function: Callable[Q, R], /) -> Probe[Q, R]: ...

    U = TypeVar("U", bound="Struct | None")

    class SyscallDecorator(Protocol[U]):
        """Makes a function a program that Python runs."""

        def __call__(self, function: Callable[Q, int], /) -> SyscallProbe[Q, U]: ...


class ProgramDecorators(Decorators):
    """Programs that are called, and programs that change what they see."""

    @overload
    def syscall(self) -> SyscallDecorator[None]: ...
    @overload
    def syscall(self, record: type[T]) -> SyscallDecorator[T]: ...
    def syscall(self, record: Any = None) -> Any:
        """Run when Python says so, by `probe.run(record)`, with every map and helper that syscall programs have.

        `ctx` is the record, whose fields the program reads and writes, and which comes back; it may sleep. What it
        returns, 32 bits, is `probe.run(…).value`.
        """
        layout = getattr(record, "layout", None)
        if record is not None and layout is None:
            raise InvalidValue(f"@bpf.syscall({record!r}): give the Struct class that run() passes")
        from pyebpf.specs.attach.syscall import SyscallProgram

        place = SyscallProgram(layout)

        def decorate(function: Any) -> SyscallProbe[Any, Any]:
            request = Request("syscall", (), (Candidate("syscall", attachments((place,))),))
            probe: SyscallProbe[Any, Any] = SyscallProbe(self._module.body_of(function, "syscall"), (request,))
            probe._record = layout
            self._module.probes.append(probe)
            return probe

        return decorate

    def freplace(self, program: Any, function: Callable[..., Any]) -> ReplacingDecorator:
        """Run in place of the function `function` of a loaded program, until detached: then the old one runs again.

        `function` was made by `@bpf.replaceable`; `program` is the probe that calls it, of another module that is
        loaded first. Parameters are the function's, by name; the result is of its type.
        """
        from pyebpf.builder.subprograms import Subprogram

        if not isinstance(function, Subprogram) or not function.replaceable:
            name = getattr(function, "__name__", repr(function))
            raise InvalidValue(f"@bpf.freplace(…, {name}): only functions made by @bpf.replaceable can be replaced")
        from pyebpf.specs.attach.freplace import Freplace

        signature = function.signature(_Refusing())
        place = Freplace(program, function.__name__, tuple(signature.parameters.items()), signature.result)
        made: ReplacingDecorator = self._decorator(
            "freplace", (function.__name__,), (Candidate("freplace", attachments((place,)), ("attach:freplace",)),)
        )
        return made

    def raw_tracepoint_writable(self, *targets: str, optional: bool = False) -> TracingDecorator:
        """`raw_tracepoint` at one that was declared writable, such as "nbd_send_request" (since Linux 5.2).

        What the first argument points to is read and written directly: `request.flags = 0`; a number is `error[0]`.
        """
        from pyebpf.specs.attach.tracepoints import WritableRawTracepoint

        places = map(WritableRawTracepoint, targets)
        return self._tracing("raw_tracepoint_writable", targets, places, optional=optional)
