"""Constructors that read as assembly: `add64(R1, 5)`, `ldx(4, R0, R1, offset=8)`, `jump_if("jsgt", R1, 0, "loop")`.

Each returns one `Instruction` and raises AssemblyError for an operand that does not fit. A constant of a 32-bit
operation may be given signed or unsigned; one of a 64-bit operation is sign-extended from 32 bits by the processor,
so it must be a signed 32-bit number: `lddw` loads any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pyebpf.asm.instruction import Instruction, integer_operand
from pyebpf.asm.op import Form, Op, Register
from pyebpf.asm.opcodes import find_op
from pyebpf.errors import AssemblyError, closest

if TYPE_CHECKING:
    from pyebpf.errors import Location

R0, R1, R2, R3, R4, R5, R6, R7, R8, R9, R10 = Register

_LETTERS = {1: "b", 2: "h", 4: "w", 8: "dw"}


class _Binary(Protocol):
    def __call__(self, dst: Register, operand: Register | int, *, where: Location | None = None) -> Instruction: ...


class _Unary(Protocol):
    def __call__(self, dst: Register, *, where: Location | None = None) -> Instruction: ...


def _find(name: str, *forms: Form) -> Op:
    for form in forms:
        try:
            return find_op(name, form)
        except KeyError:
            continue
    from pyebpf.asm.opcodes import OPS

    names = sorted({op.name for op in OPS if op.form in forms})
    raise AssemblyError(f"no operation {name!r} of this form{closest(name, names)}")


def _fit32(op: Op, imm: int) -> int:
    """A constant of a 32-bit operation as the signed number that its field holds."""
    if imm.__class__ is not int:
        imm = integer_operand(op, "imm", imm)
    return imm - (1 << 32) if op.size == 4 and 0x8000_0000 <= imm <= 0xFFFF_FFFF else imm


def alu(name: str, dst: Register, operand: Register | int, *, where: Location | None = None) -> Instruction:
    """`add64`, `mov32`, `sdiv64`, `movsx8to64`, … with a register or a constant as the second operand."""
    if isinstance(operand, Register):
        return Instruction(_find(name, Form.DST_SRC), dst, operand, where=where)
    op = _find(name, Form.DST_IMM)
    return Instruction(op, dst, imm=_fit32(op, operand), where=where)


def _binary(name: str) -> _Binary:
    by_register, by_constant = find_op(name, Form.DST_SRC), find_op(name, Form.DST_IMM)

    def construct(dst: Register, operand: Register | int, *, where: Location | None = None) -> Instruction:
        if operand.__class__ is Register:
            return Instruction(by_register, dst, operand, where=where)
        return Instruction(by_constant, dst, imm=_fit32(by_constant, operand), where=where)

    construct.__name__ = construct.__qualname__ = name
    construct.__doc__ = f"`{find_op(name, Form.DST_SRC).text}`, or with a constant as the second operand."
    return construct


def _unary(name: str) -> _Unary:
    op = find_op(name, Form.DST)

    def construct(dst: Register, *, where: Location | None = None) -> Instruction:
        return Instruction(op, dst, where=where)

    construct.__name__ = construct.__qualname__ = name
    construct.__doc__ = f"`{op.text}`."
    return construct


mov64, mov32 = _binary("mov64"), _binary("mov32")
add64, add32 = _binary("add64"), _binary("add32")
sub64, sub32 = _binary("sub64"), _binary("sub32")
mul64, mul32 = _binary("mul64"), _binary("mul32")
div64, div32 = _binary("div64"), _binary("div32")
sdiv64, sdiv32 = _binary("sdiv64"), _binary("sdiv32")
mod64, mod32 = _binary("mod64"), _binary("mod32")
smod64, smod32 = _binary("smod64"), _binary("smod32")
or64, or32 = _binary("or64"), _binary("or32")
and64, and32 = _binary("and64"), _binary("and32")
xor64, xor32 = _binary("xor64"), _binary("xor32")
lsh64, lsh32 = _binary("lsh64"), _binary("lsh32")
rsh64, rsh32 = _binary("rsh64"), _binary("rsh32")
arsh64, arsh32 = _binary("arsh64"), _binary("arsh32")
neg64, neg32 = _unary("neg64"), _unary("neg32")
to_le16, to_le32, to_le64 = _unary("le16"), _unary("le32"), _unary("le64")
to_be16, to_be32, to_be64 = _unary("be16"), _unary("be32"), _unary("be64")
bswap16, bswap32, bswap64 = _unary("bswap16"), _unary("bswap32"), _unary("bswap64")


def movsx(bits: int, dst: Register, src: Register, *, width: int = 64, where: Location | None = None) -> Instruction:
    """`dst = (s<bits>)src`, sign-extended to `width` bits: 8, 16 or 32 to 64, 8 or 16 to 32."""
    return Instruction(_find(f"movsx{bits}to{width}", Form.DST_SRC), dst, src, where=where)


def addr_space_cast(
    dst: Register, src: Register, to_space: int, from_space: int, *, where: Location | None = None
) -> Instruction:
    """Cast an address between spaces: 1 is an arena, 0 the kernel's own addresses."""
    for name, value in (("to_space", to_space), ("from_space", from_space)):
        if not 0 <= value <= 0x7FFF:
            raise AssemblyError(f"addr_space_cast: {name} {value} is outside 0..32767")
    return Instruction(_find("addr_space_cast", Form.CAST), dst, src, imm=to_space << 16 | from_space, where=where)


def lddw(dst: Register, value: int, *, where: Location | None = None) -> Instruction:
    """`dst = value ll`: any number of 64 bits, signed or unsigned, in two slots."""
    return Instruction(find_op("lddw", Form.LDDW), dst, imm=value, where=where)


def load_map(dst: Register, name: str | int, *, by_index: bool = False, where: Location | None = None) -> Instruction:
    """The address of the map with this name, or descriptor; with `by_index`, of its index in fd_array."""
    return _wide("lddw_map_index" if by_index else "lddw_map", Form.LDDW_MAP, dst, name, 0, where)


def load_map_value(
    dst: Register,
    name: str | int,
    offset: int = 0,
    *,
    by_index: bool = False,
    where: Location | None = None,
) -> Instruction:
    """The address `offset` bytes into the first value of an array map, found as by `load_map`."""
    op = "lddw_map_index_value" if by_index else "lddw_map_value"
    return _wide(op, Form.LDDW_MAP, dst, name, offset, where)


def load_ksym(dst: Register, name: str | int, *, where: Location | None = None) -> Instruction:
    """The address of a kernel variable, by name or BTF id."""
    return _wide("lddw_ksym", Form.LDDW_KSYM, dst, name, 0, where)


def load_function(dst: Register, name: str, *, where: Location | None = None) -> Instruction:
    """The address of a subprogram, as `bpf_loop`, `bpf_for_each_map_elem` and timers take it."""
    return _wide("lddw_function", Form.LDDW_FUNCTION, dst, name, 0, where)


def _wide(op: str, form: Form, dst: Register, name: str | int, upper: int, where: Location | None) -> Instruction:
    if not 0 <= upper <= 0xFFFF_FFFF:
        raise AssemblyError(f"{op}: offset {upper} is outside 0..4294967295")
    symbol, number = (name, 0) if isinstance(name, str) else (None, name)
    if not 0 <= number <= 0x7FFF_FFFF:
        raise AssemblyError(f"{op}: {number} is not a descriptor or id")
    return Instruction(find_op(op, form), dst, imm=number | upper << 32, symbol=symbol, where=where)


def _letter(size: int) -> str:
    try:
        return _LETTERS[size]
    except KeyError:
        raise AssemblyError(f"memory is accessed by 1, 2, 4 or 8 bytes, not {size}") from None


def ldx(
    size: int,
    dst: Register,
    src: Register,
    offset: int = 0,
    *,
    signed: bool = False,
    where: Location | None = None,
) -> Instruction:
    """`dst = *(u<8*size> *)(src + offset)`, zero- or sign-extended to 64 bits. 8 bytes need no sign."""
    name = ("ldxs" if signed and size != 8 else "ldx") + _letter(size)
    return Instruction(find_op(name, Form.LOAD), dst, src, offset, where=where)


def st(size: int, dst: Register, offset: int, value: int, *, where: Location | None = None) -> Instruction:
    """`*(u<8*size> *)(dst + offset) = value`; 8 bytes are sign-extended from 32 bits."""
    op = find_op("st" + _letter(size), Form.STORE_IMM)
    if value.__class__ is not int:
        value = integer_operand(op, "value", value)
    if size < 8 and not -(1 << (8 * size - 1)) <= value < 1 << (8 * size):
        raise AssemblyError(f"{op.name}: value {value} does not fit {size} bytes")
    return Instruction(op, dst, offset=offset, imm=_fit32(op, value), where=where)


def stx(size: int, dst: Register, offset: int, src: Register, *, where: Location | None = None) -> Instruction:
    """`*(u<8*size> *)(dst + offset) = src`."""
    return Instruction(find_op("stx" + _letter(size), Form.STORE), dst, src, offset, where=where)


def atomic(
    operation: str,
    size: int,
    dst: Register,
    offset: int,
    src: Register,
    *,
    fetch: bool = False,
    where: Location | None = None,
) -> Instruction:
    """`add`, `or`, `and`, `xor`, `xchg` or `cmpxchg` on 4 or 8 bytes at dst + offset.

    `fetch` puts the old value into src; xchg always does, cmpxchg compares with R0 and puts the old value there.
    """
    name = f"atomic_{'fetch_' if fetch and operation not in ('xchg', 'cmpxchg') else ''}{operation}{size * 8}"
    return Instruction(_find(name, Form.STORE), dst, src, offset, where=where)


def load_acquire(
    size: int, dst: Register, src: Register, offset: int = 0, *, where: Location | None = None
) -> Instruction:
    """Load that later accesses do not pass, since Linux 6.15."""
    return Instruction(_find(f"load_acquire{size * 8}", Form.LOAD), dst, src, offset, where=where)


def store_release(
    size: int, dst: Register, offset: int, src: Register, *, where: Location | None = None
) -> Instruction:
    """Store that earlier accesses do not pass, since Linux 6.15."""
    return Instruction(_find(f"store_release{size * 8}", Form.STORE), dst, src, offset, where=where)


def load_packet(size: int, offset: int, src: Register | None = None, *, where: Location | None = None) -> Instruction:
    """`r0 = *(u<8*size> *)skb[offset]`, or `skb[src + offset]`: socket filters and tc, R6 holds the context.

    The value is in host order; a place outside the packet ends the program with 0.
    """
    if src is None:
        return Instruction(_find("ldabs" + _letter(size), Form.LOAD_ABSOLUTE), imm=offset, where=where)
    return Instruction(_find("ldind" + _letter(size), Form.LOAD_INDIRECT), src=src, imm=offset, where=where)


def jump(target: str | int, *, where: Location | None = None) -> Instruction:
    """`goto target`: a label, or a distance in slots."""
    return _to(find_op("ja", Form.JUMP), target, where)


def gotol(target: str | int, *, where: Location | None = None) -> Instruction:
    """`gotol target`, with 32 bits of distance."""
    op = find_op("gotol", Form.JUMP_LONG)
    if isinstance(target, str):
        return Instruction(op, symbol=target, where=where)
    return Instruction(op, imm=target, where=where)


def may_goto(target: str | int, *, where: Location | None = None) -> Instruction:
    """`may_goto target`: taken once the kernel's own limit for loops is used up, since Linux 6.9."""
    return _to(find_op("may_goto", Form.JUMP), target, where)


def jump_if(
    condition: str,
    dst: Register,
    operand: Register | int,
    target: str | int,
    *,
    where: Location | None = None,
) -> Instruction:
    """`if dst <condition> operand goto target`.

    Conditions: jeq jne jgt jge jlt jle jsgt jsge jslt jsle jset, and each with 32 after it for the lower halves.
    """
    if isinstance(operand, Register):
        return _to(_find(condition, Form.JUMP_REG), target, where, dst, operand)
    op = _find(condition, Form.JUMP_IMM)
    return _to(op, target, where, dst, imm=_fit32(op, operand))


def _to(
    op: Op,
    target: str | int,
    where: Location | None,
    dst: Register = R0,
    src: Register = R0,
    imm: int = 0,
) -> Instruction:
    if isinstance(target, str):
        return Instruction(op, dst, src, 0, imm, target, where)
    return Instruction(op, dst, src, target, imm, None, where)


def call(helper: int, *, where: Location | None = None) -> Instruction:
    """`call helper`, by its number in enum bpf_func_id."""
    return Instruction(find_op("call", Form.CALL), imm=helper, where=where)


def call_local(name: str | int, *, where: Location | None = None) -> Instruction:
    """A call of a subprogram, by name or distance in slots."""
    op = find_op("call_local", Form.CALL_LOCAL)
    if isinstance(name, str):
        return Instruction(op, symbol=name, where=where)
    return Instruction(op, imm=name, where=where)


def call_register(dst: Register, *, where: Location | None = None) -> Instruction:
    """A call of the function whose address is in `dst`, which no verifier takes up to Linux 6.18."""
    return Instruction(find_op("callx", Form.CALL_REGISTER), dst, where=where)


def call_kfunc(function: str | int, module: int = 0, *, where: Location | None = None) -> Instruction:
    """A call of a kernel function, by name or BTF id; `module` is the index of its BTF in fd_array, 0 for vmlinux."""
    op = find_op("call_kfunc", Form.CALL_KFUNC)
    if isinstance(function, str):
        return Instruction(op, symbol=function, where=where)
    return Instruction(op, imm=function, offset=module, where=where)


def exit_(*, where: Location | None = None) -> Instruction:
    """`exit`: return R0."""
    return Instruction(find_op("exit", Form.EXIT), where=where)
