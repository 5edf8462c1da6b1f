// One component as a picture: words, an image, a place in space, a profile of columns, or a table of numbers.
import { el, number, percent, svg } from "./dom.js";

export function drawn(drawing, all = []) {
  const draw = { words, image, point, profile, table, numbers, hidden }[drawing?.kind] ?? hidden;
  return draw(drawing, all);
}

export function caption(drawing) {
  if (drawing?.kind === "words") return drawing.words.slice(0, 2).map(([word]) => word).join(", ");
  return "";
}

function words({ words }) {
  const most = Math.max(...words.map(([, weight]) => weight));
  const lines = words.map(([word, weight]) => el("span", { style: { "--part": `${(100 * weight) / most}%` }, title: `${word}: ${percent(weight)}` }, word));
  return el("div", { class: "words" }, ...lines);
}

function image({ shape: [height, width], pixels }) {
  const canvas = el("canvas", { class: "image", width, height, role: "img", "aria-label": `an image of ${height} × ${width} pixels` });
  const context = canvas.getContext("2d");
  const data = context.createImageData(width, height);
  pixels.forEach((grey, index) => data.data.set([255 - grey, 255 - grey, 255 - grey, 255], 4 * index));
  context.putImageData(data, 0, 0);
  return canvas;
}

function table({ entries }) {
  return el("dl", { class: "entries" }, ...entries.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]));
}

const numbers = ({ names, mean }) => table({ entries: names.map((name, index) => [name, number(mean[index])]).slice(0, 8) });

const hidden = (drawing) => el("p", { class: "hidden" }, drawing?.text ?? "not shown");

function profile({ columns }) {
  return el("div", { class: "profile" }, ...columns.flatMap((column) => [el("span", { class: "name", title: column.name }, column.name), column.shares ? shares(column) : interval(column)]));
}

function shares({ name, shares }) {
  const parts = shares.map(([category, share], index) => el("i", { class: "part", style: { width: `${100 * share}%`, opacity: `${Math.max(0.2, 1 - 0.25 * index)}` }, title: `${category}: ${percent(share)}` }));
  const [first, most] = shares[0];
  return el("span", { class: "value" }, el("span", { class: "track", title: name }, ...parts), el("span", {}, `${first} ${percent(most)}`));
}

function interval({ limits: [low, high], mean, low: from, high: to }) {
  const part = (value) => Math.min(100, Math.max(0, (100 * (value - low)) / (high - low || 1)));
  const range = el("i", { class: "range", style: { left: `${part(from)}%`, width: `${part(to) - part(from)}%` } });
  const at = el("i", { class: "at", style: { left: `${part(mean)}%` } });
  return el("span", { class: "value" }, el("span", { class: "track" }, range, at), el("span", {}, low === 0 && high === 1 ? percent(mean) : number(mean)));
}

function point(drawing, all) {
  const pairs = drawing.names.slice(0, 4).map((name, index) => [name, number(drawing.mean[index])]);
  const among = all.length ? all : [drawing];
  const picture = svg("svg", { class: "place", role: "img", "aria-label": `Its place among ${among.length} components` });
  drawBlobs(picture, among, among.indexOf(drawing));
  return el("div", {}, picture, table({ entries: pairs }));
}

// Ellipses of two standard deviations, on one scale; in one dimension, bumps.
export function drawBlobs(picture, drawings, chosen = -1, labels = null) {
  const outlines = drawings.map(outline);
  const points = outlines.flat();
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const flat = drawings[0].mean.length < 2;
  const [width, height] = labels ? [900, 420] : [200, 100];
  const room = labels ? 0.82 : 0.92; // beside the ticks
  let [sx, sy] = [(room * width) / (right - left || 1), (room * height) / (high - low || 1)];
  if (!flat) sx = sy = Math.min(sx, sy);
  const at = ([x, y]) => [width / 2 + sx * (x - (left + right) / 2), height / 2 - sy * (y - (low + high) / 2)];
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const order = [...drawings.keys()].sort((a, b) => (a === chosen) - (b === chosen));
  picture.replaceChildren(
    ...order.map((index) => svg("path", { class: index === chosen ? "blob own" : "blob", d: `M${outlines[index].map((pair) => at(pair).map((v) => v.toFixed(1)).join(" ")).join("L")}` })),
    ...(labels ?? []).map((label, index) => {
      const [x, y] = flat ? at([drawings[index].mean[0], bump(drawings[index], 0) * 0.5]) : at(drawings[index].mean);
      return svg("text", { x, y, "font-size": 20 }, label);
    }),
    ...(labels ? ticks(drawings[0].names, [left, right], flat ? null : [low, high], at) : []),
  );
}

// The smallest, middle and largest value along each axis of the map, and the axis labels.
function ticks(names, across, along, at) {
  const three = ([from, to]) => [from, (from + to) / 2, to];
  const below = three(across).map((value, index) => svg("text", { class: "tick", x: at([value, 0])[0], y: 408, "font-size": 13 }, index === 1 ? `${names[0]}: ${number(value)}` : number(value)));
  const beside = along === null ? [] : three(along).map((value, index) => svg("text", { class: "tick", x: 8, y: Math.min(390, Math.max(14, at([0, value])[1])), "font-size": 13, style: { "text-anchor": "start" } }, index === 1 ? `${names[1]}: ${number(value)}` : number(value)));
  return [...below, ...beside];
}

const bump = ({ covariance: [[variance]] }, z) => Math.exp((-z * z) / 2) / Math.sqrt(variance || 1);

function outline(drawing) {
  const { mean, covariance } = drawing;
  const steps = [...Array(61).keys()];
  if (mean.length < 2) return steps.map((step) => (step - 30) / 8).map((z) => [mean[0] + z * Math.sqrt(covariance[0][0]), bump(drawing, z)]);
  const [[a, b], [, c]] = covariance;
  const first = Math.sqrt(Math.max(a, 1e-12));
  const [cross, second] = [b / first, Math.sqrt(Math.max(c - (b / first) ** 2, 1e-12))];
  return steps.map((step) => (2 * Math.PI * step) / 60).map((t) => [mean[0] + 2 * first * Math.cos(t), mean[1] + 2 * (cross * Math.cos(t) + second * Math.sin(t))]);
}
