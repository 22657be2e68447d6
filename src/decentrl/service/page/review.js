/* The review page: one doubtful match after the other, accepted, rejected or skipped. */

import { download, reviewer, soon } from "./api.js";
import { announce, bar, called, card, count, counted, el, label, percent } from "./dom.js";
import { Compared } from "./entity.js";
import { Queue } from "./queue.js";

const VERDICTS = { accept: "Accepted", reject: "Rejected", skip: "Skipped" };
const KEYS = { a: "accept", r: "reject", s: "skip", u: "undo" };
const PATIENCE = 300; // milliseconds that a pair waits for its reasons
let queue = null; // it outlives the page, so that one can look at an entity and come back

export async function reviewPage(_, { run, signal }) {
  queue = await (queue ?? new Queue()).start(signal);
  const page = new Review(run);
  await page.next();
  return { title: "Review", body: page.body, leave: () => page.leave(), ready: () => queue.ahead() };
}

class Review {
  constructor(run) {
    this.run = run;
    this.top = el("div", { class: "review-top" });
    this.pair = el("div", { class: "review-pair" });
    this.actions = el("div", { class: "actions", role: "group", "aria-label": "Decide" });
    this.problem = el("p", { class: "problem", role: "alert" });
    this.body = [el("h1", { class: "hidden", tabindex: "-1" }, "Review doubtful matches"), this.top, this.problem, this.pair, this.actions];
    this.keys = (event) => this.key(event);
    document.addEventListener("keydown", this.keys);
    this.buttons();
    queue.changed = () => this.top.querySelector(".progress")?.replaceWith(this.progress());
  }

  leave() {
    document.removeEventListener("keydown", this.keys);
    queue.changed = null;
  }

  get mayDecide() {
    return this.run.writable && reviewer.name && reviewer.token;
  }

  /** Fetches and shows the pair in question. */
  async next() {
    const item = queue.current;
    if (item) [this.facts, this.found] = await Promise.all([queue.about(item), soon(queue.why(item), PATIENCE)]);
    this.show();
  }

  show() {
    this.top.replaceChildren(this.progress(), ...(this.mayDecide ? [] : [this.entry()]));
    const item = queue.current;
    this.actions.hidden = !this.mayDecide;
    for (const button of this.actions.querySelectorAll("[data-needs-pair]")) button.disabled = !item;
    if (!item) {
      this.pair.replaceChildren(this.finished(), this.about());
      return;
    }
    const { panels, why } = new Compared(...this.facts, queue.why(item), this.found);
    this.pair.replaceChildren(this.question(item), panels, this.alternatives(item) ?? "", why, this.about());
  }

  question(item) {
    const sure = item.confidence;
    return el("p", { class: "lead question-line" }, "Are these the same? ",
      sure === null || sure === undefined ? null : el("span", { class: "soft" }, "Confidence ", el("b", {}, percent(sure)), bar(sure)));
  }

  alternatives(item) {
    if (!item.alternatives?.length) return null;
    return card("Or is it one of these?", { class: "alternatives" }, el("ul", { class: "chips" }, item.alternatives.map((other) => el("li", {},
      el("button", { class: "chip", type: "button", dir: "auto", onclick: () => this.instead(other) }, label(called(other), 60),
        other.confidence !== null && other.confidence !== undefined && el("span", { class: "soft" }, ` ${percent(other.confidence)}`))))));
  }

  async instead(other) {
    await this.guarded(async () => {
      queue.instead(other);
      await this.next();
      announce(`Now compared with ${called(other)}`);
    });
  }

  progress() {
    const { decided, accepted, rejected, skipped, remaining, estimated_precision: precision } = queue.progress;
    const total = decided + remaining;
    const number = (value, words) => el("li", {}, el("b", {}, value), ` ${words}`);
    return el("section", { class: "card progress", "aria-label": "Progress" }, bar(total ? decided / total : 0),
      el("ul", { class: "counts" }, number(count(decided), `of ${count(total)} decided`), number(count(accepted), "accepted"),
        number(count(rejected), "rejected"), number(count(skipped), "skipped"), number(percent(precision), "estimated precision")));
  }

  /** Who decides, what the estimate is made of, and the files of what was decided. */
  about() {
    const change = () => {
      reviewer.token = "";
      this.show();
      this.top.querySelector("input")?.focus();
    };
    const file = (format, title, name) => el("a", { class: "quiet", href: download("decisions/export", { format }), download: name }, title);
    return card("This review", { class: "about" },
      this.mayDecide && el("p", {}, "Decided by ", el("b", { dir: "auto" }, label(reviewer.name, 40)), ". ",
        el("button", { class: "link", type: "button", onclick: change }, "Change")),
      queue.progress.based_on && el("p", {}, `The estimated precision is of all matches that are accepted or sure enough: ${queue.progress.based_on}.`),
      el("p", { class: "exports" }, "Export the decisions: ", file("links", "links", "links.tsv"), file("sssom", "SSSOM", "decisions.sssom.tsv")));
  }

  /** Asks who decides. */
  entry() {
    if (!this.run.writable) {
      return el("p", { class: "note card" }, "This service only reads. To decide, start it with ", el("code", {}, "--write"), ".");
    }
    const field = (id, title, value, more) => el("div", { class: "field" }, el("label", { for: id }, title), el("input", { id, value, required: true, ...more }));
    const begin = (event) => {
      event.preventDefault();
      const form = event.currentTarget;
      reviewer.name = form.elements.reviewer.value.trim();
      reviewer.token = form.elements.token.value.trim();
      this.problem.textContent = "";
      this.show();
      this.actions.querySelector("button")?.focus();
    };
    return el("form", { class: "card entry", "aria-label": "Who decides", onsubmit: begin },
      el("h2", {}, "Who decides?"),
      el("p", { class: "soft" }, "Your name is kept with each decision. The token is the one that the service was started with; it is kept in this tab only."),
      field("reviewer", "Your name", reviewer.name, { type: "text", autocomplete: "name", maxlength: 100 }),
      field("token", "Token", "", { type: "password", autocomplete: "off" }),
      el("button", { class: "primary", type: "submit" }, "Begin"));
  }

  finished() {
    const { skipped } = queue.progress;
    const again = () => this.guarded(async () => {
      await queue.again();
      await this.next();
    });
    return card("Nothing is left to review", {},
      skipped > 0 && el("p", {}, el("button", { class: "quiet", type: "button", onclick: again }, `Look at ${counted(skipped, "skipped match", "skipped matches")} again`)),
      el("p", {}, "Take the decisions in with ", el("code", {}, `decentrl refit ${this.run.name} -o NEW`),
        ": accepted pairs become links, rejected ones are held apart."));
  }

  buttons() {
    const button = (verdict, title, letter, pair = true) => el("button", {
      type: "button", class: `act do-${verdict}`, "aria-keyshortcuts": letter, "data-needs-pair": pair, onclick: () => this.act(verdict),
    }, title, el("kbd", { "aria-hidden": "true" }, letter.toUpperCase()));
    const on = el("input", { type: "checkbox", id: "keys", checked: keysOn(), onchange: (event) => keysOn(event.currentTarget.checked) });
    this.actions.append(el("div", { class: "actions-inner" },
      button("accept", "Accept", "a"), button("reject", "Reject", "r"), button("skip", "Skip", "s"), button("undo", "Undo", "u", false),
      el("label", { class: "soft keys", for: "keys" }, on, "Keys")));
  }

  key(event) {
    const verdict = KEYS[event.key.toLowerCase()];
    const typing = event.target.closest?.("input:not([type=checkbox]), select, textarea");
    if (!verdict || typing || !keysOn() || event.ctrlKey || event.metaKey || event.altKey || event.repeat || !this.mayDecide) return;
    event.preventDefault();
    this.act(verdict);
  }

  async act(verdict) {
    if (!this.mayDecide || (verdict !== "undo" && !queue.current)) return;
    await this.guarded(async () => {
      const said = verdict === "undo" ? await this.undone() : await this.decided(verdict);
      await this.next();
      window.scrollTo({ top: 0 });
      announce(`${said} ${queue.current ? `Next: ${called(queue.current.left)} and ${called(queue.current.right)}` : "Nothing is left."}`);
      queue.ahead();
    });
  }

  async decided(verdict) {
    const item = await queue.decide(verdict, reviewer.name);
    return `${VERDICTS[verdict]}: ${called(item.left)} and ${called(item.right)}.`;
  }

  async undone() {
    await queue.undo(reviewer.name);
    return "The last decision is taken back.";
  }

  /** One action at a time; what goes wrong is said, and a refused token is asked for again. */
  async guarded(action) {
    if (this.acting) return;
    this.acting = true;
    try {
      this.problem.textContent = "";
      await action();
    } catch (error) {
      this.problem.textContent = error.status === 401 ? "The token is not the right one." : error.message;
      if (error.status === 401) {
        reviewer.token = "";
        this.show();
        this.top.querySelector("#token")?.focus();
      }
    } finally {
      this.acting = false;
    }
  }
}

/** Whether single keys decide; some who speak to their computer switch them off. */
function keysOn(value) {
  try {
    if (value !== undefined) localStorage.setItem("decentrl keys", value ? "on" : "off");
    return localStorage.getItem("decentrl keys") !== "off";
  } catch {
    return true;
  }
}
