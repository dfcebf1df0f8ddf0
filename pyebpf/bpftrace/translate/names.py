"""Literals, arguments of the command line, and names: builtins, constants."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyebpf.arch import architecture
from pyebpf.attach.uprobes import Uprobe
from pyebpf.bpftrace import literals
from pyebpf.bpftrace.translate.constants import CONSTANTS
from pyebpf.bpftrace.translate.settings import MAX_STRLEN
from pyebpf.bpftrace.translate.values import Condition, Integer, constant, literal_text
from pyebpf.dataclass import replace
from pyebpf.errors import CompileError, NotFound, closest
from pyebpf.types import S64

if TYPE_CHECKING:
    from pyebpf.bpftrace import ast
    from pyebpf.bpftrace.translate.body import Scope
    from pyebpf.bpftrace.translate.values import Text, Value


def integer(s: Scope, node: ast.Integer) -> Value:
    """A number."""
    return constant(s.p, node.value)


#: Numbers of system calls by C's names.
_CALL = re.compile(r"__NR_|SYS_")


def string(s: Scope, node: ast.String) -> Value:
    """A text in quotes."""
    return bounded_text(s, node.value, node)


def bounded_text(s: Scope, data: bytes, node: ast.Node) -> Text:
    """A text that the script or the command line has, if it is no longer than the setting max_strlen lets it be.

    Without that setting it is no longer than one that a probe reads may be.
    """
    most = s.script.settings.max_strlen
    if len(data) > MAX_STRLEN:
        raise s.error(f"this text is too long, of {len(data)} bytes: give {MAX_STRLEN} at most", node)
    if most is not None and len(data) >= most:
        raise s.error(f"this string has {len(data)} bytes, and max_strlen = {most} takes {most - 1} and a NUL", node)
    return literal_text(data)


def boolean(s: Scope, node: ast.Boolean) -> Value:  # noqa: ARG001 - one signature
    """`true` or `false`."""
    from pyebpf.builder.ssa.conditions import Always

    return Condition(Always(node.value))


def parameter(s: Scope, node: ast.PositionalParameter) -> Value:
    """`$1`: a number if it reads as one, else text; 0 if it was not given."""
    given = s.script.arguments
    if node.number > len(given):
        return constant(s.p, 0)
    text = given[node.number - 1]
    value = as_number(text)
    return bounded_text(s, text.encode("utf-8", "surrogateescape"), node) if value is None else constant(s.p, value)


def check_parameter(s: Scope, node: ast.PositionalParameter) -> None:
    """Refuse to reckon with a number that has more than 64 bits, which is a text."""
    text = s.script.arguments[node.number - 1]
    if text.removeprefix("-").isdecimal():
        raise s.error(f"${node.number} is {text}, which 64 bits do not hold: give a smaller number", node)


def as_number(text: str) -> int | None:
    """The number that a text on the command line is, as a script would write it; None if it is none."""
    digits = text.removeprefix("-")
    try:
        value = literals.integer(digits)
    except literals.LiteralError:
        return None
    value = -value if digits != text else value
    return value if value >= S64.minimum else None


def parameter_count(s: Scope, node: ast.PositionalParameterCount) -> Value:  # noqa: ARG001 - one signature
    """`$#`."""
    return constant(s.p, len(s.script.arguments))


def identifier(s: Scope, node: ast.Identifier) -> Value:
    """A name: a builtin, a constant; an argument where those need no `args.` before them."""
    from pyebpf.bpftrace.translate.builtins import argument, builtin
    from pyebpf.bpftrace.translate.members import enumerated

    found = builtin(s, node)
    if found is not None:
        return found
    own = s.script.enums.constant(s.p, node.name)
    if own is not None:
        return own
    if isinstance(s.p.attach, Uprobe) and (user := s.script.user_types.constant(s.p.attach, node.name)) is not None:
        return enumerated(s, constant(s.p, user[0]), user[1])
    if node.name in CONSTANTS:
        return constant(s.p, CONSTANTS[node.name])
    call = _CALL.match(node.name)
    if call is not None:
        try:
            return constant(s.p, architecture(s.p.target.arch).system_call(node.name[call.end() :]))
        except NotFound as error:
            raise s.error(f"{node.name}: {error}", node) from None
    try:
        return _enumerator(s, node.name)
    except NotFound as error:
        unknown = f"{node.name} is no builtin, and no constant of the kernel's"
        if not s.script.takes_bare_arguments:
            raise s.error(unknown + _near(s, node.name, error), node) from None
    try:
        return argument(s, node.name, node)
    except CompileError as error:
        raise s.error(f"{unknown}; {error.message}", node) from None


#: Builtins of DTrace and SystemTap by bpftrace's names.
DTRACE = {"execname": "comm", "timestamp": "nsecs", "probefunc": "func", "curthread": "curtask"}


def _near(s: Scope, name: str, error: NotFound) -> str:
    """The end of the message: names that are like one that there is not; else that it may be meant as text."""
    from pyebpf.bpftrace.translate.builtins import BUILTINS
    from pyebpf.bpftrace.translate.functions import is_function

    if name in DTRACE:
        return f": write {DTRACE[name]}"
    if is_function(name) or name in s.script.functions:
        return f": it is a function, write {name}()"
    others = [*(s.script.defines - {name}), *s.script.enums.names, *CONSTANTS]
    known = closest(name, [*BUILTINS, "args", "ctx", "arg0", *others])
    _, hint, rest = str(error).partition(" (did you mean")
    known = known or closest(name.lower(), BUILTINS)
    if known or hint:
        return known or hint + rest
    if name.isupper():
        return f": write its number, or #define {name} before the probes"
    return f': a text is written in quotes, "{name}"'


def _enumerator(s: Scope, name: str) -> Integer:
    """A constant of the kernel's enums. Raises NotFound."""
    target = s.p.target
    found = constant(s.p, target.enumerator(name))
    found.type = replace(found.type, least=8, enum=target.enum_of(name))  # the size is that of bpftrace's
    return found
