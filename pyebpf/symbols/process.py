"""Names of addresses in processes, also of those that have ended since they were seen."""

from __future__ import annotations

import os
import time
from bisect import bisect_right
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from pyebpf.elf.budget import MAX_SECONDS, PATIENCE, Allowances, Hurry, OverBudget, Room, for_ever
from pyebpf.elf.symbols import ElfSymbols
from pyebpf.errors import PyebpfError
from pyebpf.symbols.debug import include_debug_symbols
from pyebpf.symbols.files import ElfFile
from pyebpf.symbols.frame import UNKNOWN, Frame
from pyebpf.symbols.mappings import VDSO, Mapping, read_mappings, read_vdso
from pyebpf.symbols.perf_map import PerfMap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyebpf.elf.symbol_table import SymbolTable
    from pyebpf.symbols.source_lines import SourceLines

_MAX_VDSOS = 64
_PERF_MAP = "/tmp/perf-{}.map"  # noqa: S108 - where just-in-time compilers and perf have agreed to look for it
_MAX_PROCESSES = 16_384
_LOOK_AGAIN, _LOOK_AGAIN_SOON = 1.0, 0.1  # seconds: at mappings, at code that a process has made
# What is kept at most: mappings of all processes, 350 bytes each, and of one process how often it was found changed,
# and frames that have been asked for; files, and bytes of their symbols and of names in perf maps.
_MAX_MAPPINGS, _MAX_SNAPSHOTS, _MAX_FRAMES = 131_072, 4, 8192
_MAX_FILES, _SYMBOLS_ROOM, _PERF_MAPS_ROOM = 16_384, 1 << 25, 1 << 25
_SYMBOL_COST = 28
#: Looks at one process in a second, whatever names it takes on.
_MAX_LOOKS = 8


class MappedFile:
    """A mapped file. Its headers are read when it is first seen, its symbols when one is asked for."""

    def __init__(self, elf: ElfSymbols, root: str, path: str) -> None:
        self.elf = elf
        self.root = root
        self.path = path
        self.table: SymbolTable | None = None
        self.failed = False

    def address_of(self, offset: int) -> int | None:
        return self.elf.address_of(offset)

    @property
    def cost(self) -> int:
        """About how much memory its symbols take."""
        return 0 if self.table is None else len(self.table) * _SYMBOL_COST + self.elf.string_bytes


class MappedFiles:
    """Files by what identifies them, shared by all processes that map them; those asked for least lately are dropped.

    `given_up` has the files whose symbols were too many, or took too long, with the reasons.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, str, str], MappedFile | None] = {}
        self._vdso: dict[bytes, MappedFile] = {}
        self._tables: dict[MappedFile, int] = {}
        self.allowances = Allowances()
        self.given_up: dict[str, str] = {}
        self.patience: Callable[[], float] = for_ever
        self._spent = 0.0

    def get(self, pid: int, mapping: Mapping, namespace: str) -> MappedFile | None:
        """The file of a mapping of the living process `pid`; `namespace` is "" where it has our view of files."""
        if mapping.path == VDSO:
            return self._read_vdso(pid, mapping)
        if not mapping.is_file:
            return None
        key = (mapping.device, mapping.inode, mapping.path, namespace)
        if key in self._known:
            module = self._known.pop(key)
        else:
            module = self._open(pid, mapping, namespace)
            if len(self._known) >= _MAX_FILES:
                del self._known[next(iter(self._known))]
        self._known[key] = module
        return module

    def table(self, module: MappedFile) -> SymbolTable | None:
        """The symbols of a file; None if they cannot be read."""
        if module.table is not None:
            self._tables[module] = self._tables.pop(module, 0)
            return module.table
        if module.failed:
            return None
        elf = module.elf
        try:
            with self.spending(elf.owner, module.path) as seconds:
                elf.budget.seconds, elf.budget.patience = seconds, self.patience
                elf.budget.start()  # by this thread's clock: another one may have opened the file
                include_debug_symbols(elf, root=module.root, path=module.path)
                module.table = elf.table()
                elf.forget()
        except OverBudget as error:
            self.give_up(module.path, str(error))
            module.failed = True
        except PyebpfError:
            module.failed = True  # replaced since, or garbled: addresses keep the file's name
        if module.table is not None:
            self._tables[module] = module.cost
            while sum(self._tables.values()) > _SYMBOLS_ROOM and len(self._tables) > 1:
                oldest = next(iter(self._tables))
                del self._tables[oldest]
                oldest.table = None
        return module.table

    @cached_property
    def lines(self) -> SourceLines:
        """The source lines of files."""
        from pyebpf.symbols.source_lines import SourceLines  # seldom asked for

        return SourceLines(self)

    @contextmanager
    def spending(self, owner: int, path: str) -> Iterator[float]:
        """Count the time of the body as spent on a user's files; gives how many seconds there are.

        What is spent inside on another's is that one's.
        """
        seconds, start, before = self.allowances.left(owner), time.thread_time(), self._spent
        patience = self.patience()
        if patience <= 0:
            raise Hurry(path)
        if not seconds:
            raise OverBudget(f"files of user {owner} take longer than is spent on them")
        try:
            yield min(seconds, patience)
        finally:
            mine = time.thread_time() - start - (self._spent - before)
            self._spent += mine
            self.allowances.spend(owner, mine)

    def give_up(self, path: str, reason: str) -> None:
        """Note that a file's names are not read."""
        if len(self.given_up) < _MAX_FILES:
            self.given_up.setdefault(path, reason)

    def tell(self, path: str, reason: str) -> None:
        """Note why a file that is read on as it grows has not all names by now; empty if it has."""
        self.given_up.pop(path, None)
        if reason:
            self.give_up(path, reason)

    def _open(self, pid: int, mapping: Mapping, namespace: str) -> MappedFile | None:
        try:
            opened = open_mapped(pid, mapping, namespace, MAX_SECONDS)
        except OverBudget as error:
            self.give_up(mapping.path, str(error))
            return None
        if opened is None:
            return None
        elf, root = opened
        module = MappedFile(elf, root, mapping.path)
        if elf.path != mapping.path:
            self.table(module)  # out of reach once the process has ended
        return module

    def _read_vdso(self, pid: int, mapping: Mapping) -> MappedFile | None:
        try:
            data = read_vdso(pid, mapping)
            if data not in self._vdso:
                if len(self._vdso) >= _MAX_VDSOS:
                    return None
                self._vdso[data] = MappedFile(ElfSymbols.from_bytes(data, VDSO), "", "")
        except (OSError, PyebpfError):
            return None
        return self._vdso[data]


class _Process:
    """A process's mappings, as often as they were found changed: the last first asked."""

    def __init__(self, pid: int, files: MappedFiles, room: Room) -> None:
        self._pid = pid
        self._files = files
        self._room = room
        self._snapshots: list[tuple[tuple[Mapping, ...], tuple[MappedFile | None, ...]]] = []
        self._perf_map: PerfMap | None = None
        self._perf_map_looked = 0.0
        self._frames: dict[int, Frame] = {}
        self._looks: list[float] = []

    @property
    def size(self) -> int:
        """Number of mappings kept."""
        return sum(len(mappings) for mappings, _ in self._snapshots)

    def look(self) -> bool:
        """Take note of the mappings; False if the process has ended, or has none."""
        now = time.monotonic()
        self._looks = [*(look for look in self._looks if now - look < 1), now]
        if len(self._looks) > _MAX_LOOKS:
            return bool(self._snapshots)
        try:
            owner = os.stat(f"/proc/{self._pid}").st_uid
            with self._files.spending(owner, f"process {self._pid}") as seconds:
                return self._look(owner, time.thread_time() + seconds)
        except (OSError, ValueError):
            return False
        except OverBudget as error:
            self._files.give_up(f"process {self._pid}", str(error))
            return bool(self._snapshots)

    def _look(self, owner: int, until: float) -> bool:
        mappings = read_mappings(self._pid)
        if not mappings:
            return False
        namespace = mount_namespace(self._pid)
        if not self._snapshots or self._snapshots[-1][0] != mappings:
            files = []
            for mapping in mappings:
                # A process may have mapped thousands of files: what comes when the time is over has no names.
                in_time = time.thread_time() < until and self._files.patience() > 0
                files.append(self._files.get(self._pid, mapping, namespace) if in_time else None)
            self._snapshots.append((mappings, tuple(files)))
            del self._snapshots[:-_MAX_SNAPSHOTS]
            self._frames.clear()
        root = f"/proc/{self._pid}/root" if namespace else ""
        path = root + _PERF_MAP.format(_own_pid(self._pid))
        if self._perf_map is None or self._perf_map.path != path:
            self.forget_perf_map()
            self._perf_map = PerfMap(path, owner, self._room)
        self._look_at_perf_map(self._perf_map)
        return True

    def _look_at_perf_map(self, found: PerfMap) -> None:
        self._perf_map_looked = time.monotonic()
        try:
            with self._files.spending(found.owner, found.path) as seconds:
                found.look(seconds)
        except OverBudget as error:
            if os.path.lexists(found.path):  # most processes have none
                self._files.give_up(found.path, str(error))
        self._files.tell(found.path, found.given_up)

    def forget_perf_map(self) -> None:
        """Give its memory back."""
        if self._perf_map is not None:
            self._perf_map.forget()

    def with_source(self, address: int, frame: Frame) -> tuple[Frame, ...]:
        """The frame of an address with its source line, behind those of the calls that were inlined there."""
        mapping, file = self._find(address) or (None, None)
        if mapping is None or file is None:
            return (frame,)
        place = file.address_of(address - mapping.start + mapping.offset)
        lines = self._files.lines.find(file, place) if place is not None else ()
        return tuple(
            frame._replace(file=each.file, line=each.line)
            if number == len(lines) - 1
            else Frame(each.name or UNKNOWN, 0, frame.module, frame.address, each.file, each.line, inlined=True)
            for number, each in enumerate(lines)
        ) or (frame,)

    def file_place(self, address: int) -> tuple[str, int] | None:
        """The build id of the file that an address is in, and its offset there; None where there is none."""
        mapping, file = self._find(address) or (None, None)
        if mapping is None or file is None or not mapping.is_file or not file.elf.build_id:
            return None
        return file.elf.build_id, address - mapping.start + mapping.offset

    def resolve(self, address: int) -> Frame:
        frame = self._frames.get(address)
        if frame is None:
            frame = self._resolve(address)
            looked = self._looks[-1] if self._looks else 0.0
            if not frame.module and time.monotonic() - looked > _LOOK_AGAIN and self.look():
                frame = self._resolve(address)
            if frame.name:
                if len(self._frames) >= _MAX_FRAMES:
                    self._frames.clear()
                self._frames[address] = frame
        return frame

    def _find(self, address: int) -> tuple[Mapping, MappedFile | None] | None:
        """The mapping that an address is in, the last first, and its file."""
        for mappings, files in reversed(self._snapshots):
            index = bisect_right(mappings, address, key=lambda mapping: mapping.start) - 1
            if index >= 0 and address < mappings[index].end:
                return mappings[index], files[index]
        return None

    def _resolve(self, address: int) -> Frame:
        found = self._find(address)
        if found is not None:
            return self._in_mapping(address, *found)
        return self._made(address) or Frame("", address, "", address)

    def _in_mapping(self, address: int, mapping: Mapping, module: MappedFile | None) -> Frame:
        offset = address - mapping.start + mapping.offset
        if module is None:
            return self._made(address) or Frame("", offset, mapping.path or "[anon]", address)
        place = module.address_of(offset)
        table = self._files.table(module)
        found = table.find(place) if place is not None and table is not None else None
        if found is None:
            return Frame("", offset if place is None else place, mapping.path, address)
        return Frame(found.name, found.offset, mapping.path, address)

    def _made(self, address: int) -> Frame | None:
        """Code that the process made itself, perhaps since the last look."""
        if self._perf_map is None:
            return None
        found = self._perf_map.table().find(address)
        # A machine's own emulator has code without names by the thousand.
        if found is None and time.monotonic() - self._perf_map_looked > _LOOK_AGAIN_SOON:
            self._look_at_perf_map(self._perf_map)
            found = self._perf_map.table().find(address)
        return Frame(found.name, found.offset, "[jit]", address) if found is not None else None


class Processes:
    """Processes that were seen, and what was mapped where.

    What is asked about a process that has ended is answered from what was seen while it lived: `see` it early, as
    when its first event arrives. Mappings that come later are found when an address is in none, and those that have
    gone, by exec(2) or munmap(2), stay known. Files that only the process can name (deleted, in another mount
    namespace) are read when it is seen; of others only the headers are. What is kept, and the time spent on each
    user's files, have limits (`pyebpf.elf.budget`).
    """

    def __init__(self) -> None:
        self._files = MappedFiles()
        self._room = Room(_PERF_MAPS_ROOM)
        self._processes: dict[int, _Process] = {}
        self._mappings = 0

    @property
    def given_up(self) -> dict[str, str]:
        """Files whose names are not known since reading them would take too much, with the reasons."""
        return self._files.given_up

    def hurry(self, patience: Callable[[], float]) -> None:
        """Read files as long as this gives more than 0, the seconds that there are: all of them may be thousands."""
        self._files.patience = patience

    def see(self, pid: int) -> bool:
        """Take note of what a process has mapped by now; False if it has ended, or has no memory, as kernel threads."""
        return self._look(self._process(pid))

    def _look(self, process: _Process) -> bool:
        before = process.size
        found = process.look()
        self._mappings += process.size - before
        self._make_room(_MAX_PROCESSES)
        return found

    def resolve(self, pid: int, address: int) -> Frame:
        """The name of an address in a process; a frame without name if there is none."""
        process = self._seen(pid)
        before = process.size
        frame = process.resolve(address)
        self._mappings += process.size - before
        return frame

    def file_place(self, pid: int, address: int) -> tuple[str, int] | None:
        """The build id of the file that an address of a process is in, and its offset there; None if it has none."""
        return self._seen(pid).file_place(address)

    def _seen(self, pid: int) -> _Process:
        """A process whose mappings were looked at, if it was there then."""
        known = pid in self._processes
        process = self._process(pid)
        if not known:
            self._look(process)
        return process

    def with_source(self, pid: int, address: int, frame: Frame) -> tuple[Frame, ...]:
        """The frame of an address with its source line, behind those of the calls that were inlined there.

        Just the frame where the file has no debugging information, or none that is read within its limits.
        """
        return self._process(pid).with_source(address, frame)

    def _process(self, pid: int) -> _Process:
        process = self._processes.pop(pid, None)
        if process is None:
            process = _Process(pid, self._files, self._room)
            self._make_room(_MAX_PROCESSES - 1)
        self._processes[pid] = process
        return process

    def _make_room(self, most: int) -> None:
        """Forget those asked for least lately, but never the last."""
        while len(self._processes) > most or (self._mappings > _MAX_MAPPINGS and len(self._processes) > 1):
            oldest = self._processes.pop(next(iter(self._processes)))
            oldest.forget_perf_map()
            self._mappings -= oldest.size


def open_mapped(pid: int, mapping: Mapping, namespace: str, seconds: float = PATIENCE) -> tuple[ElfFile, str] | None:
    """The file of a mapping of a living process, and where its file system begins; None if it is not an ELF file.

    `namespace` as `mount_namespace` tells it; `seconds` is how long a pass over its symbols may take. Raises
    OverBudget.
    """
    root = f"/proc/{pid}/root" if namespace else ""
    for path in (mapping.link(pid),) if mapping.deleted else (root + mapping.path, mapping.link(pid)):
        try:
            return ElfFile(path, seconds=seconds), root
        except OverBudget:
            raise
        except PyebpfError:
            continue
    return None


def mount_namespace(pid: int) -> str:
    """Another mount namespace than ours; "" for the same, or where that cannot be told."""
    try:
        namespace = os.readlink(f"/proc/{pid}/ns/mnt")
        return "" if namespace == os.readlink("/proc/self/ns/mnt") else namespace
    except OSError:
        return ""


def _own_pid(pid: int) -> int:
    """The number by which a process knows itself: that of its innermost pid namespace."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
            line = next((line for line in file if line.startswith("NSpid:")), "")
    except OSError:
        return pid
    numbers = line.split()[1:]
    return int(numbers[-1]) if numbers else pid
