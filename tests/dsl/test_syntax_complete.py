"""Every class of Python's grammar is translated or refused with a message of its own: nothing falls through."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from pyebpf.dsl.translate import conditions, expressions, refusals
from pyebpf.dsl.translate.translator import EXPRESSIONS, STATEMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Pieces that never stand alone: the node around them reads or refuses them.
PARTS = {
    "alias",
    "arg",
    "arguments",
    "boolop",
    "cmpop",
    "comprehension",
    "excepthandler",
    "expr",
    "expr_context",
    "keyword",
    "match_case",
    "mod",
    "operator",
    "pattern",
    "stmt",
    "type_ignore",
    "type_param",
    "unaryop",
    "withitem",
    # Of the pieces, the kinds that have kinds themselves.
    "And",
    "Or",
    "ExceptHandler",
    "Del",
    "Load",
    "Store",
    "Expression",
    "FunctionType",
    "Interactive",
    "Module",
    "TypeIgnore",
    "ParamSpec",
    "TypeVar",
    "TypeVarTuple",
    "Interpolation",
}

#: `match` is translated pattern by pattern; these compare.
COMPARING = {"MatchValue", "MatchSingleton", "MatchOr"}
#: Comparisons that are no function of two Python values alone.
ASKING = {"Is", "IsNot", "In", "NotIn"}


#: Names of older Pythons that `ast` keeps, which the parser never makes.
DEPRECATED = {
    "AugLoad",
    "AugStore",
    "Bytes",
    "Ellipsis",
    "ExtSlice",
    "Index",
    "NameConstant",
    "Num",
    "Param",
    "Str",
    "Suite",
    "slice",
}


def classes(of: type[ast.AST] = ast.AST) -> Iterator[type[ast.AST]]:
    for each in of.__subclasses__():
        if each.__module__ in ("_ast", "ast") and each.__name__ not in DEPRECATED:
            yield each
        yield from classes(each)


GRAMMAR = {each.__name__: each for each in classes()}


@pytest.mark.parametrize("name", sorted(GRAMMAR))
def test_every_class_of_the_grammar_has_a_meaning_or_a_message(name: str) -> None:
    """A node of any class is handled, refused by a message of its own, or a part of such a node."""
    node = GRAMMAR[name]
    handled = (
        node in STATEMENTS
        or node in EXPRESSIONS
        or node in expressions.BINARY
        or node in expressions.UNARY
        or node is ast.Not
        or node in conditions.COMPARISONS
        or name in COMPARING
        or name in ASKING
    )
    refused = (
        node in refusals.STATEMENTS
        or node in refusals.EXPRESSIONS
        or node in refusals.PATTERNS
        or name in refusals.LATER
    )
    assert handled or refused or name in PARTS


def test_nothing_is_both_handled_and_refused_as_a_statement() -> None:
    """A statement has one meaning."""
    assert not set(STATEMENTS) & set(refusals.STATEMENTS)


@pytest.mark.parametrize(
    "message", sorted({*refusals.STATEMENTS.values(), *refusals.EXPRESSIONS.values(), *refusals.PATTERNS.values()})
)
def test_each_message_says_what_to_write(message: str) -> None:
    """A refusal has two halves: what cannot be, and what to do instead."""
    assert ":" in message
