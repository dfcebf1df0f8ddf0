"""Functions by pattern, variants that the compiler made, and what takes no program: counted exactly or told why not."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyebpf import BPF, NotSupported, PyebpfError, VerifierError, function_ip, pid, s64, u64
from pyebpf.arch import host
from pyebpf.btf import Kind
from pyebpf.features import Features
from pyebpf.kernel.functions import Traceable
from pyebpf.kernel.tracefs import Tracefs
from pyebpf.runtime.host import kernel_btf
from tests.support.needs import needs, unless

if TYPE_CHECKING:
    from collections.abc import Callable

libc = ctypes.CDLL(None, use_errno=True)
ME = os.getpid()
IPC_INFO = 3
#: More functions than are worth an event of the PMU each: the system calls on message queues, semaphores, memory.
SYSTEM_CALLS = f"{host().call_prefix}[ms][hes][gm]*"


def semaphore_limits(times: int) -> None:
    """semctl(0, 0, IPC_INFO), which asks for limits and touches no semaphore."""
    room = ctypes.create_string_buffer(256)
    for _ in range(times):
        assert libc.semctl(0, 0, IPC_INFO, room) >= 0


def memory_of_nobody(times: int) -> None:
    """process_vm_readv() from a process that does not exist, of one byte."""
    room = ctypes.create_string_buffer(1)
    piece = (ctypes.c_uint64 * 2)(ctypes.addressof(room), 1)
    for _ in range(times):
        assert libc.process_vm_readv(1 << 22, piece, 1, piece, 1, 0) == -1
        assert ctypes.get_errno() == errno.ESRCH


def adjusted(times: int) -> None:
    """A write of what is there already to oom_score_adj."""
    value = Path("/proc/self/oom_score_adj").read_text()
    file = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    for _ in range(times):
        os.write(file, value.encode())
    os.close(file)


#: What compilers have made variants of, and what runs each of these once.
WORK: dict[str, Callable[[int], None]] = {
    "__set_oom_adj": adjusted,
    "process_vm_rw_core": memory_of_nobody,
    "ksys_semctl": semaphore_limits,
    "semctl_info": semaphore_limits,
}


def variants(kind: str) -> list[str]:
    """Names of functions in WORK that this kernel has such a variant of."""
    with Path("/proc/kallsyms").open() as lines:
        names = {line.split()[2] for line in lines if f".{kind}." in line and line.split()[1] in "tT"}
    return sorted(name for name in names if name.partition(".")[0] in WORK and not name.endswith(".cold"))


@pytest.mark.parametrize("kind", ["isra", "constprop"])
@pytest.mark.parametrize("how", ["kprobe", "kretprobe", "kprobe_multi", "function"])
def test_variants_are_counted(kind: str, how: str) -> None:
    """23 calls of name.isra.0 and of name.constprop.0, by their full names; 7 more that nobody counts."""
    needs("attach:kprobe_multi" if how == "kprobe_multi" else "attach:kprobe")
    found = variants(kind)
    unless(found, f"function:*.{kind}.*")
    bpf = BPF()
    counts = bpf.array(value=u64)

    @getattr(bpf, how)(found[0])
    def on_call() -> None:
        if pid() == ME:
            counts[0] += 1

    work = WORK[found[0].partition(".")[0]]
    with bpf:
        work(23)
        bpf.detach()
        work(7)
        assert counts[0] == 23


@pytest.mark.parametrize("how", ["kprobe", "kretprobe", "kprobe_multi", "kretprobe_multi"])
def test_a_pattern_counts_each_function_and_says_that_it_takes_time(how: str) -> None:
    """A dozen functions and more: 17 calls of one under its name; no event of tracefs stays; progress is reported."""
    needs(f"attach:{'kprobe_multi' if 'multi' in how else 'kprobe'}")
    if how != "kprobe":
        needs("helper:get_func_ip@kprobe")
    bpf = BPF()
    calls = bpf.hash(key=u64, value=u64)
    lines: list[str] = []
    bpf.progress = lines.append

    @getattr(bpf, how)(SYSTEM_CALLS)
    def on_call() -> None:
        if pid() == ME:
            calls[function_ip()] += 1

    def named() -> dict[str, int]:
        return {bpf.function_name(address): count for address, count in calls.items()}

    with bpf:
        (attachment,) = bpf.attachments
        semaphore_limits(17)
        assert named()[f"{host().call_prefix}semctl"] == 17
        bpf.detach()
        semaphore_limits(5)
        assert named()[f"{host().call_prefix}semctl"] == 17
    slow = attachment.endswith("by kprobe_events")
    assert slow == ("multi" not in how)
    assert [line.partition(" ")[0] for line in lines] == (["Attaching", "Detaching"] if slow else [])
    assert all(line.endswith(": this kernel takes its time...") for line in lines)
    with Tracefs() as tracefs:
        assert f"pyebpf_{ME}_".encode() not in tracefs.read_top("kprobe_events")


def test_arguments_on_the_stack() -> None:
    """Ten, six of them in registers: by trampoline where it does for so many (Linux 6.3), else by kprobe."""
    needs("attach:kprobe", "function:ip_make_skb")
    bpf = BPF()
    lengths = bpf.hash(key=s64, value=u64)

    @bpf.function("ip_make_skb")
    def on_send(length: int, flags: int) -> None:
        if pid() == ME and flags & socket.MSG_DONTWAIT:
            lengths[length] += 1

    with bpf, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for size in range(17):
            sender.sendto(bytes(size), socket.MSG_DONTWAIT, ("127.0.0.1", 9))
        (choice,) = bpf.choices
        assert choice.candidate == "fentry" or choice.rejected[0][0] == "fentry"
        reasons = ("its 10 arguments are more than trampolines pass on", "this kernel has no trampolines for programs")
        assert choice.candidate == "fentry" or any(reason in choice.rejected[0][1] for reason in reasons)
        bpf.detach()
        sender.sendto(b"", socket.MSG_DONTWAIT, ("127.0.0.1", 9))
        assert dict(lengths.items()) == {8 + size: 1 for size in range(17)}  # with UDP's header


# -- refusals ----------------------------------------------------------------------------------------------------------


def refusal(bpf: BPF, kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught, bpf:
        pass
    return str(caught.value)


def test_a_function_that_no_program_may_decide_is_refused_by_name() -> None:
    """fmod_ret is for security hooks and the list of error injection."""
    needs("attach:fmod_ret")
    bpf = BPF()

    @bpf.fmod_ret("shmem_file_llseek")
    def decide() -> int:
        return 0

    first, *source = refusal(bpf, VerifierError).splitlines()
    assert "shmem_file_llseek() is not modifiable: fmod_ret is for security_* functions" in first
    assert len(source) == 2


def test_a_trampoline_takes_no_function_of_variable_arguments() -> None:
    """@bpf.function goes on to the next candidate, with the reason; fentry alone is refused."""
    needs("attach:fentry", "attach:kprobe")
    bpf = BPF()

    @bpf.fentry("seq_printf")
    def alone() -> None:
        pass

    assert "trampolines do not support functions with variable arguments: use @bpf.kprobe" in refusal(bpf, NotSupported)
    bpf = BPF()

    @bpf.function("seq_printf")
    def one_way() -> None:
        pass

    with bpf:
        assert bpf.choices[0].candidate in {"kprobe.multi", "kprobe"}
        assert bpf.choices[0].rejected[0] == ("fentry", "seq_printf() has variable arguments")


def too_many() -> str:
    """A function with more arguments than a trampoline can have (12), which ftrace reaches; "" without one."""
    btf = kernel_btf()
    with Tracefs() as tracefs:
        names = sorted(name.decode() for name in Traceable(tracefs).names())
    for name in names:
        ids = btf.find(name, {Kind.FUNC})
        if len(ids) == 1 and len(btf.prototype(name).params) > 12:
            return name
    return ""


def test_a_function_that_the_verifier_makes_no_trampoline_for() -> None:
    """@bpf.function goes on to the next candidate, with the reason; fentry alone is NotSupported, in one line."""
    needs("attach:fentry", "attach:kprobe")
    name = too_many()
    unless(name, "function:13-arguments")
    count = len(kernel_btf().prototype(name).params)
    reason = f"the kernel makes no trampoline for {name}(), which has {count} arguments, too many: use @bpf.kprobe"
    bpf = BPF()

    @bpf.fentry(name)
    def alone() -> None:
        pass

    assert refusal(bpf, NotSupported).endswith(f"loading program alone: {reason}")
    bpf = BPF()

    @bpf.function(name)
    def one_way() -> None:
        pass

    with bpf:
        assert bpf.choices[0].candidate in {"kprobe.multi", "kprobe"}
        assert bpf.choices[0].rejected[0] == ("fentry", f"loading program one_way: {reason}")


def test_a_session_that_cannot_be() -> None:
    """A function that is not there gets the closest names; a kernel without sessions one line."""
    needs("attach:kprobe")
    bpf = BPF()

    @bpf.kprobe_session("shmem_file_llseeek")
    def on_seek() -> int:
        return 0

    message = refusal(bpf, PyebpfError)
    assert "\n" not in message
    if Features(kernel_btf).has("attach:kprobe_session"):
        assert "did you mean shmem_file_llseek" in message
    else:
        assert message.endswith("this kernel has no kprobe sessions (since Linux 6.10, with CONFIG_FPROBE)")
