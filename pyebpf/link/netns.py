"""Network namespaces: LINK_CREATE on a file of one, for sk_lookup and the flow dissector."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyebpf.errors import NotFound
from pyebpf.link.creation import As, make_link, open_place
from pyebpf.uapi.bpf import ProgramType

if TYPE_CHECKING:
    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.link.base import Link
    from pyebpf.link.creation import Meanings
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs.attach.netfilter import Netfilter
    from pyebpf.specs.attach.sockets import FlowDissector, SkLookup

__all__ = ["NO_NAMESPACE", "attach_netns", "open_namespace"]

_MISSING = "no network namespace {target.netns}: it, or the process that it was of, is gone"
_NONE = As(NotFound, "{target.netns} is no network namespace: give a file such as /proc/self/ns/net")
#: What errors mean of a file that is to be a network namespace.
NO_NAMESPACE: Meanings = {errno.EINVAL: _NONE, errno.EBADF: _NONE}
_TAKEN = "a namespace has one flow dissector, and another is attached there or in the initial namespace"
_MEANINGS: Meanings = {
    **NO_NAMESPACE,
    errno.EEXIST: _TAKEN,
    errno.E2BIG: "64 programs are attached there",
    errno.ENOENT: "the namespace is about to go",
}


def attach_netns(program: Program, target: SkLookup | FlowDissector, _: Host) -> Link:
    """Attach `program` in the namespace whose file is `target.netns`.

    Ends, too, when the namespace goes, which the link does not keep. Raises NotFound for what is no such file.
    """
    meanings = _MEANINGS
    if target.kind is ProgramType.FLOW_DISSECTOR:
        meanings = {**meanings, errno.E2BIG: _TAKEN}
    with open_namespace(program, target) as namespace:
        return make_link(program, target, namespace.fileno(), "netns link", meanings)


def open_namespace(program: Program, target: SkLookup | FlowDissector | Netfilter) -> Descriptor:
    """The namespace that `target` names. Raises NotFound."""
    return open_place(program, target, target.netns, f"network namespace {target.netns}", _MISSING)
