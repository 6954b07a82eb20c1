// The screen of graphs: islands as boxes, stages coloured by what they do, edges with rate, ready and asked.
// A worker arranges the stages when the shape changes; each second only texts, widths and colours are written.

import { html, mark, svg, write } from "./dom.js";
import { savePng, saveSvg } from "./export.js";
import { compact, count, duration, rate, share } from "./format.js";
import { Table, number, word } from "./table.js";

const WIDTH = 188;
const DOING = [["works", "works"], ["waits_for_demand", "waits for demand"], ["waits_for_elements", "waits for elements"]];

// What a stage does most of its time: { kind, words }. `limits`: it lets fewer elements pass on purpose.
export function doing(stage, limits = false) {
  if (stage.state === "ended") return { kind: "ended", words: "ended" };
  if (limits) return { kind: "limits", words: "limits the rate on purpose" };
  const [name, words] = DOING.reduce((best, each) => ((stage[each[0]] || 0) > (stage[best[0]] || 0) ? each : best));
  if ((stage[name] || 0) < 0.05) return { kind: "idle", words: "idle" };
  const outside = name === "works" && stage.outside > stage.works / 2; // of calls, timers and effects that it waits for
  return { kind: name, words: outside ? `waits for calls ${share(stage[name])}` : `${words} ${share(stage[name])}` };
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
const edgeKey = (edge) => `${edge.source}>${edge.target}`;
const named = (stage) => (stage.count > 1 ? `${count(stage.count)} × ${stage.name}` : stage.name);

function path(points) {
  return points.map(({ x, y }, index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join(" ");
}

class OneGraph {
  constructor(id) {
    this.id = id;
    this.title = html("h2");
    this.zoom = null;
    this.canvas = svg("svg", { class: "graph", role: "group", xmlns: "http://www.w3.org/2000/svg" });
    this.frame = html("div", { class: "canvas", role: "region", tabindex: "0", "aria-label": "Drawing of the graph" }, this.canvas);
    const button = (text, label, onclick) => html("button", { type: "button", text, "aria-label": label, onclick });
    this.tools = html("div", { class: "tools" }, button("−", "Smaller", () => this.scale(1 / 1.25)), button("+", "Larger", () => this.scale(1.25)),
      button("Fit", "Fit into the window", () => { this.zoom = null; this.resize(); }),
      button("SVG", "Save the drawing as SVG", () => saveSvg(this.canvas, this.fileName())), button("PNG", "Save the drawing as PNG", () => savePng(this.canvas, this.fileName())));
    this.detail = html("p", { class: "detail", text: "Choose a stage to read its figures: Tab, then the arrow keys and Enter." });
    this.table = new Table("Stages", [
      word("name", "Stage"), word("kind", "Kind"), number("island", "Island", count), word("state", "State"),
      number("works", "Works", share, (row) => (row.culprit ? "late" : "")), number("waits_for_demand", "Waits for demand", share),
      number("waits_for_elements", "Waits for elements", share), number("elements_per_s", "Rate", rate), number("elements", "Elements", count),
      number("failures", "Failures", count), number("count", "Count", count), word("process", "Process"), word("detail", "Detail"),
    ], { sort: 4, descending: true });
    this.list = html("details", {}, html("summary", { text: "All stages as a table" }), this.table.node);
    this.list.addEventListener("toggle", () => this.graph && this.table.update(this.graph.stages));
    this.node = html("section", { class: "card" }, this.title, this.tools, this.frame, this.detail, this.list);
    this.stages = new Map();
    this.edges = new Map();
    this.worker = new Worker(new URL("./layout.js", import.meta.url), { type: "module" });
    this.worker.onmessage = ({ data }) => this.arrange(data);
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    for (const kind of ["wheel", "pointerdown", "keydown"]) this.frame.addEventListener(kind, () => { this.moved = true; }, { passive: true }); // by the reader
    this.resized = new ResizeObserver(() => this.resize());
    this.resized.observe(this.frame);
  }

  fileName() {
    return `${this.graph.name.replace(/[^\w.-]+/g, "-").slice(0, 80)}-${Date.now()}`;
  }

  close() {
    this.worker.terminate();
    this.resized.disconnect();
    this.node.remove();
  }

  update(graph) {
    this.graph = graph;
    write(this.title, `${graph.name}${graph.process ? ` · ${graph.process}` : ""} · running for ${duration(graph.running_ms)} · ${count(graph.stages.length)} stages`);
    const shape = JSON.stringify([this.frame.clientWidth < 600, graph.stages.map((each) => [each.id, each.island]), graph.edges.map(edgeKey)]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.worker.postMessage({
        key: shape, width: Math.max(300, this.frame.clientWidth), height: Math.max(380, window.innerHeight * 0.6),
        nodes: graph.stages.map(({ id, island }) => ({ id, island })), edges: graph.edges.map(({ source, target }) => ({ source, target })),
      });
    } else if (this.placed) this.paint();
    if (this.list.open) this.table.update(graph.stages);
  }

  arrange(placed) {
    if (placed.key !== this.shape) return;
    this.placed = placed;
    this.stages.clear();
    this.edges.clear();
    const drawn = [];
    const labels = []; // above all lines: no line crosses a figure
    for (const box of placed.islands) {
      drawn.push(svg("rect", { class: "island", x: box.x, y: box.y, width: box.width, height: box.height, rx: 10 }),
        svg("text", { class: "island-name", x: box.x + 4, y: box.y - 5, text: this.islandName(box.island) }));
    }
    for (const edge of placed.edges) {
      const line = svg("path", { class: "edge", d: path(edge.points) });
      const x = edge.across ? edge.x : edge.x + 8;
      const anchor = edge.across ? "middle" : "start";
      const speed = svg("text", { class: "edge-name", "text-anchor": anchor, x, y: edge.across ? edge.y - 6 : edge.y - 2 });
      const label = svg("text", { class: "edge-name", "text-anchor": anchor, x, y: edge.across ? edge.y + 15 : edge.y + 12 });
      const asked = svg("text", { class: "edge-name", "text-anchor": anchor, x, y: edge.y + 28 });
      const end = edge.points[edge.points.length - 1];
      drawn.push(line, svg("circle", { class: "arrow", cx: end.x, cy: end.y, r: 4 }));
      labels.push(speed, label, asked);
      this.edges.set(edgeKey(edge), { line, speed, label, asked, across: edge.across });
    }
    drawn.push(...labels);
    placed.nodes.forEach((box, index) => {
      const stage = this.stage(box, index);
      drawn.push(stage.node);
      this.stages.set(box.id, stage);
    });
    this.canvas.replaceChildren(...drawn);
    this.canvas.setAttribute("viewBox", `0 0 ${placed.width} ${placed.height}`);
    this.resize();
    this.paint();
    this.show(this.causing, false);
  }

  // An island in a process of its own is named after it.
  islandName(island) {
    const processes = new Set(this.graph.stages.filter((stage) => stage.island === island).map((stage) => stage.process));
    const [process] = processes;
    return processes.size === 1 && process ? `island ${island} · ${cut(process, 60)}` : `island ${island}`;
  }

  stage(box, index) {
    const bars = DOING.map(([name]) => svg("rect", { class: `bar ${name}`, y: box.height - 10, height: 6, width: 0 }));
    const name = svg("text", { class: "name", x: 10, y: 20 });
    const what = svg("text", { class: "what", x: 10, y: 38 });
    const speed = svg("text", { class: "speed", x: 10, y: 55 });
    const tag = svg("text", { class: "tag", x: 10, y: -6, text: "HOLDS THE STREAM BACK" });
    const full = svg("title");
    const node = svg("g", { class: "stage", transform: `translate(${box.x} ${box.y})`, role: "button", tabindex: index ? "-1" : "0", "data-id": box.id },
      full, svg("rect", { class: "box", width: box.width, height: box.height, rx: 8 }), name, what, speed,
      svg("rect", { class: "track", x: 8, y: box.height - 10, width: WIDTH - 16, height: 6, rx: 3 }), ...bars, tag);
    node.addEventListener("click", () => this.choose(box.id));
    return { node, name, what, speed, bars, full };
  }

  paint() {
    const { graph } = this;
    const causing = graph.stages.find((stage) => stage.culprit) || null;
    const before = this.causing;
    this.causing = causing ? causing.id : null;
    if (this.causing !== before && !this.moved) this.show(this.causing, false);
    const limits = new Set(graph.causes.filter((cause) => cause.cause === "limit").map((cause) => cause.stage));
    for (const stage of graph.stages) {
      const drawn = this.stages.get(stage.id);
      if (!drawn) continue;
      const { kind, words } = doing(stage, limits.has(stage.id));
      mark(drawn.node, "class", `stage ${kind}${stage.culprit ? " culprit" : ""}${stage.failures ? " failed" : ""}`);
      this.fitName(drawn.name, cut(named(stage), 20));
      write(drawn.what, words);
      write(drawn.speed, cut(`${rate(stage.elements_per_s)}${stage.failures ? ` · ${compact(stage.failures)} failed` : ""}${stage.process ? ` · ${stage.process}` : ""}`, 28));
      const sentence = `${named(stage)}: ${words}, ${rate(stage.elements_per_s)}${stage.culprit ? ", holds the stream back" : ""}`;
      write(drawn.full, sentence);
      let left = 8;
      const whole = Math.max(1, DOING.reduce((sum, [name]) => sum + (stage[name] || 0), 0)); // shares are rounded
      DOING.forEach(([name], index) => {
        const wide = Math.max(0, (stage[name] || 0) / whole) * (WIDTH - 16);
        mark(drawn.bars[index], "x", left.toFixed(1));
        mark(drawn.bars[index], "width", wide.toFixed(1));
        left += wide;
      });
    }
    for (const edge of graph.edges) {
      const drawn = this.edges.get(edgeKey(edge));
      if (!drawn) continue;
      mark(drawn.line, "class", `edge ${edge.state === "open" ? "" : edge.state}`.trim());
      write(drawn.speed, rate(edge.per_s));
      const [ready, asked] = [`${compact(edge.ready)} ready`, `${compact(edge.asked)} asked`];
      write(drawn.label, drawn.across ? ready : `${ready}, ${asked}`);
      write(drawn.asked, drawn.across ? asked : "");
    }
    if (this.chosen !== undefined) this.tell(this.chosen);
  }

  // Wide letters are drawn closer, so that a name never leaves its box.
  fitName(node, name) {
    if (node.dataset.name === name) return;
    node.dataset.name = name;
    write(node, name);
    node.removeAttribute("textLength");
    if (node.getComputedTextLength() > WIDTH - 20) {
      mark(node, "textLength", WIDTH - 20);
      mark(node, "lengthAdjust", "spacingAndGlyphs");
    }
  }

  scale(by) {
    this.zoom = Math.max(0.1, Math.min(3, (this.zoom || this.fit()) * by));
    this.resize();
  }

  fit() {
    if (!this.placed) return 1;
    return Math.max(0.42, Math.min(1, (this.frame.clientWidth - 4) / this.placed.width));
  }

  resize() {
    if (!this.placed) return;
    const zoom = this.zoom || this.fit();
    mark(this.canvas, "width", Math.round(this.placed.width * zoom));
    mark(this.canvas, "height", Math.round(this.placed.height * zoom));
    mark(this.canvas, "data-small", zoom < 0.7);
  }

  show(id, focus = true) {
    const place = this.placed && this.placed.nodes.find((each) => each.id === id);
    if (!place) return;
    const zoom = this.zoom || this.fit();
    this.frame.scrollTo(place.x * zoom - this.frame.clientWidth / 2 + WIDTH * zoom / 2, place.y * zoom - this.frame.clientHeight / 2);
    if (focus) this.choose(id);
  }

  key(event) {
    const ids = this.placed ? this.placed.nodes.map((each) => each.id) : [];
    const at = ids.indexOf(Number(event.target.dataset.id));
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (at < 0) return;
    if (by) this.focus(ids[(at + by + ids.length) % ids.length]);
    else if (event.key === "Enter" || event.key === " ") this.choose(ids[at]);
    else return;
    event.preventDefault();
  }

  focus(id) {
    for (const [each, { node }] of this.stages) mark(node, "tabindex", each === id ? "0" : "-1");
    this.stages.get(id).node.focus();
  }

  choose(id) {
    this.chosen = id;
    this.focus(id);
    this.tell(id);
  }

  tell(id) {
    const stage = this.graph.stages.find((each) => each.id === id);
    if (!stage) return;
    const parts = [`${named(stage)} (${stage.kind}, island ${stage.island}${stage.group ? `, ${stage.group}` : ""})`,
      ...DOING.map(([name, words]) => `${words} ${share(stage[name])}`), `${count(stage.elements)} elements`, `${count(stage.failures)} failures`];
    if (stage.outside >= 0.05) parts.push(`${share(stage.outside)} of it outside, in calls, timers or effects that have not returned`);
    if (stage.detail) parts.push(stage.detail);
    write(this.detail, parts.join(" · "));
  }
}

export function graphs() {
  const node = html("div", {}, html("p", { class: "legend" },
    ...[["works", "works"], ["waits_for_demand", "waits for demand: held back from downstream"], ["waits_for_elements", "waits for elements"]].map(([name, text]) =>
      html("span", {}, html("span", { class: `swatch ${name}`, "aria-hidden": "true" }), text))));
  const shown = new Map();

  // A graph that is held back comes first. Nothing is moved while the first one is held back itself, or while the reader is in the drawings.
  function arrange(state) {
    const held = state.banners.filter((banner) => banner.holds).map((banner) => shown.get(banner.graph)?.node).filter(Boolean);
    const first = node.querySelector(":scope > section");
    if (held.length && !held.includes(first) && !node.contains(document.activeElement)) first.before(held[0]);
  }

  return {
    node,
    show(id, stage) {
      const one = shown.get(id);
      if (!one) return;
      one.node.scrollIntoView({ block: "start" });
      one.show(stage);
    },
    update(state) {
      const ids = new Set(state.graphs.map((graph) => graph.id));
      for (const [id, one] of shown) if (!ids.has(id)) { one.close(); shown.delete(id); }
      for (const graph of state.graphs) {
        if (!shown.has(graph.id)) {
          shown.set(graph.id, new OneGraph(graph.id));
          node.append(shown.get(graph.id).node);
        }
        shown.get(graph.id).update(graph);
      }
      if (shown.size > 1) arrange(state);
    },
  };
}
