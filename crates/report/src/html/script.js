"use strict";
// Values under the pointer and under the arrow keys.
for (const figure of document.querySelectorAll("figure.chart")) {
  const data = figure.querySelector("script[type='application/json']");
  const plot = figure.querySelector(".plot"), svg = figure.querySelector("svg[role=img]");
  if (!data || !svg) continue;
  const { width, name, x, s } = JSON.parse(data.textContent);
  if (!x.length) continue;
  const cursor = svg.querySelector(".cursor"), readout = figure.querySelector(".readout");
  const names = new Map([...figure.querySelectorAll(".key li")].map((li) => [Number(li.dataset.k), li]));
  let at = -1;
  const show = (next) => {
    at = Math.max(0, Math.min(x.length - 1, next));
    cursor.setAttribute("x1", x[at][0]);
    cursor.setAttribute("x2", x[at][0]);
    cursor.style.visibility = "visible";
    const said = s
      .filter((one) => one.v[at] !== null && getComputedStyle(names.get(one.k)).display !== "none")
      .map((one) => `${names.get(one.k).textContent.trim()}: ${one.v[at]}`);
    readout.textContent = `${name} ${x[at][1]}: ${said.join("; ")}`;
  };
  const hide = () => {
    cursor.style.visibility = "hidden";
    readout.textContent = "";
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), place = ((event.clientX - box.left) / box.width) * width;
    let best = 0;
    x.forEach((one, i) => { if (Math.abs(one[0] - place) < Math.abs(x[best][0] - place)) best = i; });
    show(best);
  });
  svg.addEventListener("pointerleave", () => { if (document.activeElement !== plot) hide(); });
  plot.addEventListener("blur", hide);
  plot.addEventListener("keydown", (event) => {
    const next = { ArrowRight: at + 1, ArrowLeft: at < 0 ? 0 : at - 1, Home: 0, End: x.length - 1 }[event.key];
    if (next === undefined) { if (event.key === "Escape") hide(); return; }
    event.preventDefault();
    show(next);
  });
}
// Tables that can be sorted with a button in each heading.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], headings = [...table.tHead.rows[0].cells];
  if (body.rows.length < 2) continue;
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.v;
      const compare = (one, other) => {
        const [a, b] = [key(one), key(other)];
        if (a !== undefined && b !== undefined) return Number(a) - Number(b);
        if ((a === undefined) !== (b === undefined)) return (a === undefined ? 1 : -1) * (down ? -1 : 1);
        return one.cells[column].textContent.localeCompare(other.cells[column].textContent);
      };
      body.append(...[...body.rows].sort((one, other) => (down ? -1 : 1) * compare(one, other)));
    });
  });
}
