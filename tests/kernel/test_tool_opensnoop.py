"""opensnoop: every open of a known workload, with its result and its path as it was given."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path

import pytest

from pyebpf import BPF, pid, u64
from pyebpf.errors import InvalidValue
from pyebpf.programs import opensnoop
from tests.support.command import running
from tests.support.told import let, waiting
from tests.support.waiting import PATIENCE

OPENS, FAILURES = 23, 11
COLUMNS = ["PID", "COMM", "FD", "ERR", "PATH"]
FIELDS = ["time", "pid", "comm", "descriptor", "error", "path"]
WORKLOAD = """
import os, sys
folder, uid, opens, failures = sys.argv[1], *map(int, sys.argv[2:])
open("/proc/self/comm", "w").write("opener")
os.setuid(uid)
print(flush=True)
sys.stdin.read(1)
for number in range(opens):
    os.close(os.open(f"{folder}/{number}", os.O_RDONLY))
for number in range(failures):
    try:
        os.open(f"{folder}/missing{number}", os.O_RDONLY)
    except FileNotFoundError:
        pass
"""


def opener(folder, uid=0):
    """A process that waits to be told to open 23 files, and fail to open 11."""
    for number in range(OPENS):
        (folder / str(number)).touch()
    return waiting(sys.executable, "-c", WORKLOAD, folder, str(uid), str(OPENS), str(FAILURES))


def test_23_opens_in_every_format(tmp_path):
    """Exactly 23 opens and 11 failures by path, in order, as text, JSON and CSV."""
    with (
        opener(tmp_path) as process,
        running("opensnoop") as text,
        running("opensnoop", "--json") as objects,
        running("opensnoop", "--csv") as rows,
    ):
        let(process)
        for tool in (text, objects, rows):
            tool.stop()
    expected = [f"{tmp_path}/{number}" for number in range(OPENS)]
    expected += [f"{tmp_path}/missing{number}" for number in range(FAILURES)]
    found = [o for o in objects.objects() if str(tmp_path) in o["path"]]
    assert [o["path"] for o in found] == expected
    assert list(found[0]) == list(rows.rows()[0]) == FIELDS
    assert {(o["pid"], o["comm"]) for o in found} == {(process.pid, "opener")}
    assert [o["error"] for o in found] == [None] * OPENS + ["ENOENT"] * FAILURES
    assert len({o["descriptor"] for o in found[:OPENS]}) == 1
    assert {o["descriptor"] for o in found[OPENS:]} == {-1}
    as_text = [{name: "" if value is None else str(value) for name, value in o.items()} for o in found]
    mine = [row for row in rows.rows() if str(tmp_path) in row["path"]]
    assert [{**row, "time": ""} for row in mine] == [{**o, "time": ""} for o in as_text]
    assert [o["time"] for o in as_text] == sorted(o["time"] for o in as_text)
    assert len({o["time"] for o in as_text}) == len(found)
    heading, *lines = text.out.splitlines()
    assert heading.split() == COLUMNS
    numbers = {"": "0", "ENOENT": str(errno.ENOENT)}
    shown = [list({**o, "error": numbers[o["error"]]}.values())[1:] for o in as_text]
    assert [line.split() for line in lines if str(tmp_path) in line] == shown
    assert [tool.err for tool in (text, objects, rows)] == ["Tracing open(2)... Hit Ctrl-C to end.\n"] * 3


@pytest.fixture
def public():
    """A folder that every user can read; pytest's own lie where only root may look."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def test_filters(public):
    """-x keeps failures, -p, -u and -n those of a process, user or name."""
    with (
        opener(public, uid=65533) as process,
        running("opensnoop", "--json", "-x") as failures,
        running("opensnoop", "--json", "-p", str(process.pid)) as by_pid,
        running("opensnoop", "--json", "-u", "65533", "-U") as by_uid,
        running("opensnoop", "--json", "-n", "pene") as by_name,
        running("opensnoop", "--json", "-u", "0", "-x", "--errno-names") as others,
    ):
        let(process)
        with pytest.raises(FileNotFoundError):
            (public / "other").open()
        for tool in (failures, by_pid, by_uid, by_name, others):
            tool.stop()
    assert len([o for o in failures.objects() if str(public / "missing") in o["path"]]) == FAILURES
    assert all(o["error"] for o in failures.objects())
    assert len(by_pid.objects()) == len(by_uid.objects()) == OPENS + FAILURES
    assert {o["uid"] for o in by_uid.objects()} == {65533}
    assert len([o for o in by_name.objects() if o["pid"] == process.pid]) == OPENS + FAILURES
    assert all("pene" in o["comm"] for o in by_name.objects())
    (own,) = [o for o in others.objects() if str(public) in o["path"]]
    assert (own["pid"], own["error"]) == (os.getpid(), "ENOENT")


def test_flags(tmp_path):
    """-f takes opens for writing alone, or those with a flag; O_RDONLY is the others' mode. No name is refused."""
    path = tmp_path / "file"
    path.touch()
    made = [
        os.O_RDONLY,
        os.O_WRONLY | os.O_CREAT,
        os.O_RDWR,
        os.O_NONBLOCK,
        os.O_WRONLY | os.O_APPEND,
        os.O_RDWR | os.O_SYNC,
        os.O_RDWR | os.O_DSYNC,
    ]
    asked = [
        ("O_WRONLY",),
        ("O_WRONLY", "O_RDWR"),
        ("O_RDONLY",),
        ("O_APPEND", "O_CREAT"),
        ("O_RDWR", "O_APPEND"),
        ("O_SYNC", "O_DSYNC"),
        ("O_SYNC",),
    ]
    with contextlib.ExitStack() as stack:
        tools = [stack.enter_context(opensnoop.open(pid=os.getpid(), flags=each, extended=True)) for each in asked]
        for flags in made:
            os.close(os.open(path, flags))
        found = [
            # Python adds this one.
            [made.index(call.flags & ~os.O_CLOEXEC) for call in tool.poll(1) if call.path == str(path)]
            for tool in tools
        ]
    assert found == [[1, 4], [1, 2, 4, 5, 6], [0, 3], [1, 4], [2, 4, 5, 6], [5, 6], [5]]
    with pytest.raises(InvalidValue, match="'O_NOTHING' is no flag"):
        opensnoop.Options(flags=("O_NOTHING",))


def test_one_thread(tmp_path):
    """-t keeps the opens of one thread."""
    paths = [tmp_path / "one", tmp_path / "other"]
    for path in paths:
        path.touch()
    begin, ends = threading.Event(), []

    def work():
        ends.append(threading.get_native_id())
        begin.wait(PATIENCE)
        paths[0].open().close()

    thread = threading.Thread(target=work)
    thread.start()
    while not ends:
        time.sleep(0.001)
    with opensnoop.open(tid=ends[0]) as calls:
        paths[1].open().close()
        begin.set()
        call = next(calls)
        thread.join()
    assert (call.tid, call.pid, call.path) == (ends[0], os.getpid(), str(paths[0]))


def own(calls):
    """This process's records, without those of its attaching the last probes."""
    return (call for call in calls if not call.path.startswith("syscalls/"))


def opened(*paths, **options):
    """The records of this process's opens of `paths`, none of which need exist; nothing else is opened meanwhile."""
    with opensnoop.open(pid=os.getpid(), **options) as calls:
        for path in paths:
            with contextlib.suppress(OSError):
                os.close(os.open(path, os.O_RDONLY))
        return list(islice(own(calls), len(paths)))


def test_long_paths_are_cut():
    """At 255 bytes, of which the last is there; one byte less is whole."""
    paths = ["/" + "a" * (length - 2) + "b" for length in (254, 255, 256, 4000)]
    assert [call.path for call in opened(*paths)] == [*paths[:2], "/" + "a" * 254, "/" + "a" * 254]


def test_names_that_are_no_text(tmp_path):
    """Bytes that are not UTF-8 survive; on a terminal and in JSON they, and control characters, are escaped."""
    path = os.fsencode(tmp_path) + b"/\xff\n\x1b[2J\xc3\xa9"
    (call,) = opened(path)
    assert os.fsencode(call.path) == path
    with running("opensnoop", "--json", "-x") as objects, running("opensnoop", "-x") as text:
        with pytest.raises(FileNotFoundError):
            os.open(path, os.O_RDONLY)
        objects.stop()
        text.stop()
    assert [o["path"] for o in objects.objects() if str(tmp_path) in o["path"]] == [f"{tmp_path}/\\xff\n\x1b[2J\xe9"]
    assert [line for line in text.out.splitlines() if f"{tmp_path}/\\xff\\x0a\\x1b[2J\xe9" in line]


@pytest.mark.parametrize("address", [0, 1 << 46])
def test_a_path_that_cannot_be_read(address):
    """EFAULT, with an empty path."""
    libc = ctypes.CDLL(None, use_errno=True)
    with opensnoop.open(pid=os.getpid()) as calls:
        assert libc.open(ctypes.c_void_p(address), 0) == -1
        assert ctypes.get_errno() == errno.EFAULT
        call = next(own(calls))
    assert (call.path, call.error, call.descriptor) == ("", "EFAULT", -1)


def test_each_system_call(tmp_path):
    """open(2) where the architecture has it, openat(2) and openat2(2), each once, with its flags."""
    path = os.fsencode(tmp_path / "file")
    (tmp_path / "file").touch()
    libc = ctypes.CDLL(None, use_errno=True)
    flags, at_fdcwd = os.O_WRONLY | os.O_CLOEXEC, ctypes.c_long(-100)
    how = ctypes.create_string_buffer(struct.pack("=QQQ", flags, 0, 0))
    # open(2) is 2 on x86-64 and does not exist on the other architectures.
    calls = [(2, path, ctypes.c_long(flags))] if platform.machine() == "x86_64" else []
    calls += [
        (257 if calls else 56, at_fdcwd, path, ctypes.c_long(flags)),
        (437, at_fdcwd, path, how, ctypes.c_long(24)),
    ]
    with opensnoop.open(pid=os.getpid(), extended=True) as events:
        for call in calls:
            descriptor = libc.syscall(*call)
            assert descriptor >= 0, os.strerror(ctypes.get_errno())
            os.close(descriptor)
        found = list(islice(own(events), len(calls)))
    assert {(call.path, call.flags, call.error) for call in found} == {(os.fsdecode(path), flags, None)}


def test_the_path_is_read_although_its_page_was_not_in_memory(tmp_path):
    """The kernel brings the page in between entry and return, so the name is there at the return."""
    name = os.fsencode(tmp_path / "name")
    (tmp_path / "name").touch()
    (tmp_path / "page").write_bytes(name.ljust(4096, b"\0"))
    script = (
        "import ctypes, mmap, os, sys\n"
        "file = os.open(sys.argv[1], os.O_RDONLY)\n"
        "m = mmap.mmap(file, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)\n"
        "libc = ctypes.CDLL(None)\n"
        "address = ctypes.addressof(ctypes.c_char.from_buffer(m))\n"
        "sys.stdin.read(1)\n"
        "os.close(libc.open(ctypes.c_void_p(address), 0))\n"
    )
    with (
        subprocess.Popen([sys.executable, "-c", script, tmp_path / "page"], stdin=subprocess.PIPE) as process,
        running("opensnoop", "--json", "-p", str(process.pid)) as tool,
    ):
        time.sleep(0.5)
        let(process)
        tool.stop()
    assert [o["path"] for o in tool.objects()].count(os.fsdecode(name)) == 1


def test_in_a_pid_namespace(tmp_path):
    """Process ids are those of the namespace; what is outside has 0, and its calls are not mixed up."""
    inside, outside = tmp_path / "inside", [tmp_path / "one", tmp_path / "other"]
    opens = 1009
    script = "import os, sys\nfor _ in range(int(sys.argv[2])): os.close(os.open(sys.argv[1], os.O_RDONLY))"
    for path in (inside, *outside):
        path.touch()
    with running("opensnoop", "--json", prefix=["unshare", "--pid", "--fork", "--mount-proc"]) as tool:
        (child,) = Path(f"/proc/{tool.process.pid}/task/{tool.process.pid}/children").read_text().split()
        enter = ["nsenter", f"--pid=/proc/{child}/ns/pid"]
        subprocess.run([*enter, sys.executable, "-c", script, inside, "23"], check=True)
        workers = [subprocess.Popen([sys.executable, "-c", script, path, str(opens)]) for path in outside]
        subprocess.run([*enter, sys.executable, "-c", script, inside, "23"], check=True)
        assert [worker.wait(PATIENCE) for worker in workers] == [0, 0]
        os.kill(int(child), signal.SIGINT)
        assert tool.wait() == 0
    lost = tool.dropped or "too many to print at the end: " in tool.err
    found = [(o["pid"], o["path"]) for o in tool.objects()]
    assert found.count((2, str(inside))) == 23  # the first process after the tool itself
    # Among thousands of others, of which some may have been lost.
    assert {pid for pid, path in found if path == str(inside)} <= {2, 3}
    assert found.count((3, str(inside))) <= 23
    counts = [found.count((0, str(path))) for path in outside]
    assert max(counts) <= opens
    assert lost or counts == [opens, opens]


def test_its_own_attaching_is_not_seen(tmp_path):
    """A process that watches itself sees its own opens from the start of the block, and none of those that attach."""
    for number in range(3):
        with opensnoop.open(pid=os.getpid()) as calls:
            (tmp_path / str(number)).write_text("mine")
            assert next(calls).path == str(tmp_path / str(number))


def test_attaching_opens_nothing_between_its_probes():
    """Entries and exits are as many: what attaching reads of files is read before the first probe is attached."""
    bpf = BPF()
    entries, exits = bpf.array(value=u64, name="entries"), bpf.array(value=u64, name="exits")
    me = os.getpid()

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_enter() -> None:
        if pid() == me:
            entries[0] += 1

    @bpf.tracepoint("syscalls:sys_exit_openat")
    def on_exit() -> None:
        if pid() == me:
            exits[0] += 1

    with bpf:
        bpf.detach()
        assert (entries[0], exits[0]) == (0, 0)
