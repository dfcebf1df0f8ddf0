"""Source lines and inlined calls of addresses in mapped files, by their debugging information."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.elf.budget import OverBudget
from pyebpf.errors import PyebpfError
from pyebpf.symbols.debug import debug_info_of

if TYPE_CHECKING:
    from pyebpf.elf.dwarf.info import DebugInfo, SourceLine
    from pyebpf.symbols.process import MappedFile, MappedFiles

#: Bytes of debugging information that are kept, of all files.
_ROOM = 1 << 26


class SourceLines:
    """The debugging information of files, those asked for least lately dropped. `files` counts the time it takes."""

    def __init__(self, files: MappedFiles) -> None:
        self._files = files
        self._known: dict[MappedFile, DebugInfo | None] = {}

    def find(self, file: MappedFile, address: int) -> tuple[SourceLine, ...]:
        """The lines of an address of a file, the innermost inlined call first; none where they are not known."""
        if file in self._known and self._known[file] is None:
            return ()
        files = self._files
        try:
            with files.spending(file.elf.owner, file.path) as seconds:
                file.elf.budget.seconds, file.elf.budget.patience = seconds, files.patience
                file.elf.budget.start()
                info = self._open(file)
                if info is None:
                    return ()
                if info.incomplete:
                    files.give_up(f"{file.path} ", f"{info.elf.path}: the file that it shares DWARF with is missing")
                info.limit(seconds, files.patience)
                return info.lines(address)
        except OverBudget as error:
            files.give_up(file.path, str(error))
        except PyebpfError:
            pass  # replaced since, or garbled: addresses keep the function's name
        self._known[file] = None
        return ()

    def _open(self, file: MappedFile) -> DebugInfo | None:
        info = self._known.pop(file, None) or debug_info_of(file.elf, root=file.root, path=file.path)
        while self._known and sum(each.cost for each in self._known.values() if each) > _ROOM:
            oldest = next(each for each, info in self._known.items() if info)
            del self._known[oldest]
        self._known[file] = info
        return info
