// The screen of dead letters: topics, the letters of one, and sending chosen ones again where the server allows changes.

import { field, html, write } from "./dom.js";
import { clock, count, text } from "./format.js";
import { change } from "./stream.js";
import { Table, number, word } from "./table.js";

const READ_ONLY = "This page is read-only. Start it with --allow-changes or allow_changes=True to send letters again, or use ";
const EXPLAIN = "Each record goes back to the partition that it came from, with its key, value, headers and timestamp. "
  + "What reads that topic processes it again. The letters stay where they are.";

const partition = (source) => source.slice(0, source.lastIndexOf("@"));
const headers = (row) => row.headers.map((each) => `${each.name}: ${text(each.value)}`).join(", ");

// Asks in a dialog; calls onyes() when the answer is yes. Escape and Cancel are no.
function confirm(rows, topic, onyes) {
  const close = () => { dialog.close(); dialog.remove(); };
  const title = `Send ${count(rows.length)} dead letter${rows.length === 1 ? "" : "s"} of ${topic} again?`;
  const dialog = html("dialog", { "aria-labelledby": "ask-title" }, html("h2", { id: "ask-title", text: title }), html("p", { text: EXPLAIN }),
    html("ul", { class: "elements", tabindex: "0", "aria-label": "What is sent" }, ...rows.map((row) => html("li", { text: `${row.letter} to ${partition(row.source)}` }))),
    html("div", { class: "tools" }, html("button", { type: "button", text: "Cancel", autofocus: true, onclick: close }),
      html("button", { type: "button", class: "danger", text: "Send again", onclick: () => { close(); onyes(); } })));
  dialog.addEventListener("cancel", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

export function letters() {
  const topics = new Table("Topics of dead letters", [word("topic", "Topic"), number("count", "Count", count), word("newest", "Newest reason"),
    word("process", "Process")], { sort: 1, descending: true });
  const names = html("datalist", { id: "letters-topics" });
  const input = html("input", { id: "letters-topic", type: "search", list: "letters-topics", required: true });
  const show = html("button", { type: "button", text: "Show the newest", onclick: () => input.reportValidity() && load() });
  const send = html("button", { type: "button", class: "danger", text: "Send again…", onclick: () => ask() });
  const said = html("p", { class: "quiet", role: "status" });
  const command = html("code");
  const fixed = html("p", { class: "quiet" }, READ_ONLY, command);
  const sent = new Map(); // results by topic and place, kept while the page is open
  let topic = null;
  let rows = [];
  let able = null;
  const result = (row) => sent.get(`${topic} ${row.letter}`);
  const table = new Table("Letters", [
    word("letter", "Letter"), word("stored_ms", "Stored", (ms) => (ms ? `${new Date(ms).toISOString().slice(0, 10)} ${clock(ms)}` : "–")),
    { title: "Result", value: result, show: (row) => result(row) || "–", number: false, tone: (row) => ((result(row) || "").startsWith("not") ? "late" : "") },
    word("source", "Came from"), word("stage", "Stage"), word("reason", "Reason"), number("attempts", "Attempts", count), word("key", "Key"), word("value", "Value"),
    { title: "Headers", value: headers, show: (row) => headers(row) || "–", number: false },
  ], { sort: 1, descending: true, choice: { key: (row) => row.letter, onchange: () => buttons() } });
  const node = html("section", { class: "card" }, html("h2", { text: "Letters of a topic" }),
    html("div", { class: "tools" }, field("letters-topic", "Topic", input), names, show, send), said, fixed, table.node);
  table.update([]);

  function buttons() {
    send.disabled = table.chosen.size === 0;
    write(send, table.chosen.size ? `Send ${count(table.chosen.size)} again…` : "Send again…");
  }

  async function load() {
    topic = input.value.trim();
    write(said, "reading");
    const answer = await fetch(`api/dead-letters?topic=${encodeURIComponent(topic)}&limit=200`).catch(() => null);
    rows = answer && answer.ok ? (await answer.json()).letters : [];
    table.chosen.clear();
    table.update(rows);
    buttons();
    write(said, !answer ? "the server does not answer" : answer.ok ? `${count(rows.length)} letters` : (await answer.text()).trim());
  }

  function ask() {
    const wanted = rows.filter((row) => table.chosen.has(row.letter));
    if (wanted.length) confirm(wanted, topic, () => replay(wanted));
  }

  async function replay(wanted) {
    send.disabled = true;
    write(said, `sending ${count(wanted.length)}`);
    const { ok, answer } = await change("api/dead-letters/replay", { topic, letters: wanted.map((row) => row.letter) });
    if (ok) for (const each of answer.results) sent.set(`${topic} ${each.letter}`, each.to ? `sent to ${each.to}` : `not sent: ${each.error}`);
    const good = ok ? answer.results.filter((each) => each.to).length : 0;
    table.chosen.clear();
    table.update(rows);
    buttons();
    write(said, ok ? `${count(good)} of ${count(wanted.length)} sent; the column Result says where each is` : answer);
  }

  return {
    node: html("div", {}, topics.node, node),
    update(state, _, now) {
      if (now !== able) {
        able = now;
        node.hidden = !now.paths.includes("/api/dead-letters");
        fixed.hidden = now.allow_changes;
        send.hidden = !now.allow_changes;
        buttons();
      }
      const found = state.dead_letters || [];
      topics.update(found.map((each) => ({ ...each, newest: each.samples.length ? each.samples[each.samples.length - 1].reason : null })));
      const known = found.map((each) => each.topic);
      if (names.dataset.key !== JSON.stringify(known)) {
        names.dataset.key = JSON.stringify(known);
        names.replaceChildren(...known.map((value) => html("option", { value })));
        if (!input.value && known.length) input.value = known[0];
      }
      write(command, `streamactors dead-letters replay ${input.value || "TOPIC"}`);
    },
  };
}
