// One recording from end to end, and one prediction of it in full.

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
  const first = D.ranks[firstRank()][0] ?? 0;
  openGroup(M.group[first], first);
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
