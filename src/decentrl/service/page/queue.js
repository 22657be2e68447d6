/* The review queue: which pair is next, what was decided, and what is fetched ahead. */

import { get, send } from "./api.js";

const AHEAD = 2; // pairs whose facts are fetched before they are asked for
const key = (left, right) => JSON.stringify([left, right]);

export class Queue {
  constructor() {
    this.waiting = [];
    this.seen = new Set();
    this.facts = new Map();
    this.progress = null;
  }

  /** Starts, or goes on where it was left. */
  async start(signal) {
    await this.more(signal);
    return this;
  }

  /** The pair in question; undefined when nothing is left. */
  get current() {
    return this.waiting[0];
  }

  async more(signal) {
    const found = await get("review", { limit: 20 }, signal);
    this.progress = found.progress;
    const own = new Set(this.waiting.map((item) => key(item.left.id, item.right.id)));
    for (const item of found.items) {
      const name = key(item.left.id, item.right.id);
      if (!item.decision && !own.has(name) && !this.seen.has(name)) this.waiting.push(item);
    }
  }

  /** Everything that is shown of a pair. */
  about(item) {
    const name = key(item.left.id, item.right.id);
    if (!this.facts.has(name)) {
      const facts = Promise.all([
        get("entity", { id: item.left.id, side: "left" }), get("entity", { id: item.right.id, side: "right" }),
        get("explain/match", { left: item.left.id, right: item.right.id }).catch(() => null),
      ]);
      facts.catch(() => this.facts.delete(name));
      this.facts.set(name, facts);
    }
    return this.facts.get(name);
  }

  ahead() {
    for (const item of this.waiting.slice(1, 1 + AHEAD)) this.about(item).catch(() => {});
  }

  /** Puts another counterpart of the same left entity in question. */
  instead(right) {
    const item = { ...this.current, right, confidence: right.confidence ?? null, alternatives: this.others(right) };
    this.waiting[0] = item;
    return item;
  }

  others(right) {
    const { right: own, confidence, score, alternatives } = this.current;
    return [{ ...own, confidence, score }, ...alternatives].filter((one) => one.id !== right.id);
  }

  /** Keeps a decision in the run, and goes on. */
  async decide(verdict, by) {
    const item = this.current;
    const answer = await send("POST", "decisions", { left: item.left.id, right: item.right.id, verdict, by });
    this.seen.add(key(item.left.id, item.right.id));
    this.waiting.shift();
    await this.refreshed(answer);
    return item;
  }

  /** Takes the last decision back, and puts its pair in question again. */
  async undo() {
    const answer = await send("DELETE", "decisions/last");
    const { left, right } = answer.decision ?? answer.undone ?? answer;
    this.seen.delete(key(left?.id ?? left, right?.id ?? right));
    this.waiting = [];
    await this.refreshed(answer);
    const back = this.waiting.findIndex((item) => item.left.id === (left?.id ?? left) && item.right.id === (right?.id ?? right));
    if (back > 0) this.waiting.unshift(...this.waiting.splice(back, 1));
    return answer;
  }

  async refreshed(answer) {
    if (answer.progress && this.waiting.length > AHEAD) this.progress = answer.progress;
    else await this.more();
  }
}
