"""Network namespaces: LINK_CREATE on a file of one, for sk_lookup and the flow dissector."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from pyebpf.errors import NotFound
from pyebpf.kernel import bpf
from pyebpf.kernel.descriptor import Descriptor
from pyebpf.link.base import Link, attach_error

if TYPE_CHECKING:
    from pyebpf.link.host import Host
    from pyebpf.objects import Program
    from pyebpf.specs.attach.sockets import FlowDissector, SkLookup

__all__ = ["attach_netns"]


def attach_netns(program: Program, target: SkLookup | FlowDissector, _: Host) -> Link:
    """Attach `program` in the namespace whose file is `target.netns`.

    Ends, too, when the namespace goes, which the link does not keep. Raises NotFound for what is no such file.
    """
    path = target.netns
    try:
        namespace = Descriptor(os.open(path, os.O_RDONLY | os.O_CLOEXEC), f"network namespace {path}")
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        raise NotFound(f"no network namespace {path}: it, or the process that it was of, is gone") from None
    except OSError as error:
        raise attach_error(error, program.name, str(target)) from error
    with namespace:
        try:
            link = bpf.link_create(program.fileno(), namespace.fileno(), target.attach_type, what=str(target))
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.EBADF):
                raise NotFound(f"{path} is no network namespace: give a file such as /proc/self/ns/net") from None
            taken = "a namespace has one flow dissector, and another is attached there or in the initial namespace"
            raise attach_error(
                error,
                program.name,
                str(target),
                needs=("CAP_BPF", "CAP_NET_ADMIN"),
                meanings={
                    errno.EEXIST: taken,
                    errno.E2BIG: taken if target.attach_type == _FLOW_DISSECTOR else "64 programs are attached there",
                    errno.ENOENT: "the namespace is about to go",
                },
            ) from error
    return Link(str(target), "netns link", [link], program=program)


#: BPF_FLOW_DISSECTOR of enum bpf_attach_type.
_FLOW_DISSECTOR = 17
