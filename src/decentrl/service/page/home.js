/* The first page: what the run is, and where to begin. */

import { entityRoute, get, route } from "./api.js";
import { called, card, count, counted, el, label, percent } from "./dom.js";

export async function homePage(_, { run, signal }) {
  const matching = run.job === "alignment";
  const [some, review] = await Promise.all([
    get("entities", { side: run.sides[0], limit: 24 }, signal).catch(() => ({ entities: [] })),
    matching ? get("review", { limit: 1 }, signal).catch(() => null) : null,
  ]);
  return {
    title: "Overview",
    body: [
      el("header", {}, el("p", { class: "soft kicker" }, matching ? "Alignment" : "Prediction"),
        el("h1", { dir: "auto", tabindex: "-1" }, label(run.name, 120)), el("p", { class: "lead" }, sentence(run))),
      tiles(run),
      matching && review ? reviewCard(review.progress, run) : null,
      matching ? null : askCard(),
      some.entities.length > 0 && card("Some entities", {}, el("ul", { class: "chips" }, some.entities.map((one) =>
        el("li", {}, el("a", { href: entityRoute(one), dir: "auto" }, label(called(one), 50)))))),
    ],
  };
}

function sentence(run) {
  if (run.job === "prediction") return "Ask which triples are missing, and see the paths that lead to an answer.";
  return "Two graphs, matched. Look an entity up, see its counterpart and why, and decide on the doubtful matches.";
}

function tiles(run) {
  const { entities, relations, additions } = run;
  const tile = (name, value, note = "") => el("div", {}, el("dt", {}, name), el("dd", { class: "big" }, value), el("dd", { class: "soft" }, note));
  const numbers = entities.all !== undefined ? [tile("Entities", count(entities.all))]
    : [tile("Left entities", count(entities.left)), tile("Right entities", count(entities.right))];
  const named = Array.isArray(relations) ? relations : Object.values(relations).flat();
  const threshold = typeof run.threshold === "number" ? [tile("Threshold", percent(run.threshold), "confidence that a match needs")] : [];
  return el("section", { class: "card", "aria-label": "Summary" }, el("dl", { class: "tiles" }, numbers, tile("Relations", count(new Set(named).size)), threshold,
    tile("Additions", count(additions ?? 0), "since training"), run.preset && tile("Preset", run.preset)));
}

function reviewCard(progress, run) {
  const { decided, remaining } = progress;
  return card("Review", { class: "invite" },
    el("p", {}, `${counted(remaining, "match", "matches")} to look through, doubtful ones first; ${count(decided)} decided so far.`),
    el("a", { class: "primary", href: route("review") }, run.writable ? "Review matches" : "Look at the queue"));
}

function askCard() {
  return card("Ask", { class: "invite" }, el("p", {}, "Give a relation and one end of a triple, and get the other end with its probability."),
    el("a", { class: "primary", href: route("ask") }, "Ask a question"));
}
