"""The interpreter against the kernel: bits, casts, packets' dynamic pointers, control groups.

A kernel function's int or bool fills the lower part of R0 only: its lowest byte is compared.
"""

from __future__ import annotations

import pytest

from pyebpf.asm import Label, place
from pyebpf.asm.build import (
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R10,
    add64,
    alu,
    call,
    call_kfunc,
    exit_,
    jump,
    jump_if,
    lddw,
    ldx,
    load_map_value,
    mov64,
    st,
    stx,
)
from pyebpf.btf import Btf, Kind
from pyebpf.errors import VmError
from pyebpf.kernel.btf_files import read_btf
from pyebpf.objects import Map, Program
from pyebpf.specs import Code, FunctionStart, MapSpec, ProgramSpec
from pyebpf.types import U32, U64, ArrayType
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.helpers import HELPER_IDS
from pyebpf.vm import Machine, run
from tests.kernel.test_interpreter_forms import RESULT, in_both
from tests.support.needs import needs

POOL = MapSpec("pool", MapType.ARRAY, U32, ArrayType(U64, 512), 1)


@pytest.mark.parametrize("words", [(0x8000_0000_0000_0005,), (0,), (1 << 63, 0, 6), ()])
def test_bits_that_are_set(words):
    """Of one number, of several, of none; the error of no numbers and of too many."""
    needs("kfunc:bpf_iter_bits_new")
    items = [load_map_value(R6, "pool"), mov64(R7, 0)]
    for at, word in enumerate(words):
        items += [lddw(R1, word), stx(8, R6, 8 * at, R1)]
    for at, count in enumerate((len(words), 512)):
        items += [mov64(R1, R10), add64(R1, -16), mov64(R2, R6), mov64(R3, count), call_kfunc("bpf_iter_bits_new")]
        items += [
            mov64(R8, R0),
            alu("and64", R8, 255),
            Label(f"next{at}"),
            mov64(R1, R10),
            add64(R1, -16),
            call_kfunc("bpf_iter_bits_next"),
        ]
        items += [jump_if("jeq", R0, 0, f"done{at}"), ldx(4, R1, R0, 0), alu("mul64", R7, 67), add64(R7, R1)]
        items += [add64(R7, 1), jump(f"next{at}"), Label(f"done{at}"), mov64(R1, R10), add64(R1, -16)]
        items += [call_kfunc("bpf_iter_bits_destroy"), alu("mul64", R7, 3), add64(R7, R8)]
    kernel, vm = in_both([*items, mov64(R0, R7)], maps=[POOL])
    assert kernel == vm


def test_a_cast_keeps_the_address():
    """What lies behind it is read; nothing at NULL, and zeros."""
    needs("kfunc:bpf_rdonly_cast")
    identifier = next(iter(Btf(read_btf()).find("timespec64", {Kind.STRUCT})))
    items = [load_map_value(R6, "pool"), lddw(R1, 0x1122334455667788), stx(8, R6, 8, R1), mov64(R1, R6)]
    items += [mov64(R2, identifier), call_kfunc("bpf_rdonly_cast"), ldx(8, R7, R0, 8), mov64(R1, 0)]
    items += [mov64(R2, identifier), call_kfunc("bpf_rdonly_cast"), ldx(8, R0, R0, 8), add64(R0, R7)]
    kernel, vm = in_both(items, maps=[POOL])
    assert kernel == vm
    assert kernel[0][0] == 0x1122334455667788


def xdp(items):
    """The values of `result` after a frame came, from the kernel and from the interpreter."""
    placed = place([*items, load_map_value(R1, "result"), stx(8, R1, 0, R0), mov64(R0, 2), exit_()])
    program = ProgramSpec("frames", ProgramType.XDP, Code(placed.instructions, (FunctionStart("main", 0),)))
    frame = bytes(range(80))
    with Map(RESULT) as result, Program(program, {"result": result}) as loaded:
        loaded.test_run(data=frame, data_out=4096)
        kernel = list(result[0])
    machine = Machine([RESULT])
    machine.run(program, packet=frame)
    raw = machine.maps["result"].entries()[bytes(4)]
    return kernel, [int.from_bytes(raw[at : at + 8], "little") for at in range(0, 32, 8)]


@pytest.mark.parametrize("flags", [0, 1])
@pytest.mark.parametrize(("offset", "size"), [(0, 8), (13, 8), (72, 8), (73, 8), (78, 2)])
def test_dynamic_pointers_to_frames(flags, offset, size):
    """Copied out of, written, reached by a slice; the error of flags and of places outside."""
    needs("kfunc:bpf_dynptr_from_xdp")
    pointer = [mov64(R1, R10), add64(R1, -16)]
    items = [mov64(R2, flags), mov64(R3, R10), add64(R3, -16), call_kfunc("bpf_dynptr_from_xdp")]
    items += [mov64(R6, R0), alu("and64", R6, 255)]
    items += [*pointer, call_kfunc("bpf_dynptr_size"), load_map_value(R7, "result"), stx(1, R7, 8, R0)]
    items += [st(8, R10, -24, 5), mov64(R1, R10), add64(R1, -24), mov64(R2, size), mov64(R3, R10), add64(R3, -16)]
    items += [mov64(R4, offset), mov64(R5, 0), call(HELPER_IDS["dynptr_read"]), alu("mul64", R6, 31), add64(R6, R0)]
    items += [ldx(8, R1, R10, -24), stx(8, R7, 16, R1), st(8, R10, -24, 0x1234567)]
    items += [*pointer, mov64(R2, 0), mov64(R3, R10), add64(R3, -24), mov64(R4, 8), mov64(R5, 0)]
    items += [call(HELPER_IDS["dynptr_write"]), alu("mul64", R6, 31), add64(R6, R0)]
    items += [*pointer, mov64(R2, offset), mov64(R3, R10), add64(R3, -24), mov64(R4, 8)]
    items += [call_kfunc("bpf_dynptr_slice"), jump_if("jeq", R0, 0, "none"), ldx(8, R1, R0, 0), stx(8, R7, 24, R1)]
    items += [
        Label("none"),
        *pointer,
        call_kfunc("bpf_dynptr_is_null"),
        alu("and64", R0, 255),
        alu("mul64", R6, 2),
        add64(R6, R0),
        mov64(R0, R6),
    ]
    kernel, vm = xdp(items)
    assert kernel == vm


def test_control_groups_by_id():
    """The root, which is there, and a number that no group has."""
    needs("kfunc:bpf_cgroup_from_id")
    items = [mov64(R7, 0)]
    for at, identifier in enumerate((1, 1 << 60)):
        items += [lddw(R1, identifier), call_kfunc("bpf_cgroup_from_id"), jump_if("jeq", R0, 0, f"none{at}")]
        items += [add64(R7, 1 + at), mov64(R1, R0), call_kfunc("bpf_cgroup_release"), Label(f"none{at}")]
    kernel, vm = in_both([*items, mov64(R0, R7)])
    assert kernel == vm
    assert kernel[0][0] == 1
    with pytest.raises(VmError, match="Unreleased reference"):
        run([mov64(R1, 1), call_kfunc("bpf_cgroup_from_id"), mov64(R0, 0), exit_()])
