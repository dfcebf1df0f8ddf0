"""Instruction-set features, each asked by a program that uses it: distributions backport single ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.asm import build as b
from pyebpf.features.loading import attempt
from pyebpf.features.support import Support, from_errno
from pyebpf.kernel import bpf
from pyebpf.uapi.bpf import MapType
from pyebpf.uapi.flags import BPF_F_MMAPABLE

if TYPE_CHECKING:
    from pyebpf.asm import Instruction

_R0, _R1, _R10 = b.R0, b.R1, b.R10

INSTRUCTIONS: dict[str, tuple[Instruction, ...]] = {
    # Since Linux commit 92b31a9af73b ("bpf: add BPF_J{LT,LE,SLT,SLE} instructions") (v4.14).
    "jlt": (b.mov64(_R0, 0), b.jump_if("jlt", _R0, 1, 0), b.exit_()),
    # Since Linux commit 092ed0968bb6 ("bpf: verifier support JMP32") (v5.1).
    "jmp32": (b.mov64(_R0, 0), b.jump_if("jeq32", _R0, 0, 0), b.exit_()),
    # Since Linux commit 5ca419f2864a ("bpf: Add BPF_FETCH field / create atomic_fetch_add instruction") (v5.12).
    "atomic": (
        b.st(8, _R10, -8, 0),
        b.mov64(_R1, 1),
        b.atomic("add", 8, _R10, -8, _R1, fetch=True),
        b.mov64(_R0, 0),
        b.exit_(),
    ),
    # Since Linux commit ec0e2da95f72 ("bpf: Support new signed div/mod instructions.") (v6.6), as the next three.
    "sdiv": (b.mov64(_R0, -8), b.mov64(_R1, 2), b.sdiv64(_R0, _R1), b.mov64(_R0, 0), b.exit_()),
    "movsx": (b.mov64(_R1, 200), b.movsx(8, _R0, _R1), b.mov64(_R0, 0), b.exit_()),
    "ldsx": (b.st(8, _R10, -8, 0), b.ldx(4, _R0, _R10, -8, signed=True), b.mov64(_R0, 0), b.exit_()),
    "bswap": (b.mov64(_R0, 0), b.bswap16(_R0), b.exit_()),
    # Since Linux commit 4cd58e9af8b9 ("bpf: Support new 32bit offset jmp instruction") (v6.6).
    "gotol": (b.mov64(_R0, 0), b.gotol(0), b.exit_()),
    # Since Linux commit 011832b97b31 ("bpf: Introduce may_goto instruction") (v6.9).
    "may_goto": (b.mov64(_R0, 0), b.may_goto(1), b.mov64(_R0, 1), b.exit_()),
    # Since Linux commit 880442305a39 ("bpf: Introduce load-acquire and store-release instructions") (v6.15).
    "load_acquire": (b.st(8, _R10, -8, 0), b.load_acquire(8, _R0, _R10, -8), b.mov64(_R0, 0), b.exit_()),
    # Since Linux commit cc8b0b92a169 ("bpf: introduce function calls (function boundaries)") (v4.16).
    "call_local": (b.call_local(1), b.exit_(), b.mov64(_R0, 0), b.exit_()),
}
"""Programs by feature name, without those that need a map."""

LEVELS: dict[str, tuple[str, ...]] = {
    "v1": (),
    "v2": ("jlt",),
    "v3": ("jlt", "jmp32", "atomic"),
    "v4": ("jlt", "jmp32", "atomic", "sdiv", "movsx", "ldsx", "bswap", "gotol"),
}
"""What makes up a level of `llvm -mcpu`."""

_ARENA_ADDRESS = 1 << 44  # where user space would map it; programs are refused without one


def instruction(name: str) -> Support | None:
    """Whether the kernel takes the instruction; None for a name that is not known."""
    if name == "addr_space_cast":
        return _addr_space_cast()
    program = INSTRUCTIONS.get(name)
    return None if program is None else from_errno(attempt(program).errno)


def _addr_space_cast() -> Support:
    """Ask with an arena, the only memory that casts apply to: Linux commit 6082b6c328b5 (v6.9)."""
    try:
        arena = bpf.map_create(MapType.ARENA, 0, 0, 1, flags=BPF_F_MMAPABLE, map_extra=_ARENA_ADDRESS, name="probe")
    except OSError as error:
        return from_errno(error.errno or 0)
    with arena:
        program = (
            b.load_map(_R1, arena.fileno()),
            b.mov64(_R1, 0),
            b.addr_space_cast(_R1, _R1, 0, 1),
            b.mov64(_R0, 0),
            b.exit_(),
        )
        return from_errno(attempt(program).errno)
