// The merged components, the sites that support each, and on a click each site's contribution.
import { byId, compact, count, el, keyed, natural, number, percent, plural, saved, setText } from "./dom.js";
import { drawBlobs, drawn } from "./drawing.js";

let shown = null;

export function matchText({ match }, sureness) {
  if (match === null) return "no other slot to compare with";
  return sureness === "probability" ? `belongs here with probability ${percent(match)}` : `the next best slot is ${number(match)} nats worse`;
}

// Evidence that is too little to be shown has no number.
export const amount = (evidence, posterior, text = count) => (evidence === null ? `fewer than ${posterior.least}` : text(evidence));

export const byName = (sites) => [...sites.keys()].sort((a, b) => natural(sites[a], sites[b]));

export const labelsOf = ({ components }) => `its ${components.length === 1 ? "component" : "components"} ${components.join(", ")}`;

export const nameOf = (posterior, slot) => posterior.components.find((component) => component.slot === slot)?.name || `${posterior.noun[0].toUpperCase()}${posterior.noun.slice(1)} ${slot}`;

export function drawPosterior(posterior) {
  const first = shown === null;
  const changed = !first && shown.set !== posterior.set;
  const before = new Map((shown?.components ?? []).map((component) => [component.slot, JSON.stringify(component.drawing)]));
  shown = posterior;
  const components = posterior.components;
  summarise(posterior);
  drawOverview(components);
  byId("cards").classList.toggle("broad", components.some((component) => component.drawing.kind === "profile"));
  const drawings = components.map((component) => component.drawing).filter((drawing) => drawing.kind === "point");
  if (!components.length && posterior.rows?.length) {
    byId("cards").replaceChildren(rowTable(posterior.rows));
    return;
  }
  keyed(byId("cards"), components, ({ slot }) => slot, newCard, (card, component) => {
    fillCard(card, posterior, component, drawings);
    const news = changed && before.get(component.slot) !== JSON.stringify(component.drawing);
    card.classList.toggle("changed", news);
  });
}

// What belongs to no component, such as coefficients: one table.
function rowTable(rows) {
  const names = [...new Set(rows.flatMap((entries) => entries.map(([name]) => name)))];
  const ratio = names.findIndex((name) => name.endsWith("ratio"));
  if (ratio > 1) names.splice(1, 0, ...names.splice(ratio, 1)); // the first that people look for, also on a phone
  const line = (entries) => names.map((name, place) => el(place ? "td" : "th", place ? {} : { scope: "row" }, new Map(entries).get(name) ?? ""));
  const head = el("thead", {}, el("tr", {}, ...names.map((name) => el("th", { scope: "col" }, name))));
  const table = el("table", {}, head, el("tbody", {}, ...rows.map((entries) => el("tr", {}, ...line(entries)))));
  return el("div", { class: "scroll rows", tabindex: "0", role: "region", "aria-label": "Estimates" }, table);
}

function summarise(posterior) {
  const line = byId("posterior-summary");
  const { components, sites } = posterior;
  line.classList.remove("error");
  const known = components.length > 0 || (posterior.rows ?? []).length > 0;
  if (!sites.length) setText(line, known ? `${asAWhole(posterior)} from earlier data or from sums over all members. No contribution of a single site is known.` : "No site has published anything yet. Components appear here with the first contribution.");
  else if (!components.length) setText(line, `${records(posterior)} of ${plural(sites.length, "site")}, merged.`);
  else setText(line, `${plural(components.length, posterior.noun)} from ${records(posterior)} of ${plural(sites.length, "site")}. Choose one to see what each site contributed.`);
}

// A robust merge may count only some of the observations.
function records({ observations, counting }) {
  return `${plural(observations, "observation")}${counting === undefined ? "" : ` (${count(counting)} count)`}`;
}

// Private sums do not reveal the number of observations.
function asAWhole(posterior) {
  const { components, noun, observations } = posterior;
  const what = components.length ? plural(components.length, noun) : "The posterior";
  return observations ? `${what} from ${records(posterior)},` : what;
}

export function drawFailure(why) {
  const line = byId("posterior-summary");
  line.classList.add("error");
  setText(line, `The contributions could not be merged: ${why}`);
}

function drawOverview(components) {
  const overview = byId("overview");
  const points = components.filter((component) => component.drawing.kind === "point");
  overview.toggleAttribute("hidden", points.length < 2);
  if (points.length < 2) return;
  const names = points[0].drawing.names;
  overview.setAttribute("aria-label", `${points.length} components by ${names.slice(0, 2).join(" and ")}: ellipses of two standard deviations`);
  drawBlobs(overview, points.map((component) => component.drawing), -1, points.map((component) => String(component.slot)));
}

function newCard(component) {
  return el("button", { class: "card", type: "button", "aria-haspopup": "dialog", onclick: () => openDetail(component.slot) });
}

function fillCard(card, posterior, component, drawings) {
  const content = JSON.stringify([component, posterior.sites]);
  if (card.content === content) return;
  card.content = content;
  const { cells, slot } = component;
  const supporters = new Set(cells.map((cell) => cell.site));
  const squares = byName(posterior.sites).map((site) => el("i", { class: supporters.has(site) ? "has" : "" }));
  const alone = cells.length === 1 && posterior.sites.length > 1;
  const support = alone ? `only ${posterior.sites[cells[0].site]}` : `${cells.length} of ${plural(posterior.sites.length, "site")}`;
  const supported = el("span", {}, el("span", { class: "support", "aria-hidden": "true" }, ...squares), el("span", { class: alone ? "alone" : "" }, support), " · ");
  card.replaceChildren(
    el("span", { class: "title" }, el("span", {}, nameOf(posterior, slot)), el("span", {}, percent(component.share))),
    drawn(component.drawing, drawings),
    el("span", { class: "foot" }, cells.length ? supported : null, `${amount(component.evidence, posterior, compact)} ${posterior.unit}s`),
  );
}

async function openDetail(slot) {
  const component = shown.components.find((candidate) => candidate.slot === slot);
  if (!component) return;
  const posterior = shown;
  setText(byId("detail-title"), nameOf(posterior, slot));
  const apart = component.cells.length > 0;
  const from = apart ? ` from ${component.cells.length} of ${plural(posterior.sites.length, "site")}` : "";
  setText(byId("detail-summary"), `${amount(component.evidence, posterior)} ${posterior.unit}s${from}; ${percent(component.share)} of all evidence.`);
  byId("detail-merged").replaceChildren(drawn(component.drawing));
  byId("detail-sites-title").hidden = byId("detail-sites").hidden = !apart;
  const sites = byId("detail-sites");
  sites.replaceChildren(el("li", {}, "…"));
  byId("detail").showModal();
  const answer = saved ? saved.details?.[slot] : await fetch(`components/${slot}`).then((response) => response.json()).catch(() => null);
  const versions = new Map((answer ?? []).map(({ site, drawing }) => [site, onScaleOf(component.drawing, drawing)]));
  const all = [component.drawing, ...versions.values()].filter((drawing) => drawing.kind === "point");
  byId("detail-merged").replaceChildren(drawn(component.drawing, all));
  sites.replaceChildren(...component.cells.map((cell) => siteCard(posterior, component, cell, versions.get(cell.site), all)));
}

// Profiles are compared on the scales of the merge.
function onScaleOf(merged, drawing) {
  if (drawing.kind !== "profile" || merged.kind !== "profile") return drawing;
  return { ...drawing, columns: drawing.columns.map((column, index) => ({ ...column, limits: merged.columns[index]?.limits ?? column.limits })) };
}

function siteCard(posterior, component, cell, drawing, all) {
  const match = matchText(cell, posterior.sureness);
  const share = cell.evidence === null ? "" : `, ${percent(cell.evidence / component.evidence)}`;
  return el(
    "li", {},
    el("b", {}, posterior.sites[cell.site]),
    el("div", { class: "bar", style: { "--part": `${(100 * (cell.evidence ?? 0)) / (component.cells[0].evidence ?? 1)}%` } }),
    el("span", {}, `${amount(cell.evidence, posterior)} ${posterior.unit}s${share}`),
    drawing ? drawn(drawing, all) : el("p", { class: "hidden" }, "not shown: only the largest are drawn"),
    el("span", { class: "facts" }, `${labelsOf(cell)}; ${match}; ${number(cell.apart)} nats per ${posterior.unit} from the merge`),
  );
}
