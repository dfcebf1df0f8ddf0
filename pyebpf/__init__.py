"""eBPF programs written in Python: compiled where they run, without clang, LLVM, libbpf or kernel headers.

    from pyebpf import BPF, char, comm, u64

    bpf = BPF()
    opens = bpf.hash(key=char[16], value=u64)

    @bpf.tracepoint("syscalls:sys_enter_openat")
    def on_open() -> None:
        opens[comm()] += 1

Names are imported when first used, so that `import pyebpf` costs next to nothing.
"""

from __future__ import annotations

from pyebpf.lazy import lazy_names

TYPE_CHECKING = False  # as in `pyebpf.lazy`
if TYPE_CHECKING:
    from typing import Any, TypeAlias

    from pyebpf.aggregations import (
        Stats as Stats,
    )
    from pyebpf.arch import (
        syscall_name as syscall_name,
    )
    from pyebpf.attach.context_annotations import (
        DeviceContext as DeviceContext,
        FlowDissectorContext as FlowDissectorContext,
        FlowKeys as FlowKeys,
        PerfEventContext as PerfEventContext,
        RawTracepointContext as RawTracepointContext,
        SkBuff as SkBuff,
        SkLookupContext as SkLookupContext,
        SkMsgContext as SkMsgContext,
        SkReuseportContext as SkReuseportContext,
        Sock as Sock,
        SockAddrContext as SockAddrContext,
        SockContext as SockContext,
        SockOpsContext as SockOpsContext,
        SockoptContext as SockoptContext,
        SysctlContext as SysctlContext,
        TracepointContext as TracepointContext,
        XdpContext as XdpContext,
    )
    from pyebpf.builder.intrinsics.callbacks import (
        loop as loop,
    )
    from pyebpf.builder.intrinsics.dynptr import (
        dynptr as dynptr,
    )
    from pyebpf.builder.intrinsics.kernel import (
        cast as cast,
        container_of as container_of,
        current_task as current_task,
        enum as enum,
        has_enum as has_enum,
        has_field as has_field,
        has_function as has_function,
        has_tracepoint as has_tracepoint,
        kernel_string as kernel_string,
        ksym as ksym,
        sizeof as sizeof,
        user as user,
        user_string as user_string,
    )
    from pyebpf.builder.intrinsics.kfuncs import (
        kfunc as kfunc,
    )
    from pyebpf.builder.intrinsics.seq_file import (
        emit as emit,
    )
    from pyebpf.builder.intrinsics.stacks import (
        kstack as kstack,
        ustack as ustack,
        ustack_of as ustack_of,
    )
    from pyebpf.builder.intrinsics.task import (
        comm as comm,
        cpu as cpu,
        function_ip as function_ip,
        gid as gid,
        now as now,
        pid as pid,
        tid as tid,
        uid as uid,
    )
    from pyebpf.dsl.unroll import (
        unroll as unroll,
    )
    from pyebpf.errors import (
        AssemblyError as AssemblyError,
        BtfError as BtfError,
        CompileError as CompileError,
        FormatError as FormatError,
        InvalidValue as InvalidValue,
        KernelError as KernelError,
        Location as Location,
        MalformedData as MalformedData,
        NotFound as NotFound,
        NotLoaded as NotLoaded,
        NotPermitted as NotPermitted,
        NotSupported as NotSupported,
        OnlyInProbe as OnlyInProbe,
        PyebpfError as PyebpfError,
        VerifierError as VerifierError,
    )
    from pyebpf.events.xdp_socket import (
        XdpSocket as XdpSocket,
    )
    from pyebpf.link.listing import (
        links as links,
    )
    from pyebpf.maps.stack_trace import (
        StackTraceMap as StackTraceMap,
    )
    from pyebpf.recording.recording import (
        Recording as Recording,
        open_recording as open_recording,
    )
    from pyebpf.runtime.bpf import (
        BPF as BPF,
    )
    from pyebpf.runtime.open_map import (
        open_map as open_map,
    )
    from pyebpf.symbols.frame import (
        Frame as Frame,
    )
    from pyebpf.types import (
        Struct as Struct,
        array as array,
        be16 as be16,
        be32 as be32,
        be64 as be64,
        char as char,
        field as field,
        ptr as ptr,
        s8 as s8,
        s16 as s16,
        s32 as s32,
        s64 as s64,
        u8 as u8,
        u16 as u16,
        u32 as u32,
        u64 as u64,
    )
    from pyebpf.types.bits import (
        bits as bits,
    )
    from pyebpf.types.prefix import (
        ipv4_prefix as ipv4_prefix,
        ipv6_prefix as ipv6_prefix,
        prefix as prefix,
    )
    from pyebpf.types.special import (
        SpinLock as SpinLock,
        Timer as Timer,
        spin_lock as spin_lock,
        timer as timer,
    )
    from pyebpf.uapi.errnos import (
        errno_name as errno_name,
    )
    from pyebpf.uapi.network import (
        AddressFamily as AddressFamily,
        TcpState as TcpState,
    )
    from pyebpf.uapi.tc import (
        TC_ACT_OK as TC_ACT_OK,
        TC_ACT_PIPE as TC_ACT_PIPE,
        TC_ACT_REDIRECT as TC_ACT_REDIRECT,
        TC_ACT_SHOT as TC_ACT_SHOT,
        TC_ACT_UNSPEC as TC_ACT_UNSPEC,
    )
    from pyebpf.uapi.verdicts import (
        BPF_DROP as BPF_DROP,
        BPF_FLOW_DISSECTOR_CONTINUE as BPF_FLOW_DISSECTOR_CONTINUE,
        BPF_OK as BPF_OK,
        SK_DROP as SK_DROP,
        SK_PASS as SK_PASS,
        TCX_DROP as TCX_DROP,
        TCX_NEXT as TCX_NEXT,
        TCX_PASS as TCX_PASS,
        TCX_REDIRECT as TCX_REDIRECT,
        XDP_ABORTED as XDP_ABORTED,
        XDP_DROP as XDP_DROP,
        XDP_PASS as XDP_PASS,
        XDP_REDIRECT as XDP_REDIRECT,
        XDP_TX as XDP_TX,
    )

    #: Any attribute that the running kernel's BTF gives, which no type checker can know.
    KernelObject: TypeAlias = Any

#: The module that defines each public name.
_MODULES = {
    "aggregations": ("Stats",),
    "arch": ("syscall_name",),
    "attach.context_annotations": (
        "DeviceContext",
        "FlowDissectorContext",
        "FlowKeys",
        "PerfEventContext",
        "RawTracepointContext",
        "SkBuff",
        "SkLookupContext",
        "SkMsgContext",
        "SkReuseportContext",
        "Sock",
        "SockAddrContext",
        "SockContext",
        "SockOpsContext",
        "SockoptContext",
        "SysctlContext",
        "TracepointContext",
        "XdpContext",
    ),
    "builder.context": ("KernelObject",),
    "builder.intrinsics.callbacks": ("loop",),
    "builder.intrinsics.dynptr": ("dynptr",),
    "builder.intrinsics.kernel": (
        "cast",
        "container_of",
        "current_task",
        "enum",
        "has_enum",
        "has_field",
        "has_function",
        "has_tracepoint",
        "kernel_string",
        "ksym",
        "sizeof",
        "user",
        "user_string",
    ),
    "builder.intrinsics.seq_file": ("emit",),
    "builder.intrinsics.kfuncs": ("kfunc",),
    "builder.intrinsics.stacks": ("kstack", "ustack", "ustack_of"),
    "builder.intrinsics.task": (
        "comm",
        "cpu",
        "function_ip",
        "gid",
        "now",
        "pid",
        "tid",
        "uid",
    ),
    "dsl.unroll": ("unroll",),
    "errors": (
        "AssemblyError",
        "BtfError",
        "CompileError",
        "FormatError",
        "InvalidValue",
        "KernelError",
        "Location",
        "MalformedData",
        "NotFound",
        "NotLoaded",
        "NotPermitted",
        "NotSupported",
        "OnlyInProbe",
        "PyebpfError",
        "VerifierError",
    ),
    "events.xdp_socket": ("XdpSocket",),
    "link.listing": ("links",),
    "maps.stack_trace": ("StackTraceMap",),
    "recording.recording": ("Recording", "open_recording"),
    "runtime.bpf": ("BPF",),
    "runtime.open_map": ("open_map",),
    "symbols.frame": ("Frame",),
    "types": (
        "Struct",
        "array",
        "be16",
        "be32",
        "be64",
        "char",
        "field",
        "ptr",
        "s8",
        "s16",
        "s32",
        "s64",
        "u8",
        "u16",
        "u32",
        "u64",
    ),
    "types.special": ("SpinLock", "Timer", "spin_lock", "timer"),
    "types.prefix": ("ipv4_prefix", "ipv6_prefix", "prefix"),
    "types.bits": ("bits",),
    "uapi.errnos": ("errno_name",),
    "uapi.network": (
        "AddressFamily",
        "TcpState",
    ),
    "uapi.tc": ("TC_ACT_OK", "TC_ACT_PIPE", "TC_ACT_REDIRECT", "TC_ACT_SHOT", "TC_ACT_UNSPEC"),
    "uapi.verdicts": (
        "BPF_DROP",
        "BPF_FLOW_DISSECTOR_CONTINUE",
        "BPF_OK",
        "SK_DROP",
        "SK_PASS",
        "TCX_DROP",
        "TCX_NEXT",
        "TCX_PASS",
        "TCX_REDIRECT",
        "XDP_ABORTED",
        "XDP_DROP",
        "XDP_PASS",
        "XDP_REDIRECT",
        "XDP_TX",
    ),
}
_find = lazy_names(__name__, _MODULES)


def __getattr__(name: str) -> Any:
    from pyebpf.tracebacks import install

    install()  # whoever asks for a name may soon see an error
    return _find(name)


__version__ = "0.1.0"

__all__ = [
    "BPF",
    "BPF_DROP",
    "BPF_FLOW_DISSECTOR_CONTINUE",
    "BPF_OK",
    "SK_DROP",
    "SK_PASS",
    "TCX_DROP",
    "TCX_NEXT",
    "TCX_PASS",
    "TCX_REDIRECT",
    "TC_ACT_OK",
    "TC_ACT_PIPE",
    "TC_ACT_REDIRECT",
    "TC_ACT_SHOT",
    "TC_ACT_UNSPEC",
    "XDP_ABORTED",
    "XDP_DROP",
    "XDP_PASS",
    "XDP_REDIRECT",
    "XDP_TX",
    "AddressFamily",
    "AssemblyError",
    "BtfError",
    "CompileError",
    "DeviceContext",
    "FlowDissectorContext",
    "FlowKeys",
    "FormatError",
    "Frame",
    "InvalidValue",
    "KernelError",
    "KernelObject",
    "Location",
    "MalformedData",
    "NotFound",
    "NotLoaded",
    "NotPermitted",
    "NotSupported",
    "OnlyInProbe",
    "PerfEventContext",
    "PyebpfError",
    "RawTracepointContext",
    "Recording",
    "SkBuff",
    "SkLookupContext",
    "SkMsgContext",
    "SkReuseportContext",
    "Sock",
    "SockAddrContext",
    "SockContext",
    "SockOpsContext",
    "SockoptContext",
    "SpinLock",
    "StackTraceMap",
    "Stats",
    "Struct",
    "SysctlContext",
    "TcpState",
    "Timer",
    "TracepointContext",
    "VerifierError",
    "XdpContext",
    "XdpSocket",
    "array",
    "be16",
    "be32",
    "be64",
    "bits",
    "cast",
    "char",
    "comm",
    "container_of",
    "cpu",
    "current_task",
    "dynptr",
    "emit",
    "enum",
    "errno_name",
    "field",
    "function_ip",
    "gid",
    "has_enum",
    "has_field",
    "has_function",
    "has_tracepoint",
    "ipv4_prefix",
    "ipv6_prefix",
    "kernel_string",
    "kfunc",
    "kstack",
    "ksym",
    "links",
    "loop",
    "now",
    "open_map",
    "open_recording",
    "pid",
    "prefix",
    "ptr",
    "s8",
    "s16",
    "s32",
    "s64",
    "sizeof",
    "spin_lock",
    "syscall_name",
    "tid",
    "timer",
    "u8",
    "u16",
    "u32",
    "u64",
    "uid",
    "unroll",
    "user",
    "user_string",
    "ustack",
    "ustack_of",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
