"""The style and the script of flame graphs."""

from __future__ import annotations

STYLE = """\
svg{background:#fff}
text{font:12px monospace;fill:#000;pointer-events:none}
#title{font-size:16px;text-anchor:middle}
rect{rx:1px}
g.frame{cursor:pointer}
g.frame:hover rect{stroke:#000;stroke-width:.6}
g.under rect{opacity:.5}
g.found rect{fill:#d0f}
g.at rect{stroke:#06c;stroke-width:2}
.button{cursor:pointer;pointer-events:all;fill:#555}
@media(prefers-color-scheme:dark){
svg{background:#1c1c20}
#back{fill:#1c1c20}
#title,#info,#matched{fill:#eee}
.button{fill:#aaa}
g.frame:hover rect{stroke:#fff}
g.found rect{fill:#f6f}
g.at rect{stroke:#fff}
}
"""

# x and w of a frame are parts of the total; `from` and `span` are what of it is shown. The address's fragment has the
# search (s) and the key of the frame that is zoomed to (z): a link leads to a view. A key is FNV-1a of the names, taken
# from the outermost to the frame's: the same in a later picture, where the frame has another place and width.
SCRIPT = """\
"use strict";
const svg = document.documentElement, total = +svg.dataset.total, inverted = "inverted" in svg.dataset;
const width = +svg.dataset.width, margin = +svg.dataset.margin, character = +svg.dataset.character;
const frames = [...svg.querySelectorAll("g.frame")].map(g => ({
  g, x: +g.dataset.x, w: +g.dataset.w, depth: +g.dataset.depth, name: g.dataset.name,
  rect: g.querySelector("rect"), text: g.querySelector("text"),
}));
const keys = [];
for (const f of [...frames].sort((a, b) => a.x - b.x || a.depth - b.depth)) {
  let key = f.depth ? keys[f.depth - 1] : 0x811c9dc5;
  for (const character of f.name + ";") key = Math.imul(key ^ character.codePointAt(0), 0x1000193);
  keys[f.depth] = key;
  f.key = (key >>> 0).toString(16);
}
const info = document.getElementById("info"), matched = document.getElementById("matched");
const reset = document.getElementById("reset"), hint = info.textContent;
let pattern = "", target = null, at = null;

function zoom() {
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
}

function search() {
  let test = null, sum = 0, before = 0, after = 0, end = 0;
  if (pattern) {
    try { test = new RegExp(pattern); }
    catch { matched.textContent = "no regular expression: " + pattern; return; }
  }
  for (const f of frames) f.g.classList.toggle("found", Boolean(test && test.test(f.name)));
  // A match above another is part of it already.
  const found = frames.filter(f => f.g.classList.contains("found")).sort((a, b) => a.x - b.x || b.w - a.w);
  for (const f of found) if (f.x >= end) {
    sum += f.w;
    before += +f.g.dataset.before;
    after += +f.g.dataset.after;
    end = f.x + f.w;
  }
  const percent = (part, whole) => (whole ? 100 * part / whole : 0).toFixed(1) + "%";
  const told = "before" in svg.dataset
    ? percent(before, +svg.dataset.before) + " before, " + percent(after, +svg.dataset.after) + " after"
    : percent(sum, total);
  matched.textContent = test ? "matched: " + told : "";
}

function show(newPattern, newTarget) {
  pattern = newPattern;
  target = newTarget && newTarget.depth ? newTarget : null;
  zoom();
  search();
  reset.style.display = target || pattern ? "" : "none";
}

function go(newPattern, newTarget) {
  show(newPattern, newTarget);
  const fragment = new URLSearchParams();
  if (pattern) fragment.set("s", pattern);
  if (target) fragment.set("z", target.key);
  location.hash = fragment.toString();
}

function read() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  show(fragment.get("s") || "", frames.find(f => f.key === fragment.get("z")) || null);
}

const tell = f => { info.textContent = f ? f.g.querySelector("title").textContent : hint; };

function select(f) {
  if (at) at.g.classList.toggle("at", false);
  at = f;
  if (at) at.g.classList.toggle("at", true);
  if (at && at.g.scrollIntoView) at.g.scrollIntoView({block: "nearest"});
  tell(at);
}

function neighbour(key) {
  const seen = frames.filter(f => f.g.style.display !== "none");
  if (!at || !seen.includes(at)) return target || seen.find(f => !f.depth);
  const last = (found, better) => found.reduce((a, b) => !a || better(b, a) ? b : a, null);
  if (key === "ArrowLeft") return last(seen.filter(f => f.depth === at.depth && f.x < at.x), (b, a) => b.x > a.x);
  if (key === "ArrowRight") return last(seen.filter(f => f.depth === at.depth && f.x > at.x), (b, a) => b.x < a.x);
  const within = (a, b) => a.x >= b.x && a.x + a.w <= b.x + b.w;
  if ((key === "ArrowUp") === inverted) return seen.find(f => f.depth === at.depth - 1 && within(at, f));
  return last(seen.filter(f => f.depth === at.depth + 1 && within(f, at)), (b, a) => b.w > a.w);
}

for (const f of frames) {
  f.g.addEventListener("click", () => go(pattern, f));
  f.g.addEventListener("mouseover", () => tell(f));
  f.g.addEventListener("mouseout", () => tell(at));
}
const ask = () => {
  const answer = prompt("Search for functions by regular expression:", pattern);
  if (answer !== null) go(answer, target);
};
document.getElementById("search").addEventListener("click", ask);
reset.addEventListener("click", () => go("", null));
addEventListener("hashchange", read);
addEventListener("keydown", event => {
  if (event.altKey || event.metaKey) return;
  if (event.key === "Escape") { select(null); go("", null); }
  else if (event.key === "Enter" && at) go(pattern, at);
  else if (event.key.startsWith("Arrow")) select(neighbour(event.key) || at);
  else if (event.key === "/" || (event.key === "f" && event.ctrlKey)) ask();
  else return;
  event.preventDefault();
});
read();
"""
