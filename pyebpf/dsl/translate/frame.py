"""`Frame`: one function being translated: its names, its loops, its way out."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NoReturn

from pyebpf.dataclass import dataclass
from pyebpf.dsl.translate.assigned import given_none
from pyebpf.dsl.translate.names import Names

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from typing import Any, TypeAlias

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.environment import Variable
    from pyebpf.builder.ssa.function import Join
    from pyebpf.dsl.scope import Scope
    from pyebpf.dsl.source import Source
    from pyebpf.errors import Location
    from pyebpf.maps.for_each import ForEachLoop
    from pyebpf.types import IntType

    #: Functions by the class of the nodes that each is for, which no type can say.
    Handlers: TypeAlias = Mapping[type[ast.AST], Callable[["Frame", Any], object]]


@dataclass(slots=True)
class LoopContext:
    """A loop around the statement being translated.

    `unrolled` ones are gone at run time; `depth` is the frame's when the loop began; `carried` the variables that each
    iteration hands to the next; `leaves_early` becomes true when a run-time condition ends an iteration of an unrolled
    loop early, `is_left` when a `break` or `return` of the loop is reached; `for_each` belongs to a loop over a map.
    """

    exit: Join
    latch: Join
    unrolled: bool
    depth: int
    carried: frozenset[Variable] = frozenset()
    leaves_early: bool = False
    is_left: bool = False
    for_each: ForEachLoop | None = None


class Frame(Names):
    """One function: the program itself, a subprogram, or an inlined function at one call."""

    def __init__(
        self,
        p: ProgramBuilder,
        source: Source,
        scope: Scope,
        key: Hashable,
        *,
        returns: Join | None = None,
    ) -> None:
        super().__init__(p, source, scope, key)
        #: The target of `return` in an inlined function; None where it leaves the program or subprogram.
        self.returns = returns
        #: The result type of a subprogram; None in a program, whose type decides.
        self.result: IntType | None = None
        self.is_subprogram = False
        #: Whether what an inlined function returns is on every path a record just made.
        self.gives_fresh = True
        self.calls: tuple[object, ...] = ()
        self._places: dict[ast.AST, Location] = {}

    @property
    def for_each(self) -> ForEachLoop | None:
        """The innermost loop over a map around the statement, in whose body `return` only ends the body."""
        return next((around.for_each for around in reversed(self.loops) if around.for_each is not None), None)

    def may_be_none(self, node: ast.expr | None) -> bool:
        """Whether the author has reason to ask if a name is None: other statements, or calls, may give it that."""
        if not isinstance(node, ast.Name):
            return False
        return node.id in given_none(self.source.node) or (self.returns is not None and node.id in self.parameters)

    def at(self, node: ast.AST) -> Location:
        """The place of a node."""
        found = self._places.get(node)
        if found is None:
            found = self._places[node] = self.source.at(node)
        return found

    def fail(self, message: str, node: ast.AST | None = None) -> NoReturn:
        """Raise CompileError at a node, or at the current place."""
        self.p.fail(message, None if node is None else self.at(node))

    def why_run_time(self, node: ast.AST) -> str:
        """End of a message about a value that is not known at compile time: the name that made it so, and its line."""
        for each in ast.walk(node):
            if isinstance(each, ast.Name):
                reason = self.times.reason(self.key, each.id)
                if reason is not None:
                    return f"; {each.id} is a run-time variable since line {reason.where.line}, where it {reason.what}"
        return ""

    # -- by `Translator` -----------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> object:
        """The value of an expression: an Entity, or a Python value known now."""
        raise NotImplementedError

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Translate statements in order; those that control cannot reach have no effect."""
        raise NotImplementedError
