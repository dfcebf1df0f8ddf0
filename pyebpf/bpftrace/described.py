"""Types of values as messages name them."""

from __future__ import annotations

from pyebpf.bpftrace.value_types import (
    Boolean,
    Buffer,
    CgroupPath,
    Inet,
    KernelStack,
    KernelSymbol,
    MacAddress,
    Number,
    Record,
    Timestamp,
    Tuple,
    Username,
    UserStack,
    UserSymbol,
    ValueType,
)


def described(type_: ValueType) -> str:
    """A type as messages tell it from others: tuples and records with their parts."""
    if isinstance(type_, Tuple):
        return f"a tuple ({', '.join(map(_bare, type_.parts))})"
    if isinstance(type_, Record):
        parts = [f".{name} = {_bare(part)}" for name, part in zip(type_.names, type_.parts, strict=True)]
        return f"a record ({', '.join(parts)})"
    if isinstance(type_, Timestamp):
        return f'{type_.name} strftime("{type_.layout}", nsecs{f"({type_.clock})" if type_.clock else ""})'
    if isinstance(type_, KernelStack | UserStack):
        return f"{type_.name} of {type_.limit} frames, mode {type_.mode}"
    return type_.name


def _bare(type_: ValueType) -> str:
    return described(type_).partition(" ")[2]


#: What to write where a string is wanted, of values that become text when they are printed.
_INSTEAD: dict[type[ValueType], str] = {
    Boolean: 'write b ? "yes" : "no"',
    KernelStack: "print it, or make it a key of a map",
    UserStack: "print it, or make it a key of a map",
    KernelSymbol: 'compare the address with kaddr("name")',
    UserSymbol: 'compare the address with uaddr("name")',
    Username: "compare uid",
    Timestamp: "compare nsecs",
    CgroupPath: 'compare the number with cgroupid("/sys/fs/cgroup/name")',
    MacAddress: "compare the bytes that it is made of",
    Inet: 'compare the address with pton("127.0.0.1")',
    Buffer: 'compare it with buf("text", n)',
}


def printed_as_text(type_: ValueType) -> str:
    """Words about a value that becomes text when it is printed, where a string is wanted; "" for others."""
    if isinstance(type_, Number) and (type_.names or type_.enum):
        return "an enum's number, which becomes text when it is printed: compare it with the constant"
    instead = _INSTEAD.get(type(type_))
    return f"{type_.name}, which becomes text when it is printed: {instead}" if instead else ""
