"""Flame graphs: stacks with counts as one interactive SVG file that needs nothing else.

A box is a function as it was called by those below it; its width is its share of all samples. A click zooms, Ctrl-F or
"/" searches, Escape undoes both. Without scripts it is a picture with tooltips.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from zlib import crc32

from pyebpf.output.svg import BACK, Paint, document, xml_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WIDTH, _MARGIN, _HEIGHT, _TOP, _BOTTOM = 1200, 10, 16, 34, 24
_CHARACTER = 7.0  # pixels of a 12-pixel monospaced font
_MARKS = re.compile(r"_\[([kj])\]$")
# Hue, saturation, lightness, and how far a name moves the hue: the kernel's functions, compiled just in time, others.
_COLOURS = {"k": (28, 85, 64, 8), "j": (120, 45, 62, 15), "": (8, 78, 62, 18)}

_RULES = (
    BACK,
    Paint("#title,#info,#matched", "fill", "#000", "#eaeaea"),
    Paint(".button", "fill", "#555", "#b0b0b0"),
)
_STYLE = """\
text{font:12px monospace;pointer-events:none}
#title{font-size:16px;text-anchor:middle}
rect{rx:1px}
g.frame{cursor:pointer}
g.frame:hover rect{stroke:#000;stroke-width:.6}
g.under rect{opacity:.5}
g.found rect{fill:#d0f}
.button{cursor:pointer;pointer-events:all}
"""

# x and w of a frame are in samples; `from` and `span` are what of them is shown.
_SCRIPT = """\
"use strict";
const svg = document.documentElement, total = +svg.dataset.total;
const width = +svg.dataset.width, margin = +svg.dataset.margin, character = +svg.dataset.character;
const frames = [...svg.querySelectorAll("g.frame")].map(g => ({
  g, x: +g.dataset.x, w: +g.dataset.w, depth: +g.dataset.depth, name: g.dataset.name,
  rect: g.querySelector("rect"), text: g.querySelector("text"),
}));
const info = document.getElementById("info"), matched = document.getElementById("matched");
const reset = document.getElementById("reset");

function zoom(target) {
  const from = target ? target.x : 0, span = target ? target.w : total;
  for (const f of frames) {
    const under = target && f.depth < target.depth && f.x <= from && f.x + f.w >= from + span;
    const inside = f.x >= from && f.x + f.w <= from + span && (!target || f.depth >= target.depth);
    f.g.style.display = under || inside ? "" : "none";
    f.g.classList.toggle("under", Boolean(under));
    const wide = under ? width : f.w / span * width;
    const left = margin + (under ? 0 : (f.x - from) / span * width);
    f.rect.setAttribute("x", left);
    f.rect.setAttribute("width", Math.max(wide - .4, .1));
    f.text.setAttribute("x", left + 3);
    const fits = Math.floor((wide - 6) / character);
    f.text.textContent = fits < 3 ? "" : f.name.length <= fits ? f.name : f.name.slice(0, fits - 2) + "..";
  }
  reset.style.display = target ? "" : "none";
}

function search(pattern) {
  let test = null, sum = 0, end = 0;
  if (pattern) {
    try { test = new RegExp(pattern); }
    catch { matched.textContent = "no regular expression: " + pattern; return; }
  }
  for (const f of frames) f.g.classList.toggle("found", Boolean(test && test.test(f.name)));
  // A match above another is part of it already.
  const found = frames.filter(f => f.g.classList.contains("found")).sort((a, b) => a.x - b.x || b.w - a.w);
  for (const f of found) if (f.x >= end) { sum += f.w; end = f.x + f.w; }
  matched.textContent = test ? "matched: " + (100 * sum / total).toFixed(1) + "%" : "";
}

for (const f of frames) {
  f.g.addEventListener("click", () => zoom(f.depth ? f : null));
  f.g.addEventListener("mouseover", () => { info.textContent = f.g.querySelector("title").textContent; });
  f.g.addEventListener("mouseout", () => { info.textContent = ""; });
}
const ask = () => search(prompt("Search for functions by regular expression:") || "");
document.getElementById("search").addEventListener("click", ask);
reset.addEventListener("click", () => zoom(null));
addEventListener("keydown", event => {
  if (event.key === "Escape") { zoom(null); search(""); }
  else if (event.key === "/" || (event.key === "f" && event.ctrlKey)) { event.preventDefault(); ask(); }
});
"""


def flame_graph(stacks: Mapping[tuple[str, ...], int], *, title: str = "Flame graph", unit: str = "samples") -> str:
    """An SVG document of stacks, tuples of names with the outermost first, and their counts.

    Functions are ordered by name, so that equal profiles look alike. Those that end in `_[k]` (the kernel's) and
    `_[j]` (compiled just in time) have colours of their own. `data-x`, `data-w` and `data-depth` of each box say what
    it stands for: samples to its left, its samples, and how deep it is.
    """
    boxes = list(_boxes(stacks))
    total = sum(count for count in stacks.values() if count > 0)
    deepest = max((box[1] for box in boxes), default=0)
    height = _TOP + _BOTTOM + (deepest + 1) * _HEIGHT
    inner = _WIDTH - 2 * _MARGIN
    parts = [
        f'<text id="title" x="{_WIDTH // 2}" y="22">{xml_text(title)}</text>',
        f'<text id="info" x="{_MARGIN}" y="{height - 7}"></text>',
        f'<text id="matched" x="{_WIDTH - _MARGIN}" y="{height - 7}" text-anchor="end"></text>',
        f'<text id="reset" class="button" x="{_MARGIN}" y="22" style="display:none">reset</text>',
        f'<text id="search" class="button" x="{_WIDTH - _MARGIN}" y="22" text-anchor="end">search</text>',
    ]
    for name, depth, start, count in boxes:
        x = _MARGIN + start / total * inner
        width = count / total * inner
        y = height - _BOTTOM - (depth + 1) * _HEIGHT
        shown = xml_text(name)
        share = f"{count:,} {unit}, {100 * count / total:.2f}%"
        parts.append(
            f'<g class="frame" data-x="{start}" data-w="{count}" data-depth="{depth}" data-name="{shown}">'
            f"<title>{shown} ({xml_text(share)})</title>"
            f'<rect x="{x:.2f}" y="{y}" width="{max(width - 0.4, 0.1):.2f}" height="{_HEIGHT - 1}" '
            f'fill="{_colour(name)}"/>'
            f'<text x="{x + 3:.2f}" y="{y + 12}">{xml_text(_fitting(name, width))}</text></g>'
        )
    data = {"total": total or 1, "width": inner, "margin": _MARGIN, "character": _CHARACTER}
    attributes = {f"data-{name}": value for name, value in data.items()}
    return document(_WIDTH, height, parts, rules=_RULES, css=_STYLE, script=_SCRIPT, attributes=attributes)


def _boxes(stacks: Mapping[tuple[str, ...], int]) -> Iterator[tuple[str, int, int, int]]:
    """Name, depth, samples to the left and samples of each box, the lowest first: depth 0 stands for all."""
    position = 0
    open_: list[tuple[str, int]] = [("all", 0)]  # of the stack before: names, and where their boxes begin
    for stack, count in sorted(stacks.items()):
        if count <= 0:
            continue
        shared = 0
        while shared < min(len(stack), len(open_) - 1) and open_[shared + 1][0] == stack[shared]:
            shared += 1
        yield from _closed(open_, shared + 1, position)
        open_ += [(name, position) for name in stack[shared:]]
        position += count
    yield from _closed(open_, 0 if position else 1, position)


def _closed(open_: list[tuple[str, int]], keep: int, end: int) -> Iterator[tuple[str, int, int, int]]:
    while len(open_) > keep:
        name, start = open_.pop()
        yield name, len(open_), start, end - start


def _fitting(name: str, width: float) -> str:
    fits = int((width - 6) / _CHARACTER)
    if fits < 3:
        return ""
    return name if len(name) <= fits else name[: fits - 2] + ".."


def _colour(name: str) -> str:
    mark = _MARKS.search(name)
    hue, saturation, lightness, spread = _COLOURS[mark.group(1) if mark else ""]
    seed = crc32(name.encode(errors="surrogatepass"))
    hue += seed % (2 * spread + 1) - spread
    return f"hsl({hue % 360},{saturation}%,{lightness + (seed >> 8) % 9 - 4}%)"
