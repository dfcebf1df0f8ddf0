"""Expressions that Python itself computes while compiling; the others become builder calls."""

from __future__ import annotations

import ast
import sys
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, TypeVar

from pyebpf.builder.context import Context
from pyebpf.builder.intrinsics.base import Intrinsic
from pyebpf.builder.values.entity import Entity
from pyebpf.dsl.changes import ASSIGNING, Changing, Contents, is_iterator
from pyebpf.dsl.depth import as_deep_as_c_allows
from pyebpf.dsl.guarded import NAME, PROBE_GUARD, guarded_expression
from pyebpf.dsl.purity import Impure, compute, impure_call
from pyebpf.dsl.scope import MISSING, Scope
from pyebpf.dsl.steps import TooMuch
from pyebpf.dsl.text_of import text_of
from pyebpf.dsl.translate.known import check_iterations, said
from pyebpf.dsl.translate.refusals import refuse
from pyebpf.dsl.translate.tuples import is_run_time
from pyebpf.dsl.tree import free_names, walk
from pyebpf.errors import CompileError, NotLoaded, OnlyInProbe, closest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyebpf.dsl.translate.frame import Frame

R = TypeVar("R")

#: The file of what Python evaluates for a probe.
COMPILE_TIME = "<compile time>"


def compile_time(f: Frame, function: Callable[..., R], *arguments: object, **keywords: object) -> R:
    """Let Python compute; what it raises becomes an error of the place."""
    try:
        return only_known(f, function, *arguments, **keywords)
    except OnlyInProbe as error:
        f.fail(str(error))
    except NotLoaded:
        f.fail(
            "this reads a map's entries at compile time, when there are none: a probe looks entries up one at a "
            "time, by .get(k), or goes over the map by a `for` statement"
        )


def only_known(f: Frame, function: Callable[..., R], *arguments: object, **keywords: object) -> R:
    """Let Python compute, as `compile_time`, if that asks for nothing that only an event can answer.

    Raises OnlyInProbe or NotLoaded if it does.
    """
    contents = Contents(function, (*arguments, *keywords.values()))
    try:
        with as_deep_as_c_allows():
            found = compute(function, arguments, keywords)
    except (CompileError, OnlyInProbe, NotLoaded):
        raise
    except (Impure, TooMuch, Changing) as error:
        f.fail(error.message("" if _is_unnamed(function) else text_of(function, "__qualname__")))
    except RecursionError:
        f.fail("computing this at compile time, a function called itself too often: write a loop")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the author's own code may raise anything, SystemExit too
        f.fail(f"computing this at compile time raised {said(error)}")
    if contents.changed():
        f.fail(Changing("" if _is_unnamed(function) else text_of(function), "an outer object").message(""))
    return found


def _is_unnamed(function: object) -> bool:
    """Whether it is an operator, or this package's own function around what the probe has written."""
    return text_of(function, "__module__") in ("_operator", __name__, "pyebpf.dsl.translate.expressions")


def check_held(f: Frame, name: str, value: object) -> None:
    """Refuse an iterator that is kept in a name, an attribute or an element outside the probe."""
    if is_iterator(value) and not impure_call(value):  # a file is refused as such
        f.fail(
            f"{name} is an iterator, which is used up once, at compile time, not on each event: keep what it gives in "
            "a tuple, above the probe"
        )


def check_called(f: Frame, *values: object) -> None:
    """Refuse an intrinsic that stands without its parentheses."""
    for value in values:
        if isinstance(value, (tuple, list)):
            check_called(f, *value)
        if isinstance(value, Intrinsic):
            f.fail(f"{value.name} is used here without parentheses: write {value.name}()")


def named(f: Frame, node: ast.Name) -> object:
    """The value of a name."""
    value = f.read(node.id)
    if value is MISSING:
        from pyebpf.dsl.visible import visible_names

        known = dict.fromkeys((*f.local_names, *visible_names(f.scope, f.source)))
        f.fail(f"{node.id} is not defined{_import_of(node.id) or closest(node.id, known, likeness=0.75)}")
    if f.depth or not f.binds(node.id):
        check_held(f, node.id, value)
    return value


def _import_of(name: str) -> str:
    """End of a message: the import that gives a name of pyebpf; empty for others."""
    # What the package exports is nobody's layer; probes are declared with it, so it is loaded.
    package = sys.modules[__name__.partition(".")[0]]
    if name in package.__all__ or name in ("helpers", "packet"):
        return f": write `from pyebpf import {name}` at the top of the file"
    return ""


def python_value(f: Frame, node: ast.expr) -> object:
    """Let Python evaluate a whole expression, which then must not touch values known only at run time."""
    if isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.Starred)):
        refuse(f, node)
    bound = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    bound |= {argument.arg for argument in ast.walk(node) if isinstance(argument, ast.arg)}
    for each in ast.walk(node):
        if isinstance(each, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
            refuse(f, each)
    names: dict[str, object] = {}
    for free in free_names(node):
        value = named(f, free)
        if is_run_time(value) or isinstance(value, (Intrinsic, Context)):
            refuse(f, node)
        names[free.id] = value
        if any(value is each for each in ASSIGNING):
            f.fail(Changing(text_of(value)).message(""), free)
    _check_attributes(f, node, names)
    _look_first(f, node, bound)
    code = _compile(node)
    return compile_time(f, _evaluate, code, names)


def _check_attributes(f: Frame, node: ast.AST, names: dict[str, object]) -> object:
    """Refuse an iterator in `name.attribute`; the value of such an expression, as far as reading it runs no code."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if not isinstance(node, ast.Attribute):
        for each in ast.iter_child_nodes(node):
            _check_attributes(f, each, names)
        return None
    owner = _check_attributes(f, node.value, names)
    if owner is None or has_code(owner, node.attr):
        return None
    found = getattr(owner, node.attr, None)
    check_held(f, ast.unparse(node), found)
    return found


def has_code(owner: object, name: str) -> bool:
    """Whether reading an attribute may run code: a property's, a descriptor's, `__getattr__`'s."""
    type_: type = type(owner)
    if type_ is ModuleType or type_ is type:
        return False
    defined = [vars(each) for each in type_.__mro__]
    if any(isinstance(names.get(hook), FunctionType) for names in defined for hook in _HOOKS):
        return True
    found: object = next((names[name] for names in defined if name in names), None)
    return isinstance(found, property) or isinstance(getattr(type(found), "__get__", None), FunctionType)


#: Methods that are called for attributes of any name.
_HOOKS = ("__getattr__", "__getattribute__")


def _look_first(f: Frame, node: ast.expr, bound: set[str]) -> None:
    """Look first at ranges that Python would go through."""
    for each in ast.walk(node):
        if isinstance(each, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            over = [generator.iter for generator in each.generators]
            simple = [iter_ for iter_ in over if isinstance(iter_, (ast.Call, ast.Name)) and _is_free(iter_, bound)]
            ranges = [_range_of(f, iter_) for iter_ in simple]
            check_iterations(f, ranges)


def _is_free(node: ast.expr, bound: set[str]) -> bool:
    return not any(isinstance(each, ast.Name) and each.id in bound for each in ast.walk(node))


def _range_of(f: Frame, node: ast.expr) -> object:
    """The value of a name, or of a call of `range`; None of other calls, which may do anything."""
    if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and named(f, node.func) is range):
        return None
    return f.expression(node)


def _compile(node: ast.expr) -> CodeType:
    return compile(ast.Expression(guarded_expression(node)), COMPILE_TIME, "eval", dont_inherit=True)


def _evaluate(code: CodeType, names: dict[str, object]) -> object:
    return FunctionType(
        code, {**names, NAME: PROBE_GUARD}
    )()  # the probe's own source; eval() would look like the author's


def needs_events(f: Frame, node: ast.expr) -> bool:
    """Whether an expression with names of its own uses values known only at run time."""
    free = set(free_names(node))
    assigned = {each.target.id for each in walk(node) if isinstance(each, ast.NamedExpr)}
    for each in walk(node):
        if isinstance(each, (ast.Name, ast.Attribute)):
            root = each
            while isinstance(root, ast.Attribute) and isinstance(root.value, (ast.Name, ast.Attribute)):
                root = root.value
            if not isinstance(root, ast.Name) or root not in free or root.id in assigned:
                continue
            value = named(f, root) if isinstance(each, ast.Name) else _module_member(f, each)
            if is_run_time(value) or isinstance(value, Entity):
                return True
            if isinstance(value, FunctionType) and uses_bpf(value):
                return True
    return False


def _module_member(f: Frame, node: ast.Attribute) -> object:
    """The value of `module.name`; None for attributes of anything else."""
    owner = named(f, node.value) if isinstance(node.value, ast.Name) else None
    return getattr(owner, node.attr, None) if isinstance(owner, ModuleType) else None


def uses_bpf(function: FunctionType, seen: frozenset[int] = frozenset()) -> bool:
    """Whether a function's free names lead to maps or intrinsics, so that it means something on each event only."""
    if id(function) in seen:
        return False
    seen |= {id(function)}
    scope = Scope(function)
    for value in scope.captured.values():
        if isinstance(value, Entity):
            return True
        if isinstance(value, FunctionType) and uses_bpf(value, seen):
            return True
        if isinstance(value, ModuleType) and any(
            isinstance(getattr(value, name, None), Entity) for name in _names(function.__code__)
        ):
            return True
    return False


def _names(code: CodeType) -> Iterator[str]:
    """The names that a function reads, generators and functions within it, too."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)
