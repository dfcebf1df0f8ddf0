"""USDT probes: their places in a file, and where each has its arguments."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pyebpf.arch import host as host_architecture
from pyebpf.arch.operands import parse_argument, parse_arguments
from pyebpf.attach.usdt import (
    ARGUMENT,
    COUNT,
    HIGH_BYTE,
    IN_MEMORY,
    MAX_ARGUMENTS,
    NO_REGISTER,
    SIGNED,
    SPEC_SIZE,
    SPECS,
    SPECS_MAP,
    Usdt,
    UsdtMulti,
)
from pyebpf.elf.usdt_notes import usdt_probes
from pyebpf.errors import InvalidValue, KernelError, NotFound, closest
from pyebpf.link.uprobes import ProbeLocations, attach_places
from pyebpf.objects import Map
from pyebpf.symbols.libraries import find_binary
from pyebpf.symbols.user_functions import ProbeOffset, open_binary
from pyebpf.uapi.attach_types import AttachType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.arch.operands import UsdtArgument
    from pyebpf.elf.symbols import ElfSymbols
    from pyebpf.elf.usdt_notes import UsdtProbe
    from pyebpf.link.base import Link
    from pyebpf.link.host import Host
    from pyebpf.objects import Program


def attach_usdt(program: Program, target: Usdt, _: Host) -> Link:
    """Attach `program` (kind KPROBE) to every place of a USDT probe.

    Raises NotFound for a file, process or probe that is not there; InvalidValue if a place has fewer arguments than the
    program takes, or one in a form that is not known; and what attaching a uprobe raises.
    """
    path = find_binary(target.binary, pid=target.pid)
    elf = open_binary(path)
    probes = find_probes(elf, target)
    forms = [_usdt_spec(elf, probe, target) for probe in probes]
    places = tuple(
        ProbeOffset(f"{probe.provider}:{probe.name}", probe.offset or 0, probe.semaphore) for probe in probes
    )
    located = ProbeLocations(path, places)
    cookies = _keep(program, forms)
    if target.attach_type != AttachType.TRACE_UPROBE_MULTI:
        return attach_places(program, target, str(target), located, cookies)
    from pyebpf.link.uprobes import link_places

    return link_places(program, target, str(target), located, cookies)


def find_probes(elf: ElfSymbols, target: Usdt) -> tuple[UsdtProbe, ...]:
    """The places of the probe, or of those that a pattern matches, each once.

    Raises NotFound, with the closest names; InvalidValue for more than `target.max_probes` places.
    """
    every = usdt_probes(elf)
    found = {
        probe.offset: probe
        for probe in every
        if fnmatchcase(probe.provider, target.provider)
        and fnmatchcase(probe.name, target.name)
        and probe.offset is not None
    }
    if len(found) > target.max_probes:
        raise InvalidValue(
            f"{target.target!r} matches {len(found)} places of {target.binary}, more than {target.max_probes}: narrow "
            f"it, or allow more with max_probes={len(found)} (--max-probes)"
        )
    if found:
        return tuple(found.values())
    where = "" if "/" in target.binary else f" ({elf.path})"
    if not every:
        raise NotFound(
            f"{target.binary}{where} has no USDT probes: it was built without them (no .note.stapsdt); "
            "a function takes a uprobe"
        )
    names = {f"{probe.provider}:{probe.name}" for probe in every}
    if target.target in names:
        raise NotFound(f"the USDT probe {target.target} of {target.binary} has no code")
    raise NotFound(f"{target.binary}{where} has no USDT probe {target.target}{closest(target.target, names)}")


def _usdt_spec(elf: ElfSymbols, probe: UsdtProbe, target: Usdt) -> bytes:
    """A slot of the hidden map for the arguments of one place that the program takes."""
    arguments = parse_arguments(probe.arguments)
    if target.wanted > len(arguments):
        has = f"{len(arguments)} argument{'' if len(arguments) == 1 else 's'}"
        raise InvalidValue(f"{target}: the probe has {has}, not {target.wanted}: {probe.arguments or 'none'}")

    def symbol(name: str) -> int:
        found = elf.find(name)
        if not found:
            raise InvalidValue(f"an argument is at {name}, which the file has no symbol for")
        return found[0].value

    wanted = arguments[: min(target.wanted, MAX_ARGUMENTS)]
    try:
        packed = [_packed(parse_argument(text, host_architecture(), probe.address, symbol)) for text in wanted]
    except InvalidValue as error:
        raise InvalidValue(f"{target}: {error}") from None
    return (COUNT.pack(len(packed) + 1) + b"".join(packed)).ljust(SPEC_SIZE, b"\0")


def _packed(argument: UsdtArgument) -> bytes:
    offsets = [
        host_architecture().register_offset(name) if name else NO_REGISTER for name in (argument.base, argument.scaled)
    ]
    flags = (IN_MEMORY if argument.in_memory else 0) | (SIGNED if argument.signed else 0)
    flags |= HIGH_BYTE if argument.is_high else 0
    return ARGUMENT.pack(argument.constant, *offsets, flags, argument.scale, argument.size - 1, 64 - 8 * argument.size)


def _keep(program: Program, forms: Sequence[bytes]) -> list[int]:
    """Put forms into the hidden map, each once; their slots.

    A program without arguments has no such map, and the numbers of the places.
    """
    forms_map = program.maps.get(SPECS_MAP)
    if not isinstance(forms_map, Map):
        return list(range(len(forms)))
    content = bytearray(forms_map[0])
    numbers = []
    for form in forms:
        for start in range(0, SPECS * SPEC_SIZE, SPEC_SIZE):
            kept = bytes(content[start : start + SPEC_SIZE])
            if kept == form or not any(kept):
                content[start : start + SPEC_SIZE] = form
                numbers.append(start // SPEC_SIZE)
                break
        else:
            raise KernelError(f"the arguments of these USDT probes are in more than {SPECS} different forms")
    forms_map[0] = bytes(content)
    return numbers


ATTACH = {
    Usdt: attach_usdt,
    UsdtMulti: attach_usdt,
}
"""The function that attaches a program, by class of its attach spec."""
