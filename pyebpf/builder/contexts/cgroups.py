"""Control groups: what programs at each hook are given, and what they may return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyebpf.builder.contexts import structs
from pyebpf.builder.contexts.fields import StructContext
from pyebpf.builder.contexts.skb import SkBuffProgramContext
from pyebpf.builder.values.packets import Packet
from pyebpf.builder.values.strings import StringSource
from pyebpf.specs.attach.cgroups import HOOKS, CgroupAttachSpec, CgroupSkb
from pyebpf.uapi.helper_ids import SYSCTL_GET_NAME

if TYPE_CHECKING:
    from collections.abc import Hashable

    from pyebpf.builder.program import ProgramBuilder

__all__ = [
    "CgroupDeviceProgramContext",
    "CgroupSkbProgramContext",
    "CgroupSockAddrProgramContext",
    "CgroupSockProgramContext",
    "CgroupSockoptProgramContext",
    "CgroupSysctlProgramContext",
    "SockOpsProgramContext",
]

#: Bytes of a name that the kernel gives of a setting, "net/ipv4/ip_forward": more than any has.
SYSCTL_NAME = 128


class CgroupProgramContext(StructContext[CgroupAttachSpec]):
    """Parameters are the fields of the context's struct."""

    @property
    def hook(self) -> str:
        return self.attach.hook

    @property
    def return_range(self) -> tuple[int, int]:
        return HOOKS[self.attach.hook].results

    def code_key(self) -> Hashable:
        return self.attach.hook


class CgroupSkbProgramContext(SkBuffProgramContext[CgroupSkb]):
    """A packet, from its network header on: fields of struct __sk_buff."""

    @property
    def return_range(self) -> tuple[int, int]:
        return HOOKS[self.attach.hook].results

    def code_key(self) -> Hashable:
        return self.attach.hook


class CgroupSockProgramContext(CgroupProgramContext):
    """A socket that is made, bound or closed."""

    table = structs.SOCK


class CgroupSockAddrProgramContext(CgroupProgramContext):
    """An address that a system call was given, or is about to give."""

    table = structs.SOCK_ADDR


class CgroupSockoptProgramContext(CgroupProgramContext):
    """A socket option. `optval` is the memory of its value, one page of it at most."""

    table = structs.SOCKOPT
    memory_name = "optval"

    def memory(self) -> Packet:
        return Packet((8, 16), None, width=8, writable=True, copies=False, name="the option's value")


class CgroupDeviceProgramContext(CgroupProgramContext):
    """A device file. `access_type` is what for (BPF_DEVCG_ACC_*), shifted by 16, and the kind of device."""

    table = structs.CGROUP_DEVICE


class SockOpsProgramContext(CgroupProgramContext):
    """An event of a TCP socket, `op` (BPF_SOCK_OPS_*)."""

    table = structs.SOCK_OPS


class CgroupSysctlProgramContext(CgroupProgramContext):
    """Beside the struct's fields there is `name`, the setting's path below /proc/sys."""

    table = structs.SYSCTL

    def field(self, p: ProgramBuilder, name: str) -> Any:
        if name != "name":
            return super().field(p, name)

        def read_into(program: ProgramBuilder, destination: Any, size: int) -> None:
            program.b.call(SYSCTL_GET_NAME, program.context, destination, program.b.const(size), program.b.const(0))

        return StringSource("the setting's name", read_into, SYSCTL_NAME, p.b.where)
