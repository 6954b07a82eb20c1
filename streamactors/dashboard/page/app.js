// The page: tabs for what is present, the sentence on top, pause and the last ten minutes, themes and export.
// Screen readers hear what changes its meaning (the cause, the connection), not the figures that change each second.

import { Banners } from "./banners.js";
import { html, mark, write } from "./dom.js";
import { saveJson } from "./export.js";
import { bytes, clock } from "./format.js";
import { graphs } from "./graph.js";
import { SCREENS } from "./screens.js";
import { follow, moments, past, session } from "./stream.js";

const NOTHING = { allow_changes: false, paths: [] };

const MOST = 600;
const ALL = [{ id: "graph", title: "Graph", present: (state) => state.graphs.length > 0, make: graphs }, ...SCREENS];
const by = (id) => document.getElementById(id);
const page = {
  tabs: by("tabs"), panel: by("panel"), banner: by("banner"), status: by("status"), name: by("name"), slider: by("slider"), at: by("at"),
  pause: by("pause"), live: by("live"), theme: by("theme"), empty: by("empty"), announcer: by("announcer"), process: by("process"),
};
const series = { lag: { at: [], value: [] } };
const open = new Map();
const banners = new Banners(page.banner, page.announcer, show);
let able = NOTHING;
let frames = [];
let newest = null;
let shown = null;
let held = null; // the moment that is looked at; null: live
let chosen = null;

function present(state) {
  return ALL.filter((screen) => screen.present(state, able));
}

function choose(id, focus = false) {
  chosen = id;
  for (const tab of page.tabs.children) {
    const here = tab.dataset.id === id;
    mark(tab, "aria-selected", here);
    mark(tab, "tabindex", here ? "0" : "-1");
    if (here && focus) tab.focus();
    if (here) tab.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
  const screen = ALL.find((each) => each.id === id);
  if (!open.has(id)) {
    open.set(id, screen.make());
    page.panel.append(open.get(id).node);
  }
  mark(page.panel, "aria-labelledby", `tab-${id}`);
  for (const [each, { node }] of open) node.hidden = each !== id;
  draw();
}

function tabs(state) {
  const ids = present(state).map((screen) => screen.id);
  const key = ids.join(" ");
  page.empty.hidden = ids.length > 0;
  if (page.tabs.dataset.key !== key) {
    page.tabs.dataset.key = key;
    page.tabs.replaceChildren(...present(state).map((screen) => html("button", {
      type: "button", role: "tab", id: `tab-${screen.id}`, "data-id": screen.id, "aria-controls": "panel", text: screen.title, onclick: () => choose(screen.id),
    })));
    if (ids.length) choose(ids.includes(chosen) ? chosen : ids[0]);
    else for (const { node } of open.values()) node.hidden = true;
  }
}

function show(screen, banner) {
  choose(screen);
  if (screen === "graph") open.get(screen).show(banner.graph, banner.stage);
}

function draw() {
  if (!shown) return;
  const start = performance.now();
  tabs(shown);
  const blocked = banners.update(shown);
  write(page.name, shown.process.name);
  const { cpu_share: cores, rss_bytes: memory, host, pid, python, streamactors } = shown.process;
  write(page.process, cores === null ? "" : `${cores.toFixed(1)} cores · ${bytes(memory)}`);
  mark(page.process, "title", `${host}, process ${pid}, Python ${python}, streamactors ${streamactors}`);
  document.title = `${blocked ? "● " : ""}${shown.process.name} – streamactors`;
  if (open.has(chosen)) open.get(chosen).update(shown, series, able);
  performance.measure("frame", { start });
  if (performance.getEntriesByName("frame").length > 200) performance.clearMeasures("frame");
}

function time() {
  const at = held === null ? frames.length - 1 : Math.max(0, frames.findIndex((each) => each >= held));
  mark(page.slider, "max", Math.max(0, frames.length - 1));
  page.slider.value = String(Math.max(0, at));
  const moment = held === null ? (newest ? newest.at_ms : null) : held;
  write(page.at, held === null ? `live · ${clock(moment)}` : `at ${clock(moment)}`);
  mark(page.slider, "aria-valuetext", held === null ? "live" : page.at.textContent);
  write(page.pause, held === null ? "Pause" : "Continue");
  page.live.disabled = held === null;
  document.body.classList.toggle("past", held !== null);
}

function live() {
  held = null;
  shown = newest;
  time();
  draw();
}

async function wind(index) {
  if (!frames.length) return;
  const at = frames[Math.max(0, Math.min(frames.length - 1, index))];
  held = at;
  time();
  const state = await past(at);
  if (state && held === at) { shown = state; draw(); }
}

function pause() {
  if (held !== null) live();
  else if (newest) { held = newest.at_ms; shown = newest; time(); }
}

function step(by) {
  const here = held === null ? frames.length - 1 : frames.findIndex((each) => each >= held);
  if (here + by >= frames.length) live();
  else wind(here + by);
}

function take(state) {
  newest = state;
  if (!frames.length || state.at_ms > frames[frames.length - 1]) frames.push(state.at_ms);
  if (frames.length > MOST) frames = frames.slice(-MOST);
  let lag = null;
  for (const consumer of state.consumers) for (const row of consumer.partitions) if (row.lag !== null) lag = (lag || 0) + row.lag;
  if (lag !== null) {
    series.lag.at.push(state.at_ms / 1000);
    series.lag.value.push(lag);
    if (series.lag.at.length > MOST) { series.lag.at.shift(); series.lag.value.shift(); }
  }
  if (held === null) { shown = state; requestAnimationFrame(draw); }
  time();
}

function status(word) {
  document.body.classList.toggle("stale", word !== "live");
  const last = newest ? `the last figures are from ${clock(newest.at_ms)}` : "open the page by the address that was printed at the start";
  const refused = "refused: the server asks for its token; open the page by the address that it has printed";
  write(page.status, { live: "live", stale: `stale: no answer; ${last}`, refused }[word]);
}

// A server has answered: what it can do and what it has kept; after its restart both may differ.
async function opened(answer) {
  able = answer;
  const kept = await moments();
  frames = [...kept, ...frames.filter((at) => kept.length && at > kept[kept.length - 1])].slice(-MOST);
  time();
  draw();
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  write(page.theme, name === "dark" ? "Light" : "Dark");
  draw();
}

function otherTheme() {
  const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try { localStorage.setItem("streamactors-theme", name); } catch { /* a notebook's frame may have no storage */ }
  theme(name);
}

function firstTheme() {
  try {
    const kept = localStorage.getItem("streamactors-theme");
    if (kept) return kept;
  } catch { /* as above */ }
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
  const ids = shown ? present(shown).map((screen) => screen.id) : [];
  const done = { p: pause, l: live, "[": () => step(-1), "]": () => step(1), t: () => page.theme.click() }[event.key];
  if (done) done();
  else if (/^[1-9]$/.test(event.key) && ids[Number(event.key) - 1]) choose(ids[Number(event.key) - 1], true);
}

page.tabs.addEventListener("keydown", (event) => {
  const all = [...page.tabs.children];
  const at = all.findIndex((tab) => tab.dataset.id === chosen);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
  if (to === undefined || !all.length) return;
  event.preventDefault();
  choose(all[(to + all.length) % all.length].dataset.id, true);
});
page.slider.addEventListener("input", () => wind(Number(page.slider.value)));
page.pause.addEventListener("click", pause);
page.live.addEventListener("click", live);
page.theme.addEventListener("click", otherTheme);
by("json").addEventListener("click", () => shown && saveJson(shown));
document.addEventListener("keydown", keys);

theme(firstTheme());
await session();
follow(take, status, opened);
