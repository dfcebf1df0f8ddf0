"""The style, the body and the script of pages with a sub-second offset heat map and a flame graph."""

from __future__ import annotations

STYLE = """\
:root{color-scheme:light dark;--ground:#fff;--text:#111;--weak:#595959;--frame:#888}
body{margin:16px auto;width:1200px;max-width:96vw;background:var(--ground);color:var(--text);font:14px sans-serif}
h1{font-size:18px;margin:0}
p{margin:6px 0;color:var(--weak)}
#map{display:block;width:100%;border:1px solid var(--frame);cursor:crosshair;touch-action:none;box-sizing:border-box}
#map:focus-visible{outline:2px solid #06c;outline-offset:2px}
#axis{display:flex;justify-content:space-between;color:var(--weak);font-size:12px}
#told{min-height:1.3em;margin:6px 0}
code{font:12px monospace}
#graph{display:block;margin-top:8px;width:100%}
#graph text{font:12px monospace;fill:#000;pointer-events:none}
#graph .frame{cursor:pointer}
#graph .frame:hover rect,#graph .frame:focus rect{stroke:var(--text);stroke-width:1}
#graph .frame:focus{outline:none}
#graph .found rect{fill:#d0f}
label{color:var(--weak)}
input{font:12px monospace;width:24em}
@media(prefers-color-scheme:dark){
:root{--ground:#15171c;--text:#eaeaea;--weak:#a8a8a8;--frame:#7d828c}
#graph .found rect{fill:#f6f}
}
@media print{
:root{--ground:#fff;--text:#111;--weak:#595959;--frame:#888}
}
"""
BODY = """\
<p>Each column is a second, from its beginning below to its end above. Drag over a range, or press Enter at its first
and its last cell (arrow keys), and it is drawn below, each function under the one that called it. Escape:
everything.</p>
<canvas id="map" tabindex="0" role="application" aria-label="heat map: arrow keys choose a cell, Enter begins and ends a
range, Escape chooses everything" aria-describedby="told"></canvas>
<div id="axis"></div>
<div id="told" role="status" aria-live="polite"></div>
<p><code id="command"></code></p>
<label>search (regular expression) <input id="search" type="search"></label> <span id="matched"></span>
<svg id="graph" xmlns="http://www.w3.org/2000/svg"></svg>
"""
# A slot's number is its second times `rows`, and its row. A range is two slots, the first and the last.
SCRIPT = """\
"use strict";
const map = document.getElementById("map"), graph = document.getElementById("graph");
const told = document.getElementById("told"), search = document.getElementById("search");
const rows = data.rows, shown = number => number.toLocaleString("en-US");
const read = numbers => {
  const found = [];
  for (let i = 0, slot = 0; i < numbers.length; i += 2) found.push([slot += numbers[i], numbers[i + 1]]);
  return found;
};
const slots = new Map(read(data.slots)), times = data.times.map(read);
// A long recording has more slots than a function takes arguments.
const highest = (numbers, least) => { for (const number of numbers) least = Math.max(least, number); return least; };
const columns = Math.floor(highest(slots.keys(), 0) / rows) + 1, last = columns * rows - 1;
const most = highest(slots.values(), 2), dark = matchMedia("(prefers-color-scheme: dark)");
let range = null, begun = null, cursor = null, zoomed = null, tree = null;

function cell(slot) { return [Math.floor(slot / rows), slot % rows]; }
const seconds = slot => (slot / rows).toFixed(2);

function draw() {
  const ratio = devicePixelRatio || 1, wide = map.clientWidth || 1200, row = 5;
  map.width = wide * ratio;
  map.height = rows * row * ratio;
  map.style.height = rows * row + "px";
  const context = map.getContext("2d"), step = wide / columns;
  context.scale(ratio, ratio);
  const at = dark.matches ? 1 : 0, edge = step > 4 ? 1 : 0;
  for (const [slot, count] of slots) {
    const [column, line] = cell(slot);
    const level = Math.round(Math.log(count) / Math.log(most) * (data.heat.length - 1));
    context.globalAlpha = range && (slot < range[0] || slot > range[1]) ? .25 : 1;
    context.fillStyle = data.heat[level][at];
    context.fillRect(column * step, (rows - 1 - line) * row, Math.max(step - edge, 1), row - 1);
  }
  context.globalAlpha = 1;
  if (cursor !== null) {
    const [column, line] = cell(cursor);
    context.strokeStyle = at ? "#fff" : "#000";
    context.lineWidth = 2;
    context.strokeRect(column * step, (rows - 1 - line) * row, Math.max(step, 3), row);
  }
}

function axis() {
  const every = Math.max(1, Math.ceil(columns / 12)), marks = [];
  for (let second = 0; second <= columns; second += every) marks.push(`<span>${second} s</span>`);
  document.getElementById("axis").innerHTML = marks.join("");
}

// The functions of the range, each below those that it called: [name, samples, children].
function collected() {
  const [from, to] = range || [0, last], root = {name: "all", count: 0, below: new Map()};
  times.forEach((counts, number) => {
    let sum = 0;
    for (const [slot, count] of counts) if (slot >= from && slot <= to) sum += count;
    if (!sum) return;
    root.count += sum;
    let node = root;
    for (const index of data.stacks[number]) {
      const name = data.names[index];
      if (!node.below.has(name)) node.below.set(name, {name, count: 0, below: new Map(), parent: node});
      node = node.below.get(name);
      node.count += sum;
    }
  });
  return root;
}

const hues = {k: [28, 85, 64, 8], j: [120, 45, 62, 15], "": [8, 78, 62, 18]};
function colour(name) {
  const mark = /_\\[([kj])\\]$/.exec(name), [hue, saturation, lightness, spread] = hues[mark ? mark[1] : ""];
  let seed = 7;
  for (const character of name) seed = (seed * 31 + character.codePointAt(0)) % 1000003;
  return `hsl(${(hue + seed % (2 * spread + 1) - spread + 360) % 360},${saturation}%,${lightness + seed % 9 - 4}%)`;
}

function boxes() {
  const width = graph.clientWidth || 1200, height = 16, found = [];
  const shownRoot = zoomed || tree, path = [];
  for (let node = shownRoot.parent; node; node = node.parent) path.unshift(node);
  path.forEach((node, depth) => found.push({node, depth, x: 0, w: width, under: true}));
  const visit = (node, depth, x) => {
    const w = node.count / (shownRoot.count || 1) * width;
    if (w < .4) return;
    found.push({node, depth, x, w});
    let left = x;
    for (const child of [...node.below.values()].sort((a, b) => a.name < b.name ? -1 : 1)) {
      visit(child, depth + 1, left);
      left += child.count / (shownRoot.count || 1) * width;
    }
  };
  if (shownRoot.count) visit(shownRoot, path.length, 0);
  const deepest = highest(found.map(box => box.depth), 0), svg = "http://www.w3.org/2000/svg";
  graph.setAttribute("height", (deepest + 1) * height);
  graph.replaceChildren(...found.map(({node, depth, x, w, under}) => {
    const g = document.createElementNS(svg, "g"), rect = document.createElementNS(svg, "rect");
    const text = document.createElementNS(svg, "text"), fits = Math.floor((w - 6) / 7);
    const share = 100 * node.count / (tree.count || 1);
    const label = `${node.name} (${shown(node.count)} samples, ${share.toFixed(2)}%)`;
    g.setAttribute("class", "frame");
    g.setAttribute("tabindex", "0");
    g.setAttribute("role", "button");
    g.setAttribute("aria-label", label);
    g.dataset.name = node.name;
    g.dataset.count = node.count;
    const y = depth * height;
    for (const [key, value] of Object.entries({x, y, width: Math.max(w - .4, .1), height: height - 1,
      fill: colour(node.name), opacity: under ? .5 : 1})) rect.setAttribute(key, value);
    text.setAttribute("x", x + 3);
    text.setAttribute("y", y + 12);
    text.textContent = fits < 3 ? "" : node.name.length <= fits ? node.name : node.name.slice(0, fits - 2) + "..";
    g.append(rect, text);
    g.addEventListener("mouseover", () => { told.textContent = label; });
    g.addEventListener("mouseout", tell);
    const zoom = () => { zoomed = node.parent ? node : null; boxes(); };
    g.addEventListener("click", zoom);
    g.addEventListener("keydown", event => { if (event.key === "Enter") zoom(); });
    return g;
  }));
  find();
}

function find() {
  const matched = document.getElementById("matched");
  let test = null;
  try { test = search.value ? new RegExp(search.value) : null; }
  catch { matched.textContent = "no regular expression"; return; }
  for (const g of graph.children) g.classList.toggle("found", Boolean(test && test.test(g.dataset.name)));
  const sum = node => test.test(node.name) ? node.count : [...node.below.values()].reduce((a, b) => a + sum(b), 0);
  matched.textContent = test && tree.count ? (100 * sum(tree) / tree.count).toFixed(1) + "%" : "";
}

function tell() {
  const [from, to] = range || [0, last];
  const more = data.left ? `; stacks that are not in this page: ${shown(data.left)}` : "";
  told.textContent = cursor !== null && begun !== null && !range ? `from ${seconds(begun)} s, to …`
    : `${range ? `${seconds(from)} to ${seconds(to + 1)} s` : "everything"}: ${shown(tree.count)} samples${more}`;
}

function choose(chosen) {
  range = chosen && [Math.min(...chosen), Math.max(...chosen)];
  zoomed = null;
  tree = collected();
  const more = range ? ` --from ${seconds(range[0])} --to ${seconds(range[1] + 1)}` : "";
  document.getElementById("command").textContent = data.command ? data.command + more : "";
  draw();
  boxes();
  tell();
}

function slotAt(event) {
  const box = map.getBoundingClientRect(), bound = (value, most) => Math.min(Math.max(Math.floor(value), 0), most);
  const column = bound((event.clientX - box.left) / box.width * columns, columns - 1);
  return column * rows + rows - 1 - bound((event.clientY - box.top) / box.height * rows, rows - 1);
}

let dragged = false;
map.addEventListener("pointerdown", event => {
  begun = cursor = slotAt(event);
  dragged = true;
  map.setPointerCapture(event.pointerId);
});
map.addEventListener("pointermove", event => {
  if (!dragged) {
    const slot = slotAt(event), [column] = cell(slot);
    told.textContent = `${seconds(slot)} s: ${shown(slots.get(slot) || 0)} samples`;
    return;
  }
  cursor = slotAt(event);
  range = [Math.min(begun, cursor), Math.max(begun, cursor)];
  draw();
});
map.addEventListener("pointerup", event => {
  if (!dragged) return;
  dragged = false;
  choose([begun, slotAt(event)]);
  begun = null;
});
map.addEventListener("mouseout", tell);
map.addEventListener("keydown", event => {
  const step = {ArrowUp: 1, ArrowDown: -1, ArrowRight: rows, ArrowLeft: -rows}[event.key];
  if (step) {
    cursor = cursor === null ? 0 : Math.min(Math.max(cursor + step, 0), last);
    draw();
    told.textContent = `${seconds(cursor)} s: ${shown(slots.get(cursor) || 0)} samples`;
  } else if (event.key === "Enter" && cursor !== null) {
    if (begun === null) { begun = cursor; range = null; draw(); tell(); }
    else { choose([begun, cursor]); begun = null; }
  } else if (event.key === "Escape") { begun = cursor = null; choose(null); }
  else return;
  event.preventDefault();
});
search.addEventListener("input", find);
dark.addEventListener("change", draw);
addEventListener("resize", () => { draw(); boxes(); });
axis();
choose(null);
"""
