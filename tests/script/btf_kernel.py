"""A kernel by the BTF of its files alone, without a machine that runs it: `kernel(FOLDER)`.

The folder has the section .BTF of the image as `vmlinux` and those of modules by their names; in `functions`, if it is
there, names of functions that BTF lacks, one a line. What BTF does not tell comes from this machine: the layout of a
tracepoint's record is that of the struct which has the fields of its `format` here.
"""

from __future__ import annotations

import functools
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pyebpf.arch import architecture
from pyebpf.btf import Btf, Kind
from pyebpf.errors import FormatError, NotFound
from pyebpf.target import LiveTarget

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pyebpf.target import KernelType, Target
    from pyebpf.types.tracepoint import TracepointFormat

_RECORD = "trace_event_raw_"
_LOCATED = "__data_loc_"
_COMMON = """name: {}
ID: 1
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

"""


class BtfKernel(LiveTarget):
    """A kernel by its BTF; `here` is this machine's, `newest` says that every instruction is there."""

    def __init__(self, folder: Path, here: LiveTarget, *, newest: bool = False) -> None:
        vmlinux = Btf((folder / "vmlinux").read_bytes())
        files = sorted(each for each in folder.iterdir() if each.name not in ("vmlinux", "functions"))
        modules = {each.name: Btf(each.read_bytes(), vmlinux) for each in files}
        super().__init__(btf=lambda: vmlinux, modules=modules.items)
        self._here, self._newest = here, newest
        self._read: dict[tuple[str, str], TracepointFormat | NotFound] = {}
        self._names = set(vmlinux.names((Kind.FUNC,)))
        for split in modules.values():
            self._names.update(split.names((Kind.FUNC,), own=True))
        listed = folder / "functions"
        if listed.exists():
            self._names.update(listed.read_text().split())

    def has(self, feature: str) -> bool:
        """By the names of helpers, kfuncs and kinds of links in BTF; else it is there, but for newer instructions."""
        kind, _, name = feature.partition(":")
        if kind == "helper":
            return self._has_enumerator(f"BPF_FUNC_{name.partition('@')[0]}")
        if kind == "kfunc":
            return self.has_function(name)
        if kind == "attach" and name in ("kprobe_multi", "kprobe_session", "uprobe_multi"):
            return self._has_enumerator(f"BPF_TRACE_{name.upper()}")
        return kind == "attach" or self._newest or kind != "isa"

    def _has_enumerator(self, name: str) -> bool:
        try:
            self.enumerator(name)
        except NotFound:
            return False
        return True

    def functions(self, pattern: str) -> tuple[str, ...]:
        """Those of BTF and of the list."""
        name = pattern.rpartition(":")[2]
        if name in self._names:
            return (pattern,)
        return tuple(sorted(each for each in self._names if fnmatchcase(each, name)))

    def has_tracepoint(self, category: str, name: str) -> bool:
        """By the raw tracepoint's type, for a system call by its function."""
        if category == "syscalls":
            call = name.removeprefix("sys_enter_").removeprefix("sys_exit_")
            return self.has_function(f"{architecture(self.arch).call_prefix}{call}")
        return self._find(f"btf_trace_{name}", (Kind.TYPEDEF,)) is not None

    def tracepoints(self, category: str, pattern: str) -> tuple[str, ...]:
        """Those of this machine that this kernel has, too."""
        return tuple(each for each in self._here.tracepoints(category, pattern) if self.has_tracepoint(category, each))

    def _has_record(self, name: str) -> bool:
        return self._find(f"{_RECORD}{name}", (Kind.STRUCT,)) is not None

    def tracepoint_format(self, category: str, name: str) -> TracepointFormat:
        """That of this machine for a system call; for others by the struct of the record."""
        if (category, name) not in self._read:
            try:
                self._read[category, name] = self._format(category, name)
            except NotFound as error:
                self._read[category, name] = error
        found = self._read[category, name]
        if isinstance(found, NotFound):
            raise NotFound(str(found))
        return found

    def _format(self, category: str, name: str) -> TracepointFormat:
        from pyebpf.types.tracepoint import parse_format

        if not self.has_tracepoint(category, name):
            raise NotFound(f"the kernel has no tracepoint {category}:{name}")
        if category in ("syscalls", "raw_syscalls"):
            return self._here.tracepoint_format(category, name)
        try:
            like = self._here.tracepoint_format(category, name)
        except (NotFound, FormatError):
            like = None
        record = name
        if like is not None and not self._has_record(name):
            record = _records(self._here).get(frozenset((field.name, field.offset) for field in like.fields), name)
            if not self._has_record(record):
                return like
        owner = self.type_named(f"struct {_RECORD}{record}")
        return parse_format(_COMMON.format(name) + "".join(_lines(self, owner, like)) + '\nprint fmt: ""\n')


@functools.cache
def _records(here: LiveTarget) -> Mapping[frozenset[tuple[str, int]], str]:
    """The names of the structs of records by their members."""
    found = {}
    for struct in sorted(here.btf().names((Kind.STRUCT,))):
        if struct.startswith(_RECORD):
            owner = here.type_named(f"struct {struct}")
            names = [each for each in here.members(owner) if each not in ("ent", "__data")]
            members = {(each.removeprefix(_LOCATED), here.member(owner, each).offset) for each in names}
            found[frozenset(members)] = struct.removeprefix(_RECORD)
    return found


def _lines(target: Target, owner: KernelType, like: TracepointFormat | None) -> Iterator[str]:
    known = {} if like is None else {field.name: field.type for field in like.fields}
    for member in target.members(owner):
        if member in ("ent", "__data"):
            continue
        found = target.member(owner, member)
        type_, name = found.type, member.removeprefix(_LOCATED)
        if name != member:
            written = known.get(name, "__data_loc char[]")
            yield f"\tfield:{written} {name};\toffset:{found.offset};\tsize:4;\tsigned:0;\n"
            continue
        base = type_.element.c_name if type_.kind == "array" and type_.element is not None else type_.c_name
        written = known.get(name, type_.aliases[0] if type_.aliases else base).partition("[")[0]
        size = f"[{type_.length}]" if type_.kind == "array" else ""
        signed = int(type_.signed or bool(type_.element and type_.element.signed and type_.kind == "array"))
        yield f"\tfield:{written} {name}{size};\toffset:{found.offset};\tsize:{type_.size};\tsigned:{signed};\n"
