"""`pyebpf` itself: version, list, run, unknown words; what it imports."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

import pyebpf
from pyebpf import __version__
from pyebpf.cli import COMMANDS
from pyebpf.cli.catalogue import names
from pyebpf.cli.report import describe

ROOT = Path(pyebpf.__file__).parent.parent
BUFFERED = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def pyebpf_command(*arguments, **options):
    done = subprocess.run(
        [sys.executable, "-m", "pyebpf", *arguments], check=False, capture_output=True, text=True, cwd=ROOT, **options
    )
    return done.returncode, done.stdout, done.stderr


def test_version():
    """One line, the version of the project's settings."""
    assert pyebpf_command("--version") == (0, f"pyebpf {__version__}\n", "")


def test_the_version_is_told_without_importing_the_compiler():
    """Nor argparse, nor anything that touches the kernel."""
    script = (
        "import sys; from pyebpf.cli import main; main(['--version'])\n"
        "print(*sorted(m for m in sys.modules if m.startswith('pyebpf.') or m in {'argparse', 'ctypes'}))"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT)
    loaded = set(done.stdout.splitlines()[1].split())
    assert not loaded & {"argparse", "ctypes"}
    assert {name.split(".")[1] for name in loaded if "." in name} <= {"cli", "dataclass", "errors", "lazy", "output"}


def test_list_names_every_tool_with_what_it_does():
    """A line each, for grep and awk."""
    status, out, err = pyebpf_command("list")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == names()
    assert all(len(line.split()) > 1 for line in lines)


def test_list_on_a_terminal():
    """In at most 80 columns; what does not fit goes on in the next line."""
    ours, theirs = os.openpty()
    with subprocess.Popen([sys.executable, "-m", "pyebpf", "list"], stdout=theirs, cwd=ROOT):
        os.close(theirs)
        out = b""
        with suppress(OSError):  # how the end of a terminal reads
            while part := os.read(ours, 1 << 12):
                out += part
    os.close(ours)
    lines = out.decode().splitlines()
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == names()
    assert all(len(line) < 80 for line in lines)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "pyebpf: name a tool, or `list` to see them all; see pyebpf --help"),
        (["no-such-tool"], "pyebpf: there is no tool 'no-such-tool'; see pyebpf list"),
        (["BEGIN { }"], "pyebpf: a script stands behind -e: pyebpf -e 'BEGIN { }'; see pyebpf --help"),
        (["os.path"], "pyebpf: there is no tool 'os.path'; see pyebpf list"),
        (["\x1b[31m"], "pyebpf: there is no tool '\\x1b[31m'; see pyebpf list"),
        (["-x"], "pyebpf: unknown option -x; options of a tool come after its name; see pyebpf --help"),
        (
            ["-q", "--fast", "-"],
            "pyebpf: unknown option --fast; options of a tool come after its name; see pyebpf --help",
        ),
        (["-q"], "pyebpf: -q is an option of scripts: give -e PROGRAM, or - for standard input; see pyebpf --help"),
        (["a.bt"], "pyebpf: write `pyebpf run a.bt`: a script of bpftrace's language is run so; see pyebpf --help"),
        (
            ["-q", "a.bt", "5"],
            "pyebpf: write `pyebpf run -q a.bt 5`: a script of bpftrace's language is run so; see pyebpf --help",
        ),
        (["-e", "--fast"], "pyebpf -e: unknown option --fast; see pyebpf -e --help"),
        (
            ["-e", "BEGIN { }", "--quiet", "--fast"],
            "pyebpf -e: unknown option --fast: -- stands before arguments that begin so; see pyebpf -e --help",
        ),
        (["list", "-v"], "pyebpf list: give a pattern, such as 't:sched:*'; see pyebpf list --help"),
        (["run"], "pyebpf run: name a file; see pyebpf run --help"),
        (["run", "--fast"], "pyebpf run: unknown option --fast; see pyebpf run --help"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(arguments, line):
    """Nothing on standard output."""
    assert pyebpf_command(*arguments) == (2, "", line + "\n")


@pytest.mark.parametrize("command", ["", "list", "doctor", "run", "asm", "disasm", "map", "exec", "flamegraph", "live"])
def test_help_goes_to_standard_output(command):
    """Status 0, at most 80 columns."""
    status, out, err = pyebpf_command(*command.split(), "--help")
    assert (status, err) == (0, "")
    assert out.startswith(f"usage: pyebpf {command}")
    assert all(len(line) <= 80 for line in out.splitlines())


def test_help_names_every_command():
    """Those that are no tools, `help` among them."""
    shown = pyebpf_command("--help")[1]
    assert [each for each in (*COMMANDS, "help") if f" pyebpf {each} " not in shown and each[0] != "-"] == []


def test_a_word_that_nothing_is_about_was_looked_for_among_tools_too():
    """The error says so."""
    status, out, err = pyebpf_command("list", "nosuchword")
    assert (status, out) == (1, "")
    assert err.startswith(
        "pyebpf list: no tool has this word in its name or summary, and nothing in the kernel matches"
    )


def test_help_into_a_closed_pipe_is_quiet():
    """`pyebpf --help | true`."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "pyebpf", "--help"], check=False, stdout=write, stderr=subprocess.PIPE, cwd=ROOT
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def run(tmp_path, source, *arguments, data=None):
    """Run a script through `pyebpf run`; its path in what it prints is replaced by PROG."""
    script = tmp_path / "prog.py"
    script.write_bytes(source if isinstance(source, bytes) else source.encode())
    status, out, err = pyebpf_command("run", str(script) if data is None else "-", *arguments, input=data)
    return status, out.replace(str(script), "PROG"), err.replace(str(script), "PROG")


def test_a_script_runs_as_main_with_its_arguments_and_its_directory(tmp_path):
    """As `python FILE` would run it."""
    (tmp_path / "helper_of_prog.py").write_text("NAME = 'helper'\n")
    source = (
        "import sys, helper_of_prog, __main__\n"
        "here = 7\n"
        "print(__name__, __file__, sys.argv[1:], helper_of_prog.NAME, __main__.here)\n"
    )
    assert run(tmp_path, source, "a", "--help") == (0, "__main__ PROG ['a', '--help'] helper 7\n", "")


@pytest.mark.parametrize("data", [None, "stdin"])
def test_the_source_of_a_scripts_functions_is_known(tmp_path, data):
    """From a file that was deleted meanwhile, and from standard input: probes are compiled from their source."""
    source = (
        "import inspect, linecache, os, sys\n"
        "if os.path.exists(__file__): os.unlink(__file__)\n"
        "def probe():\n    return 23\n"
        "linecache.checkcache()\n"
        "print(inspect.getsource(probe))\n"
    )
    assert run(tmp_path, source, data=data and source) == (0, "def probe():\n    return 23\n\n", "")


@pytest.mark.parametrize("source", ["", " \n"])
def test_a_file_without_a_program_is_an_error(tmp_path, source):
    """As it is for a script of bpftrace's: nothing would have run."""
    status, out, err = run(tmp_path, source)
    assert (status, out) == (1, "")
    assert err.endswith(" is empty: give a program in Python, or a script of bpftrace's in a file FILE.bt\n")


def test_a_scripts_own_exception_shows_its_own_frames(tmp_path):
    """It is its author's to find; pyebpf's frames are left out."""
    status, out, err = run(tmp_path, "def f():\n    return 1 / 0\nf()\n")
    assert (status, out) == (1, "")
    assert err.splitlines()[0] == "Traceback (most recent call last):"
    assert err.splitlines()[-1] == "ZeroDivisionError: division by zero"
    assert 'File "PROG", line 2, in f' in err
    assert "script.py" not in err


def test_pyebpfs_errors_in_a_script_are_one_line_with_its_place(tmp_path):
    """The script's innermost line."""
    source = "from pyebpf.errors import NotFound\ndef f():\n    raise NotFound('no tracepoint a:b')\nf()\n"
    assert run(tmp_path, source) == (1, "", "pyebpf run: PROG:3: no tracepoint a:b\n")


def test_a_compile_error_has_its_place_and_caret(tmp_path):
    """Once, not twice."""
    source = (
        "from pyebpf.errors import CompileError, Location\n"
        "raise CompileError('no lists', Location('p.py', 2, 4, 6, '    []\\n'))\n"
    )
    assert run(tmp_path, source) == (1, "", "pyebpf run: p.py:2: no lists\n    []\n    ^^\n")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = (\n", "pyebpf run: PROG:1: '(' was never closed\n"),
        (b"# coding: no-such\n", "pyebpf run: PROG: unknown encoding"),
        (b"x = '\xff'\n", "pyebpf run: PROG: "),
        (b"x\0y\n", "pyebpf run: PROG: source code string cannot contain null bytes\n"),
    ],
)
def test_a_script_that_is_no_python_is_one_line(tmp_path, source, message):
    """Syntax, encoding, null bytes."""
    status, out, err = run(tmp_path, source)
    assert (status, out) == (1, "")
    assert err.startswith(message)
    assert err.count("\n") == 1


def test_a_scripts_exit_status_is_the_commands(tmp_path):
    """Also with text, as Python's sys.exit has it."""
    assert run(tmp_path, "print('x'); raise SystemExit(7)") == (7, "x\n", "")
    assert run(tmp_path, "raise SystemExit('no')") == (1, "", "no\n")


def test_a_coding_line_and_carriage_returns_are_understood(tmp_path):
    """As Python reads files."""
    assert run(tmp_path, "# coding: latin-1\r\nprint('é')\r\n".encode("latin-1"))[:2] == (0, "é\n")


def test_a_missing_script_is_one_line(tmp_path):
    """With its name."""
    path = tmp_path / "missing.py"
    assert pyebpf_command("run", str(path)) == (1, "", f"pyebpf run: {path}: No such file or directory\n")


def test_what_a_script_printed_last_may_not_fit(tmp_path):
    """A full disk, noticed when the output is flushed at the end: one line."""
    script = tmp_path / "prog.py"
    script.write_text("print('x')\n")
    command = [sys.executable, "-m", "pyebpf", "run", script]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, check=False, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=BUFFERED
        )
    assert (done.returncode, done.stderr) == (1, "pyebpf run: standard output: No space left on device\n")


def test_a_script_whose_reader_goes_away_ends_quietly(tmp_path):
    """`pyebpf run FILE | head`."""
    script = tmp_path / "prog.py"
    script.write_text("while True: print('x' * 1000)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "pyebpf", "run", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=20) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize("command", ["asm", "disasm", "exec", "run"])
def test_a_closed_standard_input(command):
    """`pyebpf asm - <&-` is wrong usage, not an internal error."""
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-m", "pyebpf", command, "-"],
        check=False, capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "pyebpf: standard input is closed: name a file; see pyebpf --help\n"


def test_a_place_in_a_very_long_line(tmp_path):
    """The part around it is shown, with the caret below."""
    file = tmp_path / "long"
    file.write_text(f"r0 = 1\n{'a' * 5000}: mov %r0 {'x' * 5000}")
    status, _, err = pyebpf_command("asm", str(file))
    line, source, caret = err.splitlines()
    assert status == 1
    assert line == f"pyebpf asm: {file}:2:5011: `{'x' * 60}…` cannot stand here: expected `,`"
    assert len(source) < 300
    assert source[caret.index("^")] == "x"
    assert source[caret.index("^") - 1] == " "


@pytest.mark.parametrize("command", [("opensnoop",), ("doctor",), ("disasm",)])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_help_that_cannot_be_written_is_a_failure(command, unbuffered):
    """Also where each write goes to the disk at once, whose failure argparse takes no notice of."""
    environment = {**BUFFERED, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "pyebpf", *command, "--help"],
            check=False, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environment,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, f"pyebpf {command[0]}: standard output: No space left on device\n")


INTERRUPTED = """
import os, signal, sys
from pyebpf.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # who started the tests may ignore it
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            if where == "callback":
                import weakref
                weakref.finalize(type("Passing", (), {})(), os.kill, os.getpid(), signal.SIGINT)
            else:
                os.kill(os.getpid(), signal.SIGINT)
_, module, where, *sys.argv[1:] = sys.argv
sys.meta_path.insert(0, Interrupting())
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("module", "where", "command", "status"),
    [
        ("pyebpf.cli.report", "code", "opensnoop", -signal.SIGINT),
        ("pyebpf.cli.run", "callback", "opensnoop", -signal.SIGINT),
        ("pyebpf.cli.disasm", "code", "disasm", -signal.SIGINT),
        ("pyebpf.cli.report", "code", "doctor", 130),
        ("pyebpf.cli.doctor", "code", "doctor", 130),
    ],
)
def test_ctrl_c_while_it_starts(module, where, command, status):
    """It ends at once without a word, wherever Python is: in an import, or in a callback, where no exception leaves."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module, where, command],
        check=False,
        timeout=60,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert (done.returncode, done.stdout, done.stderr) == (status, "", "")


def test_help_of_a_command():
    """`pyebpf help NAME` is `pyebpf NAME --help`."""
    for name in ("opensnoop", "list", "doctor"):
        assert pyebpf_command("help", name) == pyebpf_command(name, "--help")
    status, _, err = pyebpf_command("help", "zzzzzz")
    assert (status, err) == (2, "pyebpf: there is no tool 'zzzzzz'; see pyebpf list\n")


def test_too_few_descriptors():
    """The limit is named, not the file that was next."""
    error = OSError(errno.EMFILE, os.strerror(errno.EMFILE), "culprit.py")
    assert describe(error) == "Too many open files: raise the limit (ulimit -n)"


@pytest.mark.parametrize("kernel", [(), ("--kernel",)])
@pytest.mark.parametrize("text", ["r1 = map[id:7]", "r1 = map[counts]", "r1 = map[fd:7][0] + 8"])
def test_a_program_with_maps_is_not_run_by_itself(tmp_path, text, kernel):
    """As `pyebpf disasm id N` lists one: `exec` has no maps to give it, and says so before it loads anything."""
    program = tmp_path / "program.s"
    program.write_text(f"{text}\nr0 = 0\nexit\n")
    status, out, err = pyebpf_command("exec", *kernel, str(program))
    assert (status, out) == (1, "")
    assert err.startswith(f"pyebpf exec: {program}:1:1: there are no maps here: ")
