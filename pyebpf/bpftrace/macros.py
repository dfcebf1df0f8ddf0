"""Macros of a script: each call is replaced by the macro's body, with the arguments in the places of the parameters.

A parameter says what it takes: `$x` a variable, `@x` a map, `x` any expression, or a type in `typeof(…)`. The body's
own variables are others in each place, and maps come by parameters alone. Macros of one name differ by their
parameters; a call takes the one that fits best, as bpftrace chooses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.ast.expressions import OWN
from pyebpf.bpftrace.cursor import MAX_LEVELS
from pyebpf.bpftrace.defines import check_chain
from pyebpf.bpftrace.parser import parse_define
from pyebpf.bpftrace.types import is_value
from pyebpf.dataclass import fields, replace
from pyebpf.errors import amount

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyebpf.bpftrace.source import Source

#: Macros within each other at most.
MAX_CHAIN = 50
#: Levels of a tree with macros at most.
MAX_HEIGHT = MAX_LEVELS + 100
#: Nodes that are put in at most: a chain of macros can double at each link.
MAX_NODES = 20_000


class _Part(NamedTuple):
    """A tree, how many nodes it has, and how many levels."""

    node: Any
    size: int
    height: int


class _Frame(NamedTuple):
    """The macro whose body is copied: its arguments by parameter, the number of the place, and those it is within.

    None stands for the text of a `#define`, whose variables and maps are the script's.
    `places` are the calls that lead here, the innermost first.
    """

    macro: ast.Macro | None
    arguments: Mapping[str, _Part]
    number: int
    chain: tuple[str, ...]
    places: tuple[ast.Expression, ...]


#: Functions that tell their place at run time, and those of the macros' calls.
_TELL_PLACES = ("errorf", "warnf")


def expand(program: ast.Program, is_function: Callable[[str], bool]) -> ast.Program:
    """The script with the bodies of its macros in the places of their calls. Raises CompileError.

    `is_function` says whether the language has a function of a name, which macros with other parameters leave alone.
    """
    macros = [each for each in program.items if isinstance(each, ast.Macro)]
    defines = [each for each in program.definitions if isinstance(each, ast.Define) and each.parameters is None]
    if not macros and not defines:
        return program
    expansion = _Expansion(program.source, macros, is_function, defines)
    items = [each if isinstance(each, ast.Macro) else expansion.copy(each, None).node for each in program.items]
    return replace(program, items=tuple(items))


class _Expansion:
    """The macros by name, and how much has been put in."""

    def __init__(
        self,
        source: Source,
        macros: Sequence[ast.Macro],
        is_function: Callable[[str], bool],
        defines: Sequence[ast.Define],
    ) -> None:
        self._source = source
        self._is_function = is_function
        self._defines = {each.name: each for each in defines}
        self._macros: dict[str, list[ast.Macro]] = {}
        self._places = self._nodes = 0
        signatures = set()
        for each in macros:
            names = [_key(parameter) for parameter in each.parameters]
            for position, parameter in enumerate(each.parameters):
                if names[position] in names[:position]:
                    raise source.error(f"this macro has a parameter {names[position]} already", parameter)
            signature = (each.name, *[type(parameter) for parameter in each.parameters])
            if signature in signatures:
                raise source.error(f"there is a macro {each.name} with such parameters already", each)
            signatures.add(signature)
            self._macros.setdefault(each.name, []).append(each)

    def copy(self, node: ast.Node, frame: _Frame | None) -> _Part:
        """A tree with the bodies of macros in it; within a body, with the arguments."""
        found = self._replaced(node, frame)
        if found is not None:
            return found
        if frame is not None:
            self._count(1, node)
        size, height = 1, 0
        changed: dict[str, object] = {}
        if frame is not None and isinstance(node, ast.Call) and node.name in _TELL_PLACES:
            changed["places"] = frame.places
        for each in fields(node):
            value = getattr(node, each.name)
            if isinstance(value, ast.Node):
                part = self.copy(value, frame)
                size, height = size + part.size, max(height, part.height)
                if part.node is not value:
                    changed[each.name] = part.node
            elif isinstance(value, tuple) and value and isinstance(value[0], ast.Node):
                parts = [self.copy(one, frame) for one in value]
                size += sum(part.size for part in parts)
                height = max(height, *[part.height for part in parts])
                if any(part.node is not one for part, one in zip(parts, value, strict=True)):
                    changed[each.name] = tuple([part.node for part in parts])
        if height >= MAX_HEIGHT:
            raise self._source.error(f"macros make this more than {MAX_HEIGHT} levels deep: use a variable", node)
        made = replace(node, **changed) if changed else node
        return _Part(made, size, height + 1)

    def _count(self, nodes: int, node: ast.Node) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise self._source.error(f"macros make this script more than {MAX_NODES} parts long: call fewer", node)

    def _replaced(self, node: ast.Node, frame: _Frame | None) -> _Part | None:
        """The part that takes a node's place; None for one that stays, perhaps with other parts."""
        match node:
            case ast.Call(name=name, arguments=arguments) if self._has(name, len(arguments)):
                return self._call(node, name, arguments, frame)
            case ast.Identifier(name=name):
                if frame is not None and name in frame.arguments:
                    self._count(frame.arguments[name].size, node)
                    return frame.arguments[name]
                if name in self._macros and any(not each.parameters for each in self._macros[name]):
                    return self._call(node, name, (), frame)
                if name in self._defines and not is_value(name):
                    return self._value(node, self._defines[name], frame)
            case ast.TypeName(name=name, keyword="") if frame is not None and name in frame.arguments:
                return _type_of(frame.arguments[name])
            case ast.TypeName(name=name) if frame is not None and name in frame.arguments:
                given = frame.arguments[name].node
                bare = given.operand if isinstance(given, ast.TypeOf) else given
                if not isinstance(bare, ast.TypeName | ast.Identifier):
                    raise self._source.error(f"`{node.keyword} {name}` takes a name: call it with typeof(NAME)", node)
                return _Part(replace(node, name=bare.name), 1, 1)
            case ast.OffsetOf(path=path) if frame is not None and any(each in frame.arguments for each in path):
                names = [one for each in path for one in self._path(each, frame, node)]
                return self.copy(replace(node, path=tuple(names)), frame._replace(arguments=_without(frame, path)))
            case ast.Variable(name=name) if frame is not None and frame.macro is not None:
                given_part = frame.arguments.get(f"${name}")
                if given_part is not None:
                    return _Part(replace(given_part.node, start=node.start, end=node.end), 1, 1)
                return _Part(replace(node, name=f"{name}{OWN}{frame.number}"), 1, 1)
            case ast.Let(variable=variable) if frame is not None and f"${variable.name}" in frame.arguments:
                raise self._source.error(f"${variable.name} is a parameter of this macro: rename one", variable)
            case ast.Map(name=name) if frame is not None and frame.macro is not None:
                given_part = frame.arguments.get(f"@{name}")
                if given_part is None:
                    raise self._source.error(
                        f"@{name} is no parameter of the macro {frame.macro.name}: maps are passed to macros", node
                    )
                return _Part(replace(given_part.node, start=node.start, end=node.end), 1, 1)
        return None

    def _has(self, name: str, count: int) -> bool:
        """Whether a call is of a macro, and not of a function of the same name."""
        found = self._macros.get(name, ())
        return any(len(each.parameters) == count for each in found) or (bool(found) and not self._is_function(name))

    def _path(self, name: str, frame: _Frame, node: ast.Node) -> list[str]:
        """The names of members that an argument stands for: `a.b`."""
        given = frame.arguments.get(name)
        if given is None:
            return [name]
        found, at = [], given.node
        while isinstance(at, ast.FieldAccess):
            found.append(at.name)
            at = at.value
        if not isinstance(at, ast.Identifier):
            raise self._source.error(f"{name} is the name of a member here: call the macro with one", node)
        return [at.name, *reversed(found)]

    def _call(
        self, node: ast.Expression, name: str, arguments: Sequence[ast.Expression], frame: _Frame | None
    ) -> _Part:
        given = [self.copy(each, frame) for each in arguments]
        macro = self._chosen(node, name, given)
        chain = frame.chain if frame is not None else ()
        if name in chain:
            raise self._source.error(f"the macro {name} calls itself: {' > '.join([*chain, name])}", node)
        if len(chain) >= MAX_CHAIN:
            raise self._source.error(f"macros call each other more than {MAX_CHAIN} deep: call fewer", node)
        self._places += 1
        by_name = {_key(parameter): part for parameter, part in zip(macro.parameters, given, strict=True)}
        places = (node, *(() if frame is None else frame.places))
        inner = _Frame(macro, by_name, self._places, (*chain, name), places)
        return self.copy(macro.body, inner)

    def _value(self, node: ast.Expression, define: ast.Define, frame: _Frame | None) -> _Part | None:
        """The value that a `#define` gives a name, as a copy of its own; None for a name that stands for itself."""
        if define.text == define.name:
            return None
        if not define.text:
            raise self._source.error(f"#define {define.name} gives it no value: write #define {define.name} 1", node)
        chain, places = ((), ()) if frame is None else (frame.chain, frame.places)
        name = f"#define {define.name}"
        check_chain(self._source, name, chain, node.start, node.end)
        return self.copy(parse_define(self._source, define), _Frame(None, {}, 0, (*chain, name), (node, *places)))

    def _chosen(self, node: ast.Node, name: str, given: Sequence[_Part]) -> ast.Macro:
        """The macro that fits the arguments best: most variables and maps by their own kind, the first of equals."""
        source, count = self._source, len(given)
        found = [each for each in self._macros[name] if len(each.parameters) == count]
        if not found:
            *fewer, most = sorted({len(each.parameters) for each in self._macros[name]})
            takes = " or ".join([*map(str, fewer), amount(most, "argument")])
            raise source.error(f"{name} takes {takes}, not {count}", node)
        fitting = [each for each in found if all(map(_fits, each.parameters, given))]
        if not fitting:
            for parameter, part in zip(found[0].parameters, given, strict=True):
                if not _fits(parameter, part):
                    kind = "a variable" if isinstance(parameter, ast.Variable) else "a map"
                    raise source.error(f"{name} takes {kind} here, for its {_key(parameter)}", part.node)
        return max(fitting, key=lambda each: sum(not isinstance(one, ast.Identifier) for one in each.parameters))


def _without(frame: _Frame, names: Sequence[str]) -> dict[str, _Part]:
    return {name: part for name, part in frame.arguments.items() if name not in names}


def _key(parameter: ast.Variable | ast.Map | ast.Identifier) -> str:
    """A parameter's name with its sign."""
    sign = "$" if isinstance(parameter, ast.Variable) else "@" if isinstance(parameter, ast.Map) else ""
    return sign + parameter.name


def _fits(parameter: ast.Variable | ast.Map | ast.Identifier, part: _Part) -> bool:
    return isinstance(parameter, ast.Identifier) or isinstance(part.node, type(parameter))


def _type_of(part: _Part) -> _Part:
    """An argument where a type stands."""
    node = part.node
    if isinstance(node, ast.TypeOf):
        return _Part(node.operand, part.size, part.height) if isinstance(node.operand, ast.Type) else part
    return _Part(ast.TypeOf(node.start, node.end, node), part.size + 1, part.height + 1)
