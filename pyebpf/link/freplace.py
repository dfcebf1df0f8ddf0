"""freplace: a program in place of another's function; the load names both, the link only puts it there."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyebpf.attach.freplace import Freplace
from pyebpf.kernel import bpf
from pyebpf.link.base import Link, attach_error

if TYPE_CHECKING:
    from pyebpf.link.host import Host
    from pyebpf.objects import Program


def attach_replacement(program: Program, target: Freplace, _: Host) -> Link:
    """Attach `program` (kind EXT) in place of the function that it was loaded for. Raises NotPermitted, KernelError."""
    what = f"function {target.function} of program {target.loaded.name}"
    try:
        descriptor = bpf.raw_tracepoint_open(program.fileno())
    except OSError as error:
        meanings = {errno.EBUSY: "another program has taken its place already"}
        raise attach_error(error, program.name, what, meanings=meanings) from error
    return Link(what, "freplace link", [descriptor])


ATTACH = {
    Freplace: attach_replacement,
}
"""The function that attaches a program, by class of its attach spec."""
