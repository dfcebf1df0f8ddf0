"""The options of `pyebpf -e` that need a kernel: a command that runs with the script, files, JSON."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from pyebpf.cli.bpftrace_options import INSTEAD
from pyebpf.errors import NotFound
from pyebpf.kernel.mounts import cgroup2_mounts
from pyebpf.script import Script
from tests.support.command import pyebpf, running
from tests.support.needs import lacks, needs
from tests.support.system_calls import NO_PROCESS, getpgid
from tests.support.waiting import PATIENCE

EXEC = 'tracepoint:sched:sched_process_exec /pid == cpid/ { printf("%d %s\\n", pid == cpid, comm); }'


def test_a_command_begins_when_all_is_attached_and_ends_the_script() -> None:
    """Its first act is seen; the script's own output comes with it."""
    done = pyebpf("-e", f'{EXEC} END {{ printf("end\\n"); }}', "-c", "sh -c 'exit 3'")
    assert (done.returncode, done.stdout) == (0, "1 sh\nend\n\n\n"), done.stderr


def test_a_command_ends_with_the_script() -> None:
    """It would go on for long."""
    done = pyebpf("-e", "interval:ms:10 { print(cpid); exit(); }", "-c", "sleep 1000")
    assert done.returncode == 0, done.stderr
    assert not Path(f"/proc/{done.stdout.split()[0]}").exists()


def test_a_script_of_begin_alone_waits_for_its_command(tmp_path: Path) -> None:
    """Which would be killed before it has done anything."""
    done = pyebpf("-e", "BEGIN { print(1); } END { print(2); }", "-c", f"sh -c 'sleep 0.3; echo ran > {tmp_path}/file'")
    assert (done.returncode, done.stdout) == (0, "1\n2\n\n\n"), done.stderr
    assert (tmp_path / "file").read_text() == "ran\n"


def test_a_command_whose_quotes_do_not_close_is_an_error() -> None:
    """Of one line."""
    done = pyebpf("-e", "BEGIN { print(1); }", "-c", 'sh -c "x')
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "pyebpf -e: -c 'sh -c \"x': No closing quotation: words and quotes are as in a shell, so close what is open\n"
    )


def test_a_command_that_is_not_there_is_an_error() -> None:
    """Before anything is attached."""
    done = pyebpf("-e", "BEGIN { print(1); }", "-c", "no-such-command 5")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "pyebpf -e: -c 'no-such-command 5': there is no such command\n"


def test_a_command_that_cannot_be_run_is_an_error(tmp_path: Path) -> None:
    """What is there instead is told, or why the kernel did not take it."""
    file = tmp_path / "data"
    file.write_text("x")
    for command, reason in (
        (str(tmp_path), f"{tmp_path} is a folder, no command"),
        (
            str(file),
            f"{file} is not executable: chmod +x, or name the program that runs it first, as in -c 'sh {file}'",
        ),
        ("data", "data is not executable: chmod +x, or name the program that runs it first, as in -c 'sh data'"),
    ):
        done = pyebpf("-e", "BEGIN { print(1); }", "-c", command, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (1, "", f"pyebpf -e: -c {command!r}: {reason}\n")
    file.chmod(0o755)
    done = pyebpf("-e", "BEGIN { print(1); }", "-c", "data", cwd=tmp_path)
    assert done.stderr == "pyebpf -e: -c 'data': data is not in PATH: write ./data\n"
    done = pyebpf("-q", "-e", "BEGIN { print(1); }", "-c", "./data", cwd=tmp_path)
    assert done.stderr == "-c ./data: it cannot be run: Exec format error\n"


def test_a_command_is_counted_without_what_leads_to_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One execve(2), wherever in PATH the program is, and next to none of the pages of the process before it."""
    needs("helper:map_lookup_percpu_elem@raw_tracepoint")
    monkeypatch.setenv("PATH", f"{tmp_path}:{tmp_path}/x:{os.environ['PATH']}")
    # A program's own pages are not counted: it is another one from sched_process_exec on.
    done = pyebpf(
        "-q",
        "-e",
        "tracepoint:syscalls:sys_enter_execve /pid == cpid/ { @calls = count(); } "
        "tracepoint:sched:sched_process_exec /pid == cpid/ { @over = 1; } "
        "software:page-faults:1 /pid == cpid && !@over/ { @pages = sum(1); } "
        "END { print((uint64)@pages < 8); clear(@pages); clear(@over); }",
        "-c",
        "true",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "true\n\n\n@calls: 1\n", "")


def test_the_last_exit_is_the_status() -> None:
    """That of a probe, though the command or `stop` ended the script before it was heard of; that of END after all."""
    probe = f"tracepoint:syscalls:sys_enter_getpgid /pid == {os.getpid()}/ {{ exit(9); }}"
    for end, status in (("", 9), ("END { exit(7); }", 7), ("END { exit(); }", 0), ("END { print(1); }", 9)):
        script = Script(f"{probe} {end}")
        list(script.output(lambda: True, attached=lambda _: getpgid(1)))
        assert script.status == status, end
    assert pyebpf("-e", "BEGIN { exit(3); } END { exit(7); }").returncode == 7
    assert pyebpf("-e", "BEGIN { } END { exit(7); }").returncode == 7


def test_a_script_waits_without_a_sleep_of_its_own() -> None:
    """Between few events and the next: it would be counted by scripts about sleep(3)."""
    pid, rounds = os.getpid(), iter(range(50))

    def stop() -> bool:
        getpgid(1)
        return next(rounds, None) is None

    calls = "tracepoint:syscalls:sys_enter_clock_nanosleep, tracepoint:syscalls:sys_enter_nanosleep"
    script = Script(
        f"{calls} /pid == {pid}/ {{ @sleeps = count(); }} "
        f'tracepoint:syscalls:sys_enter_getpgid /pid == {pid}/ {{ print("x"); }}'
    )
    assert "".join(script.output(stop)) == "x\n" * 51 + "\n\n"


def test_output_goes_to_a_file(tmp_path: Path) -> None:
    """All of it, and nothing to standard output; without -q the note stays on standard error."""
    file = tmp_path / "out"
    done = pyebpf("-e", 'BEGIN { print("x"); @ = 1; }', "-o", str(file), "-q", "-B", "full")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert file.read_text() == "x\n\n\n@: 1\n"


def test_a_script_that_is_wrong_leaves_the_output_file(tmp_path: Path) -> None:
    """Nor is it replaced where a probe cannot be attached; and a script is not its own output."""
    file, script = tmp_path / "out", tmp_path / "a.bt"
    file.write_text("old")
    for wrong in ('BEGIN { prnt("x"); }', "BEGIN { print(1); } uprobe:/no/such:f { }"):
        assert pyebpf("-o", str(file), "-e", wrong).returncode == 1
        assert file.read_text() == "old"
    text = "BEGIN { print(1); }"
    script.write_text(text)
    done = pyebpf("run", str(script), "-o", str(script))
    assert (done.returncode, done.stdout, script.read_text()) == (1, "", text)
    assert done.stderr == f"pyebpf run: {script} is the file that is read: the output needs another name\n"
    assert pyebpf("run", str(script), "-o", "-").stdout == pyebpf("-e", text).stdout


def test_json_says_how_many_probes_there_are() -> None:
    """First of all, unless it is to be quiet."""
    done = pyebpf("-e", "BEGIN { print(1); } END { }", "-f", "json")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"type": "attached_probes", "count": 2, "data": {"probes": 2}},
        {"type": "value", "data": 1},
    ]
    for options in (("-f", "json", "-q"), ("-qfjson",), ("-fjson", "-qBline")):
        assert pyebpf("-e", "BEGIN { print(1); }", *options).stdout == '{"type": "value", "data": 1}\n'


def test_a_script_of_begin_and_end_ends_by_itself() -> None:
    """And one that is only tried prints nothing."""
    assert pyebpf("-e", "BEGIN { print(1); } END { print(2); }").stdout == "1\n2\n\n\n"
    done = pyebpf("-e", "BEGIN { print(1); } interval:s:1 { }", "--dry-run")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-f", "xml"], "-f takes text or json"),
        (["-B", "some"], "-B takes line, full or none"),
        (["-o"], "-o takes a value"),
        (["--mode", "some"], "--mode takes bench"),
        (
            ["--mode", "format"],
            "--mode format is bpftrace's and not here, --mode bench is: scripts are not formatted here",
        ),
        (["-V"], "-V stands alone: write pyebpf --version"),
        (["--version"], "--version stands alone: write pyebpf --version"),
        (["-p", "999999999"], "-p 999999999: there is no such process"),
    ],
)
def test_wrong_values_are_refused(arguments: list[str], message: str) -> None:
    """With status 2."""
    done = pyebpf("-e", "BEGIN { }", *arguments)
    assert done.returncode == 2
    assert done.stderr == f"pyebpf -e: {message}; see pyebpf -e --help\n"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("tracepoint:syscalls:sys_entr_read", "no tracepoint syscalls:sys_entr_read (did you mean sys_enter_read"),
        ("rawtracepoint:shed_*", "no raw tracepoint matches shed_* (did you mean sched_*"),
        ("rawtracepoint:sched_swich*", "no raw tracepoint matches sched_swich* (did you mean sched_switch"),
        ("rawtracepoint:vmlinux:sched_swich", "the kernel's BTF has no raw tracepoint 'sched_swich' (did you mean"),
        ("tracepoint:*:sys_entr_rea*", "no tracepoint matches *:sys_entr_rea* (did you mean sys_enter_read"),
        ("tracepoint:shed*:*", "no tracepoint matches shed*:* (did you mean sched"),
        ("uprobe:libc:mallc", "libc has no function mallc (did you mean malloc"),
        ("iter:tsk", "this kernel has no iterator 'tsk'"),
    ],
)
def test_an_error_about_an_attach_point_has_its_place(place: str, message: str) -> None:
    """The file, the line, a caret; names that are like it."""
    if place.startswith("uprobe"):
        needs("attach:uprobe")
    done = pyebpf("-e", f"interval:s:1 {{ exit(); }}\n{place} {{ @ = 1; }}")
    first, text, carets = done.stderr.splitlines()[-3:]
    assert first.startswith(f"pyebpf -e: <script>:2: {message}")
    assert (text.strip(), carets.strip()) == (f"{place} {{ @ = 1; }}", "^" * len(place))


def test_a_control_group_has_the_number_of_its_directory() -> None:
    """One of cgroup2; a file in it has none, nor has a directory of another file system."""
    needs("mount:cgroup2")
    (mount, *_) = cgroup2_mounts()
    done = pyebpf("-q", "-e", f'BEGIN {{ print(cgroupid("{mount}")); exit(); }}')
    assert done.stdout.split() == [str(Path(mount).stat().st_ino)]
    for path in (f"{mount}/cgroup.procs", "/proc"):
        done = pyebpf("-q", "-e", f'BEGIN {{ print(cgroupid("{path}")); exit(); }}')
        assert f"{path} is not the directory of a control group of cgroup2, which is mounted at {mount}" in done.stderr


def test_a_dry_run_lists_the_attachments() -> None:
    """With -v; of a script that attaches nothing it says so."""
    done = pyebpf("--dry-run", "-v", "-e", "BEGIN { exit(); } interval:s:5 { @ = 1; }")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("interval_s: perf event cpu-clock every 5000000000, by ")
    assert pyebpf("--dry-run", "-e", "interval:s:5 { @ = 1; }").stderr == ""
    done = pyebpf("--dry-run", "-v", "-e", "BEGIN { exit(); }")
    assert done.stderr == "nothing is attached: BEGIN, END, self, bench and iter probes are run by pyebpf itself\n"


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        ('tracepoint:sched:nosuchtp { printf("%d", args.pid); }', "tracepoint:sched:nosuchtp", "no tracepoint sched:"),
        ("uprobe:./nope:f { @[args.v] = 1; }", "uprobe:./nope:f", "there is no file ./nope"),
        ('uprobe:libc:mallc { @ = uaddr("x"); }', "uprobe:libc:mallc", "libc has no function mallc"),
        ('END { print(kaddr("init_tsk")); }', 'kaddr("init_tsk")', "the kernel has no variable init_tsk"),
    ],
)
def test_an_error_marks_what_is_wrong(text: str, marked: str, message: str) -> None:
    """The attach point that is missing, not what the probe asks of it; the name that the kernel has not."""
    done = pyebpf("-e", f"interval:s:1 {{ exit(); }}\n{text}")
    first, line, carets = done.stderr.splitlines()[-3:]
    assert first.startswith(f"pyebpf -e: <script>:2: {message}")
    assert line[carets.index("^") : len(carets)] == marked


def test_a_pattern_of_too_many_places_says_how_scripts_allow_them() -> None:
    """They have no --max-probes; what is told is what helps."""
    done = pyebpf("-e", "config = { max_probes = 1 } rawtracepoint:sched_* { @ = 1; }", "--dry-run")
    found = re.search(
        r"^pyebpf -e: <script>:1: .*narrow it, or allow more with (config = { max_probes = \d+ })$",
        done.stderr,
        re.MULTILINE,
    )
    assert found is not None, done.stderr
    done = pyebpf("-e", f"{found[1]} rawtracepoint:sched_* {{ @ = 1; }}", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_pattern_on_a_kernel_without_kprobes_says_so() -> None:
    """In one sentence, without the words of decorators."""
    lacks("attach:kprobe")
    done = pyebpf("-e", "kprobe:vfs_r* { @ = count(); }")
    assert "<script>:1: vfs_r* cannot be traced: this kernel has no kprobes (CONFIG_KPROBES, " in done.stderr


def test_dropped_events_say_how_there_is_more_room() -> None:
    """By the script, and from outside. Each of 4,000 events has 512 bytes, and a megabyte has room for 2,000."""
    script = 'BEGIN { for ($i : 0..4000) { print(("", $i, (string[479])"")); } }'
    done = pyebpf("-e", script)
    assert "ring buffer full" in done.stderr
    assert "config = { perf_rb_pages = 4096 } or BPFTRACE_PERF_RB_PAGES=4096" in done.stderr
    assert "full" not in pyebpf("-e", f"config = {{ perf_rb_pages = 4096 }} {script}").stderr


@pytest.mark.parametrize(
    "begins", ["BEGIN { FILL exit(7); }", "interval:us:200 { FILL } interval:ms:300 { FILL exit(7); }"]
)
def test_exit_ends_a_script_whose_buffer_is_full(begins: str) -> None:
    """The event that says so is dropped as any; its status is known all the same."""
    fill = 'for ($i : 0..4000) { print(("", $i, (string[479])"")); }'
    done = pyebpf("-e", begins.replace("FILL", fill))
    assert done.returncode == 7, done.stderr
    assert "ring buffer full" in done.stderr
    if begins.startswith("BEGIN"):  # where exit() itself had no room, nothing is lost
        told = re.search(r"dropped: (\d+) ", done.stderr)
        assert told is not None
        assert done.stdout.count("\n(, ") + done.stdout.startswith("(, ") + int(told[1]) == 4000


def test_a_process_that_is_not_there_is_refused() -> None:
    """In Python when the script is loaded; a thread that is not its process's first is none, either."""
    with pytest.raises(NotFound, match=f"pid: there is no process {NO_PROCESS}"):
        Script("BEGIN { }", pid=NO_PROCESS).load()


def test_options_of_a_script_stand_behind_two_dashes() -> None:
    """Others there are its parameters."""
    done = pyebpf("-e", 'BEGIN { print((getopt("n", 1), $1, $2)); }', "5", "--", "--n=7", "x")
    assert done.stdout == "(7, 5, x)\n\n\n", done.stderr


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """By bpftrace's names."""
    monkeypatch.setenv("BPFTRACE_MAX_CAT_BYTES", "4")
    assert pyebpf("-e", 'BEGIN { cat("/proc/version"); }').stdout == "Linu\n\n"


def test_an_output_file_is_not_written_through_another_user_s_link(tmp_path):
    """In a folder that everybody can write to, as pictures are not."""
    needs("user:root")
    (tmp_path / "ours").write_text("old")
    tmp_path.chmod(0o1777)
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "ours")
    os.chown(link, 65534, 65534, follow_symlinks=False)
    done = pyebpf("-e", "BEGIN { print(1); }", "-o", str(link))
    assert (done.returncode, (tmp_path / "ours").read_text()) == (1, "old")
    assert "is another user's link" in done.stderr
    done = pyebpf("-e", "BEGIN { print(1); }", "-o", str(tmp_path / "none" / "file"))
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)


def test_options_may_stand_before_the_script() -> None:
    """As they do in `pyebpf run`; its arguments stay behind it."""
    done = pyebpf("-e", "-c", "true", "-q", 'BEGIN { printf("%d\\n", $1); }', "7")
    assert (done.returncode, done.stdout) == (0, "7\n\n\n"), done.stderr
    done = pyebpf("-e", "-q")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pyebpf -e: give a script behind the options")


def test_options_may_stand_among_the_arguments(tmp_path: Path) -> None:
    """Of a file's, too, as in bpftrace: only behind two dashes are they the script's."""
    text = "BEGIN { print(($#, $1, $2)); }"
    (tmp_path / "a.bt").write_text(text)
    for begin in (("-e", text), ("run", str(tmp_path / "a.bt")), ("run", "--", str(tmp_path / "a.bt"))):
        done = pyebpf(*begin, "-7", "-c", "echo RAN", "5", "-q")
        assert (done.returncode, done.stdout, done.stderr) == (0, "(2, -7, 5)\nRAN\n\n\n", ""), begin
        done = pyebpf(*begin, "-q", "--", "-c", "true")
        assert (done.returncode, done.stdout, done.stderr) == (0, "(2, -c, true)\n\n\n", ""), begin


def test_options_that_exclude_each_other_are_refused() -> None:
    """And a stage behind -d, which bpftrace has."""
    done = pyebpf("-e", "BEGIN { }", "-p", str(os.getpid()), "5", "-c", "true")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("pyebpf -e: -p and -c: give one of them; with -c it is the command's process")
    for words in (("-d", "ast", "-e", "BEGIN { }"), ("-e", "BEGIN { }", "5", "-d", "ast")):
        done = pyebpf(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("pyebpf -e: -d ast: -d prints the bytecode, and takes no stage: leave out ast")


def test_long_names_of_options() -> None:
    """As bpftrace has them, with a space or = before the value."""
    done = pyebpf("-e", 'BEGIN { printf("%d\\n", $1); }', "--quiet", "--cmd", "true", "-f", "text", "7")
    assert (done.returncode, done.stdout, done.stderr) == (0, "7\n\n\n", "")
    done = pyebpf("-q", f"--pid={os.getpid()}", "--warnings", "-e", "BEGIN { exit(); }")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_on_standard_input() -> None:
    """Where its name would stand, with options before it and arguments behind; `pyebpf run -` says so to a script."""
    text = 'BEGIN { printf("%d\\n", $1); }'
    assert pyebpf("-", "7", input=text).stdout == "7\n\n\n"
    assert pyebpf("-q", "-f", "json", "-", "7", input=text).stdout == '{"type": "printf", "data": "7\\n"}\n'
    done = pyebpf("-", input="BEGIN { prnt(1); }")
    assert done.stderr.startswith("pyebpf -: <stdin>:1: there is no function prnt()")
    done = pyebpf("run", "-", input=text)
    assert "`pyebpf -` reads a script of bpftrace's language" in done.stderr


@pytest.mark.parametrize("option", INSTEAD)
def test_options_of_bpftraces_that_are_not_here_say_what_is(option: str) -> None:
    """Before the script, behind it, and where a file is run."""
    told = f"{option} is bpftrace's and not here: {INSTEAD[option]}; see pyebpf -e --help\n"
    for program, arguments in (
        ("pyebpf -e", ("-e", "BEGIN { }", option, "x")),
        ("pyebpf -e", (option, "x", "-e", "BEGIN { }")),
        ("pyebpf run", ("run", option, "x", "a.bt")),
        ("pyebpf", (option, "x")),
    ):
        assert (done := pyebpf(*arguments)).returncode == 2
        assert done.stderr == f"{program}: {told}"


def test_commands_that_wait_are_left_out_at_the_end() -> None:
    """Which a signal asks for: those of END are run all the same. Here they would take more than a minute."""
    text = 'profile:hz:999 { system("sleep 0.1; echo one"); } END { system("echo last"); }'
    with running("--unsafe", "-e", text) as tool:
        time.sleep(1)
        begun = time.monotonic()
        tool.stop()
    assert time.monotonic() - begun < PATIENCE / 4
    assert tool.out.split()[-1] == "last"
    assert set(tool.out.split()) == {"one", "last"}


@pytest.mark.parametrize("settings", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}])
def test_text_is_the_same_in_any_locale(settings: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes that the script has, and the processes: a name that a terminal's encoding lacks ends nothing."""
    for name, value in {"PYTHONCOERCECLOCALE": "0", **settings}.items():
        monkeypatch.setenv(name, value)
    text = 'BEGIN { printf("é €\\n"); @["ü"] = 1; print(str($1)); } END { printf("end\\n"); }'
    done = pyebpf("-e", text, "ä")
    assert (done.returncode, done.stdout) == (0, "é €\nä\nend\n\n\n@[ü]: 1\n"), done.stderr


def test_a_file_of_bytes_is_no_script(tmp_path: Path) -> None:
    """It is told by its name."""
    (tmp_path / "a.bt").write_bytes(b"\xff\xfe\0BEGIN")
    done = pyebpf("run", str(tmp_path / "a.bt"))
    assert done.returncode == 2
    assert done.stderr.startswith(f"pyebpf run: {tmp_path}/a.bt is no script: it has a byte that is 0")
