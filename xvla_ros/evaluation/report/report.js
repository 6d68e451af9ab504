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
