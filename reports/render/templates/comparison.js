// Sorts and filters the table of cells. Every text comes from the page itself and goes back as text; without this script the table is whole.
(function () {
  "use strict";
  var table = document.getElementById("cells");
  var body = table.tBodies[0];
  var rows = Array.prototype.slice.call(body.rows);
  var heads = Array.prototype.slice.call(table.tHead.rows[0].cells);
  var choices = [[0, "all cases"], [1, "all arms"], [2, "all runs"], [5, "all verdicts"]];

  function text(row, column) {
    var cell = row.cells[column];
    var pill = cell.querySelector(".verdict");
    return (pill || cell).textContent.trim();
  }

  function element(name, parent, content) {
    var made = document.createElement(name);
    if (content) { made.textContent = content; }
    parent.appendChild(made);
    return made;
  }

  // Number cells without a key are never ranked: they stay below, whichever way the others are sorted.
  function sort(column, kind, direction) {
    var sorted = rows.slice();
    sorted.sort(function (one, other) {
      if (kind === "text") { return direction * text(one, column).localeCompare(text(other, column), "en", { numeric: true }); }
      var a = one.cells[column].getAttribute("data-key"), b = other.cells[column].getAttribute("data-key");
      if (!a || !b) { return (a ? 0 : 1) - (b ? 0 : 1); }
      return direction * (Number(a) - Number(b));
    });
    sorted.forEach(function (row) { body.appendChild(row); });
  }

  heads.forEach(function (head, column) {
    var label = head.textContent;
    head.textContent = "";
    var button = element("button", head, label);
    button.type = "button";
    button.addEventListener("click", function () {
      var direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach(function (each) { each.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
      sort(column, head.getAttribute("data-sort"), direction);
    });
  });

  var bar = document.createElement("div");
  bar.className = "filters";
  table.parentNode.insertBefore(bar, table);
  var selects = choices.map(function (choice) {
    var select = element("select", bar);
    select.setAttribute("aria-label", choice[1]);
    element("option", select, choice[1]).value = "";
    var seen = [];
    rows.forEach(function (row) {
      var value = text(row, choice[0]);
      if (seen.indexOf(value) < 0) { seen.push(value); element("option", select, value).value = value; }
    });
    select.addEventListener("change", filter);
    return select;
  });
  var search = element("input", bar);
  search.type = "search";
  search.placeholder = "find in the rows";
  search.setAttribute("aria-label", "find in the rows");
  search.addEventListener("input", filter);
  var shown = element("span", bar);
  shown.setAttribute("role", "status");

  function filter() {
    var count = 0, wanted = search.value.toLowerCase();
    rows.forEach(function (row) {
      var fits = selects.every(function (select, place) { return !select.value || text(row, choices[place][0]) === select.value; });
      row.hidden = !(fits && row.textContent.toLowerCase().indexOf(wanted) >= 0);
      count += row.hidden ? 0 : 1;
    });
    shown.textContent = count + " of " + rows.length + " rows";
  }
  filter();
})();
