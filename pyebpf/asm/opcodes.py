"""The instruction set as one table of `Op` rows: RFC 9669 and what Linux added up to 6.18.

Encoder, decoder, text and the constructors read this table and know no instruction themselves. Several operations
share an opcode byte (`sdiv64` is `div64` with offset 1, an atomic operation is told by its imm, a kind of `lddw` by its
source register), so a row also has the value of every field that is not an operand.

Codes: RFC 9669 sections 3 to 5; `may_goto` and address-space casts: Linux 6.9; load-acquire and store-release:
Linux 6.15 (include/uapi/linux/bpf.h).
"""

from __future__ import annotations

from typing import Any

from pyebpf.asm.op import Form, Op

# Classes, RFC 9669 section 3.
_LD, _LDX, _ST, _STX, _ALU, _JMP, _JMP32, _ALU64 = range(8)
_REG = 0x08  # source operand is a register
# bytes, code, letter in names, bits
_SIZES = ((1, 0x10, "b", "8"), (2, 0x08, "h", "16"), (4, 0x00, "w", "32"), (8, 0x18, "dw", "64"))
_IMMEDIATE, _ABSOLUTE, _INDIRECT, _MEMORY, _MEMORY_SIGNED, _ATOMIC = 0x00, 0x20, 0x40, 0x60, 0x80, 0xC0

# name, code, operator, further fields
_ARITHMETIC: tuple[tuple[str, int, str, dict[str, Any]], ...] = (
    ("add", 0x00, "+=", {}),
    ("sub", 0x10, "-=", {}),
    ("mul", 0x20, "*=", {}),
    ("div", 0x30, "/=", {}),
    ("sdiv", 0x30, "s/=", {"offset": 1, "version": 4, "feature": "sdiv"}),
    ("or", 0x40, "|=", {}),
    ("and", 0x50, "&=", {}),
    ("lsh", 0x60, "<<=", {}),
    ("rsh", 0x70, ">>=", {}),
    ("mod", 0x90, "%=", {}),
    ("smod", 0x90, "s%=", {"offset": 1, "version": 4, "feature": "sdiv"}),
    ("xor", 0xA0, "^=", {}),
    ("mov", 0xB0, "=", {"reads": ""}),
    ("arsh", 0xC0, "s>>=", {}),
)

# name, code, operator, version, inverse
_CONDITIONS = (
    ("jeq", 0x10, "==", 1, "jne"),
    ("jgt", 0x20, ">", 1, "jle"),
    ("jge", 0x30, ">=", 1, "jlt"),
    ("jset", 0x40, "&", 1, None),
    ("jne", 0x50, "!=", 1, "jeq"),
    ("jsgt", 0x60, "s>", 1, "jsle"),
    ("jsge", 0x70, "s>=", 1, "jslt"),
    ("jlt", 0xA0, "<", 2, "jge"),
    ("jle", 0xB0, "<=", 2, "jgt"),
    ("jslt", 0xC0, "s<", 2, "jsge"),
    ("jsle", 0xD0, "s<=", 2, "jsgt"),
)

# name, imm without the fetch bit, operator
_ATOMICS = (("add", 0x00, "+="), ("or", 0x40, "|="), ("and", 0x50, "&="), ("xor", 0xA0, "^="))
_FETCH = 0x01


# Operands in the mnemonic syntax, by form.
_OPERANDS = {
    Form.DST: "%r{d}",
    Form.DST_IMM: "%r{d}, {imm}",
    Form.DST_SRC: "%r{d}, %r{s}",
    Form.CAST: "%r{d}, %r{s}, {high}, {low}",
    Form.LOAD: "%r{d}, [%r{s}{disp}]",
    Form.STORE_IMM: "[%r{d}{disp}], {imm}",
    Form.STORE: "[%r{d}{disp}], %r{s}",
    Form.JUMP: "{to}",
    Form.JUMP_LONG: "{to}",
    Form.JUMP_IMM: "%r{d}, {imm}, {to}",
    Form.JUMP_REG: "%r{d}, %r{s}, {to}",
    Form.CALL: "{imm}",
    Form.CALL_LOCAL: "{to}",
    Form.CALL_REGISTER: "%r{d}",
    Form.CALL_KFUNC: "{kfunc}{module}",
    Form.EXIT: "",
    Form.LOAD_ABSOLUTE: "{imm}",
    Form.LOAD_INDIRECT: "%r{s}, {imm}",
}


def _op(
    name: str, code: int, form: Form, text: str, *rest: Any, word: str = "", also: tuple[str, ...] = (), **more: Any
) -> Op:
    """A row; `word` is its name in the mnemonic syntax where that is another, `also` what tools call it, too."""
    if form in _OPERANDS:
        operands, spelled = _OPERANDS[form], word or name
        more["mnemonic"] = f"{spelled} {operands}".rstrip()
        others = tuple(f"{other} {operands}".rstrip() for other in (name, *also) if other != spelled)
        more["aliases"] = more.get("aliases", ()) + others
    return Op(name, code, form, text, *rest, **more)


def _both(name: str, code: int, imm_text: str, reg_text: str, *, jump: bool = False, **more: Any) -> list[Op]:
    """The two forms of an operation whose second operand is an immediate or a register."""
    reads = more.pop("reads", "d")
    imm_form, reg_form = (Form.JUMP_IMM, Form.JUMP_REG) if jump else (Form.DST_IMM, Form.DST_SRC)
    return [
        _op(name, code, imm_form, imm_text, reads=reads, **more),
        _op(name, code | _REG, reg_form, reg_text, reads=reads + "s", **more),
    ]


def _arithmetic() -> list[Op]:
    rows: list[Op] = []
    for size, group, r, suffix in ((8, _ALU64, "r", ""), (4, _ALU, "w", "32")):
        bits = str(size * 8)
        d, s = f"{r}{{d}}", f"{r}{{s}}"
        result: dict[str, Any] = {"writes": "d", "size": size}
        for name, code, operator, more in _ARITHMETIC:
            imm_text, reg_text = f"{d} {operator} {{imm}}", f"{d} {operator} {s}"
            rows += _both(name + bits, group | code, imm_text, reg_text, word=name + suffix, **result, **more)
        rows.append(_op("neg" + bits, group | 0x80, Form.DST, f"{d} = -{d}", word="neg" + suffix, reads="d", **result))
        result |= {"reads": "s", "version": 4, "feature": "movsx"}
        rows += [
            _op(
                f"movsx{n}to{bits}",
                group | 0xB8,
                Form.DST_SRC,
                f"{d} = (s{n}){s}",
                word=f"movsx{n}{bits}",
                offset=n,
                **result,
            )
            for n in (8, 16, 32)
            if n < size * 8
        ]
    swap: dict[str, Any] = {"reads": "d", "writes": "d"}
    swap4 = swap | {"version": 4, "feature": "bswap"}
    for n in (16, 32, 64):
        rows += [
            _op(f"le{n}", _ALU | 0xD0, Form.DST, f"r{{d}} = le{n} r{{d}}", imm=n, **swap),
            _op(f"be{n}", _ALU | 0xD8, Form.DST, f"r{{d}} = be{n} r{{d}}", imm=n, **swap),
            _op(f"bswap{n}", _ALU64 | 0xD0, Form.DST, f"r{{d}} = bswap{n} r{{d}}", word=f"swap{n}", imm=n, **swap4),
        ]
    text = "r{d} = addr_space_cast(r{s}, {high}, {low})"
    cast: dict[str, Any] = {"reads": "s", "writes": "d", "version": 4, "feature": "addr_space_cast"}
    rows.append(_op("addr_space_cast", _ALU64 | 0xB8, Form.CAST, text, offset=1, **cast))
    return rows


def _jumps() -> list[Op]:
    rows: list[Op] = []
    for size, group, r, suffix in ((8, _JMP, "r", ""), (4, _JMP32, "w", "32")):
        for name, code, operator, version, inverse in _CONDITIONS:
            rows += _both(
                name + suffix,
                group | code,
                f"if {r}{{d}} {operator} {{imm}} goto {{to}}",
                f"if {r}{{d}} {operator} {r}{{s}} goto {{to}}",
                jump=True,
                version=max(version, 3) if size == 4 else version,
                size=size,
                inverse=inverse + suffix if inverse else None,
            )
    call: dict[str, Any] = {"reads": "12345", "writes": "0", "clobbers": "12345"}
    called = call | {"reads": "d12345"}
    local: dict[str, Any] = {"feature": "call_local"}
    kfunc = "call kfunc[{kfunc}]{module}"
    rows += [
        _op("ja", _JMP, Form.JUMP, "goto {to}"),
        _op("gotol", _JMP32, Form.JUMP_LONG, "gotol {to}", word="ja32", version=4, feature="gotol"),
        _op("may_goto", _JMP | 0xE0, Form.JUMP, "may_goto {to}", version=4, feature="may_goto"),
        _op("call", _JMP | 0x80, Form.CALL, "call {imm}", also=("call helper",), **call),
        _op("call_local", _JMP | 0x80, Form.CALL_LOCAL, "call {function}", word="call local", src=1, **local, **call),
        _op("call_kfunc", _JMP | 0x80, Form.CALL_KFUNC, kfunc, word="call runtime", src=2, feature="kfunc", **call),
        # What clang makes of a call through a pointer; no verifier takes it up to Linux 6.18.
        _op("callx", _JMP | _REG | 0x80, Form.CALL_REGISTER, "callx r{d}", word="call", feature="callx", **called),
        _op("exit", _JMP | 0x90, Form.EXIT, "exit", reads="0"),
    ]
    return rows


def _memory() -> list[Op]:
    rows: list[Op] = []
    packet: dict[str, Any] = {"writes": "0", "clobbers": "12345"}
    ordered: dict[str, Any] = {"version": 4, "feature": "load_acquire"}
    for size, code, letter, bits in _SIZES:
        at_src, at_dst = f"(u{bits} *)(r{{s}} {{off}})", f"(u{bits} *)(r{{d}} {{off}})"
        r = "r" if size == 8 else "w"
        load: dict[str, Any] = {"reads": "s", "writes": "d", "size": size}
        store: dict[str, Any] = {"size": size}
        atomic = _STX | _ATOMIC | code
        acquire = f"{r}{{d}} = load_acquire({at_src})"
        release = f"store_release({at_dst}, {r}{{s}})"
        rows += [
            _op("ldx" + letter, _LDX | _MEMORY | code, Form.LOAD, f"r{{d}} = *{at_src}", **load),
            _op("st" + letter, _ST | _MEMORY | code, Form.STORE_IMM, f"*{at_dst} = {{imm}}", reads="d", **store),
            _op("stx" + letter, _STX | _MEMORY | code, Form.STORE, f"*{at_dst} = r{{s}}", reads="ds", **store),
            _op("load_acquire" + bits, atomic, Form.LOAD, acquire, imm=0x100, **load, **ordered),
            _op("store_release" + bits, atomic, Form.STORE, release, reads="ds", imm=0x110, **store, **ordered),
        ]
        if size == 8:
            continue
        signed, load4 = f"*(s{bits} *)(r{{s}} {{off}})", load | {"version": 4, "feature": "ldsx"}
        absolute, indirect = f"r0 = *(u{bits} *)skb[{{imm}}]", f"r0 = *(u{bits} *)skb[r{{s}}{{index}}]"
        packet["size"] = size
        rows += [
            _op("ldxs" + letter, _LDX | _MEMORY_SIGNED | code, Form.LOAD, f"r{{d}} = {signed}", **load4),
            _op("ldabs" + letter, _LD | _ABSOLUTE | code, Form.LOAD_ABSOLUTE, absolute, reads="6", **packet),
            _op("ldind" + letter, _LD | _INDIRECT | code, Form.LOAD_INDIRECT, indirect, reads="6s", **packet),
        ]
    return rows


def _atomics() -> list[Op]:
    rows: list[Op] = []
    for size, code, _, bits in _SIZES[2:]:
        # LLVM marks the width of the exchanges in the name and leaves the pointer's type out; the kernel writes them as
        # the others, with the width in the name of all.
        r, suffix, mark, kernel = ("r", "", "_64", "atomic64_") if size == 8 else ("w", "32", "32_32", "atomic_")
        s, place = f"{r}{{s}}", f"(u{bits} *)(r{{d}} {{off}})"

        def row(name: str, word: str, imm: int, text: str, alias: str = "", *, code: int = code, **more: Any) -> Op:
            more |= {"imm": imm, "word": f"lock {word}", "aliases": (alias,) if alias else ()}
            return _op(f"atomic_{name}", _STX | _ATOMIC | code, Form.STORE, text, **more)

        more: dict[str, Any] = {"size": size, "reads": "ds", "version": 3}
        for name, imm, operator in _ATOMICS:
            # Plain add came with the first instruction set, all else with Linux 5.12.
            plain = more | {"version": 1} if name == "add" else more
            fetch = f"fetch_{name}({place}, {s})"
            rows += [
                row(name + bits, name + suffix, imm, f"lock *{place} {operator} {s}", **plain),
                row(
                    f"fetch_{name}{bits}", f"fetch {name}{suffix}", imm | _FETCH,
                    f"{s} = atomic_{fetch}", f"{s} = {kernel}{fetch}", writes="s", **more,
                ),
            ]  # fmt: skip
        more_compare = more | {"reads": "ds0", "writes": "0"}
        rows += [
            row(
                f"xchg{bits}", f"xchg{suffix}", 0xE1,
                f"{s} = xchg{mark}(r{{d}} {{off}}, {s})", f"{s} = {kernel}xchg({place}, {s})", writes="s", **more,
            ),
            row(
                f"cmpxchg{bits}", f"cmpxchg{suffix}", 0xF1,
                f"{r}0 = cmpxchg{mark}(r{{d}} {{off}}, {r}0, {s})", f"{r}0 = {kernel}cmpxchg({place}, {r}0, {s})",
                **more_compare,
            ),
        ]  # fmt: skip
    return rows


def _wide() -> list[Op]:
    code = _LD | _IMMEDIATE | 0x18
    # name, form, value of src, kernel's text, RFC 9669's (section 5.4)
    kinds = (
        ("lddw", Form.LDDW, 0, "{wide} ll", "{wide}"),
        ("lddw_map", Form.LDDW_MAP, 1, "map[{map}]{upper}", "map_by_fd({map}){upper}"),
        ("lddw_map_value", Form.LDDW_MAP, 2, "map[{map}][0] {place}", "map_val(map_by_fd({map})) {place}"),
        ("lddw_ksym", Form.LDDW_KSYM, 3, "ksym[{ksym}]{upper}", "var_addr({ksym}){upper}"),
        ("lddw_function", Form.LDDW_FUNCTION, 4, "subprog[{function}]{upper}", "code_addr({to}){upper}"),
        ("lddw_map_index", Form.LDDW_MAP, 5, "map_index[{map}]{upper}", "map_by_idx({map}){upper}"),
        ("lddw_map_index_value", Form.LDDW_MAP, 6, "map_index[{map}][0] {place}", "map_val(map_by_idx({map})) {place}"),
    )
    rows = []
    for name, form, src, kernel, rfc in kinds:
        # LLVM writes the address of any symbol so; bpftool prints a function's distance with its sign.
        others = {"lddw_map": ("r{d} = {symbol} ll",), "lddw_function": ("r{d} = subprog[{to}]{upper}",)}
        aliases = others.get(name, ())
        texts: dict[str, Any] = {"mnemonic": f"lddw %r{{d}}, {rfc}", "aliases": aliases}
        rows.append(Op(name, code, form, f"r{{d}} = {kernel}", writes="d", src=src, **texts))
    return rows


OPS: tuple[Op, ...] = (*_arithmetic(), *_jumps(), *_memory(), *_atomics(), *_wide())
_BY_NAME = {(op.name, op.form): op for op in OPS}
BY_CODE: dict[int, tuple[Op, ...]] = {}
for _row in OPS:
    BY_CODE[_row.code] = (*BY_CODE.get(_row.code, ()), _row)


def find_op(name: str, form: Form) -> Op:
    """The row of that name and form; KeyError if there is none."""
    return _BY_NAME[name, form]
