"""Memory: bounds, initialisation, what may be written, and the verifier's words for each refusal."""

from __future__ import annotations

import pytest

from pyebpf.asm.build import (
    R0,
    R1,
    R2,
    R3,
    R4,
    R6,
    R10,
    add64,
    atomic,
    call,
    exit_,
    jump_if,
    ldx,
    load_map,
    load_map_value,
    mov64,
    st,
    stx,
)
from pyebpf.errors import InvalidValue, Location, VmError
from pyebpf.specs import MapSpec
from pyebpf.types import U32, U64
from pyebpf.uapi.bpf import MapType, ProgramType
from pyebpf.uapi.flags import BPF_F_RDONLY_PROG, BPF_F_WRONLY_PROG
from pyebpf.uapi.helpers import HELPER_IDS
from pyebpf.vm import Machine, run

VALUE = MapSpec("value", MapType.ARRAY, U32, U64, 1)
FROZEN = MapSpec("frozen", MapType.ARRAY, U32, U64, 1, flags=BPF_F_RDONLY_PROG)
SINK = MapSpec("sink", MapType.ARRAY, U32, U64, 1, flags=BPF_F_WRONLY_PROG)
RING = MapSpec("ring", MapType.RINGBUF, None, None, 4096)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ([ldx(8, R0, R10, -8)], r"invalid read from stack R10 off -8\+0 size 8"),
        ([st(4, R10, -8, 1), ldx(8, R0, R10, -8)], r"invalid read from stack R10 off -8\+4 size 8"),
        ([ldx(1, R0, R10, 0)], "invalid read from stack R10 off 0 size 1"),
        ([st(8, R10, -516, 0)], "invalid write to stack R10 off -516 size 8"),
        ([mov64(R2, 0), ldx(4, R0, R2, 8)], "R2 invalid mem access 'map_value_or_null'"),
        ([mov64(R2, 1 << 30), ldx(4, R0, R2, 0)], "R2 invalid mem access 'scalar'"),
        ([ldx(4, R0, R10, -6)], "misaligned stack access off -6 size 4"),
        ([st(8, R10, -12, 0)], "misaligned stack access off -12 size 8"),
        ([mov64(R2, R10), add64(R2, -12), stx(8, R2, 0, R1)], "misaligned stack access off -12 size 8"),
        ([load_map_value(R2, "sink"), ldx(4, R0, R2, 4)], "read from map forbidden, value_size=8 off=4 size=4"),
        ([load_map_value(R2, "sink"), atomic("add", 8, R2, 0, R1)], "read from map forbidden"),
        (
            [
                *(load_map(R1, "frozen"), st(8, R10, -8, 0), mov64(R2, R10), add64(R2, -8), mov64(R3, R2)),
                *(mov64(R4, 0), call(HELPER_IDS["map_update_elem"])),
            ],
            "write into map forbidden",
        ),
        ([load_map_value(R2, "value"), ldx(4, R0, R2, 5)], "invalid access to map value, value_size=8 off=5 size=4"),
        ([load_map_value(R2, "value"), stx(1, R2, -1, R1)], "invalid access to map value, value_size=8 off=-1 size=1"),
        ([load_map_value(R2, "frozen"), st(1, R2, 0, 1)], "write into map forbidden, value_size=8 off=0 size=1"),
        ([ldx(8, R0, R1, 12)], "invalid bpf_context access off=12 size=8"),
        ([load_map_value(R2, "value"), atomic("add", 4, R2, 2, R1)], "misaligned value access off 2 size 4"),
        ([st(8, R10, -8, 0), mov64(R1, R10), call(1)], "R2 !read_ok"),
        (
            [load_map(R1, "value"), mov64(R2, R10), add64(R2, -4), call(1)],
            r"invalid read from stack R10 off -4\+0 size 4",
        ),
        ([load_map(R1, "value"), mov64(R2, 0), call(1)], "R2 invalid mem access 'map_value_or_null'"),
        ([mov64(R2, 0), mov64(R1, 0), call(1)], "expected=map_ptr"),
    ],
)
def test_refusals(program, message):
    """What the verifier would say."""
    with pytest.raises(VmError, match=message):
        run([*program, mov64(R0, 0), exit_()], bytes(16), maps=[VALUE, FROZEN, SINK])


def test_maps_that_programs_only_write_and_stacks_in_bytes():
    """A store is taken; so are helpers' accesses at any place of the stack, and loads of each byte of it."""
    sink = Machine([SINK])
    sink.run([load_map_value(R2, "sink"), st(4, R2, 4, 9), mov64(R0, 0), exit_()])
    assert sink.maps["sink"].entries() == {bytes(4): bytes(4) + b"\x09\0\0\0"}
    copied = [mov64(R1, R10), add64(R1, -7), mov64(R2, 5), mov64(R3, 0x1000), call(HELPER_IDS["probe_read_user"])]
    assert run([*copied, ldx(1, R0, R10, -5), exit_()], memory={0x1000: b"abcde"}).value == ord("c")


def test_a_refusal_knows_the_line():
    """The Python source of the instruction, as the compiler noted it."""
    where = Location("tool.py", 17, 4, 9, "    x = y\n")
    with pytest.raises(VmError) as caught:
        run([mov64(R1, 0), ldx(4, R0, R1, 0, where=where), exit_()])
    assert str(caught.value).startswith("tool.py:17: R1 invalid mem access")
    assert caught.value.instruction == "r0 = *(u32 *)(r1 + 0)"


def test_packets_have_bounds():
    """A load behind the packet's end is refused; pointers end when the packet moves."""
    beyond = [ldx(4, R2, R1, 0), ldx(8, R0, R2, 8), exit_()]
    with pytest.raises(VmError, match="invalid access to packet, off=8 size=8"):
        run(beyond, packet=bytes(14), program_type=ProgramType.XDP)
    moved = [mov64(R6, R1), ldx(4, R3, R6, 0), stx(8, R10, -8, R3), mov64(R2, 4), call(HELPER_IDS["xdp_adjust_head"])]
    moved += [ldx(8, R3, R10, -8), ldx(1, R0, R3, 0), exit_()]
    with pytest.raises(VmError, match="R3 invalid mem access"):
        run(moved, packet=bytes(64), program_type=ProgramType.XDP)
    with pytest.raises(VmError, match="invalid bpf_context access off=0 size=4"):
        run([mov64(R0, 0), st(4, R1, 0, 1), exit_()], packet=bytes(64), program_type=ProgramType.XDP)


def test_contexts_of_tracing_programs_are_read_only_and_aligned():
    """As the verifier has them."""
    with pytest.raises(VmError, match="misaligned context access off 4 size 8"):
        run([ldx(8, R0, R1, 4), exit_()], bytes(32), program_type=ProgramType.TRACEPOINT)
    with pytest.raises(VmError, match="it cannot be written"):
        run([st(8, R1, 8, 0), exit_()], bytes(32), program_type=ProgramType.RAW_TRACEPOINT)
    assert run([st(8, R1, 8, 5), ldx(8, R0, R1, 8), exit_()], bytes(32), program_type=ProgramType.SYSCALL).value == 5


def test_records_are_submitted_once_and_whole():
    """A record must be given back, not twice, and with every byte written."""
    reserve = [load_map(R1, "ring"), mov64(R2, 16), mov64(R3, 0), call(HELPER_IDS["ringbuf_reserve"])]
    reserve += [jump_if("jne", R0, 0, 2), mov64(R0, 0), exit_(), mov64(R6, R0)]
    submit = [mov64(R1, R6), mov64(R2, 0), call(HELPER_IDS["ringbuf_submit"])]
    fill = [st(8, R6, 0, 1), st(8, R6, 8, 2)]
    end = [mov64(R0, 0), exit_()]
    with pytest.raises(VmError, match="Unreleased reference"):
        run([*reserve, *end], maps=[RING])
    with pytest.raises(VmError, match="byte 8 of 16 not initialised"):
        run([*reserve, fill[0], *submit, *end], maps=[RING])
    with pytest.raises(VmError, match="unacquired reference"):
        run([*reserve, *fill, *submit, *submit, *end], maps=[RING])
    assert run([*reserve, *fill, *submit, *end], maps=[RING]).events == {
        "ring": [(1).to_bytes(8, "little") + (2).to_bytes(8, "little")]
    }


def test_memory_given_by_the_caller():
    """probe_read finds it; what is not there gives zeros and an error; ranges cannot overlap."""
    user = HELPER_IDS["probe_read_user"]
    program = [mov64(R1, R10), add64(R1, -8), mov64(R2, 8), mov64(R3, 0x1000), call(user)]
    program += [mov64(R6, R0), ldx(8, R0, R10, -8), add64(R0, R6), exit_()]
    assert run(program, memory={0x1000: bytes([7, 1, 0, 0, 0, 0, 0, 0])}).value == 0x107
    assert run(program, memory={0x1000: bytes(7)}).value == (1 << 64) - 14
    with pytest.raises(InvalidValue, match="overlap"):
        Machine(memory={0x1000: bytes(16), 0x100F: bytes(1)})


def test_lenient_machines_read_what_was_not_written():
    """As the kernel lets privileged programs do."""
    assert run([ldx(8, R0, R10, -8), exit_()], strict=False).value == 0


def test_a_helper_without_emulation_can_be_given():
    """The helper that is missing says how to give one."""
    with pytest.raises(VmError, match="bpf_override_return#58 has no emulation: give one, helpers="):
        run([mov64(R1, 0), mov64(R2, 0), call(58), exit_()])
    given = {"override_return": lambda _vm, _context, code: code}
    assert run([mov64(R1, 0), mov64(R2, 9), mov64(R4, 0), call(58), exit_()], helpers=given).value == 9
