"""Names of addresses in processes, also of those that have ended since they were seen."""

from __future__ import annotations

import os
import time
from bisect import bisect_right

from pyebpf.errors import PyebpfError
from pyebpf.symbols.debug import include_debug_symbols
from pyebpf.symbols.elf import ElfSymbols
from pyebpf.symbols.frame import Frame
from pyebpf.symbols.mappings import Mapping, parse_mappings
from pyebpf.symbols.perf_map import PerfMap
from pyebpf.symbols.table import SymbolTable

__all__ = ["Processes", "mount_namespace", "open_mapped"]

_VDSO = "[vdso]"
_PERF_MAP = "/tmp/perf-{}.map"  # noqa: S108 - where just-in-time compilers and perf have agreed to look for it
_MOST_PROCESSES = 16_384
_LOOK_AGAIN = 1.0  # seconds


class _Module:
    """A mapped file. Its headers are read when it is first seen, its symbols when one is asked for."""

    def __init__(self, elf: ElfSymbols, root: str, path: str) -> None:
        self._elf = elf
        self._root = root
        self._path = path
        self._table: SymbolTable | None = None

    def table(self) -> SymbolTable | None:
        if self._table is None:
            try:
                include_debug_symbols(self._elf, root=self._root, path=self._path)
                self._table = self._elf.table()
            except PyebpfError:  # replaced since, or garbled: addresses keep the file's name
                self._table = SymbolTable(())
        return self._table

    def address_of(self, offset: int) -> int | None:
        return self._elf.address_of(offset)


class _Modules:
    """Files by what identifies them, shared by all processes that map them."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, str, str], _Module | None] = {}
        self._vdso: dict[bytes, _Module] = {}

    def get(self, pid: int, mapping: Mapping, namespace: str) -> _Module | None:
        """The file of a mapping of the living process `pid`; `namespace` is "" where it has our view of files."""
        if mapping.path == _VDSO:
            return self._read_vdso(pid, mapping)
        if not mapping.is_file:
            return None
        key = (mapping.device, mapping.inode, mapping.path, namespace)
        if key not in self._known:
            self._known[key] = self._open(pid, mapping, namespace)
        return self._known[key]

    @staticmethod
    def _open(pid: int, mapping: Mapping, namespace: str) -> _Module | None:
        opened = open_mapped(pid, mapping, namespace)
        if opened is None:
            return None
        elf, root = opened
        module = _Module(elf, root, mapping.path)
        if elf.path != mapping.path:
            module.table()  # out of reach once the process has ended
        return module

    def _read_vdso(self, pid: int, mapping: Mapping) -> _Module | None:
        try:
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                memory.seek(mapping.start)
                data = memory.read(mapping.end - mapping.start)
            if data not in self._vdso:
                self._vdso[data] = _Module(ElfSymbols.from_bytes(data, _VDSO), "", "")
        except (OSError, PyebpfError):
            return None
        return self._vdso[data]


class _Process:
    """A process's mappings, as often as they were found changed: the last first asked."""

    def __init__(self, pid: int, modules: _Modules) -> None:
        self._pid = pid
        self._modules = modules
        self._snapshots: list[tuple[tuple[Mapping, ...], tuple[_Module | None, ...]]] = []
        self._perf_map: PerfMap | None = None
        self._frames: dict[int, Frame] = {}
        self._looked = 0.0

    def look(self) -> bool:
        """Take note of the mappings; False if the process has ended, or has none."""
        self._looked = time.monotonic()
        try:
            with open(f"/proc/{self._pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
                mappings = parse_mappings(file.read())
            owner = os.stat(f"/proc/{self._pid}").st_uid
        except (OSError, ValueError):
            return False
        if not mappings:
            return False
        namespace = mount_namespace(self._pid)
        if not self._snapshots or self._snapshots[-1][0] != mappings:
            modules = tuple(self._modules.get(self._pid, mapping, namespace) for mapping in mappings)
            self._snapshots.append((mappings, modules))
            self._frames.clear()
        root = f"/proc/{self._pid}/root" if namespace else ""
        path = root + _PERF_MAP.format(_own_pid(self._pid))
        if self._perf_map is None or self._perf_map.path != path:
            self._perf_map = PerfMap(path, owner)
        self._perf_map.table()
        return True

    def resolve(self, address: int) -> Frame:
        frame = self._frames.get(address)
        if frame is None:
            frame = self._resolve(address)
            if not frame.module and time.monotonic() - self._looked > _LOOK_AGAIN and self.look():
                frame = self._resolve(address)
            if frame.name:
                self._frames[address] = frame
        return frame

    def _resolve(self, address: int) -> Frame:
        for mappings, modules in reversed(self._snapshots):
            index = bisect_right(mappings, address, key=lambda mapping: mapping.start) - 1
            if index >= 0 and address < mappings[index].end:
                return self._in_mapping(address, mappings[index], modules[index])
        return self._made(address) or Frame("", address, "", address)

    def _in_mapping(self, address: int, mapping: Mapping, module: _Module | None) -> Frame:
        offset = address - mapping.start + mapping.offset
        if module is None:
            return self._made(address) or Frame("", offset, mapping.path or "[anon]", address)
        place = module.address_of(offset)
        table = module.table()
        found = table.find(place) if place is not None and table is not None else None
        if found is None:
            return Frame("", offset if place is None else place, mapping.path, address)
        return Frame(found.name, found.offset, mapping.path, address)

    def _made(self, address: int) -> Frame | None:
        """Code that the process made itself."""
        found = self._perf_map.table().find(address) if self._perf_map is not None else None
        return Frame(found.name, found.offset, "[jit]", address) if found is not None else None


class Processes:
    """Processes that were seen, and what was mapped where.

    What is asked about a process that has ended is answered from what was seen while it lived: `see` it early, as
    when its first event arrives. Mappings that come later are found when an address is in none, and those that have
    gone, by exec(2) or munmap(2), stay known. Files that only the process can name (deleted, in another mount
    namespace) are read when it is seen; of others only the headers are.
    """

    def __init__(self) -> None:
        self._modules = _Modules()
        self._processes: dict[int, _Process] = {}

    def see(self, pid: int) -> bool:
        """Take note of what a process has mapped by now; False if it has ended, or has no memory, as kernel threads."""
        return self._process(pid).look()

    def resolve(self, pid: int, address: int) -> Frame:
        """The name of an address in a process; a frame without name if there is none."""
        known = pid in self._processes
        process = self._process(pid)
        if not known:
            process.look()
        return process.resolve(address)

    def _process(self, pid: int) -> _Process:
        process = self._processes.pop(pid, None)
        if process is None:
            process = _Process(pid, self._modules)
            if len(self._processes) >= _MOST_PROCESSES:
                del self._processes[next(iter(self._processes))]  # the one asked for least lately
        self._processes[pid] = process
        return process


def open_mapped(pid: int, mapping: Mapping, namespace: str) -> tuple[ElfSymbols, str] | None:
    """The file of a mapping of a living process, and where its file system begins; None if it is no ELF file.

    `namespace` as `mount_namespace` tells it.
    """
    root = f"/proc/{pid}/root" if namespace else ""
    link = f"/proc/{pid}/map_files/{mapping.start:x}-{mapping.end:x}"  # the very file, whatever its name is by now
    for path in (link,) if mapping.deleted else (root + mapping.path, link):
        try:
            return ElfSymbols(path), root
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
