"""A browser that looks at a service: watched for what must never happen, and measured."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

from playwright.sync_api import Browser, Page, Playwright, expect

from benchmarks.serving import Service

SCREENSHOTS = Path(__file__).parents[2] / "scratch" / "screenshots"
"""Git ignores it; CI may keep it."""
WAIT = 30_000
"""Milliseconds until a test gives up; a busy machine is slow."""
expect.set_options(timeout=WAIT)
# Counted by the page itself, before anything of ours runs.
WATCH = """
window.shifts = []; window.violations = [];
new PerformanceObserver((list) => window.shifts.push(...list.getEntries().map((e) => ({
  value: e.hadRecentInput ? 0 : e.value,
  nodes: e.sources.map((s) => s.node?.className ?? s.node?.nodeName),
})))).observe({type: "layout-shift", buffered: true});
addEventListener("securitypolicyviolation", (e) => window.violations.push(e.violatedDirective));
"""


def chromium_of(playwright: Playwright) -> Browser:
    """Debian's chromium, without a window."""
    # Its own sandbox needs rights that root in a container does not have.
    return playwright.chromium.launch(
        executable_path=shutil.which("chromium"), args=["--no-sandbox"]
    )


@dataclass
class Watched:
    """Pages of a browser, and what went wrong on them."""

    browser: Browser
    service: Service
    pages: list[Page] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def open(self, route: str = "#/", run: str = "", width: int = 1280, **options: Any) -> Page:
        """A new page at an address of the explorer."""
        context = self.browser.new_context(viewport={"width": width, "height": 860}, **options)
        context.set_default_timeout(WAIT)
        context.add_init_script(WATCH)
        page = context.new_page()
        page.on("dialog", lambda dialog: (self.wrong.append(dialog.message), dialog.dismiss()))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", lambda request: self._asked(request.url))
        self.pages.append(page)
        page.goto(f"{self.service.address}{f'?run={run}' if run else ''}{route}")
        settled(page)
        return page

    def get(self, path: str, **parameters: object) -> Any:
        """What the service answers, without a browser."""
        query = f"?{urlencode(parameters)}" if parameters else ""
        with urlopen(f"{self.service.address}{path}{query}", timeout=WAIT / 1000) as answer:
            return json.load(answer)

    def _asked(self, url: str) -> None:
        if urlsplit(url).netloc != urlsplit(self.service.address).netloc:
            self.wrong.append(f"asked {url[:200]}")

    def close(self) -> None:
        """Close all pages; fail if one opened a dialog, raised, broke the policy or left."""
        for page in self.pages:
            self.wrong += page.evaluate("window.violations")
            page.context.close()
        assert self.wrong == []


def go(page: Page, route: str) -> None:
    """Go to another address of the explorer, as the address bar would."""
    page.evaluate("(route) => { location.hash = route; }", route)
    settled(page)


def settled(page: Page) -> None:
    """Wait until the page of the address is there, with what comes later."""
    shown = page.evaluate("location.hash")
    expect(page.locator("main")).to_have_attribute("data-shown", shown)
    expect(page.locator("[aria-busy]")).to_have_count(0)


def entity_route(id: str, side: str = "") -> str:
    """The address of an entity."""
    return "#/entity?" + urlencode({"side": side, "id": id} if side else {"id": id})


def shot(page: Page, name: str) -> None:
    """Keep a picture of a page for people to look at."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


# Measuring

CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].map((x) => x / 255);
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((x, i) => x * a + under[i] * (1 - a));
  const light = (c) => c.map((x) => (x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4))
    .reduce((sum, x, i) => sum + x * [.2126, .7152, .0722][i], 0);
  const behind = (node) => {
    if (!node) return [1, 1, 1];
    return over(rgba(getComputedStyle(node).backgroundColor), behind(node.parentElement));
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    const style = getComputedStyle(node), box = node.getBoundingClientRect();
    const said = texts.currentNode.data.trim();
    if (!said || !box.width || node.closest(".hidden, :disabled, option")) continue;
    const ground = behind(node), ink = over(rgba(style.color), ground);
    const [high, low] = [light(ink), light(ground)].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 600);
    const contrast = (high + .05) / (low + .05);
    if (contrast < (large ? 3 : 4.5)) found.push([said.slice(0, 40), contrast]);
  }
  return found;
}"""


def nameless_controls(page: Page) -> list[str]:
    """Roles of controls that a screen reader could not name, as the browser's own tree has it."""
    tree = page.context.new_cdp_session(page).send("Accessibility.getFullAXTree")
    roles = {"link", "button", "textbox", "combobox", "searchbox", "checkbox", "listbox", "form"}
    return [
        str(node["role"]["value"])
        for node in tree["nodes"]
        if not node.get("ignored")
        and node.get("role", {}).get("value") in roles
        and not node.get("name", {}).get("value", "").strip()
    ]


def shifted(page: Page) -> float:
    """How far things have jumped by themselves so far (cumulative layout shift)."""
    return float(page.evaluate("window.shifts.reduce((sum, one) => sum + one.value, 0)"))


def sideways(page: Page) -> int:
    """Pixels that a page can be scrolled to the side."""
    return int(page.evaluate("document.scrollingElement.scrollWidth - innerWidth"))
