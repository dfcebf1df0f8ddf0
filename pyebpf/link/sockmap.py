"""Maps of sockets: verdicts on what the sockets in one send and receive."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from pyebpf.errors import InvalidValue, KernelError
from pyebpf.kernel import bpf
from pyebpf.kernel.descriptor import Descriptor
from pyebpf.link.base import Link
from pyebpf.link.creation import make_link, refused

if TYPE_CHECKING:
    from pyebpf.link.creation import Meanings
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs.attach.sockets import SkMsg, SkSkb

__all__ = ["attach_sockmap"]

_MEANINGS: Meanings = {
    errno.EBUSY: "the map has another program there",
    errno.EINVAL: "that is no map of sockets, or has a verdict of the other kind",
    errno.EOPNOTSUPP: "that is no map of sockets",
}


class MapLink(Link):
    """A program that PROG_ATTACH put on a map. The kernel takes it off when no descriptor of the map is left."""

    def __init__(self, target: str, program: Program, map_: Descriptor, attach_type: int) -> None:
        super().__init__(target, "map", (), [map_], program=program)
        self._attached = program
        self._map = map_
        self._attach_type = attach_type

    def detach(self) -> None:
        if self.detached:
            return
        with self._map:
            try:
                bpf.prog_detach(self._map.fileno(), self._attached.fileno(), self._attach_type)
            except OSError as error:
                if error.errno != errno.ENOENT:  # another program took its place
                    raise


def attach_sockmap(program: Program, target: SkMsg | SkSkb, _: Host) -> Link:
    """Attach `program` to a sockmap or sockhash; it sees the sockets that are put into the map from now on.

    Detached, it is given to no other socket; those in the map keep it until they are taken out.
    """
    if not hasattr(target.map, "fileno"):
        raise InvalidValue(f"{program.name}: {target.map!r} is no map: give a bpf.sockmap(…) or bpf.sockhash(…)")
    number = target.map.fileno()
    try:
        # Since Linux commit 699c23f02c65 ("bpf: Add bpf_link support for sk_msg and sk_skb progs") (v6.10).
        return make_link(program, target, number, "sockmap link", _MEANINGS)
    except KernelError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
    try:
        bpf.prog_attach(number, program.fileno(), target.attach_type)
    except OSError as error:
        raise refused(error, program, target, _MEANINGS) from error
    what = str(target)
    return MapLink(what, program, Descriptor(os.dup(number), what), target.attach_type)
