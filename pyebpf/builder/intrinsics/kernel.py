"""Words about the kernel: facts known at compile time, kernel objects, and strings read from memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.intrinsics.base import intrinsic
from pyebpf.builder.values import kernel_objects
from pyebpf.builder.values.kernel_symbols import kernel_symbol
from pyebpf.builder.values.memory import Space
from pyebpf.builder.values.pointers import string_at
from pyebpf.compiler.ir import ValueType
from pyebpf.errors import NotFound, NotSupported, OnlyInProbe
from pyebpf.uapi.helper_ids import GET_CURRENT_TASK

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.builder.values.strings import StringSource


def _text(p: ProgramBuilder, word_name: str, argument: object) -> str:
    if not isinstance(argument, str):
        p.fail(f"{word_name}() takes names known at compile time, as strings")
    return argument


def _has_field(p: ProgramBuilder, struct: object, path: object) -> bool:
    return p.target.has_field(_text(p, "has_field", struct), _text(p, "has_field", path))


@intrinsic(_has_field)
def has_field(struct: str, path: str) -> bool:
    """Whether the kernel compiled for has that struct and member.

    `has_field("struct request", "q.disk")`. Known at compile time.
    """
    raise OnlyInProbe


def _has_tracepoint(p: ProgramBuilder, name: object) -> bool:
    name = _text(p, "has_tracepoint", name)
    try:
        if ":" in name:
            p.target.tracepoint_format(*name.split(":", 1))
        else:
            p.target.raw_tracepoint(name)
    except NotFound:
        return False
    return True


@intrinsic(_has_tracepoint)
def has_tracepoint(name: str) -> bool:
    """Whether the kernel has a tracepoint, "category:name", or a raw tracepoint, "name". Known at compile time."""
    raise OnlyInProbe


def _has_function(p: ProgramBuilder, name: object) -> bool:
    name = _text(p, "has_function", name)
    if p.target.has_function(name):
        return True
    try:
        return bool(p.target.functions(name))
    except (NotFound, NotSupported):
        return False


@intrinsic(_has_function)
def has_function(name: str) -> bool:
    """Whether the kernel has a function, by its types (BTF) or in the list of those that can be probed.

    Known at compile time.
    """
    raise OnlyInProbe


def _enum(p: ProgramBuilder, name: object, enum_name: object = "") -> int:
    try:
        return p.target.enumerator(_text(p, "enum", name), _text(p, "enum", enum_name))
    except NotFound as error:
        p.fail(str(error))


@intrinsic(_enum)
def enum(name: str, enum: str = "") -> int:
    """Value of a kernel's enumerator, `enum("TCP_LISTEN")`, of any enum or of the one named. Known at compile time."""
    raise OnlyInProbe


def _has_enum(p: ProgramBuilder, name: object, enum_name: object = "") -> bool:
    try:
        p.target.enumerator(_text(p, "has_enum", name), _text(p, "has_enum", enum_name))
    except NotFound:
        return False
    return True


@intrinsic(_has_enum)
def has_enum(name: str, enum: str = "") -> bool:
    """Whether the kernel has an enumerator, in any enum or in the one named. Known at compile time.

    `has_enum("SKB_DROP_REASON_QUEUE_PURGE")`.
    """
    raise OnlyInProbe


def _sizeof(p: ProgramBuilder, name: object) -> int:
    try:
        return p.target.struct_size(_text(p, "sizeof", name))
    except NotFound as error:
        p.fail(str(error))


@intrinsic(_sizeof)
def sizeof(name: str) -> int:
    """Size in bytes of a kernel type, `sizeof("struct sock")`. Known at compile time."""
    raise OnlyInProbe


@intrinsic(kernel_objects.cast)
def cast(type_name: str, value: object) -> Any:
    """The same address seen as another kernel struct: `cast("struct tcp_sock", sk)`. The verifier's trust is lost."""
    raise OnlyInProbe


@intrinsic(kernel_objects.container_of)
def container_of(value: object, struct: str, member: str) -> Any:
    """The struct that a kernel object is a member of: `container_of(inode, "struct socket_alloc", "vfs_inode")`."""
    raise OnlyInProbe


@intrinsic(kernel_symbol)
def ksym(name: str, type: object = None) -> Any:  # noqa: A002 - the author's keyword
    """The kernel's symbol of that name: `ksym("runqueues").nr_running`, `ksym("jiffies", u64)`, `ksym("do_exit")`.

    A variable that BTF has reads as its type, this processor's where each has its own; and with a type, an integer
    type or a C type's name, as that. All else is an address, a u64.
    """
    raise OnlyInProbe


@intrinsic(kernel_objects.user)
def user(address: object, target: object = None) -> Any:
    """The same address in the process's memory, where BTF does not say so: `user(ubuf)[0]`, `user(n, u32)[0]`."""
    raise OnlyInProbe


def _current_task(p: ProgramBuilder) -> kernel_objects.KernelReference:
    type_ = p.target.type_named("struct task_struct")
    return kernel_objects.KernelReference(p.b.call(GET_CURRENT_TASK, result=ValueType.SCALAR), type_)


@intrinsic(_current_task)
def current_task() -> Any:
    """The current thread's struct task_struct."""
    raise OnlyInProbe


def _string(name: str, space: Space) -> Callable[..., object]:
    def build(p: ProgramBuilder, pointer: object, size: int | None = None) -> StringSource:
        if size is not None and not isinstance(size, int):
            p.fail(f"{name}(): size is a number known at compile time")
        return string_at(p, name, pointer, space, size)

    return build


@intrinsic(_string("user_string", Space.USER))
def user_string(pointer: object, size: int | None = None) -> str:
    """The C string at an address of the current process. Its size comes from where it goes, else from `size`.

    A page that is not in memory cannot be read here: the string is then empty. Reading at a system call's exit rather
    than at its entry avoids that.
    """
    raise OnlyInProbe


@intrinsic(_string("kernel_string", Space.KERNEL))
def kernel_string(pointer: object, size: int | None = None) -> str:
    """The C string at an address in the kernel. Its size comes from where it goes, else from `size`."""
    raise OnlyInProbe
