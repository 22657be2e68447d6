/* What a graph says about an entity: its names, attributes and triples. */

import { entityRoute } from "./api.js";
import { called, clean, count, counted, el, label } from "./dom.js";

const RELATIONS = 12; // that are shown at once
const EACH = 6; // triples of each of them
const LONG = 160; // characters of a heading

/** The heading of an entity: its name, its side, its identifier. */
export function heading(entity, level = "h1") {
  const name = called(entity);
  return el("header", { class: "entity-head" },
    el("p", { class: "soft kicker" },
      entity.side && el("span", { class: `side ${entity.side}` }, `${entity.side} graph`), " ",
      counted(entity.degree, "triple"), entity.added ? " · added after training" : ""),
    el(level, { dir: "auto", tabindex: level === "h1" ? "-1" : null }, label(name, LONG)),
    name.length > LONG && el("details", {}, el("summary", {}, "Whole name"), el("p", { class: "whole", dir: "auto" }, name)),
    name === entity.id ? null : el("p", { class: "identifier" }, el("code", { dir: "auto" }, label(entity.id, 300))),
  );
}

/** All names but the one in the heading. */
export function names(entity) {
  const others = (entity.names ?? []).filter((one) => one.text !== entity.name);
  if (!others.length) return null;
  return el("div", { class: "facts" }, el("h3", {}, "Other names"),
    el("ul", { class: "names" }, others.map((one) => el("li", {},
      el("bdi", { lang: /^[a-z]{2,3}(-[\w-]+)?$/i.test(one.language ?? "") ? one.language : null }, clean(one.text).slice(0, 2000)),
      one.language && el("span", { class: "soft tag" }, one.language)))));
}

/** Values that are no entities. */
export function attributes(entity) {
  const rows = entity.attributes ?? [];
  if (!rows.length) return null;
  return el("div", { class: "facts" }, el("h3", {}, "Attributes"),
    el("table", { class: "pairs" }, el("tbody", {}, rows.map((row) => el("tr", {},
      el("th", { scope: "row", dir: "auto" }, label(called(row.attribute), 80)),
      el("td", { dir: "auto" }, clean(row.value).slice(0, 2000)))))));
}

/**
 * The triples of an entity, grouped by relation and direction.
 * @param {Set<string>?} shared beside another entity: identifiers of neighbours that the other entity has, too: they come first
 */
export function triples(entity, shared = null) {
  const rows = (entity.triples ?? []).map(ends);
  if (!rows.length) return el("p", { class: "soft" }, "No triple is about it.");
  if (shared) rows.sort((one, two) => shared.has(two.other.id) - shared.has(one.other.id));
  const groups = new Map();
  for (const row of rows) {
    const key = `${row.incoming ? "<" : ">"}${row.relation}`;
    groups.set(key, [...(groups.get(key) ?? []), row]);
  }
  const parts = [...groups.values()].map((group) => triplesOf(group, entity.side));
  // So many at once, of so many relations; a button shows the others.
  const hidden = parts.flatMap((part, i) => (i < RELATIONS ? [...part.querySelectorAll("dd")].slice(EACH) : [part]));
  for (const node of hidden) node.hidden = true;
  const facts = el("div", { class: "facts" }, 
    el("div", { class: "facts-head" }, el("h3", {}, "Triples"), shared && el("span", { class: "soft both-key" }, "both have it")),
    el("dl", { class: "triples" }, parts),
    hidden.length > 0 && more(hidden, rows.length),
    entity.more_triples > 0 && el("p", { class: "soft" }, `${count(entity.more_triples)} more triples are not listed.`));
  if (shared) mark(facts, shared);
  return facts;
}

/** Marks the neighbours that the other entity has, too. */
export function mark(node, shared) {
  for (const end of node.querySelectorAll("dd")) {
    if (!shared.has(end.neighbour) || end.classList.contains("both")) continue;
    end.classList.add("both");
    end.append(el("span", { class: "hidden" }, " (both have it)"));
  }
}

function more(hidden, number) {
  return el("button", { class: "quiet", type: "button", onclick: (event) => {
    for (const node of hidden) node.hidden = false;
    hidden[0].querySelector("a")?.focus();
    event.currentTarget.remove();
  } }, `Show all ${count(number)} triples`);
}

/** The other end of a triple, as seen from the entity. */
function ends(row) {
  const incoming = row.direction === "in";
  const at = incoming ? "head" : "tail";
  return { incoming, relation: row.relation, other: { id: row[at], name: row[`${at}_name`] } };
}

function triplesOf(group, side) {
  const { incoming, relation } = group[0];
  const end = ({ other }) => Object.assign(
    el("dd", {}, el("a", { href: entityRoute(other, side), dir: "auto" }, label(called(other), 120))), { neighbour: other.id });
  return el("div", { class: "triple-group" },
    el("dt", { dir: "auto" },
      incoming && el("span", { title: "the entity is the tail" }, "← ", el("span", { class: "hidden" }, "is tail of ")),
      label(called(relation), 80)),
    group.map(end));
}
