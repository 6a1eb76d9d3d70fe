"use strict";
(() => {
  const table = document.getElementById("board");
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...body.rows];
  const filters = [...document.querySelectorAll("select[data-filter]")];
  const shown = document.getElementById("shown");

  const value = (row, place) => {
    const text = row.cells[place].dataset.value;
    return heads[place].dataset.kind === "number" ? (text === "" ? -Infinity : Number(text)) : text;
  };

  const order = (first, second) => (first < second ? -1 : first > second ? 1 : 0);

  const sort = (place) => {
    const down = heads[place].getAttribute("aria-sort") === "ascending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[place].setAttribute("aria-sort", down ? "descending" : "ascending");
    const sorted = [...body.rows].sort((a, b) => order(value(a, place), value(b, place)) * (down ? -1 : 1));
    body.append(...sorted);
  };

  const filter = () => {
    let count = 0;
    for (const row of rows) {
      row.hidden = filters.some((select) => select.value !== "" && row.dataset[select.dataset.filter] !== select.value);
      count += row.hidden ? 0 : 1;
    }
    shown.textContent = `${count} of ${rows.length} rows`;
  };

  heads.forEach((head, place) => {
    const button = head.querySelector("button");
    if (button !== null) {
      button.addEventListener("click", () => sort(place));
    }
  });
  filters.forEach((select) => select.addEventListener("change", filter));
  filter();
})();
