// Listens to the agent, and draws the newest values, a few times a second at most.
import { byId, setText } from "./dom.js";
import { drawAlignment } from "./alignment.js";
import { addEvents, drawHistory, forgetEvents } from "./history.js";
import { drawNetwork, travel } from "./network.js";
import { drawFailure, drawPosterior } from "./posterior.js";

const LATE_SECONDS = 6; // after so long without news something is wrong
const waiting = new Map();
let heard = 0;
let open = false;
let asking = false;
let again = false;

// If values come faster than they can be drawn, only the newest are drawn.
function later(name, draw) {
  if (!waiting.size) requestAnimationFrame(drawAll);
  waiting.set(name, draw);
}

function drawAll() {
  const draws = [...waiting.values()];
  waiting.clear();
  for (const draw of draws) draw();
}

function listen() {
  const source = new EventSource("stream");
  const on = (name, take) => source.addEventListener(name, (message) => take(JSON.parse(message.data)));
  source.onopen = () => { forgetEvents(); open = true; heard = Date.now(); showState(); };
  source.onerror = () => { open = false; showState(); };
  on("network", (network) => { heard = Date.now(); later("network", () => { introduce(network); drawNetwork(network); }); showState(); });
  on("history", (history) => later("history", () => drawHistory(history)));
  on("posterior", ask);
  on("events", (told) => { for (const event of told.events.slice(-8)) travel(event); addEvents(told); });
  // A page that was left must not keep a connection.
  addEventListener("pagehide", () => source.close());
}

// Posteriors are fetched: a slow browser asks again after drawing, and gets the newest one then.
async function ask() {
  if (asking) { again = true; return; }
  asking = true;
  do {
    again = false;
    const posterior = await fetch("posterior.json").then((answer) => answer.json()).catch(() => null);
    if (posterior?.error) drawFailure(posterior.error);
    else if (posterior) later("posterior", () => { drawPosterior(posterior); drawAlignment(posterior); });
  } while (again);
  asking = false;
}

function introduce(network) {
  const who = network.viewpoint ? `seen by ${network.viewpoint}` : "seen from outside";
  document.body.classList.remove("blank");
  setText(byId("group"), `${network.group}`);
  setText(byId("about"), [network.model, who, network.software ? `decbayes ${network.software}` : "", network.charter ? `charter ${network.charter}` : ""].filter(Boolean).join(" · "));
  setText(document.querySelector("title"), `${network.group}: ${network.viewpoint ?? "all sites"} · decbayes`);
}

function showState() {
  const pill = byId("connection");
  const quiet = Math.round((Date.now() - heard) / 1000);
  const state = !open ? (heard ? "lost" : "connecting") : quiet > LATE_SECONDS ? "late" : "live";
  pill.dataset.state = state;
  setText(pill, { connecting: "connecting", live: "live", late: "no news", lost: "disconnected" }[state]);
  const notice = byId("notice");
  notice.hidden = state === "live" || state === "connecting";
  byId("views").classList.toggle("stale", !notice.hidden);
  if (state === "lost") setText(notice, "The agent cannot be reached: it has stopped, or the connection is down. Below is the last known state. The page continues as soon as the agent answers.");
  if (state === "late") setText(notice, `No news from the agent for some time. It may be busy or stopped. Below is the last known state.`);
}

const THEMES = ["auto", "light", "dark"];
function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  setText(byId("theme"), `Theme: ${theme}`);
  localStorage.setItem("theme", theme);
}
byId("theme").addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(localStorage.getItem("theme") ?? "auto") + 1) % THEMES.length]));
setTheme(localStorage.getItem("theme") ?? "auto");
byId("detail").addEventListener("click", (event) => { if (event.target === byId("detail")) byId("detail").close(); });
setInterval(showState, 1000);
listen();
