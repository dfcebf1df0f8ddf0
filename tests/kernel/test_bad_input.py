"""What can't be: each a line on standard error, status 1, no traceback, nothing left behind."""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.support.command import ROOT, running
from tests.support.descriptors import loaded
from tests.support.waiting import PATIENCE, wait_until

TOOLS = ["biolatency", "opensnoop", "syscount", "tcplife"]
PYEBPF = [sys.executable, "-m", "pyebpf"]


def ends(status, *command):
    """Run a command that must end with a status; the lines of standard error. Nothing is printed as data."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE)
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()


def refused(*command):
    """Run a command that fails; its one line."""
    (line,) = ends(1, *command)
    return line


def in_mount_namespace(script, *command):
    """The command line that runs `command` after a shell script whose mounts nobody else sees."""
    return ["unshare", "--mount", "sh", "-ec", f"{script}\nexec {shlex.join(command)}"]


@pytest.mark.parametrize(
    ("tool", "dropped"),
    [
        *(pytest.param(tool, "all", marks=pytest.mark.any_kernel) for tool in TOOLS),
        ("syscount", "bpf,-sys_admin"),
        ("syscount", "perfmon,-sys_admin"),
    ],
)
def test_without_capabilities(tool, dropped):
    """Root without any, without CAP_BPF, or without CAP_PERFMON (CAP_SYS_ADMIN would do for both): what is missing."""
    line = refused("setpriv", f"--bounding-set=-{dropped}", *PYEBPF, tool, "-d", "1")
    assert re.fullmatch(rf"pyebpf {tool}: .* needs root.*(missing here: CAP_(BPF|PERFMON)|CAP_SYS_ADMIN).*", line)
    if dropped != "all":
        assert line.endswith(f"missing here: CAP_{dropped.partition(',')[0].upper()} (EPERM)")


@pytest.mark.parametrize(
    "tool",
    [
        *(pytest.param(tool, marks=pytest.mark.any_kernel) for tool in ("gethostlatency", "opensnoop", "profile")),
        *("syscount", "tcpsynbl"),
    ],
)
def test_another_user(tool):
    """Who is not root is told that root is needed, not that the kernel lacks what could not be asked for."""
    # The interpreter may lie in root's home, so this user may read everything, but do nothing else.
    reading = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *reading]
    assert "needs root" in refused(*user, *PYEBPF, tool, "--duration", "1")


@pytest.mark.parametrize("tool", ["biolatency", "syscount"])
def test_a_kernel_without_btf(tool):
    """The line names the file and the kernel's setting."""
    command = in_mount_namespace("mount -t tmpfs none /sys/kernel/btf", *PYEBPF, tool, "-d", "1")
    assert refused(*command) == (
        f"pyebpf {tool}: this kernel has no BTF: /sys/kernel/btf/vmlinux is missing (it needs CONFIG_DEBUG_INFO_BTF=y)"
    )


@pytest.mark.parametrize(
    "spoil", ["head -c 1000003", "tail -c +3", "head -c 0", "tr '\\000' '\\377' | head -c 5000000"]
)
@pytest.mark.any_kernel
def test_garbled_btf(spoil, tmp_path):
    """BTF that is cut short or makes no sense is an error of its own, in bounded time."""
    (tmp_path / "btf").write_bytes(
        subprocess.run(f"cat /sys/kernel/btf/vmlinux | {spoil}", shell=True, capture_output=True, check=True).stdout
    )
    script = f"mount --bind {shlex.quote(str(tmp_path / 'btf'))} /sys/kernel/btf/vmlinux"
    # The index of such BTF must not be kept beside that of the kernel's own.
    cache = f"XDG_CACHE_HOME={tmp_path}"
    before = time.monotonic()
    line = refused(*in_mount_namespace(script, "env", cache, *PYEBPF, "biolatency", "-d", "1"))
    assert re.match(r"pyebpf biolatency: .*BTF", line)
    assert time.monotonic() - before < PATIENCE / 4


def test_tracefs_is_not_mounted():
    """It is reached without being mounted anywhere, during the run or after it."""
    mounts, tool = "cat /proc/self/mountinfo", shlex.join([*PYEBPF, "opensnoop", "-d", "0.5", "--csv"])
    script = f"umount -a -t tracefs,debugfs 2>/dev/null || true\n{mounts}\necho\n{tool}\necho"
    done = subprocess.run(
        in_mount_namespace(script, *mounts.split()),
        check=True, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE,
    )  # fmt: skip
    before, data, after = done.stdout.split("\n\n")
    assert "tracefs" not in before
    assert before.strip() == after.strip()
    assert data.startswith("time,pid,comm,descriptor,error,path\n")
    assert done.stderr == "Tracing open(2)... Hit Ctrl-C to end.\n"


SCRIPTS = {
    "an unknown tracepoint": (
        """
        @bpf.tracepoint("syscalls:sys_enter_opnat")
        def probe() -> None:
            counts[0] += 1
        """,
        r"syscalls:sys_enter_opnat.*sys_enter_openat",
    ),
    "an unknown raw tracepoint": (
        """
        @bpf.raw_tracepoint("sched_swich")
        def probe() -> None:
            counts[0] += 1
        """,
        r"sched_swich.*sched_switch",
    ),
    "an unknown category": (
        """
        @bpf.tracepoint("syscals:sys_enter_openat")
        def probe() -> None:
            counts[0] += 1
        """,
        r"syscals.*syscalls",
    ),
    "an unknown field": (
        """
        @bpf.tracepoint("syscalls:sys_enter_openat")
        def probe(filenam: int) -> None:
            counts[0] += 1
        """,
        r"filenam\b.*filename",
    ),
    "an unknown argument": (
        """
        @bpf.btf_tracepoint("sched_switch")
        def probe(nxt: KernelObject) -> None:
            counts[0] += 1
        """,
        r"nxt\b.*next",
    ),
    "an unknown member": (
        """
        @bpf.btf_tracepoint("sched_switch")
        def probe(next: KernelObject) -> None:
            counts[next.tgidd] += 1
        """,
        r"tgidd\b.*tgid",
    ),
    "a statement outside the language": (
        """
        @bpf.tracepoint("syscalls:sys_enter_openat")
        def probe() -> None:
            try:
                counts[0] += 1
            finally:
                pass
        """,
        r"try",
    ),
    "an import": (
        """
        @bpf.tracepoint("syscalls:sys_enter_openat")
        def probe() -> None:
            import os
        """,
        r"import",
    ),
    "a float": (
        """
        @bpf.tracepoint("syscalls:sys_enter_openat")
        def probe() -> None:
            counts[0] += pid() / 2
        """,
        r"//",
    ),
    "a None check left out": (
        """
        @bpf.tracepoint("syscalls:sys_enter_openat")
        def probe() -> None:
            counts[0] = counts.get(1) + 1
        """,
        r"None",
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.any_kernel
def test_a_script_that_cannot_be_compiled(name, tmp_path):
    """`pyebpf run FILE`: the file, the line, what is wrong and what to write; most with the source and a caret."""
    body, words = SCRIPTS[name]
    text = (
        "from pyebpf import BPF, KernelObject, pid, u32, u64\n"
        "bpf = BPF()\n"
        "counts = bpf.hash(key=u32, value=u64)\n" + textwrap.dedent(body) + "with bpf:\n    print('attached')\n"
    )
    file = tmp_path / "script.py"
    file.write_text(text)
    first, *source = ends(1, *PYEBPF, "run", str(file))
    found = re.match(rf"pyebpf run: {re.escape(str(file))}:(\d+): (.*)", first)
    assert found is not None, first
    assert re.search(words, found[2]), found[2]
    if source:
        line, caret = source
        assert line.strip() == text.splitlines()[int(found[1]) - 1].strip()
        assert re.fullmatch(r" +\^+", caret)


def test_nothing_is_left_by_a_script_that_fails(tmp_path):
    """An exception inside `with` shows the script's own lines, and detaches."""
    file = tmp_path / "script.py"
    file.write_text(
        "import sys\n"
        "from pyebpf import BPF, u32, u64\n"
        "bpf = BPF()\n"
        "counts = bpf.hash(key=u32, value=u64)\n"
        "@bpf.raw_tracepoint('sys_enter')\n"
        "def count() -> None:\n"
        "    counts[0] += 1\n"
        "with bpf:\n"
        "    print('Tracing', file=sys.stderr, flush=True)\n"
        "    sys.stdin.read()\n"
        "    raise ValueError('of its own')\n"
    )
    with running("run", str(file), stdin=subprocess.PIPE) as script:
        objects = held(script.process)
        assert {kind for kind, _ in objects} == {"program", "map", "link"}
        script.process.stdin.close()
        assert script.wait() == 1
    assert script.err.splitlines()[-1] == "ValueError: of its own"
    assert f'File "{file}", line 11' in script.err
    assert "pyebpf/cli" not in script.err
    assert_gone(objects)


def assert_gone(objects):
    """None of the programs, maps and links is in the kernel after a while: it frees them when it has time."""
    wait_until(lambda: not objects & loaded(), lambda: objects & loaded())


def held(process):
    """Kind and id of the programs, maps and links that a process holds."""
    found = set()
    for info in Path(f"/proc/{process.pid}/fdinfo").iterdir():
        try:
            text = info.read_text()
        except FileNotFoundError:  # closed meanwhile
            continue
        for line in text.splitlines():
            if match := re.fullmatch(r"(prog|map|link)_id:\s*(\d+)", line):
                found.add(({"prog": "program"}.get(match[1], match[1]), int(match[2])))
    return found


@pytest.mark.parametrize(
    ("tool", "number"),
    [*((tool, signal.SIGINT) for tool in TOOLS), ("opensnoop", signal.SIGTERM), ("syscount", signal.SIGTERM)],
)
@pytest.mark.any_kernel
def test_signals(tool, number):
    """SIGINT and SIGTERM do the same: the last interval is printed, status 0, nothing is left attached."""
    with running(tool) as tracing:
        objects = held(tracing.process)
        assert {kind for kind, _ in objects} == {"program", "map", "link"}
        assert objects <= loaded()
        os.getppid()
        tracing.stop(number)
    assert tracing.out
    assert "Traceback" not in tracing.err
    assert_gone(objects)


@pytest.mark.parametrize("tool", ["opensnoop", pytest.param("biolatency", marks=pytest.mark.any_kernel)])
def test_killed(tool):
    """SIGKILL leaves nothing attached either."""
    with running(tool) as tracing:
        objects = held(tracing.process)
        tracing.process.kill()
        assert tracing.wait() == -signal.SIGKILL
    assert_gone(objects)


@pytest.mark.any_kernel
def test_a_second_signal_ends_at_once():
    """While the last interval waits for a reader, for the moment that the first signal grants it, the second ends."""
    read, write = os.pipe()
    try:
        os.write(write, b"x" * fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096))
        with running("syscount", stdout=write) as tracing:
            objects = held(tracing.process)
            tracing.process.send_signal(signal.SIGINT)
            with pytest.raises(subprocess.TimeoutExpired):
                tracing.process.wait(0.1)
            tracing.process.send_signal(signal.SIGINT)
            assert tracing.wait() == -signal.SIGINT
        assert_gone(objects)
    finally:
        os.close(read)
        os.close(write)


@pytest.mark.parametrize("arguments", [("opensnoop",), ("syscount", "0.1"), ("tcplife",)])
@pytest.mark.any_kernel
def test_a_reader_that_goes_away(arguments):
    """`| head -1` gets its line, and the tool ends quietly, status 0, though no further event may come."""
    read, write = os.pipe()
    with running(*arguments, stdout=write) as tracing:
        os.close(write)
        objects = held(tracing.process)
        os.getppid()
        with Path(__file__).open("rb"):
            assert os.read(read, 1)
        os.close(read)
        assert tracing.wait() == 0
    assert len(tracing.err.splitlines()) == 1
    assert_gone(objects)


@pytest.mark.parametrize("tool", ["opensnoop", "syscount"])
@pytest.mark.any_kernel
def test_a_full_disk(tool):
    """What cannot be written is an error, said once."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PYEBPF, tool, "-d", "0.3"], check=False, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[1:] == [f"pyebpf {tool}: standard output: No space left on device"]
