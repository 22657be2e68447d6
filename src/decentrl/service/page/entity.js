/* The page of an entity, and that of a pair. */

import { entityRoute, get, route } from "./api.js";
import { bar, called, card, el, label, percent, scored } from "./dom.js";
import { attributes, heading, names, triples } from "./facts.js";
import { reasonsList, whyCard } from "./why.js";

const PATIENCE = 1500; // milliseconds that the page waits for its last part

/** An entity with its facts, and either its matches or the questions it can be part of. */
export async function entityPage({ id, side }, { run, signal }) {
  const who = { id, side };
  const matching = run.job === "alignment";
  const [entity, matches, near] = await Promise.all([
    get("entity", who, signal),
    matching ? get("matches", { ...who, top: 5 }, signal).catch(without) : null,
    get("neighbours", { ...who, top: 6 }, signal).catch(without),
  ]);
  const first = matches?.matches?.[0];
  const found = first && get("explain/match", pair(entity, first), signal).catch(without);
  await Promise.race([found, new Promise((done) => { setTimeout(done, PATIENCE); })]);
  const about = [
    card("", {}, names(entity), attributes(entity), triples(entity)),
    vectorCard(entity, near),
  ];
  const asked = matching ? matchCards(entity, matches, found) : questionCard(entity, run);
  return {
    title: called(entity),
    body: [heading(entity), el("div", { class: "columns" }, el("div", {}, asked), el("div", {}, about))],
  };
}

/** A part of the page that the run has no answer for is left out, not an error. */
function without(error) {
  if (error.name === "AbortError") throw error;
  return { refused: error.message };
}

const pair = (entity, other) => (entity.side === "left" ? { left: entity.id, right: other.id } : { left: other.id, right: entity.id });

function matchCards(entity, matches, found) {
  if (!matches || matches.refused) return card("Best matches", {}, el("p", { class: "soft" }, matches?.refused));
  if (!matches.matches.length) return card("Best matches", {}, el("p", { class: "soft" }, "There is no candidate for it."));
  const place = el("div", { class: "place" });
  let last = null;
  const show = async (asked, other) => {
    last = asked;
    place.setAttribute("aria-busy", "true");
    const explanation = await asked.catch(() => null); // null: the page was left
    if (last !== asked || !explanation) return;
    place.removeAttribute("aria-busy");
    const [left, right] = entity.side === "left" ? [entity, other] : [other, entity];
    place.replaceChildren(explanation.refused
      ? card("Why", {}, el("p", { class: "soft" }, explanation.refused))
      : whyCard(explanation, left, right, ["Why ", label(called(other), 60)]));
  };
  place.append(card("Why", {}, el("p", { class: "soft" }, "Looking for reasons …")));
  show(found, matches.matches[0]);
  const choose = (other, button) => {
    for (const each of button.closest("ol").querySelectorAll("button")) each.setAttribute("aria-pressed", String(each === button));
    show(get("explain/match", pair(entity, other)).catch(without), other);
  };
  return [
    card("Best matches", {},
      el("p", { class: "note" }, howSure(matches)),
      el("ol", { class: "matches" }, matches.matches.map((other, i) => matchRow(entity, other, i, choose)))),
    place,
  ];
}

/** What is known, or found, of an entity's counterpart. */
function howSure({ known, matches, none_below: least }) {
  const chosen = matches.some((one) => one.chosen);
  if (known) return ["A known link joins it to ", el("a", { href: entityRoute(known), dir: "auto" }, label(called(known), 80)), "."];
  if (chosen) return "The first is its match.";
  return typeof least === "number" ? `None is a match: that takes a confidence of ${percent(least)}.` : "None of these is its match.";
}

function matchRow(entity, other, i, choose) {
  const sure = other.confidence ?? null;
  return el("li", { class: other.chosen ? "match chosen" : "match" },
    el("span", { class: "match-name" },
      el("a", { href: entityRoute(other), dir: "auto" }, label(called(other), 120)),
      other.chosen && el("span", { class: "tag good" }, "match")),
    el("span", { class: "match-sure" }, bar(sure ?? 0, sure === null ? "none" : ""),
      el("span", { class: "number", title: "confidence" }, sure === null ? `score ${scored(other.score)}` : percent(sure)),
      el("span", { class: "hidden" }, sure === null ? "" : " sure")),
    el("span", { class: "match-do" },
      el("button", { class: "quiet", type: "button", "aria-pressed": String(i === 0), onclick: (event) => choose(other, event.currentTarget) },
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
  const [one, two, found] = await Promise.all([
    get("entity", { id: left, side: "left" }, signal),
    get("entity", { id: right, side: "right" }, signal),
    get("explain/match", { left, right }, signal).catch(without),
  ]);
  return {
    title: `${called(one)} – ${called(two)}`,
    body: [
      el("h1", { class: "hidden", tabindex: "-1" }, "Two entities side by side"),
      el("p", { class: "lead" }, verdict(found, two)),
      sideBySide(one, two, found),
      found.refused ? el("p", { class: "soft" }, found.refused) : whyCard(found, one, two),
    ],
  };
}

function verdict(found, right) {
  if (found.refused) return "";
  if (found.link === "known") return "A known link says that these are the same.";
  const first = found.first && found.first.label === right.id;
  if (first && found.confidence !== null) return ["Each other’s candidates: a match with a confidence of ", el("b", {}, percent(found.confidence)), "."];
  return first ? "The right entity is the best candidate of the left one." : "The right entity is not the best candidate of the left one.";
}

/** The facts of both, those that both have first and marked. */
export function sideBySide(left, right, found) {
  const shared = (side) => new Set((found?.shared ?? []).map((one) => one[side].label));
  const panel = (entity, side) => card("", { class: `panel ${side}`, "aria-label": `${side} entity` },
    heading({ ...entity, side }, "h2"), names(entity), attributes(entity), triples({ ...entity, side }, shared(side)));
  return el("div", { class: "columns even" }, panel(left, "left"), panel(right, "right"));
}
