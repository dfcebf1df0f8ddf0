"""Rules for every file that no linter holds."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MAX_LINES = 500
SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:)")
REASONED = re.compile(
    r"#\s*(noqa:\s*[A-Z]+\d+(,\s*[A-Z]+\d+)*|type:\s*ignore\[[\w, -]+\]|pragma:\s*no cover)\s+[#-]+\s*\w"
)


def _tracked() -> list[Path]:
    """Files under version control that exist; every file below the sources' folders in an export without it."""
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if run.returncode == 0:
        paths = [ROOT / name for name in run.stdout.split("\0") if name]
    else:
        folders = [ROOT / name for name in ("pyebpf", "tests", "docs", "fuzz", "benchmarks", "tools")]
        paths = [path for folder in folders for path in folder.rglob("*.*") if path.suffix != ".pyc"]
    return [path for path in paths if path.is_file()]


PYTHON = [path for path in _tracked() if path.suffix == ".py"]
MODULES = [path for path in PYTHON if path.is_relative_to(ROOT / "pyebpf") and path.name != "__main__.py"]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_all_lists_real_names():
    """Every name in a module's __all__ can be had from it, and none is listed twice."""
    wrong = []
    for path in MODULES:
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        names = getattr(module, "__all__", [])
        wrong += [f"{_name(path)}: {name} twice" for name in {*names} if names.count(name) > 1]
        wrong += [f"{_name(path)}: no {name}" for name in names if not hasattr(module, name)]
    assert wrong == []


def test_no_module_hides_a_name_of_its_package():
    """Importing a submodule sets an attribute of its name on the package: whatever had that name before is lost."""
    names = [".".join(path.relative_to(ROOT).parent.parts) for path in MODULES if path.name == "__init__.py"]
    script = f"""
import importlib, pkgutil
for name in {names!r}:
    package = importlib.import_module(name)
    before = {{each: getattr(package, each) for each in getattr(package, "__all__", ())}}
    for module in pkgutil.iter_modules(package.__path__, f"{{name}}."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for each, value in before.items():
        if getattr(package, each) is not value:
            print(name, each)
"""
    hidden = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert hidden == ""


def test_files_are_of_readable_length():
    """A file has one subject and fewer than 500 lines, unless a tool wrote it and says so at its top."""
    lengths = {}
    for path in PYTHON:
        lines = path.read_text(encoding="utf-8").splitlines()
        if not any("enerated by tools/" in line for line in lines[:5]):
            lengths[_name(path)] = len(lines)
    assert {name: length for name, length in lengths.items() if length >= MAX_LINES} == {}


def test_annotations_are_not_evaluated():
    """Every file that defines something begins with `from __future__ import annotations`; examples need not."""
    texts = {
        _name(path): path.read_text(encoding="utf-8")
        for path in PYTHON
        if not path.is_relative_to(ROOT / "docs" / "examples")
    }
    defining = {name for name, text in texts.items() if re.search(r"^(def|class) ", text, re.MULTILINE)}
    assert {name for name in defining if "from __future__ import annotations\n" not in texts[name]} == set()


def test_every_suppression_has_its_reason():
    """A linter or type checker is silenced by code, and with the reason in a comment beside it."""
    bare = []
    for path in PYTHON:
        with path.open("rb") as stream:
            bare += [
                f"{_name(path)}:{token.start[0]}: {token.string}"
                for token in tokenize.tokenize(stream.readline)
                if token.type == tokenize.COMMENT
                and SUPPRESSION.match(token.string)
                and not REASONED.match(token.string)
            ]
    assert bare == []


def test_no_file_names_a_place_of_this_machine():
    """Where the checkout, the interpreter or the home folder lie is nothing a file of the project may know."""
    places = {str(place) for place in (ROOT, Path(sys.prefix), Path.home()) if len(place.parts) > 1}
    found = []
    for path in _tracked():
        content = path.read_bytes()
        # Not where it ends a longer path: /proc/PID/root/ is nobody's home.
        found += [
            f"{path.relative_to(ROOT)}: {place}"
            for place in places
            if re.search(rb"(?<![\w}])" + re.escape(f"{place}/".encode()), content)
        ]
    assert found == []


def test_docstrings_begin_with_a_noun_phrase_or_an_imperative():
    """The first line says what a thing is or does; "What …" is half a sentence."""
    found = []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                if text.startswith("What "):
                    found.append(f"{_name(path)}: {text.splitlines()[0]}")
    assert found == []
