"""struct_ops: a table registered by a link where the kernel has those, else by its map's entry."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyebpf.attach.struct_ops import StructOpsMember
from pyebpf.errors import KernelError, NotSupported
from pyebpf.kernel import bpf, map_elements
from pyebpf.link.base import Link, attach_error
from pyebpf.objects import make_map
from pyebpf.objects.struct_ops import table_bytes
from pyebpf.specs import MapSpec
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_LINK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.objects.map import KernelMap

_FIRST = bytes(4)  # the map's only key, 0


def attach_struct_ops(members: Sequence[tuple[Program, StructOpsMember]], _: Host) -> Link:
    """Register the table that `members` are the functions of. Raises NotFound, InvalidValue, KernelError."""
    first = members[0][1]
    what = f"struct_ops {first.operations}"
    value = table_bytes(
        first.operations, dict(first.values), {target.member: program.fileno() for program, target in members}
    )
    program = members[0][0].name
    if members[0][0].spec.attach_module:
        raise NotSupported(f"{what}: tables of modules are not supported")
    made, linked = _make(first.operations)
    try:
        try:
            if not linked:
                return RegisteredTable(what, made, value)
            map_elements.map_update_elem(made.fileno(), _FIRST, value, 0)
            link = bpf.link_create(made.fileno(), 0, AttachType.STRUCT_OPS, what=what)
            made.close()
            return Link(what, "struct_ops link", [link])
        except OSError as error:
            raise attach_error(error, program, what, needs=("CAP_BPF", "CAP_NET_ADMIN"), meanings=_MESSAGES) from error
    except BaseException:
        made.close()
        raise


class RegisteredTable(Link):
    """A table that its map's entry registers until it is deleted: by `detach()`, or by the guard of a dead process."""

    def __init__(self, target: str, table: KernelMap, value: bytes) -> None:
        from pyebpf.kernel.guard import guard

        super().__init__(target, "struct_ops map", [])
        self._table: KernelMap | None = table
        self._removal = guard("struct_ops", descriptors=[table.fileno()])
        try:
            map_elements.map_update_elem(table.fileno(), _FIRST, value, 0)
        except BaseException:
            self._removal.forget()
            raise

    @property
    def detached(self) -> bool:
        return self._table is None

    def detach(self) -> None:
        """Take the table back. Sockets that use it go on with it."""
        if self._table is not None:
            table, self._table = self._table, None
            with table:
                self._removal.perform()


_MESSAGES: Mapping[int, str | KernelError] = {
    errno.EINVAL: "the kernel wants more members, or other values: a function it cannot do without, a name",
    errno.EEXIST: "one of that name is registered already",
    errno.EBUSY: "it is registered already",
}


def _make(operations: str) -> tuple[KernelMap, bool]:
    """The map, and whether a link registers it.

    Since Linux commit 68b04864ca42 ("bpf: Create links for BPF struct_ops maps.") (in v6.4) with BPF_F_LINK; before,
    storing the value registers it.
    """
    spec = MapSpec(operations[:15], MapType.STRUCT_OPS, None, None, 1, BPF_F_LINK, struct_ops=operations)
    try:
        return make_map(spec), True
    except KernelError as error:
        if error.errno != errno.EINVAL:
            raise
    return make_map(MapSpec(operations[:15], MapType.STRUCT_OPS, None, None, 1, struct_ops=operations)), False


ATTACH = {
    StructOpsMember: attach_struct_ops,
}
"""The function that attaches a program, by class of its attach spec."""
