"""Raw tracepoints in BTF: what to attach to, and what the arguments are called."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.btf.nodes import Func, FuncProto, Kind, Ptr, Typedef
from pyebpf.btf.nullable import NULLABLE_ARGUMENTS
from pyebpf.btf.reader import NULLABLE_SUFFIX
from pyebpf.btf.record import Record
from pyebpf.errors import BtfError, NotFound, closest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyebpf.btf.reader import Btf

PREFIX = "btf_trace_"


class TracepointArgument(Record):
    """One argument: `type` is its BTF id; `nullable` if the verifier takes it, where a pointer, for perhaps NULL."""

    name: str
    type: int
    nullable: bool


class RawTracepoint(Record):
    """`type` is the id of the typedef `btf_trace_NAME`: a tp_btf program's attach_btf_id."""

    name: str
    type: int
    arguments: tuple[TracepointArgument, ...]


def raw_tracepoint(btf: Btf, name: str) -> RawTracepoint:
    """Find a raw tracepoint. Raises NotFound with the closest names, BtfError for a typedef of something else.

    The typedef's prototype names nothing, so names come from the function `__traceiter_NAME` (since Linux 5.10) or
    `__bpf_trace_NAME`. Each of these has a first parameter `__data` that no program sees. Where BTF has neither, as
    in Linux 5.10 for those of power management, the arguments are arg1, arg2 and so on.
    """
    typedefs = btf.find(PREFIX + name, (Kind.TYPEDEF,))
    if not typedefs:
        raise NotFound(f"the kernel's BTF has no raw tracepoint {name!r}{closest(name, raw_tracepoint_names(btf))}")
    for function in (f"__traceiter_{name}", f"__bpf_trace_{name}"):
        # The function with the typedef, in a module's BTF, is the one of that module.
        for id_ in reversed(btf.find(function, (Kind.FUNC,))):
            node = btf.type_by_id(id_)
            assert isinstance(node, Func)
            proto = btf.type_by_id(node.type)
            if isinstance(proto, FuncProto) and proto.params:
                return RawTracepoint(name, typedefs[-1], _arguments(btf, name, id_, proto))
    return RawTracepoint(name, typedefs[-1], _numbered(btf, name, typedefs[-1]))


def _arguments(btf: Btf, name: str, function: int, proto: FuncProto) -> tuple[TracepointArgument, ...]:
    nullable = btf.nullable_parameters(function)
    by_verifier = NULLABLE_ARGUMENTS.get(name, ())
    # Of a module's tracepoint the verifier knows nothing (the same commit).
    of_module = btf.base is not None and function >= btf.start
    arguments = []
    for number, param in enumerate(proto.params[1:], 1):
        label = param.name.removesuffix(NULLABLE_SUFFIX)
        arguments.append(TracepointArgument(label, param.type, of_module or number in nullable or label in by_verifier))
    return tuple(arguments)


def _numbered(btf: Btf, name: str, typedef: int) -> tuple[TracepointArgument, ...]:
    """The arguments by the typedef, a pointer to a function: types without names."""
    alias = btf.type_by_id(typedef)
    pointer = btf.type_by_id(alias.type) if isinstance(alias, Typedef) else None
    proto = btf.type_by_id(pointer.type) if isinstance(pointer, Ptr) else None
    if not isinstance(proto, FuncProto):
        raise BtfError(f"BTF's {PREFIX}{name} is not a pointer to a function")
    # Which of them the verifier takes for NULL perhaps is known by name only.
    nullable = name in NULLABLE_ARGUMENTS or (btf.base is not None and typedef >= btf.start)
    return tuple(
        TracepointArgument(f"arg{number}", param.type, nullable) for number, param in enumerate(proto.params[1:], 1)
    )


def raw_tracepoint_names(btf: Btf, *, own: bool = False) -> Iterable[str]:
    """Names of all raw tracepoints, by id; of split BTF with `own` those of its module."""
    return (name.removeprefix(PREFIX) for name in btf.names((Kind.TYPEDEF,), own=own) if name.startswith(PREFIX))
