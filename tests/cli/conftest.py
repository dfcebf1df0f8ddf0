"""The fake tools, as a module and as a command."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

FAKES = Path(__file__).with_name("fakes.py")


@pytest.fixture(scope="session")
def fakes():
    """The module of fake tools."""
    spec = importlib.util.spec_from_file_location("pyebpf_cli_fakes", FAKES)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def start():
    """Start a fake tool as a process of its own: `start("events", "--json")`."""
    processes = []

    def starter(*arguments, **options):
        command = [sys.executable, str(FAKES), *arguments]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
        processes.append(subprocess.Popen(command, **options))
        return processes[-1]

    yield starter
    for process in processes:
        process.kill()
        process.communicate()


@pytest.fixture
def command(start):
    """Run a fake tool to its end: exit status, standard output, standard error."""

    def runner(*arguments, **options):
        process = start(*arguments, **options)
        out, err = process.communicate(timeout=20)
        return process.returncode, out, err

    return runner
