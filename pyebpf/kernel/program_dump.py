"""A loaded program's instructions as the verifier left them, with what the kernel knows about them."""

from __future__ import annotations

from pathlib import Path
from struct import Struct, unpack_from
from typing import NamedTuple

from pyebpf.kernel import bpf
from pyebpf.kernel.info import ProgramInfo, btf_bytes, map_info, program_info
from pyebpf.kernel.syscall import address_of
from pyebpf.uapi.flags import BPF_PSEUDO_CALL

_INFO_SIZE = 232
# Offsets in struct bpf_prog_info; each pair is a count or length and the pointer that is given with it.
_XLATED_LENGTH, _XLATED = 20, 32
_MAP_COUNT, _MAPS = 52, 56
_FUNCTIONS_JITED = 104
_BTF_ID, _FUNC_SIZE, _FUNC, _FUNC_COUNT = 128, 132, 136, 144
_LINE_COUNT, _LINE, _LINE_SIZE = 148, 152, 172
_U32, _U64 = Struct("=I"), Struct("=Q")
_SLOT = Struct("=BBhi")
_CALL = 0x85


class ProgramDump(NamedTuple):
    """A loaded program as the kernel describes it.

    code       slots of 8 bytes
    functions  (slot, BTF id of a FUNC)
    lines      (slot, file, text, line << 10 | column); file and text are offsets into the strings of `btf`
    maps       names by id
    """

    info: ProgramInfo
    code: bytes
    functions: tuple[tuple[int, int], ...]
    lines: tuple[tuple[int, int, int, int], ...]
    btf: bytes
    maps: dict[int, str]


def dump_program(number: int) -> ProgramDump:
    """The program with that id. Raises OSError: ENOENT if there is none, EPERM without CAP_SYS_ADMIN.

    The code is what runs after the verifier's changes: a map is loaded by its id (source register 1), the imm of a
    helper's call is the distance of its address from `__bpf_call_base` (see `helper_names`).
    """
    with bpf.prog_get_fd_by_id(number) as descriptor:
        fd = descriptor.fileno()
        info = program_info(fd)
        sizes = bytearray(_INFO_SIZE)
        bpf.obj_get_info_by_fd(fd, sizes)

        def word(offset: int) -> int:
            value: int = _U32.unpack_from(sizes, offset)[0]
            return value

        function_size, line_size = word(_FUNC_SIZE), word(_LINE_SIZE)
        code = bytearray(word(_XLATED_LENGTH))
        maps = bytearray(4 * word(_MAP_COUNT))
        functions = bytearray(function_size * word(_FUNC_COUNT))
        lines = bytearray(line_size * word(_LINE_COUNT))
        wanted = bytearray(_INFO_SIZE)
        for buffer, length_at, length, pointer_at in (
            (code, _XLATED_LENGTH, len(code), _XLATED),
            (maps, _MAP_COUNT, len(maps) // 4, _MAPS),
            (functions, _FUNC_COUNT, word(_FUNC_COUNT), _FUNC),
            (lines, _LINE_COUNT, word(_LINE_COUNT), _LINE),
        ):
            if buffer:
                _U32.pack_into(wanted, length_at, length)
                _U64.pack_into(wanted, pointer_at, address_of(buffer))
        _U32.pack_into(wanted, _FUNC_SIZE, function_size)
        _U32.pack_into(wanted, _LINE_SIZE, line_size)
        bpf.obj_get_info_by_fd(fd, wanted)
    return ProgramDump(
        info,
        _with_distances(bytes(code)) if word(_FUNCTIONS_JITED) else bytes(code),
        tuple(unpack_from("=II", functions, at) for at in range(0, len(functions), function_size or 8)),
        tuple(unpack_from("=IIII", lines, at) for at in range(0, len(lines), line_size or 16)),
        btf_bytes(word(_BTF_ID)) if word(_BTF_ID) else b"",
        {number: _map_name(number) for (number,) in _U32.iter_unpack(maps)},
    )


def _with_distances(code: bytes) -> bytes:
    """The distance of a compiled program's local calls where the instruction set has it.

    Once compiled, the kernel keeps it in `off`, and the number of the function in `imm` (jit_subprogs, kernel/bpf).
    """
    slots = []
    for opcode, registers, offset, imm in _SLOT.iter_unpack(code):
        local = opcode == _CALL and registers >> 4 == BPF_PSEUDO_CALL
        slots.append(_SLOT.pack(opcode, registers, 0, offset) if local else _SLOT.pack(opcode, registers, offset, imm))
    return b"".join(slots)


def _map_name(number: int) -> str:
    with bpf.map_get_fd_by_id(number) as descriptor:
        return map_info(descriptor.fileno()).name


def helper_names(distances: set[int]) -> dict[int, str]:
    """The kernel's functions at these distances from `__bpf_call_base`; none where addresses are hidden."""
    found: dict[int, str] = {}
    lines = Path("/proc/kallsyms").read_text("ascii", "replace").splitlines()
    base = next((int(line.split()[0], 16) for line in lines if line.endswith(" __bpf_call_base")), 0)
    if not base:
        return found
    wanted = {f"{base + distance & (1 << 64) - 1:016x}": distance for distance in distances}
    for line in lines:
        distance = wanted.get(line[:16])
        if distance is not None:
            found.setdefault(distance, line.split()[2])
    return found
