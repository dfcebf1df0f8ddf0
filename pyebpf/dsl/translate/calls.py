"""Calls: entities, conversions, built-in functions, plain Python functions computed now or inlined."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from functools import partial
from types import FunctionType, MappingProxyType, MethodType
from typing import TYPE_CHECKING

from pyebpf.builder.context import Context
from pyebpf.builder.intrinsics.base import Intrinsic
from pyebpf.builder.ssa.conditions import All, Always
from pyebpf.builder.values import comparisons, operations
from pyebpf.builder.values.arrays import Array
from pyebpf.builder.values.entity import Entity, NoPythonOperators, describe
from pyebpf.builder.values.entries import MapEntries
from pyebpf.builder.values.integers import Int
from pyebpf.builder.values.kernel_objects import KernelArray
from pyebpf.builder.values.map_pointers import MapPointer
from pyebpf.builder.values.own_methods import ANY, own_method, refusal
from pyebpf.builder.values.records import Record, RecordLiteral, StructConstructor
from pyebpf.dsl.changes import Changing
from pyebpf.dsl.purity import Impure, impure_call
from pyebpf.dsl.set_order import AGGREGATES
from pyebpf.dsl.text_of import text_of
from pyebpf.dsl.translate.closures import BoundFunction, LocalFunction, is_plain, realized
from pyebpf.dsl.translate.compile_time import compile_time, needs_events, python_value, uses_bpf
from pyebpf.dsl.translate.conditions import as_test
from pyebpf.dsl.translate.expressions import attribute, binary
from pyebpf.dsl.translate.inlining import asks_an_event, computed, inline, inline_local
from pyebpf.dsl.translate.iteration import elements_of
from pyebpf.dsl.translate.operands import taken_before
from pyebpf.dsl.translate.sequences import OVER_SEQUENCES, first_of, listed, reduce_generator
from pyebpf.dsl.translate.string_buffers import check_ascii
from pyebpf.dsl.translate.tuples import described, is_built, is_run_time
from pyebpf.dsl.unroll import Unrolled, unroll
from pyebpf.types import U64, IntType, Struct
from pyebpf.types.structs import Factory

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.ssa.conditions import Test
    from pyebpf.dsl.translate.frame import Frame
    from pyebpf.types import StructType

#: Functions of Python's that go over what they are given.
_GO_OVER: tuple[object, ...] = (list, tuple, set, frozenset, dict, sorted, sum, min, max, any, all, enumerate, zip)
_GO_OVER += (reversed, iter, filter, map)
#: Those that take a generator in a probe.
_OVER_GENERATORS: tuple[object, ...] = (any, all, sum, next)


def call(f: Frame, node: ast.Call, *, statement: bool = False) -> object:
    """`callee(…)`; as a statement it must do something on each event."""
    before, f.b.where = f.b.where, f.at(node)
    callee = f.expression(node.func)
    if callee is super and not node.args:
        f.fail("super() is not supported in probes: name the class whose method it is, as in Base.method(self)", node)
    if any(callee is each for each in _OVER_GENERATORS) and node.args and not node.keywords:
        over = node.args[0]
        if isinstance(over, ast.GeneratorExp) and needs_events(f, over):
            more = [f.expression(each) for each in node.args[1:2]]
            if callee is builtins.next:
                found = first_of(f, over, *more)
            else:
                found = reduce_generator(f, callee, over, *(more or [0]))
            f.b.where = before
            return found
    if _is_aggregate(node, callee) and not needs_events(f, node.args[0]):
        f.b.where = before
        return python_value(f, node)
    if isinstance(node.func, ast.Name) and not isinstance(callee, Intrinsic) and f.hides_word(node.func.id):
        name = node.func.id
        if name in f.parameters:
            remedy = f"import that by another name, from pyebpf import {name} as current_{name}"
            f.fail(f"{name} is a parameter here and shadows the function {name}(): {remedy}", node.func)
        f.fail(f"{name} is a local variable here and shadows the function {name}(): rename it", node.func)
    arguments = listed(f, node.args, *node.keywords)
    keywords = _keywords(f, node)
    f.b.where = f.at(node)
    try:
        return _called(f, node, callee, arguments, keywords, statement=statement)
    finally:
        f.b.where = before


def _keywords(f: Frame, node: ast.Call) -> dict[str, object]:
    """The arguments that a call gives by name, those of `**` among them."""
    keywords: dict[str, object] = {}
    for number, keyword in enumerate(node.keywords, 1):
        following = node.keywords[number:]
        if keyword.arg is None:
            given = _spread(f, keyword.value, following)
        else:
            given = {keyword.arg: taken_before(f, f.expression(keyword.value), *following)}
        twice = next((name for name in given if name in keywords), None)
        if twice is not None:
            f.fail(f"the argument {twice} is given twice: leave one of them out", keyword.value)
        keywords |= given
    return keywords


def _spread(f: Frame, node: ast.expr, following: Sequence[ast.AST]) -> dict[str, object]:
    """The arguments that `**` gives: of a dictionary written out, whose values may be anything, or of one known now."""
    if isinstance(node, ast.Dict):
        found: dict[str, object] = {}
        for number, (key, each) in enumerate(zip(node.keys, node.values, strict=True), 1):
            behind = (*node.values[number:], *following)
            if key is None:
                found |= _spread(f, each, behind)
            else:
                found[_name(f, f.expression(key), key)] = taken_before(f, f.expression(each), *behind)
        return found
    value = f.expression(node)
    if not isinstance(value, (dict, MappingProxyType)):
        f.fail(
            f'`**` takes a dictionary that is known at compile time, or written here as `**{{"name": value}}`, not '
            f"{describe(value)}: write each argument as name=value",
            node,
        )
    return {_name(f, name, node): each for name, each in value.items()}


def _name(f: Frame, name: object, node: ast.expr) -> str:
    if not isinstance(name, str):
        f.fail(f"the names of arguments are strings known at compile time, not {described(name)}", node)
    return name


def _is_aggregate(node: ast.Call, callee: object) -> bool:
    """Whether a call is `sum(… for …)` or the like, which may go through a set."""
    return (
        isinstance(node.func, ast.Name)
        and len(node.args) == 1
        and not node.keywords
        and isinstance(node.args[0], (ast.GeneratorExp, ast.ListComp))
        and any(callee is each for each in AGGREGATES)
    )


def _called(
    f: Frame, node: ast.Call, callee: object, arguments: list[object], keywords: dict[str, object], *, statement: bool
) -> object:
    while isinstance(callee, partial):
        arguments, keywords, callee = [*callee.args, *arguments], {**callee.keywords, **keywords}, callee.func
    if isinstance(callee, LocalFunction):
        return inline_local(f, callee, arguments, keywords)
    if isinstance(callee, BoundFunction):
        return inline(f, callee.function, [callee.owner, *arguments], keywords)
    if isinstance(callee, Entity):
        found = callee.call(f.p, arguments, keywords)
        if statement and isinstance(found, MapEntries):
            f.fail(f"{found.describe()} alone does nothing: write `for … in {found.describe()}:`")
        return found
    if text_of(callee, "__module__") == "dataclasses" and text_of(callee) == "replace" and arguments:
        changed = _replaced(f, arguments, keywords)
        if changed is not None:
            return changed
    if callee is print:
        f.fail(
            "a probe can't print: emit a record to a ring buffer, `events.emit(Record(…))`, and print it in user space"
        )
    if isinstance(callee, MethodType) and isinstance(callee.__func__, FunctionType):
        arguments, callee = [callee.__self__, *arguments], callee.__func__
    if _computes(f, callee, [*arguments, *keywords.values()]):
        arguments = [realized(f, value) for value in arguments]
        keywords = {name: realized(f, value) for name, value in keywords.items()}
    given = [*arguments, *keywords.values()]
    impure = impure_call(callee)
    if impure:
        f.fail(Impure(impure).message(text_of(callee)))
    if (
        isinstance(callee, FunctionType)
        and callee is not unroll
        and (any(map(_touches_bpf, given)) or uses_bpf(callee))
    ):
        return inline(f, callee, arguments, keywords)
    if isinstance(callee, type) and issubclass(callee, tuple) and hasattr(callee, "_fields"):
        if any(map(is_run_time, given)):
            _check_named(f, callee)
        return compile_time(f, callee, *arguments, **keywords)
    if callee is hasattr and arguments and isinstance(arguments[0], Entity):
        f.fail('hasattr() can\'t look into values known only at run time: write has_field("struct NAME", "field")')
    if callee is getattr and arguments and isinstance(arguments[0], Entity):
        return _member(f, arguments)
    if isinstance(callee, type) and issubclass(callee, Struct):
        if statement:
            f.fail(f"{callee.__name__}(…) makes a record that is not used: emit it, store it, or give it a name")
        made = _made(f, node, callee.layout, arguments, keywords)
        return StructConstructor(callee).call(f.p, arguments, {**keywords, **made})
    if statement:
        if isinstance(callee, FunctionType) and asks_an_event(f, callee, arguments, keywords):
            return inline(f, callee, arguments, keywords)
        name = ast.unparse(node.func)
        remedy = (
            "; keep values in a map, or emit them"
            if isinstance(getattr(callee, "__self__", None), (list, dict, set))
            else ""
        )
        f.fail(f"{name}() is plain Python: it would run at compile time, not at run time{remedy}")
    if isinstance(callee, IntType):
        return _converted(f, callee, arguments, keywords)
    if callee is unroll:
        return _unrolled(f, node, arguments)
    if any(callee is each for each in _GO_OVER) and any(isinstance(value, (MapEntries, MapPointer)) for value in given):
        f.fail(f"{text_of(callee)}() can't go over a map at run time: write a `for` loop over it")
    over = OVER_SEQUENCES.get(callee) if _hashable(callee) else None
    if over is not None and any(map(is_run_time, given)):
        return _over(f, over, callee, arguments, keywords)
    built_in = _BUILT_IN.get(callee) if _hashable(callee) else None
    if built_in is not None and any(map(_touches_bpf, given)):
        if keywords:
            f.fail(f"{text_of(callee)}() takes no argument {next(iter(keywords))} in a probe")
        return built_in(f, arguments)
    table = getattr(callee, "__self__", None)
    if isinstance(table, Mapping) and text_of(callee) == "get" and any(map(is_run_time, given)):
        from pyebpf.dsl.translate.tables import table_get

        return table_get(f, table, arguments)
    for value in given:
        shown = text_of(callee) or ast.unparse(node.func)
        if is_run_time(value) or isinstance(value, Context):
            f.fail(
                f"{shown}() is Python's and runs at compile time, but {described(value)} is known only at "
                f"run time{_remedy(shown)}"
                f"{f.why_run_time(node)}"
            )
    if isinstance(callee, FunctionType):
        return computed(f, callee, arguments, keywords)
    if not callable(callee):
        f.fail(f"{ast.unparse(node.func)} is not a function: it can't be called")
    if callee is builtins.len and len(given) == 1:
        check_ascii(f, given[0])
    if callee is builtins.next and isinstance(node.args[0], (ast.Name, ast.Attribute)):
        f.fail(Changing("next").message(""))
    return compile_time(f, callee, *arguments, **keywords)


def _made(
    f: Frame, node: ast.Call, layout: StructType, arguments: list[object], keywords: dict[str, object]
) -> dict[str, object]:
    """The fields of a new record that `default_factory` gives, called here."""
    given = {each.name for each in layout.positional[: len(arguments)]} | keywords.keys()
    return {
        each.name: _called(f, node, each.default.function, [], {}, statement=False)
        for each in layout.fields
        if isinstance(each.default, Factory) and each.name not in given
    }


def _computes(f: Frame, callee: object, given: list[object]) -> bool:
    """Whether Python itself runs a call that is given functions of the probe's."""
    if not any(isinstance(value, LocalFunction) for value in given):
        return False
    if isinstance(callee, FunctionType) and uses_bpf(callee):
        return False
    return all(is_plain(f, value) if isinstance(value, Entity) else not is_run_time(value) for value in given)


def _of_array(f: Frame, arguments: list[object]) -> list[object]:
    """The arguments of min() and max(); those of one array are its elements."""
    if len(arguments) == 1 and isinstance(arguments[0], (Array, KernelArray)):
        return elements_of(f, arguments[0]) or arguments
    return arguments


def _over(
    f: Frame, over: Callable[..., object], callee: object, arguments: list[object], keywords: dict[str, object]
) -> object:
    import inspect

    try:
        inspect.signature(over).bind(f, *arguments, **keywords)
    except TypeError as error:
        f.fail(f"{text_of(callee)}(): {error}")
    found = over(f, *arguments, **keywords)
    return found.holds if isinstance(found, Always) else found


def _replaced(f: Frame, arguments: list[object], keywords: dict[str, object]) -> RecordLiteral | None:
    """`dataclasses.replace(r, name=value)` of a record: a new one; None for anything else."""
    owner = operations.rvalue(f.p, arguments[0]) if isinstance(arguments[0], Entity) else arguments[0]
    if not isinstance(owner, (Record, RecordLiteral)) or len(arguments) > 1:
        return None
    kept = owner.local(f.p)
    values = {field.name: attribute(f, kept, field.name) for field in owner.type.fields if field.name not in keywords}
    return StructConstructor(owner.type).call(f.p, [], {**values, **keywords})


def _member(f: Frame, arguments: list[object]) -> object:
    """`getattr(x, "name")`."""
    if len(arguments) != 2 or not isinstance(arguments[1], str):
        f.fail('getattr() takes a name known at compile time in a probe, and no default: getattr(x, "name")')
    return attribute(f, arguments[0], arguments[1])


def _check_named(f: Frame, kind: type) -> None:
    """Refuse a namedtuple of values known only at run time, if its class has methods of its own for what follows."""
    own = own_method(kind, ANY | {"__new__", "__init__", *kind._fields})  # type: ignore[attr-defined]  # as was asked
    if own:
        f.fail(refusal(kind, own))


def _hashable(value: object) -> bool:
    return isinstance(value, (type, type(len)))


def _touches_bpf(value: object) -> bool:
    return is_built(value) or is_run_time(value)


def _remedy(name: str) -> str:
    remedies = {
        "str": "; keep the number, and format it in user space",
        "format": "; emit the pieces as fields, and format in user space",
        "join": "; emit the pieces as fields, and join them in user space",
        "float": "; BPF has no fractions",
        "sum": "; write +, or a `for` loop",
        "sorted": "; sort in user space",
        "isinstance": "",
        "round": "; BPF has no fractions",
        "list": "; use a Struct, or a map",
        "dict": "; use a map",
        "tuple": "",
        "set": "; use a map",
        "range": "",
    }
    return remedies.get(name, "")


# -- conversions and built-in functions --------------------------------------------------------------------------------


def _converted(f: Frame, type_: IntType, arguments: list[object], keywords: dict[str, object]) -> object:
    if len(arguments) != 1 or keywords:
        f.fail(f"{type_.name}() takes one number")
    value = operations.convert(f.p, type_, arguments[0])
    if type_ == U64 and isinstance(value, int):
        # A literal is an s64; this one is not.
        return Int(f.b.const(value), U64, literal=value)
    return value


def _unrolled(f: Frame, node: ast.Call, arguments: list[object]) -> Unrolled:
    if len(arguments) != 1:
        f.fail("unroll() takes one iterable: `for i in unroll(range(4)):`")
    values = arguments[0]
    if isinstance(values, Entity):
        f.fail(f"unroll() needs what is known at compile time, not {describe(values)}{f.why_run_time(node)}")
    return Unrolled(compile_time(f, list, values))


def _one(f: Frame, name: str, arguments: list[object]) -> object:
    if len(arguments) != 1:
        f.fail(f"{name}() takes one argument")
    return arguments[0]


def _bool(f: Frame, arguments: list[object]) -> bool | Test:
    test = as_test(f, _one(f, "bool", arguments))
    return test.holds if isinstance(test, Always) else test


def _int(f: Frame, arguments: list[object]) -> Int:
    return operations.to_int(f.p, _one(f, "int", arguments))


def _divmod(f: Frame, arguments: list[object]) -> tuple[object, object]:
    if len(arguments) != 2:
        f.fail("divmod() takes two numbers")
    return binary(f, ast.FloorDiv(), *arguments), binary(f, ast.Mod(), *arguments)


def _pow(f: Frame, arguments: list[object]) -> object:
    if len(arguments) != 2:
        f.fail("pow() takes two numbers in a probe")
    return binary(f, ast.Pow(), *arguments)


def _range(f: Frame, arguments: list[object]) -> RunTimeRange:
    if not 1 <= len(arguments) <= 2:
        f.fail("range() with run-time ends takes one or two numbers outside `for`")
    return RunTimeRange(*([0, *arguments] if len(arguments) == 1 else arguments))


class RunTimeRange(Entity, NoPythonOperators):
    """`range(a, b)` with ends known at run time only: good for `in`."""

    def __init__(self, start: object, stop: object) -> None:
        self.start = start
        self.stop = stop

    def describe(self) -> str:
        return "a range with run-time ends"

    def contains(self, p: ProgramBuilder, item: object) -> Test:
        return All((comparisons.compare(p, ">=", item, self.start), comparisons.compare(p, "<", item, self.stop)))


_BUILT_IN: dict[object, Callable[[Frame, list[object]], object]] = {
    builtins.min: lambda f, arguments: comparisons.minimum(f.p, *_of_array(f, arguments)),
    builtins.max: lambda f, arguments: comparisons.maximum(f.p, *_of_array(f, arguments)),
    builtins.abs: lambda f, arguments: operations.absolute(f.p, _one(f, "abs", arguments)),
    builtins.len: lambda f, arguments: operations.length(f.p, _one(f, "len", arguments)),
    builtins.bool: _bool,
    builtins.int: _int,
    builtins.divmod: _divmod,
    builtins.pow: _pow,
    builtins.range: _range,
}
