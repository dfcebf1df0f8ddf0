"""Links that there are in the kernel, whoever made them: found by their ids."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.kernel import bpf, info
from pyebpf.kernel.errors_in_words import kernel_error
from pyebpf.kernel.interfaces import interface_name
from pyebpf.link.base import Link
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import LinkType

if TYPE_CHECKING:
    from collections.abc import Iterator

# The union of struct bpf_link_info, from offset 16.
_UNION = 16
_TWO, _ID_AND_TYPE, _NAME = Struct("=II"), Struct("=QI"), Struct("=QI")
_INTERFACES = (LinkType.XDP, LinkType.TCX, LinkType.NETKIT)


class FoundLink(NamedTuple):
    """A link in the kernel: its `id`, `kind` ("xdp", "tracing" …), `target`, and its program's name and id."""

    id: int
    kind: str
    target: str
    program: str
    program_id: int

    def open(self) -> Link:
        """Hold it: it lasts at least as long as what this returns. Raises NotFound if it has gone."""
        from pyebpf.errors import NotFound

        try:
            descriptor = bpf.link_get_fd_by_id(self.id)
        except FileNotFoundError:
            raise NotFound(f"link {self.id} ({self.target}) no longer exists") from None
        except OSError as error:
            raise kernel_error(error, f"opening link {self.id}", needs=("CAP_SYS_ADMIN",)) from error
        return Link(self.target, f"{self.kind} link", [descriptor])


def program_type_name(number: int) -> str:
    """The name of enum bpf_link_type, in lower case."""
    try:
        return LinkType(number).name.lower()
    except ValueError:
        return f"type {number}"


def links() -> list[FoundLink]:
    """Every link in the kernel, by id. Raises NotPermitted without CAP_SYS_ADMIN."""
    return list(_walk())


def _walk() -> Iterator[FoundLink]:
    number = 0
    try:
        while (following := bpf.link_get_next_id(number)) is not None:
            number = following
            try:
                descriptor = bpf.link_get_fd_by_id(number)
            except (FileNotFoundError, BlockingIOError):
                continue  # gone since its number was read, or still being made (EAGAIN)
            with descriptor:
                found = info.link_info(descriptor.fileno())
                name = _program_name(found.program_id)
                target = described(descriptor.fileno())
            yield FoundLink(number, program_type_name(found.type), target, name, found.program_id)
    except OSError as error:
        raise kernel_error(error, "listing links", needs=("CAP_SYS_ADMIN",)) from error


def _program_name(number: int) -> str:
    try:
        with bpf.prog_get_fd_by_id(number) as program:
            return info.program_info(program.fileno()).name
    except FileNotFoundError:
        return ""


def described(fd: int) -> str:
    """Describe a link's attach point, as far as the kernel tells: "xdp eth0", "tcx eth0 ingress"."""
    buffer = info.link_info_bytes(fd)
    kind, *_ = _TWO.unpack_from(buffer)
    first, second = _TWO.unpack_from(buffer, _UNION)
    name = program_type_name(kind)
    if kind in _INTERFACES:
        place = f"{name} {interface_name(first)}"
        return place if kind == LinkType.XDP else f"{place} {_direction(second)}"
    if kind == LinkType.RAW_TRACEPOINT:
        return f"raw_tp {info.raw_tracepoint_name(fd)}"
    if kind == LinkType.CGROUP:
        number, attach_type = _ID_AND_TYPE.unpack_from(buffer, _UNION)
        return f"cgroup {number} {_direction(attach_type)}"
    if kind == LinkType.NETNS:
        return f"netns {first} {_direction(second)}"
    if kind == LinkType.TRACING:
        return f"tracing {_direction(first)}"
    return name


def _direction(attach_type: int) -> str:
    try:
        return AttachType(attach_type).name.lower().removeprefix("tcx_").removeprefix("netkit_")
    except ValueError:
        return f"attach type {attach_type}"
