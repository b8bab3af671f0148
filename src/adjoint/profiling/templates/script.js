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
    [...new Set(it.lines.filter(line => line))].map(line => line.split(/[/\\]/).pop()).join(", "),
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
