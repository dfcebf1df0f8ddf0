"""`Link`: a program attached to something, for as long as its descriptors are open."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Self

from pyebpf.kernel import info
from pyebpf.kernel.diagnosis import diagnose

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from pyebpf.errors import KernelError
    from pyebpf.kernel.descriptor import Descriptor

__all__ = ["Link", "attach_error"]


class Link:
    """One attachment. `target` says to what ("tracepoint sched:sched_switch"), `how` by which interface of the kernel.

    `notes` are lines on what was asked for and left out, such as one function of several that a library lacks. It ends
    with `detach()`, with `with`, or with the process, however that ends.
    """

    def __init__(
        self,
        target: str,
        how: str,
        links: Sequence[Descriptor],
        held: Sequence[Descriptor] = (),
        *,
        notes: Sequence[str] = (),
    ) -> None:
        self.target = target
        self.how = how
        self.notes = tuple(notes)
        self._links = tuple(links)
        # Perf events that ioctl attached to, and links of kernels that keep no event of their own.
        self._held = tuple(held)

    def __repr__(self) -> str:
        return f"<Link {self.target} by {self.how}, {'detached' if self.detached else 'attached'}>"

    @property
    def detached(self) -> bool:
        return all(descriptor.closed for descriptor in (*self._links, *self._held))

    @property
    def missed(self) -> int | None:
        """Events that the program missed, where the kernel counts them for this kind of link (kprobes); else None."""
        counts = [
            missed
            for descriptor in self._links
            if not descriptor.closed and (missed := info.link_info(descriptor.fileno()).missed) is not None
        ]
        return sum(counts) if counts else None

    def detach(self) -> None:
        """Stop events: once this returns, the program is not started any more. A second call does nothing.

        A perf-based tracepoint makes this wait for the kernel, some 70 ms; a raw tracepoint less than one.
        """
        for descriptor in (*self._links, *self._held):
            descriptor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.detach()


def attach_error(
    error: OSError,
    program: str,
    target: str,
    *,
    needs: Sequence[str] = ("CAP_BPF", "CAP_PERFMON"),
    meanings: Mapping[int, str | KernelError] | None = None,
) -> KernelError:
    """The error for a refused attachment of `program` to `target`."""
    common: dict[int, str | KernelError] = {errno.EEXIST: "this program is attached there already"}
    return diagnose(error, f"attaching {program} to {target}", needs=needs, meanings={**common, **(meanings or {})})
