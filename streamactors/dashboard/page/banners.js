// The sentences on top: what holds a stream back, each with a button that shows where. The most likely cause comes first.

import { html, mark, write } from "./dom.js";

const SCREEN = { partition: "partitions", broker: "broker", spark: "spark" };

const graphOf = (state, banner) => state.graphs.find((graph) => graph.id === banner.graph) || null;
const stageOf = (state, banner) => (graphOf(state, banner)?.stages || []).find((stage) => stage.id === banner.stage) || null;

// "flights: decode works 96 % of the time" becomes "flights: decode holds the stream back: it works 96 % of the time".
function sentence(state, banner) {
  const stage = stageOf(state, banner);
  if (!banner.holds || !stage) return banner.sentence;
  const prefix = `${graphOf(state, banner).name}: `;
  const before = banner.sentence.startsWith(prefix) ? prefix : "";
  const rest = banner.sentence.slice(before.length);
  const name = `${stage.name} `;
  const again = before === `${stage.name}: ` ? "" : before; // a sink that has its graph's name
  return `${again}${stage.name} holds the stream back: ${rest.startsWith(name) ? `it ${rest.slice(name.length)}` : rest}`;
}

// What is read aloud: the causes without their figures, which change each second.
function heard(state, found) {
  const names = found.map((banner) => {
    const stage = stageOf(state, banner);
    return stage ? `${stage.name} holds ${graphOf(state, banner).name} back` : banner.sentence.replace(/\d[\d,.]*/g, "").trim();
  });
  return names.join(", ") || "nothing holds the stream back";
}

// place: where the sentences are; announcer: what screen readers read aloud; show(screen, banner): shows where it is.
export class Banners {
  constructor(place, announcer, show) {
    this.place = place;
    this.announcer = announcer;
    this.show = show;
    this.lines = [];
  }

  // Returns whether something holds a stream back.
  update(state) {
    const found = state.banners.filter((banner) => banner.holds);
    const held = found.length > 0;
    const well = { sentence: state.graphs.length ? "Nothing holds the stream back." : "No graph runs.", holds: false };
    const shown = held ? found : [well, ...state.banners];
    mark(this.place, "class", held ? "banner held" : "banner flows");
    while (this.lines.length < shown.length) this.lines.push(this.line());
    while (this.lines.length > shown.length) this.lines.pop().node.remove();
    shown.forEach((banner, index) => {
      const line = this.lines[index];
      line.banner = banner;
      line.screen = stageOf(state, banner) ? "graph" : SCREEN[banner.kind] || null;
      write(line.text, sentence(state, banner));
      mark(line.node, "class", index ? "further" : "first");
      line.button.hidden = line.screen === null;
    });
    write(this.announcer, heard(state, found));
    return held;
  }

  line() {
    const text = html("span");
    const button = html("button", { type: "button", text: "Show", onclick: () => this.show(line.screen, line.banner) });
    const line = { node: html("p", {}, text, button), text, button, banner: null, screen: null };
    this.place.append(line.node);
    return line;
  }
}
