// Small drawing kit: elements, number formats, line charts and histograms as SVG.

const SVG = "http://www.w3.org/2000/svg";

function put(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") node.style.cssText = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child.nodeType ? child : String(child));
  }
  return node;
}
const el = (tag, attributes, ...children) => put(document.createElement(tag), attributes, children);
const sv = (tag, attributes, ...children) => put(document.createElementNS(SVG, tag), attributes, children);

const known = (value) => value !== null && value !== undefined && Number.isFinite(value);

function fixed(value, digits = 1, unit = "") {
  if (!known(value)) return "\u2013";
  return value.toFixed(digits) + (unit && unit !== "\u00b0" ? "\u202f" : "") + unit;
}
const percent = (share) => (known(share) ? Math.round(100 * share) + "\u202f%" : "\u2013");

function nice(low, high, wanted = 5) {
  if (!(high > low)) high = low + 1;
  const raw = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= raw * 0.999);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) ticks.push(i * step);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9), step / power === 2.5 ? 1 - Math.log10(power) : 0);
  return { ticks, label: (v) => (Math.abs(v) < step * 1e-6 ? 0 : v).toFixed(Math.min(6, Math.round(digits))) };
}

function extent(lists, floor = null) {
  let low = Infinity, high = -Infinity;
  for (const list of lists) {
    for (const value of list) {
      if (!known(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (low > high) [low, high] = [0, 1];
  if (floor !== null) low = Math.min(low, floor);
  const pad = (high - low || 1) * 0.06;
  return [floor !== null && low >= floor ? floor : low - pad, high + pad];
}

// Path data through the known points of a line; a gap where there is none. A held value stays
// until the next one.
function track(xs, ys, sx, sy, held = false) {
  let text = "", pen = false;
  for (let i = 0; i < ys.length; i++) {
    if (!known(ys[i]) || !known(xs[i])) { pen = false; continue; }
    if (pen && held) text += "H" + sx(xs[i]).toFixed(1) + "V" + sy(ys[i]).toFixed(1);
    else text += (pen ? "L" : "M") + sx(xs[i]).toFixed(1) + " " + sy(ys[i]).toFixed(1);
    pen = true;
  }
  return text;
}

function ribbon(xs, lower, upper, sx, sy) {
  let text = "", run = [];
  const close = () => {
    if (run.length > 1) {
      const there = run.map((i) => sx(xs[i]).toFixed(1) + " " + sy(upper[i]).toFixed(1));
      const back = run.slice().reverse().map((i) => sx(xs[i]).toFixed(1) + " " + sy(lower[i]).toFixed(1));
      text += "M" + there.concat(back).join("L") + "Z";
    }
    run = [];
  };
  xs.forEach((_, i) => (known(lower[i]) && known(upper[i]) ? run.push(i) : close()));
  close();
  return text;
}

// Axes of a chart; returns the scales and the group to draw into.
function frame({ width = 560, height = 250, x, y, xlabel, ylabel, left = 46, xticks = 6, yticks = 5, label }) {
  const [top, right, bottom] = [10, 10, xlabel ? 36 : 22];
  const sx = (v) => left + ((v - x[0]) / (x[1] - x[0] || 1)) * (width - left - right);
  const sy = (v) => height - bottom - ((v - y[0]) / (y[1] - y[0] || 1)) * (height - top - bottom);
  const root = sv("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label || ylabel || "" });
  const across = nice(x[0], x[1], xticks), up = nice(y[0], y[1], yticks);
  for (const v of up.ticks) {
    root.append(sv("line", { class: "gridline", x1: left, x2: width - right, y1: sy(v), y2: sy(v) }));
    root.append(sv("text", { x: left - 7, y: sy(v) + 4, "text-anchor": "end" }, up.label(v)));
  }
  for (const v of across.ticks) {
    root.append(sv("text", { x: sx(v), y: height - bottom + 16, "text-anchor": "middle" }, across.label(v)));
  }
  root.append(sv("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom }));
  if (xlabel) root.append(sv("text", { x: width - right, y: height - 4, "text-anchor": "end" }, xlabel));
  const body = sv("g");
  root.append(body);
  return { root, body, sx, sy, width, height, left, right, top, bottom };
}

const tip = document.getElementById("tip");
function showTip(event, ...content) {
  tip.replaceChildren(...content.flat());
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const x = event.clientX + 16 + box.width > innerWidth ? event.clientX - box.width - 14 : event.clientX + 16;
  tip.style.left = Math.max(4, x) + "px";
  tip.style.top = Math.min(event.clientY + 14, innerHeight - box.height - 6) + "px";
}
const hideTip = () => { tip.hidden = true; };

// A vertical line that follows the pointer to the nearest of some x values.
function follow(chart, xs, tell, choose) {
  const line = sv("line", { class: "cursor", y1: chart.top, y2: chart.height - chart.bottom, visibility: "hidden" });
  chart.root.append(line);
  const nearest = (event) => {
    const box = chart.root.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * chart.width;
    let best = -1, gap = Infinity;
    xs.forEach((x, i) => {
      const d = known(x) ? Math.abs(chart.sx(x) - at) : Infinity;
      if (d < gap) [gap, best] = [d, i];
    });
    return best;
  };
  chart.root.addEventListener("pointermove", (event) => {
    const i = nearest(event);
    if (i < 0) return;
    line.setAttribute("x1", chart.sx(xs[i]));
    line.setAttribute("x2", chart.sx(xs[i]));
    line.setAttribute("visibility", "visible");
    showTip(event, tell(i));
  });
  chart.root.addEventListener("pointerleave", () => { line.setAttribute("visibility", "hidden"); hideTip(); });
  if (choose) {
    chart.root.style.cursor = "pointer";
    chart.root.addEventListener("click", (event) => { const i = nearest(event); if (i >= 0) choose(i); });
  }
}

// series: [{name, colour, values, band: [lower, upper], dash, thin, held}] over common xs.
function lineChart({ xs, series, x, y, choose, tell, unit = "", ...rest }) {
  const lists = series.flatMap((s) => [s.values, ...(s.band || [])]);
  const chart = frame({ x: x || extent([xs], 0).map((v, i) => (i ? Math.max(...xs.filter(known)) : v)), y: y || extent(lists, 0), ...rest });
  for (const s of series) {
    if (s.band) chart.body.append(sv("path", { class: "band", style: `--c:${s.colour}`, d: ribbon(xs, ...s.band, chart.sx, chart.sy) }));
  }
  for (const s of series) {
    const kind = "line" + (s.dash ? " dash" : "") + (s.thin ? " thin" : "");
    chart.body.append(sv("path", { class: kind, style: `--c:${s.colour}`, d: track(xs, s.values, chart.sx, chart.sy, s.held) }));
  }
  const words = tell || ((i) => [
    el("b", {}, fixed(xs[i], 2, "s")),
    ...series.filter((s) => s.name).map((s) => el("div", {}, swatch(s.colour), `${s.name}: ${fixed(s.values[i], 1, unit)}`,
      s.band ? el("span", { class: "soft" }, ` (${fixed(s.band[0][i])}\u2013${fixed(s.band[1][i])})`) : "")),
  ]);
  follow(chart, xs, words, choose);
  return chart;
}

const swatch = (colour) => el("span", { class: "key", style: `--c:${colour}` });

function quantile(sorted, share) {
  if (!sorted.length) return null;
  const at = share * (sorted.length - 1), low = Math.floor(at), rest = at - low;
  return sorted[low] + (rest ? rest * (sorted[low + 1] - sorted[low]) : 0);
}

function histogram({ values, colour, unit = "ms", bins = 36, ...rest }) {
  const sorted = values.filter(known).sort((a, b) => a - b);
  if (!sorted.length) return null;
  // The longest tail would press everything else into one column: what lies beyond is told.
  const end = Math.min(sorted[sorted.length - 1], 4 * quantile(sorted, 0.95) || 1) || 1;
  const counts = new Array(bins).fill(0);
  let beyond = 0;
  for (const value of sorted) {
    if (value > end) beyond++;
    else counts[Math.min(bins - 1, Math.floor((value / end) * bins))]++;
  }
  const chart = frame({ x: [0, end], y: extent([counts], 0), ...rest });
  counts.forEach((count, i) => {
    const [x0, x1] = [chart.sx((i * end) / bins), chart.sx(((i + 1) * end) / bins)];
    chart.body.append(sv("rect", { class: "column", style: `--c:${colour}`, x: x0 + 0.5, width: Math.max(1, x1 - x0 - 1), y: chart.sy(count), height: chart.sy(0) - chart.sy(count) }));
  });
  for (const [name, share] of [["p50", 0.5], ["p95", 0.95]]) {
    const at = chart.sx(quantile(sorted, share));
    if (quantile(sorted, share) > end) continue;
    chart.root.append(sv("line", { class: "now", x1: at, x2: at, y1: chart.top, y2: chart.height - chart.bottom }));
    chart.root.append(sv("text", { x: at + 4, y: chart.top + (name === "p50" ? 10 : 24) }, name));
  }
  const middles = counts.map((_, i) => ((i + 0.5) * end) / bins);
  follow(chart, middles, (i) => `${fixed((i * end) / bins)}\u2013${fixed(((i + 1) * end) / bins, 1, unit)}: ${counts[i]}`);
  return { root: chart.root, p50: quantile(sorted, 0.5), p95: quantile(sorted, 0.95), max: sorted[sorted.length - 1], beyond, count: sorted.length };
}
