"""The limit of locked memory, to which kernels before Linux 5.11 charge maps and programs."""

from __future__ import annotations

import errno
import os
import resource

import pytest

from pyebpf.errors import NotPermitted
from pyebpf.kernel import bpf, memlock
from pyebpf.objects import Map
from pyebpf.specs import MapSpec
from pyebpf.types import U64
from pyebpf.uapi.bpf import MapType

SPEC = MapSpec("counts", MapType.ARRAY, None, U64, 1000)
KIB = 1 << 10


@pytest.fixture
def low_limit():
    """64 KiB, which the process may raise if it may raise anything; the limit is put back."""
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (64 * KIB, before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_MEMLOCK, before)


def charge(monkeypatch, limit=1 << 62):
    """Refuse maps and programs as a kernel before 5.11 does, under a limit of locked memory below `limit`."""
    real = bpf.bpf

    def charged(command: int, attribute: int, size: int) -> int:
        soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        if command in {0, 5} and soft != resource.RLIM_INFINITY and soft < limit:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        return real(command, attribute, size)

    monkeypatch.setattr(bpf, "bpf", charged)


def test_maps_larger_than_the_limit_are_made(low_limit):
    """256 KiB of values under a limit of 64: whatever it takes on this kernel."""
    with Map(MapSpec("large", MapType.ARRAY, None, U64, 32 * KIB)) as large:
        large[7] = 5
        assert large[7] == 5


def test_a_full_limit_is_raised_once(low_limit, monkeypatch):
    """As far as the process may; what follows needs no second attempt."""
    if low_limit != resource.RLIM_INFINITY and low_limit <= 64 * KIB:
        low_limit = resource.RLIM_INFINITY  # then it takes CAP_SYS_RESOURCE, as in a machine of the test bed
    charge(monkeypatch, limit=65 * KIB)
    with Map(SPEC):
        assert resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] in {resource.RLIM_INFINITY, low_limit}


def test_a_limit_that_was_not_the_reason_is_put_back(low_limit, monkeypatch):
    """EPERM for want of a privilege changes nothing."""
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)

    def refused(*_: int) -> int:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(bpf, "bpf", refused)
    with pytest.raises(PermissionError):
        bpf.map_create(2, 4, 8, 1)
    assert resource.getrlimit(resource.RLIMIT_MEMLOCK) == before


def test_a_limit_that_cannot_be_raised_is_named(low_limit, monkeypatch):
    """Map and program: the limit, how to raise it, the capability that is missing."""
    fixed = (64 * KIB, 64 * KIB)
    monkeypatch.setattr(memlock.resource, "getrlimit", lambda _: fixed)
    monkeypatch.setattr("pyebpf.kernel.privileges.effective_capabilities", lambda: 1 << 39)  # CAP_BPF alone
    charge(monkeypatch)
    with pytest.raises(NotPermitted) as caught, Map(SPEC):
        pass
    assert str(caught.value) == (
        "creating map counts: the limit of locked memory (64 KiB), to which Linux before 5.11 charges maps and "
        "programs, is full: raise it (`ulimit -l unlimited`, LimitMEMLOCK=infinity), or give this process "
        "CAP_SYS_RESOURCE (EPERM)"
    )


def test_a_kernel_that_charges_elsewhere_is_not_blamed(low_limit, monkeypatch):
    """A small limit is no reason where a program with the helper of the same release loads."""
    monkeypatch.setattr("pyebpf.kernel.privileges.effective_capabilities", lambda: 1 << 39)
    monkeypatch.setattr(memlock.resource, "getrlimit", lambda _: (64 * KIB, 64 * KIB))
    monkeypatch.setattr(bpf, "bpf", lambda *_: os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
    assert memlock.shortage("creating map counts") is None
