"""Every name that tests, benchmarks and tools take from a module of pyebpf is there.

Most tests run where a kernel has what they need. What they call by a name that is gone would only show there.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tests", "benchmarks", "fuzz", "tools")
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def _value(module: str, name: str) -> object:
    """The value that `from module import name` gives; AttributeError if there is no such thing."""
    found = importlib.import_module(module)
    is_package = hasattr(found, "__path__")
    if is_package and not hasattr(found, name) and importlib.util.find_spec(f"{module}.{name}"):
        return importlib.import_module(f"{module}.{name}")
    return getattr(found, name)


class _Names(ast.NodeVisitor):
    """Goes through a file with the modules that its names stand for."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        self.scopes: list[dict[str, ModuleType | None]] = [{}]

    def visit_Import(self, node: ast.Import) -> None:
        for each in node.names:
            if each.name.split(".")[0] == "pyebpf":
                found = importlib.import_module(each.name)
                name = each.asname or "pyebpf"
                self.scopes[-1][name] = found if each.asname else importlib.import_module("pyebpf")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if (node.module or "").split(".")[0] != "pyebpf":
            return
        for each in node.names:
            try:
                found = _value(node.module or "", each.name)
            except AttributeError:
                self.missing.append(f"line {node.lineno}: {node.module}.{each.name}")
                continue
            self.scopes[-1][each.asname or each.name] = found if isinstance(found, ModuleType) else None

    def visit_If(self, node: ast.If) -> None:
        # What is imported for annotations alone may be there for type checkers alone.
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and isinstance(node.ctx, ast.Load):
            module = next((scope[node.value.id] for scope in reversed(self.scopes) if node.value.id in scope), None)
            if module is not None:
                try:
                    _value(module.__name__, node.attr)
                except AttributeError:
                    self.missing.append(f"line {node.lineno}: {module.__name__}.{node.attr}")

    def _function(self, node: Function) -> None:
        parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        stored = (each for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
        self.scopes.append(
            dict.fromkeys([each.arg for each in parameters if each], None) | {each.id: None for each in stored}
        )
        self.generic_visit(node)
        self.scopes.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function  # noqa: N815 - the visitor's spelling


def missing(text: str) -> list[str]:
    """The names of pyebpf's modules that a file's text uses and that are not there."""
    names = _Names()
    names.visit(ast.parse(text))
    return names.missing


@pytest.mark.any_kernel
def test_every_name_is_there():
    """Those of imports within functions, and those that are read from a module, too."""
    found = {
        str(path.relative_to(ROOT)): names
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (names := missing(path.read_text(encoding="utf-8")))
    }
    assert found == {}


@pytest.mark.any_kernel
def test_what_is_missing_is_found():
    """And what only has a module's name is left alone."""
    imports = "from pyebpf import errors\nimport pyebpf\n"
    assert missing(f"{imports}errors.NotFound\npyebpf.errors\npyebpf.BPF") == []
    assert missing(f"{imports}errors.NotThere\npyebpf.nothing") == [
        "line 3: pyebpf.errors.NotThere",
        "line 4: pyebpf.nothing",
    ]
    assert missing("def f():\n    from pyebpf.errors import NotThere") == ["line 2: pyebpf.errors.NotThere"]
    assert missing(f"{imports}def f(errors):\n    errors.nothing") == []
    assert missing(f"{imports}def f():\n    errors = 3\n    errors.nothing") == []
