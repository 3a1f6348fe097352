// Sorts the table of the runs of a sweep, marks their curves, and shows values under the pointer.

import { Cursor, pointAt } from "./plot.js";

const live = document.getElementById("live");
const runs = document.getElementById("table");
const curves = new Map([...document.querySelectorAll("g[data-run]")].map((g) => [g.dataset.run, g]));

// Amounts exceed the safe integers, so whole numbers are BigInt.
function sortKey(cell) {
  const text = cell?.dataset.sort;
  if (text === undefined) return null;
  if (/^-?\d+$/.test(text)) return BigInt(text);
  return text === "" || Number.isNaN(Number(text)) ? text : Number(text);
}

// Numbers before texts; rows without a value come last in either order.
function compare(one, other, sign) {
  if (one === null || other === null) return (one === null) - (other === null);
  if ((typeof one === "string") !== (typeof other === "string")) return typeof one === "string" ? 1 : -1;
  return one < other ? -sign : one > other ? sign : 0;
}

function sortBy(heading) {
  const column = [...heading.parentNode.children].indexOf(heading);
  const order = heading.getAttribute("aria-sort") === "descending" ? "ascending" : "descending";
  for (const each of heading.parentNode.children) each.setAttribute("aria-sort", "none");
  heading.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const rows = [...runs.tBodies[0].rows].map((row) => ({ row, key: sortKey(row.cells[column]) }));
  rows.sort((one, other) => compare(one.key, other.key, sign));
  runs.tBodies[0].append(...rows.map(({ row }) => row));
}

function mark(row) {
  const isMarked = row.classList.toggle("marked");
  const curve = curves.get(row.dataset.run);
  curve?.classList.toggle("marked", isMarked);
  if (curve && isMarked) curve.parentNode.append(curve);
  const without = curve ? "" : ", which has no curve";
  live.textContent = `run ${row.dataset.run} ${isMarked ? "marked" : "not marked"}${without}`;
}

runs.tHead.addEventListener("click", (event) => {
  const heading = event.target.closest("th");
  if (heading) sortBy(heading);
});
runs.tBodies[0].addEventListener("click", (event) => {
  const row = event.target.closest("tr");
  if (row) mark(row);
});
runs.tBodies[0].addEventListener("keydown", (event) => {
  const row = event.target.closest("tr");
  if (!row || (event.key !== "Enter" && event.key !== " ")) return;
  event.preventDefault();
  mark(row);
});

// The values of a column: those of the named runs and of marked ones.
function describe(data, column) {
  const isMarked = ({ run }) => curves.get(String(run)).classList.contains("marked");
  const rows = data.runs
    .filter((row) => row.name || isMarked(row))
    .map((row) => ({
      colour: isMarked(row) ? "chosen" : row.name,
      label: `${row.name ?? `run ${row.run}`}: ${row.texts[column]}`,
    }));
  return { title: data.times[column], rows };
}

const figure = document.getElementById("curves");
if (figure) {
  const data = JSON.parse(figure.querySelector("script").textContent);
  new Cursor(figure, {
    count: data.times.length,
    describe: (column) => describe(data, column),
    point: (share) => pointAt(share, figure.querySelectorAll(".cursor")),
    announce: (text) => (live.textContent = text),
  });
}
