/* The frame: the header, and which page an address shows. */

import { entityRoute, get, getRuns, route } from "./api.js";
import { askPage } from "./ask.js";
import { Combobox } from "./combobox.js";
import { called, cut, el, label } from "./dom.js";
import { entityPage, pairPage } from "./entity.js";
import { homePage } from "./home.js";
import { reviewPage } from "./review.js";

const PAGES = { "": homePage, entity: entityPage, match: pairPage, ask: askPage, review: reviewPage };
const main = document.getElementById("main");
const busy = document.getElementById("busy");
const scrolled = new Map();
let run = null;
let shown = null;
let asking = null;
let visit = 0;

/** What the address asks for: "#/entity?side=left&id=x". */
function wanted() {
  const [page, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  return { page, parameters: Object.fromEntries(new URLSearchParams(query)) };
}

/** Shows the page of the address; the old one stays until everything of the new one is there. */
async function show({ first = false } = {}) {
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  const { page, parameters } = wanted();
  busy.classList.add("on");
  let next;
  try {
    next = await (PAGES[page] ?? lostPage)(parameters, { run, signal });
  } catch (error) {
    if (error.name === "AbortError") return;
    next = errorPage(error);
  }
  if (signal.aborted) {
    next.leave?.();
    return;
  }
  shown?.leave?.();
  shown = next;
  busy.classList.remove("on");
  main.replaceChildren(...next.body.flat(9).filter(Boolean));
  main.dataset.shown = location.hash;
  document.title = `${next.title} – ${run?.name ?? "decentRL"}`;
  for (const link of document.querySelectorAll("#pages a")) {
    if (link.dataset.page === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  place(first);
  next.ready?.();
}

/** A new page begins at its top, one that the back button shows where it was left. */
function place(first) {
  const back = history.state?.visit;
  if (back === undefined) history.replaceState({ visit: ++visit }, "");
  window.scrollTo({ top: scrolled.get(history.state.visit) ?? 0, behavior: "instant" });
  if (!first) (main.querySelector("h1[tabindex]") ?? main).focus({ preventScroll: true });
}

function errorPage(error) {
  const near = (error.near ?? []).map((one) => (typeof one === "string" ? { id: one } : one));
  return {
    title: "Not found",
    body: [el("h1", { tabindex: "-1" }, error.status === 404 ? "Not found" : "This did not work"),
      el("p", { class: "lead" }, label(error.message, 500)),
      near.length > 0 && el("div", { class: "card" }, el("h2", {}, "Did you mean"),
        el("ul", { class: "chips" }, near.map((one) => el("li", {}, el("a", { href: entityRoute(one, one.side ?? wanted().parameters.side), dir: "auto" }, label(called(one), 80))))))],
  };
}

const lostPage = () => errorPage({ status: 404, message: "There is no such page." });

/** A choice among the runs, where several are served. */
function runChoice(runs) {
  if (runs.length < 2) return null;
  const choose = (event) => { location.assign(`?${new URLSearchParams({ run: event.currentTarget.value })}`); };
  return el("select", { "aria-label": "Run", class: "runs", onchange: choose },
    runs.map(({ name }) => el("option", { value: name, selected: name === run.name }, cut(name, 40))));
}

function header(runs) {
  const finder = new Combobox({
    label: "Search entities by name", placeholder: "Search by name", sides: run.sides, pick: (entity) => { location.hash = entityRoute(entity); },
  });
  document.getElementById("finder").append(finder.node);
  const pages = run.job === "alignment" ? [["", "Overview"], ["review", "Review"]] : [["", "Overview"], ["ask", "Ask"]];
  document.getElementById("pages").append(...pages.map(([page, title]) => el("a", { href: route(page), "data-page": page }, title)),
    runChoice(runs) ?? "");
  // The address belongs to the pages, so the link moves the focus by hand.
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
}

async function start() {
  history.scrollRestoration = "manual";
  addEventListener("scroll", () => { if (history.state) scrolled.set(history.state.visit, scrollY); }, { passive: true });
  let runs;
  try {
    [run, runs] = await Promise.all([get("run"), getRuns()]);
    run.sides = Object.keys(run.entities).length > 1 ? ["left", "right"] : [""];
  } catch (error) {
    main.replaceChildren(...errorPage(error).body.filter(Boolean));
    return;
  }
  header(runs);
  addEventListener("hashchange", () => show());
  await show({ first: true });
}

start();
