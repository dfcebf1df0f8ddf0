"""Values of scripts that the running kernel's types and symbols tell."""

from __future__ import annotations

import subprocess
from pathlib import Path

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


def test_texts_are_cut_as_bpftrace_cuts_them() -> None:
    """A literal to so many bytes, others to one less, for the NUL; a length that is known at run time only, too."""
    script = (
        'BEGIN { $s = "abcdef"; $n = (pid & 0) + 4; print(str("abcdef", 3)); print(str($s, 2)); '
        'print(str("abcdef", 0)); print(str($s, 0)); print(str($s, 100)); print(str($s, $n)); '
        'print(str("abcdef", 3) == "abc"); '
        "print(str(comm, 4)); print(str(curtask.comm, 4)); }"
    )
    name = Path("/proc/self/comm").read_text()[:3]
    assert printed(script) == ["abc", "a", "", "", "abcdef", "abc", "true", name, name, "", ""]


def test_an_entry_is_printed_as_its_value() -> None:
    """Of an aggregation, too; a histogram stands below its name. A range that steps do not fill ends with the last."""
    script = (
        "BEGIN { @s[1] = sum(3); @s[1] = sum(4); @a[1] = avg(3); @t[1] = stats(4); @h[1] = hist(4); print(@s[1]); "
        "print(@a[1]); print(@t[1]); print(@h[1]); @ = lhist(5, 0, 100, 30); @ = lhist(95, 0, 100, 30); print(@); "
        "print(probe); clear(@s); clear(@a); clear(@t); clear(@h); clear(@); }"
    )
    found = [line.split("|")[0].strip() for line in printed(script)]
    assert found[:6] == ["7", "3", "{ .count = 1, .average = 4, .total = 4 }", "@h[1]:", "[4, 8)                 1", ""]
    assert [line.split() for line in found[7:11]] == [
        ["[0,", "30)", "1"],
        ["[30,", "60)", "0"],
        ["[60,", "90)", "0"],
        ["[90,", "...)", "1"],
    ]
    assert found[12] == "begin"


def test_a_name_stands_behind_a_byte() -> None:
    """In keys and tuples, where it is not aligned."""
    name = Path("/proc/self/comm").read_text().strip()
    script = "BEGIN { @t[pid > 0, comm] = 1; @u = (1 == 1, nsecs > 0, comm); @v[(pid > 0, comm)] = sum(5); }"
    assert printed(script)[2:] == [f"@t[true, {name}]: 1", f"@u: (true, true, {name})", f"@v[true, {name}]: 5"]


def test_pointers_to_pointers_of_system_calls() -> None:
    """The words of a program that is executed."""
    script = Script(
        "tracepoint:syscalls:sys_enter_execve /tid != 0/ { $a = args.argv; @[str(args.argv[0]), str($a[1])] = count(); "
        "@first[str(*args.argv)] = count(); }"
    )
    with script:
        subprocess.run(["/bin/true", "words of its own"], check=True)
        found = dict(script["@"].snapshot())
        firsts = dict(script["@first"].snapshot())
    assert found["/bin/true", "words of its own"] == 1
    assert "/bin/true" in firsts
