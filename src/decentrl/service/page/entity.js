/* The page of an entity, and that of a pair. */

import { entityRoute, get, route, soon } from "./api.js";
import { bar, called, card, el, label, percent, scored } from "./dom.js";
import { attributes, heading, mark, names, triples } from "./facts.js";
import { WhyPlace, reasonsList, sharedOf } from "./why.js";

const PATIENCE = 700; // milliseconds that a page waits for its reasons

let vectorless = false; // answers by paths need no vectors of entities, so nothing is near

/** An entity with its facts, and either its matches or the questions it can be part of. */
export async function entityPage({ id, side }, { run, signal }) {
  const who = { id, side };
  const matching = run.job === "alignment";
  const [entity, matches, near] = await Promise.all([
    get("entity", who, signal),
    matching ? get("matches", { ...who, top: 5 }, signal).catch(without) : null,
    vectorless ? null : get("neighbours", { ...who, top: 6 }, signal).catch(without),
  ]);
  vectorless ||= !matching && Boolean(near?.refused);
  const asked = matching ? matchCards(entity, matches, signal) : { cards: questionCard(entity, run) };
  await soon(asked.first, PATIENCE);
  const about = [card("", {}, names(entity), attributes(entity), triples(entity)), vectorCard(entity, near)];
  return {
    title: called(entity),
    body: [heading(entity), el("div", { class: "columns" }, el("div", {}, asked.cards), el("div", {}, about))],
  };
}

/** A part of the page that the run has no answer for is left out, not an error. */
function without(error) {
  if (error.name === "AbortError") throw error;
  return { refused: error.message };
}

const pair = (entity, other) => (entity.side === "left" ? { left: entity.id, right: other.id } : { left: other.id, right: entity.id });

/** The matches, and the reasons for one of them: `first` is done when these are there. */
function matchCards(entity, found, signal) {
  const { matches } = found;
  if (found.refused || !matches.length) {
    return { cards: card("Best matches", {}, el("p", { class: "soft" }, found.refused ?? "There is no candidate for it.")) };
  }
  const why = new WhyPlace();
  const show = (other) => why.show(get("explain/match", pair(entity, other), signal),
    ...(entity.side === "left" ? [entity, other] : [other, entity]), ["Why ", label(called(other), 60)]);
  const choose = (other, button) => {
    for (const each of button.closest("ol").querySelectorAll("button")) each.setAttribute("aria-pressed", String(each === button));
    show(other);
  };
  const first = matches.find((other) => other.chosen) ?? matches[0];
  const rows = matches.map((other) => matchRow(entity, other, other === first, choose));
  return {
    first: show(first),
    cards: [card("Best matches", {}, el("p", { class: "note" }, howSure(found)), el("ol", { class: "matches" }, rows)), why.node],
  };
}

/** What is known, or found, of an entity's counterpart. */
function howSure({ known, matches, none_below: least }) {
  const chosen = matches.some((one) => one.chosen);
  if (known) return ["A known link joins it to ", el("a", { href: entityRoute(known), dir: "auto" }, label(called(known), 80)), "."];
  if (chosen) return "The first is its match.";
  return typeof least === "number" ? `None is a match: that takes a confidence of ${percent(least)}.` : "None of these is its match.";
}

function matchRow(entity, other, pressed, choose) {
  const sure = other.confidence ?? null;
  return el("li", { class: other.chosen ? "match chosen" : "match" },
    el("span", { class: "match-name" },
      el("a", { href: entityRoute(other), dir: "auto" }, label(called(other), 120)),
      other.chosen && el("span", { class: "tag good" }, "match")),
    el("span", { class: "match-sure" }, bar(sure ?? 0, sure === null ? "none" : ""),
      el("span", { class: "number", title: "confidence" }, sure === null ? `score ${scored(other.score)}` : percent(sure)),
      el("span", { class: "hidden" }, sure === null ? "" : " sure")),
    el("span", { class: "match-do" },
      el("button", { class: "quiet", type: "button", "aria-pressed": String(pressed), onclick: (event) => choose(other, event.currentTarget) },
        "Why", el("span", { class: "hidden" }, " ", called(other))),
      el("a", { class: "quiet", href: route("match", pair(entity, other)) }, "Compare", el("span", { class: "hidden" }, " with ", called(other)))));
}

function questionCard(entity, run) {
  const { relations } = run;
  const link = (relation, at) => el("a", { href: route("ask", { [at]: entity.id, relation }), dir: "auto" }, label(called(relation), 60));
  return card("Ask", {},
    el("p", { class: "soft" }, "Which triples are missing? Choose a relation with this entity as its head, or as its tail."),
    el("ul", { class: "asks" }, relations.map((relation) => el("li", {},
      link(relation, "head"), el("span", { class: "soft" }, " → ?"))),
    ),
    el("details", {}, el("summary", {}, "As the tail"), el("ul", { class: "asks" }, relations.map((relation) => el("li", {},
      el("span", { class: "soft" }, "? → "), link(relation, "tail"))))));
}

/** What its vector is made of, asked when it is opened, and what is near it. */
function vectorCard(entity, near) {
  if (!near || near.refused) return null;
  const place = el("div", { class: "made-of" });
  const opened = async (event) => {
    if (!event.currentTarget.open || place.childElementCount) return;
    place.replaceChildren(el("p", { class: "soft" }, "…"));
    const found = await get("explain", { id: entity.id, side: entity.side }).catch(without);
    place.replaceChildren(found.refused ? el("p", { class: "soft" }, found.refused) : reasonsList(found.reasons.slice(0, 10), entity.side));
  };
  return card("Its vector", {},
    el("h3", {}, "Nearest entities"),
    el("ul", { class: "chips" }, near.neighbours.map((one) => el("li", {}, el("a", { href: entityRoute(one), dir: "auto" }, label(called(one), 60))))),
    el("details", { ontoggle: opened }, el("summary", {}, "What it is made of"), place));
}

/** Two entities side by side. */
export async function pairPage({ left, right }, { signal }) {
  const asked = get("explain/match", { left, right }, signal);
  const [one, two, found] = await Promise.all([
    get("entity", { id: left, side: "left" }, signal), get("entity", { id: right, side: "right" }, signal), soon(asked, PATIENCE),
  ]);
  const compared = new Compared(one, two, asked, found);
  return {
    title: `${called(one)} – ${called(two)}`,
    body: [el("h1", { tabindex: "-1" }, "Side by side"), compared.panels, compared.why],
  };
}

/** The facts of two entities, and the reasons; what both have is marked, and first if it is known at once. */
export class Compared {
  constructor(left, right, asked, found) {
    const shared = sharedOf(found);
    const panel = (entity, side) => card("", { class: `panel ${side}`, "aria-label": `${side} entity` },
      heading({ ...entity, side }, "h2"), names(entity), attributes(entity), triples({ ...entity, side }, shared[side]));
    const sides = { left: panel(left, "left"), right: panel(right, "right") };
    this.panels = el("div", { class: "columns even" }, sides.left, sides.right);
    const place = new WhyPlace();
    this.why = place.node;
    place.show(asked, left, right, "Why").then((late) => {
      for (const [side, node] of Object.entries(sides)) mark(node, sharedOf(late)[side]);
    });
  }
}
