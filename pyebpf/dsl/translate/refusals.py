"""Syntax that the language does not have: for each kind, what is wrong with it and what to write instead."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyebpf.dsl.translate.frame import Frame

_COMPREHENSION = "a comprehension over values known only at run time can't be built: write a `for` loop"
_YIELD = "a probe can't yield: emit a record to a ring buffer, in an iterator by `emit(…)`"

#: Statements. Not here: those that `statements.py` translates.
STATEMENTS: Mapping[type[ast.AST], str] = {
    ast.AsyncFunctionDef: "a function can't be defined inside a probe: define it outside, without `async`",
    ast.ClassDef: "a class can't be defined inside a probe: define the Struct outside",
    ast.Global: "a global name can't be assigned by a probe, which runs in the kernel: keep the value in a map",
    ast.Nonlocal: "an outer name can't be assigned by a probe, which runs in the kernel: keep the value in a map",
    ast.Raise: "there are no exceptions in a probe: `return`, or emit a record that says what happened",
    ast.Try: "there are no exceptions in a probe: leave out `try`; a failed read gives zeros, a missing entry is None",
    ast.TryStar: "there are no exceptions in a probe: leave out `try`; a failed read gives zeros, a missing "
    "entry is None",
    ast.Assert: "there are no exceptions in a probe: write `if not …: return`",
    ast.Import: "an import can't stand inside a probe: import at the top of the file",
    ast.ImportFrom: "an import can't stand inside a probe: import at the top of the file",
    ast.AsyncFor: "a probe can't wait: write `for` without `async`",
    ast.AsyncWith: "a probe can't wait: write `with` without `async`",
}

#: Expressions that are refused wherever a value known only at run time takes part; Python evaluates them otherwise.
EXPRESSIONS: Mapping[type[ast.AST], str] = {
    ast.ListComp: _COMPREHENSION,
    ast.SetComp: _COMPREHENSION,
    ast.DictComp: _COMPREHENSION,
    ast.GeneratorExp: _COMPREHENSION,
    ast.List: "a list of run-time values can't be built: use a tuple, a Struct, or a map",
    ast.Set: "a set of run-time values can't be built: write `x in (a, b)`, or use a map",
    ast.Dict: "a dictionary of run-time values can't be built: use a map, `bpf.hash(key=…, value=…)`",
    ast.JoinedStr: "a string can't be formatted at run time: emit a record with the values, and format in user space",
    ast.FormattedValue: "a string can't be formatted at run time: emit a record with the values, and format in "
    "user space",
    ast.NamedExpr: "`:=` inside a comprehension can't bind a name of the probe: write a `for` loop",
    ast.Await: "a probe can't wait: leave out `await`",
    ast.Yield: _YIELD,
    ast.YieldFrom: _YIELD,
    ast.Starred: "`*` can't spread values here: write each one",
    ast.Slice: "a slice can't be taken at run time: index single elements",
}

#: Patterns of `match`.
PATTERNS: Mapping[type[ast.AST], str] = {
    ast.MatchSequence: "`match` in a probe compares with literals: a sequence pattern can't be used; compare the "
    "elements with `if`",
    ast.MatchMapping: "`match` in a probe compares with literals: a mapping pattern can't be used; look the key up "
    "with `m.get(k)`",
    ast.MatchClass: "`match` in a probe compares with literals: a class pattern can't be used; compare the fields "
    "with `if`",
    ast.MatchStar: "`match` in a probe compares with literals: a sequence pattern can't be used; compare the "
    "elements with `if`",
    ast.MatchAs: "`match` in a probe compares with literals: a pattern can't bind a name; assign it before `match`",
}

#: Syntax of Python later than 3.11.
LATER: Mapping[str, str] = {
    "TypeAlias": "a type can't be named inside a probe: name it at the top of the file",
    "TemplateStr": "a string can't be formatted at run time: emit a record with the values, and format in user space",
}


def refuse(f: Frame, node: ast.AST) -> NoReturn:
    """Refuse a node with its remedy."""
    for table in (STATEMENTS, EXPRESSIONS, PATTERNS):
        if type(node) in table:
            f.fail(table[type(node)] + (f.why_run_time(node) if table is EXPRESSIONS else ""), node)
    later = LATER.get(type(node).__name__)
    f.fail(later or f"{type(node).__name__} has no meaning in a probe", node)
