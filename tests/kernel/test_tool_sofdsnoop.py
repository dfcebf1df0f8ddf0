"""sofdsnoop: descriptors that this process passes to itself, by their numbers and names."""

from __future__ import annotations

import array
import os
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pyebpf.programs import sofdsnoop
from tests.support.command import running

SO_PASSCRED, SCM_CREDENTIALS = 16, 2
MANY, MOST = 23, 253


@pytest.fixture
def pair():
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def closed(descriptors):
    for each in descriptors:
        os.close(each)


def inode(descriptor):
    return os.fstat(descriptor).st_ino


def test_what_is_passed(pair):
    """A file, a pipe and a socket: a line each when they are sent, and when they are received under new numbers."""
    one, other = pair
    read, write = os.pipe()
    me = str(os.getpid())
    with (
        Path("/etc/passwd").open("rb") as file,
        running("sofdsnoop", "--json", "-p", me) as objects,
        running("sofdsnoop", "-p", me) as text,
    ):
        sent = [file.fileno(), read, other.fileno()]
        socket.send_fds(one, [b"x"], sent)
        _, received, _, _ = socket.recv_fds(other, 9, 5)
        for tool in (objects, text):
            tool.stop()
    names = ["passwd", f"pipe:[{inode(read)}]", f"socket:[{inode(other.fileno())}]"]
    found = objects.objects()
    assert [(each["action"], each["fd"], each["name"]) for each in found] == [
        *(("SEND", number, name) for number, name in zip(sent, names, strict=True)),
        *(("RECV", number, name) for number, name in zip(received, names, strict=True)),
    ]
    assert [(each["socket_fd"], each["socket_inode"]) for each in found] == [
        (end.fileno(), inode(end.fileno())) for end in pair for _ in range(3)
    ]
    assert {(each["pid"], each["tid"]) for each in found} == {(os.getpid(), os.getpid())}
    heading, *lines = text.out.splitlines()
    assert heading.split() == ["ACTION", "TID", "COMM", "SOCKET", "FD", "NAME"]
    assert [line.split()[-3:] for line in lines] == [
        [f"{each['socket_fd']}:socket:[{each['socket_inode']}]", str(each["fd"]), each["name"]] for each in found
    ]
    closed([*received, read, write])


def test_behind_other_control_messages(pair):
    """Descriptors behind credentials, as many as fit in a message, over a datagram socket; nothing of others."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other, Path("/etc/passwd").open("rb") as file, sofdsnoop.open(pid=os.getpid()) as passed:
        other.setsockopt(socket.SOL_SOCKET, SO_PASSCRED, 1)
        credentials = (socket.SOL_SOCKET, SCM_CREDENTIALS, struct.pack("iii", os.getpid(), os.getuid(), os.getgid()))
        one.sendmsg([b"no descriptor"], [credentials])
        other.recvmsg(99, 1000)
        found = []
        for count in (MANY, MOST):
            descriptors = array.array("i", [file.fileno()] * count)
            one.sendmsg([b"x"], [credentials, (socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            _, (_, (_, _, data)), _, _ = other.recvmsg(99, 4000)
            received = array.array("i", data)
            found.append([next(passed) for _ in range(2 * count)])
            closed(received)
            assert [each.fd for each in found[-1]] == [file.fileno()] * count + list(received)
    assert {each.name for each in found[0] + found[1]} == {"passwd"}


def test_what_fails_is_not_reported(pair):
    """A message that was not sent passes nothing, nor does one of TCP; -p of another process leaves all out."""
    one, other = pair
    with (
        Path("/etc/passwd").open("rb") as file,
        sofdsnoop.open(pid=os.getpid()) as passed,
        sofdsnoop.open(pid=1) as none,
    ):
        with pytest.raises(OSError, match="Bad file"):
            socket.send_fds(one, [b"x"], [1 << 20])
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
            client.sendmsg([b"x"])
        socket.send_fds(one, [b"x"], [file.fileno()])
        _, received, _, _ = socket.recv_fds(other, 9, 5)
        assert [next(passed).fd for _ in range(2)] == [file.fileno(), *received]
    assert list(none) == []
    closed(received)


def test_a_thread(pair):
    """-t: only what one thread of the process passes."""
    one, _ = pair
    with ThreadPoolExecutor(1) as worker:
        tid = worker.submit(threading.get_native_id).result()
        with sofdsnoop.open(tid=tid) as records:
            socket.send_fds(one, [b"x"], [0])
            worker.submit(socket.send_fds, one, [b"x"], [1]).result()
            found = records.poll(0)
    assert [(each.tid, each.action, each.fd) for each in found] == [(tid, "SEND", 1)]
