/* Lines between the nodes of a small graph. The nodes are ordinary links in a list, which is the text
   alternative; the lines are drawn behind them, wherever the layout has put them. */

import { svg } from "./dom.js";

/**
 * Draws a line for each edge and keeps it in place when the size of the container changes.
 * @param {HTMLElement} container positioned; the nodes are inside
 * @param {{from: HTMLElement, to: HTMLElement, kind?: string, weight?: number, arrow?: number}[]} edges
 *   arrow: 1 points to `to`, -1 to `from`, 0 or nothing has none; weight from 0 to 1 is the width.
 */
export function connect(container, edges) {
  const drawing = svg("svg", { class: "lines", "aria-hidden": "true", focusable: "false" });
  container.prepend(drawing);
  const draw = () => {
    const box = container.getBoundingClientRect();
    if (!box.width) return;
    drawing.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    drawing.replaceChildren(...edges.flatMap((edge) => line(edge, box)));
  };
  new ResizeObserver(draw).observe(container);
}

function centre(node, box) {
  const own = node.getBoundingClientRect();
  return [own.left + own.width / 2 - box.left, own.top + own.height / 2 - box.top, own.width / 2];
}

function line({ from, to, kind = "", weight = 0, arrow = 0 }, box) {
  const [x1, y1] = centre(from, box);
  const [x2, y2, radius] = centre(to, box);
  const across = Math.abs(x2 - x1) > Math.abs(y2 - y1) / 3;
  const bend = across ? [(x2 - x1) / 2, 0] : [0, (y2 - y1) / 2];
  const path = `M${x1} ${y1}C${x1 + bend[0]} ${y1 + bend[1]} ${x2 - bend[0]} ${y2 - bend[1]} ${x2} ${y2}`;
  const drawn = [svg("path", { d: path, class: `edge ${kind}`, "stroke-width": (1.25 + 3.5 * Math.min(1, weight)).toFixed(2) })];
  if (arrow) drawn.push(head(arrow > 0 ? [x1, y1, x2, y2] : [x2, y2, x1, y1], across, radius, kind));
  return drawn;
}

/** An arrow head that touches the rim of the node; curves arrive level, or upright. */
function head([x1, y1, x2, y2], across, radius, kind) {
  const [ux, uy] = across ? [Math.sign(x2 - x1), 0] : [0, Math.sign(y2 - y1)];
  const [tipX, tipY] = [x2 - ux * (radius + 1), y2 - uy * (radius + 1)];
  const [backX, backY] = [tipX - 9 * ux, tipY - 9 * uy];
  return svg("path", {
    d: `M${tipX} ${tipY}L${backX - 4.5 * uy} ${backY - 4.5 * ux}L${backX + 4.5 * uy} ${backY + 4.5 * ux}Z`, class: `tip ${kind}`,
  });
}
