"""Programs in place of a function of another loaded program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from pyebpf.attach.decorators import Decorators, attachments
from pyebpf.builder.context import ProgramContext
from pyebpf.builder.values.integers import Int
from pyebpf.compiler.ir import Op
from pyebpf.dataclass import dataclass
from pyebpf.errors import InvalidValue, closest
from pyebpf.module.probe import Candidate, Probe
from pyebpf.specs.attach_point import AttachSpec
from pyebpf.types import S64, U64, IntType
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from pyebpf.builder.program import ProgramBuilder

    Q = ParamSpec("Q")
    R = TypeVar("R", bound="int | None")

    class ReplacingDecorator(Protocol):
        """Makes a function the one that replaces another."""

        def __call__(self, function: Callable[Q, R], /) -> Probe[Q, R]: ...


@dataclass(frozen=True, slots=True)
class Freplace(AttachSpec):
    """In place of the function `function` of another loaded program, with its parameters and its result.

    `program` is that program: what has a `program`, as a probe has inside `with`, or a `pyebpf.objects.Program`.
    """

    program: object
    function: str
    parameters: tuple[tuple[str, IntType], ...]
    result: IntType | None

    program_type = ProgramType.EXT

    def __str__(self) -> str:
        return f"function {self.function} of another program"

    @property
    def scalar_parameters(self) -> int:
        return len(self.parameters)

    @property
    def target(self) -> str:
        return self.function

    @property
    def loaded(self) -> Any:
        """The program whose function it is. Raises NotLoaded if it is not loaded (any more)."""
        return getattr(self.program, "program", self.program)

    def program_context(self) -> FreplaceProgramContext:
        return FreplaceProgramContext(self)


class FreplaceProgramContext(ProgramContext[Freplace]):
    """Parameters are the replaced function's, by name; the result is converted to its type."""

    has_context = False

    def parameter(self, p: ProgramBuilder, name: str, annotation: object, position: int) -> object:
        names = [each for each, _ in self.attach.parameters]
        if name not in names:
            p.fail(f"{self.attach} has no parameter {name}{closest(name, names)}: it has {', '.join(names) or 'none'}")
        index = names.index(name)
        value, type_ = p.b.parameters[index], self.attach.parameters[index][1]
        if type_.size == U64.size:
            return Int(value, S64 if type_.signed else U64)
        value = p.b.emit(Op.SEXT if type_.signed else Op.ZEXT, value, size=type_.size)
        p.b.assume_bounds(value, type_.minimum, type_.maximum)
        return Int(value, S64, type_)


class _Refusing:
    """A stand-in for a program while a signature is read before anything is compiled."""

    def fail(self, message: str, where: object = None) -> NoReturn:
        raise InvalidValue(message)


class FreplaceDecorators(Decorators):
    """Programs in place of others' functions."""

    def freplace(self, program: object, function: Callable[..., object]) -> ReplacingDecorator:
        """Run in place of the function `function` of a loaded program, until detached: then the old one runs again.

        `function` was made by `@bpf.replaceable`; `program` is the probe that calls it, of another module that is
        loaded first. Parameters are the function's, by name; the result is of its type.
        """
        from pyebpf.builder.subprograms import Subprogram

        if not isinstance(function, Subprogram) or not function.replaceable:
            name = getattr(function, "__name__", repr(function))
            raise InvalidValue(f"@bpf.freplace(…, {name}): only functions made by @bpf.replaceable can be replaced")
        signature = function.signature(_Refusing())
        place = Freplace(program, function.__name__, tuple(signature.parameters.items()), signature.result)
        made: ReplacingDecorator = self._decorator(
            "freplace", (function.__name__,), (Candidate("freplace", attachments((place,)), ("attach:freplace",)),)
        )
        return made
