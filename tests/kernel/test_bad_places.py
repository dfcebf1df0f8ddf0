"""`pyebpf run FILE` with a probe where none can be: one line, status 1, and nothing is left in the kernel."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from pyebpf import BPF
from pyebpf.cli import main
from pyebpf.errors import CompileError, NotFound
from pyebpf.kernel.tracefs import Tracefs
from tests.support.needs import lacks, needs

if TYPE_CHECKING:
    from pathlib import Path


class Case(NamedTuple):
    """A decorator, what it needs of the kernel, and the line that it is refused with."""

    decorator: str
    feature: str
    line: str
    lacking: bool = False


#: A function that the kernel keeps kprobes out of.
FORBIDDEN = {"x86_64": "do_int3", "aarch64": "el0t_64_sync_handler"}[os.uname().machine]
CASES = {
    "a misspelt function": Case(
        'kprobe("shmem_file_llseeek")', "attach:kprobe", r"no function .*llseeek \(did you mean shmem_file_llseek"
    ),
    "a misspelt function for a trampoline": Case(
        'fentry("shmem_file_llseeek")', "attach:fentry", r".*'shmem_file_llseeek' \(did you mean shmem_file_llseek"
    ),
    "a misspelt function, by any way": Case(
        'function("shmem_file_llseeek")', "attach:kprobe", r"no function .*llseeek \(did you mean shmem_file_llseek"
    ),
    "a module that is not loaded": Case(
        'function("pyebpf_none:f")',
        "attach:kprobe",
        r"no function pyebpf_none:f: module pyebpf_none is not loaded \(modprobe pyebpf_none\)$",
    ),
    "a forbidden function": Case(
        f'kprobe("{FORBIDDEN}")',
        "attach:kprobe",
        rf"kprobe {FORBIDDEN}: the kernel forbids probes there \(its kprobes blacklist\)$",
    ),
    "a function that is gone": Case(
        'kretprobe("tcp_init")',
        "attach:kprobe",
        r"kretprobe tcp_init: it ran while the kernel booted, and has been freed",
    ),
    "no place for an instruction": Case(
        'kprobe("shmem_file_llseek+1")', "attach:kprobe", r"kprobe .*\+0?x?1: no instruction begins there$"
    ),
    "too many functions": Case(
        'function("tcp_*", max_probes=3)',
        "attach:kprobe",
        r"'tcp_\*' matches \d+ functions, more than 3: .*--max-probes",
    ),
    "no function by a pattern": Case(
        'function("no_such_*")', "attach:kprobe", r"no function of the kernel .*'no_such_\*'$"
    ),
    "a kernel without functions": Case(
        'function("shmem_file_llseek")', "attach:kprobe", r".*no candidate works here: fentry: ", lacking=True
    ),
    "a kernel without kprobe.multi": Case(
        'kprobe_multi("shmem_file_llseek")',
        "attach:kprobe_multi",
        r"kprobe\.multi .*: this kernel has no",
        lacking=True,
    ),
    "a kernel without trampolines": Case(
        'fexit("shmem_file_llseek")',
        "attach:fentry",
        r".*this kernel (has no trampolines for programs|loads programs for trampolines, but attaches none)",
        lacking=True,
    ),
    "a misspelt function of a library": Case(
        'uprobe("libc.so.6", "getaddrinf")',
        "attach:uprobe",
        r"libc\.so\.6 has no function getaddrinf \(did you mean getaddr",
    ),
    "a version that there is none of": Case(
        'uretprobe("libc.so.6", "getaddrinfo@GLIBC_9")',
        "attach:uprobe",
        r"libc.* its getaddrinfo is getaddrinfo@@GLIBC",
    ),
    "a library that there is none of": Case(
        'uprobe("libnone-at-all.so.1", "f")', "attach:uprobe", r"there is no library or program libnone-at-all\.so\.1"
    ),
    "a process that has ended": Case(
        'uprobe("libc.so.6", "getppid", pid=ENDED)', "attach:uprobe", r"there is no process \d+$"
    ),
    "too many functions of a library": Case(
        'uprobe("libc.so.6", "*", max_probes=5)',
        "attach:uprobe",
        r"\* matches \d+ functions .*more than 5.* max_probes=",
    ),
    "a misspelt USDT probe": Case(
        'usdt("/usr/bin/python3", "python:gc__strt")',
        "setting:/usr/bin/python3",
        r"/usr/bin/python3 has no USDT probe",
    ),
    "a process without such a name": Case('breakpoint("x", pid=ENDED)', "attach:uprobe", r".*there is no process \d+$"),
    "a misspelt tracepoint": Case(
        'tracepoint("sched:sched_swich")', "user:root", r"no tracepoint .*did you mean sched_switch"
    ),
    "a rate beyond the limit": Case(
        "sample(frequency=10**9)", "user:root", r".*above kernel\.perf_event_max_sample_rate \(EINVAL\)$"
    ),
}


def ended() -> int:
    """The number of a process that there was."""
    with subprocess.Popen(["true"]) as process:
        return process.pid


@pytest.mark.parametrize("name", CASES)
def test_one_line_says_so(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After the command's name and the line of the script. What is left is seen by tests/conftest.py."""
    case = CASES[name]
    (lacks if case.lacking else needs)(case.feature)
    file = tmp_path / "script.py"
    file.write_text(
        "from pyebpf import BPF, u64\n"
        "bpf = BPF()\n"
        "counts = bpf.array(value=u64)\n"
        f"@bpf.{case.decorator.replace('ENDED', str(ended()))}\n"
        "def probe() -> None:\n"
        "    counts[0] += 1\n"
        "with bpf:\n"
        "    print('attached')\n"
    )
    assert main(["run", str(file)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert re.match(rf"pyebpf run: ({re.escape(str(file))}:\d: )?{case.line}", line), line
    with Tracefs() as tracefs:
        if tracefs.has_top("kprobe_events"):
            assert f"pyebpf_{os.getpid()}_".encode() not in tracefs.read_top("kprobe_events")


def test_one_function_of_several_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The others are attached: the script runs."""
    needs("attach:uprobe")
    file = tmp_path / "script.py"
    file.write_text(
        "from pyebpf import BPF, u64\n"
        "bpf = BPF()\n"
        "@bpf.uprobe('libc.so.6', 'getppid', 'getppidd')\n"
        "def probe() -> None:\n"
        "    pass\n"
        "with bpf:\n"
        "    print(*bpf.warnings)\n"
    )
    assert main(["run", str(file)]) == 0
    out, err = capsys.readouterr()
    assert re.fullmatch(r"libc\.so\.6 has no function getppidd \(did you mean getppid.*\)\n", out)
    assert err == ""


DECORATORS = {
    "tracepoint": ('@bpf.tracepoint("syscalls:sys_enter_opnat")', "no tracepoint syscalls:sys_enter_opnat"),
    "uprobe": ('@bpf.uprobe("c", "mallco")', "c has no function mallco"),
    "xdp": ('@bpf.xdp("nosuch0")', "no network interface 'nosuch0'"),
    "control group": ('@bpf.cgroup_skb_egress("/")', "/ is not a control group"),
}


@pytest.mark.parametrize("kind", DECORATORS)
def test_an_error_about_an_attach_point_names_the_decorator(tmp_path: Path, kind: str) -> None:
    """Of several the one at fault: in a traceback, as `location`, and by `pyebpf run`."""
    decorator, message = DECORATORS[kind]
    file = tmp_path / "script.py"
    file.write_text(
        "from pyebpf import BPF\n"
        "bpf = BPF()\n"
        "@bpf.raw_tracepoint('sys_enter')\n"
        "def other() -> None:\n"
        "    pass\n"
        f"{decorator}\n"
        f"def at_fault(){' -> int' if kind in {'xdp', 'control group'} else ''}:\n"
        f"    {'return 1' if kind in {'xdp', 'control group'} else 'pass'}\n"
        "with bpf:\n"
        "    pass\n"
    )
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False)
    error, where, text, carets = done.stderr.splitlines()[-4:]
    assert error.startswith(f"pyebpf.errors.NotFound: {message}"), done.stderr
    assert (where, text) == (f"{file}:6: in probe at_fault", f"    {decorator}")
    assert carets == "     " + "^" * (len(decorator) - 1)
    done = subprocess.run([sys.executable, "-m", "pyebpf", "run", file], capture_output=True, text=True, check=False)
    assert done.stderr.startswith(f"pyebpf run: {file}:6: {message}")
    assert len(done.stderr.splitlines()) == 1


def test_of_several_decorators_the_one_at_fault_is_named() -> None:
    """The location is an attribute; an error in the body keeps its own."""
    bpf = BPF()

    @bpf.raw_tracepoint("sys_enter")
    @bpf.uprobe("c", "mallco")
    @bpf.raw_tracepoint("sys_exit")
    def at_fault() -> None:
        pass

    with pytest.raises(NotFound) as caught, bpf:
        pass
    assert caught.value.location is not None
    assert caught.value.location.text.strip() == '@bpf.uprobe("c", "mallco")'
    assert caught.value.probe == "at_fault"
    bpf = BPF()

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def wrong(nothing: int) -> None:
        pass

    with pytest.raises(CompileError, match="has no field 'nothing'") as refused, bpf:
        pass
    assert not hasattr(refused.value, "__notes__")
