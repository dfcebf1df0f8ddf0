"""A loaded module on a bpf file system: pinned there by one process, taken up by the next.

A directory holds a file for each map (`map_<number>_<name>`), program (`program_<number>_<name>`) and link
(`link_<number>_<program's number>`). Numbers are those of the module's spec, so that the same declarations find
theirs again; names are for readers, and have no dots, which the file system reserves.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf.errors import InvalidValue, KernelError, NotFound
from pyebpf.kernel import bpf, info
from pyebpf.kernel.diagnosis import diagnose, pin_error
from pyebpf.kernel.memory import PAGE_SIZE
from pyebpf.link.base import Link
from pyebpf.link.listing import described, program_type_name
from pyebpf.objects import Program, make_map

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.objects import KernelMap
    from pyebpf.specs import ModuleSpec

__all__ = ["pin", "reopen", "unpin"]


_KINDS = ("map_", "program_", "link_")


def _file(kind: str, number: int, name: str) -> str:
    return f"{kind}_{number}_{name.replace('.', '-')}"


def pin(
    path: str, spec: ModuleSpec, maps: Mapping[str, KernelMap], programs: Sequence[Program], links: Sequence[Link]
) -> None:
    """Pin all into a new directory; what was pinned is taken back if something cannot be.

    `programs` are the spec's, in order. Raises NotSupported for an attachment that no link holds, KernelError, also
    where the path is on no bpf file system.
    """
    for link in links:
        link.check_pinnable()
    try:
        Path(path).mkdir(0o700)
    except OSError as error:
        raise pin_error(error, "the module", path) from error
    try:
        for number, each in enumerate(spec.maps):
            _pin(maps[each.name].fileno(), f"map {each.name}", path, _file("map", number, each.name))
        done: dict[int, int] = {}
        for number, program in enumerate(programs):
            if done.setdefault(id(program), number) == number:
                _pin(program.fileno(), f"program {program.name}", path, _file("program", number, program.name))
        for number, link in enumerate(links):
            program_number = done.get(id(link.program), 0)
            link.pin(f"{path}/link_{number}_{program_number}")
    except BaseException:
        unpin(path)
        raise


def _pin(fd: int, what: str, path: str, name: str) -> None:
    full = f"{path}/{name}"
    try:
        bpf.obj_pin(fd, full)
    except OSError as error:
        raise pin_error(error, what, full) from error


def reopen(path: str, spec: ModuleSpec) -> tuple[dict[str, KernelMap], list[Program], list[Link]]:
    """Open what `pin` put there for the same declarations.

    Raises NotFound where nothing is, InvalidValue where something else is pinned.
    """
    try:
        names = sorted(each.name for each in Path(path).iterdir())
    except OSError:
        raise NotFound(f"nothing is pinned at {path}") from None
    opened: list[KernelMap | Program | Link] = []
    try:
        return _reopen(path, spec, names, opened)
    except BaseException:
        for each in opened:
            each.detach() if isinstance(each, Link) else each.close()
        raise


def _reopen(
    path: str, spec: ModuleSpec, names: Sequence[str], opened: list[KernelMap | Program | Link]
) -> tuple[dict[str, KernelMap], list[Program], list[Link]]:
    maps: dict[str, KernelMap] = {}
    for number, each in enumerate(spec.maps):
        maps[each.name] = made = make_map(each, _open(path, names, "map", number, each.name))
        opened.append(made)
        if each.entries(PAGE_SIZE) not in (0, made.max_entries):
            sizes = f"{made.max_entries} entries, not {each.max_entries} as declared"
            raise InvalidValue(f"the map {each.name} pinned at {path} has {sizes}: unpin it (rm -r)")
    programs: list[Program] = []
    for number, program_spec in enumerate(spec.programs):
        shared = [program for program in programs if program.spec.code is program_spec.code]
        if shared and _file("program", number, program_spec.name) not in names:
            programs.append(shared[0])
            continue
        descriptor = _open(path, names, "program", number, program_spec.name)
        programs.append(Program.opened(program_spec, maps, descriptor))
        opened.append(programs[-1])
    links = []
    for name in sorted((name for name in names if name.startswith("link_")), key=lambda name: int(name.split("_")[1])):
        number = int(name.split("_")[2])
        links.append(_link(_obj_get(f"{path}/{name}"), programs[number] if number < len(programs) else None))
        opened.append(links[-1])
    return maps, programs, links


def _another(path: str, name: str) -> InvalidValue:
    return InvalidValue(f"what is pinned at {path} was made by other declarations: it has no {name}; unpin it (rm -r)")


def _open(path: str, names: Sequence[str], kind: str, number: int, name: str) -> Descriptor:
    file = _file(kind, number, name)
    if file not in names:
        raise _another(path, file)
    return _obj_get(f"{path}/{file}")


def _obj_get(path: str) -> Descriptor:
    try:
        return bpf.obj_get(path)
    except OSError as error:
        raise diagnose(error, f"opening {path}", needs=("CAP_BPF",)) from error


def _link(descriptor: Descriptor, program: Program | None) -> Link:
    found = info.link_info(descriptor.fileno())
    return Link(described(descriptor.fileno()), f"{program_type_name(found.type)} link", [descriptor], program=program)


def unpin(path: str) -> None:
    """Remove a directory that `pin` made. What nothing else holds ends with it. Raises NotFound, KernelError."""
    try:
        files = sorted(Path(path).iterdir())
        for file in files:
            if file.is_dir() or not file.name.startswith(_KINDS):
                raise InvalidValue(f"{file} was not pinned by pyebpf: remove it by hand")
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                file.unlink()
        Path(path).rmdir()
    except FileNotFoundError:
        raise NotFound(f"nothing is pinned at {path}") from None
    except OSError as error:
        if isinstance(error, KernelError):
            raise
        raise diagnose(error, f"unpinning {path}", needs=("CAP_DAC_OVERRIDE",)) from error
