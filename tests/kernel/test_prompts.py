"""Probes that are typed: behind `python -c`, at a prompt, in cells; and what is shown of an error there."""

from __future__ import annotations

import linecache
import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest

from pyebpf.errors import NotLoaded
from tests.support.python import ROOT
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.any_kernel

DECLARED = """\
from pyebpf import BPF, u64
bpf = BPF()
n = bpf.array(value=u64)
@bpf.raw_tracepoint("sys_enter")
def f():
    n[0] += 1

"""
COUNTED = """\
bpf.load()
bpf.attach()
import os
os.getppid()
print("counted", n[0] > 0)
bpf.close()
"""


def python(*arguments, **options):
    return subprocess.run(
        [sys.executable, *arguments],
        check=False, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE, **options,
    )  # fmt: skip


@pytest.mark.parametrize("options", [["-c"], ["-Bc"], ["-W", "error", "-Xutf8", "-c"], ["-X", "dev", "-Werror", "-c"]])
def test_behind_c(options):
    """The text is found among the interpreter's arguments, with whatever options before it."""
    done = python(*options, DECLARED + COUNTED, "-c", "an argument")
    assert (done.returncode, done.stdout, done.stderr) == (0, "counted True\n", "")


def test_behind_c_with_several_functions():
    """Each is found at its line; two of one name, too."""
    text = DECLARED.replace("n[0] += 1", "n[0] += helper(1)") + COUNTED
    done = python("-c", "def helper(x):\n    return x - 1\ndef helper(x):\n    return x\n" + text)
    assert (done.returncode, done.stdout, done.stderr) == (0, "counted True\n", "")


def test_at_the_prompt():
    """Typed line by line at a terminal: found in the line editor's history."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        # The prompt without colours and key bindings, where there are two.
        environment = os.environ | {"PYTHON_BASIC_REPL": "1", "TERM": "dumb", "PYTHONSTARTUP": ""}
        os.execve(sys.executable, [sys.executable, "-q"], environment)
    try:
        said = ""
        for line in [*(DECLARED + COUNTED + "n[0]").splitlines(), "exit()"]:
            said += until_prompt(terminal)
            os.write(terminal, f"{line}\n".encode())
        said += until_prompt(terminal, last=True)
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
    assert "counted True" in said
    end = said.replace("\r", "").partition("Traceback")[2]
    assert "NotLoaded: map n is not loaded" in end
    assert "pyebpf/dsl" not in end


def until_prompt(terminal, *, last=False):
    """What is written until the next prompt, or the end."""
    said, deadline = "", time.monotonic() + PATIENCE
    while last or not said.endswith((">>> ", "... ")):
        assert time.monotonic() < deadline, said
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                piece = os.read(terminal, 1 << 16)
            except OSError:  # EIO: it has ended
                return said
            said += piece.decode()
            if not piece:
                return said
    return said


def test_where_nothing_keeps_what_was_typed():
    """One line that says what to do."""
    done = python("-", input=DECLARED + COUNTED)
    assert done.returncode == 1
    assert re.search(
        r"^pyebpf.errors.CompileError: <stdin>:\d: the source of f cannot be read \(<stdin>\): put it in a file and "
        r"use `pyebpf run FILE`, or give its text to `bpf.define\(text\)`$",
        done.stderr,
        re.MULTILINE,
    )


SCRIPT = """\
import contextlib, sys, threading
from pyebpf import BPF, u64
from pyebpf.programs import opensnoop

bpf = BPF()
n = bpf.array(value=u64)


@bpf.raw_tracepoint("sys_enter")
def f():
    n[1] += 1


def compiled():
    with bpf:
        pass


def read():
    return n[0]


def tool():
    with opensnoop.open(pid=0):
        pass


def thread():
    made = threading.Thread(target=read)
    made.start()
    made.join()


def mine():
    return 1 / 0


def caused():
    try:
        read()
    except Exception as error:
        raise RuntimeError("mine") from error


globals()[sys.argv[1]]()
"""


@pytest.mark.parametrize(
    ("name", "functions", "last"),
    [
        ("compiled", ["<module>", "compiled"], "    ^^^^^^^^^"),
        (
            "read",
            ["<module>", "read"],
            "pyebpf.errors.NotLoaded: map (unnamed) is not loaded: read and write it inside",
        ),
        ("tool", ["<module>", "tool"], "pyebpf.errors.InvalidValue: pid: 0 is below 1"),
        ("thread", ["_bootstrap_inner", "run", "read"], "pyebpf.errors.NotLoaded: map (unnamed) is not loaded"),
        ("mine", ["<module>", "mine"], "ZeroDivisionError: division by zero"),
        ("caused", ["caused", "read", "<module>", "caused"], "RuntimeError: mine"),
    ],
)
def test_a_traceback_ends_at_the_users_line(tmp_path, name, functions, last):
    """As a script, and by `pyebpf run` where that shows one; all frames are there when asked for."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = python(str(script), name)
    assert re.findall(r'^  File ".*", line \d+, in (\S+)', done.stderr, re.MULTILINE) == functions
    assert done.stderr.splitlines()[-1].startswith(last)
    assert "direct cause" in done.stderr or name != "caused"
    whole = python(str(script), name, env=os.environ | {"PYEBPF_TRACEBACK": "1"})
    assert ("/pyebpf/" in whole.stderr) is (name != "mine")
    if name == "mine":
        assert whole.stderr == done.stderr


CHAINED = """\
import os
from pyebpf import BPF

bpf = BPF()


@bpf.cgroup_skb_egress({place!r})
def out() -> int:
    return 1


def attached():
    with bpf:
        pass


def handled():
    try:
        {{}}["absent"]
    except KeyError:
        attached()


def raised():
    raise RuntimeError("mine") from ValueError("theirs")


{name}()
"""


@pytest.mark.parametrize("name", ["attached", "handled", "raised"])
def test_the_kernels_errno_is_not_shown_above_what_it_means(tmp_path, name):
    """An OSError inside the package says less than the message made of it; exceptions of the user's own are shown."""
    script = tmp_path / "script.py"
    script.write_text(CHAINED.format(place=str(tmp_path), name=name))
    done = python(str(script))
    lines = [line for line in done.stderr.splitlines() if re.match(r"[A-Za-z_.]+(Error|NotFound|NotPermitted)\b", line)]
    expected = {"attached": [], "handled": ["KeyError: 'absent'"], "raised": ["ValueError: theirs"]}[name]
    assert lines[:-1] == expected
    assert lines[-1].startswith("RuntimeError: mine" if name == "raised" else "pyebpf.errors.Not")
    assert ("During handling" in done.stderr) is (name == "handled")
    whole = python(str(script), env=os.environ | {"PYEBPF_TRACEBACK": "1"})
    assert ("OSError" in whole.stderr) is (name != "raised")


def test_a_fault_of_the_package_says_how_to_see_it(tmp_path):
    """An error that is none of its own ends at the user's line as well, with a line on the rest."""
    script = tmp_path / "script.py"
    script.write_text("from pyebpf import BPF\nfrom pyebpf.output import histogram\nhistogram.log2(None)\n")
    done = python(str(script))
    assert "/pyebpf/" not in done.stderr
    assert done.stderr.splitlines()[-1] == "(in pyebpf: PYEBPF_TRACEBACK=1 in the environment shows where)"


def test_in_ipython(monkeypatch):
    """A handler for what cells raise is registered once, unless there is one, and shows the pruned traceback."""
    shown = []

    class Shell:
        custom_exceptions = ()

        def set_custom_exc(self, kinds, handler):
            assert self.custom_exceptions == ()
            self.custom_exceptions, self.handler = kinds, handler

        def showtraceback(self, information, *, tb_offset, running_compiled_code):
            shown.append((information, tb_offset, running_compiled_code))

    from pyebpf import BPF, tracebacks, u64

    shell = Shell()
    module = type(sys)("IPython")
    module.get_ipython = lambda: shell
    monkeypatch.setitem(sys.modules, "IPython", module)
    tracebacks.install()
    tracebacks.install()
    with pytest.raises(NotLoaded) as caught:
        BPF().array(value=u64)[0]
    error = caught.value
    shell.handler(shell, type(error), error, error.__traceback__, tb_offset=1)
    ((kind, value, traceback), offset, compiled), *more = shown
    assert (kind, value, offset, compiled, more) == (NotLoaded, error, 1, True, [])
    assert traceback.tb_next is None
    assert traceback.tb_frame.f_code.co_name == "test_in_ipython"


def test_the_pages_cells():
    """Each block of docs/prompt.md is a cell, with its source where IPython keeps it; in order they do what it says."""
    cells = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs/prompt.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert len(cells) == 5
    names = {"__name__": "__main__", "time": time}
    try:
        for number, text in enumerate(cells):
            file = f"<ipython-input-{number}>"
            linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
            exec(compile(text.replace("time.sleep(1)", "open('/dev/null').close()"), file, "exec"), names)
            if number == 2:
                os.close(os.open("/dev/null", os.O_RDONLY))
                assert sum(names["opens"].values()) > 0
        with pytest.raises(NotLoaded):
            dict(names["opens"])
        names["bpf"].close()  # safe to run at any time
    finally:
        names["bpf"].close()
