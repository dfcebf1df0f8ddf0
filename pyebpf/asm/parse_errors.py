"""Why a line of assembly means nothing: the first token that fits no shape, and what could stand there."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from pyebpf.asm.shapes import shapes
from pyebpf.errors import AssemblyError, closest

if TYPE_CHECKING:
    from typing import TypeAlias

    _Node: TypeAlias = dict[str, "_Node"]

    from collections.abc import Callable, Sequence

    from pyebpf.asm.shapes import Token
    from pyebpf.errors import Location

_MAX_ELEMENTS = 6
_LONGEST = 60  # characters of a token that are shown
_MEANINGS = {
    "r": "a register (r0 to r10)",
    "w": "the lower half of a register (w0 to w10)",
    "#": "a number",
    "+#": "a signed number such as +4",
    "~": "a distance such as pc+3",
    "@": "a name",
    "": "the end of the line",
}


@cache
def _tree() -> _Node:
    """Shapes as a tree of token kinds; "" marks an end."""
    root: _Node = {}
    for shape in shapes():
        node = root
        for kind in shape.split(" "):
            node = node.setdefault(kind, {})
        node[""] = {}
    return root


def explain(tokens: Sequence[Token], end: int, at: Callable[[int, int], Location]) -> AssemblyError:
    """The error for tokens that have no shape; `end` is the column after the line's last one."""
    if not tokens:
        return AssemblyError("there is no instruction")
    node = _tree()
    for index, token in enumerate(tokens):
        if token.kind == "!":
            place = at(token.start, token.end)
            return AssemblyError(f"there is no register {token.text}: they are r0 to r10", place)
        if token.kind == "?":
            apart = ": `ll` stands apart" if token.text[-2:].lower() == "ll" else ""
            return AssemblyError(f"`{_shown(token)}` is not a number{apart}", at(token.start, token.end))
        following = node.get(token.kind)
        if following is None and "@" in node and token.kind.isidentifier() and index == len(tokens) - 1:
            following = node["@"]
        if following is None:
            place = at(token.start, token.end)
            if index == 0:
                return AssemblyError(_no_start(token, node), place)
            return AssemblyError(f"`{_shown(token)}` cannot stand here: {_expected(token, node)}", place)
        node = following
    return AssemblyError(f"the instruction is not complete: {_expected(None, node)}", at(end, end + 1))


def _shown(token: Token) -> str:
    """The token's text; of a very long one its beginning."""
    return token.text if len(token.text) <= _LONGEST else f"{token.text[:_LONGEST]}…"


def _no_start(token: Token, node: _Node) -> str:
    if token.text[0] == "." and len(token.text) > 1:
        return f"`{_shown(token)}` is a directive: llvm-mc makes an object of such a text, which `pyebpf disasm` reads"
    if token.kind == "@":
        words = [kind for kind in node if kind.isidentifier() and len(kind) > 1]
        return f"there is no instruction `{_shown(token)}`{closest(token.text, words)}"
    return f"no instruction starts with `{token.text}`"


def _expected(token: Token | None, node: _Node) -> str:
    kinds = sorted(node, key=lambda kind: (kind not in _MEANINGS, kind))
    if len(kinds) > _MAX_ELEMENTS:
        hint = closest(token.text, [kind for kind in kinds if kind not in _MEANINGS]) if token is not None else ""
        kinds = kinds[:_MAX_ELEMENTS]
        return f"expected {', '.join(_MEANINGS.get(kind, f'`{kind}`') for kind in kinds)} or another{hint}"
    shown = [_MEANINGS.get(kind, f"`{kind}`") for kind in kinds]
    return "expected " + (" or ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0])
