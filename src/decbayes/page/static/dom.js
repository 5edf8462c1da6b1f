// Creates elements without markup in strings: names and words from other members never become code.
const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

// The last state of a page that was saved as a file; null on a live page.
export const saved = JSON.parse(byId("saved")?.textContent ?? "null");

export function el(name, properties = {}, ...children) {
  return filled(document.createElement(name), properties, children);
}

export function svg(name, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, name), properties, children);
}

function filled(node, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (key === "style") for (const [name, text] of Object.entries(value)) node.style.setProperty(name, text);
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

// One child per item, in order. Existing children are kept, so that the focus is not lost.
export function keyed(parent, items, key, create, update) {
  const existing = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    let child = existing.get(name);
    if (child) existing.delete(name);
    else {
      child = create(item);
      child.dataset.key = name;
    }
    update(child, item);
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
  }
  for (const child of existing.values()) child.remove();
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
export const count = (value) => (value === undefined || value === null ? "–" : whole.format(value));
export const compact = (value) => (value > 0 && value < 1 ? "<1" : value < 1000 ? whole.format(value) : short.format(value));
export const number = (value) => (Math.abs(value) >= 1000 ? whole.format(value) : String(Number(value.toPrecision(3)))).replace("-", "−");
export const percent = (value) => (value === undefined ? "–" : `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`);
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;
export const natural = new Intl.Collator("en", { numeric: true }).compare;

export function ago(seconds) {
  if (seconds === undefined || seconds === null) return "–";
  if (seconds < 1.5) return "now";
  return seconds < 90 ? `${Math.round(seconds)} s ago` : `${Math.round(seconds / 60)} min ago`;
}

export function clock(seconds) {
  if (seconds < 100) return `${seconds.toFixed(1)} s`;
  if (seconds < 600) return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")} min`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}
