"""Addresses of symbols in a process: the way back from names to addresses."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyebpf.errors import InvalidValue, NotFound, NotPermitted, closest, most_like
from pyebpf.kernel.errors_in_words import by_whom
from pyebpf.symbols.debug import include_debug_symbols
from pyebpf.symbols.mappings import Mapping, read_mappings
from pyebpf.symbols.process import mount_namespace, open_mapped

if TYPE_CHECKING:
    from collections.abc import Iterator


def address_in_process(pid: int, symbol: str) -> int:
    """Address of a function or variable in a living process: "name", or "FILE:name" with the name of a mapped file.

    "name" is the program's own if it has one, else that of the first file that does. Raises NotFound, with the closest
    names, InvalidValue if a file has several, NotPermitted.
    """
    file, _, name = symbol.rpartition(":")
    try:
        mappings = read_mappings(pid)
        program = os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
    except (FileNotFoundError, ProcessLookupError):
        raise NotFound(f"{symbol}: there is no process {pid}") from None
    except PermissionError as error:
        raise NotPermitted(
            f"{symbol}: the mappings of process {pid} cannot be read {by_whom()}", error.errno
        ) from error
    files = list(_files(mappings, program, file))
    if file and not files:
        mapped = {os.path.basename(mapping.path) for mapping in mappings if mapping.is_file}
        raise NotFound(f"{symbol}: process {pid} has mapped no file {file}{closest(file, mapped)}")
    namespace = mount_namespace(pid)
    names: list[str] = []
    for mapping in files:
        opened = open_mapped(pid, mapping, namespace)
        if opened is None:
            continue
        elf, root = opened
        include_debug_symbols(elf, root=root, path=mapping.path)
        found = elf.find(name)
        chosen = {each.value for each in found if each.default} or {each.value for each in found}
        bias = elf.bias(mapping.start, mapping.offset)
        if len(chosen) > 1:
            raise InvalidValue(f"{symbol}: {mapping.path} has {len(chosen)} symbols of that name: give an address")
        if chosen and bias is not None:
            return bias + chosen.pop()
        names += most_like(name, (each.name for each in elf.symbols()))
    where = files[0].path if len(files) == 1 else f"process {pid}"
    raise NotFound(f"{symbol}: {where} has no symbol {name}{closest(name, names)}")


def _files(mappings: tuple[Mapping, ...], program: str, file: str) -> Iterator[Mapping]:
    """The first mapping with code of each file, the program's own first; only `file`'s, if one is named."""
    seen: set[str] = set()
    for mapping in sorted(mappings, key=lambda mapping: mapping.path != program):
        wanted = not file or file in {mapping.path, os.path.basename(mapping.path)}
        if mapping.is_file and wanted and mapping.path not in seen:
            seen.add(mapping.path)
            yield mapping
