// Graphs of the latency and the speed of the last segments.

import { label } from "./language.js";

const MAX_POINTS = 60;
const WIDTH = 240;
const points = { latency: [], rtfx: [] };

export function clearFigures() {
  for (const series of Object.values(points)) series.length = 0;
}

export function showFigures({ final_latency_s: latency, rtfx }) {
  if (latency != null) draw("latency", latency, latency.toFixed(2));
  if (rtfx != null) draw("rtfx", rtfx, rtfx.toFixed(1));
}

function draw(name, value, text) {
  const series = points[name];
  series.push(value);
  if (series.length > MAX_POINTS) series.shift();
  const top = Math.max(...series, 1e-9);
  const step = WIDTH / Math.max(1, series.length - 1);
  const line = series.map((v, i) => `${(i * step).toFixed(1)},${(38 - (36 * v) / top).toFixed(1)}`);
  if (line.length === 1) line.push(line[0].replace(/^0.0/, WIDTH)); // a line needs two
  document.querySelector(`#${name} polyline`).setAttribute("points", line.join(" "));
  label(document.getElementById(`${name}-text`), name, text);
  label(document.getElementById(`${name}-top`), "up_to", top.toFixed(top < 10 ? 2 : 0));
}
