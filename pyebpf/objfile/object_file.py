"""An object as specs: its maps, and each program with the functions and data that it uses."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from pyebpf.asm import Form, Instruction, Raw, decode, find_op, slot_starts
from pyebpf.btf import Btf, DataSec, Var, raw_tracepoint
from pyebpf.dataclass import dataclass, replace
from pyebpf.elf.relocations import read_relocatable
from pyebpf.errors import MalformedData, NotFound, NotSupported, check_argument, closest
from pyebpf.objfile.btf_ext import DebugInfo, read_debug_info
from pyebpf.objfile.core import apply
from pyebpf.objfile.kconfig import KCONFIG, read_constants
from pyebpf.objfile.maps import (
    ARENA_DATA,
    BTF_MAPS,
    data_map,
    is_data,
    is_kernel_owned,
    is_legacy,
    map_name,
    read_contents,
    read_maps,
    read_pinned,
)
from pyebpf.objfile.sections import Convention, convention
from pyebpf.objfile.types import loadable
from pyebpf.objfile.variables import with_values
from pyebpf.specs import Code, FunctionStart, ModuleSpec, ProgramSpec
from pyebpf.specs.maps import MapTypes
from pyebpf.specs.programs import CodeTypes
from pyebpf.uapi.attach_types import AttachType
from pyebpf.uapi.bpf import MapType, ProgramType

if TYPE_CHECKING:
    from pyebpf.elf.headers import Section
    from pyebpf.elf.relocations import RelocatableFile, Relocation
    from pyebpf.elf.symbols import Symbol
    from pyebpf.errors import Location
    from pyebpf.objfile.kconfig import KernelConfig, KernelConstants
    from pyebpf.objfile.maps import ElfMaps
    from pyebpf.specs import AttachSpec, MapSpec

_LOW = 0xFFFF_FFFF
_TEXT = ".text"
_R_64_64, _R_64_32 = 1, 10
_EM_BPF = 247
_MACHINES = {62: "EM_X86_64", 183: "EM_AARCH64"}  # the likely mistakes


@dataclass(frozen=True, slots=True)
class ElfProgram:
    """A program of an object: the function `name` of `section`.

    It is `optional` if that name begins with a question mark: loaded only when it is asked for.
    """

    name: str
    section: str
    optional: bool = False

    @property
    def convention(self) -> Convention:
        """The meaning of the section's name. NotFound for one that has none."""
        return convention(self.section)


def read_object(data: bytes) -> ElfObject:
    """Read what clang -target bpf made. MalformedData (BtfError for its BTF) says what is wrong with it."""
    check_argument("data", data, (bytes, bytearray, memoryview), "the bytes of an object")
    elf = read_relocatable(data)
    if elf.machine != _EM_BPF:
        name = _MACHINES.get(elf.machine, f"machine {elf.machine}")
        raise MalformedData(f"an ELF file for {name}, not for BPF: compile with clang -target bpf")
    return ElfObject(elf)


class ElfObject:
    """An object file: its sections, maps, programs and BTF. Nothing of it is changed after it has been read."""

    def __init__(self, elf: RelocatableFile) -> None:
        self.elf = elf
        section = elf.find(".BTF")
        data = elf.contents(section) if section is not None else b""
        self.btf = Btf(data) if data else None

    def with_variables(self, values: Mapping[str, object]) -> ElfObject:
        """The same object with other values of global variables, by name: {"wanted": 135}.

        A value is a number, a string for a char array, a tuple for other arrays, or the variable's bytes. NotFound,
        InvalidValue or MalformedData say which variable there is not, or cannot be set so: one of .bss has no bytes.
        """
        check_argument("values", values, Mapping, 'a dictionary such as {"wanted": 135}')
        self._check_byte_order()
        return ElfObject(with_values(self.elf, self.btf, values))

    @cached_property
    def debug(self) -> DebugInfo:
        """Source lines and functions by section; empty without .BTF.ext."""
        section = self.elf.find(".BTF.ext")
        if section is None or self.btf is None:
            return DebugInfo({}, {}, {})
        return read_debug_info(self.elf.contents(section), self.btf)

    @cached_property
    def license(self) -> str:
        """The string of section license, empty if there is none."""
        section = self.elf.find("license")
        data = self.elf.contents(section) if section is not None else b""
        return data.partition(b"\0")[0].decode(errors="replace")

    @cached_property
    def maps(self) -> ElfMaps:
        """The maps that the source defines, by the name of the variable. Asking for one that can't be made raises."""
        return read_maps(self.elf, self.btf, lambda: self.types)

    @cached_property
    def contents(self) -> Mapping[str, Mapping[int, str]]:
        """The maps or programs that a map begins with, by the names of their specs: to be put in after loading."""
        names = self.maps.names
        return {
            names.get(symbol, symbol): {index: names.get(entry, entry) for index, entry in entries.items()}
            for symbol, entries in read_contents(self.elf, self.btf).items()
        }

    @cached_property
    def pinned(self) -> frozenset[str]:
        """Variables of the maps that the source wants pinned by name. Loading pins nothing: `map.pin(path)` does."""
        return read_pinned(self.elf, self.btf)

    @cached_property
    def arena(self) -> str | None:
        """Variable of the arena, whose memory holds the variables of section .addr_space.1."""
        for name in self.maps:
            with suppress(MalformedData):
                if self.maps[name].type is MapType.ARENA:
                    return name
        return None

    @cached_property
    def types(self) -> bytes:
        """The object's BTF as a kernel takes it. MalformedData for an object without."""
        section = self.elf.find(".BTF")
        if section is None or self.btf is None:
            raise MalformedData("the object has no BTF: compile it with -g")
        return loadable(self.elf, self.elf.contents(section), self.btf, frozenset(self._owned))

    @cached_property
    def _owned(self) -> Mapping[str, int]:
        """Sections of global data with variables that the kernel looks after, and their BTF ids."""
        btf = self.btf
        if btf is None:
            return {}
        names = {section.name for section in self.elf.sections if is_data(section)}
        found = (btf.type_by_id(number) for name in names for number in btf.find(name))
        return {
            node.name: node.id
            for node in found
            if isinstance(node, DataSec)
            for each in node.variables
            if isinstance(var := btf.type_by_id(each.type), Var) and is_kernel_owned(btf, var.type)
        }

    @cached_property
    def data(self) -> Mapping[int, MapSpec]:
        """Maps that stand for sections of global data, by the section's number."""
        found: dict[int, MapSpec] = {}
        taken: set[str] = set()
        for section in self.elf.sections:
            if is_data(section) and section.size:
                name = short = map_name(section.name)
                while name in taken:
                    name = f"{short[:12]}.{len(taken)}"
                taken.add(name)
                number = self._owned.get(section.name)
                described = MapTypes(self.types, 0, number) if number is not None else None
                found[section.number] = data_map(section, self.elf.contents(section), name, described)
        return found

    @cached_property
    def programs(self) -> tuple[ElfProgram, ...]:
        """Every function outside of .text, in the order of the file, whatever its section's name says."""
        return tuple(
            ElfProgram(symbol.name, section.name, section.name[:1] == "?")
            for section in self.elf.sections
            if section.has_code and section.name != _TEXT
            for symbol in self.elf.functions(section)
            if not symbol.is_local
        )

    def module_spec(
        self,
        kernel: Btf | None = None,
        config: KernelConfig | None = None,
        program_types: Mapping[str, ProgramType | None] | None = None,
    ) -> ModuleSpec:
        """All programs but the optional ones, and all maps. See `program_spec`.

        A map that cannot be made is left out if no program of these uses it.

        `program_types` gives programs by name the type that their section does not say, or None to leave one out.
        """
        given = program_types or {}
        unknown = [name for name in given if name not in {program.name for program in self.programs}]
        if unknown:
            raise NotFound(f"the object has no program {unknown[0]!r}, whose type is given")
        wanted = (p.name for p in self.programs if not p.optional and given.get(p.name, ProgramType) is not None)
        programs = tuple(self.program_spec(name, kernel, config, program_type=given.get(name)) for name in wanted)
        used = {i.symbol for p in programs for i in p.code.instructions if i.op.form is Form.LDDW_MAP}
        maps = []
        for symbol, name in self.maps.names.items():
            try:
                maps.append(self.maps[symbol])
            except MalformedData:
                if name in used:
                    raise
        return ModuleSpec((*maps, *self._data_specs(config)), programs)

    def map_specs(self, config: KernelConfig | None = None) -> tuple[MapSpec, ...]:
        """All maps: those of the source, of global data and, with `config`, of .kconfig."""
        self._check_byte_order()
        return (*self.maps.values(), *self._data_specs(config))

    def _data_specs(self, config: KernelConfig | None) -> tuple[MapSpec, ...]:
        self._check_byte_order()
        constants = read_constants(self.elf, self.btf, config) if config is not None else None
        return (*self.data.values(), *((constants.map,) if constants is not None else ()))

    def _check_byte_order(self) -> None:
        """Global data would be loaded, and read, with its bytes the wrong way round."""
        order = self.elf.byteorder
        if order != sys.byteorder:
            raise MalformedData(
                f"the object is {order}-endian and this machine is not: list it here, load it where it belongs"
            )

    def program_spec(
        self,
        name: str,
        kernel: Btf | None = None,
        config: KernelConfig | None = None,
        *,
        program_type: ProgramType | None = None,
        attach_type: AttachType | None = None,
    ) -> ProgramSpec:
        """One program, ready to load.

        Its section's name says what it is, unless `program_type` (and `attach_type`, where the kind has several) does.

        `kernel`, the BTF to load into, is asked for the function or tracepoint that the section names, and for what
        CO-RE relocations want to know; `config` for externs of .kconfig. NotFound for a name that no program has, or
        for that function; MalformedData for what cannot be filled in.
        """
        program = next((program for program in self.programs if program.name == name), None)
        if program is None:
            names = [program.name for program in self.programs]
            raise NotFound(f"the object has no program {name!r}{closest(name, names)}")
        self._check_byte_order()
        said = _said(program, program_type, attach_type)
        if said.program_type is ProgramType.STRUCT_OPS:
            raise NotSupported(
                f"program {name}: struct_ops of objects are not read: write the table with bpf.struct_ops(), "
                f"or leave the program out, module_spec(program_types={{{name!r}: None}})"
            )
        # Sections may share a name: the first that has this function, as `programs` has it.
        sections = [each for each in self.elf.sections if each.has_code and each.name == program.section]
        symbol = next(each for section in sections for each in self.elf.functions(section) if each.name == name)
        code = _Linker(self, kernel, config).link(symbol)
        attach, attach_btf = _attachment(said, kernel)
        return ProgramSpec(
            name,
            ProgramType(said.program_type),
            code,
            attach,
            expected_attach_type=said.attach_number,
            attach_btf=attach_btf,
            license=self.license,
            flags=said.flags,
        )


# What the name of the kernel's function has before the target of a section's name.
_FUNCTIONS = {
    AttachType.TRACE_FENTRY: "",
    AttachType.TRACE_FEXIT: "",
    AttachType.MODIFY_RETURN: "",
    AttachType.LSM_MAC: "bpf_lsm_",
    AttachType.LSM_CGROUP: "bpf_lsm_",
    AttachType.TRACE_ITER: "bpf_iter_",
}


def _said(program: ElfProgram, program_type: ProgramType | None, attach_type: AttachType | None) -> Convention:
    """The kind of a program: as the section's name says, or as is given; the rest of the name counts if it agrees."""
    try:
        said = program.convention
    except NotFound as error:
        if program_type is None:
            example = f"program_spec({program.name!r}, program_type=ProgramType.XDP)"
            hint = f"give its type, {example}, or program_types= of module_spec()"
            raise NotFound(f"program {program.name}: {error}: {hint}") from None
        return Convention("", ProgramType(program_type), attach_type, 0, "")
    if program_type is not None and int(program_type) != int(said.program_type):
        return Convention(said.kind, ProgramType(program_type), attach_type, 0, "")
    return said._replace(attach_type=attach_type) if attach_type is not None else said


def _attachment(said: Convention, kernel: Btf | None) -> tuple[AttachSpec | None, int]:
    """Where the program is to run, as far as the section says, and the BTF id that its load wants."""
    from pyebpf.attach.tracepoints import BtfTracepoint, RawTracepoint, Tracepoint

    if said.program_type is ProgramType.TRACEPOINT and said.target.count("/") == 1:
        category, name = said.target.split("/")
        return Tracepoint(category, name), 0
    if said.program_type is ProgramType.RAW_TRACEPOINT and said.target:
        return RawTracepoint(said.target), 0
    if said.attach_type is AttachType.TRACE_RAW_TP and said.target:
        return BtfTracepoint(said.target), raw_tracepoint(kernel, said.target).type if kernel is not None else 0
    if said.attach_type in _FUNCTIONS and said.target and kernel is not None:
        return None, kernel.function(_FUNCTIONS[said.attach_type] + said.target).id
    return None, 0


class _Linker:
    """The instructions of one program: its function, then every function that it needs."""

    def __init__(self, whole: ElfObject, kernel: Btf | None, config: KernelConfig | None) -> None:
        self.whole = whole
        self.kernel = kernel
        self.config = config
        self.elf = whole.elf
        self.names: dict[tuple[int, int], str] = {}
        self.waiting: list[Symbol] = []
        self.weak: set[str] = set()

    def link(self, main: Symbol) -> Code:
        instructions: list[Instruction] = []
        subprograms = []
        ids: list[int] = []
        self._name(main)
        while self.waiting:
            function = self.waiting.pop(0)
            assert function.section is not None
            name = self.names[function.section, function.value]
            subprograms.append(FunctionStart(name, len(instructions)))
            instructions += self._function(function, name)
            section = self.elf.sections[function.section]
            ids.append(self.whole.debug.functions.get(section.name, {}).get(function.value, 0))
        # The one BTF of maps and programs: what a program allocates and a map keeps must be of the same.
        types = CodeTypes(self.whole.types, tuple(ids)) if all(ids) else None
        return Code(tuple(instructions), tuple(subprograms), weak=frozenset(self.weak), btf=types)

    def _name(self, function: Symbol) -> str:
        """The name under which a function is called; a new one is put on the list."""
        assert function.section is not None
        key = (function.section, function.value)
        if key not in self.names:
            name, taken = function.name, set(self.names.values())
            while name in taken:
                name = f"{function.name}.{len(taken)}"
            self.names[key] = name
            self.waiting.append(function)
        return self.names[key]

    def _function(self, function: Symbol, name: str) -> list[Instruction]:
        assert function.section is not None
        section = self.elf.sections[function.section]
        starts = [symbol.value for symbol in self.elf.functions(section)]
        following = [start for start in starts if start > function.value]
        end = function.value + function.size if function.size else min(following, default=section.size)
        data = self.elf.contents(section)
        if function.value % 8 or end % 8 or end > len(data) or end <= function.value:
            raise MalformedData(f"function {name} does not lie inside section {section.name}")
        core = {r.offset: r for r in self.whole.debug.core.get(section.name, ())}
        if self.kernel is None and any(function.value <= offset < end for offset in core):
            raise MalformedData(f"function {name} has CO-RE relocations: give the BTF of the kernel to load into")
        items = decode(data[function.value : end], self.elf.byteorder, raw=True)
        relocations = {r.offset: r for r in self.elf.relocations.get(section.number, ())}
        lines = self.whole.debug.lines.get(section.name, {})
        line_starts = sorted(lines)
        out: list[Instruction] = []
        for item, slot in zip(items, slot_starts(items), strict=False):
            offset = function.value + 8 * slot
            place = f"{section.name}, slot {offset // 8}"
            if isinstance(item, Raw):
                raise MalformedData(f"{place}: no instruction is {item.data.hex()}")
            found = bisect_right(line_starts, offset)
            where: Location | None = lines[line_starts[found - 1]] if found else None
            linked = [replace(self._linked(item, section, offset, relocations.get(offset), place), where=where)]
            if self.kernel is not None and self.whole.btf is not None and offset in core:
                linked = apply(linked[0], core[offset], self.whole.btf, self.kernel, place)
            out += linked
        return out

    def _linked(
        self, item: Instruction, section: Section, offset: int, relocation: Relocation | None, place: str
    ) -> Instruction:
        form = item.op.form
        if relocation is None:
            if form is Form.CALL_LOCAL:
                return replace(item, imm=0, symbol=self._called(section, offset + 8 + 8 * item.imm, place))
            return item
        symbol = relocation.symbol
        if form is Form.LDDW and relocation.kind == _R_64_64:
            return self._address(item, symbol, place)
        if form in (Form.CALL_LOCAL, Form.CALL) and relocation.kind == _R_64_32:
            if symbol.section is None:
                return Instruction(find_op("call_kfunc", Form.CALL_KFUNC), symbol=self._of_the_kernel(symbol))
            target = symbol.value + 8 * (item.imm + 1)
            name = self._called(self.elf.sections[symbol.section], target, place)
            return Instruction(find_op("call_local", Form.CALL_LOCAL), symbol=name)
        raise MalformedData(f"{place}: a relocation of type {relocation.kind} for `{symbol.name}` is not known here")

    def _called(self, section: Section, offset: int, place: str) -> str:
        function = next((f for f in self.elf.functions(section) if f.value == offset), None)
        if function is None:
            raise MalformedData(f"{place}: no function begins at byte {offset} of section {section.name}")
        return self._name(function)

    def _address(self, item: Instruction, symbol: Symbol, place: str) -> Instruction:
        """A two-slot load of a symbol's address."""
        if symbol.section is None:
            return self._extern(item, symbol, place)
        section = self.elf.sections[symbol.section]
        offset = symbol.value + (item.imm & _LOW)
        if section.name == BTF_MAPS or is_legacy(section):
            for each in self.elf.symbols:
                if each.section == section.number and each.value == offset and each.name in self.whole.maps.names:
                    op = find_op("lddw_map", Form.LDDW_MAP)
                    return Instruction(op, item.dst, symbol=self.whole.maps.names[each.name])
            raise MalformedData(f"{place}: no map begins at byte {offset} of section {section.name}")
        if section.number in self.whole.data:
            op = find_op("lddw_map_value", Form.LDDW_MAP)
            return Instruction(op, item.dst, imm=offset << 32, symbol=self.whole.data[section.number].name)
        if section.name == ARENA_DATA and self.whole.arena is not None:
            op = find_op("lddw_map_value", Form.LDDW_MAP)
            return Instruction(op, item.dst, imm=offset << 32, symbol=self.whole.maps.names[self.whole.arena])
        if section.has_code:
            op = find_op("lddw_function", Form.LDDW_FUNCTION)
            return Instruction(op, item.dst, symbol=self._called(section, offset, place))
        raise MalformedData(f"{place}: `{symbol.name}` is in section {section.name}, for which there is no map")

    def _extern(self, item: Instruction, symbol: Symbol, place: str) -> Instruction:
        """The address of what the kernel has, or of a constant of its configuration."""
        btf = self.whole.btf
        group = _group_of(btf, symbol.name) if btf is not None else None
        if group == ".ksyms":
            return Instruction(find_op("lddw_ksym", Form.LDDW_KSYM), item.dst, symbol=self._of_the_kernel(symbol))
        if group == KCONFIG:
            if self.constants is None:
                raise MalformedData(f"{place}: {symbol.name} is an extern of .kconfig: give the kernel's KernelConfig")
            at = self.constants.offsets[symbol.name] + (item.imm & _LOW)
            return Instruction(find_op("lddw_map_value", Form.LDDW_MAP), item.dst, imm=at << 32, symbol=KCONFIG)
        unsaid = "; without BTF nothing says where to look: compile with -g" if btf is None else ""
        raise MalformedData(f"{place}: nothing defines `{symbol.name}`{unsaid}")

    @cached_property
    def constants(self) -> KernelConstants | None:
        """The value in the kernel's configuration; None without one."""
        return read_constants(self.elf, self.whole.btf, self.config) if self.config is not None else None

    def _of_the_kernel(self, symbol: Symbol) -> str:
        """The name of a function or variable of the kernel, noted if it may be missing."""
        if symbol.is_weak:
            self.weak.add(symbol.name)
        return symbol.name


def _group_of(btf: Btf, name: str) -> str | None:
    """The section that an extern variable is declared in."""
    for group in (KCONFIG, ".ksyms"):
        for type_id in btf.find(group):
            node = btf.type_by_id(type_id)
            if isinstance(node, DataSec) and any(btf.type_by_id(v.type).name == name for v in node.variables):
                return group
    return None
