"""Generated modules: the same as the facts give, and right where it can be checked."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from pyebpf.errors import NotFound
from pyebpf.uapi import flags, perf, perf_numbers, verdicts
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import LinkType, MapType, ProgramType
from pyebpf.uapi.commands import Command
from pyebpf.uapi.errno_table import ENOTSUPP
from pyebpf.uapi.errnos import errno_name
from pyebpf.uapi.helpers import HELPER_IDS, helper, helper_name
from pyebpf.uapi.network import AddressFamily, TcpState

ROOT = Path(__file__).parents[2]


def test_regenerating_gives_the_same_files():
    """tools/generate_uapi.py writes byte for byte what is checked in."""
    command = [sys.executable, ROOT / "tools" / "generate_uapi.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_numbers_up_to_linux_6_18():
    """The last of each kind in 6.18's linux/bpf.h."""
    commands = {name: number for name, number in vars(Command).items() if name.isupper()}
    assert max(commands, key=commands.__getitem__) == "PROG_STREAM_READ_BY_FD"
    assert (Command.PROG_STREAM_READ_BY_FD, commands["MAP_CREATE"]) == (37, 0)
    assert max(MapType) is MapType.ARENA == 33
    assert max(ProgramType) is ProgramType.NETFILTER == 32
    assert max(AttachType) is AttachType.TRACE_UPROBE_SESSION == 57
    assert max(LinkType) is LinkType.SOCKMAP == 14
    assert MapType.CGROUP_STORAGE.name == "CGROUP_STORAGE"
    assert (flags.BPF_F_NO_PREALLOC, flags.BPF_F_MMAPABLE, flags.BPF_NOEXIST) == (1, 1024, 1)
    assert flags.BPF_F_CURRENT_CPU == 0xFFFF_FFFF
    assert (verdicts.XDP_DROP, verdicts.XDP_PASS, verdicts.TCX_NEXT, verdicts.SK_PASS) == (1, 2, -1, 1)


def test_perf_numbers():
    """Values that every tracing tool hard-codes."""
    assert perf_numbers.PERF_EVENT_IOC_SET_BPF == 0x40042408
    assert (perf_numbers.PERF_EVENT_IOC_ENABLE, perf_numbers.PERF_FLAG_FD_CLOEXEC) == (0x2400, 8)
    assert (perf.PerfType.SOFTWARE, perf.Software.BPF_OUTPUT, perf.SampleFormat.RAW) == (1, 10, 0x400)
    assert (perf.RecordType.LOST, perf.RecordType.SAMPLE, perf.ReadFormat.LOST) == (2, 9, 16)


def test_states_and_families():
    """Each number has the name that is usual."""
    assert (TcpState.ESTABLISHED, TcpState.LISTEN, TcpState.BOUND_INACTIVE) == (1, 10, 13)
    assert (AddressFamily(1).name, AddressFamily(2).name, AddressFamily(10).name) == ("UNIX", "INET", "INET6")


def test_helpers_are_complete():
    """211 helpers, numbered without a gap, at most five parameters each, known by name and number alike."""
    assert sorted(HELPER_IDS.values()) == list(range(1, 212))
    for name, number in HELPER_IDS.items():
        assert helper(name) == helper(number) == helper("bpf_" + name)
        assert helper_name(number) == "bpf_" + name
        assert len(helper(name).parameters) <= 5
        assert all(parameter.name.isidentifier() for parameter in helper(name).parameters)


@pytest.mark.parametrize(
    ("number", "prototype", "gpl_only"),
    [
        (1, "void *bpf_map_lookup_elem(struct bpf_map *map, const void *key)", False),
        (5, "u64 bpf_ktime_get_ns(void)", False),
        (6, "long bpf_trace_printk(const char *fmt, u32 fmt_size, ...)", True),
        (96, "struct bpf_tcp_sock *bpf_tcp_sock(struct bpf_sock *sk)", False),
        (113, "long bpf_probe_read_kernel(void *dst, u32 size, const void *unsafe_ptr)", True),
        (131, "void *bpf_ringbuf_reserve(void *ringbuf, u64 size, u64 flags)", False),
        (166, "long bpf_sys_bpf(u32 cmd, void *attr, u32 attr_size)", False),
        (211, "long bpf_cgrp_storage_delete(struct bpf_map *map, struct cgroup *cgroup)", False),
    ],
)
def test_helper_prototypes(number, prototype, gpl_only):
    """As linux/bpf.h declares them; whether the licence matters as the kernel's verifier says."""
    assert str(helper(number)) == prototype
    assert helper(number).gpl_only is gpl_only


def test_unknown_helpers():
    """The closest names, or the range of numbers."""
    with pytest.raises(NotFound, match=r"no helper 'map_lookup' .*did you mean map_"):
        helper("map_lookup")
    with pytest.raises(NotFound, match=r"no helper has number 212: Linux 6\.18 knows 1 to 211"):
        helper(212)
    assert helper_name(212) is None


def test_error_names():
    """The C library's names, in either sign, and the kernel's own 524."""
    for number in (errno.ENOENT, errno.EPERM, errno.E2BIG, errno.EAGAIN):
        assert errno_name(number) == errno_name(-number) == errno.errorcode[number]
    assert errno_name(errno.EOPNOTSUPP) == "EOPNOTSUPP"
    assert (ENOTSUPP, errno_name(524)) == (524, "ENOTSUPP")
    assert errno_name(4000) == "4000"


@pytest.mark.skipif(sys.platform != "linux", reason="probe platform:linux: no")
def test_every_error_number_of_the_c_library_has_a_name():
    """Aliases aside, the names are the C library's."""
    for number, name in errno.errorcode.items():
        assert errno_name(number) == name or getattr(errno, errno_name(number)) == number
