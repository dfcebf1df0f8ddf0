"""Attachments: one file a family, each with a table `ATTACH` from class of spec to the function that attaches.

Such a function takes the loaded program, the spec and the `Host`, and returns a Link. A table `PREPARE` has functions
of the spec and the `Host` that read files before anything is attached.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyebpf.errors import check_argument
from pyebpf.link.base import Link
from pyebpf.link.host import Host
from pyebpf.objects import Program
from pyebpf.specs import AttachSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


__all__ = ["Host", "Link", "attach", "attach_group", "prepare"]


def _family(target: AttachSpec) -> Any:
    """The family's file here, which is called as the file of the spec."""
    return import_module(f"{__name__}.{type(target).__module__.rpartition('.')[2]}")


def _attacher(target: AttachSpec) -> Callable[..., Link]:
    found: Callable[..., Link] = _family(target).ATTACH[type(target)]
    return found


def prepare(target: AttachSpec, host: Host) -> None:
    """Read the files that attaching needs, before anything is attached that would see it. Raises as `attach` does."""
    look_up = getattr(_family(target), "PREPARE", {}).get(type(target))
    if look_up is not None:
        look_up(target, host)


def attach(program: Program, target: AttachSpec, host: Host | None = None) -> Link:
    """Attach a loaded program; the link that holds it.

    `host` keeps what many attachments open in common. Raises NotFound, NotPermitted, NotSupported or KernelError, each
    with one line that says what is missing.
    """
    check_argument("program", program, Program, "a loaded program")
    check_argument("target", target, AttachSpec, "an attach spec, such as Tracepoint(…)")
    function = _attacher(target)
    if host is not None:
        return function(program, target, host)
    with Host() as own:
        return function(program, target, own)


def attach_group(members: Sequence[tuple[Program, AttachSpec]], host: Host) -> Link:
    """Attach loaded programs whose places are of one group; the one link that holds them."""
    return _attacher(members[0][1])(members, host)
