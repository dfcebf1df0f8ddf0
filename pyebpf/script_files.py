"""`ProgramFiles`: what a script asks about the programs and libraries of this machine that it probes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace.translate.user_files import UserFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyebpf.attach.uprobes import Uprobe
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

    def has(self, attach: Uprobe) -> bool:
        from pyebpf.errors import NotFound
        from pyebpf.link.uprobes import locate

        try:
            locate(attach)
        except NotFound:
            return False
        return True

    def matching(self, kind: str, pattern: str, name: str, pid: int) -> Sequence[str]:
        from fnmatch import fnmatchcase
        from glob import glob

        from pyebpf.errors import PyebpfError
        from pyebpf.runtime.attach_points import AttachPoints, Pattern
        from pyebpf.symbols.libraries import mapped_binaries

        if pid < 0:
            paths = sorted(glob(pattern))  # noqa: PTH207 - from the root, or from here
        else:
            paths = [path for path in mapped_binaries(pid) if fnmatchcase(path, pattern)]

        def has(points: AttachPoints, path: str) -> bool:
            try:
                return bool(points.find(Pattern(f"{kind}:{path}:{name}", kind, path, name)).points)
            except (PyebpfError, OSError):  # no program, gone, or without such a function
                return False

        with AttachPoints(pid) as points:
            return [path for path in paths if has(points, path)]

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
