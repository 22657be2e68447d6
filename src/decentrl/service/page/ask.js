/* Questions (head, relation, ?) and (?, relation, tail), and the paths that lead to an answer. */

import { entityRoute, get, route, soon } from "./api.js";
import { Combobox } from "./combobox.js";
import { announce, bar, called, card, counted, cut, el, label, percent, scored } from "./dom.js";
import { connect } from "./drawing.js";

const PATIENCE = 700; // milliseconds that the page waits for the first paths

/** The form, and the answers where a question is in the address. */
export async function askPage(asked, { run, signal }) {
  const { head, relation, tail } = asked;
  const [known, relations] = await Promise.all([
    head || tail ? get("entity", { id: head || tail }, signal) : null,
    run.relations,
  ]);
  const form = questionForm(asked, known, relations);
  const body = [el("h1", { tabindex: "-1" }, "Ask for missing triples"), form];
  if (known && relation) {
    const found = await get("predictions", { head, relation, tail: head ? "" : tail, top: 10 }, signal);
    body.push(await answersCard(found, asked, known));
  } else {
    body.push(el("p", { class: "soft" }, "Give a relation, and either a head or a tail; what is left out is asked for."));
  }
  return { title: "Ask", body };
}

function questionForm({ head, relation, tail }, known, relations) {
  const field = (at, value) => new Combobox({ label: at, placeholder: "?", keep: true, sides: [""], value });
  const fields = { head: field("Head", head ? known : null), tail: field("Tail", tail && !head ? known : null) };
  // One end is asked for: choosing one empties the other.
  const only = (at, other) => { fields[at].options.pick = () => { fields[other].chosen = null; fields[other].input.value = ""; }; };
  only("head", "tail");
  only("tail", "head");
  const choice = el("select", { id: "relation", dir: "auto" }, relations.map((one) =>
    el("option", { value: one, selected: one === relation }, cut(called(one), 120))));
  const problem = el("p", { class: "problem", role: "alert" });
  const submit = (event) => {
    event.preventDefault();
    const at = fields.head.chosen ? "head" : fields.tail.chosen ? "tail" : null;
    problem.textContent = at ? "" : "Choose a head or a tail from the suggestions.";
    if (at) location.hash = route("ask", { [at]: fields[at].chosen.id, relation: choice.value });
  };
  const part = (title, control, target) => el("div", { class: "question-part" }, el("label", { for: target }, title), control);
  return el("form", { class: "card question", "aria-label": "Question", onsubmit: submit },
    part("Head", fields.head.node, fields.head.input.id), part("Relation", choice, "relation"),
    part("Tail", fields.tail.node, fields.tail.input.id), el("button", { class: "primary", type: "submit" }, "Ask"), problem);
}

async function answersCard(found, { head, relation, tail }, known) {
  const at = head ? "tail" : "head";
  const answers = found.answers.map((row) => ({ ...row, id: row[at], name: row[`${at}_name`] }));
  const given = el("b", { dir: "auto" }, label(called(known), 80));
  const middle = el("span", { dir: "auto" }, label(called(relation), 80));
  const title = head ? [given, " → ", middle, " → ?"] : ["? → ", middle, " → ", given];
  announce(`${counted(answers.length, "answer")}; the first is ${answers.length ? called(answers[0]) : "none"}`);
  if (!answers.length) return card(title, {}, el("p", { class: "soft" }, "There is no answer that is not in the graph already."));
  const rows = answers.map((answer) => answerRow(answer, (one) => ({ head: head ?? one.id, relation, tail: head ? one.id : tail })));
  const list = card(title, { class: "answers" }, el("ol", { class: "matches" }, rows.map((row) => row.node)));
  await rows[0].open();
  return list;
}

function answerRow(answer, triple) {
  const sure = answer.probability ?? null;
  const place = el("div", { class: "paths-place" });
  const details = el("details", { class: "paths" }, el("summary", {}, "Paths", el("span", { class: "hidden" }, " to ", called(answer))), place);
  const load = async () => {
    if (place.childElementCount) return;
    place.replaceChildren(el("p", { class: "soft" }, "Looking for paths …"));
    try {
      const found = await get("explain/answer", { ...triple(answer), top: 5 });
      place.replaceChildren(pathsList(found.paths));
    } catch (error) {
      place.replaceChildren(el("p", { class: "soft" }, error.message));
    }
  };
  details.addEventListener("toggle", () => details.open && load());
  return {
    open: async () => {
      details.open = true;
      await soon(load(), PATIENCE);
    },
    node: el("li", { class: "match answer" },
      el("span", { class: "match-name" }, el("a", { href: entityRoute(answer), dir: "auto" }, label(called(answer), 120))),
      el("span", { class: "match-sure" }, bar(sure ?? 0, sure === null ? "none" : ""),
        el("span", { class: "number" }, sure === null ? `score ${scored(answer.score)}` : percent(sure))),
      details),
  };
}

/** Paths one below the other, each a line of nodes from the head to the answer. */
function pathsList(paths) {
  if (!paths.length) return el("p", { class: "soft" }, "No path that was found gives anything to this answer.");
  return el("ol", { class: "path-list" }, paths.map((path) => el("li", { class: "path" },
    el("span", { class: "number path-share", title: "share of the score" }, percent(path.share)), drawnPath(path))));
}

function drawnPath(path) {
  const along = path.steps.map((step) => ({
    from: step.forwards ? end(step, "head") : end(step, "tail"),
    to: step.forwards ? end(step, "tail") : end(step, "head"),
    relation: called(step.relation), forwards: step.forwards,
  }));
  const nodes = [along[0].from, ...along.map((step) => step.to)].map((entity, i, all) => {
    const dot = el("span", { class: `dot ${i === 0 ? "left" : i === all.length - 1 ? "right" : ""}`, "aria-hidden": "true" });
    return { dot, node: el("span", { class: "path-node" }, dot, el("a", { href: entityRoute(entity), dir: "auto" }, label(called(entity), 80))) };
  });
  const parts = along.flatMap((step, i) => [
    el("span", { class: "path-step soft", dir: "auto" },
      el("span", { class: "hidden" }, step.forwards ? "→ " : "← "), label(step.relation, 60)),
    nodes[i + 1].node,
  ]);
  const drawing = el("div", { class: "path-line" }, nodes[0].node, parts);
  connect(drawing, along.map((step, i) => ({ from: nodes[i].dot, to: nodes[i + 1].dot, arrow: step.forwards ? 1 : -1 })));
  return drawing;
}

function end(step, at) {
  return { id: step[at], name: step[`${at}_name`] };
}
