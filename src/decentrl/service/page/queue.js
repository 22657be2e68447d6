/* The review queue: which pair is next, what was decided, and what is fetched ahead. */

import { get, send } from "./api.js";

const AHEAD = 2; // pairs whose facts are fetched before they are asked for
const key = (left, right) => JSON.stringify([left, right]);

export class Queue {
  constructor() {
    this.waiting = [];
    this.seen = new Set();
    this.kept = new Map();
    this.progress = null;
    this.skipped = false; // whether skipped pairs are shown again
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
      if ((this.skipped || !item.decision) && !own.has(name) && !this.seen.has(name)) this.waiting.push(item);
    }
  }

  /** Puts what was skipped in question again. */
  async again() {
    this.skipped = true;
    this.seen.clear();
    await this.more();
  }

  /** Both entities of a pair, and the reasons, which may take longer. */
  about(item) {
    const { left, right } = item;
    return this.once(["facts", item], () => Promise.all([
      get("entity", { id: left.id, side: "left" }), get("entity", { id: right.id, side: "right" }),
    ]));
  }

  why(item) {
    return this.once(["why", item], () => get("explain/match", { left: item.left.id, right: item.right.id }));
  }

  /** What was asked for already is not asked for again, unless it failed. */
  once([kind, item], ask) {
    const name = `${kind} ${key(item.left.id, item.right.id)}`;
    if (!this.kept.has(name)) {
      const asked = ask();
      asked.catch(() => this.kept.delete(name));
      this.kept.set(name, asked);
    }
    return this.kept.get(name);
  }

  /** Asks for what comes next, the reasons only after those of the pair in question. */
  async ahead() {
    const [current, ...next] = this.waiting.slice(0, 1 + AHEAD);
    if (!current) return;
    await Promise.allSettled([...next.map((item) => this.about(item)), this.why(current)]);
    if (next[0] && this.current === current) await this.why(next[0]).catch(() => null);
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
