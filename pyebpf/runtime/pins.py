"""A loaded module on a bpf file system: pinned there by one process, reopened by the next.

A directory holds a file for each map (`map_<number>_<name>`), program (`program_<number>_<name>_<digest>`) and link
(`link_<number>_<program's number>`). Numbers are those of the module's spec, so that the same declarations find
theirs again; names are for readers, and have no dots, which the file system reserves. The digest is of the program's
instructions and of where it is attached: compiled again, the same source has the same, and other source another.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from pyebpf.errors import InvalidValue, KernelError, NotFound
from pyebpf.kernel import bpf, info
from pyebpf.kernel.errors_in_words import kernel_error, pin_error
from pyebpf.kernel.memory import PAGE_SIZE
from pyebpf.link.base import Link
from pyebpf.link.listing import described, program_type_name
from pyebpf.objects import Program, make_map
from pyebpf.specs.programs import kernel_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyebpf.kernel.descriptor import Descriptor
    from pyebpf.objects import KernelMap
    from pyebpf.specs import ModuleSpec

_KINDS = ("map_", "program_", "link_")
_DIGEST = 16  # hexadecimal digits


def _file(kind: str, number: int, name: str) -> str:
    return f"{kind}_{number}_{kernel_name(name).replace('.', '-')}"


def _program_file(spec: ModuleSpec, number: int) -> str:
    """The file of a program: its digest is of its code, and of all places that the code is for."""
    from hashlib import sha256

    own = spec.programs[number]
    text = [f"{i.op.name} {i.dst} {i.src} {i.offset} {i.imm} {i.symbol}" for i in own.code.instructions]
    text += [f"{each.name} {each.start}" for each in own.code.subprograms]
    same = (each for each in spec.programs if each.code is own.code)
    text += [f"{each.type} {each.attach} {each.expected_attach_type} {each.flags} {each.cookie}" for each in same]
    digest = sha256("\n".join(text).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{_file('program', number, own.name)}_{digest}"


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
                name = _program_file(spec, number)
                _pin(program.fileno(), f"program {program.name}", path, name)
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
    used: set[str] = set()
    for number, each in enumerate(spec.maps):
        file = _file("map", number, each.name)
        if file not in names:
            raise _another(path, f"lacks {file}")
        maps[each.name] = made = make_map(each, _obj_get(f"{path}/{file}"))
        opened.append(made)
        used.add(file)
        if each.entries(PAGE_SIZE) not in (0, made.max_entries):
            sizes = f"{made.max_entries} entries, not {each.max_entries} as declared"
            raise InvalidValue(f"the map {each.name} pinned at {path} has {sizes}: unpin it (rm -r)")
    programs: list[Program] = []
    for number, program_spec in enumerate(spec.programs):
        shared = [program for program in programs if program.spec.code is program_spec.code]
        file = _program_file(spec, number)
        if file not in names:
            if any(name.startswith(_file("program", number, program_spec.name) + "_") for name in names):
                raise InvalidValue(
                    f"the program {program_spec.name} pinned at {path} has other code than this one, or is attached "
                    "elsewhere: reopen it by the source that pinned it, or unpin it (rm -r) and load this one"
                )
            if not shared:
                raise _another(path, f"lacks {file}")
            programs.append(shared[0])
            continue
        used.add(file)
        descriptor = _obj_get(f"{path}/{file}")
        programs.append(Program.opened(program_spec, maps, descriptor))
        opened.append(programs[-1])
    if more := [name for name in names if name.startswith(("map_", "program_")) and name not in used]:
        raise _another(path, f"has {more[0]}, too")
    links = []
    for name in sorted((name for name in names if name.startswith("link_")), key=lambda name: int(name.split("_")[1])):
        number = int(name.split("_")[2])
        links.append(_link(_obj_get(f"{path}/{name}"), programs[number] if number < len(programs) else None))
        opened.append(links[-1])
    return maps, programs, links


def _another(path: str, difference: str) -> InvalidValue:
    return InvalidValue(f"what is pinned at {path} has other declarations: it {difference}; unpin it (rm -r)")


def _obj_get(path: str) -> Descriptor:
    try:
        return bpf.obj_get(path)
    except OSError as error:
        raise kernel_error(error, f"opening {path}", needs=("CAP_BPF",)) from error


def _link(descriptor: Descriptor, program: Program | None) -> Link:
    found = info.link_info(descriptor.fileno())
    return Link(described(descriptor.fileno()), f"{program_type_name(found.type)} link", [descriptor], program=program)


def unpin(path: str) -> None:
    """Remove a directory that `pin` made. What nothing else holds ends with it. Raises NotFound, KernelError."""
    try:
        files = sorted(Path(path).iterdir())
        for file in files:
            if file.is_dir() or not file.name.startswith(_KINDS):
                raise InvalidValue(f"{file} was not pinned by pyebpf: remove it yourself")
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                file.unlink()
        Path(path).rmdir()
    except FileNotFoundError:
        raise NotFound(f"nothing is pinned at {path}") from None
    except OSError as error:
        if isinstance(error, KernelError):
            raise
        raise kernel_error(error, f"unpinning {path}", needs=("CAP_DAC_OVERRIDE",)) from error
