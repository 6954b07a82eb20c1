// Search in a topic: by parts of key and value, a path of JSON and a range of time. Hits come as they are found.

import { field, html, write } from "./dom.js";
import { count, moment } from "./format.js";
import { Table, number, word } from "./table.js";

const MOST = 1000; // hits
const ms = (input) => (input.value ? String(new Date(`${input.value}Z`).getTime()) : "");

export function search() {
  const names = html("datalist", { id: "search-topics" });
  const fields = [["topic", "Topic", "search", { list: "search-topics", required: true }], ["key", "Key has", "search"], ["value", "Value has", "search"],
    ["path", "JSON path", "search", { placeholder: "a.b[0]" }], ["from", "From (UTC)", "datetime-local", { step: 1 }], ["to", "To (UTC)", "datetime-local", { step: 1 }]];
  const inputs = Object.fromEntries(fields.map(([name, , type, more]) => [name, html("input", { id: `search-${name}`, type, ...more })]));
  const button = html("button", { type: "submit", text: "Search" });
  const said = html("p", { class: "quiet", role: "status" });
  const progress = html("p", { class: "quiet" });
  const table = new Table("Hits", [
    number("partition", "Partition", count), number("offset", "Offset", count), word("timestamp_ms", "Time", moment), word("key", "Key"), word("value", "Value"),
  ]);
  table.node.hidden = true;
  const form = html("form", { class: "tools" }, ...fields.map(([name, label]) => field(`search-${name}`, label, inputs[name])), names, button);
  const node = html("section", { class: "card" }, html("h2", { text: "Search in a topic" }), form, said, progress, table.node);
  let source = null;
  let hits = [];
  let unread = 0;

  function stop(why) {
    if (source) source.close();
    source = null;
    write(button, "Search");
    write(said, why);
    write(progress, "");
    table.update(hits);
  }

  function start() {
    const { topic, key, value, path, from, to } = inputs;
    const asked = new URLSearchParams({ topic: topic.value, key: key.value, value: value.value, path: path.value, from: ms(from), to: ms(to), limit: String(MOST) });
    hits = [];
    unread = 0;
    table.update(hits);
    write(button, "Stop");
    write(said, "searching");
    source = new EventSource(`api/records?${asked}`);
    source.addEventListener("hit", (event) => hits.push(JSON.parse(event.data)));
    source.addEventListener("progress", (event) => {
      const { read, total } = JSON.parse(event.data);
      unread = total - read;
      write(progress, `${count(hits.length)} hits; read ${count(read)} of ${count(total)} records`);
      table.update(hits);
    });
    source.addEventListener("end", () => stop(hits.length < MOST ? `${count(hits.length)} hits`
      : `the first ${count(MOST)} hits; ${count(unread)} records were not read: narrow the search`));
    source.addEventListener("failed", (event) => stop(JSON.parse(event.data).error));
    source.onerror = () => stop("the search was refused: too many run, or a field is wrong");
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (source) stop(`stopped at ${count(hits.length)} hits`);
    else start();
  });
  return {
    node,
    present: (paths) => paths.includes("/api/records"),
    update(state) {
      const read = state.consumers.flatMap((consumer) => consumer.partitions.map((row) => row.topic));
      const topics = [...new Set([...(state.broker ? state.broker.topics.map((topic) => topic.name) : []), ...read])];
      const key = JSON.stringify(topics);
      if (names.dataset.key === key) return;
      names.dataset.key = key;
      names.replaceChildren(...topics.map((value) => html("option", { value })));
    },
  };
}
