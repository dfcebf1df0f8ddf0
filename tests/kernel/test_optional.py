"""Optional probes where the kernel has no way to run them: the rest runs, and `bpf.choices` says what is left out."""

from __future__ import annotations

import os

import pytest

from pyebpf import BPF, pid, u64
from pyebpf.errors import NotSupported
from tests.support.needs import lacks

ME = os.getpid()


def made(decorator, *, optional):
    """A BPF with a probe at a tracepoint, and one at a function."""
    bpf = BPF()
    found = bpf.array(value=u64)

    @bpf.tracepoint("syscalls:sys_enter_getppid")
    def always() -> None:
        if pid() == ME:
            found[0] += 1

    @getattr(bpf, decorator)("vfs_read", optional=optional)
    def sometimes() -> None:
        if pid() == ME:
            found[0] += 1000

    return bpf, found


@pytest.mark.parametrize("decorator", ["function", "kprobe", "fentry", "kprobe_multi"])
def test_what_cannot_run_here_is_left_out_if_it_is_optional(decorator):
    """Whether a probe said so or the kernel refused it."""
    lacks("attach:fentry", "attach:kprobe", "attach:kprobe_multi")
    bpf, found = made(decorator, optional=True)
    with bpf:
        os.getppid()
        assert found[0] == 1
    assert [choice.candidate for choice in bpf.choices] == ["tracepoint", "left out"]
    assert bpf.choices[1].rejected
    bpf, _ = made(decorator, optional=False)
    with pytest.raises(NotSupported), bpf:
        pass
