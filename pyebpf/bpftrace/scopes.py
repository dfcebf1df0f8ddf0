"""Variables by the blocks that declare them: a `let` in one block is another variable than a `let` in the next.

Each gets a name of its own, and so does the variable of a loop. A variable that is only assigned belongs to the whole
probe: bpftrace ends it with its block, and refuses to read it later. As there, no variable hides one of a block around
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.ast.expressions import OWN
from pyebpf.dataclass import fields, replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyebpf.bpftrace.source import Source


#: Blocks around a statement that stands in a probe's own block, with the parameters of a function.
_OUTERMOST = 2


def scoped(program: ast.Program) -> ast.Program:
    """The script with a name of its own for each variable that is declared. Raises CompileError."""
    source = program.source
    if "let" in source.text or "for" in source.text:
        items = [
            _scoped(source, each) if isinstance(each, ast.Probe | ast.Function) else each for each in program.items
        ]
        program = replace(program, items=tuple(items))
    for item in program.items:
        if isinstance(item, ast.Probe | ast.Function):
            _check_reads(source, item)
    return program


def _check_reads(source: Source, item: ast.Probe | ast.Function) -> None:
    """Raise CompileError for a variable that nothing before it in the script has assigned or declared, as bpftrace."""
    known = {each.variable.name for each in item.parameters} if isinstance(item, ast.Function) else set()

    def check(node: Any) -> None:
        if isinstance(node, tuple):
            for each in node:
                check(each)
            return
        if not isinstance(node, ast.Node):
            return
        parts: list[Any] = [getattr(node, each.name) for each in fields(node)]
        made: ast.Variable | None = None
        match node:
            case ast.Variable():
                if node.name not in known:
                    raise source.error(unassigned(node, known), node)
            case ast.Let():
                made = node.variable
                parts = [node.type, node.value]
            case ast.Assignment(operator="=", target=ast.Variable() as target):
                made, parts = target, [node.value]
            case ast.For():
                check(node.over)
                known.add(node.variable.name)
                parts = [node.body]
            case ast.Call(name="find", arguments=(first, second, ast.Variable() as target)):
                made, parts = target, [first, second]
        for each in parts:
            check(each)
        if made is not None:
            known.add(made.name)

    check((item.predicate, item.body) if isinstance(item, ast.Probe) else item.body)


def unassigned(node: ast.Variable, names: Iterable[str]) -> str:
    """The message for a variable that is read and not assigned, with the names of those that are."""
    ended = any(each.startswith(f"{node.name}{OWN}") for each in names)
    why = ": it ended with the block, or the loop, that has it" if ended else f": write ${node.written} = 0; before"
    return f"${node.written} is read before anything is assigned to it{why}"


def _scoped(source: Source, item: ast.Probe | ast.Function) -> Any:
    scopes = _Scopes(source)
    if isinstance(item, ast.Function):
        for parameter in item.parameters:
            scopes.bind(parameter.variable.name, parameter.variable.name)
    return scopes.renamed(item)


class _Scopes:
    """The blocks around a place: the names of the variables that each declares, with the variables' own names."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._blocks: list[dict[str, str]] = [{}]
        #: Names that are used, and for variables that are only assigned the block in which that came first.
        self._used: set[str] = set()
        self._assigned: dict[str, dict[str, str]] = {}

    def bind(self, name: str, own: str) -> None:
        """Have a name stand for a variable until the block ends."""
        self._blocks[-1][name] = own
        self._used.add(own)

    def renamed(self, node: Any) -> Any:
        """A tree with the variables' own names."""
        match node:
            case ast.Variable(name=name):
                own = self._own(name)
                return node if own in (None, name) else replace(node, name=own)
            case ast.Block():
                self._blocks.append({})
                made = self._parts(node, [each.name for each in fields(node)])
                self._blocks.pop()
                return made
            case ast.Let():
                return self._declared(self._parts(node, ["type", "value"]))
            case ast.Assignment(target=ast.Variable(name=name)):
                made = self._parts(node, ["value"])
                self._assign(name)
                return self._parts(made, ["target"])
            case ast.For(variable=variable):
                made = self._parts(node, ["over"])
                self._blocks.append({})
                own = self._bound(variable)
                made = self._parts(made, ["body"])
                self._blocks.pop()
                return replace(made, variable=replace(variable, name=own))
        return self._parts(node, [each.name for each in fields(node)])

    def _parts(self, node: Any, names: list[str]) -> Any:
        """A node with parts whose variables have their own names."""
        changed: dict[str, object] = {}
        for name in names:
            value = getattr(node, name)
            if isinstance(value, ast.Node):
                made = self.renamed(value)
                if made is not value:
                    changed[name] = made
            elif isinstance(value, tuple) and value and isinstance(value[0], ast.Node):
                parts = tuple([self.renamed(each) for each in value])
                if any(one is not other for one, other in zip(parts, value, strict=True)):
                    changed[name] = parts
        return replace(node, **changed) if changed else node

    def _own(self, name: str) -> str | None:
        return next((block[name] for block in reversed(self._blocks) if name in block), None)

    def _assign(self, name: str) -> None:
        if self._own(name) is None and not self._is_assigned(name):
            self._assigned[name] = self._blocks[-1]
            self._used.add(name)

    def _is_assigned(self, name: str) -> bool:
        """Whether a variable was assigned in a block around this place, or in this one."""
        return any(self._assigned.get(name) is block for block in self._blocks)

    def _declared(self, node: ast.Let) -> ast.Let:
        own = self._bound(node.variable)
        return node if own == node.variable.name else replace(node, variable=replace(node.variable, name=own))

    def _bound(self, variable: ast.Variable) -> str:
        """A name for a variable that this block declares: its own, unless it may stand for another elsewhere."""
        name = variable.name
        if self._own(name) is not None or self._is_assigned(name):
            words = f"${variable.written} is there already, in this block or around it: take another name"
            raise self._source.error(words, variable)
        is_alone = len(self._blocks) <= _OUTERMOST and name not in self._used
        own = name if is_alone else f"{name}{OWN}b{len(self._used)}"
        self.bind(name, own)
        return own
