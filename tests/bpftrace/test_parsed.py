"""What is in the language: each case of parsed.txt with the one spelling of its tree, and where its parts stand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyebpf.bpftrace import ast
from pyebpf.bpftrace.parser import parse, parse_expression
from pyebpf.dataclass import fields
from tests.bpftrace.unparse import unparse
from tests.support.texts import refusals

CASES = refusals(Path(__file__).with_name("parsed.txt"))
#: Folders of other scripts: those of bpftrace itself and of books are not part of this repository.
FOLDERS = [each for each in os.environ.get("PYEBPF_BPFTRACE_SCRIPTS", "").split(os.pathsep) if each]


def nodes(node: object):
    """A node and all that are in it."""
    if isinstance(node, ast.Node):
        yield node
        for each in fields(node):
            yield from nodes(getattr(node, each.name))
    elif isinstance(node, tuple):
        for part in node:
            yield from nodes(part)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.title}-{number}" for number, case in enumerate(CASES)])
def test_a_script_means_what_its_other_spelling_means(case):
    """The tree is that of the spelling with all parentheses, and that spelling is the tree's."""
    tree = parse(case.body, "script.bt", ("99", "file"))
    assert unparse(tree).strip() == case.message
    assert parse(case.message, "script.bt", ("99", "file")) == tree


@pytest.mark.parametrize("case", CASES, ids=[f"{case.title}-{number}" for number, case in enumerate(CASES)])
def test_each_expression_stands_where_it_says(case):
    """Its characters alone are an equal expression; those of a statement end before its semicolon."""
    tree = parse(case.body, "script.bt", ("99", "file"))
    expressions = 0
    for node in nodes(tree):
        text = case.body[node.start : node.end]
        assert tree.source.location(node).text in case.body
        if isinstance(node, ast.Expression) and not isinstance(node, ast.Tuple):
            alone = parse_expression(text)
            if isinstance(node, ast.Block) and isinstance(alone, ast.Block):
                assert alone.all_statements == node.all_statements  # a probe's block has no value
            else:
                assert alone == node
            expressions += 1
        elif isinstance(node, ast.AttachPoint):
            assert text == node.text
        elif isinstance(node, ast.Statement):
            assert not text.endswith(";")
    assert expressions or not tree.items


def test_every_kind_of_node_is_in_a_case():
    """parsed.txt has the whole language."""
    found = {type(node).__name__ for case in CASES for node in nodes(parse(case.body, "script.bt", ("99", "file")))}
    kinds = {name for name, each in vars(ast).items() if isinstance(each, type) and issubclass(each, ast.Node)}
    assert kinds - found == {"Node", "Expression", "Statement", "Type"}


def test_a_place_has_line_and_column():
    """A node's place is on its first line, with the columns that a caret stands under."""
    tree = parse("BEGIN\n{\n  $x = f(1,\n    2);\n}\n", "a.bt")
    (statement,) = tree.probes[0].body.statements
    assert isinstance(statement, ast.Assignment)
    place = tree.source.location(statement.value)
    assert (str(place), place.column, place.end_column, place.text) == ("a.bt:3", 7, 12, "  $x = f(1,")
    assert str(tree.source.error("no", statement)) == "a.bt:3: no\n    $x = f(1,\n    ^^^^^^^^^"


def test_a_script_may_be_bytes():
    """Strings are bytes, also those with letters outside ASCII."""
    tree = parse('BEGIN { print("é\\xff"); }'.encode())
    call = tree.probes[0].body.statements[0]
    assert isinstance(call, ast.ExpressionStatement)
    assert isinstance(call.value, ast.Call)
    assert call.value.arguments == (ast.String(0, 0, "é".encode() + b"\xff"),)


def test_a_fields_operator_is_kept():
    """`->` and `.` mean the same, and the tree says which one it was."""
    assert parse_expression("args->x") == ast.FieldAccess(0, 0, ast.Identifier(0, 0, "args"), "x", arrow=True)
    assert parse_expression("args.x") == ast.FieldAccess(0, 0, ast.Identifier(0, 0, "args"), "x", arrow=False)


def test_a_blocks_value_is_a_statement_too():
    """Where nobody takes it, it is the last statement."""
    block = parse_expression("{ f(); g() }")
    assert isinstance(block, ast.Block)
    assert [unparse(each) for each in block.statements] == ["f();"]
    assert [unparse(each) for each in block.all_statements] == ["f();", "g();"]


@pytest.mark.parametrize("folder", [str(Path(__file__).parent), *FOLDERS])
def test_scripts_of_a_folder(folder):
    """Every script parses, and its other spelling has the same tree."""
    found = [path for path in sorted(Path(folder).rglob("*.bt")) if path.is_file()]
    assert found
    for path in found:
        tree = parse(path.read_bytes(), str(path), ("99", "1"))
        assert parse(unparse(tree), f"{path} spelled anew", ("99", "1")) == tree


@pytest.mark.parametrize(("end", "text"), [("", "1"), ("\\", "1"), ("\\\\", r"1\\"), ("\\\n", "1"), ("\\\n2", "1 2")])
def test_a_definition_at_the_end(end: str, text: str) -> None:
    """A backslash there joins nothing to it."""
    (found,) = parse(f"#define A 1{end}").definitions
    assert found.text == text
