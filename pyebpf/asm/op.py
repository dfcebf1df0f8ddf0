"""Rows of the instruction table: `Op`, its `Form`, and the registers."""

from __future__ import annotations

from enum import Enum, IntEnum

from pyebpf.dataclass import dataclass, field


class Register(IntEnum):
    """R0: result; R1 to R5: arguments; R6 to R9: kept over calls; R10: frame pointer, read-only."""

    R0 = 0
    R1 = 1
    R2 = 2
    R3 = 3
    R4 = 4
    R5 = 5
    R6 = 6
    R7 = 7
    R8 = 8
    R9 = 9
    R10 = 10


REGISTERS = tuple(Register)


class Form(Enum):
    """How an instruction's operands lie in its fields. The other fields have the values that the row fixes."""

    DST = "dst"
    DST_IMM = "dst, imm"
    DST_SRC = "dst, src"
    CAST = "dst, src, address spaces in imm"
    LOAD = "dst, bytes at src + offset"
    STORE_IMM = "bytes at dst + offset, imm"
    STORE = "bytes at dst + offset, src"
    LDDW = "dst, 64-bit imm in two slots"
    LDDW_MAP = "dst, map in the imm's lower half, place in its value in the upper"
    LDDW_KSYM = "dst, BTF id in the imm's lower half, BTF descriptor in the upper"
    LDDW_FUNCTION = "dst, subprogram in the imm's lower half as a distance in slots"
    JUMP = "distance in offset"
    JUMP_LONG = "distance in imm"
    JUMP_IMM = "dst, imm, distance in offset"
    JUMP_REG = "dst, src, distance in offset"
    CALL = "helper in imm"
    CALL_LOCAL = "subprogram in imm as a distance in slots"
    CALL_REGISTER = "address in dst"
    CALL_KFUNC = "BTF id in imm, index of a BTF descriptor in offset"
    EXIT = "none"
    LOAD_ABSOLUTE = "packet place in imm"
    LOAD_INDIRECT = "src, packet place in imm"

    # By identity, as forms are looked up for every instruction; Enum's own hash is a Python function.
    __hash__ = object.__hash__


# Fields that are operands: d dst, s src, o offset, i imm of 32 bits, w imm of 64.
OPERANDS = {
    Form.DST: "d",
    Form.DST_IMM: "di",
    Form.DST_SRC: "ds",
    Form.CAST: "dsi",
    Form.LOAD: "dso",
    Form.STORE_IMM: "doi",
    Form.STORE: "dso",
    Form.LDDW: "dw",
    Form.LDDW_MAP: "dw",
    Form.LDDW_KSYM: "dw",
    Form.LDDW_FUNCTION: "dw",
    Form.JUMP: "o",
    Form.JUMP_LONG: "i",
    Form.JUMP_IMM: "dio",
    Form.JUMP_REG: "dso",
    Form.CALL: "i",
    Form.CALL_LOCAL: "i",
    Form.CALL_REGISTER: "d",
    Form.CALL_KFUNC: "io",
    Form.EXIT: "",
    Form.LOAD_ABSOLUTE: "i",
    Form.LOAD_INDIRECT: "si",
}
JUMPS = frozenset({Form.JUMP, Form.JUMP_LONG, Form.JUMP_IMM, Form.JUMP_REG})
# Forms whose instruction may hold the name of its target, map or function until that is known.
SYMBOLIC = JUMPS | {
    Form.LDDW_MAP,
    Form.LDDW_KSYM,
    Form.LDDW_FUNCTION,
    Form.CALL_LOCAL,
    Form.CALL_KFUNC,
}


@dataclass(frozen=True, slots=True, eq=False, guarded=False)
class Op:
    """One operation in one form. Rows are unique objects: compare them with `is`.

    name      unique together with `form`
    code      the opcode byte
    text      kernel and LLVM syntax, a format string over the operands (see `text.py`)
    reads     registers read: d, s, or the digit of a fixed one
    writes    registers that hold a result afterwards
    clobbers  registers that are unreadable afterwards
    version   instruction-set version that brought it, as `llvm -mcpu=vN` counts them, 1 to 4
    feature   a name to ask the kernel for, where the version alone does not say (backports pick single ones)
    size      bytes of memory accessed, or the width in bytes of arithmetic and comparisons
    src, offset, imm   value of each of these fields if it is not an operand
    inverse   name of the jump taken exactly when this one is not
    mnemonic  the other syntax, `ldxw %r{d}, [%r{s}{disp}]`, a format string, too
    aliases   further templates that are read and never written
    operands  the fields that are operands: d dst, s src, o offset, i imm of 32 bits, w imm of 64 bits
    slots     8-byte units that the instruction occupies
    """

    name: str
    code: int
    form: Form
    text: str
    reads: str = ""
    writes: str = ""
    clobbers: str = ""
    version: int = 1
    feature: str | None = None
    size: int = 8
    src: int = 0
    offset: int = 0
    imm: int = 0
    inverse: str | None = None
    mnemonic: str = ""
    aliases: tuple[str, ...] = ()
    operands: str = field(init=False)
    slots: int = field(init=False)

    def __post_init__(self) -> None:
        # Kept, as every instruction built or decoded asks for them.
        object.__setattr__(self, "operands", OPERANDS[self.form])
        object.__setattr__(self, "slots", 2 if "w" in self.operands else 1)

    def __repr__(self) -> str:
        return f"<{self.name} {self.form.name}>"

    def __reduce__(self) -> tuple[object, ...]:
        # Copies and pickles give the row itself.
        from pyebpf.asm.opcodes import find_op

        return find_op, (self.name, self.form)

    @property
    def is_jump(self) -> bool:
        """Whether control may continue at a target within the same function."""
        return self.form in JUMPS

    @property
    def falls_through(self) -> bool:
        """Whether control may continue at the following instruction."""
        return self.form not in (Form.EXIT, Form.JUMP_LONG) and self.name != "ja"
