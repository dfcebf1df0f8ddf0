"""Finding a function's source by its code object."""

from __future__ import annotations

import ast
import linecache
import types
import zipfile
from typing import TYPE_CHECKING, Any

import pytest

from pyebpf.builder.intrinsics.task import pid  # noqa: F401 - seen by the text given to define
from pyebpf.dsl.module import Module
from pyebpf.dsl.source import find_source
from pyebpf.errors import CompileError
from pyebpf.types import u32, u64
from tests.dsl.fake_target import FakeTarget
from tests.dsl.harness import build, namespace, run

if TYPE_CHECKING:
    from pathlib import Path


def first(function: Any) -> str:
    """The source of a function's first statement."""
    node = find_source(function).node
    return ast.unparse(node.body if isinstance(node, ast.Lambda) else node.body[0])


def test_decorators_do_not_hide_a_function() -> None:
    """The code object's line is the first decorator's."""
    names = run("def d(f): return f\n\n@d\n@d\ndef probe():\n    x = 1\n", {})
    assert first(names["probe"]) == "x = 1"


def test_lambdas_of_one_line_are_told_apart() -> None:
    """Several lambdas on one line, one inside another, equal ones among them."""
    names = run("a, b, c = lambda: y, (lambda x: (lambda: x)), lambda: y\nd = b(3)\n", {})
    found = [find_source(names[name]).node for name in "abcd"]
    assert [ast.unparse(node.body) for node in found] == ["y", "lambda: x", "y", "x"]
    assert [node.col_offset for node in found] == [10, 22, 46, 33]


def test_a_lambda_of_a_constant_is_found() -> None:
    """Lambdas whose code has no column, as Python 3.12 makes of a constant, are found by their code."""
    names = run("a, b, c = lambda: 1, lambda: 2, lambda: 'three'\n", {})
    found = [find_source(names[name]).node for name in "abc"]
    assert [ast.unparse(node.body) for node in found] == ["1", "2", "'three'"]


def test_nested_functions_and_closures() -> None:
    """A function that has free variables is found, and so is a method-like one in a class."""
    text = """
def outer(n):
    class Inner:
        def probe(self):
            return n
    def probe():
        def deep():
            return probe
        return n
    return Inner().probe, probe
method, function = outer(1)
"""
    names = run(text, {})
    assert first(names["method"].__func__) == "return n"
    assert first(names["function"]).startswith("def deep")


def test_functions_of_the_same_name() -> None:
    """The line decides."""
    names = run("def f():\n    return 1\ng = f\ndef f():\n    return 2\n", {})
    assert (first(names["g"]), first(names["f"])) == ("return 1", "return 2")


def test_a_changed_file_is_noticed() -> None:
    """The text that linecache gives now is not what was imported."""
    names = run("def probe():\n    return 1\n", {})
    file = names["probe"].__code__.co_filename
    for text in ("def probe():\n    return 2\n", "\n\ndef probe():\n    return 1\n", "def probe(:\n", "x = 1\n"):
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        with pytest.raises(CompileError) as caught:
            find_source(names["probe"])
        assert caught.value.message == "probe: the file changed since it was imported: run the program again"


def test_a_change_elsewhere_in_the_file_is_none() -> None:
    """Only the function itself counts, at its place."""
    names = run("def probe():\n    return 1\nx = 1\n", {})
    file = names["probe"].__code__.co_filename
    text = "def probe():\n    return 1\nx = 2\n"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    assert first(names["probe"]) == "return 1"


def test_without_source_the_error_names_both_remedies() -> None:
    """`python3 -c` and exec leave no source."""
    names: dict[str, Any] = {}
    exec("def probe(): pass", names)
    with pytest.raises(CompileError) as caught:
        find_source(names["probe"])
    assert caught.value.message == (
        "the source of probe cannot be read (<string>): put it in a file and use `pyebpf run FILE`, "
        "or give its text to "
        "`bpf.define(text)`"
    )


def test_source_inside_a_zip_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zipapp's modules bring their loader, which linecache asks."""
    archive = tmp_path / "tool.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped_tool.py", "def probe():\n    return 17\n")
    monkeypatch.syspath_prepend(str(archive))
    import zipped_tool  # type: ignore[import-not-found]  # made a moment ago

    assert first(zipped_tool.probe) == "return 17"


def test_places_count_characters() -> None:
    """Columns are characters, though Python's parser counts bytes."""
    names = run("def probe():\n    é = 'ü'; x = é\n", {})
    source = find_source(names["probe"])
    assert isinstance(source.node, ast.FunctionDef)
    place = source.at(source.node.body[1])
    assert place.text[place.column : place.end_column] == "x = é"
    assert (place.line, place.column) == (2, 13)


def test_define_gives_source_where_there_is_none() -> None:
    """Text given to `bpf.define` is compiled as if it stood in a file; errors show its lines."""
    names = namespace()
    bpf: Module = names["bpf"]
    made = bpf.define('@bpf.tracepoint("syscalls:sys_enter_openat")\ndef on_open():\n    opens[comm()] += 1\n', names)
    assert isinstance(made, types.SimpleNamespace)
    assert made.on_open in bpf.probes
    assert [program.name for program in bpf.compile(FakeTarget()).programs] == ["on_open"]
    bpf.define('@bpf.tracepoint("syscalls:sys_enter_openat")\ndef second():\n    missing\n', names)
    with pytest.raises(CompileError) as caught:
        bpf.compile(FakeTarget())
    assert caught.value.location is not None
    assert caught.value.location.text == "    missing"


def test_define_shows_where_its_text_is_no_python() -> None:
    """A syntax error is pyebpf's own, with line and caret."""
    with pytest.raises(CompileError) as caught:
        Module().define("x = 1\nif x\n    y = 2\n")
    assert str(caught.value).split("\n")[1:] == ["    if x", "        ^"]
    assert caught.value.message == "this is not valid Python: expected ':'"


def test_define_sees_the_names_of_its_caller() -> None:
    """Globals of the place that calls it, its locals, and then those given."""
    bpf = Module()
    names = {"seen": bpf.hash(key=u32, value=u64)}
    bpf.define('@bpf.tracepoint("syscalls:sys_enter_openat")\ndef on_open():\n    seen[pid()] += 1\n', names)
    assert [spec.name for spec in bpf.compile(FakeTarget()).maps] == ["seen", ".drops"]


def test_a_set_that_stands_elsewhere_in_another_order() -> None:
    """Python keeps one constant for equal sets of a file, in the order of the first: {0, 8} and {8, 0} differ in it."""
    assert build("results[0] = 1 if count in {8, 0} else 2", "count", "ABOVE = [n for n in (1, 8) if n in {0, 8}]")
