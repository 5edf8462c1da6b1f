// Members and links: a picture for an overview, a table with all details.
import { ago, byId, count, keyed, percent, plural, setText, svg, el } from "./dom.js";

const FEW = 14; // up to this many names are beside their nodes; with more members names point outwards
const TRAVEL = { duration: 900, easing: "ease-in-out" };
const MOST_TRAVELLERS = 24;
const still = matchMedia("(prefers-reduced-motion: reduce)");

let places = new Map();
let margin = 0; // room for the longest name
let letters = 22; // longer names are cut
let shown = null;

export function drawNetwork(network) {
  shown = network;
  const members = network.members;
  const kinds = members.map(kindOf);
  const up = kinds.filter((kind) => kind === "up" || kind === "self").length;
  const gone = kinds.filter((kind) => kind === "gone").length;
  const inState = (state) => members.filter((member) => member.state === state).length;
  const removed = inState("removed");
  const parts = [plural(members.length - removed, "member"), `${up} up`, gone ? `${gone} gone` : null, removed ? `${removed} removed` : null];
  parts.push(network.sums ? "only sums are opened" : `${plural(inState("counted"), "contribution")} in the merge`);
  if (inState("in the prior")) parts.push(`${plural(inState("in the prior"), "member")} in the prior`);
  const summary = parts.filter(Boolean).join(", ");
  setText(byId("network-summary"), network.intervals ? `${summary}. Intervals of the merge: ${network.intervals}.` : `${summary}.`);
  byId("graph").setAttribute("aria-label", `Graph of ${summary}; the table below has the same`);
  const { settled = [], pending = [] } = network.decisions ?? {};
  drawAttention(network.problems ?? [], pending);
  drawDecisions(settled);
  drawList("sums", network.sums ?? []);
  drawGraph(network, kinds);
  drawTable(members, kinds);
}

addEventListener("resize", () => shown && drawNetwork(shown));

function kindOf(member) {
  if (["excluded", "removed"].includes(member.state)) return "excluded";
  if (member.link === "none") return member.version === undefined ? "unheard" : "known";
  return member.link;
}

// Whatever needs action is at the top: problems, flags, approvals, motions that lack votes.
function drawAttention(problems, pending) {
  const waiting = pending.map((motion) => `Vote: ${motion.text}? ${motion.votes.length} of ${motion.needed} votes so far (${motion.votes.join(", ")}). decbayes tell vote STORE ${motion.motion}`);
  byId("attention").hidden = !problems.length && !waiting.length;
  drawList("problems", problems);
  drawList("pending", waiting);
}

function drawDecisions(settled) {
  const decided = settled.map((motion) => `${motion.state === "overruled" ? "without effect, voted" : "decided"} by ${motion.votes.join(", ")}: ${motion.text}`);
  drawList("decisions", decided.reverse());
}

function drawList(id, texts) {
  const list = byId(id);
  list.hidden = !texts.length;
  keyed(list, texts, (text) => text, () => el("li"), (item, text) => setText(item, text.replaceAll("`", "")));
}

function drawGraph(network, kinds) {
  const graph = byId("graph");
  const dense = network.members.length > FEW;
  const narrow = graph.clientWidth < 480;
  const [width, height] = dense ? [600, 600] : narrow ? [420, 360] : [640, 440];
  letters = narrow && !dense ? 13 : 22;
  margin = 30 + 6.6 * Math.min(letters, Math.max(...network.members.map((member) => member.name.length), 0));
  graph.setAttribute("viewBox", `0 0 ${width} ${height}`);
  places = placed(network, width, height, dense);
  for (const id of ["orbits", "links", "nodes", "travellers"]) {
    if (!graph.querySelector(`#${id}`)) graph.append(svg("g", { id }));
  }
  const orbit = network.viewpoint ? [null] : [];
  keyed(graph.querySelector("#orbits"), orbit, () => "orbit", () => svg("ellipse", { class: "orbit" }), (ring) => {
    const [rx, ry] = radii(width, height, dense);
    for (const [key, value] of Object.entries({ cx: width / 2, cy: height / 2, rx, ry })) ring.setAttribute(key, value);
  });
  keyed(graph.querySelector("#links"), network.links, linkKey, () => svg("line", { class: "link" }), (line, [a, b]) => {
    const [from, to] = [places.get(a), places.get(b)];
    if (from && to) for (const [key, value] of Object.entries({ x1: from.x, y1: from.y, x2: to.x, y2: to.y })) line.setAttribute(key, value);
  });
  const pairs = network.members.map((member, index) => ({ member, kind: kinds[index] }));
  keyed(graph.querySelector("#nodes"), pairs, ({ member }) => member.name, newNode, (node, pair) => placeNode(node, pair, dense));
}

const linkKey = ([a, b]) => [a, b].sort().join("\n");

function radii(width, height, dense) {
  return dense ? [width / 2 - margin, height / 2 - margin] : [width / 2 - margin - 10, height / 2 - 50];
}

// The viewing agent is in the middle; without one, all members are on the ring.
function placed(network, width, height, dense) {
  const found = new Map();
  const ring = network.members.filter((member) => member.name !== network.viewpoint);
  const [rx, ry] = radii(width, height, dense);
  ring.forEach((member, index) => {
    const angle = (2 * Math.PI * index) / ring.length - Math.PI / 2;
    found.set(member.name, { x: width / 2 + rx * Math.cos(angle), y: height / 2 + ry * Math.sin(angle), angle });
  });
  if (network.viewpoint) found.set(network.viewpoint, { x: width / 2, y: height / 2, angle: null });
  return found;
}

function newNode() {
  return svg("g", { class: "node" }, svg("circle", { class: "ring" }), svg("circle", { class: "body" }), svg("text", { class: "name" }), svg("text", { class: "mark", "text-anchor": "middle" }));
}

function placeNode(node, { member, kind }, dense) {
  const place = places.get(member.name);
  const flagged = (member.flags ?? []).length > 0;
  node.setAttribute("class", `node ${kind}${flagged ? " flagged" : ""}${member.behind ? " behind" : ""}`);
  node.setAttribute("transform", `translate(${place.x} ${place.y})`);
  const size = (dense ? 6 : 9) + Math.min(dense ? 5 : 9, 22 * Math.sqrt(member.share ?? 0) * (dense ? 0.4 : 0.6));
  const [ring, body, name, mark] = node.children;
  ring.setAttribute("r", size + 4);
  body.setAttribute("r", size);
  setText(name, member.name.length > letters ? `${member.name.slice(0, letters - 1)}…` : member.name);
  setText(mark, kind === "excluded" ? "✕" : "⚑");
  const inward = dense && place.angle !== null;
  if (kind === "excluded") set(mark, { x: 0, y: 5 });
  else if (inward) set(mark, { x: -(size + 10) * Math.cos(place.angle), y: 5 - (size + 10) * Math.sin(place.angle) });
  else set(mark, { x: size, y: -size });
  label(name, place.angle, size + 8, dense);
}

function label(text, angle, gap, dense) {
  if (angle === null) return set(text, { x: 0, y: gap + 10, "text-anchor": "middle", transform: "" });
  const [across, down] = [Math.cos(angle), Math.sin(angle)];
  if (dense) {
    const left = across < 0;
    const degrees = (angle * 180) / Math.PI + (left ? 180 : 0);
    return set(text, { x: left ? -gap : gap, y: 4, "text-anchor": left ? "end" : "start", transform: `rotate(${degrees})` });
  }
  const anchor = across > 0.25 ? "start" : across < -0.25 ? "end" : "middle";
  const y = anchor === "middle" ? (down > 0 ? gap + 10 : -gap) : 4;
  return set(text, { x: anchor === "start" ? gap : anchor === "end" ? -gap : 0, y, "text-anchor": anchor, transform: "" });
}

function set(node, attributes) {
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
}

// Version numbers start at random, so that none is used twice after a lost disk; the last digits tell them apart.
const shortVersion = (version) => (version === undefined ? "–" : version > 9999 ? `…${String(version).slice(-4)}` : String(version));

const WORDS = { self: "this agent", up: "up", silent: "linked, silent", gone: "gone", starting: "starting", known: "known through others", unheard: "nothing published yet", excluded: "excluded" };

function drawTable(members, kinds) {
  const pairs = members.map((member, index) => ({ member, kind: kinds[index] }));
  const create = () => el("tr", {}, el("th", { scope: "row" }), ...["", "number", "number", "number", "number"].map((name) => el("td", { class: name })));
  keyed(byId("members").tBodies[0], pairs, ({ member }) => member.name, create, (row, { member, kind }) => {
    row.className = kind;
    const [name, state, version, observations, share, lastMessage] = row.children;
    setText(name, member.name);
    const words = [kind === "excluded" ? member.state : WORDS[kind] ?? kind];
    if (member.behind) words.push("behind");
    if (member.charter === "another") words.push("uses another charter");
    if (member.state && !["counted", "excluded", "removed"].includes(member.state) && kind !== "unheard") words.push(member.state === "not heard of" ? WORDS.unheard : member.state);
    const flags = member.flags ?? [];
    const text = words.join(", ");
    if (state.dataset.text !== text + flags) {
      state.dataset.text = text + flags;
      state.replaceChildren(text, ...flags.map((flag) => el("span", { class: "flag" }, `⚑ ${flag}`)));
    }
    setText(version, shortVersion(member.version));
    version.title = member.version ?? "";
    setText(observations, [member.in_prior, member.observations].filter(Boolean).map(count).join(" + ") || "–");
    setText(share, percent(member.share));
    setText(lastMessage, kind === "self" ? "–" : ago(member.seconds_ago));
  });
}

// A dot runs along the link by which a record arrived, or to the neighbours when one is published.
export function travel(event) {
  if (!shown || still.matches || document.hidden) return;
  const me = event.to ?? shown.viewpoint;
  if (event.event === "accepted" && event.through) run(event.through, me);
  else if (event.event === "published") for (const [a, b] of shown.links) if (a === me || b === me) run(me, a === me ? b : a);
}

function run(from, to) {
  const layer = byId("graph").querySelector("#travellers");
  const [start, end] = [places.get(from), places.get(to)];
  if (!layer || !start || !end || from === to || layer.childElementCount >= MOST_TRAVELLERS) return;
  const dot = svg("circle", { class: "traveller", r: 6 });
  layer.append(dot);
  const at = ({ x, y }) => ({ transform: `translate(${x}px, ${y}px)` });
  dot.animate([at(start), at(end)], TRAVEL).finished.then(() => dot.remove(), () => dot.remove());
}
