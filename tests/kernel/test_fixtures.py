"""The fixtures that other kernel tests count with do what they promise."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.descriptors import leaked, open_descriptors


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
    """A connection passes between two namespaces joined by a veth pair; the host has no such interface."""
    one, other = make_namespace(), make_namespace()
    one.connect(other)
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
    assert "veth0" not in [name for _, name in socket.if_nameindex()]


def test_a_descriptor_left_open_is_found():
    """The comparison that guards every test names a new descriptor and what it refers to."""
    before = open_descriptors()
    descriptor = os.open("/dev/null", os.O_RDONLY)
    try:
        assert leaked(before, open_descriptors()) == {descriptor: "/dev/null"}
    finally:
        os.close(descriptor)
    assert leaked(before, open_descriptors()) == {}
