/* Elements, made without markup: whatever comes from outside becomes text, never HTML. */

const SVG = "http://www.w3.org/2000/svg";
// C0 and C1 controls, line and paragraph separators, and what is no character at all.
const UNFIT = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\ud800-\udfff\ufffe\uffff]/gu;

/** Text as a page can show it. */
export function clean(value) {
  return String(value ?? "").replace(UNFIT, "\ufffd");
}

/** Cut to at most `length` characters. */
export function cut(value, length = 120) {
  const characters = Array.from(clean(value).slice(0, 2 * length + 2));
  return characters.length <= length ? characters.join("") : characters.slice(0, length - 1).join("") + "…";
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else node.setAttribute(name, value === true ? "" : clean(value));
  }
  node.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false && child !== "")
    .map((child) => (child instanceof Node ? child : document.createTextNode(clean(child)))));
  return node;
}

/** An element: el("a", {href, class, onclick, "--v": "3%"}, children…); strings become text. */
export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same in SVG. */
export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** A card with a heading. */
export function card(title, attributes, ...children) {
  return el("section", { ...attributes, class: `card ${attributes?.class ?? ""}`.trim() }, title && el("h2", {}, title), children);
}

/** Says something to a screen reader, without moving the focus. */
export function announce(text) {
  document.getElementById("status").textContent = clean(text);
}

/** A probability as people read it; 0 % and 100 % only if they are exact. */
export function percent(fraction) {
  if (fraction === null || fraction === undefined) return "–";
  if (fraction > 0 && fraction < 0.005) return "<\u00a01\u00a0%";
  if (fraction < 1 && fraction > 0.995) return ">\u00a099\u00a0%";
  return `${Math.round(100 * fraction)}\u00a0%`;
}

/** A score, with the sign that is as wide as a digit. */
export function scored(number) {
  return typeof number === "number" ? number.toFixed(3).replace(/^-(0\.0*)$/, "$1").replace("-", "\u2212") : "–";
}

/** A count with separators. */
export function count(number) {
  return Number(number ?? 0).toLocaleString("en");
}

/** "1 triple", "2 triples". */
export function counted(number, word, plural = `${word}s`) {
  return `${count(number)} ${number === 1 ? word : plural}`;
}

/** A bar from 0 to 1; the number stands beside it as text. */
export function bar(fraction, kind = "") {
  const value = Math.min(1, Math.max(0, fraction ?? 0));
  return el("span", { class: `meter ${kind}`, "aria-hidden": "true", "--v": `${(100 * value).toFixed(1)}%` });
}

/** What to call an entity or relation: its name, or the decoded end of an IRI, or its identifier. */
export function called(entity) {
  if (typeof entity === "string") return endOf(entity);
  const id = entity.id ?? entity.label ?? "";
  return entity.name && entity.name !== id ? entity.name : endOf(id);
}

function endOf(label) {
  const bare = label.replace(/^[<\s]+|[>\s]+$/g, "").replace(/[/#]+$/, "");
  if (!bare.includes("://") && !/^urn:/i.test(bare)) return label;
  const end = bare.split(bare.includes("://") ? /[/#]/ : /[/#:]/).pop();
  try {
    return decodeURIComponent(end).replaceAll("_", " ").trim() || label;
  } catch {
    return end || label; // a stray per cent sign
  }
}

/** A label that cannot disturb the direction of the text around it. */
export function label(text, length = 120) {
  const whole = clean(text);
  const short = cut(whole, length);
  return el("bdi", { title: short === whole ? null : cut(whole, 600) }, short);
}
