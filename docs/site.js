// Marks tables of more than three columns, which site.css stacks on a phone: a cell then names its column.
for (const table of document.querySelectorAll(".md-typeset table:not([class])")) {
  const names = [...table.querySelectorAll("thead th")].map((cell) => cell.textContent.trim());
  if (names.length < 4) continue;
  table.dataset.wide = names.length > 7 ? "very" : "";
  table.setAttribute("role", "table"); // a stacked table is none to screen readers otherwise
  for (const row of table.tBodies[0].rows) {
    row.setAttribute("role", "row");
    [...row.cells].forEach((cell, index) => {
      cell.setAttribute("role", "cell");
      cell.dataset.column = names[index];
      const content = document.createElement("div"); // one box beside the name
      content.append(...cell.childNodes);
      if (content.hasChildNodes()) cell.append(content);
    });
  }
}
