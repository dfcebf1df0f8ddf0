"""Ways to attach: each asked by attaching to nothing, or to something of this process's own, since loading says little.

What a program's type and attach type are worth, only the attempt tells: kprobe programs load where nothing can attach
them, and tp_btf works where fentry is refused. So no row here is inferred from another.
"""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf.asm import encode
from pyebpf.dataclass import dataclass
from pyebpf.features.loading import Load, attempt, finish, forbidden, target_of
from pyebpf.features.support import Support, from_errno, from_refusal
from pyebpf.features.trampolines import TRAMPOLINES
from pyebpf.kernel import bpf
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.flags import BPF_F_LINK
from pyebpf.uapi.perf import PerfType
from pyebpf.uapi.verdicts import XDP_PASS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.btf import Btf
    from pyebpf.kernel.descriptor import Descriptor

    Probe = Callable[[Callable[[], Btf] | None], Support]

_PMUS = Path("/sys/bus/event_source/devices")
_NO_INTERFACE = 0x7FFF_FFFF
_NO_DESCRIPTOR = 0xFFFF_FFFF
_LOOPBACK = 1  # the index of `lo` in every network namespace
_XDP_FLAGS_DRV_MODE = 1 << 2


@dataclass(frozen=True, slots=True)
class _Link:
    """LINK_CREATE to a target that does not exist.

    One of the errors `yes` says that the kernel came so far as to look for it. `load` is how the program is loaded,
    `options` the bytes of the union from offset 16, or names and paths that they point to.
    """

    program_type: ProgramType
    attach_type: AttachType
    yes: tuple[int, ...]
    load: Load = Load()
    target: int = _NO_DESCRIPTOR
    options: bytes | Callable[[], tuple[bytes, object]] = b""
    flags: int = 0

    def __call__(self, btf: Callable[[], Btf] | None) -> Support:
        loaded = _load(self.program_type, self.load, btf)
        if isinstance(loaded, Support):
            return loaded
        options, kept = self.options() if callable(self.options) else (self.options, None)
        with loaded as program:
            try:
                bpf.link_create(
                    program.fileno(), self.target, self.attach_type, flags=self.flags, options=options
                ).close()
            except OSError as error:
                return _judged(error, self.yes)
            finally:
                del kept  # what the options point to was read until here
        return Support.YES


@dataclass(frozen=True, slots=True)
class _Open:
    """RAW_TRACEPOINT_OPEN of a name that no tracepoint has: ENOENT says that the kernel looked for it.

    What `load` says where to attach has no other name.
    """

    program_type: ProgramType
    cookie: int = 0
    load: Load = Load()

    def __call__(self, btf: Callable[[], Btf] | None) -> Support:
        loaded = _load(self.program_type, self.load, btf)
        if isinstance(loaded, Support):
            return loaded
        with loaded as program:
            try:
                name = None if self.load.target else "pyebpf_no_such_tracepoint"
                bpf.raw_tracepoint_open(program.fileno(), name, cookie=self.cookie).close()
            except OSError as error:
                return _judged(error, (errno.ENOENT,))
        return Support.YES


@dataclass(frozen=True, slots=True)
class _Event:
    """perf_event_open(2) for this process: `enum perf_type_id`, and a breakpoint's `bp_type` and length."""

    kind: PerfType
    config: int = 0
    bp_type: int = 0
    length: int = 0

    def __call__(self, _: Callable[[], Btf] | None) -> Support:
        from pyebpf.kernel.perf import perf_event_open
        from pyebpf.kernel.syscall import address_of

        place = bytearray(8)
        address = address_of(place) if self.bp_type else 0
        try:
            perf_event_open(
                self.kind, self.config, pid=0, cpu=-1, config1=address, config2=self.length, bp_type=self.bp_type
            ).close()
        except OSError as error:
            no = error.errno in {errno.ENOENT, errno.ENODEV, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS}
            return Support.NO if no else Support.UNKNOWN
        finally:
            del place  # what the event watches
        return Support.YES


@dataclass(frozen=True, slots=True)
class _Pmu:
    """An event of the PMU `pmu` at a function or in a file that does not exist: ENOENT says that it was looked for.

    `field` is one that sysfs must list for the PMU's configuration.
    """

    pmu: str
    missing: bytes
    returns: bool = False
    field: str = ""

    def __call__(self, _: Callable[[], Btf] | None) -> Support:
        from pyebpf.errors import NotSupported
        from pyebpf.kernel.perf import open_probe

        if not _PMUS.is_dir():
            return Support.UNKNOWN
        if self.field and not (_PMUS / self.pmu / "format" / self.field).exists():
            return Support.NO
        try:
            open_probe(self.pmu, self.missing, 0, returns=self.returns).close()
        except NotSupported:
            return Support.NO
        except OSError as error:
            return Support.YES if error.errno == errno.ENOENT else Support.UNKNOWN
        return Support.YES


@dataclass(frozen=True, slots=True)
class _SocketOption:
    """A program put on a socket that nobody knows, by a number of setsockopt(2)'s SOL_SOCKET."""

    program_type: ProgramType
    option: int
    load: Load = Load()

    def __call__(self, btf: Callable[[], Btf] | None) -> Support:
        import socket

        loaded = _load(self.program_type, self.load, btf)
        if isinstance(loaded, Support):
            return loaded
        with loaded as program, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            try:
                own.setsockopt(socket.SOL_SOCKET, self.option, program.fileno())
            except OSError as error:
                return from_refusal(error)
        return Support.YES


@dataclass(frozen=True, slots=True)
class _SocketMap:
    """A program put on a socket map of our own that holds no socket, by PROG_ATTACH."""

    program_type: ProgramType
    attach_type: AttachType

    def __call__(self, btf: Callable[[], Btf] | None) -> Support:
        loaded = _load(self.program_type, Load(), btf)
        if isinstance(loaded, Support):
            return loaded
        with loaded as program:
            try:
                with bpf.map_create(MapType.SOCKMAP, 4, 4, 1, name="probe") as sockets:
                    bpf.prog_attach(sockets.fileno(), program.fileno(), self.attach_type)
            except OSError as error:
                return from_errno(error.errno or 0)
        return Support.YES


@dataclass(frozen=True, slots=True)
class _StructOps:
    """A map of `struct bpf_struct_ops_NAME`, which is made and never filled; `flags` such as BPF_F_LINK."""

    operations: str
    flags: int = 0

    def __call__(self, btf: Callable[[], Btf] | None) -> Support:
        if btf is None:
            return Support.UNKNOWN
        from pyebpf.btf import BtfBuilder
        from pyebpf.errors import NotFound

        try:
            value = btf().struct(f"bpf_struct_ops_{self.operations}")
        except NotFound:
            return Support.NO
        builder = BtfBuilder()
        builder.add_int("int", 4, signed=True)
        loaded = bpf.btf_load(builder.to_bytes())
        if loaded.descriptor is None:
            return Support.UNKNOWN
        with loaded.descriptor as types:
            try:
                bpf.map_create(
                    MapType.STRUCT_OPS,
                    4,
                    value.size,
                    1,
                    flags=self.flags,
                    name="probe",
                    btf_fd=types.fileno(),
                    btf_vmlinux_value_type_id=value.id,
                ).close()
            except OSError as error:
                return from_errno(error.errno or 0)
        return Support.YES


def _load(program_type: ProgramType, load: Load, btf: Callable[[], Btf] | None) -> Descriptor | Support:
    """A program, or the answer where it does not load."""
    target = target_of(load, btf)
    if target is None:
        return Support.UNKNOWN
    result = bpf.prog_load(
        program_type,
        encode(finish(load.result)),
        name="probe",
        expected_attach_type=load.attach_type or 0,
        flags=load.flags,
        attach_btf_id=target,
    )
    if result.descriptor is not None:
        return result.descriptor
    if result.errno == errno.EPERM and forbidden(attempt(finish(load.result), program_type, load=load, target=target)):
        return Support.NO
    return from_errno(result.errno)


def _judged(error: OSError, yes: tuple[int, ...]) -> Support:
    if error.errno in yes:
        return Support.YES
    return from_refusal(error)


def _functions() -> tuple[bytes, object]:
    # { __u32 flags, cnt; __aligned_u64 syms, addrs, cookies; } with one name that no function has.
    from pyebpf.kernel.syscall import address_of

    name = bytearray(b"pyebpf_no_such_function\0")
    names = bytearray(address_of(name).to_bytes(8, "little"))
    options = bytes(4) + (1).to_bytes(4, "little") + address_of(names).to_bytes(8, "little") + bytes(16)
    return options, (name, names)


def _places() -> tuple[bytes, object]:
    # { __aligned_u64 path, offsets, ref_ctr_offsets, cookies; __u32 cnt, flags, pid; } with a directory as the file.
    from pyebpf.kernel.syscall import address_of

    path = bytearray(b"/\0")
    offsets = bytearray(8)
    options = (
        address_of(path).to_bytes(8, "little")
        + address_of(offsets).to_bytes(8, "little")
        + bytes(16)
        + (1).to_bytes(4, "little")
        + bytes(12)
    )
    return options, (path, offsets)


def _lsm_cgroup(btf: Callable[[], Btf] | None) -> Support:
    """A link to no control group; where the kernel looks for it, a trampoline is what would call the program."""
    load = Load(AttachType.LSM_CGROUP, result=1, target="bpf_lsm_socket_bind")
    answer = _Link(ProgramType.LSM, AttachType.LSM_CGROUP, (errno.EBADF,), load)(btf)
    return TRAMPOLINES["lsm"](btf) if answer is Support.YES else answer


def _netlink(name: str) -> Probe:
    """A probe of `pyebpf.features.netlink`, imported when it is asked."""

    def ask(btf: Callable[[], Btf] | None) -> Support:
        from pyebpf.features import netlink

        answer: Support = getattr(netlink, name)(btf)
        return answer

    return ask


def _replacement(btf: Callable[[], Btf] | None) -> Support:
    from pyebpf.features.replacement import replacement

    return replacement(btf)


_CGROUP_PROGRAMS: dict[ProgramType, tuple[AttachType, ...]] = {
    ProgramType.CGROUP_SKB: (AttachType.CGROUP_INET_INGRESS, AttachType.CGROUP_INET_EGRESS),
    ProgramType.CGROUP_SOCK: (
        AttachType.CGROUP_INET_SOCK_CREATE,
        AttachType.CGROUP_INET_SOCK_RELEASE,
        AttachType.CGROUP_INET4_POST_BIND,
        AttachType.CGROUP_INET6_POST_BIND,
    ),
    ProgramType.CGROUP_SOCK_ADDR: (
        AttachType.CGROUP_INET4_BIND,
        AttachType.CGROUP_INET6_BIND,
        AttachType.CGROUP_INET4_CONNECT,
        AttachType.CGROUP_INET6_CONNECT,
        AttachType.CGROUP_UNIX_CONNECT,
        AttachType.CGROUP_UDP4_SENDMSG,
        AttachType.CGROUP_UDP6_SENDMSG,
        AttachType.CGROUP_UNIX_SENDMSG,
        AttachType.CGROUP_UDP4_RECVMSG,
        AttachType.CGROUP_UDP6_RECVMSG,
        AttachType.CGROUP_UNIX_RECVMSG,
        AttachType.CGROUP_INET4_GETPEERNAME,
        AttachType.CGROUP_INET6_GETPEERNAME,
        AttachType.CGROUP_UNIX_GETPEERNAME,
        AttachType.CGROUP_INET4_GETSOCKNAME,
        AttachType.CGROUP_INET6_GETSOCKNAME,
        AttachType.CGROUP_UNIX_GETSOCKNAME,
    ),
    ProgramType.CGROUP_SOCKOPT: (AttachType.CGROUP_GETSOCKOPT, AttachType.CGROUP_SETSOCKOPT),
    ProgramType.CGROUP_SYSCTL: (AttachType.CGROUP_SYSCTL,),
    ProgramType.CGROUP_DEVICE: (AttachType.CGROUP_DEVICE,),
    ProgramType.SOCK_OPS: (AttachType.CGROUP_SOCK_OPS,),
}

_KPROBE, _TRACING = ProgramType.KPROBE, ProgramType.TRACING
_NO_FUNCTION, _NO_FILE = b"pyebpf_no_such_function", b"/pyebpf_no_such_file"
_UNKNOWN_NAME = (errno.ESRCH, errno.ENOENT)
_HW_BREAKPOINT_W, _HW_BREAKPOINT_LEN_4 = 2, 4
_SO_ATTACH_BPF, _SO_ATTACH_REUSEPORT_EBPF = 50, 52
_NO_FAMILY = (255).to_bytes(4, "little") + bytes(12)  # { __u32 pf, hooknum; __s32 priority; __u32 flags; }

ATTACHMENTS: dict[str, Probe] = {
    # Functions of the kernel.
    "kprobe": _Pmu("kprobe", _NO_FUNCTION),
    "kretprobe": _Pmu("kprobe", _NO_FUNCTION, returns=True, field="retprobe"),
    "kprobe_multi": _Link(
        _KPROBE, AttachType.TRACE_KPROBE_MULTI, _UNKNOWN_NAME, Load(AttachType.TRACE_KPROBE_MULTI), 0, _functions
    ),
    "kprobe_session": _Link(
        _KPROBE, AttachType.TRACE_KPROBE_SESSION, _UNKNOWN_NAME, Load(AttachType.TRACE_KPROBE_SESSION), 0, _functions
    ),
    **TRAMPOLINES,  # fentry, fexit, fmod_ret, lsm
    "lsm_cgroup": _lsm_cgroup,
    # Functions of programs and libraries. "uprobe_semaphore": a reference counter, as USDT probes have.
    "uprobe": _Pmu("uprobe", _NO_FILE),
    "uretprobe": _Pmu("uprobe", _NO_FILE, returns=True, field="retprobe"),
    "uprobe_semaphore": _Pmu("uprobe", _NO_FILE, field="ref_ctr_offset"),
    "uprobe_multi": _Link(
        _KPROBE, AttachType.TRACE_UPROBE_MULTI, (errno.EBADF,), Load(AttachType.TRACE_UPROBE_MULTI), 0, _places
    ),
    "uprobe_session": _Link(
        _KPROBE, AttachType.TRACE_UPROBE_SESSION, (errno.EBADF,), Load(AttachType.TRACE_UPROBE_SESSION), 0, _places
    ),
    # Tracepoints, events, iterators. "perf": BPF links of perf events.
    "raw_tp": _Open(ProgramType.RAW_TRACEPOINT),
    "raw_tp_cookie": _Open(ProgramType.RAW_TRACEPOINT, cookie=1),
    "raw_tp_writable": _Open(ProgramType.RAW_TRACEPOINT_WRITABLE),
    "tp_btf": _Open(_TRACING, load=Load(AttachType.TRACE_RAW_TP, target="btf_trace_sched_switch")),
    "iter": _Link(_TRACING, AttachType.TRACE_ITER, (), Load(AttachType.TRACE_ITER, target="bpf_iter_task"), 0),
    "perf": _Link(ProgramType.TRACEPOINT, AttachType.PERF_EVENT, (errno.EBADF,), options=bytes(8)),
    "perf_software": _Event(PerfType.SOFTWARE, 0),  # PERF_COUNT_SW_CPU_CLOCK
    "perf_hardware": _Event(PerfType.HARDWARE, 0),  # PERF_COUNT_HW_CPU_CYCLES
    "perf_breakpoint": _Event(PerfType.BREAKPOINT, 0, _HW_BREAKPOINT_W, _HW_BREAKPOINT_LEN_4),
    # Packets. Loopback drivers have no XDP of their own: to say so, a kernel must have XDP links.
    "xdp": _Link(
        ProgramType.XDP,
        AttachType.XDP,
        (errno.EOPNOTSUPP, errno.EBUSY, errno.EEXIST),
        Load(result=XDP_PASS),
        _LOOPBACK,
        flags=_XDP_FLAGS_DRV_MODE,
    ),
    "xdp_netlink": _netlink("xdp"),
    "tcx": _Link(ProgramType.SCHED_CLS, AttachType.TCX_INGRESS, (errno.ENODEV,), Load(), _NO_INTERFACE, bytes(16)),
    "netkit": _Link(
        ProgramType.SCHED_CLS, AttachType.NETKIT_PRIMARY, (errno.ENODEV,), Load(), _NO_INTERFACE, bytes(16)
    ),
    "clsact": _netlink("clsact"),
    "netfilter": _Link(
        ProgramType.NETFILTER,
        AttachType.NETFILTER,
        (errno.EAFNOSUPPORT,),
        Load(AttachType.NETFILTER, result=1),
        0,
        _NO_FAMILY,
    ),
    "flow_dissector": _Link(
        ProgramType.FLOW_DISSECTOR, AttachType.FLOW_DISSECTOR, (errno.EBADF,), Load(AttachType.FLOW_DISSECTOR)
    ),
    # Sockets.
    "socket_filter": _SocketOption(ProgramType.SOCKET_FILTER, _SO_ATTACH_BPF),
    "sk_reuseport": _SocketOption(
        ProgramType.SK_REUSEPORT, _SO_ATTACH_REUSEPORT_EBPF, Load(AttachType.SK_REUSEPORT_SELECT, result=1)
    ),
    "sk_lookup": _Link(
        ProgramType.SK_LOOKUP, AttachType.SK_LOOKUP, (errno.EBADF,), Load(AttachType.SK_LOOKUP, result=1)
    ),
    "sk_msg": _SocketMap(ProgramType.SK_MSG, AttachType.SK_MSG_VERDICT),
    "sk_skb_parser": _SocketMap(ProgramType.SK_SKB, AttachType.SK_SKB_STREAM_PARSER),
    "sk_skb_stream_verdict": _SocketMap(ProgramType.SK_SKB, AttachType.SK_SKB_STREAM_VERDICT),
    "sk_skb": _SocketMap(ProgramType.SK_SKB, AttachType.SK_SKB_VERDICT),
    # Control groups: each attach type by its name.
    **{
        attach_type.name.lower(): _Link(kind, attach_type, (errno.EBADF,), Load(attach_type, result=1))
        for kind, attach_types in _CGROUP_PROGRAMS.items()
        for attach_type in attach_types
    },
    # Programs in place of the kernel's functions, or of another program's.
    "struct_ops": _StructOps("tcp_congestion_ops"),
    "struct_ops_link": _StructOps("tcp_congestion_ops", BPF_F_LINK),
    "freplace": _replacement,
}
"""By name: a link's program and attach type as in libbpf, or how else a program gets to run."""
