"""`DebugInfo`: the source lines of an address, through the calls that were inlined there."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.elf.dwarf.constants import SHARED_REFERENCES, Attribute, Tag
from pyebpf.elf.dwarf.index import UnitIndex
from pyebpf.elf.dwarf.inlined import functions, inlined_calls
from pyebpf.elf.dwarf.lines import LineTable
from pyebpf.elf.dwarf.sections import DebugSections, Garbled
from pyebpf.elf.dwarf.units import Units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyebpf.elf.dwarf.inlined import FunctionExtent, InlinedCall
    from pyebpf.elf.dwarf.units import Header, Unit
    from pyebpf.elf.headers import ElfHeaders

#: From an inlined call to its function, to its declaration: so many steps lead to a name.
_MAX_STEPS = 8
#: Bytes of units and line tables that are kept, names, and inlined calls of a unit.
_KEPT, _MAX_NAMES, _MAX_CALLS = 1 << 24, 1 << 14, 1 << 17


class SourceLine(NamedTuple):
    """A line of an address: of the function `name`, which was inlined; "" is the function that the symbol names."""

    name: str
    file: str
    line: int


class CodeOfLine(NamedTuple):
    """Addresses at which the code of a line begins, one in each function that has it.

    `files` are the files that were meant, `following` the next line of theirs that has code, 0 if there is none, and
    `names` those of all files.
    """

    addresses: tuple[int, ...]
    files: tuple[str, ...]
    following: int
    names: tuple[str, ...]


class DebugInfo:
    """The debugging information of a file.

    `shared` is the file that it shares entries and strings with (`.gnu_debugaltlink`), if there is one. Each question
    costs the reading of a unit when it is the first to its unit. Raises MalformedData for garbled data, OverBudget
    where it would take too much.
    """

    def __init__(self, elf: ElfHeaders, shared: ElfHeaders | None = None, *, incomplete: bool = False) -> None:
        self.elf = elf
        #: Whether there is no such file where there should be one: what lies there has no name.
        self.incomplete = incomplete
        self._sections = DebugSections(elf)
        self._shared = DebugInfo(shared) if shared is not None else None
        self._units: Units | None = None
        self._index: UnitIndex | None = None
        self._read: dict[Header, _ReadUnit] = {}
        self._size = 0  # of those, as they were when they were last asked for
        self._names: dict[int, str] = {}

    def lines(self, address: int) -> tuple[SourceLine, ...]:
        """The lines of an instruction, that of the innermost call first; none if nothing is known of the address."""
        with Garbled(self.elf.path):
            return tuple(self._lines(address))

    def code_of(self, file: str, line: int) -> CodeOfLine:
        """Where the code of a line begins; `file` is the end of a path, of whole parts."""
        with Garbled(self.elf.path):
            return self._code_of(f"/{file.lstrip('/')}", line)

    def limit(self, seconds: float, patience: Callable[[], float]) -> None:
        """Give what is read from now on so many seconds of this thread, and as long as `patience` gives more than 0."""
        budget = self.elf.budget
        budget.seconds, budget.patience = seconds, patience
        budget.start()
        if self._shared is not None:
            self._shared.limit(seconds, patience)

    @property
    def cost(self) -> int:
        """About how many bytes are kept."""
        shared = self._shared.cost if self._shared is not None else 0
        return self._sections.cost + self._size + shared

    def _all(self) -> Units:
        if self._units is None:
            self._units = Units(self._sections, self._shared._sections if self._shared is not None else None)
        return self._units

    def _lines(self, address: int) -> Iterator[SourceLine]:
        if self._index is None:
            self._index = UnitIndex(self._all())
        header = self._index.find(address)
        if header is None:
            return
        read = self._unit(header)
        if read.table is None:
            return
        file, line = read.table.find(address)
        for call in reversed(read.calls(address)):
            yield SourceLine(self._name(read.unit, call), file, line)
            file, line = read.table.file(call.file), call.line
        yield SourceLine("", file, line)

    def _code_of(self, suffix: str, line: int) -> CodeOfLine:
        addresses: set[int] = set()
        files: set[str] = set()
        names: set[str] = set()
        following = 0
        for header in self._all().headers:
            self.elf.budget.clock()
            read = self._unit(header)
            if read.table is None:
                continue
            paths = dict(read.table.files())
            if len(names) < _MAX_NAMES:
                names |= {name for path in paths.values() if (name := path.rpartition("/")[2]).isprintable()}
            wanted = {number: path for number, path in paths.items() if f"/{path}".endswith(suffix)}
            files.update(wanted.values())
            found: dict[int, int] = {}
            for each, address in read.table.starts(wanted):
                if each == line:
                    # In one function a line may have code at several places: the first one comes before the others.
                    function = read.function(address)
                    found[function] = min(address, found.get(function, address))
                elif each > line:
                    following = min(each, following or each)
            addresses.update(found.values())
        return CodeOfLine(tuple(sorted(addresses)), tuple(sorted(files)), following, tuple(sorted(names)))

    def _unit(self, header: Header) -> _ReadUnit:
        read = self._read.pop(header, None)
        if read is None:
            read = _ReadUnit(self._all().read(header), self._sections)
        self._size += read.grown()
        self._read[header] = read
        while self._size > _KEPT and len(self._read) > 1:
            self._size -= self._read.pop(next(iter(self._read))).counted
        return read

    def _name(self, unit: Unit, call: InlinedCall) -> str:
        if call.origin is None:
            return ""
        if call.origin[0] in SHARED_REFERENCES:
            return self._shared.name_at(call.origin[1]) if self._shared is not None else ""
        return self.name_at(unit.reference(call.origin))

    def name_at(self, offset: int) -> str:
        """The name of the function whose entry is at an offset of `.debug_info`: as symbols have it, if it is there."""
        name = self._names.get(offset)
        if name is None:
            name = self._read_name(offset, _MAX_STEPS)
            if len(self._names) >= _MAX_NAMES:
                self._names.clear()
            self._names[offset] = name
        return name

    def _read_name(self, offset: int, steps: int) -> str:
        headers = self._all().headers
        index = bisect_right(headers, offset, key=lambda header: header.offset) - 1
        if index < 0 or offset >= headers[index].end or not steps:
            return ""
        unit = self._unit(headers[index]).unit
        entry = unit.entry(offset - headers[index].offset)
        if entry is None or entry.abbreviation.tag != Tag.SUBPROGRAM:
            return ""
        for attribute in (Attribute.LINKAGE_NAME, Attribute.MIPS_LINKAGE_NAME):
            if name := unit.text(entry.values.get(attribute)):
                return name
        for attribute in (Attribute.ABSTRACT_ORIGIN, Attribute.SPECIFICATION):
            value = entry.values.get(attribute)
            if value is None:
                continue
            if value[0] in SHARED_REFERENCES:
                name = self._shared.name_at(value[1]) if self._shared is not None else ""
            else:
                name = self._read_name(unit.reference(value), steps - 1)
            if name:
                return name
        return unit.text(entry.values.get(Attribute.NAME))


class _ReadUnit:
    """A unit whose entries are in memory, with its functions and lines as they are asked for."""

    def __init__(self, unit: Unit, sections: DebugSections) -> None:
        self.unit = unit
        self._sections = sections
        self._table: LineTable | None = None
        self._functions: list[FunctionExtent] | None = None
        self._calls: dict[int, list[InlinedCall]] = {}
        self.counted = 0

    def grown(self) -> int:
        """By how many bytes it has grown since it was asked for this."""
        table = self._table.cost if self._table is not None else 0
        calls = 150 * sum(map(len, self._calls.values()))
        before, self.counted = self.counted, len(self.unit.data) + table + 100 * len(self._functions or ()) + calls
        return self.counted - before

    @property
    def table(self) -> LineTable | None:
        """Its lines; None if it has none."""
        values = self.unit.root.values
        if self._table is None and Attribute.STMT_LIST in values:
            folder = self.unit.text(values.get(Attribute.COMP_DIR))
            self._table = LineTable(self._sections, values[Attribute.STMT_LIST][1], folder)
        return self._table

    def function(self, address: int) -> int:
        """The place of the entry of the function that an instruction is in; 0 for none."""
        if self._functions is None:
            self._functions = sorted(functions(self.unit))
        index = bisect_right(self._functions, address, key=lambda function: function.low) - 1
        if index < 0 or address >= self._functions[index].high:
            return 0
        return self._functions[index].place

    def calls(self, address: int) -> list[InlinedCall]:
        """The inlined calls that an instruction is in, the outermost first."""
        place = self.function(address)
        if not place:
            return []
        if place not in self._calls:
            if sum(map(len, self._calls.values())) > _MAX_CALLS:
                self._calls.clear()
            self._calls[place] = inlined_calls(self.unit, place)
        found = [call for call in self._calls[place] if call.low <= address < call.high]
        return sorted(found, key=lambda call: call.depth)
