// The trading page: routes, theme, and the state of the connection. Elements of other modules are
// mounted by name: import a module here to define its elements.

import { app, loadInfo, loadMarkets, on, textOf } from "./app.js";
import { el } from "./common.js";
import "./funds.js";
import "./market_view.js";
import "./markets_view.js";
import "./own.js";
import "./ticket.js";
import "./wallet.js";

const main = document.getElementById("main");
const note = document.getElementById("stale-note");
const theme = document.getElementById("theme");

// ----- routes: #/ is the list of markets, #/m/{marketId} a market ------------------------------

const ROUTE = /^#\/m\/(.+)$/;

let visits = 0;

async function visit() {
  const number = ++visits;
  let view;
  try {
    const [, name] = ROUTE.exec(location.hash) ?? [];
    if (!name) loadMarkets().catch(notice);
    view = document.createElement(name ? "clob-market" : "clob-markets");
    // Unlike decodeURIComponent, this accepts any text.
    if (name) await view.load(new URLSearchParams(`=${name}`).get(""));
  } catch (error) {
    view = el("p", { className: "result bad", role: "alert" }, `This market cannot be shown: ${textOf(error)}`);
  }
  if (number !== visits) return;
  problem.hidden = true;
  const title = view.market ? view.market.question || view.market.marketId : "markets";
  document.title = `clob: ${title}`;
  main.replaceChildren(view);
  if (number > 1) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
}

// ----- theme --------------------------------------------------------------------------------

function toggleTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  try {
    localStorage.setItem("clob-theme", root.dataset.theme);
  } catch {
    // Storage is blocked: the theme lasts as long as the page.
  }
}

// ----- problems ------------------------------------------------------------------------------

const problem = document.getElementById("notice");

function notice(error) {
  app.emit("notice", textOf(error));
}

for (const name of ["error", "unhandledrejection"]) {
  addEventListener(name, ({ error, reason = error }) => reason && notice(reason));
}

on("notice", (text) => {
  problem.textContent = text;
  problem.hidden = false;
});

// ----- connection ---------------------------------------------------------------------------

// A page that never had current data is grey, without a line that would move it at each visit.
function showConnection({ state, text, isCurrent }) {
  document.body.classList.toggle("is-stale", !isCurrent);
  if (isCurrent && !app.info) loadInfo().catch(notice);
  note.hidden = isCurrent || state === "connecting";
  note.textContent = `The prices below are not current: ${text}.`;
}

// State of the feed, as a badge; screen readers announce the state, not the seconds of silence.
class Connection extends HTMLElement {
  connectedCallback() {
    this.badge = el("span", { className: "badge", ariaHidden: "true" });
    this.status = el("span", { className: "unseen", role: "status" });
    this.append(this.badge, this.status);
    this.end = on("feed", (state) => this.show(state));
    this.show(app.feed);
  }

  disconnectedCallback() {
    this.end();
  }

  show({ state, text, isCurrent }) {
    this.badge.textContent = text;
    this.badge.className = `badge ${isCurrent ? "open" : "shut"}`;
    if (this.state !== state) this.status.textContent = `Connection: ${text}`;
    this.state = state;
  }
}

customElements.define("clob-connection", Connection);
theme.onclick = toggleTheme;
on("feed", showConnection);
addEventListener("hashchange", visit);
app.feed.start();
showConnection(app.feed);
if (ROUTE.test(location.hash)) loadMarkets().catch(notice);
visit();
