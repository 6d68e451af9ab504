// The report of one evaluation.

const D = JSON.parse(document.getElementById("data").textContent);
const S = D.summary, M = D.moments, N = M.t.length;
const TIMES = ["dt", "1s", "end"];
const DT = S.model.step_dt;
const TIME_NAMES = { dt: fixed(DT, 2, "s"), "1s": "1\u202fs", end: fixed(DT * S.model.horizon, 1, "s") };
const NAMES = { policy: "policy", hold_still: "hold still", constant_velocity: "constant velocity", previous_chunk: "previous chunk" };
const colour = (name) => `var(--${name})`;
const page = document.getElementById("page");
const groups = [...new Set(M.group)];
// Charts over the whole width: drawn as wide as they are shown, so that their text stays readable.
const WIDE = Math.min(1120, Math.max(420, page.clientWidth - 90));
const TICKS = WIDE > 800 ? 12 : 6;

const words = (name) => name.replaceAll("_", " ");
const plural = (n, one, many = one + "s") => `${n} ${n === 1 ? one : many}`;
const groupName = (group) => {
  const i = M.group.indexOf(group);
  return `${S.bags[M.bag[i]].name} \u00b7 episode ${M.episode[i] + 1}`;
};

function card(title, note, ...content) {
  return el("section", { class: "card" }, el("h2", {}, title), note && el("p", { class: "soft small" }, note), content);
}

// ---- head ---------------------------------------------------------------------------------------

function head() {
  const counts = S.counts;
  const told = [...new Set(M.instruction)].filter(Boolean);
  const title = S.kind === "sim" ? "Closed loop in simulation" : S.kind === "replay" ? "Live replay" : "Evaluation on recordings";
  const themes = { auto: "Auto", light: "Light", dark: "Dark" };
  const theme = el("select", { class: "no-print", "aria-label": "colours", onchange: (e) => setTheme(e.target.value) },
    Object.entries(themes).map(([value, text]) => el("option", { value }, text)));
  return el("header", {},
    el("div", {},
      el("h1", {}, title, ": ", S.model.name),
      el("div", { class: "soft" },
        [plural(counts.predictions, "prediction"), plural(counts.episodes, "episode"), plural(counts.bags, "recording"),
          fixed(counts.duration_s / 60, 1, "min")].join(" \u00b7 ")),
      told.length > 0 && el("div", { class: "soft" }, told.slice(0, 4).map((t) => `\u201c${t}\u201d`).join("  "),
        told.length > 4 && ` and ${told.length - 4} more`)),
    theme);
}

function setTheme(value) {
  if (value === "auto") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.dataset.theme = value;
}

function verdict() {
  const own = S.methods.policy;
  if (!own) return el("p", { class: "verdict" }, "There is no prediction.");
  const at = ["1s", "end", "dt"].find((name) => known(own.position_error_mm[name].mean));
  if (!at) return el("p", { class: "verdict" }, "No prediction can be compared: the recordings end before the first step.");
  const loop = S.closed_loop;
  const parts = [loop ? `The policy succeeds in ${loop.successes} of ${plural(loop.episodes, "episode")}. ` : "", `After ${TIME_NAMES[at]} the policy is on average ${fixed(own.position_error_mm[at].mean, 1, "mm")} and `
    + `${fixed(own.rotation_error_deg[at].mean, 1, "\u00b0")} away from where the arm went`];
  const ratios = Object.entries(S.relative || {}).map(([name, r]) => [name, r.position[at]]).filter(([name, r]) => known(r) && name !== "previous_chunk");
  if (ratios.length) {
    const [name, ratio] = ratios.reduce((a, b) => (b[1] > a[1] ? b : a));
    parts.push(ratio < 1
      ? `, ${ratio < 0.995 ? fixed(1 / ratio, 1) + " times closer" : "no closer"} than the best simple guess, ${NAMES[name]}.`
      : `: ${fixed(ratio, 1)} times farther than the best simple guess, ${NAMES[name]}.`);
    const turned = S.relative[name].rotation[at];
    if (known(turned) && (turned > 1.05) !== (ratio > 1.05)) parts.push(` In rotation it is ${turned > 1 ? fixed(turned, 1) + " times farther" : fixed(1 / turned, 1) + " times closer"}.`);
  } else parts.push(".");
  return el("p", { class: "verdict" }, parts.join(""));
}

function tiles() {
  const own = S.methods.policy;
  if (!own) return null;
  const items = [];
  const tile = (value, text) => items.push(el("div", { class: "tile" }, el("b", {}, value), el("span", {}, text)));
  if (S.closed_loop) {
    const c = S.closed_loop, [low, high] = c.success_interval_95;
    tile(percent(c.success_rate), `success: ${c.successes} of ${c.episodes} (95\u202f% interval ${Math.round(100 * low)}\u2013${Math.round(100 * high)}\u202f%)`);
    if (known(c.seconds_to_success)) tile(fixed(c.seconds_to_success, 1, "s"), "mean time to success");
  }
  const at = ["1s", "end", "dt"].find((name) => known(own.position_error_mm[name].mean)) || "1s";
  tile(fixed(own.position_error_mm[at].mean, 1, "mm"), `position error after ${TIME_NAMES[at]} (p95 ${fixed(own.position_error_mm[at].p95, 1)})`);
  tile(fixed(own.rotation_error_deg[at].mean, 1, "\u00b0"), `rotation error after ${TIME_NAMES[at]} (p95 ${fixed(own.rotation_error_deg[at].p95, 1)})`);
  tile(percent(own.gripper_agreement.all), "of steps with the same gripper command");
  const l = S.limits;
  if (l && l.checked) tile(percent(l.any / l.checked), "of chunks would meet a limit of the scheduler");
  const refused = Object.values(S.refusals || {}).reduce((a, b) => a + b, 0);
  if (refused) tile(refused, "chunks would be refused");
  const network = D.latency.network.filter(known).sort((a, b) => a - b);
  if (network.length) tile(fixed(quantile(network, 0.5), 1, "ms"), `network per chunk on ${S.model.device} (p95 ${fixed(quantile(network, 0.95), 0)})`);
  return el("div", { class: "tiles" }, items);
}

function notices() {
  const lines = [];
  for (const bag of S.bags) {
    if (bag.status === "failed") lines.push(el("div", { class: "notice bad" }, `${bag.name}: ${bag.message}`));
    else if (bag.status === "partial") lines.push(el("div", { class: "notice" }, `${bag.name} could be read in part only`));
  }
  for (const [name, note] of Object.entries(D.notes)) lines.push(el("div", { class: "notice" }, `${name}: ${note}`));
  for (const note of S.notes || []) lines.push(el("div", { class: "notice" }, note));
  return lines.length ? el("section", {}, lines) : null;
}

// ---- methods ------------------------------------------------------------------------------------

function methods() {
  const rows = Object.entries(S.methods);
  if (!rows.length) return null;
  const kinds = [["position_error_mm", "mm"], ["rotation_error_deg", "\u00b0"]];
  const best = {};
  for (const [kind] of kinds) for (const at of TIMES) {
    const means = rows.map(([, m]) => m[kind][at].mean).filter(known);
    best[kind + at] = Math.min(...means);
  }
  const cell = (kind, at, value) => el("td", { class: known(value) && value === best[kind + at] ? "best" : null }, fixed(value));
  const body = rows.map(([name, m]) => el("tr", {},
    el("td", {}, swatch(colour(name)), NAMES[name] || name),
    kinds.flatMap(([kind]) => TIMES.map((at) => cell(kind, at, m[kind][at].mean))),
    el("td", {}, percent(m.gripper_agreement.all)),
    el("td", {}, name === "policy" ? "" : ratio(S.relative[name]?.position["1s"])),
    el("td", {}, m.predictions)));
  return card("Against simple guesses",
    "Mean errors against the pose that the arm then reached; bold is the smallest. The guesses see no camera: the arm stays where it is, "
    + "goes on at its present velocity, or the chunk of the observation before still holds. A recording is one way to do the task, not the only one.",
    el("div", { class: "scroll" }, el("table", {},
      el("thead", {},
        el("tr", {}, el("th", {}), el("th", { colspan: 3, style: "text-align:center" }, "position error, mm, after"),
          el("th", { colspan: 3, style: "text-align:center" }, "rotation error, \u00b0, after"), el("th", {}, "gripper"), el("th", {}, "policy to guess,"), el("th", {})),
        el("tr", {}, el("th", {}), kinds.flatMap(() => TIMES.map((at) => el("th", {}, TIME_NAMES[at]))), el("th", {}, "agrees"), el("th", {}, "mm at 1\u202fs"), el("th", {}, "predictions"))),
      el("tbody", {}, body))));
}

function ratio(value) {
  if (!known(value)) return "\u2013";
  return el("span", { class: value < 1 ? "better" : "worse" }, "\u00d7\u202f" + value.toFixed(2));
}

function horizon() {
  const names = Object.keys(S.methods).filter((name) => S.horizon[name]);
  if (!names.length) return null;
  const hidden = new Set();
  const xs = S.horizon.time_s;
  const holder = el("div", { class: "two" });
  const draw = () => {
    holder.replaceChildren(...[["position_error_mm", "position error, mm", "mm"], ["rotation_error_deg", "rotation error, \u00b0", "\u00b0"]].map(([kind, label, unit]) => {
      const series = names.filter((name) => !hidden.has(name)).map((name) => {
        const q = S.horizon[name][kind];
        return { name: NAMES[name] || name, colour: colour(name), values: q.p50, band: name === "policy" ? [q.p10, q.p90] : null, dash: name !== "policy" };
      });
      const spread = S.horizon.policy?.spread_mm;
      if (spread && unit === "mm" && !hidden.has("spread")) series.push({ name: "spread of seeds", colour: "var(--good)", values: spread, thin: true });
      return el("div", {}, el("h3", {}, label), lineChart({ xs, series, xlabel: "time after the observation, s", label, unit }).root);
    }));
  };
  const toggle = (name, text, tint) => {
    const button = el("button", { "aria-pressed": "true", onclick: () => {
      if (!hidden.delete(name)) hidden.add(name);
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      draw();
    } }, swatch(tint), text);
    return button;
  };
  const keys = names.map((name) => toggle(name, NAMES[name] || name, colour(name)));
  if (S.horizon.policy?.spread_mm) keys.push(toggle("spread", "spread of seeds", "var(--good)"));
  draw();
  return card("Error over the horizon", "Median; the band is where 80\u202f% of the policy\u2019s predictions lie. Names switch lines on and off.",
    el("div", { class: "legend" }, keys), holder);
}

// ---- pictures -----------------------------------------------------------------------------------

function shot(picture) {
  const path = (points) => {
    let text = "", pen = false;
    for (const p of points) {
      if (!p.every(known) || Math.abs(p[0]) > 4 || Math.abs(p[1]) > 4) { pen = false; continue; }
      text += (pen ? "L" : "M") + p.join(" ");
      pen = true;
    }
    return text;
  };
  const over = [];
  if (picture.p) {
    const line = (kind, points) => sv("path", { class: "over " + kind, d: path(points), "vector-effect": "non-scaling-stroke" });
    over.push(sv("svg", { viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" },
      line("halo", picture.p), line("halo", picture.a), line("p", picture.p), line("a", picture.a)));
  }
  return el("div", { class: "shot" }, el("img", { src: picture.src, alt: `view ${picture.slot}`, loading: "lazy" }), over);
}

function thumb(index) {
  const pictures = D.frames[index] || [];
  const main = pictures[0];
  return main ? shot(main) : el("div", { class: "shot" }, el("div", { class: "none" }, "no picture"));
}

// ---- one episode --------------------------------------------------------------------------------

const RANK_NAMES = { mm_1s: "position at 1\u202fs", deg_1s: "rotation at 1\u202fs", mm_end: "position at the end", grip: "gripper" };
const score = (rank, i) => (rank === "grip" ? `${percent(1 - M.agree[i])} of steps differ`
  : fixed(M[rank][i], 1, rank.startsWith("deg") ? "\u00b0" : "mm"));

function firstRank() {
  return Object.keys(RANK_NAMES).find((rank) => D.ranks[rank].length) || "mm_1s";
}

// What was done and what would have been done, from each chunk the steps until the next one.
function joined(members) {
  const rows = { t: [], actual: [], planned: [], command: [], held: [] };
  const period = members.length > 1 ? (M.t[members[members.length - 1]] - M.t[members[0]]) / (members.length - 1) : DT;
  members.forEach((i, n) => {
    const chunk = D.chunks[i];
    if (!chunk) return;
    const next = members[n + 1] !== undefined ? M.t[members[n + 1]] : M.t[i] + period;
    const steps = Math.min(chunk.c.length, Math.max(1, Math.ceil((next - M.t[i]) / DT - 1e-6)));
    for (let k = 0; k < steps; k++) {
      rows.t.push(M.t[i] + (k + 1) * DT);
      rows.actual.push(chunk.a[k + 1]);
      rows.planned.push(chunk.p[k + 1]);
      rows.command.push(chunk.c[k]);
      rows.held.push(chunk.ag[k]);
    }
  });
  return rows;
}

function explorer() {
  if (!N) return null;
  const where = el("select", { "aria-label": "episode", onchange: () => openGroup(Number(where.value)) },
    groups.map((group) => el("option", { value: group }, groupName(group))));
  const lines = el("div"), film = el("div", { class: "film" }), detail = el("div");
  const space = new Space("predicted and actual path of the moment");
  const whole = new Space("paths of the whole episode", 760, 420);
  let members = [], charts = [];

  function openGroup(group, index) {
    members = M.group.flatMap((g, i) => (g === group ? [i] : []));
    where.value = group;
    drawLines();
    const shots = members.filter((i) => D.frames[i] && D.film.includes(i));
    film.replaceChildren(...shots.map((i) => el("button", { "data-moment": i, title: "show this moment", onclick: () => select(i) },
      thumb(i), el("small", {}, `${fixed(M.t[i], 1, "s")} \u00b7 ${fixed(M.mm_1s[i], 0, "mm")}`))));
    const rows = joined(members);
    whole.show([
      ...members.filter((i) => D.chunks[i]).map((i) => ({ points: D.chunks[i].p, colour: colour("policy"), thin: true })),
      { points: rows.actual, colour: colour("actual"), ends: true }]);
    select(index ?? shots[0] ?? members[0], false);
  }

  function drawLines() {
    const xs = members.map((i) => M.t[i]);
    const rows = joined(members);
    const span = [xs[0], Math.max(xs[xs.length - 1], xs[0] + 0.5, ...rows.t.slice(-1))];
    const choose = (n) => select(members[n]);
    const error = lineChart({
      width: WIDE, height: 190, xs, x: span, xticks: TICKS, label: "position error over time",
      series: [["dt", "var(--constant_velocity)"], ["1s", "var(--policy)"], ["end", "var(--previous_chunk)"]].map(([at, tint]) => (
        { name: `after ${TIME_NAMES[at]}`, colour: tint, values: members.map((i) => M[`mm_${at}`][i]), thin: at === "dt" })),
      unit: "mm", choose,
    });
    const grip = frame({ width: WIDE, height: 92, x: span, y: [-0.08, 1.08], xticks: TICKS, yticks: 2, xlabel: "time in the recording, s", label: "gripper over time" });
    const held = track(rows.t, rows.held, grip.sx, grip.sy);
    grip.body.append(sv("path", { class: "line", style: "--c:var(--actual)", d: held }));
    grip.body.append(sv("path", { class: "line", style: "--c:var(--policy);stroke-width:1.6", d: track(rows.t, rows.command, grip.sx, grip.sy, true) }));
    follow(grip, xs, (n) => [el("b", {}, fixed(xs[n], 1, "s")), el("div", {}, `agreement over the chunk: ${percent(M.agree[members[n]])}`)], choose);
    charts = [error, grip];
    lines.replaceChildren(
      el("h3", {}, "Position error by prediction, mm"),
      el("div", { class: "legend" }, [["dt", "constant_velocity"], ["1s", "policy"], ["end", "previous_chunk"]].map(([at, name]) => el("span", {}, swatch(colour(name)), `after ${TIME_NAMES[at]}`))),
      error.root,
      el("h3", { style: "margin-top:8px" }, "Gripper, 1 = closed"),
      el("div", { class: "legend" }, el("span", {}, swatch("var(--actual)"), "recorded"), el("span", {}, swatch("var(--policy)"), "command that the scheduler would give")),
      grip.root);
  }

  function select(i, scroll = true) {
    if (M.group[i] !== Number(where.value)) { openGroup(M.group[i], i); return; }
    for (const button of film.children) {
      const mine = Number(button.dataset.moment) === i;
      button.setAttribute("aria-current", String(mine));
      if (mine && scroll) film.scrollTo({ left: button.offsetLeft - film.offsetLeft - film.clientWidth / 2 + 75, behavior: "smooth" });
    }
    for (const chart of charts) {
      chart.root.querySelector(".now")?.remove();
      const x = chart.sx(M.t[i]);
      chart.root.append(sv("line", { class: "now", x1: x, x2: x, y1: chart.top, y2: chart.height - chart.bottom }));
    }
    detail.replaceChildren(moment(i, space, select, members));
  }

  explorer.select = (i) => {
    select(i);
    detail.scrollIntoView({ behavior: "smooth", block: "start" });
  };
  openGroup(groups[0], D.ranks[firstRank()].find((i) => M.group[i] === groups[0]));
  return card("Through the recording", "Click into the lines or on a picture to look at that prediction.",
    el("div", { class: "bar no-print" }, groups.length > 1 && where), lines,
    el("h3", { style: "margin-top:12px" }, "Film strip"), film, detail,
    el("h3", { style: "margin-top:20px" }, "The whole episode in space"),
    el("div", { class: "legend" }, el("span", {}, swatch(colour("actual")), "where the arm went"), el("span", {}, swatch(colour("policy")), "every predicted chunk")),
    el("div", { style: "max-width:900px;margin:0 auto" }, whole.node));
}

function moment(i, space, select, members) {
  const chunk = D.chunks[i];
  const pictures = D.frames[i] || [];
  const at = members.indexOf(i);
  const step = (n, text) => el("button", { disabled: members[at + n] === undefined, onclick: () => select(members[at + n]) }, text);
  const bar = el("div", { class: "bar", style: "margin-top:14px" },
    el("h3", { style: "margin:0;font-size:16px" }, `Prediction at ${fixed(M.t[i], 2, "s")}`), el("span", { class: "push" }),
    el("span", { class: "no-print bar", style: "margin:0" }, step(-1, "\u2190 earlier"), step(1, "later \u2192")));
  const chips = [
    ...M.limits[i].map((name, n) => el("span", { class: "chip" }, `${words(name)} from step ${(chunk?.limit_steps[n] ?? 0) + 1}`)),
    M.refusal[i] && el("span", { class: "chip bad" }, `refused: ${words(M.refusal[i].toLowerCase())}`)];
  const fact = (name, ...value) => [el("dt", {}, name), el("dd", {}, value)];
  const facts = el("dl", { class: "facts" },
    fact("position error", TIMES.filter((t) => known(M[`mm_${t}`][i])).map((t) => `${fixed(M[`mm_${t}`][i], 1, "mm")} after ${TIME_NAMES[t]}`).join(", ")),
    fact("rotation error", TIMES.filter((t) => known(M[`deg_${t}`][i])).map((t) => `${fixed(M[`deg_${t}`][i], 1, "\u00b0")} after ${TIME_NAMES[t]}`).join(", ")),
    fact("gripper", `${percent(M.agree[i])} of the steps agree`),
    chips.some(Boolean) && fact("scheduler", chips),
    fact("instruction", M.instruction[i] || "\u2013"),
    fact("provenance", `${S.bags[M.bag[i]].name}, stamp ${M.stamp[i]} ns, noise seed ${M.seed[i]}, network ${fixed(M.network[i], 1, "ms")}`));
  const none = el("div", { class: "shot" }, el("div", { class: "none" },
    D.notes[S.bags[M.bag[i]].name] || "This page holds the pictures of the film strip and of the worst moments only."));
  const left = el("div", {}, pictures.length ? shot(pictures[0]) : none,
    pictures.length > 1 && el("div", { class: "two", style: "margin-top:10px;gap:10px" }, pictures.slice(1).map(shot)),
    pictures.some((p) => p.p)
      ? el("p", { class: "soft small", style: "margin-top:6px" }, el("span", { class: "key", style: "--c:#4aa3ff" }), "predicted, dotted: where the arm went")
      : pictures.length ? el("p", { class: "soft small", style: "margin-top:6px" }, "The camera is not calibrated: no path in the picture.") : null);
  if (!chunk) return el("div", {}, bar, el("div", { class: "detail" }, left, el("div", {}, el("p", { class: "soft" }, "This page holds only some chunks of a recording this long; predictions.parquet has all."), facts)));
  space.show([{ points: chunk.a, colour: colour("actual"), ends: true }, { points: chunk.p, colour: colour("policy"), ends: true }]);
  const right = el("div", {}, el("div", { class: "legend" }, el("span", {}, swatch(colour("policy")), "predicted"), el("span", {}, swatch(colour("actual")), "where the arm went")), space.node, facts);
  return el("div", {}, bar, el("div", { class: "detail" }, left, right), axes(chunk));
}

function axes(chunk) {
  const xs = chunk.p.map((_, k) => k * DT);
  const pair = (name, predicted, actual, unit, extra = {}) => {
    const series = [{ name: "actual", colour: colour("actual"), values: actual }, { name: "predicted", colour: colour("policy"), values: predicted, ...extra }];
    return el("div", {}, el("h3", {}, name), lineChart({ xs, x: [0, xs[xs.length - 1]], y: extent(series.flatMap((s) => [s.values, ...(s.band || [])])), series, unit, height: 180, width: 380, left: 40, yticks: 4, label: name }).root);
  };
  const pick = (rows, axis) => rows.map((row) => row[axis]);
  const spread = chunk.s && [0, ...chunk.s];
  const positions = ["x", "y", "z"].map((name, axis) => {
    const values = pick(chunk.p, axis);
    const band = spread && [values.map((v, k) => v - spread[k]), values.map((v, k) => v + spread[k])];
    return pair(`${name}, mm`, values, pick(chunk.a, axis), "mm", band ? { band } : {});
  });
  const turns = ["x", "y", "z"].map((name, axis) => pair(`turn about ${name}, \u00b0`, pick(chunk.pr, axis), pick(chunk.ar, axis), "\u00b0"));
  const steps = chunk.c.map((_, k) => (k + 1) * DT);
  const grip = lineChart({ xs: steps, x: [0, steps[steps.length - 1]], y: [-0.08, 1.08], yticks: 2, height: 130, width: WIDE, xticks: TICKS, xlabel: "time after the observation, s", label: "gripper of the chunk",
    series: [{ name: "recorded", colour: colour("actual"), values: chunk.ag }, { name: "probability of closed", colour: colour("policy"), values: chunk.g, thin: true }, { name: "command", colour: colour("policy"), values: chunk.c, held: true }] });
  return el("div", { style: "margin-top:14px" }, el("div", { class: "three" }, positions, turns), el("h3", { style: "margin-top:10px" }, "gripper, 1 = closed"), grip.root);
}

// ---- worst, latency, limits, recordings, parameters ---------------------------------------------

function worst() {
  if (!N || !Object.values(D.ranks).some((list) => list.length)) return null;
  const list = el("div", { class: "worst" });
  const fill = (rank) => list.replaceChildren(...D.ranks[rank].map((i, n) => el("button", { class: "moment", "data-moment": i, onclick: () => explorer.select(i) },
    thumb(i), el("div", {}, el("b", {}, `${n + 1}. ${score(rank, i)}`)), el("small", {}, `${groupName(M.group[i])} at ${fixed(M.t[i], 1, "s")}`),
    M.refusal[i] && el("span", { class: "chip bad" }, "refused"), M.limits[i].slice(0, 1).map((name) => el("span", { class: "chip" }, words(name))))));
  const rank = el("select", { "aria-label": "kind of error", onchange: () => fill(rank.value) },
    Object.entries(RANK_NAMES).filter(([name]) => D.ranks[name].length).map(([name, text]) => el("option", { value: name }, text)));
  fill(firstRank());
  return card("Worst moments", "Largest error first, each event once. A click opens the prediction.", el("div", { class: "bar no-print" }, rank), list);
}

function latency() {
  const network = histogram({ values: D.latency.network, colour: colour("policy"), xlabel: "ms", label: "latency of the network" });
  // A live chunk was made in another process.
  const rest = S.kind === "replay" ? null : histogram({ values: D.latency.overhead, colour: colour("constant_velocity"), xlabel: "ms", label: "everything else" });
  if (!network) return null;
  const panel = (title, h) => h && el("div", {}, el("h3", {}, title), h.root,
    el("p", { class: "soft small" }, `p50 ${fixed(h.p50, 1, "ms")}, p95 ${fixed(h.p95, 1, "ms")}, largest ${fixed(h.max, 1, "ms")}; ${plural(h.count, "value")}${h.beyond ? `, ${h.beyond} beyond the figure` : ""}`));
  const wall = D.timing.wall_s;
  return card("Latency", `Measured on ${S.model.device}${known(wall) ? `; the evaluation took ${fixed(wall, 0, "s")} with ${plural(D.timing.jobs, "process", "processes")}` : ""}.`,
    el("div", { class: "two" }, panel("network, a chunk", network), panel(S.kind === "bag" ? "reading, decoding and judging, an observation" : "everything else", rest)));
}

function limits() {
  const l = S.limits;
  if (!l || !l.checked) return null;
  const rows = [...Object.entries(l.counts).map(([name, n]) => [words(name), n, "acts"]),
    ...Object.entries(S.refusals || {}).map(([name, n]) => [words(name.toLowerCase()), n, "refuses the chunk"])];
  if (!rows.length) return card("Limits", "No chunk would meet a limit of the scheduler within the trusted horizon.");
  return card("Limits", "What the scheduler\u2019s limits would do to the chunks within the trusted horizon.",
    el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, "limit"), el("th", {}, "chunks"), el("th", {}, "share"), el("th", { class: "text" }))),
      el("tbody", {}, rows.map(([name, n, what]) => el("tr", {}, el("td", {}, name), el("td", {}, n), el("td", {}, percent(n / l.checked)), el("td", { class: "text soft" }, what)))))));
}

function recordings() {
  const rows = S.bags.flatMap((bag, number) => (bag.episodes || []).map((e) => {
    const group = groups.find((g) => { const i = M.group.indexOf(g); return M.bag[i] === number && M.episode[i] === e.index; });
    return el("tr", {}, el("td", {}, bag.name), el("td", {}, group === undefined ? e.index + 1 : el("a", { href: "#", onclick: (event) => { event.preventDefault(); explorer.select(M.group.indexOf(group)); } }, e.index + 1)),
      el("td", {}, fixed(e.end_s - e.start_s, 1)), el("td", {}, e.predictions), el("td", {}, fixed(e.position_error_mm["1s"])), el("td", {}, fixed(e.position_error_mm.end)),
      el("td", {}, fixed(e.rotation_error_deg["1s"])), S.closed_loop && el("td", {}, e.outcome || ""), el("td", { class: "text" }, e.instruction));
  }));
  const said = S.bags.flatMap((bag) => [
    ...(bag.warnings || []).map((w) => el("div", { class: "notice" }, `${bag.name}: ${w}`)),
    ...Object.entries(bag.no_observation || {}).map(([why, n]) => el("div", { class: "soft small" }, `${bag.name}: no observation ${plural(n, "time")}: ${why}`))]);
  const used = S.bags.filter((bag) => bag.views?.length).slice(0, 8).map((bag) => el("div", { class: "soft small" },
    `${bag.name}: ${bag.views.map((v) => `view ${v.slot} ${v.topic}`).join(", ")}${bag.joint_states ? `; joints ${bag.joint_states}` : ""}`));
  return card("Recordings", null, el("div", { class: "scroll", style: "max-height:420px;overflow-y:auto" }, el("table", {},
    el("thead", {}, el("tr", {}, el("th", {}, "recording"), el("th", {}, "episode"), el("th", {}, "s"), el("th", {}, "predictions"), el("th", {}, "mm at 1\u202fs"), el("th", {}, "mm at the end"), el("th", {}, "\u00b0 at 1\u202fs"), S.closed_loop && el("th", {}, "outcome"), el("th", { class: "text" }, "instruction"))),
    el("tbody", {}, rows))), el("div", { style: "margin-top:10px" }, used, said));
}

function replay() {
  const r = S.replay;
  if (!r) return null;
  const share = (n, of) => `${n} of ${of} (${percent(of ? n / of : null)})`;
  return card("Live and offline", "The nodes\u2019 chunks beside what the offline engine sees and predicts at the same stamps.",
    el("dl", { class: "facts" },
      [["observations found again", share(r.observations_found, r.live_chunks)], ["same images", share(r.same_views, r.observations_found)],
        ["same proprio", share(r.same_proprio, r.observations_found)], ["proprio that differs by a joint state the node did not get", share(r.lost_joints, r.observations_found)], ["same actions for the same input", share(r.same_actions, r.same_views)],
        ["largest difference of those", r.largest_difference.toExponential(1)]].map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    r.others.map((text) => el("div", { class: "soft small" }, text)));
}

function provenance() {
  const table = (content) => el("pre", {}, Object.entries(content).map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join("\n"));
  const block = (title, content, open) => content && Object.keys(content).length > 0 && el("details", { open }, el("summary", {}, title), table(content));
  return card("Parameters and versions", null, block("model", S.model, true), block("settings", S.settings, true), block("versions", S.versions, true),
    Object.entries(S.parameters || {}).map(([node, values]) => block(`parameters of ${node}`, values, false)));
}

page.replaceChildren(...[head(), verdict(), tiles(), notices(), methods(), horizon(), worst(), explorer(), limits(), replay(), latency(), recordings(), provenance()].filter(Boolean));
