"""tools/generate_reference.py: the reference has every public name, with its docstring."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "generate_reference.py"
PACKAGES = [
    "pyebpf",
    "pyebpf.endpoints",
    "pyebpf.errors",
    "pyebpf.filters",
    "pyebpf.in_flight",
    "pyebpf.packet",
    "pyebpf.python_stacks",
    "pyebpf.tasks",
    "pyebpf.unwinding",
]
PACKAGES += [
    f"pyebpf.{each.parent.name}"
    for each in ROOT.glob("pyebpf/*/__init__.py")
    if "__all__" in each.read_text(encoding="utf-8")
]


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """The folder of pages."""
    folder = tmp_path_factory.mktemp("reference")
    subprocess.run([sys.executable, TOOL, folder], check=True)
    return folder


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_on_its_page(reference, package):
    """Functions and classes have a section with a text; without one there are numbers, types and tables."""
    sections = re.split(r"^## ", (reference / f"{package}.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    described = {title: body for title, _, body in (section.partition("\n") for section in sections[1:])}
    constants = re.findall(r"`(\w+)`", described.pop("Constants", ""))
    module = importlib.import_module(package)
    assert sorted([*described, *constants]) == sorted(module.__all__)
    assert [
        name for name, body in described.items() if not re.sub(r"```.*?```", "", body, flags=re.DOTALL).strip()
    ] == []
    assert [name for name in constants if inspect.isroutine(getattr(module, name))] == []


def test_decorators_and_lazy_methods_are_members_of_bpf(reference):
    """What type checkers see of BPF is described: a decorator, a map, an aggregation, and its own methods."""
    page = (reference / "pyebpf.md").read_text(encoding="utf-8")
    found = set(re.findall(r"^### BPF\.(\w+)$", page, re.MULTILINE))
    assert found >= {"tracepoint", "xdp", "hash", "ringbuf", "log2_hist", "attach", "dropped"}
