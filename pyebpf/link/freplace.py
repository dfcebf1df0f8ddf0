"""freplace: a program in place of another's function; the load names both, the link only puts it there."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyebpf.kernel import bpf
from pyebpf.link.base import Link, attach_error

if TYPE_CHECKING:
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs.attach.programs import Replacement

__all__ = ["attach_replacement"]


def attach_replacement(program: Program, target: Replacement, _: Host) -> Link:
    """Attach `program` (kind EXT) in place of the function that it was loaded for. Raises NotPermitted, KernelError."""
    what = f"function {target.function} of program {target.loaded.name}"
    try:
        descriptor = bpf.raw_tracepoint_open(program.fileno())
    except OSError as error:
        meanings = {errno.EBUSY: "another program has taken its place already"}
        raise attach_error(error, program.name, what, meanings=meanings) from error
    return Link(what, "freplace link", [descriptor])
