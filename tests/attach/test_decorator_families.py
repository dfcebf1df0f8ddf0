"""The table of decorators: what each family's file has, and what a program imports that uses one of them."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from pyebpf import BPF, attach
from pyebpf.attach import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(attach.__file__).parent
SHARED = {
    "call_arguments",
    "call_bodies",
    "context_annotations",
    "decorators",
    "fields",
    "kernel_functions",
    "registers",
    "sessions",
    "skb",
    "struct_fields",
}


def test_each_file_is_a_family():
    """All of the folder but what families share; a tail call's decorator is a map's."""
    assert {path.stem for path in FOLDER.glob("*.py")} == {"__init__", *FAMILIES, "tail_calls", *SHARED}


@pytest.mark.parametrize("file", sorted(SHARED))
def test_shared_files_import_no_family(file):
    """A program of one family imports no other by way of what they share."""
    text = (FOLDER / f"{file}.py").read_text(encoding="utf-8")
    assert not FAMILIES.keys() & set(re.findall(r"pyebpf\.attach\.(\w+)", text))


@pytest.mark.parametrize("file", FAMILIES)
def test_the_table_names_the_decorators_of_a_family(file):
    """Each public name of the class, and no other."""
    family, names = FAMILIES[file]
    found = vars(getattr(import_module(f"pyebpf.attach.{file}"), family))
    assert sorted(names.split()) == sorted(name for name in found if not name.startswith("_"))


def test_decorators_are_known_to_the_class():
    """For help() and completion: by name, with the docstring of the family's method."""
    names = [name for _, names in FAMILIES.values() for name in names.split()]
    assert set(names) <= set(dir(BPF))
    assert BPF.tracepoint.__doc__ == BPF().tracepoint.__doc__
    assert "category:name" in BPF.tracepoint.__doc__


def test_a_family_is_imported_when_it_is_used():
    """A program with a tracepoint imports the file of tracepoints, and no other."""
    program = """
import sys
from pyebpf import BPF
bpf = BPF()
bpf.tracepoint("syscalls:sys_enter_close")
prefix = "pyebpf.attach."
print(sorted(name.removeprefix(prefix) for name in sys.modules if name.startswith(prefix)))
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    assert run.stdout == "['decorators', 'tracepoints']\n"
