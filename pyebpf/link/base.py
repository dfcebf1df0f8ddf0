"""`Link`: a program attached to something, for as long as its descriptors are open."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Self

from pyebpf.errors import InvalidValue, NotSupported
from pyebpf.kernel import bpf
from pyebpf.kernel.errors_in_words import kernel_error, pin_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from pyebpf.errors import KernelError
    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.objects import Program


class Link:
    """One attachment. `target` says to what ("tracepoint sched:sched_switch"), `how` by which interface of the kernel.

    `warnings` are lines on what was asked for and left out, such as one function of several that a library lacks.
    `places` are names of the places of a uprobe or USDT probe, in the order in which `ctx.cookie` counts them. It ends
    with `detach()`, with `with`, or with the process, however that ends.
    """

    def __init__(
        self,
        target: str,
        how: str,
        links: Sequence[Descriptor],
        held: Sequence[Descriptor] = (),
        *,
        warnings: Sequence[str] = (),
        places: Sequence[str] = (),
        program: Program | None = None,
    ) -> None:
        self.target = target
        self.how = how
        self.warnings = tuple(warnings)
        self.places = tuple(places)
        #: The program that it started with or was updated to, where the kind of link can be updated.
        self.program = program
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
        from pyebpf.kernel.info import link_info

        counts = [
            missed
            for descriptor in self._links
            if not descriptor.closed and (missed := link_info(descriptor.fileno()).missed) is not None
        ]
        return sum(counts) if counts else None

    @property
    def id(self) -> int:
        """The link's number in the kernel, which `pyebpf.links()` lists. Raises NotSupported where there is no link."""
        from pyebpf.kernel.info import link_info

        return link_info(self._only_link("has no id").fileno()).id

    def update(self, program: Program, *, force: bool = False) -> None:
        """Run `program`, loaded for the same place, instead: no packet or call passes between the two.

        Only if the program that this Link put there is there still, unless `force`. Raises NotSupported for kinds of
        links that the kernel updates none of, InvalidValue for a program of another place, KernelError if another owner
        has replaced the program.
        """
        link = self._only_link("cannot be updated")
        before = self.program
        expected = None if force or before is None or before.closed else before.fileno()
        # For control groups the kernel looks at the program's type alone, not at the hook that it was verified for.
        if before is not None and program.spec.expected_attach_type != before.spec.expected_attach_type:
            raise InvalidValue(f"updating {self.target} to {program.name}: the program was loaded for another target")
        try:
            bpf.link_update(link.fileno(), program.fileno(), old_prog_fd=expected)
        except OSError as error:
            raise kernel_error(
                error,
                f"updating {self.target} to {program.name}",
                needs=("CAP_BPF", "CAP_NET_ADMIN"),
                meanings={
                    **({} if expected is None else {errno.EPERM: f"another owner has replaced {_name(before)} there"}),
                    errno.EINVAL: "the program is of another type, or was loaded for another target",
                    errno.ENOLINK: "its target no longer exists",
                },
            ) from error
        self.program = program

    def pin(self, path: str | PathLike[str]) -> None:
        """Keep it attached beyond this process, under a new name on a bpf file system, until that file is removed.

        Raises NotSupported where a program is attached without a link.
        """
        link = self._only_link("cannot be pinned")
        try:
            bpf.obj_pin(link.fileno(), path)
        except OSError as error:
            raise pin_error(error, self.target, path) from error

    def check_pinnable(self) -> None:
        """Refuse what no link of the kernel holds, with NotSupported."""
        self._only_link("cannot be pinned")

    def _only_link(self, what: str) -> Descriptor:
        """The one descriptor of a link that the kernel keeps by itself."""
        if len(self._links) != 1 or self._held:
            raise NotSupported(f"{self.target} {what}: it is attached by {self.how}, not by one link")
        return self._links[0]

    def detach(self) -> None:
        """Stop events: once this returns, the program is not started any more. A second call does nothing.

        A perf-based tracepoint makes this wait for the kernel, some 70 ms; a raw tracepoint less than one.
        """
        for descriptor in (*self._links, *self._held):
            descriptor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()


def _name(program: Program | None) -> str:
    return program.name if program is not None else "the program"


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
    return kernel_error(error, f"attaching {program} to {target}", needs=needs, meanings={**common, **(meanings or {})})
