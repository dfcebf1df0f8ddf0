"""`debugf()`: a line in the kernel's trace pipe, which all programs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyebpf.bpftrace.formats import parse_format
from pyebpf.bpftrace.translate.expressions import as_integer, evaluate, known_text
from pyebpf.bpftrace.translate.values import Text, Unknown
from pyebpf.builder.available import need_helper
from pyebpf.builder.values.lvalue import moved, write_bytes
from pyebpf.uapi.helper_ids import TRACE_PRINTK, TRACE_VPRINTK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.formats import Format, Specifier
    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Value
    from pyebpf.compiler import ir

#: Values that the kernel takes in registers, and at most.
_IN_REGISTERS, _MOST = 3, 12
#: Bytes of a format at most.
_LONGEST = 256


def _debug(s: Scope, node: ast.Call) -> None:
    from pyebpf.bpftrace.translate.functions import arguments

    first, *given = arguments(s, node, 1, 1 + _MOST)
    try:
        layout = parse_format(known_text(s, first))
    except ValueError as error:
        raise s.error(str(error), first) from None
    if len(given) != len(layout.specifiers):
        raise s.error(layout.mismatch(len(given)), node)
    text = _text(s, layout, first) + b"\0"
    if len(text) > _LONGEST:
        raise s.error(f"the format of debugf() has {_LONGEST - 1} bytes at most", first)
    words = [_word(s, each, specifier) for each, specifier in zip(given, layout.specifiers, strict=True)]
    if None not in words:
        _call(s, text, [each for each in words if each is not None])


def _call(s: Scope, text: bytes, words: Sequence[ir.Value]) -> None:
    p, b = s.p, s.p.b
    place = b.slot_address(b.slot(-(-len(text) // 8) * 8, name="format"))
    write_bytes(p, place, 0, text)
    size = b.const(len(text))
    if len(words) <= _IN_REGISTERS:
        p.gpl_only.add("trace_printk")
        b.call(TRACE_PRINTK, place, size, *words)
        return
    need_helper(p, "trace_vprintk", f"debugf() of {len(words)} values", f"print {_IN_REGISTERS} at most")
    p.gpl_only.add("trace_vprintk")
    values = b.slot_address(b.slot(8 * len(words), name="values"))
    for position, word in enumerate(words):
        b.store(values, 8 * position, word, 8)
    b.call(TRACE_VPRINTK, place, size, values, b.const(8 * len(words)))


def _word(s: Scope, node: ast.Expression, specifier: Specifier) -> ir.Value | None:
    """A value as the kernel takes it: a number, or the address of a text; None while its type is not known."""
    value = evaluate(s, node)
    if isinstance(value, Unknown):
        return None
    if isinstance(value, Text):
        if specifier.kind != "s":
            raise s.error(f"%{specifier.kind} does not print {value.type.name}", node)
        return moved(s.p, *value.kept(s.p).lvalue.address(s.p))
    if specifier.kind == "s":
        raise s.error(f"debugf() prints {value.type.name} by no %s: the kernel takes strings there alone", node)
    return as_integer(s, value, node).value


def _text(s: Scope, layout: Format, node: ast.Expression) -> bytes:
    """The format in the kernel's words, which knows fewer specifiers."""
    parts = [layout.pieces[0].replace("%", "%%")]
    for each, piece in zip(layout.specifiers, layout.pieces[1:], strict=True):
        kind = "d" if each.kind == "i" else each.kind
        if kind not in "duxXcps":
            raise s.error(f"%{each.kind} is none that the kernel prints: debugf() has %d %u %x %c %p %s", node)
        flags = "-" * each.left + "+" * each.plus + "0" * each.zeros
        length = "" if each.kind in "cps" or each.length in ("", "h", "hh") else "ll" if each.length == "ll" else "l"
        parts += [f"%{flags}{each.width or ''}{length}{kind}", piece.replace("%", "%%")]
    return "".join(parts).encode("utf-8", "surrogateescape")


TRACE_PIPE: dict[str, Callable[[Scope, ast.Call], Value | None]] = {"debugf": _debug}
