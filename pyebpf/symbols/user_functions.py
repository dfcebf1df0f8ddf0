"""From what an author calls functions of a file to the offsets where uprobes go."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.arch.x86_64_lengths import LONGEST, around
from pyebpf.elf.symbols import IFUNC
from pyebpf.errors import InvalidValue, NotFound, closest
from pyebpf.kernel.roots import split_root
from pyebpf.symbols.cpp_functions import PREFIX, cpp_matching, is_cpp, similar
from pyebpf.symbols.debug import include_debug_symbols
from pyebpf.symbols.files import ElfFile
from pyebpf.symbols.ifuncs import instead_of, split_ifuncs, summary
from pyebpf.symbols.source_places import addresses_of_line, is_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyebpf.elf.symbols import ElfSymbols, Symbol

#: EM_X86_64 and EM_AARCH64 of e_machine.
_MACHINES = {"x86_64": 62, "aarch64": 183}
_PATTERN = frozenset("*?[")
_ADDRESS = re.compile(r"\*0[xX][0-9a-fA-F]+")
#: A function of more bytes is not decoded up to a place in it.
_FARTHEST = 1 << 20
#: Names of one place that are told; linkers that fold equal code give it hundreds.
_MAX_NAMES = 16


class ProbeOffset(NamedTuple):
    """A place in a file for a uprobe: what it is called, and offsets in the file; `ref_ctr` 0 for no semaphore."""

    name: str
    offset: int
    ref_ctr: int = 0


class Functions(NamedTuple):
    """Functions found for names: each place once, and lines on names that stand for none, or not for all they match."""

    places: tuple[ProbeOffset, ...]
    warnings: tuple[str, ...]


class _Absent(Exception):
    """Raised for a name without a place, with the reason; others may have one."""


def open_binary(path: str) -> ElfFile:
    """The file, if programs of this machine can have it as their code.

    Raises NotFound, NotPermitted, MalformedData for a file that is not an ELF file, InvalidValue for another machine's.
    """
    elf = ElfFile(path)
    arch = os.uname().machine
    if elf.machine != _MACHINES.get(arch, elf.machine):
        raise InvalidValue(f"{path} is for another machine than {arch}: its arguments are in other places")
    return elf


def find_functions(
    elf: ElfSymbols, names: Sequence[str], *, binary: str = "", returns: bool = False, max_probes: int = 1000
) -> Functions:
    """Find the functions `names`: symbols, "symbol+offset", offsets in the file ("0x1234"), patterns.

    Also addresses ("*0x401234"), as the file's symbols have them, lines of source files ("file.c:22"), and names of C++
    ("cpp:Server::handle*").

    A symbol with several versions has several places. `binary` is what the author called the file. Raises NotFound with
    closest names if there is none of them; InvalidValue for places inside a function that a return probe cannot have,
    and for a pattern of more than `max_probes` functions.
    """
    binary = binary or elf.path
    places: dict[int, ProbeOffset] = {}
    warnings = []
    ifuncs: dict[str, list[str]] = {}
    include = not elf.segments  # looked for only if a name is missing: it costs a few file look-ups
    for name in names:
        try:
            found = _places(elf, name, binary, ifuncs, returns=returns, max_probes=max_probes)
        except _Absent:
            if not include:
                include_debug_symbols(elf, root=split_root(elf.path)[0])
                include = True
            try:
                found = _places(elf, name, binary, ifuncs, returns=returns, max_probes=max_probes)
            except _Absent as absent:
                warnings.append(str(absent))
                continue
        for place in found:
            places.setdefault(place.offset, place)
    if ifuncs and not include:  # what to probe instead is mostly in a debug file; patterns keep to the file itself
        include_debug_symbols(elf, root=split_root(elf.path)[0])
    warnings += [f"{pattern} of {binary} leaves out {summary(elf, left)}" for pattern, left in ifuncs.items()]
    if not places:
        more = f" (and {len(warnings) - 1} more that are not there)" if len(warnings) > 1 else ""
        raise NotFound(warnings[0] + more if warnings else f"no function of {binary} is named")
    return Functions(tuple(places.values()), tuple(warnings))


def matching_functions(elf: ElfSymbols, pattern: str, *, binary: str = "") -> tuple[dict[str, list[int]], str]:
    """Each name that a pattern matches, with its offsets in the file: several if it has versions; a line on the rest.

    Names of the same place are all there, where a probe has them as one. Raises NotFound, InvalidValue.
    """
    binary = binary or elf.path
    names: dict[str, list[int]] = {}
    if not _is_pattern(pattern):
        found = find_functions(elf, (pattern,), binary=binary)
        for place in found.places:
            names.setdefault(place.name, []).append(place.offset)
        return names, "; ".join(found.warnings)
    for include in (False, True):
        if include and elf.segments:
            include_debug_symbols(elf, root=split_root(elf.path)[0])
        functions, left_out = _code_matching(elf, pattern)
        for symbol, offset in functions:
            offsets = names.setdefault(symbol.name, [])
            if offset not in offsets:
                offsets.append(offset)
        if names:
            break
    ifuncs = [left_out[value] for value in sorted(left_out)]
    if not names:
        known = () if ifuncs or is_cpp(pattern) else (symbol.name for symbol in elf.matching("*"))
        hint = closest(pattern.strip("*?"), known)
        raise NotFound(f"{_nothing_matches(elf, pattern, binary, ifuncs)}{hint}")
    return names, f"{pattern} of {binary} leaves out {summary(elf, ifuncs)}" if ifuncs else ""


def _is_pattern(name: str) -> bool:
    """Whether a name may stand for several functions: C++ overloads them."""
    return bool(_PATTERN & set(name)) or is_cpp(name)


def _places(
    elf: ElfSymbols, name: str, binary: str, ifuncs: dict[str, list[str]], *, returns: bool, max_probes: int
) -> Iterable[ProbeOffset]:
    """The places of a name; what a pattern leaves out goes into `ifuncs`."""
    symbols = elf.find(name)
    if symbols:
        return _of_symbols(elf, symbols, name, binary)
    if name[:2] in {"0x", "0X"}:
        return [_at_offset(elf, name, binary, returns=returns)]
    if _ADDRESS.fullmatch(name):
        return [_at_address(elf, name, int(name[1:], 16), binary, returns=returns)]
    if is_line(name) and not is_cpp(name):
        return [_at_address(elf, name, at, binary, returns=returns) for at in addresses_of_line(elf, name, binary)]
    bare, plus, distance = name.rpartition("+")
    if plus and (symbols := elf.find(bare)):
        return _inside(elf, symbols, name, distance, binary, returns=returns)
    if _is_pattern(name):
        found, left_out = _matching(elf, name, binary, max_probes)
        if left_out:
            ifuncs[name] = left_out
        return found
    plain, at, _ = name.partition("@")
    if at and (others := elf.find(plain)):
        raise _Absent(f"{binary} has no function {name}: its {plain} is {' and '.join(map(str, others))}")
    if next(elf.matching("*"), None) is None:
        raise _Absent(f"{binary} has no symbols: it was stripped; an offset in the file such as 0x1234 can be probed")
    if "::" in name or "(" in name:
        raise _Absent(f"{binary} has no symbol {name}: a function of C++ by its readable name is {PREFIX}{name}")
    raise _Absent(f"{binary} has no function {name}{closest(name, (each.name for each in elf.matching('*')))}")


def _of_symbols(elf: ElfSymbols, symbols: Sequence[Symbol], name: str, binary: str) -> list[ProbeOffset]:
    """All versions of a symbol that are code.

    The first is the default one: if that is chosen when a program starts, the others are what hardly any program calls.
    """
    code = [symbol for symbol in symbols if symbol.kind != IFUNC and _is_code(elf, symbol)]
    if code and symbols[0].kind != IFUNC:
        several = len({symbol.value for symbol in code}) > 1
        return [ProbeOffset(str(symbol) if several else name, symbol.offset or 0) for symbol in code]
    if any(symbol.kind == IFUNC for symbol in symbols):
        raise _Absent(instead_of(elf, symbols[0], name.partition("@")[0], binary))
    raise _Absent(f"{name} of {binary} is no code: it is data")


def _is_code(elf: ElfSymbols, symbol: Symbol) -> bool:
    return symbol.offset is not None and elf.address_of(symbol.offset) == symbol.value


def _inside(
    elf: ElfSymbols, symbols: Sequence[Symbol], name: str, distance: str, binary: str, *, returns: bool
) -> list[ProbeOffset]:
    try:
        offset = int(distance, 0)
    except ValueError:
        raise InvalidValue(f"{name}: {distance!r} is not a number of bytes") from None
    if returns and offset:
        raise InvalidValue(f"{name}: the return is probed at a function's start; leave out +{distance}")
    for symbol in symbols:
        if offset < 0 or (symbol.size and offset >= symbol.size):
            raise InvalidValue(f"{name}: {symbol} of {binary} is {symbol.size} bytes long")
    functions = _of_symbols(elf, symbols, symbols[0].name, binary)
    for place in functions:
        _check_start(elf, f"{name} of {binary}", place.offset, offset)
    return [ProbeOffset(f"{place.name}+{offset:#x}", place.offset + offset) for place in functions]


def _check_start(elf: ElfSymbols, what: str, function: int, distance: int) -> None:
    """Refuse a place inside an instruction: the trap would be part of it, and the program that runs it may crash.

    The kernel does not see it: it decodes whatever is there (arch_uprobe_analyze_insn).
    """
    if elf.machine != _MACHINES["x86_64"] or not 0 < distance < _FARTHEST:
        return
    start = around(elf.read(function, distance + LONGEST), distance)
    if start is not None:
        raise InvalidValue(
            f"{what}: no instruction begins there, but one at +{start:#x}: a probe inside it may crash the program"
        )


def _at_address(elf: ElfSymbols, name: str, address: int, binary: str, *, returns: bool) -> ProbeOffset:
    offset = elf.offset_of(address)
    if offset is None:
        raise InvalidValue(f"address {address:#x} of {binary} is not in the file")
    return _at_offset(elf, f"{offset:#x}", binary, returns=returns)._replace(name=name)


def _at_offset(elf: ElfSymbols, name: str, binary: str, *, returns: bool) -> ProbeOffset:
    try:
        offset = int(name, 16)
    except ValueError:
        raise InvalidValue(f"{name} is not an offset in a file") from None
    address = elf.address_of(offset)
    if address is None:
        raise InvalidValue(f"offset {name} of {binary} is not in its code")
    inside = elf.table().find(address)
    if inside is not None and not returns and any(symbol.size for symbol in elf.find(inside.name)):
        _check_start(elf, f"{name} of {binary}, in {inside.name}", offset - inside.offset, inside.offset)
    if inside is not None and inside.offset and returns:
        raise InvalidValue(
            f"offset {name} of {binary} is inside {inside.name}: the return is probed at a function's start"
        )
    return ProbeOffset(name, offset)


def _matching(elf: ElfSymbols, pattern: str, binary: str, max_probes: int) -> tuple[list[ProbeOffset], list[str]]:
    """Places of the functions that match, and the IFUNCs that match, which have none."""
    functions, left_out = _code_matching(elf, pattern)
    # What has several names that match has one place, called by all of them.
    places: dict[int, dict[str, None]] = {}
    more: set[int] = set()
    for symbol, offset in functions:
        if offset in places or len(places) < max_probes:
            names = places.setdefault(offset, {})
            if len(names) <= _MAX_NAMES:
                names[symbol.name] = None
        else:
            more.add(offset)
    ifuncs = [left_out[value] for value in sorted(left_out)]
    if not places and not more:
        raise _nothing_matches(elf, pattern, binary, ifuncs)
    if more:
        number = len(places) + len(more)
        raise InvalidValue(
            f"{pattern} matches {number} functions of {binary}, more than {max_probes}: narrow it, or allow more "
            f"with max_probes={number} (--max-probes)"
        )
    return [ProbeOffset(_joined(places[offset]), offset) for offset in sorted(places)], ifuncs


def _code_matching(elf: ElfSymbols, pattern: str) -> tuple[Iterator[tuple[Symbol, int]], dict[int, str]]:
    """Functions that match, with their offsets in the file; the IFUNCs that match, as `split_ifuncs` has them."""
    left_out: dict[int, str]
    functions, left_out = (cpp_matching(elf, pattern), {}) if is_cpp(pattern) else split_ifuncs(elf, pattern)
    code = ((symbol, symbol.offset) for symbol in functions if _is_code(elf, symbol))
    return ((symbol, offset) for symbol, offset in code if offset is not None), left_out


def _nothing_matches(elf: ElfSymbols, pattern: str, binary: str, ifuncs: Sequence[str]) -> _Absent:
    """The error for a pattern that matches no function but perhaps IFUNCs."""
    if is_cpp(pattern):
        return _Absent(f"no function of {binary} matches {pattern}{similar(elf, pattern)}")
    if ifuncs:
        return _Absent(f"{pattern} of {binary} matches nothing but {summary(elf, ifuncs)}")
    return _Absent(f"no function of {binary} matches {pattern}")


def _joined(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return "/".join(ordered[:_MAX_NAMES]) + ("/..." if len(ordered) > _MAX_NAMES else "")
