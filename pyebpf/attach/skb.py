"""struct __sk_buff: what programs on packets of the stack are called with, for tc, control groups and sockets alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from pyebpf.builder.context import ProgramContext
from pyebpf.builder.values.lvalue import Lvalue
from pyebpf.builder.values.packets import Packet
from pyebpf.errors import closest
from pyebpf.specs import AttachSpec
from pyebpf.types import BE16, BE32, U8, U32, U64, ArrayType, IntType
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from pyebpf.builder.program import ProgramBuilder
    from pyebpf.types import Type

S = TypeVar("S", bound=AttachSpec)

#: Offset and type of each field. Those in network order are read as numbers of this machine; a port or protocol takes
#: the first half of its 32 bits.
SKB_FIELDS: dict[str, tuple[int, Type]] = {
    "len": (0, U32),
    "pkt_type": (4, U32),
    "mark": (8, U32),
    "queue_mapping": (12, U32),
    "protocol": (16, BE16),
    "vlan_present": (20, U32),
    "vlan_tci": (24, U32),
    "vlan_proto": (28, BE16),
    "priority": (32, U32),
    "ingress_ifindex": (36, U32),
    "ifindex": (40, U32),
    "tc_index": (44, U32),
    "cb": (48, ArrayType(U32, 5)),
    "hash": (68, U32),
    "tc_classid": (72, U32),
    "napi_id": (84, U32),
    "family": (88, U32),
    "remote_ip4": (92, BE32),
    "local_ip4": (96, BE32),
    "remote_ip6": (100, ArrayType(BE32, 4)),
    "local_ip6": (116, ArrayType(BE32, 4)),
    "remote_port": (132, BE32),
    "local_port": (136, U32),
    "tstamp": (152, U64),
    "wire_len": (160, U32),
    "gso_segs": (164, U32),
    "gso_size": (176, U32),
    "tstamp_type": (180, U8),
    "hwtstamp": (184, U64),
}
#: Offsets of `data` and `data_end`, of `data_meta` and `data`, and of the packet's length.
ENDS, META_ENDS, LENGTH = (76, 80), (140, 76), 0

_SOCKET = frozenset({"family", "remote_ip4", "local_ip4", "remote_ip6", "local_ip6", "remote_port", "local_port"})
#: Fields that programs of a kind may not read, and those that they may write (net/core/filter.c, *_is_valid_access).
_HIDDEN: dict[ProgramType, frozenset[str]] = {
    ProgramType.SCHED_CLS: _SOCKET,
    ProgramType.SOCKET_FILTER: _SOCKET | {"tc_classid", "tstamp", "wire_len", "hwtstamp"},
    ProgramType.CGROUP_SKB: frozenset({"tc_classid", "wire_len"}),
    ProgramType.SK_SKB: frozenset({"tc_classid", "tstamp", "wire_len", "hwtstamp", "tstamp_type"}),
}
_WRITABLE: dict[ProgramType, frozenset[str]] = {
    ProgramType.SCHED_CLS: frozenset(
        {"mark", "tc_index", "priority", "tc_classid", "cb", "tstamp", "queue_mapping"},
    ),
    ProgramType.SOCKET_FILTER: frozenset({"cb"}),
    ProgramType.CGROUP_SKB: frozenset({"mark", "priority", "cb", "tstamp"}),
    ProgramType.SK_SKB: frozenset({"tc_index", "priority"}),
}


class SkBuffProgramContext(ProgramContext[S], Generic[S]):
    """`ctx.packet` and the fields of struct __sk_buff, for any kind of program that is called with one.

    In a subclass `direct` says whether the program sees the packet's memory, `changes` whether it may write there.
    """

    direct: ClassVar[bool] = True
    changes: ClassVar[bool] = False

    def attribute(self, p: ProgramBuilder, name: str) -> object:
        if name == "packet":
            return Packet(ENDS if self.direct else None, LENGTH, writable=self.changes)
        return self.field(p, name)

    def field(self, p: ProgramBuilder, name: str) -> object:
        offset, type_ = self._field(p, name)
        writable = name in _WRITABLE.get(p.program_type, ())
        return p.load_value(Lvalue(base=p.context, offset=offset, owner=name, writable=writable, fixed=True), type_)

    def set_attribute(self, p: ProgramBuilder, name: str, value: object) -> None:
        offset, type_ = self._field(p, name)
        writable = _WRITABLE.get(p.program_type, frozenset())
        if name not in writable or not isinstance(type_, IntType):
            one = f"{name} has elements to assign to" if name in writable else f"{name} is only read here"
            p.fail(f"{one}; what can be written is {', '.join(sorted(writable))}")
        p.store_value(p.context, offset, type_, value)

    def _field(self, p: ProgramBuilder, name: str) -> tuple[int, Type]:
        hidden = _HIDDEN.get(p.program_type, frozenset())
        if name in SKB_FIELDS and name not in hidden:
            return SKB_FIELDS[name]
        if name in hidden:
            p.fail(f"{name}: {p.program_type_name} programs cannot access this field of the sk_buff")
        known = ("packet", *(each for each in SKB_FIELDS if each not in hidden))
        p.fail(f"an sk_buff has no field {name}{closest(name, known)}: it has {', '.join(known)}")
