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

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import TypeAlias

    from pyebpf.aggregations import (
        Stats as Stats,
    )
    from pyebpf.arch import (
        syscall_name as syscall_name,
    )
    from pyebpf.builder.annotations import (
        PerfEventContext as PerfEventContext,
    )
    from pyebpf.builder.annotations import (
        RawTracepointContext as RawTracepointContext,
    )
    from pyebpf.builder.annotations import (
        TracepointContext as TracepointContext,
    )
    from pyebpf.builder.kernel_words import (
        cast as cast,
    )
    from pyebpf.builder.kernel_words import (
        container_of as container_of,
    )
    from pyebpf.builder.kernel_words import (
        current_task as current_task,
    )
    from pyebpf.builder.kernel_words import (
        enum as enum,
    )
    from pyebpf.builder.kernel_words import (
        has_field as has_field,
    )
    from pyebpf.builder.kernel_words import (
        has_tracepoint as has_tracepoint,
    )
    from pyebpf.builder.kernel_words import (
        kernel_string as kernel_string,
    )
    from pyebpf.builder.kernel_words import (
        sizeof as sizeof,
    )
    from pyebpf.builder.kernel_words import (
        user_string as user_string,
    )
    from pyebpf.builder.stacks import (
        StackTraces as StackTraces,
    )
    from pyebpf.builder.stacks import (
        kstack as kstack,
    )
    from pyebpf.builder.stacks import (
        ustack as ustack,
    )
    from pyebpf.builder.words import (
        comm as comm,
    )
    from pyebpf.builder.words import (
        cpu as cpu,
    )
    from pyebpf.builder.words import (
        gid as gid,
    )
    from pyebpf.builder.words import (
        now as now,
    )
    from pyebpf.builder.words import (
        pid as pid,
    )
    from pyebpf.builder.words import (
        tid as tid,
    )
    from pyebpf.builder.words import (
        uid as uid,
    )
    from pyebpf.dsl.unroll import (
        unroll as unroll,
    )
    from pyebpf.errors import (
        AssemblyError as AssemblyError,
    )
    from pyebpf.errors import (
        BtfError as BtfError,
    )
    from pyebpf.errors import (
        CompileError as CompileError,
    )
    from pyebpf.errors import (
        FormatError as FormatError,
    )
    from pyebpf.errors import (
        InvalidValue as InvalidValue,
    )
    from pyebpf.errors import (
        KernelError as KernelError,
    )
    from pyebpf.errors import (
        Location as Location,
    )
    from pyebpf.errors import (
        MalformedData as MalformedData,
    )
    from pyebpf.errors import (
        NotFound as NotFound,
    )
    from pyebpf.errors import (
        NotLoaded as NotLoaded,
    )
    from pyebpf.errors import (
        NotPermitted as NotPermitted,
    )
    from pyebpf.errors import (
        NotSupported as NotSupported,
    )
    from pyebpf.errors import (
        OnlyInProbe as OnlyInProbe,
    )
    from pyebpf.errors import (
        PyebpfError as PyebpfError,
    )
    from pyebpf.errors import (
        VerifierError as VerifierError,
    )
    from pyebpf.runtime.bpf import (
        BPF as BPF,
    )
    from pyebpf.types import (
        Struct as Struct,
    )
    from pyebpf.types import (
        array as array,
    )
    from pyebpf.types import (
        be16 as be16,
    )
    from pyebpf.types import (
        be32 as be32,
    )
    from pyebpf.types import (
        be64 as be64,
    )
    from pyebpf.types import (
        char as char,
    )
    from pyebpf.types import (
        field as field,
    )
    from pyebpf.types import (
        ptr as ptr,
    )
    from pyebpf.types import (
        s8 as s8,
    )
    from pyebpf.types import (
        s16 as s16,
    )
    from pyebpf.types import (
        s32 as s32,
    )
    from pyebpf.types import (
        s64 as s64,
    )
    from pyebpf.types import (
        u8 as u8,
    )
    from pyebpf.types import (
        u16 as u16,
    )
    from pyebpf.types import (
        u32 as u32,
    )
    from pyebpf.types import (
        u64 as u64,
    )
    from pyebpf.uapi.network import (
        AddressFamily as AddressFamily,
    )
    from pyebpf.uapi.network import (
        TcpState as TcpState,
    )

    #: Any attribute that the running kernel's BTF gives, which no type checker can know.
    KernelObject: TypeAlias = Any

#: Where each public name is defined.
_MODULES = {
    "aggregations": ("Stats",),
    "arch": ("syscall_name",),
    "builder.annotations": (
        "KernelObject",
        "PerfEventContext",
        "RawTracepointContext",
        "TracepointContext",
    ),
    "builder.kernel_words": (
        "cast",
        "container_of",
        "current_task",
        "enum",
        "has_field",
        "has_tracepoint",
        "kernel_string",
        "sizeof",
        "user_string",
    ),
    "builder.stacks": ("StackTraces", "kstack", "ustack"),
    "builder.words": (
        "comm",
        "cpu",
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
    "runtime.bpf": ("BPF",),
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
    "uapi.network": (
        "AddressFamily",
        "TcpState",
    ),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__version__ = "0.1.0"

__all__ = [
    "BPF",
    "AddressFamily",
    "AssemblyError",
    "BtfError",
    "CompileError",
    "FormatError",
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
    "StackTraces",
    "Stats",
    "Struct",
    "TcpState",
    "TracepointContext",
    "VerifierError",
    "array",
    "be16",
    "be32",
    "be64",
    "cast",
    "char",
    "comm",
    "container_of",
    "cpu",
    "current_task",
    "enum",
    "field",
    "gid",
    "has_field",
    "has_tracepoint",
    "kernel_string",
    "kstack",
    "now",
    "pid",
    "ptr",
    "s8",
    "s16",
    "s32",
    "s64",
    "sizeof",
    "syscall_name",
    "tid",
    "u8",
    "u16",
    "u32",
    "u64",
    "uid",
    "unroll",
    "user_string",
    "ustack",
]


def __getattr__(name: str) -> Any:
    """Import a public name from where it is defined."""
    module = _HOME.get(name)
    if module is None:
        message = f"module 'pyebpf' has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    value = getattr(import_module(f"pyebpf.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
