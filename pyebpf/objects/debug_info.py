"""Debug information of a program: func_info, line_info, and their BTF: the object's own, or the smallest there is.

With it the verifier's log and `bpftool prog dump` show Python source, and callbacks (bpf_loop) may be used, which the
kernel refuses without func_info.
"""

from __future__ import annotations

from functools import cache
from struct import Struct
from typing import TYPE_CHECKING

from pyebpf.asm import slot_starts
from pyebpf.btf import Btf, BtfBuilder
from pyebpf.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyebpf.errors import Location
    from pyebpf.specs import Code

# struct bpf_func_info { __u32 insn_off, type_id; };
# struct bpf_line_info { __u32 insn_off, file_name_off, line_off, line_col; };
_FUNC_INFO, _LINE_INFO = Struct("=II"), Struct("=IIII")
_GLOBAL = 1  # BTF_FUNC_GLOBAL
_COLUMN_BITS = 10
_MAX_COLUMN, _MAX_LINE = (1 << 10) - 1, (1 << 22) - 1


@dataclass(frozen=True, slots=True)
class DebugInfo:
    """Bytes for BTF_LOAD and PROG_LOAD."""

    btf: bytes
    func_info: bytes
    line_info: bytes
    #: BTF ids of the program's functions, by name: what a program that replaces one attaches to.
    functions: dict[str, int]


def debug_info(code: Code) -> DebugInfo:
    """Return what the kernel is told about `code`'s functions and source lines."""
    starts = slot_starts(code.instructions)
    if code.btf is not None:
        types = Btf(code.btf.btf)
        ids = {each.name: number for each, number in zip(code.subprograms, code.btf.functions, strict=True)}
        # A source line that clang's .BTF.ext has is one of its strings.
        lines = _line_info(code, starts, cache(lambda text: next(iter(types.string_offsets(text)), 0)))
        return DebugInfo(code.btf.btf, _func_info(code, starts, ids), lines, ids)
    btf = BtfBuilder()
    # Static linkage: the arguments are not checked, so one prototype without any serves all.
    prototype = btf.add_func_proto(btf.add_int("int", 4, signed=True))
    ids = {
        subprogram.name: btf.add_func(subprogram.name, prototype)
        for subprogram in code.subprograms
        if subprogram.name not in {each.name for each in code.global_functions}
    }
    for each in code.global_functions:
        number = btf.add_int("__u64", 8)
        of_numbers = btf.add_func_proto(number, [(parameter, number) for parameter in each.parameters])
        ids[each.name] = btf.add_func(each.name, of_numbers, _GLOBAL)
    lines = _line_info(code, starts, btf.string)
    return DebugInfo(btf.to_bytes(), _func_info(code, starts, ids), lines, ids)


def _func_info(code: Code, starts: Sequence[int], ids: Mapping[str, int]) -> bytes:
    return b"".join(_FUNC_INFO.pack(starts[each.start], ids[each.name]) for each in code.subprograms)


def _line_info(code: Code, starts: Sequence[int], string: Callable[[str], int]) -> bytes:
    """Records of every place in the source; `string` gives the offset of a file's name or a line's text in the BTF."""
    entries = {subprogram.start for subprogram in code.subprograms}
    lines = []
    before: tuple[int, int, int] | None = None
    for index, instruction in enumerate(code.instructions):
        place = _place(string, instruction.where)
        # Every function needs a record at its first instruction, also one without a known place.
        if index in entries or (instruction.where is not None and place != before):
            lines.append(_LINE_INFO.pack(starts[index], *place))
            before = place
    return b"".join(lines)


def _place(string: Callable[[str], int], where: Location | None) -> tuple[int, int, int]:
    if where is None:
        return 0, 0, 0
    # The log prints one physical line at most: a second one would hide where the first is.
    text = where.text.partition("\n")[0]
    line, column = min(where.line, _MAX_LINE), min(where.column, _MAX_COLUMN)
    return string(where.file), string(text), line << _COLUMN_BITS | column
