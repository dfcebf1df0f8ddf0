"""statsnoop: calls of each kind that this process makes, with what the kernel answered it."""

from __future__ import annotations

import ctypes
import os

import pytest

from pyebpf import errno_name
from pyebpf.programs import statsnoop
from tests.support.command import running

#: statx(2), and stat(2) and lstat(2), which the C library calls no more; arm64 never had these.
STATX, *OLD = {"x86_64": (332, 4, 6), "aarch64": (291,)}[os.uname().machine]
LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100


def asked(function, *arguments, **options):
    """Call, and tell the error's name, None without one."""
    try:
        function(*arguments, **options)
    except OSError as error:
        return errno_name(error.errno)
    return None


def by_number(number, *arguments):
    """A system call by its number: the error's name."""
    ctypes.set_errno(0)
    failed = LIBC.syscall(number, *arguments, ctypes.create_string_buffer(256)) < 0
    return errno_name(ctypes.get_errno()) if failed else None


@pytest.fixture
def calls(tmp_path):
    """Calls, each made once when it is called: the path, the directory's descriptor and the error's name."""
    there, missing, below = (str(tmp_path / name) for name in ("there", "missing", "there/below"))
    (tmp_path / "there").write_text("x")

    def make():
        directory = os.open(tmp_path, os.O_RDONLY)
        empty = (0, 0xFFF)
        made = [
            (there, None, asked(os.stat, there)),
            (missing, None, asked(os.stat, missing)),
            (below, None, asked(os.lstat, below)),
            ("there", directory, asked(os.stat, "there", dir_fd=directory)),
            ("absent", directory, asked(os.stat, "absent", dir_fd=directory, follow_symlinks=False)),
            (str(tmp_path), None, asked(os.statvfs, tmp_path)),
            (missing, None, asked(os.statvfs, missing)),
            (there, None, by_number(STATX, AT_FDCWD, os.fsencode(there), *empty)),
            ("absent", directory, by_number(STATX, directory, b"absent", *empty)),
            *((path, None, by_number(number, os.fsencode(path))) for number in OLD for path in (there, missing)),
        ]
        os.fstat(directory)
        os.close(directory)
        return made

    return make


def mine(found, tmp_path):
    """Those of the test's own paths: Python looks for modules meanwhile."""
    return [each for each in found if each[0].startswith(str(tmp_path)) or each[0] in ("there", "absent")]


def test_each_call(calls, tmp_path):
    """The path, the directory and the error of each, as text and as JSON; fstat(3) is none of them."""
    ours = ("statsnoop", "-p", str(os.getpid()))
    with running(*ours, "--json") as objects, running(*ours) as text:
        made = calls()
        for tool in (objects, text):
            tool.stop()
    assert {error for *_, error in made} == {None, "ENOENT", "ENOTDIR"}
    found = [(each["path"], each["directory_fd"], each["error"]) for each in objects.objects()]
    assert mine(found, tmp_path) == made
    assert not [path for path, *_ in found if not path]
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["PID", "COMM", "FD", "ERR", "PATH"]
    shown = [(line.split()[-1], *line.split()[-3:-1]) for line in lines]
    numbers = {None: ("0", "0"), "ENOENT": ("-1", "2"), "ENOTDIR": ("-1", "20")}
    assert mine(shown, tmp_path) == [(path, *numbers[error]) for path, _, error in made]


def test_the_name_of_the_call(calls, tmp_path):
    """statfs(2), statx(2), and where there are stat(2) and lstat(2), by their own names; -s prints them."""
    ours = ("statsnoop", "-p", str(os.getpid()))
    with running(*ours, "--json") as objects, running(*ours, "-s") as text:
        calls()
        for tool in (objects, text):
            tool.stop()
    found = [(each["path"], each["syscall"]) for each in objects.objects()]
    names = [name for _, name in mine(found, tmp_path)]
    assert names[5:] == ["statfs"] * 2 + ["statx"] * 2 + [name for name in ("stat", "lstat")[: len(OLD)] for _ in "12"]
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["PID", "COMM", "FD", "ERR", "SYSCALL", "PATH"]
    assert [name for _, name in mine([line.split()[:-3:-1] for line in lines], tmp_path)] == names


def test_failures(calls, tmp_path):
    """-x keeps those that failed."""
    with statsnoop.open(pid=os.getpid(), failed=True) as failures:
        made = calls()
        found = [(each.path, each.directory_fd, each.error) for each in failures.poll(1)]
    assert mine(found, tmp_path) == [each for each in made if each[2]]
