"""Attachments: one file a family, each with a table `ATTACH` from class of spec to the function that attaches.

Such a function takes the loaded program, the spec and the `Host`, and returns a Link.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from pyebpf.link.base import Link
from pyebpf.link.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.objects import Program
    from pyebpf.specs import AttachSpec

__all__ = ["Host", "Link", "attach", "attach_group"]


def _attacher(target: AttachSpec) -> Callable[..., Link]:
    """The function of the family's file here, which is called as the file of the spec."""
    family = type(target).__module__.rpartition(".")[2]
    found: Callable[..., Link] = import_module(f"{__name__}.{family}").ATTACH[type(target)]
    return found


def attach(program: Program, target: AttachSpec, host: Host | None = None) -> Link:
    """Attach a loaded program; the link that holds it.

    `host` keeps what many attachments open in common. Raises NotFound, NotPermitted, NotSupported or KernelError, each
    with one line that says what is missing.
    """
    function = _attacher(target)
    if host is not None:
        return function(program, target, host)
    with Host() as own:
        return function(program, target, own)


def attach_group(members: Sequence[tuple[Program, AttachSpec]], host: Host) -> Link:
    """Attach loaded programs whose places are of one group; the one link that holds them."""
    return _attacher(members[0][1])(members, host)
