"""User ring buffers in programs written in Python: probes take out what user space sent."""

from __future__ import annotations

import pytest

from pyebpf import BPF, CompileError, Struct, char, field, u32, u64
from tests.support.needs import needs
from tests.support.simulated import simulated
from tests.support.system_calls import GETPGID, NO_PROCESS, getpgid


class Request(Struct):
    key: u32
    amount: u64
    name: str = field(char[8])


class Answer(Struct):
    pid: u32
    amount: u64
    name: str = field(char[8])


@pytest.fixture(autouse=True)
def has_user_rings():
    needs("helper:user_ringbuf_drain@tracepoint")


def server() -> BPF:
    """Amounts are added up by key; the key 0 stops; what is named "send" comes back."""
    bpf = BPF()
    requests = bpf.user_ringbuf(Request, size=4096, name="requests")
    sums = bpf.hash(key=u32, value=u64, name="sums")
    calls = bpf.array(value=u64, size=3, name="calls")
    answers = bpf.ringbuf(Answer, name="answers")

    def handle(request: Request) -> bool:
        calls[1] += 1
        if request.key == 0:
            return True
        if request.name == "send":
            answers.emit(Answer(pid=request.key, amount=request.amount, name=request.name))
        sums[request.key] += request.amount
        return False

    @bpf.tracepoint("syscalls:sys_enter_getpgid")
    def enter(pid: int) -> None:
        if pid >= NO_PROCESS:
            calls[0] += 1
            taken = requests.drain(handle)
            if taken > 0:
                calls[2] += u64(taken)

    return bpf


def sent(bpf: BPF) -> None:
    requests = bpf["requests"]
    for number in range(1, 12):
        assert requests.send(Request(number % 3 + 1, 100 * number, "send" if number == 5 else "add"))
    assert requests.waiting == 11 * 32


def expected(bpf: BPF) -> None:
    assert dict(bpf["sums"].items()) == {1: 1800, 2: 2200, 3: 2600}
    assert [(a.pid, a.amount, a.name) for a in bpf["answers"].poll()] == [(3, 500, "send")]
    assert list(bpf["calls"].values()) == [1, 11, 11]
    assert bpf["requests"].waiting == 0


def test_each_record_reaches_the_handler_once():
    """With all its fields; maps and ring buffers work in it, and True ends it."""
    bpf = server()
    with bpf:
        sent(bpf)
        getpgid(1)
        expected(bpf)
        requests = bpf["requests"]
        for key in (1, 0, 2):
            requests.send(Request(key, 1, ""))
        getpgid(1)
        assert list(bpf["calls"].values()) == [2, 13, 13]
        assert requests.waiting == 32
        getpgid(1)
        assert bpf["sums"][2] == 2201
        assert not bpf.dropped


def test_the_interpreter_agrees():
    """The same program, the same sums."""
    bpf = server()
    with simulated(bpf) as kernel:
        sent(bpf)
        kernel.tracepoint("syscalls:sys_enter_getpgid", pid=NO_PROCESS)
        expected(bpf)


def test_a_full_buffer_is_drained_again_and_again():
    """1,009 records through a page; what has no room waits."""
    bpf = server()
    with bpf:
        requests = bpf["requests"]
        for _ in range(1009):
            while not requests.send(Request(7, 3, "x")):
                getpgid(1)
        getpgid(1)
        assert bpf["sums"][7] == 3027
        assert bpf["calls"][1] == bpf["calls"][2] == 1009


def test_the_context_goes_along():
    """A handler may use what needs it: a perf buffer's output, the process's own numbers."""
    bpf = BPF()
    requests = bpf.user_ringbuf(Request, name="requests")
    answers = bpf.perf_buffer(Answer, name="answers")

    def handle(request: Request) -> None:
        answers.emit(Answer(pid=request.key, amount=request.amount + 1, name="back"))

    @bpf.raw_tracepoint("sys_enter")
    def enter(id) -> None:  # noqa: A002 - the tracepoint's name
        if id == GETPGID:
            requests.drain(handle)

    with bpf:
        for number in range(13):
            requests.send(Request(number, number, "there"))
        getpgid(1)
        assert [(a.pid, a.amount, a.name) for a in answers.poll(1)] == [(n, n + 1, "back") for n in range(13)]


def test_records_that_are_too_short_are_counted(monkeypatch):
    """Another sender may not know the type."""
    bpf = server()
    with bpf:
        monkeypatch.setattr(bpf["requests"].store, "_record", None)
        bpf["requests"].send(bytes(9))
        getpgid(1)
        assert bpf.dropped == {"requests: record from user space too short": 1}


def test_handlers_are_functions_of_one_record():
    """With the fix."""
    bpf = BPF()
    requests = bpf.user_ringbuf(Request, name="requests")

    def refused(function: object, message: str) -> None:
        bpf.probes.clear()
        bpf.tracepoint("syscalls:sys_enter_getpgid")(function)
        with pytest.raises(CompileError, match=message):
            bpf.specs()

    def two(first: Request, second: Request) -> None:
        return

    def number(request: Request) -> int:
        return 5

    def no_function() -> None:
        requests.drain(5)

    def with_two() -> None:
        requests.drain(two)

    def with_number() -> None:
        requests.drain(number)

    refused(no_function, r"requests\.drain\(…\) takes a function of one record, not 5")
    refused(with_two, r"two: a handler of requests\.drain\(\) takes 1 arguments, not 2")
    refused(with_number, "returns nothing, or True to stop")
