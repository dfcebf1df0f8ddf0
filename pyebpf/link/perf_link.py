"""A program on a perf event's descriptor: by a BPF link, else by ioctl."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from pyebpf.kernel import bpf, perf
from pyebpf.uapi.attach_types import AttachType

if TYPE_CHECKING:
    from pyebpf.kernel.descriptor import Descriptor

_NO_LINKS = frozenset({errno.EINVAL, errno.EOPNOTSUPP})


def attach_event(event: Descriptor, prog_fd: int, *, cookie: int = 0, what: str) -> tuple[Descriptor, bool]:
    """Attach to `event`; the descriptor that now holds the attachment, and whether it is a link.

    A link holds the event by itself: the event's descriptor is closed, which halves their number. With the ioctl the
    event's descriptor is the attachment, and the cookie is dropped: the helper that reads it came with links, so the
    program does not. Raises OSError.
    """
    try:
        # Since Linux commit b89fbfbb854c ("bpf: Implement minimal BPF perf link") (v5.15).
        link = bpf.link_create(
            prog_fd, event.fileno(), AttachType.PERF_EVENT, options=cookie.to_bytes(8, "little"), what=what
        )
    except OSError as error:
        if error.errno not in _NO_LINKS or (cookie and _has_links()):
            raise
    else:
        event.close()
        return link, True
    # A wrong program type is EINVAL as well, and is so here again.
    perf.set_bpf(event.fileno(), prog_fd)
    return event, False


def _has_links() -> bool:
    from pyebpf.features import Features, Support

    return Features().ask("attach:perf") is not Support.NO
