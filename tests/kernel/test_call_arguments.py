"""Arguments of system calls are of the types that the kernel declares, whatever the rest of their registers holds."""

from __future__ import annotations

import ctypes
import errno
import os

import pytest

from pyebpf import BPF, s64, tid, u64
from pyebpf.arch import host
from pyebpf.attach.call_arguments import call_argument_type
from pyebpf.builder.values.kernel_objects import integer_type
from pyebpf.kernel.tracefs import Tracefs
from pyebpf.runtime.host import host_target
from tests.support.needs import needs

libc = ctypes.CDLL(None, use_errno=True)
#: No process has such an id; the low 32 bits of the argument, which are followed by junk.
NOBODY = -999_999
JUNK = 7 << 32 | NOBODY & 0xFFFF_FFFF
CALLS = 11


def kill(times: int) -> None:
    """Fail to send a signal to nobody, with junk in the upper half of the register."""
    for _ in range(times):
        assert libc.syscall(host().system_call("kill"), ctypes.c_long(JUNK), ctypes.c_long(0)) == -1
        assert ctypes.get_errno() == errno.ESRCH


def test_every_argument_of_every_system_call_is_of_its_type():
    """The type of each is what BTF says of its name, and of the parameter of the call's function where it has that."""
    compared = 0
    with Tracefs() as tracefs:
        target = host_target(lambda: tracefs)
        for event in target.tracepoints("syscalls", "sys_enter_*"):
            function = f"__do_sys_{event.removeprefix('sys_enter_')}"
            declared = (
                {each.name: each.type for each in target.function(function).parameters}
                if (target.has_function(function))
                else {}
            )
            for field in target.tracepoint_format("syscalls", event).fields:
                if field.pointer or field.offset < 16:
                    continue
                found = call_argument_type(target, field)
                for type_ in (target.type_named(field.bare_type), declared.get(field.name)):
                    wanted = None if type_ is None else integer_type(type_)
                    if wanted is not None:
                        assert (found.size, found.signed) == (wanted.size, wanted.signed), (event, field)
                        compared += 1
    assert compared > 500


@pytest.mark.every_kernel
def test_a_pid_at_the_tracepoint_of_a_system_call():
    """pid_t is 32 bits with a sign: as a key, in a filter, and below 0."""
    me = os.getpid()
    bpf = BPF()
    seen = bpf.hash(key=s64, value=u64)
    filtered = bpf.array(value=u64, size=2)

    @bpf.tracepoint("syscalls:sys_enter_kill")
    def on_kill(ctx) -> None:
        if tid() == me:
            seen[ctx.pid] += 1
            if ctx.pid == NOBODY:
                filtered[0] += 1
            if ctx.pid < 0:
                filtered[1] += 1

    with bpf:
        kill(CALLS)
        assert dict(seen) == {NOBODY: CALLS}
        assert [filtered[0], filtered[1]] == [CALLS, CALLS]


@pytest.mark.every_kernel
@pytest.mark.parametrize("how", ["function", "call", "system_call"])
def test_a_pid_at_the_function_of_a_system_call(how):
    """The same by the registers that the function is given, and by the call that is followed."""
    if how == "function":
        needs("attach:kprobe")
    me = os.getpid()
    bpf = BPF()
    seen = bpf.hash(key=s64, value=u64)

    if how == "function":

        @bpf.kprobe("sys_kill")
        def on_kill(pid) -> None:
            if tid() == me:
                seen[pid] += 1
    else:
        if how == "call":
            needs("attach:kprobe")
        decorator = bpf.call("sys_kill") if how == "call" else bpf.system_call("kill")

        @decorator
        def after_kill(pid: int, retval: int) -> None:
            if tid() == me and retval == -errno.ESRCH:
                seen[pid] += 1

    with bpf:
        kill(CALLS)
        assert dict(seen) == {NOBODY: CALLS}
