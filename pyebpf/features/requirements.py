"""Features that this kernel lacks: the line that says which Linux has them, once something else failed there."""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING

from pyebpf.errors import NotSupported
from pyebpf.features import Features, Support
from pyebpf.uapi.errnos import errno_name

if TYPE_CHECKING:
    from pyebpf.specs import AttachSpec
    from pyebpf.specs.attach_point import KernelRequirement
    from pyebpf.uapi.bpf import MapType, ProgramType


def lacking(place: AttachSpec, doing: str, number: int) -> NotSupported | None:
    """The error for `doing` ("loading program p"), refused with errno `number`, where this kernel lacks `place`.

    None where it has the place, or could not tell.
    """
    wanted = place.requirement
    return _missing(wanted, doing, number) if wanted is not None else None


def lacking_program(type_: ProgramType, doing: str, number: int) -> NotSupported | None:
    """As `lacking`, of a program that is for no place: where this kernel lacks its type."""
    from pyebpf.specs.attach_point import SYSCALL_PROGRAMS
    from pyebpf.uapi.bpf import ProgramType

    return _missing(SYSCALL_PROGRAMS, doing, number) if type_ is ProgramType.SYSCALL else None


def lacking_map(type_: MapType, doing: str, number: int) -> NotSupported | None:
    """As `lacking`, of a map: where this kernel lacks its type."""
    from pyebpf.specs.map_traits import MAP_TRAITS

    if not _lacks(f"map:{type_.name.lower()}", number):
        return None
    return NotSupported(
        f"{doing}: {_this_kernel()} has no maps of type {type_.name} (needs Linux "
        f"{MAP_TRAITS[type_].since} or later): {errno_name(number)}",
        number,
    )


#: The release that brought a kind of types to BTF, by its number, after Linux 5.10.
_TYPES_SINCE = {16: ("FLOAT", "5.13"), 17: ("DECL_TAG", "5.16"), 18: ("TYPE_TAG", "5.17"), 19: ("ENUM64", "6.0")}


def lacking_types(log: str) -> str:
    """The kind of types that this kernel does not know, by its log of BTF, with the release; empty if it knows all."""
    found = re.search(r"Invalid btf_info:([0-9a-f]{7,8})$", log.strip())
    kind = _TYPES_SINCE.get(int(found[1], 16) >> 24 & 0x1F) if found else None
    if kind is None:
        return ""
    return f"{_this_kernel()} has no BTF types of kind {kind[0]} (needs Linux {kind[1]} or later)"


def _missing(wanted: KernelRequirement, doing: str, number: int) -> NotSupported | None:
    if not _lacks(wanted.feature, number):
        return None
    return NotSupported(
        f"{doing}: {_this_kernel()} has no {wanted.name} (needs Linux {wanted.release} or later"
        f"{f' with {wanted.config}' if wanted.config else ''}): {wanted.alternative} ({errno_name(number)})",
        number,
    )


def _lacks(feature: str, number: int) -> bool:
    # To a kernel what it does not know is a wrong number; what it knows may be one, too, so that it is asked.
    return number == errno.EINVAL and Features().ask(feature) is Support.NO


def _this_kernel() -> str:
    return f"this kernel ({os.uname().release})"
