"""The layers: who may import whom, who may touch the operating system, and that the pure half stands alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pyebpf"

# Modules over all layers that have no row of their own.
PACKAGE_ITSELF, COMMAND = "__init__", "__main__"
OPERATING_SYSTEM = {"ctypes", "fcntl", "mmap"}


def _rows() -> dict[str, tuple[str, str]]:
    """Subject and "may import" of each package, from the table of docs/architecture.md."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("| package | subject |")[2]
    found = re.findall(r"^\| ([a-z_, ]+) \| (.+) \| (.+) \|$", text.partition("\n\n")[0], re.MULTILINE)
    return {name: (subject, may) for names, subject, may in found for name in names.split(", ")}


ROWS = _rows()
FOR_ALL = {name for name, (subject, _) in ROWS.items() if "every package may import it" in subject}
# For use from outside; and what may import these, too.
PUBLIC = {name for name, (_, may) in ROWS.items() if may == "all but cli and programs"} | {PACKAGE_ITSELF}
EVERYTHING = {name for name, (_, may) in ROWS.items() if may == "everything"} | {COMMAND}


def _allowed(layer: str) -> set[str]:
    """What a layer may import: itself, what every package may, and the words of its row."""
    if layer in EVERYTHING:
        return {*ROWS, *PUBLIC, *EVERYTHING}
    if layer in PUBLIC:
        return {*ROWS, *PUBLIC} - EVERYTHING - {"programs"}
    words = re.findall(r"(\w+)( and below)?(?:, |$)", ROWS[layer][1])
    # Who sees the package as its users do has nothing of what is for the inside.
    allowed = {layer} if ("pyebpf", "") in words else {layer, *FOR_ALL}
    for name, below in words:
        allowed |= _allowed(name) if below else {PACKAGE_ITSELF if name == "pyebpf" else name}
    return allowed


PURE = {layer for layer in {*ROWS} - PUBLIC - EVERYTHING if "kernel" not in _allowed(layer)}


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _layer(module: str) -> str:
    """The part of a dotted name after "pyebpf"; "__init__" for the package itself."""
    return [*module.split("."), "__init__"][1]


def _imports(path: Path) -> list[tuple[int, str]]:
    """Line and full name of every import of a file: at the top, inside functions, under TYPE_CHECKING."""
    found = []
    package = _module(path).split(".") if path.name == "__init__.py" else _module(path).split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            # `from pyebpf import asm` imports the layer, `from pyebpf import BPF` the package.
            for alias in node.names:
                is_layer = origin == "pyebpf" and alias.name in _layers()
                found.append((node.lineno, f"{origin}.{alias.name}" if is_layer else origin))
    return found


def _layers() -> set[str]:
    folders = {path.name for path in PACKAGE.iterdir() if any(path.glob("*.py"))}
    return folders | {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}


SOURCES = sorted(PACKAGE.rglob("*.py"))


def test_every_layer_is_in_the_table():
    """A new package or top-level module gets a row before it gets imports; rows name packages that there are."""
    assert _layers() - {COMMAND} == ROWS.keys()
    assert set().union(*map(_allowed, ROWS)) <= _layers() | {PACKAGE_ITSELF}


def test_imports_go_down_the_table():
    """A layer imports only layers below it, lazily or not, for its types or for its work."""
    wrong = []
    for path in SOURCES:
        layer = _layer(_module(path))
        allowed = _allowed(layer)
        wrong += [
            f"{path.relative_to(ROOT)}:{line}: {layer} may not import {name}"
            for line, name in _imports(path)
            if name.split(".")[0] == "pyebpf" and _layer(name) not in allowed
        ]
    assert not wrong, "\n".join(wrong)


def test_only_the_kernel_layer_touches_the_operating_system():
    """ctypes, fcntl and mmap are imported in kernel/ and nowhere else."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in SOURCES
        if _layer(_module(path)) != "kernel"
        for line, name in _imports(path)
        if name.split(".")[0] in OPERATING_SYSTEM
    ]
    assert not wrong, "\n".join(wrong)


def test_the_pure_half_imports_without_kernel_and_ctypes():
    """Every module of the pure layers can be imported where neither pyebpf.kernel nor ctypes can."""
    modules = [_module(path) for path in SOURCES if _layer(_module(path)) in PURE]
    program = (
        "import importlib, sys\n"
        "sys.modules['ctypes'] = sys.modules['pyebpf.kernel'] = None\n"
        f"for name in {modules!r}:\n"
        "    importlib.import_module(name)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


# tests/vm is the virtual machines' harness; the layer vm and the public `testing` have their tests beside it.
PURE_TESTS = [
    f"tests/{layer}"
    for layer in sorted({*PURE, "vm_interpreter"} - {"vm"})
    if any((ROOT / "tests" / layer).glob("test_*.py"))
]


@pytest.mark.parametrize("folder", PURE_TESTS)
def test_the_pure_half_passes_its_tests_without_kernel_and_ctypes(folder):
    """The tests of each pure layer pass in a run where neither pyebpf.kernel nor ctypes can be imported."""
    # Few examples: this run asks what the tests import, not whether they pass on many inputs.
    options = ["-q", "-p", "no:cacheprovider", "-p", "tests.support.blocked", "--hypothesis-profile=few"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, folder], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr
    assert " passed" in run.stdout
