"""The fixtures that other kernel tests count with do what they promise."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.descriptors import leaked, mounts, of_others, open_descriptors
from tests.support.needs import needs
from tests.support.session import MARK
from tests.support.traffic import inside


def _requests(name: str) -> tuple[int, int]:
    # Documentation/block/stat.rst: read I/Os are the first field, write I/Os the fifth
    fields = Path(f"/sys/block/{name}/stat").read_text().split()
    return int(fields[0]), int(fields[4])


def test_a_read_of_a_loop_device_is_one_request(make_loop_device):
    """17 reads and 13 writes are 17 and 13 requests of the devices asked, none merged, none added."""
    one, other = make_loop_device(), make_loop_device()
    assert one.name != other.name
    before = _requests(one.name), _requests(other.name)
    one.read(17)
    other.write(13)
    after = _requests(one.name), _requests(other.name)
    assert (after[0][0] - before[0][0], after[0][1] - before[0][1]) == (17, 0)
    assert (after[1][0] - before[1][0], after[1][1] - before[1][1]) == (0, 13)


def test_a_loop_device_lets_its_file_go(loop, tmp_path):
    """The fixture's device has the major number of loop devices and a backing file in the test's folder."""
    assert loop.numbers[0] == 7
    backing = Path(f"/sys/block/{loop.name}/loop/backing_file").read_text().strip()
    assert Path(backing).parent == tmp_path.resolve()


def test_two_namespaces_reach_each_other_and_nobody_else(make_namespace):
    """A connection passes between two namespaces joined by a veth pair; who joined them has no such interface."""
    one, other, third = make_namespace(), make_namespace(), make_namespace()
    with inside(third):
        one.connect(other)
        assert [name for _, name in socket.if_nameindex()] == ["lo"]
    server = (
        "import socket; s = socket.create_server(('10.251.0.2', 7919)); print('ready', flush=True); "
        "s.accept()[0].send(b'hello')"
    )
    client = "import socket; print(socket.create_connection(('10.251.0.2', 7919)).recv(5).decode())"
    python = (sys.executable, "-I", "-W", "ignore", "-c")
    with subprocess.Popen(other.inside(*python, server), stdout=subprocess.PIPE, text=True) as listening:
        assert listening.stdout is not None
        assert listening.stdout.readline() == "ready\n"
        assert one.run(*python, client) == "hello\n"


def test_mounts_are_the_tests_own(tmp_path):
    """A mount of somebody else's is not seen, and one of a test is, by it and by what it starts."""
    needs("user:root")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").mkdir()
    outside = f"/proc/{os.getppid()}/ns/mnt"  # of who started the tests
    if Path(outside).readlink() != Path("/proc/self/ns/mnt").readlink():
        theirs = ["nsenter", f"--mount={outside}", "--", "sh", "-c"]
        made = subprocess.run([*theirs, f"mount -t tmpfs none {tmp_path}/theirs"], check=False)
        try:
            assert str(tmp_path / "theirs") not in "".join(mounts())
        finally:
            if made.returncode == 0:
                subprocess.run([*theirs, f"umount {tmp_path}/theirs"], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", tmp_path / "ours"], check=True)
    try:
        assert str(tmp_path / "ours") in "".join(mounts())
    finally:
        subprocess.run(["umount", tmp_path / "ours"], check=True)


def test_what_others_hold_is_told_apart():
    """A map of a process without the tests' mark in its environment is another's; this process's are not."""
    code = "import sys; from pyebpf.kernel.bpf import map_create; from pyebpf.kernel.info import map_info\n"
    code += "m = map_create(2, 4, 4, 1); print(map_info(m.fileno()).id, flush=True); sys.stdin.read(); m.close()"
    name = MARK.partition("=")[0]
    assert MARK.partition("=")[2] == os.environ[name]
    for marked in (True, False):
        environment = {key: value for key, value in os.environ.items() if marked or key != name}
        with subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            number = int(process.stdout.readline())
            assert (("map", number) in of_others(MARK)) is not marked
            process.stdin.close()


def test_a_descriptor_left_open_is_found():
    """The comparison that guards every test names a new descriptor and what it refers to."""
    before = open_descriptors()
    descriptor = os.open("/dev/null", os.O_RDONLY)
    try:
        assert leaked(before, open_descriptors()) == {descriptor: "/dev/null"}
    finally:
        os.close(descriptor)
    assert leaked(before, open_descriptors()) == {}
