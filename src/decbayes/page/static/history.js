// Curves since the page was opened, and events.
import { byId, clock, el, keyed, number, plural, setText, svg } from "./dom.js";

const CURVES = {
  observations: "observations counted",
  components: "number of components",
  score: "score on held-back data of this site, nats per observation",
  objective: "objective J of the alignment, nats",
};
const NOTABLE = new Set(["joined", "left", "born", "gone", "split", "excluded", "flagged", "same_data", "killed"]);
const MOST_LINES = 100;

let points = [];
let marks = [];
let lines = [];

export function drawHistory(history) {
  points = history;
  setText(byId("history-summary"), points.length ? `${plural(points.length, "merge")} in ${clock(points.at(-1).seconds)}; thin lines are members that came or went.` : "Curves begin with the first merge.");
  const known = Object.keys(CURVES).filter((name) => points.some((point) => typeof point[name] === "number") && !(name === "components" && points.every((point) => !point.components)));
  keyed(byId("curves"), known, (name) => name, newCurve, fillCurve);
}

function newCurve(name) {
  const picture = svg("svg", { viewBox: "0 0 300 90", preserveAspectRatio: "none", role: "img" });
  const ticks = (kind) => el("p", { class: kind, "aria-hidden": "true" }, el("span"), el("span"), el("span"));
  return el("div", { class: "curve" }, el("h3", {}, CURVES[name]), el("p", { class: "now" }), el("div", { class: "plot" }, ticks("scale"), picture), ticks("axis"));
}

function fillCurve(curve, name) {
  const known = points.filter((point) => typeof point[name] === "number");
  const [, now, plot, axis] = curve.children;
  const [scale, picture] = plot.children;
  const values = known.map((point) => point[name]);
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const end = Math.max(points.at(-1).seconds, marks.at(-1) ?? 0, 1);
  const x = (seconds) => ((300 * seconds) / end).toFixed(1);
  const y = (value) => (high === low ? 45 : 84 - (78 * (value - low)) / (high - low)).toFixed(1);
  let path = `M${x(known[0].seconds)} ${y(values[0])}`;
  known.slice(1).forEach((point) => (path += `H${x(point.seconds)}V${y(point[name])}`));
  const thin = marks.filter((seconds) => seconds <= end).slice(-60).map((seconds) => svg("line", { x1: x(seconds), x2: x(seconds), y1: 0, y2: 90 }));
  picture.replaceChildren(...thin, svg("path", { d: `${path}H300` }));
  picture.setAttribute("aria-label", `${CURVES[name]}: from ${number(values[0])} to ${number(values.at(-1))}`);
  setText(now, number(values.at(-1)));
  const middle = name === "components" && (low + high) % 2 ? "" : number((low + high) / 2);
  const marked = low === high ? ["", number(low), ""] : [number(high), middle, number(low)];
  [...scale.children].forEach((tick, index) => setText(tick, marked[index]));
  ["0 s", clock(end / 2), `${clock(end)} since the start`].forEach((text, index) => setText(axis.children[index], text));
}

// After a reconnection the last events are sent again.
export function forgetEvents() {
  lines = [];
  marks = [];
}

export function addEvents({ events, missed }) {
  if (missed) lines.unshift({ number: `m${events[0]?.number}`, seconds: events[0]?.seconds ?? 0, text: `… and ${missed} more`, event: "more" });
  for (const event of events) {
    lines.unshift(event);
    if (event.event === "joined" || event.event === "left") marks.push(event.seconds);
  }
  lines = lines.slice(0, MOST_LINES);
  marks = marks.slice(-200);
  keyed(byId("events"), lines, (line) => line.number, (line) => el("li", { class: NOTABLE.has(line.event) ? "notable" : "" }, el("time", {}, clock(line.seconds)), el("span", {}, line.text)), () => {});
}
