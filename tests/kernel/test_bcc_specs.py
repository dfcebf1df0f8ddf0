"""pyebpf argdist and trace with bcc's specifications: calls of this process and of a program, counted exactly."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from pyebpf.bcc.specs import Probe
from pyebpf.cli.bcc import result_types
from tests.support.command import pyebpf, running
from tests.support.debugged import compiled
from tests.support.needs import needs, needs_functions
from tests.support.system_calls import NO_PROCESS, getpgid, getppid
from tests.support.traced import Traced, binary

CALLS = 23
MINE = ("-p", str(os.getpid()))


def test_values_of_a_tracepoint_and_their_histogram():
    """Each value with its count, the most frequent last; another specification of the same command in its own map."""
    with running(
        "argdist", *MINE, "-C", "t:syscalls:sys_enter_getpgid():int:args->pid#ids", "-H",
        "t:syscalls:sys_exit_getpgid():long:-args->ret:args->ret < 0", "600",
    ) as tool:  # fmt: skip
        getpgid(5, 7, 7)
        tool.stop()
    lines = tool.out.splitlines()
    assert re.fullmatch(r"\[\d\d:\d\d:\d\d\]", lines[0])
    assert lines[1:4] == ["ids", f"[{NO_PROCESS + 5}]: 1", f"[{NO_PROCESS + 7}]: 2"]
    assert lines[4] == "t:syscalls:sys_exit_getpgid():long:-args->ret:args->ret < 0"
    assert lines[5].split() == ["[2,", "4)", "3", "|" + 52 * "@" + "|"]  # ESRCH


def test_intervals_begin_anew():
    """What one summary had is not in the next; with -c it is."""
    with running("argdist", *MINE, "-C", "t:syscalls:sys_enter_getppid()", "600") as tool:
        getppid(CALLS)
        tool.stop()
    assert tool.out.splitlines()[1:] == ["t:syscalls:sys_enter_getppid()", str(CALLS)]
    done = pyebpf("argdist", "-C", "t:syscalls:sys_enter_getppid()", "0.1", "3")
    assert done.stdout.count("t:syscalls:sys_enter_getppid()\n") == 3


def test_a_filter_that_never_holds_counts_nothing():
    """And is told, of a constant; a text that is longer than those that are read is refused."""
    never, other = "t:syscalls:sys_enter_openat():int:1:0", "t:syscalls:sys_enter_openat():int:1:1 == 2"
    done = pyebpf("argdist", "-C", never, "-H", other, "0.1", "1")
    assert done.returncode == 0
    assert done.stdout.splitlines()[1:] == [never, other]
    for each in (never, other):
        assert f"{each}: nothing is counted, since its filter never holds\n" in done.stderr
    long = 't:syscalls:sys_enter_openat():int:1:STRCMP("longer than eight", args->filename)'
    done = pyebpf("argdist", "-z", "8", "-C", long, "0.1", "1")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        1, "pyebpf argdist: this string has 17 bytes, and max_strlen = 8 takes 7 and a NUL",
    )  # fmt: skip


def test_arguments_and_results_of_a_function_of_a_file():
    """A parameter by its name in the signature, the result, and the parameter behind the return."""
    needs("attach:uprobe")
    path = binary("pie")
    specs = (
        "-C", f"p:{path}:negative(int a):int,int:a,a % 2#arguments",
        "-C", f"r:{path}:negative(int a):int:$retval:$entry(a) > 1 && $latency > 0#results",
    )  # fmt: skip
    with Traced(path) as traced, running("argdist", *specs, "600") as tool:
        traced.tell("negative 4")
        traced.tell("negative 3")
        tool.stop()
    assert tool.out.splitlines()[1:] == [
        "arguments", "[4, 0]: 1", "[1, 1]: 2", "[2, 0]: 2", "[3, 1]: 2",
        "results", "[-4]: 1", "[-3]: 2", "[-2]: 2",
    ]  # fmt: skip


def test_a_function_that_calls_itself():
    """Each call has what its own entry kept, for the time too."""
    needs("attach:uprobe")
    path = binary("pie")
    specs = (
        "-C", f"r:{path}:deep(long n):long,long:$entry(n),$retval#calls",
        "-C", f"r:{path}:deep(long n):int:$entry(n) == $retval:$latency > 0 && $retval >= 0#own",
    )  # fmt: skip
    line = f'r:{path}:deep ($entry(arg1) > 1 && $latency > 0) "%d of %d", $retval, $entry(arg1)'
    with Traced(path) as traced, running("argdist", *specs, "600") as tool, running("trace", line) as lines:
        traced.tell("deep 3")
        traced.tell("deep 1")
        tool.stop()
        lines.stop()
    counted = tool.out.splitlines()[1:]
    assert sorted(counted[1:5]) == ["[0, 0]: 4", "[1, 1]: 4", "[2, 2]: 2", "[3, 3]: 1"]
    assert counted[5:] == ["own", "[1]: 11"]
    assert [each.split()[-3:] for each in lines.out.splitlines()[1:]] == [[n, "of", n] for n in ("2", "2", "3")]


def test_a_result_has_the_type_of_the_function():
    """Its sign, by the debugging information: in predicates, filters and values, with a cast and without."""
    needs("attach:uprobe")
    path = binary("pie")
    specs = (
        "-C", f"r:{path}:negative():int:$retval + 1:$retval < -1#sum",
        "-C", f"r:{path}:negative():u8:1:(int)$retval == -3 || !$retval#cast",
        "-C", f"r:{path}:negative():int:$retval:retval <= -3 && $tgid > 0#said",
    )  # fmt: skip
    traces = (f'r:{path}:negative ($retval < -3) "%d", $retval * 2', f"r:{path}:negative ((int)retval == -2)")
    with Traced(path) as traced, running("argdist", *specs, "600") as tool, running("trace", *traces) as lines:
        traced.tell("negative 4")
        tool.stop()
        lines.stop()
    assert tool.out.splitlines()[1:] == [
        "sum", "[-3]: 1", "[-2]: 1", "[-1]: 1", "cast", "[1]: 1", "said", "[-4]: 1", "[-3]: 1",
    ]  # fmt: skip
    assert [each.split()[3:] for each in lines.out.splitlines()[1:]] == [["negative"], ["negative", "-8"]]


def test_names_of_argdist_and_what_a_return_gives_without_an_expression():
    """The process and the thread's name, in the filter too; a number without a sign where its type is said."""
    needs("attach:uprobe")
    path = binary("pie")
    specs = (
        "-C", "t:syscalls:sys_enter_getpgid():char*,u32,u32:$COMM,$PID,$UID:$PID == $TGID#names",
        "-C", f"t:syscalls:sys_enter_getpgid():int:1:(int)args->pid == {NO_PROCESS + 5}#typed",
        "-C", f"r:{path}:negative()#results",
    )  # fmt: skip
    with Traced(path) as traced, running("argdist", *specs, "-t", str(os.getpid()), "600") as tool:
        getpgid(5)
        traced.tell("negative 4")
        tool.stop()
    comm = Path("/proc/self/comm").read_text().strip()
    assert tool.out.splitlines()[1:] == [
        "names", f"[{comm}, {os.getpid()}, {os.geteuid()}]: 1", "typed", "[1]: 1", "results",
    ]  # fmt: skip
    with Traced(path) as traced, running("argdist", "-C", f"r:{path}:negative()", "600") as tool:
        traced.tell("negative 4")
        tool.stop()
    assert tool.out.splitlines()[2:4] == ["[-4]: 1", "[-3]: 1"]


def test_lines_of_events():
    """A heading, and a line for each with who made it, in order; the predicate leaves out others."""
    spec = f't:syscalls:sys_enter_getpgid (args->pid > {NO_PROCESS + 1}) "id %d%%", args->pid'
    with running("trace", *MINE, spec) as tool:
        getpgid(1, 2, 3)
        tool.stop()
    heading, *lines = tool.out.rstrip("\n").splitlines()
    assert heading.split() == ["PID", "TID", "COMM", "FUNC", "-"]
    assert [line.split()[0] for line in lines] == [str(os.getpid())] * 2
    assert [line.split()[-3:] for line in lines] == [
        ["sys_enter_getpgid", "id", f"{NO_PROCESS + number}%"] for number in (2, 3)
    ]


def test_the_function_of_a_pattern_is_the_one_that_was_called():
    """And not the pattern."""
    needs("attach:uprobe")
    path = binary("pie")
    with Traced(path) as traced, running("trace", f"p:{path}:negativ*") as tool:
        traced.tell("negative 4")
        tool.stop()
    assert {line.split()[3] for line in tool.out.splitlines()[1:]} == {"negative"}


def test_lines_are_chosen_by_names_and_messages(tmp_path):
    """-f and -M together count what is shown; -n takes part of the thread's name; columns stand before the others."""
    spec = 't:syscalls:sys_enter_getpgid "id %d", args->pid'
    with running("trace", *MINE, "-f", f"id {NO_PROCESS + 2}", "-M", "2", "-t", "-C", spec) as tool:
        getpgid(1, 2, 3, 2, 2)
        assert tool.wait() == 0
    heading, *lines = tool.out.splitlines()
    assert heading.split() == ["TIME(s)", "CPU", "PID", "TID", "COMM", "FUNC", "-"]
    assert [line.split()[-2:] for line in lines] == [["id", str(NO_PROCESS + 2)]] * 2
    assert all(re.match(r" *\d+\.\d{6} \d+ +\d+ ", line) for line in lines)
    comm = Path("/proc/self/comm").read_text().strip()
    with (
        running("trace", "--uid", str(os.geteuid()), "-n", comm[1:], "-L", str(os.getpid()), spec) as named,
        running("trace", *MINE, "-n", f"{comm[1:]}x", spec) as other,
    ):
        getpgid(1)
        named.stop()
        other.stop()
    assert (len(named.out.splitlines()), len(other.out.splitlines())) == (2, 1)


def test_what_it_does_itself_is_left_out():
    """With -S it is shown: each line that it writes is the reason for the next."""
    # The name that a Python has from its file, or from a fork of the tests' own.
    names = {"python", "python3", Path(sys.executable).name[:15]}
    condition = " || ".join(f'comm == "{name}"' for name in sorted(names))
    spec = f't:syscalls:sys_enter_write ({condition}) "by %d", $tgid'
    with running("trace", spec) as without, running("trace", "-S", "-M", "7", spec) as tool:
        assert tool.wait() == 0
        without.stop()
    assert f"by {without.process.pid}" not in without.out
    assert f"by {tool.process.pid}\n" in tool.out


def test_texts_are_as_long_as_is_asked_for(tmp_path):
    """With -z, shorter than what stands in the line by itself, and longer than a kernel's texts were before."""
    path = f"{tmp_path}/{100 * 'a'}"
    spec = 't:syscalls:sys_enter_openat ((args->flags & 0x400) != 0) "%s", args->filename'
    counted = "t:syscalls:sys_enter_openat():char*:args->filename:(args->flags & 0x400) != 0"
    with (
        running("trace", *MINE, "-z", "8", "-T", "-t", "-C", spec) as tool,
        running("argdist", *MINE, "-z", "8", "-C", counted, "600") as table,
        running("trace", *MINE, "-z", "400", spec) as long,
    ):
        with suppress(OSError):
            os.open(path, os.O_APPEND)
        for each in (tool, table, long):
            each.stop()
    assert tool.out.splitlines()[1].split()[-2:] == ["sys_enter_openat", f"{path[:8]}.."]
    assert table.out.splitlines()[-1] == f"[{path[:8]}..]: 1"
    assert long.out.splitlines()[1].split()[-1] == path


def test_the_types_of_what_functions_return():
    """Of the kernel by BTF, with the sign, of C where it is no number; nothing of what nobody knows."""
    result = result_types(None)
    assert result(Probe("r", "", "vfs_fsync")) == "int32"
    assert result(Probe("r", "", "no_such_function")) == ""
    assert result(Probe("r", "", "fget")) == "struct file *"
    assert result(Probe("r", "/no/such/file", "f")) == ""
    assert result(Probe("r", binary("pie"), "negative")) == "int32"
    assert result(Probe("r", binary("pie"), "deep")) == "int64"


def test_a_function_of_the_kernel(tmp_path):
    """A member of a struct that a parameter points to."""
    needs_functions()
    with running("trace", *MINE, 'vfs_open(struct path *path) "%s", path->dentry->d_name.name') as tool:
        (tmp_path / "opened").touch()
        tool.stop()
    assert ["vfs_open", "opened"] in [line.split()[-2:] for line in tool.out.splitlines()]


def test_what_is_refused():
    """A specification that is none with a caret; one that the kernel has nothing for in a line."""
    done = pyebpf("argdist", "-C", "x:y:z()")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[1:3] == ["    x:y:z()", "    ^"]
    done = pyebpf("trace", "t:syscalls:no_such")
    assert done.returncode == 1
    assert "no_such" in done.stderr
    assert pyebpf("argdist").returncode == 2
    done = pyebpf("trace", "t:syscalls:sys_enter_getpgid", "1")
    assert done.returncode == 2
    assert "1 is no specification, and trace has no interval: -d SECONDS, -M EVENTS or Ctrl-C ends it" in done.stderr


def test_a_trace_ends_after_its_duration():
    """That begins when all is attached."""
    done = pyebpf("trace", *MINE, "-d", "0.2", "t:syscalls:sys_enter_getpgid")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)


def test_names_cannot_write_to_the_terminal(tmp_path):
    """Nor make lines of their own: escapes are shown, as tools show them. Nothing stands behind the last line."""
    path = f"{tmp_path}/a\nb\x1b[31m"
    spec = 't:syscalls:sys_enter_openat ((args->flags & 0x400) != 0) "%s", args->filename'
    counted = "t:syscalls:sys_enter_openat():char*:args->filename:(args->flags & 0x400) != 0"
    with (
        running("trace", *MINE, "-z", "200", spec) as tool,
        running("argdist", *MINE, "-z", "200", "-C", counted, "600") as table,
    ):
        with suppress(OSError):
            os.open(path, os.O_APPEND)
        tool.stop()
        table.stop()
    shown = f"{tmp_path}/a\\x0ab\\x1b[31m"
    assert tool.out.splitlines()[1].endswith(f" {shown}")
    assert len(tool.out.splitlines()) == 2
    assert table.out.splitlines()[-1] == f"[{shown}]: 1"


RESULTS = """
#include <stdlib.h>
struct inner { int a; short b; };
struct req { int id; struct inner in; };
__attribute__((noinline)) struct req *make(int i) {
    struct req *r = calloc(1, sizeof *r); r->id = i; r->in.a = i % 2; r->in.b = -1; return r;
}
__attribute__((noinline)) int take(struct req *r, char c) { asm volatile("" ::: "memory"); return c - r->id; }
__attribute__((noinline)) double scale(int i) { asm volatile("" ::: "memory"); return i * 1.5; }
__attribute__((noinline)) void nothing(int i) { asm volatile("" ::: "memory"); }
int main(void) {
    double d = 0;
    for (int i = 1; i < 6; i++) { d += take(make(i), 'a' + i); d += scale(i); nothing(i); }
    return d < 0;
}
"""


def test_what_a_program_returns_has_its_type(tmp_path):
    """Members of a struct that is pointed to, characters, structs by content; others are refused."""
    path = compiled(tmp_path / "program", RESULTS, "-O1")
    given = f"p:{path}:take (c == 'c')"
    with running("trace", f'r:{path}:make (retval->id > 3) "%d", $retval->in.a', given) as tool:
        subprocess.run([path], check=True)
        tool.stop()
    assert [line.split()[3:] for line in tool.out.splitlines()[1:]] == [["take"], ["make", "0"], ["make", "1"]]
    counts = ["-C", f"p:{path}:take():struct inner:r->in", "-i", "30"]
    with running("argdist", *counts) as tool:
        subprocess.run([path], check=True)
        tool.stop()
    assert re.findall(r"^\[\{.*", tool.out, re.MULTILINE) == ["[{ .a = 0, .b = -1 }]: 2", "[{ .a = 1, .b = -1 }]: 3"]
    for name, message in (("scale", "scale returns a double"), ("nothing", "nothing returns nothing")):
        done = pyebpf("argdist", "-C", f"r:{path}:{name}():u64:$retval")
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr


OTHER_OF_ITS_NAME = """
static __attribute__((noinline)) int twin(short x) { asm volatile("" ::: "memory"); return -x; }
int first(int x) { return twin(x); }
"""
LEAVES = """
#include <setjmp.h>
static jmp_buf back;
int first(int x);
static __attribute__((noinline)) long twin(long x, char *y) { asm volatile("" ::: "memory"); return x; }
__attribute__((noinline)) int leaves(int n, int out) {
    asm volatile("" ::: "memory"); if (out) longjmp(back, 1); return n;
}
int main(void) {
    for (volatile int i = 0; i < 20000; i++) if (!setjmp(back)) leaves(i, 1);
    for (int i = 0; i < 5; i++) leaves(i, 0);
    return first(3) + (int)twin(3, 0);
}
"""


def test_calls_that_never_return_leave_room_for_others(tmp_path):
    """By longjmp(3): what their entries kept is forgotten before that of those that are under way."""
    first = compiled(tmp_path / "first", OTHER_OF_ITS_NAME, "-O1", "-c")
    path = compiled(tmp_path / "program", LEAVES, "-O1", first)
    with running("argdist", "-C", f"r:{path}:leaves():int,int:$retval,$entry(n)", "-i", "60") as tool:
        subprocess.run([path], check=False)
        tool.stop()
    assert re.findall(r"^\[\d, .*", tool.out, re.MULTILINE) == [f"[{n}, {n}]: 1" for n in range(5)]
    assert "dropped" not in tool.out + tool.err
    done = pyebpf("trace", f'r:{path}:twin (retval > 9) "%d", retval')
    assert done.returncode == 2
    assert f"twin and twin of {path} return different types: probe them apart" in done.stderr


def test_a_process_has_files_that_patterns_match(tmp_path):
    """Of `pyebpf list`, by their paths."""
    path = compiled(
        tmp_path / "waits",
        "#include <unistd.h>\nint rests(void) { return pause(); } int main(void) { return rests(); }",
    )
    with subprocess.Popen([path]) as process:
        try:
            done = pyebpf("list", "-p", str(process.pid), f"u:{tmp_path}/w*:rest*", "u:*:nosuch")
        finally:
            process.kill()
    assert done.stdout == f"uprobe:{path}:rests\n"
    assert f"no file that process {process.pid} has mapped has what 'u:*:nosuch' matches" in done.stderr
