"""The files of a script: those that it probes (`ProgramFiles`), includes, reads and writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace.translate.user_files import UserFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import BinaryIO, TextIO

    from pyebpf.attach.uprobes import Uprobe
    from pyebpf.bpftrace.includes import Files
    from pyebpf.bpftrace.translate.user_memory import UserVariable
    from pyebpf.bpftrace.translate.user_types import UserFunction


class ProgramFiles(UserFiles):
    """Answers from symbol tables and DWARF, which are read when a question comes."""

    def variable(self, binary: str, function: str, name: str, pid: int) -> UserVariable:
        from pyebpf.bpftrace.translate.user_memory import UserVariable
        from pyebpf.errors import NotFound, closest
        from pyebpf.kernel.roots import split_root
        from pyebpf.symbols.debug import include_debug_symbols
        from pyebpf.symbols.libraries import find_binary
        from pyebpf.symbols.user_functions import find_functions, open_binary

        elf = open_binary(find_binary(binary, pid=pid))
        found = elf.find(name)
        if not found:
            include_debug_symbols(elf, root=split_root(elf.path)[0])
            found = elf.find(name)
        if not found:
            raise NotFound(f"{binary} has no symbol {name}{closest(name, (each.name for each in elf.symbols()))}")
        places = find_functions(elf, (function,), binary=binary).places if function else ()
        probe = elf.address_of(places[0].offset) if len(places) == 1 else None
        return UserVariable(found[0].value, found[0].size, probe, elf.type == "ET_DYN")

    def function(self, binary: str, functions: Sequence[str], pid: int) -> UserFunction:
        from pyebpf.bpftrace.translate.user_types import UserFunction
        from pyebpf.symbols.libraries import find_binary
        from pyebpf.symbols.parameters import find_parameters
        from pyebpf.symbols.user_functions import open_binary

        return UserFunction(*find_parameters(open_binary(find_binary(binary, pid=pid)), functions, binary=binary))

    def path(self, binary: str, pid: int) -> str:
        from pyebpf.symbols.libraries import find_binary

        return find_binary(binary, pid=pid)

    def check(self, attach: Uprobe) -> None:
        from pyebpf.link.uprobes import locate

        locate(attach)

    def matching(self, kind: str, pattern: str, name: str, pid: int) -> Sequence[str]:
        from pyebpf.errors import PyebpfError
        from pyebpf.runtime.attach_points import AttachPoints, Pattern
        from pyebpf.symbols.libraries import matching_binaries

        def has(points: AttachPoints, path: str) -> bool:
            try:
                return bool(points.find(Pattern(f"{kind}:{path}:{name}", kind, path, name)).points)
            except (PyebpfError, OSError):  # no program, gone, or without such a function
                return False

        with AttachPoints(pid) as points:
            return [path for path in matching_binaries(pid, pattern) if has(points, path)]

    def named(self, kind: str, binary: str, pattern: str, pid: int) -> Sequence[str]:
        from pyebpf.runtime.attach_points import AttachPoints, Pattern
        from pyebpf.symbols.libraries import find_binary
        from pyebpf.symbols.user_functions import find_functions, open_binary

        if kind == "usdt":
            with AttachPoints(pid) as points:
                return [
                    each.name for each in points.find(Pattern(f"usdt:{binary}:{pattern}", kind, binary, pattern)).points
                ]
        places = find_functions(open_binary(find_binary(binary, pid=pid)), (pattern,), binary=binary).places
        return sorted({place.name.partition("/")[0] for place in places})  # a place may have several names


def included_files() -> Files:
    """The texts of the files that a script includes."""
    from pyebpf.bpftrace.includes import Files

    return Files(_included)


#: Bytes of a file that a script includes.
_MAX_INCLUDED = 1 << 22


def _included(path: str, file: str) -> tuple[str, str] | None:
    """The text and the name of a file beside the one that includes it, or at the path; None if there is none."""
    from pathlib import Path

    from pyebpf.errors import MalformedData, NotFound

    for found in (Path(file).parent / path, Path(path)):
        try:
            with _open(str(found)) as opened:
                data = _first_bytes(opened, _MAX_INCLUDED + 1)
        except NotFound:
            continue
        if len(data) > _MAX_INCLUDED:
            raise MalformedData(f"{found} has more than {_MAX_INCLUDED >> 20} MiB: a script includes no such file")
        return data.decode(errors="surrogateescape"), str(found)
    return None


def new_file(path: str) -> TextIO:
    """A file that a script writes. Raises InvalidValue if it cannot be written."""
    import os

    from pyebpf.errors import InvalidValue
    from pyebpf.written_files import failure, open_to_write

    try:
        return os.fdopen(open_to_write(path), "w")
    except OSError as error:
        raise InvalidValue(f"skboutput(): {path} cannot be written: {failure(error)}") from None


#: Bytes that are read of a file at once, so that a large limit does not make room for all of it.
_PIECE = 1 << 16
#: Regular files of procfs and tracefs whose reading takes away what is there to be read.
_CONSUMED = ("kmsg", "trace_pipe", "trace_pipe_raw", "snapshot_raw")


def beginning(path: str, limit: int, complain: Callable[[str], object]) -> str:
    """The first bytes of a file: of a regular one, since a watched process may have named it, and a FIFO would wait."""
    import os
    from errno import ENOENT

    from pyebpf.errors import KernelError, MalformedData, NotFound

    try:
        with _open(path) as file:
            return _first_bytes(file, limit).decode(errors="surrogateescape")
    except MalformedData as error:
        complain(f"ERROR: cat(): {error}")
    except (NotFound, KernelError, OSError) as error:
        reason = os.strerror(getattr(error, "errno", None) or ENOENT)
        complain(f"ERROR: failed to open file '{path}' ({reason})")
    return ""


def _open(path: str) -> BinaryIO:
    """Open a file that can be read without end or loss. Raises MalformedData for any other, and as open_regular()."""
    import os
    from pathlib import Path

    from pyebpf.errors import MalformedData
    from pyebpf.symbols.files import open_regular

    try:
        file = open_regular(path)
    except MalformedData:
        raise MalformedData(
            f"'{path}' is not a regular file: FIFOs, sockets, devices and directories are not read"
        ) from None
    own = Path(f"/proc/self/fd/{file.fileno()}").readlink()
    if own.name in _CONSUMED and not os.fstat(file.fileno()).st_size:
        file.close()
        raise MalformedData(f"'{path}' is not read: that would take what it has from whoever is to read it")
    return file


def _first_bytes(file: BinaryIO, limit: int) -> bytes:
    """The first bytes of a file, or those that are there by now."""
    import os

    parts: list[bytes] = []
    try:
        while limit and (part := os.read(file.fileno(), min(limit, _PIECE))):
            parts.append(part)
            limit -= len(part)
    except BlockingIOError:
        pass  # a file of the kernel's that has no more as yet
    return b"".join(parts)
