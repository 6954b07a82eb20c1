// A table that stays quick with thousands of rows: it filters and sorts all of them and shows one page of a hundred.
// Rows are kept between updates, and only texts that changed are written. A column without any value is not shown.

import { html, mark, write } from "./dom.js";

const PAGE = 100;
const blank = (value) => value === null || value === undefined || value === "";

// columns: [{ title, value(row) -> what is sorted, show(row) -> text, number, tone(row) -> class }]. choice: { key(row) -> string, onchange() }
// puts a box before each row; `chosen` has the keys of the rows whose boxes are checked.
export class Table {
  constructor(caption, columns, { sort = 0, descending = false, choice = null } = {}) {
    this.columns = columns;
    this.sort = sort;
    this.descending = descending;
    this.at = 0;
    this.rows = [];
    this.choice = choice;
    this.chosen = new Set();
    this.all = choice && html("input", { type: "checkbox", "aria-label": `Choose all: ${caption}`, onchange: () => this.chooseAll(this.all.checked) });
    this.head = columns.map((column, index) => {
      const button = html("button", { type: "button", onclick: () => this.sortBy(index), text: column.title });
      return html("th", { scope: "col", class: column.number ? "number" : null }, button);
    });
    this.body = html("tbody");
    this.note = html("span", { class: "quiet" });
    this.back = html("button", { type: "button", text: "Previous 100", onclick: () => this.turn(-1) });
    this.next = html("button", { type: "button", text: "Next 100", onclick: () => this.turn(1) });
    this.find = html("input", { type: "search", placeholder: "filter", "aria-label": `Filter: ${caption}`, oninput: () => { this.at = 0; this.draw(); } });
    this.tools = html("div", { class: "tools" }, this.find, this.note, this.back, this.next);
    this.node = html("section", { class: "card" }, html("h2", { text: caption }), this.tools,
      html("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
        html("table", {}, html("caption", { class: "unseen", text: caption }), html("thead", {}, html("tr", {}, choice && html("td", { class: "choice" }, this.all), ...this.head)), this.body)));
    this.lines = [];
  }

  update(rows) {
    this.rows = rows;
    if (this.choice) {
      const there = new Set(rows.map(this.choice.key));
      for (const key of this.chosen) if (!there.has(key)) this.chosen.delete(key);
    }
    this.node.hidden = rows.length === 0;
    if (rows.length) this.draw();
  }

  sortBy(index) {
    this.descending = this.sort === index ? !this.descending : Boolean(this.columns[index].number);
    this.sort = index;
    this.draw();
  }

  turn(by) {
    this.at += by * PAGE;
    this.draw();
  }

  choose(key, yes) {
    if (yes) this.chosen.add(key);
    else this.chosen.delete(key);
    this.draw();
    this.choice.onchange();
  }

  chooseAll(yes) {
    for (const row of this.found()) {
      if (yes) this.chosen.add(this.choice.key(row));
      else this.chosen.delete(this.choice.key(row));
    }
    this.draw();
    this.choice.onchange();
  }

  found() {
    const wanted = this.find.value.trim().toLowerCase();
    const shown = (row) => this.columns.some((column) => !column.number && column.show(row).toLowerCase().includes(wanted));
    const found = wanted ? this.rows.filter(shown) : this.rows.slice();
    const { value } = this.columns[this.sort];
    const sign = this.descending ? -1 : 1;
    return found.map((row) => [value(row), row]).sort(([a], [b]) => {
      if (a === b) return 0;
      if (a === null || a === undefined) return 1;
      if (b === null || b === undefined) return -1;
      return a < b ? -sign : sign;
    }).map(([, row]) => row);
  }

  draw() {
    const found = this.found();
    this.at = Math.max(0, Math.min(this.at, Math.floor((found.length - 1) / PAGE) * PAGE));
    const page = found.slice(this.at, this.at + PAGE);
    const paged = found.length > PAGE;
    const small = this.rows.length < 8;
    this.find.hidden = small;
    this.back.hidden = this.next.hidden = !paged;
    this.back.disabled = this.at === 0;
    this.next.disabled = this.at + PAGE >= found.length;
    this.note.hidden = small;
    write(this.note, found.length ? `${this.at + 1}–${this.at + page.length} of ${found.length}` : "no row matches");
    this.head.forEach((cell, index) => mark(cell, "aria-sort", index !== this.sort ? "none" : this.descending ? "descending" : "ascending"));
    const empty = this.columns.map((column) => this.rows.every((row) => blank(column.value(row))));
    this.head.forEach((cell, index) => { cell.hidden = empty[index]; });
    while (this.lines.length < page.length) this.lines.push(this.line());
    while (this.lines.length > page.length) this.lines.pop().node.remove();
    page.forEach((row, index) => {
      const line = this.lines[index];
      if (line.box) {
        line.key = this.choice.key(row);
        line.box.checked = this.chosen.has(line.key);
        mark(line.box, "aria-label", `Choose ${line.key}`);
      }
      this.columns.forEach((column, at) => {
        line.cells[at].hidden = empty[at];
        if (empty[at]) return;
        write(line.cells[at], column.show(row));
        mark(line.cells[at], "class", [column.number ? "number" : "", column.tone ? column.tone(row) || "" : ""].join(" ").trim());
      });
    });
    if (this.all) this.all.checked = found.length > 0 && found.every((row) => this.chosen.has(this.choice.key(row)));
  }

  line() {
    const cells = this.columns.map((_, index) => html(index ? "td" : "th", index ? {} : { scope: "row" }));
    const box = this.choice && html("input", { type: "checkbox" });
    const node = html("tr", {}, box && html("td", { class: "choice" }, box), ...cells);
    this.body.append(node);
    const line = { node, cells, box, key: "" };
    if (box) box.addEventListener("change", () => this.choose(line.key, box.checked));
    return line;
  }
}

// Columns by kind: word("topic", "Topic") shows row.topic.
const at = (row, path) => path.split(".").reduce((value, name) => (value === null || value === undefined ? null : value[name]), row);
export const word = (path, title, show = (value) => (value === null || value === undefined || value === "" ? "–" : String(value)), tone = null) =>
  ({ title, value: (row) => at(row, path), show: (row) => show(at(row, path), row), number: false, tone });
export const number = (path, title, show, tone = null) => ({ ...word(path, title, show, tone), number: true });
