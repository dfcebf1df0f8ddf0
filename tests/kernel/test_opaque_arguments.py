"""BTF tracepoints whose arguments the verifier does not give: read at the raw tracepoint of that name."""

from __future__ import annotations

import pytest

from pyebpf import BPF, s64, u64
from tests.support.needs import unless
from tests.support.waiting import wait_until


def has_argument(event, name):
    """Whether the tracepoint is there, and has that argument."""
    from pyebpf.errors import NotFound
    from pyebpf.kernel.tracefs import Tracefs
    from pyebpf.runtime.host import host_target

    try:
        return any(each.name == name for each in host_target(Tracefs).raw_tracepoint_parameters(event))
    except NotFound:
        return False


@pytest.mark.parametrize("by_context", [False, True], ids=["parameter", "ctx"])
def test_a_pointer_to_a_function_is_read_at_the_raw_tracepoint(by_context):
    """Workers of the kernel run functions all the time; each is an address in the kernel, and work is an object."""
    unless(has_argument("workqueue_execute_end", "function"), "argument:workqueue_execute_end:function")
    bpf = BPF()
    told = bpf.array(value=s64, size=3, name="told")

    if by_context:

        @bpf.btf_tracepoint("workqueue_execute_end")
        def at_end(ctx) -> None:
            told[0] += 1
            told[1] = u64(ctx.function)

    else:

        @bpf.btf_tracepoint("workqueue_execute_end")
        def at_end(function, work) -> None:
            told[0] += 1
            told[1] = u64(function)
            told[2] = work.data.counter != 0

    with bpf:
        wait_until(lambda: told[0] > 0)
        assert -(1 << 47) < told[1] < 0
        (choice,) = bpf.choices
    assert choice.candidate == "raw_tracepoint"
    assert choice.rejected == (("btf_tracepoint", "the verifier gives no function *, which its argument function is"),)


def test_what_the_verifier_gives_stays_a_btf_tracepoint():
    """The same tracepoint, without the opaque argument."""
    unless(has_argument("workqueue_execute_end", "function"), "argument:workqueue_execute_end:function")
    bpf = BPF()
    told = bpf.array(value=s64, size=3, name="told")

    @bpf.btf_tracepoint("workqueue_execute_end")
    def at_end(work) -> None:
        told[2] = work.data.counter != 0

    with bpf:
        (choice,) = bpf.choices
    assert (choice.candidate, choice.rejected) == ("btf_tracepoint", ())
