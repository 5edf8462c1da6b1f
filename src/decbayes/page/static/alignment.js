// Sites × components: where each site's components went, and which of these matches are close calls.
import { byId, compact, el, plural, setText } from "./dom.js";
import { caption } from "./drawing.js";
import { amount, byName, labelsOf, matchText, nameOf } from "./posterior.js";

export function drawAlignment(posterior) {
  const { components, sites } = posterior;
  const hasMatches = components.length > 0 && sites.length > 0;
  byId("matrix").hidden = byId("alignment-legend").hidden = !hasMatches;
  setText(byId("alignment-summary"), summary(posterior, hasMatches));
  if (!hasMatches) return;
  const totals = sites.map((_, site) => components.reduce((sum, { cells }) => sum + (cells.find((cell) => cell.site === site)?.evidence ?? 0), 0));
  const head = components.map((component) => heading(posterior, component));
  byId("matrix").tHead.replaceChildren(el("tr", {}, el("td", { class: "none" }), ...head));
  byId("matrix").tBodies[0].replaceChildren(...byName(sites).map((site) => row(posterior, site, totals[site])));
}

function summary({ components, sites, rows, duplicates, unlike, sureness, reason }, hasMatches) {
  if (!hasMatches && sites.length) return "This model has no components to align: contributions are added as they are.";
  if (!hasMatches && (components.length || rows?.length)) return "No contribution of a single site is known, so there is nothing to align.";
  if (!hasMatches) return "Once two sites have published, this shows which components match.";
  const cells = components.flatMap((component) => component.cells);
  const close = cells.filter((cell) => cell.close).length;
  const alone = sites.length > 1 ? components.filter((component) => component.cells.length === 1).length : 0;
  const parts = [`${plural(cells.length, "match", "matches")}, ${close ? `${close} of them ${close === 1 ? "a close call" : "close calls"}` : "none a close call"}`];
  if (alone) parts.push(`${plural(alone, "component")} found by one site only`);
  if (sureness === "probability") parts.push("probabilities were learned from simulations of sites like these");
  if (duplicates?.length) parts.push(`nearly the same: ${duplicates.map((pair) => pair.join(" and ")).join("; ")}`);
  if (unlike?.length) parts.push(`mixing different things: ${unlike.join(", ")}`);
  return `${parts.join("; ")}.${reason ? ` ${reason}` : ""}`;
}

function heading(posterior, { slot, cells, drawing }) {
  const alone = cells.length === 1 && posterior.sites.length > 1;
  const title = alone ? `${nameOf(posterior, slot)}: found by ${posterior.sites[cells[0].site]} only` : nameOf(posterior, slot);
  return el("th", { scope: "col", title }, alone ? el("span", { class: "private" }, "◆ ") : null, String(slot), el("span", { class: "caption" }, caption(drawing)));
}

function row(posterior, site, total) {
  const cells = posterior.components.map((component) => {
    const cell = component.cells.find((candidate) => candidate.site === site);
    if (!cell) return el("td", { class: "none" }, "·");
    const part = total ? (cell.evidence ?? 0) / total : 0;
    const shade = 6 + 42 * Math.min(1, part * Math.max(1.5, posterior.components.length / 3));
    const match = cell.match === null ? "" : `; ${matchText(cell, posterior.sureness)}`;
    const title = `${posterior.sites[site]}, ${nameOf(posterior, component.slot)}: ${amount(cell.evidence, posterior)} ${posterior.unit}s from ${labelsOf(cell)}${match}`;
    return el("td", { class: cell.close ? "weak" : "", style: { "--part": `${shade.toFixed(0)}%` }, title }, (cell.evidence === null ? `<${posterior.least}` : compact(cell.evidence)) + (cell.close ? " ?" : ""));
  });
  return el("tr", {}, el("th", { scope: "row" }, posterior.sites[site]), ...cells);
}
