"""funccount on functions and USDT probes of a library and a program that the test builds: every call, nothing else."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from pyebpf.errors import InvalidValue, NotFound
from pyebpf.programs import funccount
from tests.support.command import pyebpf, running
from tests.support.debugged import compiled
from tests.support.needs import needs
from tests.support.traced import Traced, binary

CALLS, LATER = 23, 5


def counted(snapshot):
    return {row.func: row.count for row in snapshot()}


@pytest.mark.parametrize("form", ["{}:many_19?", "p:{}:many_19?"])
@pytest.mark.parametrize("kind", ["pie", "library"])
def test_functions_of_a_file_by_pattern(form, kind):
    """Ten of two hundred, 23 times each and then 5; none before and none after."""
    needs("attach:uprobe")
    path = binary(kind)
    where = "in " if kind == "library" else ""
    with Traced(binary("pie")) as traced:
        if where:
            traced.tell(f"load {path}")
        traced.tell(f"{where}many 2")
        with funccount.open(form.format(path)) as snapshot:
            traced.tell(f"{where}many {CALLS}")
            first = counted(snapshot)
            traced.tell(f"{where}many {LATER}")
            second = counted(snapshot)
        traced.tell(f"{where}many 2")
    names = [f"many_{number}" for number in range(190, 200)]
    assert first == dict.fromkeys(names, CALLS)
    assert second == dict.fromkeys(names, LATER)


def test_functions_of_one_process_of_two():
    """With -p the others' calls are not there; a library that it has loaded goes by its name."""
    needs("attach:uprobe")
    library = binary("library")
    with Traced(binary("pie")) as one, Traced(binary("pie")) as two:
        for each in (one, two):
            each.tell(f"load {library}")
        with funccount.open("traced:ne*", pid=one.pid) as snapshot:
            one.tell(f"in negative {CALLS}")
            two.tell(f"in negative {LATER}")
            assert counted(snapshot) == {"negative": CALLS}


def test_one_processor():
    """-c counts what runs on that processor alone."""
    needs("attach:uprobe")
    first, *others = sorted(os.sched_getaffinity(0))
    with Traced(binary("pie")) as traced, funccount.open(f"{binary('pie')}:many_19?", cpu=first) as snapshot:
        os.sched_setaffinity(traced.pid, {first})
        traced.tell(f"many {CALLS}")
        if others:
            os.sched_setaffinity(traced.pid, set(others))
            traced.tell(f"many {LATER}")
        assert set(counted(snapshot).values()) == {CALLS}


def test_usdt_probes_by_pattern():
    """Each under provider and name, its places together: `twice` has two."""
    needs("attach:uprobe")
    path = binary("pie")
    expected = {"traced:twice": 2 * CALLS, "traced:guarded": LATER}
    with Traced(path) as traced:
        for pattern in ("*", "traced:*", "tr*:[gtw]*"):
            with funccount.open(f"u:{path}:{pattern}", pid=traced.pid) as snapshot:
                traced.tell(f"twice {CALLS}")
                traced.tell(f"guarded {LATER}")
                assert counted(snapshot) == expected, pattern
        with funccount.open(f"u:{path}:guarded") as snapshot:
            traced.tell(f"twice {CALLS}")
            traced.tell(f"guarded {LATER}")
            assert counted(snapshot) == {"traced:guarded": LATER}


def test_the_command_prints_the_last_summary_when_it_is_stopped():
    """The most frequent last, as text."""
    needs("attach:uprobe")
    path = binary("pie")
    with Traced(path) as traced, running("funccount", f"{path}:n*", "-p", str(traced.pid)) as tool:
        traced.tell(f"nine {LATER}")
        traced.tell(f"negative {CALLS}")
        tool.stop(signal.SIGINT)
    rows = [line.split() for line in tool.out.splitlines() if line]
    assert rows == [["FUNC", "COUNT"], ["nine", str(LATER)], ["negative", str(CALLS)]]


def refusal(pattern, **options):
    with pytest.raises((NotFound, InvalidValue)) as caught, funccount.open(pattern, **options):
        pass
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    return message


def test_what_is_not_there_or_too_much():
    """One line each: the closest names, the option that allows more."""
    needs("attach:uprobe")
    path = binary("pie")
    assert refusal(f"{path}:nix_*") == f"no function of {path} matches nix_*"
    assert refusal(f"{path}:negativ") == f"{path} has no function negativ (did you mean negative?)"
    assert refusal("qqqqqqqqqq:f").startswith("there is no library or program qqqqqqqqqq")
    assert refusal(f"{path}:many_*", max_probes=199) == (
        f"many_* matches 200 functions of {path}, more than 199: narrow it, or allow more with max_probes=200 "
        "(--max-probes)"
    )
    assert refusal(f"u:{path}:traced:*", max_probes=3) == (
        f"'traced:*' matches 6 places of {path}, more than 3: narrow it, or allow more with max_probes=6 (--max-probes)"
    )
    assert refusal(f"u:{path}:traced:twic").startswith(
        f"{path} has no USDT probe traced:twic (did you mean traced:twice"
    )
    assert refusal("u:/bin/true:x") == (
        "/bin/true has no USDT probes: it was built without them (no .note.stapsdt); a function takes a uprobe"
    )


@pytest.mark.parametrize("pattern", ["", "t:syscalls", "u:c", "p:c", "x:y:z", "c:", ":f", "p:c:", "t::x"])
def test_what_is_no_pattern_is_refused(pattern):
    """Before anything is compiled, with each form that there is."""
    assert refusal(pattern) == (
        f"{pattern!r}: write 'tcp_*' for functions of the kernel, 'LIBRARY:FUNCTION' for those of a file, "
        "'t:CATEGORY:NAME' for tracepoints, 'u:FILE:PROBE' for USDT probes"
    )


def test_a_process_that_ends_is_no_error():
    """What it did until then is printed."""
    needs("attach:uprobe")
    path = binary("pie")
    with Traced(path) as traced, funccount.open(f"{path}:negative", pid=traced.pid) as snapshot:
        traced.tell(f"negative {CALLS}")
        traced.process.kill()
        traced.process.wait(60)
        assert counted(snapshot) == {"negative": CALLS}


def test_a_process_that_has_ended_is_one_line():
    """With its number; nothing is attached."""
    needs("attach:uprobe")
    with Traced(binary("pie")) as traced:
        pid = traced.pid
    for pattern in ("c:malloc", f"{binary('pie')}:negative", f"u:{binary('pie')}:*"):
        run = pyebpf("funccount", "-p", str(pid), pattern)
        assert run.returncode == 2
        assert run.stderr == f"pyebpf funccount: --pid: there is no process {pid}; see pyebpf funccount --help\n"


def test_long_names_are_whole(tmp_path):
    """Two that begin alike are told apart, however long they are."""
    needs("attach:uprobe")
    names = [f"{'a_name_that_begins_as_others_do_' * 2}{end}" for end in ("one", "two")]
    code = "".join(f'__attribute__((noinline)) void {name}(void) {{ asm volatile(""); }}\n' for name in names)
    path = compiled(tmp_path / "program", f"{code}int main(void) {{ {names[0]}(); {names[1]}(); {names[1]}(); }}")
    with running("funccount", f"{path}:a_*") as tool:
        subprocess.run([path], check=False)
        tool.stop()
    assert [line.split() for line in tool.out.splitlines() if line.startswith("a_")] == [
        [names[0], "1"],
        [names[1], "2"],
    ]
