"""Functions that a probe makes inside itself, by `lambda` and `def`, and methods of its records."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import TYPE_CHECKING

from pyebpf.builder.ssa.conditions import Always
from pyebpf.builder.values.entity import Entity, NoPythonOperators
from pyebpf.builder.values.own_methods import check_field
from pyebpf.builder.values.records import Record, RecordLiteral
from pyebpf.dataclass import replace
from pyebpf.dsl.parameters import Parameters
from pyebpf.dsl.text_of import text_of
from pyebpf.dsl.translate.compile_time import python_value
from pyebpf.dsl.translate.inlining import inline
from pyebpf.dsl.translate.operands import frozen
from pyebpf.dsl.translate.tuples import is_run_time
from pyebpf.dsl.tree import free_names

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.dsl.source import Source
    from pyebpf.dsl.translate.frame import Frame


class LocalFunction(Entity, NoPythonOperators):
    """A function made inside the probe: inlined where it is called, with the names around it as they are then."""

    def __init__(self, frame: Frame, node: ast.FunctionDef | ast.Lambda, defaults: dict[str, object]) -> None:
        self.frame = frame
        self.node = node
        self.defaults = defaults
        self.__name__ = node.name if isinstance(node, ast.FunctionDef) else "<lambda>"

    def describe(self) -> str:
        return f"the function {self.__name__}"

    def truth(self, p: ProgramBuilder) -> Test:  # noqa: ARG002 - the protocol's
        return Always(holds=True)

    @property
    def source(self) -> Source:
        """Where it stands."""
        return replace(self.frame.source, node=self.node)

    def parameters(self) -> Parameters:
        """Its parameters."""
        arguments = self.node.args
        placed = (*arguments.posonlyargs, *arguments.args)
        return Parameters(
            tuple(each.arg for each in placed),
            tuple(each.arg for each in arguments.kwonlyargs),
            "" if arguments.vararg is None else arguments.vararg.arg,
            "" if arguments.kwarg is None else arguments.kwarg.arg,
            self.defaults,
            len(arguments.posonlyargs),
        )


class BoundFunction(Entity, NoPythonOperators):
    """A method of a record's class, with the record that it is called for."""

    def __init__(self, function: FunctionType, owner: object) -> None:
        self.function = function
        self.owner = owner

    def describe(self) -> str:
        return f"the method {self.function.__name__} without its parentheses"


def local_function(f: Frame, node: ast.FunctionDef | ast.Lambda) -> LocalFunction:
    """The function that a node makes; its defaults are evaluated here, as Python does."""
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    after = positional[len(positional) - len(arguments.defaults) :]
    defaults = {
        each.arg: frozen(f.p, f.expression(value)) for each, value in zip(after, arguments.defaults, strict=True)
    }
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if default is not None:
            defaults[each.arg] = frozen(f.p, f.expression(default))
    return LocalFunction(f, node, defaults)


def define(f: Frame, node: ast.FunctionDef) -> None:
    """`def name(…):` inside a probe."""
    if node.decorator_list:
        f.fail("a function inside a probe has no decorators: define it outside", node.decorator_list[0])
    if any(isinstance(each, (ast.Yield, ast.YieldFrom)) for each in ast.walk(node)):
        f.fail("a probe can't yield: write a plain function", node)
    f.assign(node.name, local_function(f, node))


def record_member(f: Frame, owner: Record | RecordLiteral, name: str) -> object:
    """A property or method of a record's class; None for its fields and for what there is not."""
    found = owner.type.cls
    if found is not None:
        check_field(f.p, owner.type, "")
    member = None if found is None or name in owner.type.by_name else _declared(found, name)
    if isinstance(member, property) and isinstance(member.fget, FunctionType):
        f.p.found.properties = True
        return inline(f, member.fget, [_kept(f, owner)], {})
    if isinstance(member, FunctionType):
        return BoundFunction(member, _kept(f, owner))
    if isinstance(member, staticmethod):
        return member.__func__
    if isinstance(member, (int, str, tuple)) and not name.startswith("_"):
        return member
    return None


def _declared(cls: type, name: str) -> object:
    """The meaning of a name in the author's classes; Struct's own methods are for user space."""
    for each in cls.__mro__:
        if text_of(each, "__module__").startswith("pyebpf.types"):
            return None
        if name in vars(each):
            return vars(each)[name]
    return None


def _kept(f: Frame, owner: Record | RecordLiteral) -> Record:
    return owner.local(f.p) if isinstance(owner, RecordLiteral) else owner


def realized(f: Frame, value: object) -> object:
    """A function for Python itself to call: a lambda of the probe's that is made of what is known at compile time."""
    if not isinstance(value, LocalFunction) or not isinstance(value.node, ast.Lambda):
        return value
    return python_value(f, value.node)


def is_plain(f: Frame, value: object) -> bool:
    """Whether a function of the probe's is as well one for Python itself to run."""
    if not isinstance(value, LocalFunction) or not isinstance(value.node, ast.Lambda):
        return False
    names = {each.id for each in free_names(value.node)}
    return not any(is_run_time(found) or isinstance(found, Entity) for found in map(f.read, names))
