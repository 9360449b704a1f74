"use strict";
// Reading aids. Without them everything is there all the same: in the study's order, unfolded where
// paper needs it, and reached row by row.
const all = (what, inside = document) => [...inside.querySelectorAll(what)];

// A plot is one stop of the Tab key: arrows go through its rows. (Chromium takes an SVG that listens
// for focus for something to focus itself; so its frame listens.)
for (const frame of all(".pv-forest")) {
  const rowsOf = (plot) => all(".pv-row", plot);
  const only = (plot, chosen) =>
    rowsOf(plot).forEach((row) => row.setAttribute("tabindex", row === chosen ? 0 : -1));
  all("svg", frame).forEach((plot) => only(plot, rowsOf(plot)[0]));
  frame.addEventListener("focusin", ({ target }) => {
    const row = target.closest(".pv-row");
    if (row) only(row.ownerSVGElement, row);
  });
  frame.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key], row = event.target.closest(".pv-row");
    if (!step || !row) return;
    const rows = rowsOf(row.ownerSVGElement);
    event.preventDefault();
    rows[Math.min(Math.max(rows.indexOf(row) + step, 0), rows.length - 1)].focus();
  });
}

// Rows of a plot in the study's order, or by value.
for (const choice of all("[data-order]")) {
  const figure = choice.closest("figure");
  const drawings = all(".pv-forest svg", figure).map((plot) => [plot, all(".pv-row", plot)]);
  choice.hidden = false;
  choice.addEventListener("change", ({ target }) => {
    for (const [plot, study] of drawings) {
      const value = (row) => Number(row.dataset.value);
      const order = target.value === "value" ? [...study].sort((a, b) => value(b) - value(a)) : study;
      let y = Number(plot.dataset.top);
      for (const row of order) {
        row.setAttribute("transform", `translate(0 ${y})`);
        y += Number(row.dataset.height);
        plot.append(row);
      }
    }
  });
}

// A table's rows by words of their names, or the flagged ones alone.
for (const search of all("[data-search]")) {
  const rows = all(`#${search.dataset.search} tbody tr`);
  const texts = rows.map((row) => row.cells[0].textContent.toLowerCase());
  const [words, flagged] = [search.querySelector("[type=search]"), search.querySelector("[type=checkbox]")];
  const found = search.querySelector("[role=status]");
  search.hidden = false;
  search.addEventListener("input", () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, at) => {
      row.hidden = !wanted.every((word) => texts[at].includes(word))
        || (flagged.checked && !row.querySelector(".flag"));
      shown += !row.hidden;
    });
    found.textContent = `${shown} of ${rows.length} rows`;
  });
}

// Paper cannot unfold anything, or search.
addEventListener("beforeprint", () => all("details").forEach((folded) => { folded.open = true; }));
