// Two evaluations side by side.

const { comparison: C, labels: LABELS } = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
const TINT = { a: "var(--hold_still)", b: "var(--policy)" };
const short = (path) => path.split("/").filter(Boolean).pop() || path;
const names = (() => {
  const [a, b] = [short(C.a.path), short(C.b.path)];
  return a === b ? { a: C.a.path, b: C.b.path } : { a, b };
})();
const significant = (v) => (known(v) ? Number(v.toPrecision(3)).toString().replace("-", "\u2212") : "\u2013");
const signed = (v) => (v > 0 ? "+" : "") + significant(v);

function card(title, note, ...content) {
  return el("section", { class: "card" }, el("h2", {}, title), note && el("p", { class: "soft small" }, note), content);
}

function setTheme(value) {
  if (value === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = value;
}

function head() {
  const themes = { auto: "Auto", light: "Light", dark: "Dark" };
  return el("header", {},
    el("div", {}, el("h1", {}, "Comparison of two evaluations"),
      el("div", { class: "soft" }, swatch(TINT.a), `A: ${C.a.path} (${C.a.model}, ${C.a.hash.slice(0, 8)})`),
      el("div", { class: "soft" }, swatch(TINT.b), `B: ${C.b.path} (${C.b.model}, ${C.b.hash.slice(0, 8)})`)),
    el("select", { class: "no-print", "aria-label": "colours", onchange: (e) => setTheme(e.target.value) },
      Object.entries(themes).map(([value, text]) => el("option", { value }, text))));
}

function verdict() {
  const d = C.differences.position_error_mm_1s || C.differences.position_error_mm_end || C.differences.position_error_mm_dt;
  if (!d) return el("p", { class: "verdict" }, "No error is known in both.");
  const amount = `${fixed(Math.abs(d.mean), 1, "mm")} (${fixed(Math.min(Math.abs(d.low), Math.abs(d.high)), 1)} to ${fixed(Math.max(Math.abs(d.low), Math.abs(d.high)), 1)})`;
  const text = d.better
    ? `${d.better === "a" ? "A" : "B"} is closer to what the arm did, after 1\u202fs by ${amount} on average.`
    : `No clear difference in position after 1\u202fs: B \u2212 A is ${signed(d.mean)} mm`
      + (known(d.low) ? `, with 95\u202f% between ${signed(d.low)} and ${signed(d.high)}.` : ", of too few episodes to tell.");
  return el("p", { class: "verdict" }, text);
}

function differences() {
  const rows = Object.entries(C.differences);
  const line = ([name, d]) => el("tr", {},
    el("td", {}, LABELS[name]), el("td", {}, significant(d.mean_a)), el("td", {}, significant(d.mean_b)), el("td", { class: "best" }, signed(d.mean)),
    el("td", {}, known(d.low) ? `${signed(d.low)} to ${signed(d.high)}` : el("span", { class: "soft" }, "too few to tell")), el("td", { style: "min-width:170px" }, whisker(d)), el("td", {}, d.p_value < 0.001 ? "<\u202f0.001" : d.p_value.toFixed(3)),
    el("td", {}, `${d.a_larger} / ${d.b_larger}`), el("td", {}, d.better ? el("b", { class: "better" }, d.better.toUpperCase()) : "\u2013"));
  return card("Paired differences",
    `${C.pairs} predictions on the same observations${C.only_a + C.only_b ? `; ${C.only_a} only in A, ${C.only_b} only in B are left out` : ""}. `
    + `The interval holds the mean difference with 95\u202f%; neighbours in time depend on one another, so it is drawn by ${C.units}. A winner is named where the interval excludes zero.`,
    el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ["", "A", "B", "B \u2212 A", "95\u202f% interval", "", "p", "larger in A / B", "better"].map((t) => el("th", {}, t)))),
      el("tbody", {}, rows.map(line)))));
}

function whisker(d) {
  if (!known(d.low)) return null;
  const reach = 1.15 * Math.max(Math.abs(d.low), Math.abs(d.high), 1e-9);
  const x = (v) => 80 + (v / reach) * 74;
  const tint = d.better ? TINT[d.better] : "var(--constant_velocity)";
  return sv("svg", { viewBox: "0 0 160 20", role: "img", "aria-label": "interval" },
    sv("line", { class: "axis", x1: 80, x2: 80, y1: 1, y2: 19 }),
    sv("line", { class: "line", style: `--c:${tint}`, x1: x(d.low), x2: x(d.high), y1: 10, y2: 10 }),
    sv("circle", { class: "dot", style: `--c:${tint}`, cx: x(d.mean), cy: 10, r: 4 }));
}

function legend() {
  return el("div", { class: "legend" }, ["a", "b"].map((side) => el("span", {}, swatch(TINT[side]), `${side.toUpperCase()}: ${names[side]}`)));
}

function horizon() {
  if (!C.horizon) return null;
  const xs = C.horizon.time_s;
  const panel = (kind, label, unit) => el("div", {}, el("h3", {}, label), lineChart({
    xs, xlabel: "time after the observation, s", label, unit,
    series: ["a", "b"].map((side) => ({ name: side.toUpperCase(), colour: TINT[side], values: C.horizon[kind][side] })),
  }).root);
  return card("Mean error over the horizon", null, legend(),
    el("div", { class: "two" }, panel("position_error_mm", "position error, mm", "mm"), panel("rotation_error_deg", "rotation error, \u00b0", "\u00b0")));
}

function pairs() {
  if (!C.moments.length) return null;
  const most = 1.05 * Math.max(...C.moments.flat(), 1);
  const chart = frame({ width: 420, height: 400, x: [0, most], y: [0, most], xlabel: "A, mm", label: "errors of all pairs" });
  chart.body.append(sv("line", { class: "axis", x1: chart.sx(0), y1: chart.sy(0), x2: chart.sx(most), y2: chart.sy(most) }));
  for (const [a, b] of C.moments) chart.body.append(sv("circle", { class: "dot", style: `--c:${b < a ? TINT.b : TINT.a};opacity:.6`, cx: chart.sx(a), cy: chart.sy(b), r: 3 }));
  const rows = C.episodes.map((e) => el("tr", {}, el("td", {}, e.bag), el("td", {}, e.episode + 1), el("td", {}, e.pairs), el("td", {}, fixed(e.a)), el("td", {}, fixed(e.b)),
    el("td", {}, el("span", { class: e.b < e.a ? "better" : "worse" }, signed(e.b - e.a)))));
  return card("Position error after 1\u202fs, every pair", "Below the diagonal B is closer to what the arm did.",
    el("div", { class: "two" }, el("div", {}, el("h3", {}, "B, mm"), chart.root), el("div", { class: "scroll", style: "max-height:430px;overflow-y:auto" }, el("table", {},
      el("thead", {}, el("tr", {}, ["recording", "episode", "pairs", "A, mm", "B, mm", "B \u2212 A"].map((t) => el("th", {}, t)))), el("tbody", {}, rows)))));
}

function closedLoop() {
  const l = C.closed_loop;
  if (!l) return null;
  return card("Success in closed loop", `Of ${l.pairs} seeds that both ran A succeeds on ${l.a}, B on ${l.b}; only A on ${l.only_a}, only B on ${l.only_b} (exact McNemar test: p = ${l.p_value.toFixed(3)}).`);
}

function settings() {
  const text = (v) => (v === null || v === undefined ? "\u2013" : typeof v === "object" ? JSON.stringify(v) : String(v));
  if (!C.settings.length) return card("What differs", "Nothing: model, settings, parameters and versions are the same.");
  return card("What differs", "In model, settings, parameters and versions.", el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {}, el("th", {}, ""), el("th", { class: "text" }, "A"), el("th", { class: "text" }, "B"))),
    el("tbody", {}, C.settings.map((c) => el("tr", {}, el("td", {}, c.name), el("td", { class: "text", style: "overflow-wrap:anywhere" }, text(c.a)), el("td", { class: "text", style: "overflow-wrap:anywhere" }, text(c.b))))))));
}

page.replaceChildren(...[head(), verdict(), C.notes.map((n) => el("div", { class: "notice" }, n)), differences(), closedLoop(), horizon(), pairs(), settings()].flat().filter(Boolean));
