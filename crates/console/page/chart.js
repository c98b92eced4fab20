// A chart of the last minutes, with its figures in words above it. Charts beside each other show the same moment.

import uPlot from "./vendor/uplot/uPlot.esm.js";
import { colour, h, show } from "./dom.js";
import { clock } from "./format.js";

const HEIGHT = 132;


/** `lines`: `{label, key or of(sample), colour}`; `format` writes a value; `most` (of a sample) is the top of the scale if there is one. */
export function chart({ title, lines, format, axis = format, steps, most, fill = false }) {
  const values = lines.map((line) => h("b", {}, "–"));
  const legend = h("div", { class: "legend" }, lines.map((line, at) =>
    h("span", { class: "line" }, h("i", { class: `dot ${line.colour}` }), line.label && h("span", {}, line.label), values[at])));
  const time = h("span", { class: "time" });
  const place = h("div", { class: "plot" });
  const card = h("section", { class: "card chart" }, h("header", {}, h("h2", {}, title), time), legend, place);
  let plot = null;
  let samples = [];

  const write = (at) => {
    const sample = samples[at ?? samples.length - 1];
    show(time, at === null || at === undefined || !sample ? "" : clock(new Date(sample.time_ms)));
    lines.forEach((line, number) => show(values[number], sample ? format(line.of(sample), sample) : "–"));
  };

  const data = () => [samples.map((sample) => sample.time_ms / 1000), ...lines.map((line) => samples.map((sample) => line.of(sample)))];

  const draw = () => {
    plot?.destroy();
    const [quiet, rule] = [colour("quiet"), colour("rule")];
    plot = new uPlot({
      width: Math.max(place.clientWidth, 120), height: HEIGHT, legend: { show: false }, padding: [8, 18, 0, 0],
      cursor: { y: false, points: { size: 6 }, sync: { key: "charts" }, drag: { x: false, y: false } },
      scales: {
        x: { range: () => { const end = samples.length ? samples[samples.length - 1].time_ms / 1000 : Date.now() / 1000; return [end - 300, end]; } },
        y: { range: (_, low, high) => [0, most && samples.length ? most(samples[samples.length - 1]) : (high > 0 ? high * 1.1 : 1)] },
      },
      axes: [
        { stroke: quiet, font: FONT, grid: { show: false }, ticks: { show: false }, size: 22, space: 70, values: (_, splits) => splits.map((split) => clock(new Date(split * 1000)).slice(0, 5)), incrs: [60, 120] },
        { stroke: quiet, font: FONT, grid: { stroke: rule, width: 1 }, ticks: { show: false }, size: 58, gap: 4, space: 34, values: (_, splits) => splits.map((split) => axis(split)), ...(steps && { incrs: steps }) },
      ],
      series: [{}, ...lines.map((line) => {
        const stroke = colour(line.colour);
        return { stroke, width: 1.75, points: { show: false }, spanGaps: false, fill: fill ? stroke.replace("rgb(", "rgba(").replace(")", ", 0.12)") : undefined };
      })],
      hooks: { setCursor: [(self) => write(self.cursor.idx)] },
    }, data(), place);
  };

  const observer = new ResizeObserver(() => plot?.setSize({ width: Math.max(place.clientWidth, 120), height: HEIGHT }));
  observer.observe(place);
  return {
    card,
    update(all) {
      samples = all;
      if (!plot) draw();
      else plot.setData(data());
      write(plot.cursor.idx);
    },
    restyle() { if (plot) draw(); },
    leave() { observer.disconnect(); plot?.destroy(); plot = null; },
  };
}

const FONT = "11px system-ui, sans-serif";
