"""SVG documents that need nothing else, with one look: on a light or a dark screen, and in print.

Colours are rules of CSS. The plain rules are those of light screens and of paper; a dark screen has rules of its own,
which programs that know no media queries leave out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from pyebpf.output.escape import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FONT = "text{font-family:sans-serif;font-size:12px}\n"


class Paint(NamedTuple):
    """A rule of colour: a selector, a property, and its values on light and on dark ground."""

    selector: str
    property: str
    light: str
    dark: str


#: Colours of classes of things: blue, red, green, violet, brown, grey.
SERIES = (
    ("#1f77b4", "#6cb2eb"),
    ("#d62728", "#ff7b72"),
    ("#2ca02c", "#6fd06f"),
    ("#9467bd", "#c9a2ec"),
    ("#8c564b", "#d2a48f"),
    ("#595959", "#b0b0b0"),
)
#: From few to many: each is darker than the one before on light ground, and lighter on dark ground.
HEAT = (
    ("#fdeacb", "#4a2a38"),
    ("#fcd7a0", "#61303e"),
    ("#f9bd77", "#7a3741"),
    ("#f49d58", "#954142"),
    ("#e97c44", "#b04c41"),
    ("#d75a38", "#c96242"),
    ("#b93c33", "#e17f4c"),
    ("#8f2431", "#f2a868"),
    ("#5c1230", "#fcdfa4"),
)
#: From here on text on a colour of HEAT is light on light screens, dark on dark ones.
STRONG_HEAT = 5
BACK = Paint(".back", "fill", "#fff", "#15171c")
PAINTS = (
    BACK,
    Paint(".text", "fill", "#111", "#eaeaea"),
    Paint(".weak", "fill", "#595959", "#a8a8a8"),
    Paint(".grid", "stroke", "#ddd", "#363a42"),
    Paint(".frame", "stroke", "#888", "#7d828c"),
)


def paints(prefix: str, colours: Sequence[tuple[str, str]], attribute: str = "fill") -> list[Paint]:
    """The rules of the classes `prefix0`, `prefix1` and so on."""
    return [Paint(f".{prefix}{i}", attribute, light, dark) for i, (light, dark) in enumerate(colours)]


def style(rules: Iterable[Paint]) -> str:
    """The rules as CSS."""
    found = list(rules)
    light = "".join(f"{r.selector}{{{r.property}:{r.light}}}\n" for r in found)
    dark = "".join(f"{r.selector}{{{r.property}:{r.dark}}}\n" for r in found)
    return f"{light}@media screen and (prefers-color-scheme:dark){{\n{dark}}}\n"


def document(
    width: int,
    height: int,
    parts: Iterable[str],
    *,
    label: str = "",
    rules: Sequence[Paint] = PAINTS,
    css: str = _FONT,
    script: str = "",
    attributes: Mapping[str, object] | None = None,
) -> str:
    """A document of such parts on a ground that covers it. A `label` says in words what it shows."""
    named = {**({"aria-label": label} if label else {}), **(attributes or {})}
    extra = "".join(f' {name}="{xml_text(str(value))}"' for name, value in named.items())
    area = f'width="{width}" height="{height}"'
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8" standalone="no"?>',
            f'<svg xmlns="http://www.w3.org/2000/svg" version="1.1" {area} viewBox="0 0 {width} {height}"{extra}>',
            f"<style>{css}{style(rules)}</style>",
            f'<rect class="back" {area}/>',
            *parts,
            *([f"<script><![CDATA[\n{script}]]></script>"] if script else []),
            "</svg>",
            "",
        ]
    )


def text(x: float, y: float, words: str, rest: str = "", *, kind: str = "text") -> str:
    """A text whose base line begins there, or ends or has its middle there if `rest` says so."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}"{rest and " " + rest}>{xml_text(words)}</text>'


MIDDLE, END = 'text-anchor="middle"', 'text-anchor="end"'


def status_line(x: float, y: float) -> str:
    """The line in which a document's script says what is chosen; readers of screens read it aloud."""
    return f'<text id="info" class="text" x="{x}" y="{y}" role="status" aria-live="polite"></text>'


def fitting(words: str, width: float, size: float = 12) -> str:
    """The text, cut if a sans-serif font of that size needs more than that width for it."""
    fits = int(width / (size * 0.56))
    return words if len(words) <= fits else f"{words[: max(fits - 2, 0)]}.."


def xml_text(words: str) -> str:
    """Text for XML 1.0, which has no way to spell control characters."""
    found = _NOT_XML.sub("\ufffd", escaped(words))
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        found = found.replace(character, entity)
    return found
