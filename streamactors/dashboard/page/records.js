// The screen of records: a tap on a stage shows sampled elements, a search finds records of a topic, and a look-up shows what a store has for a key.

import { choices, field, html, write } from "./dom.js";
import { clock } from "./format.js";
import { search } from "./search.js";

const MOST = 200;

function tap() {
  const stages = html("select", { id: "tap-stage" });
  const button = html("button", { type: "button", text: "Tap", onclick: () => (source ? stop("stopped") : start()) });
  const said = html("p", { class: "quiet", role: "status", text: "Choose a stage to see a sample of its elements, shortened." });
  const shown = html("p", { class: "quiet" });
  const list = html("ol", { class: "elements", tabindex: "0", "aria-label": "Sampled elements, newest first" });
  let source = null;

  function stop(why) {
    if (source) source.close();
    source = null;
    write(button, "Tap");
    write(said, why);
    write(shown, "");
  }

  function start() {
    if (!stages.value) return;
    const [run, stage] = JSON.parse(stages.value);
    list.replaceChildren();
    source = new EventSource(`api/tap?run=${encodeURIComponent(run)}&stage=${encodeURIComponent(stage)}`);
    write(button, "Stop");
    write(said, "open");
    write(shown, "waiting for elements");
    source.addEventListener("elements", (event) => {
      const at = clock(Date.now());
      list.prepend(...JSON.parse(event.data).elements.map((element) => html("li", {}, html("span", { class: "quiet", text: `${at} ` }), html("code", { text: String(element) }))));
      while (list.children.length > MOST) list.lastChild.remove();
      write(shown, `${list.children.length} sampled elements`);
    });
    source.addEventListener("end", () => stop("the stage has ended, or the tap was open for ten minutes"));
    source.onerror = () => stop("the stage does not run any more");
  }

  return {
    node: html("section", { class: "card" }, html("h2", { text: "Tap on a stage" }),
      html("div", { class: "tools" }, field("tap-stage", "Stage", stages), button), said, shown, list),
    present: (paths) => paths.includes("/api/tap"),
    update: (state) => choices(stages, state.graphs.flatMap((graph) => graph.stages.filter((stage) => stage.state === "open").map((stage) =>
      [JSON.stringify([graph.id, stage.id]), `${graph.name}: ${stage.name.slice(0, 60)}`]))),
  };
}

function lookUp() {
  const stores = html("select", { id: "store-name" });
  const key = html("input", { id: "store-key", type: "search", placeholder: "JSON, or a string" });
  const said = html("p", { class: "quiet", role: "status" });
  const list = html("ul", { class: "elements", tabindex: "0", "aria-label": "Entries" });
  const form = html("form", { class: "tools" }, field("store-name", "Store", stores), field("store-key", "Key", key),
    html("button", { type: "submit", text: "Look up" }));
  const node = html("section", { class: "card" }, html("h2", { text: "Key of a store" }), form, said, list);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const answer = await fetch(`api/store?name=${encodeURIComponent(stores.value)}&key=${encodeURIComponent(key.value)}`);
    const entries = answer.ok ? (await answer.json()).entries : [];
    write(said, answer.ok ? `${entries.length} entries` : (await answer.text()).trim());
    list.replaceChildren(...entries.map((entry) => html("li", {}, html("code", { text: `${entry.key}${entry.start_ms ? ` @ ${entry.start_ms}` : ""}: ${entry.value}` }))));
  });
  return {
    node,
    present: (paths) => paths.includes("/api/store"),
    update(state) {
      node.hidden = !state.stores.length;
      choices(stores, [...new Set(state.stores.map((store) => store.name))].map((name) => [name, name]));
    },
  };
}

export function records() {
  const parts = [tap(), search(), lookUp()];
  return { node: html("div", {}, ...parts.map((part) => part.node)), update(state, _, able) {
    for (const part of parts) {
      part.node.hidden = !part.present(able.paths);
      if (!part.node.hidden) part.update(state);
    }
  } };
}
