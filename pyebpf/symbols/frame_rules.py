"""Rules of call frames of the files that processes have mapped, one file after the other, a little at a time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from pyebpf.elf.budget import MAX_SECONDS, PATIENCE, Allowances, OverBudget
from pyebpf.elf.call_frame_program import ROW
from pyebpf.elf.call_frames import call_frames
from pyebpf.elf.symbols import ElfSymbols
from pyebpf.errors import PyebpfError
from pyebpf.symbols.mappings import VDSO, read_vdso
from pyebpf.symbols.process import open_mapped

if TYPE_CHECKING:
    from collections.abc import Generator

    from pyebpf.elf.headers import Segment
    from pyebpf.symbols.mappings import Mapping

_MAX_FILES = 16_384
#: Device, inode, path and mount namespace of a file; the bytes of a vDSO.
_Key: TypeAlias = "tuple[str, int, str, str] | bytes"


class FileRules(NamedTuple):
    """The rules of a file: `size` rows of the table from `first` on; `segments` are the file's."""

    first: int
    size: int
    segments: tuple[Segment, ...]


_NONE = FileRules(0, 0, ())


class FrameRules:
    """A table of the rows of files, `pyebpf.elf.call_frame_program.ROW` each, in memory that is given.

    `given_up` has the files whose rules take too much, or have no room in the table, with the reasons.
    """

    def __init__(self) -> None:
        self._table: memoryview | None = None
        self._next = 0
        self._files: dict[_Key, FileRules] = {}
        self._allowances = Allowances()
        self.given_up: dict[str, str] = {}

    def use(self, table: memoryview) -> None:
        """Write into this memory from now on, from its beginning."""
        self._table, self._next = table, 0
        self._files.clear()

    def of(self, pid: int, mapping: Mapping, namespace: str) -> Generator[None, None, FileRules]:
        """The rules of a mapping's file; on the way there come places where the caller may pause.

        `namespace` as `pyebpf.symbols.process.mount_namespace` tells it.
        """
        key = _key(pid, mapping, namespace)
        if key is None or (key not in self._files and len(self._files) >= _MAX_FILES):
            return _NONE
        if key not in self._files:
            self._files[key] = _NONE  # if nothing comes of it
            try:
                elf = _open(pid, mapping, key)
                if elf is not None:
                    self._files[key] = yield from self._read(elf)
            except OverBudget as error:
                self.given_up.setdefault(mapping.path, str(error))
            except PyebpfError:
                pass  # garbled, or replaced since: stacks follow frame pointers there
        return self._files[key]

    def _read(self, elf: ElfSymbols) -> Generator[None, None, FileRules]:
        assert self._table is not None
        first = place = self._next
        size = len(self._table) // ROW.size
        # A pass over a file of root's holds nobody up, since the caller may pause.
        elf.budget.seconds = self._allowances.left(elf.owner) if elf.owner else PATIENCE
        began = time.thread_time()
        for piece in call_frames(elf):
            end = place + len(piece) // ROW.size
            if end > size:
                raise OverBudget(f"{elf.path}: no room is left for its rows of .eh_frame, {size} of all files")
            self._table[place * ROW.size : end * ROW.size] = piece
            place = end
            paused = time.thread_time()
            self._allowances.spend(elf.owner, paused - began)
            yield
            began = time.thread_time()
            elf.budget.went_on_after(began - paused)
        self._next = place
        return FileRules(first, place - first, elf.segments)


def _key(pid: int, mapping: Mapping, namespace: str) -> _Key | None:
    """The identity of a mapping's file; None if there is none."""
    if mapping.path == VDSO:
        try:
            return read_vdso(pid, mapping)
        except OSError:
            return None
    return (mapping.device, mapping.inode, mapping.path, namespace) if mapping.is_file else None


def _open(pid: int, mapping: Mapping, key: _Key) -> ElfSymbols | None:
    if isinstance(key, bytes):
        return ElfSymbols.from_bytes(key, VDSO, seconds=MAX_SECONDS)
    opened = open_mapped(pid, mapping, key[3], MAX_SECONDS)
    return None if opened is None else opened[0]
