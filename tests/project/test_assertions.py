"""Every test function asserts something: itself, or by a function of tests/ that it calls."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Functions of pytest that fail a test by themselves.
OF_PYTEST = {"pytest.raises", "pytest.warns", "pytest.fail"}
#: Methods that run where an object is only made, or used by `with`.
IMPLICIT = {"__init__", "__enter__", "__exit__"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _dotted(node: ast.expr) -> list[str]:
    """["a", "b"] of `a.b`; the first is "" where it is not a name."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id if isinstance(node, ast.Name) else "", *reversed(names)]


class _File:
    """The functions of one file, and what each of its names stands for in tests/."""

    def __init__(self, path: Path) -> None:
        self.module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.known: dict[str, str] = {}
        self.uses = {self.module}  # files of tests/ whose methods may be called here
        self.foreign: set[str] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests."):
                self.uses.add(node.module or "")
                self.known |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
            elif isinstance(node, ast.Import | ast.ImportFrom):
                self.foreign |= {each.asname or each.name.partition(".")[0] for each in node.names}
        self.functions: dict[str, Function] = {}
        for each in self.tree.body:
            if isinstance(each, Function | ast.ClassDef):
                self.known[each.name] = f"{self.module}.{each.name}"
            if isinstance(each, Function):
                self.functions[self.known[each.name]] = each
            elif isinstance(each, ast.ClassDef):
                for method in each.body:
                    if isinstance(method, Function):
                        self.functions[f"{self.known[each.name]}.{method.name}"] = method

    def called(self, function: Function, methods: dict[str, set[str]]) -> set[str]:
        """Full names of what it calls of tests/. A method is known by its name, in files that this one imports."""
        found = set()
        # What stands in a decorator, as a parameter, is called under another name.
        found |= {
            self.known[node.id]
            for each in function.decorator_list
            for node in ast.walk(each)
            if isinstance(node, ast.Name) and node.id in self.known
        }
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                first, *rest = _dotted(node.func)
                if first in self.known:
                    name = ".".join([self.known[first], *rest])
                    found |= {name} | {f"{name}.{each}" for each in IMPLICIT}
                if isinstance(node.func, ast.Attribute) and first not in self.foreign:
                    found |= {each for each in methods.get(node.func.attr, ()) if each.rsplit(".", 2)[0] in self.uses}
        return found


def _asserts(function: Function) -> bool:
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and ".".join(_dotted(node.func)) in OF_PYTEST)
        or (
            isinstance(node, ast.Raise)
            and isinstance(node.exc, ast.Call)
            and _dotted(node.exc.func) == ["AssertionError"]
        )
        for node in ast.walk(function)
    )


def test_every_test_asserts():
    """None can pass whatever the code does: it asserts, expects an error, or calls a helper that does."""
    files = [_File(path) for path in sorted((ROOT / "tests").rglob("*.py"))]
    methods: dict[str, set[str]] = {}
    for name in (name for file in files for name in file.functions):
        methods.setdefault(name.rpartition(".")[2], set()).add(name)
    calls = {name: file.called(node, methods) for file in files for name, node in file.functions.items()}
    asserting = {name for file in files for name, node in file.functions.items() if _asserts(node)}
    while more := {name for name, called in calls.items() if called & asserting} - asserting:
        asserting |= more
    without = sorted(name for name in calls.keys() - asserting if name.rpartition(".")[2].startswith("test_"))
    assert not without, "\n".join(without)
