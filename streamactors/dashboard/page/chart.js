// A time series of at most ten minutes, drawn by uPlot. For screen readers: one sentence.

import { html, write } from "./dom.js";
import { clock, compact } from "./format.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Chart {
  constructor(title, unit) {
    this.unit = unit;
    this.place = html("div", { class: "plot", "aria-hidden": "true" });
    this.said = html("p", { class: "quiet" });
    this.node = html("section", { class: "card" }, html("h2", { text: title }), this.said, this.place);
    this.plot = null;
  }

  // points: { at: [seconds], value: [number] }
  update(points) {
    const value = points.value;
    write(this.said, value.length ? `now ${compact(value[value.length - 1])} ${this.unit}, most ${compact(Math.max(...value))}` : "no data yet");
    const width = this.place.clientWidth;
    if (!width || value.length < 2) return;
    const theme = document.documentElement.dataset.theme;
    if (!this.plot || this.theme !== theme) {
      if (this.plot) this.plot.destroy();
      this.theme = theme;
      const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
      this.plot = new uPlot({
        width, height: 120, legend: { show: false }, cursor: { show: false },
        axes: [{ ...axis, space: 90, size: 30, values: (_, ticks) => ticks.map((tick) => clock(tick * 1000)) }, { ...axis, size: 56, values: (_, ticks) => ticks.map(compact) }],
        series: [{}, { stroke: colour("--idle"), fill: colour("--idle-soft"), width: 2 }],
      }, [points.at, value], this.place);
      return;
    }
    if (this.plot.width !== width) this.plot.setSize({ width, height: 120 });
    this.plot.setData([points.at, value]);
  }
}
