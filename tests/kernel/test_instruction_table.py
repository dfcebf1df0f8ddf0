"""The kernel's verifier as an oracle for the instruction table: what it takes, and what it prints."""

from __future__ import annotations

import errno
import re
import struct

import pytest

from pyebpf.asm import OPS, Form, Instruction, encode, kernel_text, parse_line
from pyebpf.asm.build import R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10, exit_, ldx, mov64, st
from pyebpf.kernel import bpf
from pyebpf.uapi.bpf import MapType, ProgramType
from tests.support.needs import needs, unless

# These need BTF, or an arena: tests of those features load them.
NEED_MORE = (Form.LDDW_KSYM, Form.LDDW_FUNCTION, Form.CALL_KFUNC, Form.CAST)
TABLE = [op for op in OPS if op.form not in NEED_MORE]
BEFORE = [mov64(R6, R1), st(8, R10, -8, 1), *(mov64(r, 1) for r in (R0, R2, R3, R4, R5, R8, R9)), mov64(R7, R10)]
# Since Linux 7.3 the verifier prints a jump that it knows the end of as what it makes of it: `goto pc+0`.
UNKNOWN = [ldx(4, R8, R6, 0), ldx(4, R9, R6, 4)]
JUMPS = (Form.JUMP_IMM, Form.JUMP_REG)


@pytest.fixture(scope="module")
def array():
    """An array map of one 64-byte value."""
    with bpf.map_create(MapType.ARRAY, 4, 64, 1) as descriptor:
        yield descriptor


def instruction(op, descriptor):
    """`op` with operands that are right after BEFORE: R6 context, R7 and R10 stack, all others a number, mostly 1."""
    operands, form = op.operands, op.form
    imm = {Form.LDDW_MAP: 0 if "index" in op.name else descriptor, Form.JUMP_LONG: 0, Form.CALL: 7, Form.CALL_LOCAL: 2}
    offset = -8 if form in (Form.LOAD, Form.STORE, Form.STORE_IMM) else 0 if op.name == "ja" else 1
    return Instruction(
        op,
        (R7 if form in (Form.STORE, Form.STORE_IMM) else R8) if "d" in operands else R0,
        (R10 if form is Form.LOAD else R9) if "s" in operands else R0,
        offset if "o" in operands else 0,
        imm.get(form, 3) if "i" in operands or "w" in operands else 0,
    )


def plain(text):
    """What the verifier's text and ours have in common: no widths, which the encoding tests compare, no spelling."""
    text = re.sub(r"\bw(\d)", r"r\1", text)
    text = re.sub(r"\(u\d+ \*\)|atomic(64)?_|(_64|32_32)(?=\()|bpf_\w+#|0x|pc", "", text)
    return re.sub(r"[ +()]", "", text)


@pytest.mark.parametrize("op", TABLE, ids=lambda op: f"{op.name}-{op.form.name}")
def test_the_verifier_reads_each_operation_as_we_do(op, array):
    """Loaded by itself, each is taken and printed as the operation that we meant; a refusal needs a newer feature."""
    if op.name.startswith("atomic_") and not op.name.startswith("atomic_add"):
        needs("isa:atomic")
    before = [*BEFORE, *UNKNOWN] if op.form in JUMPS else BEFORE
    tested = instruction(op, array.fileno())
    after = [mov64(R2, 1), mov64(R0, 0), exit_()] + ([mov64(R0, 0), exit_()] if op.form is Form.CALL_LOCAL else [])
    program = [*before, tested] if op.form is Form.EXIT else [*before, tested, *after]
    if op.form is Form.CALL_LOCAL:
        program = [*before, tested, *after[1:]]
    loaded = bpf.prog_load(
        ProgramType.SOCKET_FILTER,
        encode(program),
        # Linux before 5.14 knows neither the array nor what refers to it.
        fd_array=struct.pack("=i", array.fileno()) if "index" in op.name else b"",
        log_level=2,
        log_size=1 << 16,
    )
    if "index" in op.name:
        unless(loaded.errno != errno.E2BIG, "attribute:fd_array")
    if loaded.descriptor is None:
        assert op.feature is not None, loaded.log
        return
    loaded.descriptor.close()
    printed = re.search(rf"^{len(before)}: \([0-9a-f]+\) ([^;\n]*)", loaded.log, re.MULTILINE)
    assert printed is not None, loaded.log
    if tested.slots == 1:
        # Linux 6.1 takes gotol, but prints it as the 32-bit jump that its opcode would have been.
        if op.name == "gotol" and plain(printed[1]) == "ifr0jmp0goto0":
            return
        assert plain(printed[1]) == plain(kernel_text(tested))
        assert parse_line(printed[1]) == tested
