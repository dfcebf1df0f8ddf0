"""The author's functions as they run while compiling: each operation that may take long is judged before it begins.

Python does not tell a hook what an operator or a call is given. So a function is compiled anew from its source, with
`a * b` and `f(x)` written as calls of `Guard`. What Python itself calls (a property, an operator of a class) runs as
it is, and is refused if it has an operator whose result nothing bounds.
"""

from __future__ import annotations

import ast
import copy
import operator
import sys
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from pyebpf.dsl import limits, set_order
from pyebpf.dsl.depth import room
from pyebpf.dsl.source import ORIGINALS, compiled_within, find_source, imports_of
from pyebpf.dsl.steps import COUNTING, MAX_ELEMENTS, counted
from pyebpf.dsl.text_of import text_of
from pyebpf.errors import CompileError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.dsl.source import FunctionNode

#: The name of the guard in code compiled anew; no source can have it.
NAME = "<guard>"
#: Integers below this are added and multiplied without a look at their size.
_SMALL = 1 << 64
_FEW = 64
_SHORT = 4096
_SIMPLE = {"add": operator.add, "iadd": operator.add, "mul": operator.mul, "imul": operator.mul}
_GROWING = {"pow": operator.pow, "ipow": operator.pow, "lshift": operator.lshift, "ilshift": operator.lshift}
_GROWING |= {"mod": operator.mod, "imod": operator.mod}
_SHOWN = frozenset([str, bytes, list, tuple, dict])
_SCALARS = frozenset([bool, type(None), float])
_OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("add", "iadd"),
    ast.Mult: ("mul", "imul"),
    ast.Pow: ("pow", "ipow"),
    ast.LShift: ("lshift", "ilshift"),
    ast.Mod: ("mod", "imod"),
}
#: Calls that look at the function that they stand in.
_LOOK_AROUND = frozenset(["super", "locals", "vars", "dir", "globals"])


class Guard:
    """Operations of functions that run while compiling."""

    #: `True in <guard>.counting.ticker` is a step, which no hook sees.
    counting = COUNTING
    kinds = (type, int)

    def operate(self, name: str, left: Any, right: Any) -> Any:
        """`left + right` and the like, by the name of the function of `operator`."""
        # A step takes some half a microsecond: what this takes, and what its call takes.
        ticker = COUNTING.ticker
        _ = True in ticker and True in ticker and True in ticker
        kind = type(left)
        if kind is type(right):
            if kind is int and -_SMALL < left < _SMALL and -_SMALL < right < _SMALL:
                found = _SIMPLE.get(name)
                if found is not None:
                    return found(left, right)
                if name in _GROWING and 0 <= right < _FEW:
                    return _GROWING[name](left, right)
            elif kind is str and name in ("add", "iadd") and len(left) < _SHORT and len(right) < _SHORT:
                return left + right
        special = f"__{name.removeprefix('i')}__"
        reflected = f"__r{special[2:]}"
        types = (type(left), type(right))
        if types[0] is not types[1] and issubclass(types[1], types[0]):
            order = ((reflected, right, left), (special, left, right))
        else:
            order = ((special, left, right), (reflected, right, left))
        if _has_own(types[0], special) or _has_own(types[1], reflected):
            for each, owner, other in order:
                method = getattr(type(owner), each, None)
                if method is not None and (found := self.call(method, owner, other)) is not NotImplemented:
                    return found
        return self.call(getattr(operator, name), left, right)

    def call(self, function: Callable[..., object], /, *arguments: object, **keywords: object) -> Any:
        """`function(…)`."""
        watch = COUNTING.watch
        if watch is None:  # it was kept, and is called when all is compiled
            return function(*arguments, **keywords)
        sys.setprofile(None)
        sys.settrace(None)
        try:
            new, given, named = watch.check_call(function, arguments, keywords)
        finally:
            sys.settrace(watch.trace)
            sys.setprofile(watch)
        value: Any = new(*given, **named)
        kind = type(value)
        few = kind in _SHOWN and len(value) < 8
        if not (few or kind in _SCALARS or (kind is int and -_SMALL < value < _SMALL)):
            watch.check_result(value)
        return value

    def contains(self, item: object, values: object) -> object:
        """`item in values`."""
        return self.call(operator.contains, values, item)

    def spread(self, values: object) -> object:
        """`*values`."""
        return self.call(_spread, values)

    def stream(self, values: object) -> object:
        """`for … in values` of a comprehension."""
        return self.call(_spread, values)

    def kept(self, value: object) -> object:
        """A value that becomes part of another."""
        return self.call(_same, value)

    def format(self, value: object, conversion: int, spec: str) -> object:
        """`f"{value!r:spec}"`."""
        converting: dict[int, Callable[[object], str]] = {115: str, 114: repr, 97: ascii}
        convert = converting.get(conversion)
        return self.call(format, value if convert is None else self.call(convert, value), spec)


class ProbeGuard(Guard):
    """Operations of a probe's own expressions, none of which may depend on the order of a set either."""

    def call(self, function: Callable[..., object], /, *arguments: object, **keywords: object) -> Any:
        _ask("check_order", function, arguments, keywords)
        return super().call(function, *arguments, **keywords)

    def spread(self, values: object) -> object:
        return super().spread(self.iterated(values))

    def shown(self, value: object) -> object:
        """A value that becomes a part of a string."""
        _ask("check_order", format, (value,), {})
        return value

    def iterated(self, values: object, taker: object = None) -> object:
        """The values that a comprehension goes through; `taker` is the function that is given the whole."""
        if not any(taker is each for each in set_order.AGGREGATES):
            _ask("check_iterated", values)
        return values


def _ask(check: str, *arguments: object) -> None:
    """Let the computation that runs now look at something, without being watched itself."""
    watch: Any = sys.getprofile()
    if not hasattr(watch, check):
        return
    trace = sys.gettrace()
    sys.settrace(None)
    sys.setprofile(None)
    try:
        getattr(watch, check)(*arguments)
    finally:
        sys.setprofile(watch)
        sys.settrace(trace)


GUARD, PROBE_GUARD = Guard(), ProbeGuard()


def _spread(values: object) -> object:
    values = counted(values)
    if limits.size(values) > MAX_ELEMENTS:
        limits.too_many_iterations(limits.size(values))
    return values


def _same(value: object) -> object:
    return value


def _has_own(kind: type, name: str) -> bool:
    method = getattr(kind, name, None)
    return isinstance(method, FunctionType) and not _is_ours(method)


def _is_ours(function: FunctionType) -> bool:
    """Whether a function is of Python's library, or of this package: they run as they are."""
    root = text_of(function, "__module__").partition(".")[0]
    return root in sys.stdlib_module_names or root == "pyebpf"


def operation(function: object) -> str:
    """The name by which `Guard.operate` knows a function of `operator`; empty for all others."""
    name = text_of(function)
    known = any(name in names for names in _OPERATORS.values())
    return name if known and text_of(function, "__module__") == "_operator" else ""


def is_guarded(code: CodeType) -> bool:
    """Whether code is compiled anew, so that its loops count steps."""
    return NAME in code.co_freevars or NAME in code.co_names or NAME in code.co_cellvars


def guarded(function: object) -> Any:
    """A function of the author's with its operations guarded; as it is what has no source or is none of his."""
    if isinstance(function, MethodType) and isinstance(function.__func__, FunctionType):
        return MethodType(guarded(function.__func__), function.__self__)
    if not isinstance(function, FunctionType) or _is_ours(function) or function.__code__ in ORIGINALS:
        return function
    code = _compiled_anew(function)
    if code is None:
        return function
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells[NAME] = CellType(GUARD)
    try:
        closure = tuple(cells[name] for name in code.co_freevars)
    except KeyError:
        return function
    new = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    new.__kwdefaults__ = function.__kwdefaults__
    new.__qualname__ = function.__qualname__
    new.__module__ = function.__module__
    new.__dict__.update(function.__dict__)
    new.__annotations__ = function.__annotations__
    return new


def guarded_argument(value: Any) -> object:
    """An argument of a function of C's: a function that it may call is guarded, one of C's with a limit, too."""
    return partial(GUARD.call, value) if limits.is_ruled(value) else guarded(value)


def _compiled_anew(function: FunctionType) -> CodeType | None:
    if function.__code__ not in _ANEW:
        code = function.__code__
        found = None
        try:
            source = find_source(function)
        except (CompileError, RecursionError):
            source = None
        if source is not None:
            with room():
                node: FunctionNode = _Guarding().visit(copy.deepcopy(source.node))
                found = compiled_within(ast.fix_missing_locations(node), code, imports_of(source), (NAME,))
        _ANEW[code] = found
        if found is not None:
            _pair(found, code)
    return _ANEW[function.__code__]


_ANEW: dict[CodeType, CodeType | None] = {}


def _pair(new: CodeType, old: CodeType) -> None:
    """Note which code was what: nested functions stand in the same order."""
    ORIGINALS[new] = old
    inner: list[list[CodeType]] = [
        [each for each in code.co_consts if isinstance(each, CodeType)] for code in (new, old)
    ]
    for one, other in zip(*inner, strict=False):
        if one.co_name == other.co_name and one.co_firstlineno == other.co_firstlineno:
            _pair(one, other)


def guarded_expression(node: ast.expr) -> ast.expr:
    """An expression of a probe with its operations guarded."""
    found: ast.expr = ast.fix_missing_locations(_GuardingProbe().visit(copy.deepcopy(node)))
    return found


class _Guarding(ast.NodeTransformer):
    """Writes operations as calls of the guard."""

    def __init__(self) -> None:
        self._temporaries = 0

    def _call(self, method: str, node: ast.AST, *arguments: ast.expr) -> ast.Call:
        guard = ast.Name(NAME, ast.Load())
        call = ast.Call(ast.Attribute(guard, method, ast.Load()), list(arguments), [])
        for each in (guard, call.func, call):
            ast.copy_location(each, node)
        return call

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        self.generic_visit(node)
        names = _OPERATORS.get(type(node.op))
        return node if names is None else self._call("operate", node, ast.Constant(names[0]), node.left, node.right)

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _LOOK_AROUND:
            return node
        call = self._call("call", node, node.func, *node.args)
        call.keywords = node.keywords
        return call

    def visit_Starred(self, node: ast.Starred) -> ast.Starred:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = self._call("spread", node.value, node.value)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) == 1 and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            test = self._call("contains", node, node.left, node.comparators[0])
            return test if isinstance(node.ops[0], ast.In) else ast.copy_location(ast.UnaryOp(ast.Not(), test), node)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.Call:
        self.generic_visit(node)
        for each in node.values:
            if isinstance(each, ast.FormattedValue) and each.format_spec is not None:
                spec = each.format_spec
                each.value = self._call("format", each, each.value, ast.Constant(each.conversion), spec)
                each.conversion, each.format_spec = -1, None
        return self._call("kept", node, node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.FormattedValue:
        node.value = self.visit(node.value)
        if node.format_spec is not None:
            self.generic_visit(node.format_spec)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        for target in node.targets:
            if isinstance(target, (ast.Tuple, ast.List)) and any(isinstance(each, ast.Starred) for each in target.elts):
                node.value = self._call("spread", node.value, node.value)
            elif isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Slice):
                node.value = self._call("kept", node.value, node.value)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.comprehension:
        self.generic_visit(node)
        node.iter = self._call("stream", node.iter, node.iter)
        node.ifs.insert(0, self._step(node.iter))
        return node

    def visit_For(self, node: ast.For) -> ast.stmt:
        return self._with_steps(node)

    def visit_While(self, node: ast.While) -> ast.stmt:
        return self._with_steps(node)

    def _with_steps(self, node: ast.For | ast.While) -> ast.stmt:
        self.generic_visit(node)
        node.body.insert(0, ast.copy_location(ast.Expr(self._step(node.body[0])), node.body[0]))
        return node

    def _step(self, node: ast.AST) -> ast.expr:
        """`True in <guard>.counting.ticker`, which is true, and raises an error once there are too many steps."""
        ticker: ast.expr = ast.Name(NAME, ast.Load())
        for name in ("counting", "ticker"):
            ticker = ast.Attribute(ast.copy_location(ticker, node), name, ast.Load())
        constant = ast.copy_location(ast.Constant(value=True), node)
        return ast.copy_location(ast.Compare(constant, [ast.In()], [ast.copy_location(ticker, node)]), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        names = _OPERATORS.get(type(node.op))
        if names is None:
            return node
        before: list[ast.stmt] = []
        target: Any = node.target
        counts = isinstance(node.op, ast.Add) and isinstance(node.value, ast.Constant) and type(node.value.value) is int
        if isinstance(target, ast.Attribute):
            target = ast.Attribute(self._held(target.value, before), target.attr, ast.Store())
        elif isinstance(target, ast.Subscript):
            if isinstance(target.slice, ast.Slice):
                return node
            owner = self._held(target.value, before)
            target = ast.Subscript(owner, self._held(target.slice, before), ast.Store())
        ast.copy_location(target, node.target)
        loaded = copy.deepcopy(target)
        loaded.ctx = ast.Load()
        value: ast.expr = self._call("operate", node, ast.Constant(names[1]), loaded, node.value)
        if counts and isinstance(target, ast.Name):  # as most loops do
            value = self._unless_integer(target.id, node, value)
        return [*before, ast.copy_location(ast.Assign([target], value), node)]

    def _unless_integer(self, name: str, node: ast.AugAssign, otherwise: ast.expr) -> ast.expr:
        """`name + 1 if type(name) is int else otherwise`: what counts needs no look at its size."""
        type_, int_ = (
            ast.Subscript(
                ast.Attribute(ast.Name(NAME, ast.Load()), "kinds", ast.Load()), ast.Constant(number), ast.Load()
            )
            for number in (0, 1)
        )
        test = ast.Compare(ast.Call(type_, [ast.Name(name, ast.Load())], []), [ast.Is()], [int_])
        total = ast.BinOp(ast.Name(name, ast.Load()), node.op, node.value)
        return ast.fix_missing_locations(ast.copy_location(ast.IfExp(test, total, otherwise), node))

    def _held(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """A local that has an expression's value."""
        self._temporaries += 1
        name = f"<held {self._temporaries}>"
        before.append(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], node), node))
        return ast.Name(name, ast.Load())


class _GuardingProbe(_Guarding):
    """The same for a probe's own expressions, with what they go through."""

    def __init__(self) -> None:
        super().__init__()
        #: Names of the functions that are given comprehensions whole.
        self._takers: dict[ast.AST, str] = {}

    def visit_Call(self, node: ast.Call) -> ast.Call:
        if len(node.args) == 1 and not node.keywords and isinstance(node.func, ast.Name):
            self._takers[node.args[0]] = node.func.id
        return super().visit_Call(node)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        return self._iterated(node)

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        return self._iterated(node)

    def visit_DictComp(self, node: ast.DictComp) -> ast.expr:
        return self._iterated(node)

    def _iterated(self, node: ast.GeneratorExp | ast.ListComp | ast.DictComp) -> ast.expr:
        taker = self._takers.get(node)
        self.generic_visit(node)
        for each in node.generators:
            takers = [] if taker is None else [ast.copy_location(ast.Name(taker, ast.Load()), each.iter)]
            each.iter = self._call("iterated", each.iter, each.iter, *takers)
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.FormattedValue:
        super().visit_FormattedValue(node)
        if node.format_spec is None:
            node.value = self._call("shown", node.value, node.value)
        return node
