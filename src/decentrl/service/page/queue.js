/* The review queue: which pair is next, what was decided, and what is fetched ahead. */

import { get, send } from "./api.js";

const LISTED = 20;
const AHEAD = 2; // pairs whose facts are fetched before they are asked for
const key = (left, right) => JSON.stringify([left, right]);

export class Queue {
  constructor() {
    this.waiting = [];
    this.seen = new Set();
    this.past = []; // decided here, the last one at the end
    this.kept = new Map();
    this.progress = null;
    this.skipped = false; // whether skipped pairs are shown again
  }

  /** Starts, or goes on where it was left. */
  async start(signal) {
    await this.more({ signal, stay: true });
    return this;
  }

  /** The pair in question; undefined when nothing is left. */
  get current() {
    return this.waiting[0];
  }

  /** Fetches what is to be looked at now; the pair in question may stay the first. */
  async more({ signal, stay = false } = {}) {
    const asked = (this.asked = {});
    const found = await get("review", { limit: LISTED }, signal);
    if (this.asked !== asked) return; // a later decision has asked again
    const { current } = this;
    const open = found.items.filter(({ left, right, decision }) => (this.skipped || !decision) && !this.seen.has(key(left.id, right.id)));
    this.waiting = stay && current ? [current, ...open.filter((item) => item.left.id !== current.left.id)] : open;
    this.progress = found.progress;
    this.changed?.();
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

  /** Keeps a decision in the run, and goes on with what is there already; the rest is asked for meanwhile. */
  async decide(verdict, by) {
    const item = this.current;
    const { left, right } = item;
    await send("POST", "decisions", { left: left.id, right: right.id, verdict, by });
    this.past.push(item);
    this.seen.add(key(left.id, right.id));
    const free = (other) => verdict !== "accept" || (other.left.id !== left.id && other.right.id !== right.id);
    this.waiting = this.waiting.slice(1).filter(free);
    this.count(verdict);
    if (this.waiting.length > AHEAD) this.more({ stay: true }).catch(() => {});
    else await this.more();
    return item;
  }

  /** The counts after a decision, until the service gives them. */
  count(verdict) {
    const counted = { accept: "accepted", reject: "rejected", skip: "skipped" }[verdict];
    const { decided, remaining, [counted]: before } = this.progress;
    this.progress = { ...this.progress, decided: decided + 1, remaining: Math.max(0, remaining - 1), [counted]: before + 1 };
  }

  /** Takes the last decision back, and puts its pair in question again. */
  async undo() {
    const { undone } = await send("DELETE", "decisions/last");
    this.seen.delete(key(undone.left, undone.right));
    await this.more();
    const is = (item) => item?.left.id === undone.left && item.right.id === undone.right;
    const back = is(this.past.at(-1)) ? this.past.pop() : this.waiting.find(is);
    if (back) this.waiting = [back, ...this.waiting.filter((item) => item.left.id !== back.left.id)];
  }
}
