"""struct_ops: a TCP congestion control in Python carries a transfer, every byte of it counted."""

from __future__ import annotations

import errno
import hashlib
import re
import socket
import subprocess
import sys
import threading

import pytest

from pyebpf import BPF, CompileError, InvalidValue, KernelError, NotFound, VerifierError, u64
from pyebpf.target import RecordedTarget
from tests.support.waiting import PATIENCE, wait_until

SIZE = 1_299_709  # bytes of a transfer: a prime
CALLS, ACKED, PACKETS = 0, 1, 2


def congestion_control(name="py_test"):
    """A module with one, and its counts: sockets begun and ended, bytes acknowledged, packets seen."""
    bpf = BPF()
    counts = bpf.array(value=u64, size=4)
    table = bpf.struct_ops("tcp_congestion_ops", name=name)

    @table.member
    def init(sk):
        counts[CALLS] += 1

    @table.member
    def ssthresh(sk):
        return max(sk.snd_cwnd >> 1, 2)

    @table.member
    def cong_avoid(sk, ack, acked):
        counts[PACKETS] += acked
        sk.snd_cwnd = min(sk.snd_cwnd + acked, 64)

    @table.member
    def undo_cwnd(sk):
        return max(sk.snd_cwnd, sk.prior_cwnd)

    @table.member
    def release(sk):
        counts[ACKED] += sk.bytes_acked
        counts[CALLS] += 1 << 32

    return bpf, counts


def choose(connection, name):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())


def transfer(name):
    """Send SIZE bytes over loopback under a congestion control: the digests of both ends."""
    payload = bytes(range(251)) * (SIZE // 251 + 1)
    payload = payload[:SIZE]
    received = hashlib.sha256()

    def receive(connection):
        with connection:
            while data := connection.recv(1 << 16):
                received.update(data)

    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as sender:
        if name:
            choose(sender, name)
        sender.settimeout(PATIENCE)
        sender.connect(server.getsockname())
        reader = threading.Thread(target=receive, args=(server.accept()[0],))
        reader.start()
        sender.sendall(payload)
        sender.shutdown(socket.SHUT_WR)
        reader.join(PATIENCE)
    return hashlib.sha256(payload).digest(), received.digest()


def registered(name):
    """Whether a socket may choose it."""
    with socket.socket() as asked:
        try:
            choose(asked, name)
        except FileNotFoundError:
            return False
        return True


@pytest.mark.every_kernel
def test_a_transfer():
    """Each byte arrives, and is counted as acknowledged, with one for SYN and one for FIN; then the name is gone."""
    bpf, counts = congestion_control()
    assert not registered("py_test")
    with bpf:
        sent, received = transfer("py_test")
        assert sent == received
        wait_until(lambda: counts[CALLS] == 1 << 32 | 1)
        assert counts[ACKED] == SIZE + 2
        assert counts[PACKETS] > 0
        before = dict(counts.items())
        sent, received = transfer("")  # of others it sees nothing
        assert sent == received
        assert dict(counts.items()) == before
        (line,) = bpf.attachments
        assert re.fullmatch(r"init: struct_ops tcp_congestion_ops, by struct_ops (link|map)", line)
        bpf.detach()
        assert not registered("py_test")
        assert dict(counts.items()) == before
    assert not registered("py_test")


def test_a_socket_outlives_the_table():
    """A socket keeps the control that it began with, until it closes."""
    bpf, counts = congestion_control("py_outlived")
    with bpf, socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as sender:
        choose(sender, "py_outlived")
        sender.connect(server.getsockname())
        with server.accept()[0] as peer:
            bpf.detach()
            assert not registered("py_outlived")
            sender.sendall(b"17 bytes are sent")
            assert peer.recv(100) == b"17 bytes are sent"
        sender.close()
        wait_until(lambda: counts[ACKED] != 0)
        assert counts[ACKED] in (17 + 1, 17 + 2)


def refused(operations, define, error, pattern, **values):
    bpf = BPF()
    define(bpf.struct_ops(operations, **values))
    with pytest.raises(error, match=pattern) as caught, bpf:
        pytest.fail("it was registered")
    return caught.value


def test_refusals():
    """No such table, no such member, no such argument, no value, a name too long, a table that lacks functions."""

    def ssthresh(sk):
        return 2

    def define(*functions):
        return lambda table: [table.member(function) for function in functions]

    refused("tcp_congestion_op", define(ssthresh), NotFound, "^this kernel has no struct_ops 'tcp_congestion_op'")

    def sstresh(sk):
        return 2

    refused(
        "tcp_congestion_ops",
        define(sstresh),
        NotFound,
        r"^struct tcp_congestion_ops has no member 'sstresh' \(did you mean ssthresh\?\)",
    )

    def key(sk):
        pass

    refused("tcp_congestion_ops", define(key), NotFound, "^key of struct tcp_congestion_ops is not a function but a")

    def undo_cwnd(sk, more):
        return 2

    refused(
        "tcp_congestion_ops",
        define(undo_cwnd),
        CompileError,
        r"struct_ops tcp_congestion_ops\.undo_cwnd is called with 1 arguments, not more: struct sock \*",
    )

    def silent():
        def ssthresh(sk):
            pass

        return ssthresh

    refused(
        "tcp_congestion_ops", define(silent()), CompileError, "every path of a program of this type returns a value"
    )

    def negative():
        def ssthresh(sk):
            return -1

        return ssthresh

    refused("tcp_congestion_ops", define(negative()), CompileError, "returns unsigned int, which -1 does not fit")
    refused("tcp_congestion_ops", define(ssthresh), InvalidValue, "at most 15 fit", name="a name of 16 byt")
    refused("tcp_congestion_ops", define(ssthresh), InvalidValue, "does not fit 4 bytes", name="py_x", flags=1 << 32)
    refused("tcp_congestion_ops", define(ssthresh), NotFound, "has no member 'flag'", name="py_x", flag=1)
    lacking = refused("tcp_congestion_ops", define(ssthresh), KernelError, "the kernel wants more members", name="py_x")
    assert lacking.errno == errno.EINVAL

    def write():
        def ssthresh(sk):
            sk.srtt_us = 1
            return 2

        return ssthresh

    refused("tcp_congestion_ops", define(write()), VerifierError, "tcp_sock")

    def twice(table):
        table.member(ssthresh)
        with pytest.raises(InvalidValue, match="has its ssthresh already"):
            table.member(ssthresh)

    twice(BPF().struct_ops("tcp_congestion_ops"))
    first, _ = congestion_control("py_taken")
    second, _ = congestion_control("py_taken")
    with first, pytest.raises(KernelError, match="one of that name is registered already") as caught, second:
        pytest.fail("it was registered")
    assert caught.value.errno == errno.EEXIST


def test_killed():
    """A process that is killed takes its table with it."""
    script = """
import os, sys, time
sys.path.insert(0, ".")
from tests.kernel.test_struct_ops import congestion_control
with congestion_control("py_killed")[0]:
    print("registered", flush=True)
    time.sleep(100)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "registered\n"
            assert registered("py_killed")
        finally:
            process.kill()
    wait_until(lambda: not registered("py_killed"))


def test_compiled_from_recorded_facts():
    """What the kernel was asked while compiling gives the same programs without it: members, prototypes, ids."""
    bpf, _ = congestion_control()
    assert bpf.specs(RecordedTarget.from_json(bpf.facts())).programs == bpf.specs().programs
