// Listens to the agent and draws the newest values, at most a few times a second.
import { byId, saved, setText } from "./dom.js";
import { drawAlignment } from "./alignment.js";
import { addEvents, drawHistory, forgetEvents } from "./history.js";
import { drawNetwork, travel } from "./network.js";
import { drawFailure, drawPosterior } from "./posterior.js";

const LATE_SECONDS = 6; // silence after which something is wrong
const waiting = new Map();
let lastNews = 0;
let ended = "";
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
  source.onopen = () => { forgetEvents(); open = true; lastNews = Date.now(); showState(); };
  source.onerror = () => { open = false; showState(); };
  on("network", (network) => { lastNews = Date.now(); later("network", () => { introduce(network); drawNetwork(network); }); showState(); });
  on("history", (history) => later("history", () => drawHistory(history)));
  on("posterior", ask);
  on("ended", (text) => { ended = text; showState(); });
  on("events", (message) => { for (const event of message.events.slice(-8)) travel(event); addEvents(message); });
  // A page that was left must not keep its connection.
  addEventListener("pagehide", () => source.close());
}

// Posteriors are fetched: a slow browser asks again after drawing, and then gets the newest one.
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
  const quiet = Math.round((Date.now() - lastNews) / 1000);
  const state = saved ? "saved" : ended ? "finished" : !open ? (lastNews ? "lost" : "connecting") : quiet > LATE_SECONDS ? "late" : "live";
  pill.dataset.state = state;
  setText(pill, { connecting: "connecting", live: "live", late: "no news", lost: "disconnected", finished: "finished", saved: "saved" }[state]);
  const notice = byId("notice");
  notice.hidden = state === "live" || state === "connecting";
  notice.classList.toggle("calm", Boolean(ended));
  byId("views").classList.toggle("stale", state === "late" || state === "lost");
  byId("save").hidden = Boolean(saved) || !open;
  if (ended) setText(notice, ended);
  else if (saved) notice.hidden = true;
  if (state === "lost") setText(notice, "The agent cannot be reached: it has stopped, or the connection is down. Below is the last known state. The page continues as soon as the agent answers.");
  if (state === "late") setText(notice, `No news from the agent for some time. It may be busy or stopped. Below is the last known state.`);
}

const THEMES = ["auto", "light", "dark"];
let chosen = "auto";
try { chosen = localStorage.getItem("theme") ?? "auto"; } catch { /* nothing is kept */ }
function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  setText(byId("theme"), `Theme: ${theme}`);
  chosen = theme;
  try { localStorage.setItem("theme", theme); } catch { /* files and private windows keep nothing */ }
}
byId("theme").addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(chosen) + 1) % THEMES.length]));
setTheme(chosen);
byId("detail").addEventListener("click", (event) => { if (event.target === byId("detail")) byId("detail").close(); });

function showSaved() {
  ended = saved.ended ?? "";
  if (saved.network) { introduce(saved.network); drawNetwork(saved.network); }
  if (saved.history) drawHistory(saved.history);
  addEvents({ events: saved.events, missed: 0 });
  if (saved.posterior?.error) drawFailure(saved.posterior.error);
  else if (saved.posterior) { drawPosterior(saved.posterior); drawAlignment(saved.posterior); }
  showState();
}

if (saved) showSaved();
else {
  setInterval(showState, 1000);
  listen();
}
