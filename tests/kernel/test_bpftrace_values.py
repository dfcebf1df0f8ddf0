"""Values of scripts that the running kernel's types and symbols tell."""

from __future__ import annotations

import pytest

from pyebpf.errors import CompileError
from pyebpf.script import Script
from tests.support.needs import needs


def printed(text: str) -> list[str]:
    """The lines that a script prints."""
    return "".join(Script(text).output()).splitlines()


def test_a_type_is_known_by_its_bare_name() -> None:
    """A typedef of the kernel's."""
    script = "BEGIN { let $a: typeof(pid_t) = 7; let $b: typeof(pid_t*) = &$a; print((*$b, sizeof(pid_t))); }"
    assert printed(script)[0] == "(7, 4)"


def test_variables_of_a_processor() -> None:
    """By its number, or of the one that the probe runs on."""
    needs("variable:runqueues", "btf_variable:runqueues")
    script = """BEGIN {
        $here = percpu_kaddr("runqueues"); $by_number = percpu_kaddr("runqueues", cpu);
        printf("%d %d %d\\n", $here == $by_number, $here.cpu == cpu, percpu_kaddr("runqueues", 100000) == 0);
    }"""
    assert printed(script)[0] == "1 1 1"


def test_a_raw_tracepoint_of_a_module_that_has_none_such() -> None:
    """As bpftrace refuses it; the kernel itself is vmlinux."""
    with pytest.raises(CompileError, match="No matches for rawtracepoint nonsense:sys_enter"):
        Script("rawtracepoint:nonsense:sys_enter { }").specs()
    assert Script("rawtracepoint:vmlinux:sys_enter { }").specs()
