"""What the page looks like and how it answers: one style sheet, one script, no others."""

__all__ = ["SCRIPT", "STYLE"]

STYLE = """
:root {
  color-scheme: light dark;
  --page: #f6f6f3; --card: #ffffff; --ink: #1c1d22; --soft: #6a6c76; --faint: #e4e4df; --line: #b9bac2;
  --heat: #e4572e;
  --forward: #3568d4; --backward: #d97a1e; --backward-update: #a13f96; --forward-update: #14877d;
  --update: #3a8f4c; --step: #5a6b8c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #131418; --card: #1b1d23; --ink: #e8e8ea; --soft: #9a9ca8; --faint: #2b2d36; --line: #565966;
    --heat: #ff6a3d;
    --forward: #6f9bff; --backward: #f2a24d; --backward-update: #d77fcb; --forward-update: #4fc4b8;
    --update: #74c988; --step: #93a5c9;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1260px; margin: 0 auto; padding: 40px 20px 80px; }
h1 { font-size: 30px; line-height: 1.2; letter-spacing: -.02em; margin: 2px 0 6px; }
h2 { font-size: 19px; letter-spacing: -.01em; margin: 44px 0 2px; }
p { margin: 0 0 12px; max-width: 78ch; color: var(--soft); }
.brand { color: var(--soft); font-size: 13px; letter-spacing: .04em; }
.card { background: var(--card); border: 1px solid var(--faint); border-radius: 10px; padding: 16px; overflow-x: auto; }
svg { display: block; }
.wide svg { width: 100%; min-width: 720px; height: auto; }
.graph svg { max-width: 100%; min-width: 960px; height: auto; margin: 0 auto; }
.number, td.n, .tick, .name { font-variant-numeric: tabular-nums; }

.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(170px, 1fr)); gap: 12px; margin: 22px 0 12px; }
.tile { background: var(--card); border: 1px solid var(--faint); border-radius: 10px; padding: 12px 16px; }
.tile b { display: block; font-size: 25px; font-weight: 600; letter-spacing: -.02em; line-height: 1.25; }
.tile span { color: var(--soft); font-size: 13px; }

.strip { display: flex; height: 44px; gap: 1px; border-radius: 8px; overflow: hidden; }
.strip.close { gap: 0; } .strip.close i { min-width: 0; }
.strip i { min-width: 1px; font-style: normal; font-size: 12px; line-height: 44px; padding: 0; overflow: hidden;
  text-align: center; white-space: nowrap; color: var(--card); background: var(--c); }
.legend { display: flex; flex-wrap: wrap; gap: 6px 26px; margin: 12px 2px 0; padding: 0; list-style: none; }
.legend li::before, .part::before { content: ""; display: inline-block; width: 10px; height: 10px; margin-right: 8px;
  border-radius: 3px; background: var(--c); }
.legend b { font-weight: 600; }
.legend span { color: var(--soft); }
.p-forward { --c: var(--forward); } .p-backward { --c: var(--backward); }
.p-backward-update { --c: var(--backward-update); } .p-forward-update { --c: var(--forward-update); }
.p-update { --c: var(--update); } .p-step { --c: var(--step); }

table { border-collapse: collapse; width: 100%; font-size: 14px; }
th { padding: 0; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap; }
th button { all: unset; cursor: pointer; padding: 4px 9px 8px; font-size: 13px; color: var(--soft); }
th button:focus-visible { outline: 2px solid var(--forward); border-radius: 4px; }
th[aria-sort] button { color: var(--ink); font-weight: 600; }
th[aria-sort="descending"] button::after { content: " ↓"; }
th[aria-sort="ascending"] button::after { content: " ↑"; }
.v { display: inline-block; min-width: 5ch; }
th.n, td.n { text-align: right; }
td { padding: 5px 9px; border-bottom: 1px solid var(--faint); white-space: nowrap; }
td.wrap { white-space: normal; min-width: 170px; color: var(--soft); font-size: 13px; }
tr:last-child td { border-bottom: 0; }
.bar { display: inline-block; vertical-align: middle; width: 60px; height: 8px; margin-right: 10px; border-radius: 4px;
  background: var(--faint); overflow: hidden; }
.bar i { display: block; height: 100%; background: var(--c, var(--soft)); }

.grid { stroke: var(--faint); }
.tick { fill: var(--soft); font-size: 12px; }
.roof { stroke: var(--ink); stroke-width: 1.6; }
.slope { stroke-width: 1.1; stroke-dasharray: 5 4; opacity: .75; }
.dot { fill: var(--c); fill-opacity: .55; stroke: var(--c); stroke-width: 1.5; }
.name { fill: var(--ink); font-size: 12px; }
.small { fill: var(--soft); font-size: 10px; }
.block { fill: var(--c); fill-opacity: .3; stroke: var(--c); }
.inside { fill: var(--ink); font-size: 11px; pointer-events: none; }
.box { fill: var(--card); stroke: var(--line); }
.heat { fill: var(--heat); }
.stripe { fill: var(--c); }
.edge { fill: none; stroke: var(--line); opacity: .8; }
.far { opacity: .3; }
marker path { fill: var(--line); }

details { margin-top: 44px; }
summary { cursor: pointer; font-size: 19px; font-weight: 700; letter-spacing: -.01em; }
.text { font: 12.5px/1.7 ui-monospace, monospace; white-space: pre; }
.text div { display: flex; gap: 14px; padding: 0 6px; border-radius: 4px; }
.text span { flex: 0 0 19ch; overflow: hidden; text-overflow: ellipsis; text-align: right; color: var(--c); }
.text .spot { color: var(--soft); }

[data-k] { cursor: default; }
.hot.dot { fill-opacity: 1; } .hot.block { fill-opacity: .75; } .hot.name, .hot.tick { font-weight: 700; }
.hot .box { stroke: var(--ink); stroke-width: 2; } tr.hot td, .text div.hot { background: var(--faint); }
.strip i.hot { filter: brightness(1.25); }
.edge.hot { stroke: var(--ink); opacity: 1; }
#tip { position: fixed; z-index: 9; pointer-events: none; max-width: 380px; padding: 10px 14px; border-radius: 8px;
  background: var(--ink); color: var(--page); font-size: 13px; line-height: 1.45; box-shadow: 0 6px 24px #0005; }
#tip b { display: block; font-size: 14px; }
#tip[hidden] { display: none; }
@media print { main { max-width: none; } .card { break-inside: avoid; } }
""".strip()

SCRIPT = """
"use strict";
const kernels = JSON.parse(document.getElementById("profile").textContent).kernels;
const tip = document.getElementById("tip");
const three = value => value >= 99.95 ? Math.round(value).toLocaleString("en") : value.toPrecision(3);
let hot = null;

function light(k) {
  if (k === hot) return;
  document.querySelectorAll(".hot").forEach(element => element.classList.remove("hot"));
  hot = k;
  if (k === null) return;
  const found = `[data-k="${k}"], [data-from="${k}"], [data-to="${k}"]`;
  document.querySelectorAll(found).forEach(element => element.classList.add("hot"));
}

function tell(k, event) {
  const it = kernels[k];
  const name = document.createElement("b");
  name.textContent = it.name;
  const lines = [
    `${it.part}, ${three(it.microseconds)} µs, ${(100 * it.share).toFixed(1)}% of the step`,
    `${three(it.gflops)} GFLOP/s, ${three(it.gbytes)} GB/s`,
    `${(100 * it.roofline).toFixed(0)}% of what the machine allows, bytes from ${it.level}`,
    [...new Set(it.operators)].join(", "),
  ];
  tip.replaceChildren(name, ...lines.flatMap(line => [line, document.createElement("br")]));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const beyond = event.clientX + 18 + box.width > innerWidth;
  tip.style.left = `${Math.max(4, beyond ? event.clientX - 14 - box.width : event.clientX + 18)}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 16, innerHeight - box.height - 8))}px`;
}

document.addEventListener("pointermove", event => {
  const element = event.target.closest("[data-k]");
  light(element ? element.dataset.k : null);
  if (element) tell(element.dataset.k, event); else tip.hidden = true;
});
document.addEventListener("pointerleave", () => { light(null); tip.hidden = true; });

document.querySelectorAll("th button").forEach(button => button.addEventListener("click", () => {
  const head = button.parentElement;
  const column = head.cellIndex;
  const body = head.closest("table").tBodies[0];
  const words = head.dataset.kind === "words";
  const sorted = head.getAttribute("aria-sort");
  const up = words ? sorted !== "ascending" : sorted === "descending";
  head.parentElement.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const value = row => row.cells[column].dataset.v;
  const rows = [...body.rows].sort((a, b) =>
    words ? value(a).localeCompare(value(b), "en", {numeric: true}) : value(a) - value(b));
  body.append(...(up ? rows : rows.reverse()));
}));
""".strip()
