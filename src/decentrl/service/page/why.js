/* Why two entities are a match: the neighbours both have, drawn, the views' shares, and the words. */

import { entityRoute } from "./api.js";
import { bar, called, card, count, el, label, percent } from "./dom.js";
import { connect } from "./drawing.js";

const VIEWS = { links: "links around it", names: "names", structure: "structure" };
const BECAUSE = { known: "known link", found: "link found in training", match: "each other’s best match " };
// Beside the hue each side and kind of line has a word or a dash of its own.
const RELATIONS = 3; // that are named between an entity and its neighbour
const HUES = ["first", "second", "third", "fourth"];

/** A card with everything that speaks for the pair, or against it. */
function whyCard(found, left, right, title = "Why") {
  return card(title, { class: "why" }, shared(found, left, right), shares(found), words(found));
}

/** A place for the reasons, which may come later than the rest of a page. */
export class WhyPlace {
  constructor() {
    this.node = el("div", { class: "place" });
  }

  /** Shows what is asked for, unless other reasons were asked for meanwhile; returns what was found, or null. */
  async show(asked, left, right, title) {
    this.last = asked;
    this.node.setAttribute("aria-busy", "true");
    if (!this.node.childElementCount) this.node.append(card("Why", {}, el("p", { class: "soft" }, "Looking for reasons …")));
    let shown;
    try {
      shown = whyCard(await asked, left, right, title);
    } catch (error) {
      shown = card("Why", {}, el("p", { class: "soft" }, error.message));
    }
    if (this.last !== asked) return null;
    this.node.removeAttribute("aria-busy");
    this.node.replaceChildren(shown);
    return asked.catch(() => null);
  }
}

/** The neighbours that an explanation names: of the left entity, and of the right one. */
export function sharedOf(found) {
  const of = (side) => new Set((found?.shared ?? []).map((one) => one[side].label));
  return { left: of("left"), right: of("right") };
}

/** The graph of neighbours that both sides have. */
function shared(found, left, right) {
  const list = found.shared ?? [];
  if (!list.length) return el("p", { class: "soft" }, "They share no neighbours that a link or a match joins.");
  const ends = [end(left, "left"), end(right, "right")];
  const rows = list.map((one) => row(one));
  const most = Math.max(...list.map((one) => Math.max(one.left_weight ?? 0, one.right_weight ?? 0)), 1e-9);
  const edges = list.flatMap((one, i) => [
    { from: ends[0].dot, to: rows[i].left, kind: "left", weight: (one.left_weight ?? 0) / most },
    { from: rows[i].left, to: rows[i].right, kind: one.because === "match" ? "best" : "link" },
    { from: rows[i].right, to: ends[1].dot, kind: "right", weight: (one.right_weight ?? 0) / most },
  ]);
  const graph = el("div", { class: "lens" },
    el("div", { class: "lens-ends" }, ends[0].node, ends[1].node),
    el("ul", { class: "lens-rows", "aria-label": "Neighbours that both have" }, rows.map((one) => one.node)),
  );
  connect(graph, edges);
  const more = found.more ? ` and ${count(found.more)} more` : "";
  return [
    el("p", { class: "soft" }, `Neighbours that both have: ${count(list.length)}${more ? " shown" : ""}${more}. `,
      el("span", { class: "legend" }, el("i", { class: "key link" }), "a link joins them"), " ",
      el("span", { class: "legend" }, el("i", { class: "key best" }), "each other’s best match")),
    graph,
  ];
}

function end(entity, side) {
  const dot = el("span", { class: `dot ${side} large`, "aria-hidden": "true" });
  return { dot, node: el("span", { class: `lens-end ${side}` }, dot, el("b", { dir: "auto" }, label(called(entity), 60))) };
}

function row(one) {
  const dots = ["left", "right"].map((side) => el("span", { class: `dot ${side}`, "aria-hidden": "true" }));
  const cell = (side, dot) => el("span", { class: `lens-cell ${side}` },
    el("a", { class: "lens-name", href: entityRoute(one[side], side), dir: "auto" }, label(called(one[side]), 90)),
    dot,
    el("span", { class: "lens-relation soft", dir: "auto" }, relations(one[`${side}_relations`])));
  const sure = one.because === "match" && typeof one.confidence === "number";
  const node = el("li", { class: "lens-row" }, cell("left", dots[0]),
    el("span", { class: sure ? "lens-why soft" : "hidden" }, el("span", { class: "hidden" }, BECAUSE[one.because]), sure && percent(one.confidence)),
    cell("right", dots[1]));
  return { node, left: dots[0], right: dots[1] };
}

/** Relations of the entity to its neighbour; where the neighbour is the head, an arrow says so. */
function relations(list) {
  const shown = list.slice(0, RELATIONS);
  const more = list.length > RELATIONS && ` and ${list.length - RELATIONS} more`;
  return [...shown.map((one, i) => [i ? ", " : "", one.role === "tail" ? "← " : "", label(called(one.name), 60)]), more];
}

/** What each view gives to the cosine. */
function shares(found) {
  const entries = Object.entries(found.shares ?? {}).filter(([, value]) => Math.abs(value) > 1e-4);
  if (!entries.length) return null;
  const whole = entries.reduce((sum, [, value]) => sum + Math.max(0, value), 0) || 1;
  const part = ([, value], i) => el("span", { class: `share ${HUES[i % 4]}`, "--v": `${(100 * Math.max(0, value)) / whole}%` });
  return el("div", { class: "shares" },
    el("h3", {}, `Cosine ${found.cosine.toFixed(3)}, made of`),
    el("div", { class: "share-bar", "aria-hidden": "true" }, entries.map(part)),
    el("ul", { class: "share-names" }, entries.map(([view, value], i) =>
      el("li", {}, el("i", { class: `key ${HUES[i % 4]}` }), `${VIEWS[view] ?? view} `, el("b", {}, value.toFixed(3))))));
}

/** The explanation in words; lines that begin with a space belong to the line above. */
function words(found) {
  const lines = found.words ?? [];
  const groups = [];
  for (const line of lines.filter((text) => text.trim())) {
    if (line.startsWith(" ") && groups.length) groups.at(-1).notes.push(line.trim());
    else groups.push({ text: line, notes: [] });
  }
  if (!groups.length) return null;
  return el("details", { class: "in-words" }, el("summary", {}, "In words"), groups.map(({ text, notes }) => [
    el("p", { dir: "auto" }, text),
    notes.length > 0 && el("ul", {}, notes.map((note) => el("li", { dir: "auto" }, note))),
  ]));
}

/** What an entity's vector is made of. */
export function reasonsList(reasons, side) {
  if (!reasons.length) return el("p", { class: "soft" }, "No triple is about it, so its vector is made of nothing.");
  const most = Math.max(...reasons.map((one) => one.weight), 1e-9);
  return el("ol", { class: "weights" }, reasons.map((one) => el("li", {},
    el("span", { class: "weights-text" },
      el("a", { href: entityRoute({ id: one.neighbour }, side), dir: "auto" }, label(one.neighbour_name || called(one.neighbour), 90)),
      el("span", { class: "soft", dir: "auto" }, one.relation ? [" ", one.role === "tail" ? "← " : "", label(called(one.relation), 60)] : " two steps away")),
    bar(one.weight / most), el("span", { class: "number" }, percent(one.weight)))));
}
