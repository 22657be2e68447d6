"""Whether any page of the built site needs sideways scrolling, in a real browser.

python -m tools.site.widths build/site --widths 1280 400

needs chromium; prints the pages that are wider than the window, and ends with 1 if there are any.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
# Every page is opened in a frame of the width: the windows of a headless browser have a least one.
SCRIPT = """<!doctype html><pre id="out"></pre><script>
const wide = [];
(async () => {
  for (const width of WIDTHS) for (const page of PAGES) {
    const frame = document.createElement("iframe");
    frame.style.cssText = `width:${width}px;height:800px;border:0`;
    frame.src = page;
    await new Promise(done => { frame.onload = done; document.body.append(frame); });
    await new Promise(done => setTimeout(done, 60));
    const root = frame.contentDocument.documentElement;
    if (root.scrollWidth > root.clientWidth) {
      const out = [...frame.contentDocument.querySelectorAll("article *")].find(
        x => x.getBoundingClientRect().right > root.clientWidth + 1);
      wide.push([page, width, root.scrollWidth, out ? out.outerHTML.slice(0, 80) : ""]);
    }
    frame.remove();
  }
  document.getElementById("out").textContent = JSON.stringify(wide) + " DONE";
})();
</script>"""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def too_wide(site: Path, widths: list[int], browser: str) -> list[tuple[str, int, int, str]]:
    """Page, width of the window, width that the page needs, and what sticks out."""
    pages = sorted(x.relative_to(site).as_posix() for x in site.rglob("*.html"))
    script = SCRIPT.replace("WIDTHS", json.dumps(widths)).replace("PAGES", json.dumps(pages))
    with (
        tempfile.TemporaryDirectory() as profile,
        tempfile.NamedTemporaryFile("w", dir=site, suffix=".htm") as start,
        ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server,
    ):
        start.write(script)
        start.flush()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/{Path(start.name).name}"
        budget = 2000 + 400 * len(pages) * len(widths)
        done = subprocess.run(
            [browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom",
             f"--user-data-dir={profile}", f"--virtual-time-budget={budget}", address],
            capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        server.shutdown()
    found = re.search(r'<pre id="out">(.*?) DONE</pre>', done.stdout, re.DOTALL)
    if found is None:
        raise SystemExit(f"the browser did not come to an end: {done.stderr[-500:]}")
    return [tuple(x) for x in json.loads(html.unescape(found[1]))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path, nargs="?", default=Path("build/site"))
    parser.add_argument("--widths", type=int, nargs="+", default=[1280, 400])
    asked = parser.parse_args()
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit(f"none of {', '.join(BROWSERS)} is installed")
    wide = too_wide(asked.site, asked.widths, browser)
    for page, width, needs, what in wide:
        print(f"{page}: needs {needs} of {width} pixels: {what}")
    pages = len(list(asked.site.rglob("*.html")))
    print(f"{pages} pages at {asked.widths} pixels: {len(wide)} need sideways scrolling")
    sys.exit(bool(wide))


if __name__ == "__main__":
    main()
