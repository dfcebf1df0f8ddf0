"""The layers: who may import whom, who may touch the operating system, and that the pure half stands alone."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "pyebpf"

# What each layer may import, besides itself, `collector`, `dataclass`, `errors` and `lazy`. "+x" is x and all that x
# may import.
MAY_IMPORT = {
    "dataclass": "",
    "errors": "",
    "collector": "",
    "lazy": "",
    "tracebacks": "",
    "uapi": "",
    "arch": "",
    "asm": "uapi",
    "btf": "",
    "output": "",
    "types": "uapi btf",
    "specs": "uapi asm btf types",
    "elf": "",
    "objfile": "uapi asm btf types specs elf",
    "verifier": "uapi asm specs",
    "target": "uapi arch btf types",
    "compiler": "+specs +target",
    "vm": "+specs",
    "builder": "+compiler",
    "aggregations": "+builder output",
    "dsl": "+aggregations",
    "kernel": "uapi arch",
    "symbols": "kernel elf",
    "features": "kernel +specs +target",
    "objects": "kernel features verifier +specs",
    "events": "kernel features objects +specs",
    "link": "arch kernel features objects symbols elf +specs",
    "tool": "output",
    "runtime": "+dsl vm kernel symbols features objects events link tracebacks",
}
# Modules over all layers, for use from outside.
PUBLIC = {"__init__", "helpers", "packet", "testing"}
EVERYTHING = {"__main__", "cli"}

PURE = set(MAY_IMPORT) - {"kernel", "symbols", "features", "objects", "events", "link", "runtime"} | {"programs"}
OPERATING_SYSTEM = {"ctypes", "fcntl", "mmap"}


def _allowed(layer: str) -> set[str]:
    allowed = {layer, "collector", "dataclass", "errors", "lazy"}
    for word in MAY_IMPORT[layer].split():
        allowed |= _allowed(word[1:]) if word.startswith("+") else {word}
    return allowed


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
    """A new package or top-level module gets a row before it gets imports."""
    assert _layers() <= MAY_IMPORT.keys() | PUBLIC | EVERYTHING | {"programs"}


def test_every_layer_is_in_the_docs():
    """The table of docs/architecture.md has a row for each layer that there is."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z, ]+?) \|", text, re.MULTILINE)
    documented = {name for row in rows for name in row.split(", ")}
    assert _layers() - PUBLIC - {"__main__"} - documented == set()


def _allowed_in(layer: str) -> set[str]:
    if layer == "programs":
        return PUBLIC | {"programs", "tool"}
    if layer in PUBLIC:
        return PUBLIC | MAY_IMPORT.keys()
    if layer in EVERYTHING:
        return PUBLIC | EVERYTHING | {"programs"} | MAY_IMPORT.keys()
    return _allowed(layer)


def test_imports_go_down_the_table():
    """A layer imports only layers below it, lazily or not, for its types or for its work."""
    wrong = []
    for path in SOURCES:
        layer = _layer(_module(path))
        allowed = _allowed_in(layer)
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


def test_the_pure_half_passes_its_tests_without_kernel_and_ctypes():
    """The tests of the pure layers pass in a run where neither pyebpf.kernel nor ctypes can be imported."""
    # tests/vm is the virtual machines' harness; the layer vm and the public `testing` have their tests beside it.
    folders = [
        f"tests/{layer}"
        for layer in sorted({*PURE, "vm_interpreter"} - {"vm"})
        if any((ROOT / "tests" / layer).glob("test_*.py"))
    ]
    # Few examples: this run asks what the tests import, not whether they pass on many inputs.
    options = ["-q", "-p", "no:cacheprovider", "-p", "tests.support.blocked", "--hypothesis-profile=few"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *folders], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr
    assert " passed" in run.stdout
