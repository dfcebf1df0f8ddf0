"""A function's source as syntax tree, found by its code object.

The text comes through `linecache` with the function's globals, which serves files, zipapps and notebooks alike. The
node found is compiled and compared with the live code object, so that a file edited after its import is noticed
instead of compiled.
"""

from __future__ import annotations
import __future__

import ast
import functools
import linecache
from contextlib import suppress
from types import CodeType
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from pyebpf.dataclass import dataclass
from pyebpf.dsl.depth import MAX_LEVELS, room, too_deep
from pyebpf.dsl.tree import children
from pyebpf.errors import CompileError, Location

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FunctionType

T = TypeVar("T", bound=ast.AST)
FunctionNode: TypeAlias = ast.FunctionDef | ast.Lambda
#: The loops around a function's definition, innermost last.
_Loops: TypeAlias = "tuple[ast.For | ast.While, ...]"

_FUTURES = functools.reduce(
    lambda flags, name: flags | getattr(__future__, name).compiler_flag, __future__.all_feature_names, 0
)


#: Code that was compiled anew to run while compiling, and the code that the author's source made.
ORIGINALS: dict[CodeType, CodeType] = {}


@dataclass(frozen=True, eq=False)
class Source:
    """One function's syntax: `node` with the file it stands in and the loops around it."""

    file: str
    lines: tuple[str, ...]
    node: FunctionNode
    loops: _Loops = ()

    def at(self, node: ast.AST) -> Location:
        """The place of a node: its first physical line, columns in characters."""
        if isinstance(node, (ast.expr, ast.stmt)):
            line, start, end = node.lineno, node.col_offset, node.end_col_offset
            last = node.end_lineno
        else:
            line, start = getattr(node, "lineno", self.node.lineno), getattr(node, "col_offset", 0)
            end, last = getattr(node, "end_col_offset", None), getattr(node, "end_lineno", line)
        text = self.lines[line - 1].rstrip("\r\n") if line <= len(self.lines) else ""
        if end is None or last != line:
            end = len(text.encode())
        if not text.isascii():
            raw = text.encode("utf-8", "surrogatepass")
            start, end = (len(raw[:offset].decode("utf-8", "replace")) for offset in (start, end))
        return Location(self.file, line, start, end, text)

    @property
    def location(self) -> Location:
        """The line that names the function."""
        here = self.at(self.node)
        if isinstance(self.node, ast.Lambda):
            return here
        start = here.text.find(self.node.name, here.column)
        return Location(here.file, here.line, max(start, 0), max(start, 0) + len(self.node.name), here.text)


def find_source(function: FunctionType) -> Source:
    """Find the source of a function. Raises CompileError if there is none, or if it has changed since the import."""
    code = ORIGINALS.get(function.__code__, function.__code__)
    lines = tuple(linecache.getlines(code.co_filename, function.__globals__))
    with room():
        if not lines:
            from pyebpf.dsl.typed_source import typed_sources

            for typed in typed_sources(function):
                with suppress(CompileError):
                    return _found(code, code.co_filename, typed)
        return _found(code, code.co_filename, lines)


@functools.lru_cache(maxsize=128)  # each is asked for twice: for the names of maps, and to be compiled
def _found(code: CodeType, file_name: str, lines: tuple[str, ...]) -> Source:
    """The source of code; the file's name because equal code of two files is one to the cache."""
    if not lines:
        raise CompileError(
            f"the source of {code.co_name} cannot be read ({code.co_filename}): put it in a file and use "
            "`pyebpf run FILE`, or give its text to `bpf.define(text)`",
            Location(code.co_filename, code.co_firstlineno),
        )
    try:
        functions = _functions(lines, ast.Lambda if code.co_name == "<lambda>" else ast.FunctionDef)
    except (SyntaxError, ValueError):
        raise _changed(code) from None
    except RecursionError:
        raise CompileError(
            f"{code.co_filename} nests statements and expressions too deep to be read: move a part into a function",
            Location(code.co_filename, code.co_firstlineno),
        ) from None
    candidates = [
        (node, loops)
        for node, loops in functions.get(code.co_firstlineno, [])
        if _name(node) == code.co_name and _spans(node, code)
    ]
    for node, loops in candidates:
        deep = too_deep(node)
        if deep is not None:
            source = Source(file_name, lines, node, loops)
            raise CompileError(
                f"more than {MAX_LEVELS} statements and expressions are nested here, counting operators and "
                "`elif`s: move a part into a function, or write a loop or a table",
                source.at(deep),
            )
        if _same(compiled_within(node, code, _imports_of(lines)), code):
            return Source(file_name, lines, node, loops)
    raise _changed(code)


def _changed(code: CodeType) -> CompileError:
    return CompileError(
        f"{code.co_name}: the file changed since it was imported: run the program again",
        Location(code.co_filename, code.co_firstlineno),
    )


@functools.lru_cache(maxsize=32)
def _parsed(lines: tuple[str, ...]) -> ast.Module:
    return ast.parse("".join(lines))


@functools.lru_cache(maxsize=64)
def _functions(lines: tuple[str, ...], kind: type[FunctionNode]) -> dict[int, list[tuple[FunctionNode, _Loops]]]:
    """A file's functions of a kind by the line that their code objects name, with the loops around each."""
    functions: dict[int, list[tuple[FunctionNode, _Loops]]] = {}
    # Lambdas alone stand in expressions, which most nodes belong to.
    looked_at = ast.AST if kind is ast.Lambda else (ast.stmt, ast.excepthandler, ast.match_case)
    waiting: list[tuple[ast.AST, _Loops]] = [(_parsed(lines), ())]
    while waiting:
        node, loops = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            if isinstance(node, kind):
                first = min([node.lineno, *[decorator.lineno for decorator in getattr(node, "decorator_list", ())]])
                functions.setdefault(first, []).append((node, loops))
        elif isinstance(node, (ast.For, ast.While)):
            loops = (*loops, node)
        waiting += [(child, loops) for child in reversed(children(node)) if isinstance(child, looked_at)]
    return functions


@functools.lru_cache(maxsize=32)
def _imports_of(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Names that a file imports at the top."""
    return tuple(dict.fromkeys(_imports(_parsed(lines))))


def _imports(node: ast.AST) -> Iterator[str]:
    """Names that imports bind in the module's own scope."""
    for child in children(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in child.names if alias.name != "*")
        elif not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.expr)):
            yield from _imports(child)


def _name(node: FunctionNode) -> str:
    return node.name if isinstance(node, ast.FunctionDef) else "<lambda>"


def _spans(node: FunctionNode, code: CodeType) -> bool:
    """Whether every instruction of `code` comes from inside the node: what tells lambdas of one line apart.

    Code without columns (-X no_debug_ranges; a lambda that returns a constant, in Python 3.12) may be any node's: the
    comparison of the code decides alone.
    """
    if isinstance(node, ast.FunctionDef):
        return True
    body = node.body
    first, last = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    for line, end_line, column, end_column in code.co_positions():
        if None in (line, end_line, column, end_column) or (column, end_column) == (0, 0):
            continue
        if (line, column) < first or (end_line, end_column) > last:
            return False
    return True


def imports_of(source: Source) -> tuple[str, ...]:
    """Names that the file of a function imports at the top."""
    return _imports_of(source.lines)


def compiled_within(
    node: FunctionNode, code: CodeType, imports: tuple[str, ...], more: tuple[str, ...] = ()
) -> CodeType | None:
    """Compile the node as it was: inside a function that has its free names, and `more`, as parameters.

    The module's imports count: CPython calls `a.b()` by other instructions where `a` is imported at the top.
    """

    def placed(new: T) -> T:
        return ast.copy_location(new, node)

    parameters = [placed(ast.arg(name)) for name in (*code.co_freevars, *more)]
    statements: list[ast.stmt]
    if isinstance(node, ast.FunctionDef):
        inner = placed(ast.FunctionDef(node.name, node.args, node.body, [], node.returns, node.type_comment))
        # A function that calls itself finds its own name where it found it before: outside, unless it was free there.
        statements = [inner] if node.name in code.co_freevars else [placed(ast.Global([node.name])), inner]
    else:
        statements = [placed(ast.Expr(node))]
    outer = placed(ast.FunctionDef("around", ast.arguments([], parameters, None, [], [], None, []), statements, []))
    bound = [placed(ast.Import([placed(ast.alias(name))])) for name in imports]
    module = ast.Module([*bound, outer], [])
    try:
        compiled = compile(module, code.co_filename, "exec", flags=code.co_flags & _FUTURES, dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    for outer_code in _nested(compiled):
        for inner_code in _nested(outer_code):
            if inner_code.co_name == code.co_name:
                return inner_code
    return None


def _nested(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def _same(found: CodeType | None, live: CodeType) -> bool:
    if found is None:
        return False
    nested, live_nested = _nested(found), _nested(live)
    return (
        found.co_code == live.co_code
        and found.co_names == live.co_names
        and found.co_varnames == live.co_varnames
        and set(found.co_freevars) == set(live.co_freevars)
        and [_text(c) for c in found.co_consts if not isinstance(c, (CodeType, str))]
        == [_text(c) for c in live.co_consts if not isinstance(c, (CodeType, str))]
        and [c for c in found.co_consts if isinstance(c, str) and "<locals>" not in c]
        == [c for c in live.co_consts if isinstance(c, str) and "<locals>" not in c]
        and len(nested) == len(live_nested)
        and all(map(_same, nested, live_nested))
    )


def _text(constant: object) -> str:
    """A constant's text, which tells 1 from 1.0; a set's is one in whatever order it has its elements.

    Equal sets of one file are one constant, in the order of the first of them.
    """
    return str(sorted(map(repr, constant))) if isinstance(constant, frozenset) else repr(constant)


def names_rebound_by_loops(source: Source) -> frozenset[str]:
    """Names that the loops around a function's definition bind anew in each iteration.

    Each probe made there has its own value.
    """
    return frozenset(
        node.id
        for loop in source.loops
        for node in ast.walk(loop)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
