"""benchmarks/: what they measure through more than the public API still works; what holds on any machine is held."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Bytecode is kept, as it is for an installed package.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def output(*module: str) -> str:
    """What a benchmark prints."""
    command = [sys.executable, "-m", *module]
    return subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, check=True, stdout=subprocess.PIPE, text=True).stdout


#: Not `one_start`, which measures when it is imported.
NAMES = sorted(each.name for each in pkgutil.iter_modules([str(ROOT / "benchmarks")]) if each.name != "one_start")


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_finds_what_it_imports(name):
    assert importlib.import_module(f"benchmarks.{name}").__doc__


def test_a_start_is_taken_apart():
    """Each phase takes some time, all together less than the process; the modules are those that it imported."""
    began = time.monotonic()
    phases, modules = ast.literal_eval(output("benchmarks.one_start", str(began)))
    took = time.monotonic() - began
    assert {"interpreter", "imports", "BTF and its index", "compile", "load", "attach"} < phases.keys()
    assert phases.pop("peak MiB") > 10
    assert all(seconds >= 0 for seconds in phases.values())
    assert 0 < sum(phases.values()) < took
    assert {"pyebpf.runtime.bpf", "pyebpf.compiler.allocation"} < set(modules)


def test_generated_code_is_as_short_as_clangs():
    """No probe takes 2 % more slots than clang -O2 makes of the same in C, for the oldest instruction set beside it."""
    rows = re.findall(r"^\| (.*\S) +\| +(\d+) \| +(\d+) \| +\d+ \|$", output("benchmarks.generated_code"), re.MULTILINE)
    assert len(rows) == 3
    assert [name for name, ours, clang in rows if int(ours) > 1.02 * int(clang)] == []
