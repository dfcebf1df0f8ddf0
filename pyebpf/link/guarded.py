"""`GuardedLink`: an attachment that no descriptor holds; the guard process removes it if this one dies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.link.base import Link

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.kernel.guard import Removal
    from pyebpf.objects import Program

__all__ = ["GuardedLink"]


class GuardedLink(Link):
    """`removal` was promised before the attachment was made; what else it needs open is `held`."""

    def __init__(
        self,
        target: str,
        how: str,
        removal: Removal,
        *,
        program: Program | None = None,
        held: Sequence[Descriptor] = (),
        warnings: Sequence[str] = (),
    ) -> None:
        super().__init__(target, how, (), held, warnings=warnings, program=program)
        self._removal: Removal | None = removal

    @property
    def detached(self) -> bool:
        return self._removal is None

    def detach(self) -> None:
        """Remove the attachment, if it is this one's still. A second call does nothing."""
        removal, self._removal = self._removal, None
        try:
            if removal is not None:
                removal.perform()
        finally:
            super().detach()
