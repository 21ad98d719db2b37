// On a phone the cells of some tables stand below each other (site.css): each says what it is.
document.addEventListener("DOMContentLoaded", () => {
  for (const table of document.querySelectorAll(".bd-article table")) {
    const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
    for (const row of table.querySelectorAll("tbody tr")) {
      [...row.cells].forEach((cell, i) => heads[i] && (cell.dataset.label = heads[i]));
    }
  }
});
