"""`Host`: what attachments open in common, each thing once and only if something asks for it."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyebpf.attach.uprobes import Uprobe
    from pyebpf.kernel.functions import Traceable
    from pyebpf.kernel.tracefs import Tracefs
    from pyebpf.link.uprobes import ProbeLocations


class Host:
    """This machine, for as long as something is attached to it. Closing it ends no attachment."""

    def __init__(self, progress: Callable[[str], None] | None = None) -> None:
        self.progress = progress
        self._open = ExitStack()
        self._tracefs: Tracefs | None = None
        self._traceable: Traceable | None = None
        #: The places of functions of files that were looked up before anything was attached.
        self.located: dict[Uprobe, ProbeLocations] = {}

    def report(self, line: str) -> None:
        """Tell whoever waits how far an attachment is that takes its time."""
        if self.progress is not None:
            self.progress(line)

    def tracefs(self) -> Tracefs:
        """The `events` directory, open as long as this is. Raises NotPermitted, NotSupported."""
        if self._tracefs is None:
            from pyebpf.kernel.tracefs import Tracefs

            self._tracefs = self._open.enter_context(Tracefs())
        return self._tracefs

    def traceable(self) -> Traceable:
        """The functions that ftrace reaches, read once. Raises NotPermitted, NotSupported."""
        if self._traceable is None:
            from pyebpf.kernel.functions import Traceable

            self._traceable = Traceable(self.tracefs())
        return self._traceable

    def listed_name(self, address: int) -> str | None:
        """A function's name by its address, if the functions that ftrace reaches were read, and with addresses."""
        return None if self._traceable is None else self._traceable.name_at(address)

    def close(self) -> None:
        """Close what was opened. A second call does nothing."""
        self._tracefs = self._traceable = None
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
