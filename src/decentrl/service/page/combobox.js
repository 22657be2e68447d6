/* A field that suggests entities while one types, for the keyboard and for screen readers alike. */

import { get } from "./api.js";
import { announce, called, counted, cut, el, label } from "./dom.js";

const PAUSE = 120; // milliseconds without a key before it asks
const LISTED = 20;
let made = 0;

/** Entities that begin with a text; those of two graphs in turn, as each graph orders its own. */
async function find(text, sides, signal) {
  const limit = Math.ceil(LISTED / sides.length);
  const found = await Promise.all(sides.map((side) => get("entities", { q: text, side, limit }, signal)));
  const lists = found.map(({ entities }) => entities);
  return Array.from({ length: limit }, (_, i) => lists.map((list) => list[i])).flat().filter(Boolean);
}

/**
 * @param {object} options
 *   label: what a screen reader calls the field; placeholder; hint: a text shown before the field;
 *   sides: of the entities, [""] where there is one graph; pick: called with the chosen entity;
 *   keep: whether the chosen name stays in the field; value: the entity chosen at first.
 */
export class Combobox {
  constructor(options) {
    this.options = options;
    this.chosen = options.value ?? null;
    this.found = [];
    this.active = -1;
    const id = `field-${++made}`;
    this.input = el("input", {
      id, type: "text", role: "combobox", placeholder: options.placeholder, "aria-label": options.label, "aria-autocomplete": "list",
      "aria-expanded": "false", "aria-controls": `${id}-list`, autocomplete: "off", autocapitalize: "off", spellcheck: "false", dir: "auto",
      oninput: () => this.typed(), onkeydown: (event) => this.key(event),
      onfocus: () => this.input.select(), onblur: () => this.close(),
    });
    if (this.chosen) this.input.value = cut(called(this.chosen), 200);
    this.list = el("ul", { id: `${id}-list`, role: "listbox", "aria-label": "Entities", class: "options", hidden: true });
    // A press must not take the focus from the field, which would close the list before the click.
    this.list.addEventListener("pointerdown", (event) => event.preventDefault());
    this.node = el("div", { class: "combobox" }, this.input, this.list);
  }

  typed() {
    this.chosen = null;
    this.options.changed?.();
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.ask(), PAUSE);
  }

  async ask() {
    this.asking?.abort();
    this.asking = new AbortController();
    const text = this.input.value.trim();
    if (!text) {
      this.close();
      return;
    }
    try {
      const entities = await find(text, this.options.sides, this.asking.signal);
      if (document.activeElement === this.input) this.open(entities);
    } catch (error) {
      if (error.name !== "AbortError") this.note(error.message);
    }
  }

  open(entities) {
    this.found = entities;
    if (!entities.length) {
      this.note("No entity begins with this.");
      return;
    }
    this.list.replaceChildren(...entities.map((entity, i) => this.option(entity, i)));
    this.shown(true);
    this.choose(-1);
    announce(`${counted(entities.length, "entity", "entities")}; arrow keys to choose`);
  }

  option(entity, i) {
    const name = called(entity);
    return el("li", { role: "option", id: `${this.input.id}-${i}`, "aria-selected": "false", onclick: () => this.pick(i) },
      el("span", { class: "option-name", dir: "auto" }, label(name, 90)),
      el("span", { class: "soft option-note" },
        entity.side && el("span", { class: `side ${entity.side}` }, entity.side),
        name === entity.id ? "" : label(entity.id, 60), entity.added ? " · new" : ""),
    );
  }

  /** A line in place of options. */
  note(text) {
    this.found = [];
    this.list.replaceChildren(el("li", { class: "soft", role: "option", "aria-disabled": "true", "aria-selected": "false" }, text));
    this.shown(true);
    announce(text);
  }

  shown(open) {
    this.list.hidden = !open;
    this.input.setAttribute("aria-expanded", String(open));
  }

  close() {
    clearTimeout(this.waiting);
    this.asking?.abort();
    this.shown(false);
    this.choose(-1);
  }

  choose(i) {
    this.active = i;
    [...this.list.children].forEach((node, j) => node.setAttribute("aria-selected", String(i === j)));
    const node = i < 0 ? null : this.list.children[i];
    node?.scrollIntoView({ block: "nearest" });
    if (node) this.input.setAttribute("aria-activedescendant", node.id);
    else this.input.removeAttribute("aria-activedescendant");
  }

  key(event) {
    const open = !this.list.hidden && this.found.length;
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move && open) {
      const n = this.found.length;
      this.choose(this.active < 0 ? (move > 0 ? 0 : n - 1) : (this.active + move + n) % n);
    } else if (move) {
      this.ask();
    } else if (event.key === "Enter" && open) {
      this.pick(Math.max(0, this.active));
    } else if (event.key === "Escape" && !this.list.hidden) {
      this.close();
    } else {
      return;
    }
    event.preventDefault();
  }

  pick(i) {
    const entity = this.found[i];
    this.chosen = this.options.keep ? entity : null;
    this.input.value = this.options.keep ? cut(called(entity), 200) : "";
    this.close();
    this.options.pick?.(entity);
  }
}
