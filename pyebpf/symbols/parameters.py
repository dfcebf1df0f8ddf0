"""Parameters of functions in files, by their debugging information."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.errors import NotFound
from pyebpf.kernel.roots import split_root
from pyebpf.symbols.debug import debug_types_of
from pyebpf.symbols.user_functions import find_functions, open_binary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.elf.dwarf.types import DebugParameter, DebugTypes, Signature
    from pyebpf.symbols.files import ElfFile


class Parameters(NamedTuple):
    """The signature of functions, the address of the first of them, and the types of their file.

    `unknown` is the reason why there is no signature, "" where it is known; `disputed` is that there are several types
    of what they return, "" where there is one or nothing tells it.
    """

    types: DebugTypes
    address: int
    signature: Signature | None
    unknown: str = ""
    disputed: str = ""


def find_parameters(elf: ElfFile, names: Sequence[str], *, binary: str = "") -> Parameters:
    """The parameters that all functions of these names have, as `find_functions` finds them.

    They are unknown where the file's debugging information says nothing of a function, where the compiler has changed
    how it is called, and where the functions differ. Raises NotFound for a file without debugging information.
    """
    binary = binary or elf.path
    places = find_functions(elf, names, binary=binary).places
    types = debug_types_of(elf, root=split_root(elf.path)[0])
    if types is None:
        raise NotFound(
            f"{binary} has no debugging information, which names parameters: compile it with -g, or install its debug "
            "symbols; arg0 and so on have arguments by position"
        )
    found: Parameters | None = None
    for place in places:
        address = elf.address_of(place.offset)
        if address is None:
            continue
        signature = _signature_at(types, place.name, address)
        if signature is None:
            return Parameters(types, address, None, _unknown(place.name, binary))
        if found is None or found.signature is None:
            found = Parameters(types, address, signature)
        elif _shape(found.signature) != _shape(signature):
            names = f"{places[0].name} and {place.name} of {binary}"
            same = found.signature.result.c_name == signature.result.c_name
            disputed = "" if same else f"{names} return different types: probe them apart"
            return Parameters(types, address, None, f"{names} have different parameters: probe them apart", disputed)
    if found is None:
        raise NotFound(f"{binary} has no code at {places[0].name}")
    return found


def _signature_at(types: DebugTypes, name: str, address: int) -> Signature | None:
    """The signature of the function of this name at an address; None where nothing tells it."""
    # What follows a dot is a copy that the compiler made for some calls, mostly with other parameters.
    return None if "." in name.partition("@")[0] else types.signature(address)


def _unknown(name: str, binary: str) -> str:
    if set(name) & set(":+*") or name[:2] == "0x":
        return f"arguments are known by name at the entry of a function that is named, and {name} is another place"
    return (
        f"the debugging information of {binary} does not tell the parameters of {name}: arg0 and so on have arguments "
        "by position"
    )


def listed_parameters(path: str, name: str, offset: int) -> tuple[DebugParameter, ...] | None:
    """The parameters of the function at an offset of a file; None where nothing tells them. Raises MalformedData.

    Whoever lists functions asks for one file again and again: it is kept open.
    """
    try:
        status = Path(path).stat()
    except OSError:
        return None
    elf, types = _opened(path, (status.st_dev, status.st_ino, status.st_mtime_ns))
    address = elf.address_of(offset)
    found = None if types is None or address is None else _signature_at(types, name, address)
    return None if found is None else found.parameters


@functools.lru_cache(2)
def _opened(path: str, identity: tuple[int, ...]) -> tuple[ElfFile, DebugTypes | None]:  # noqa: ARG001 - a key
    elf = open_binary(path)
    return elf, debug_types_of(elf, root=split_root(elf.path)[0])


def _shape(signature: Signature) -> list[tuple[str, str]]:
    return [("", signature.result.c_name), *((each.name, each.type.c_name) for each in signature.parameters)]
