"""The review queue in a real browser: deciding, taking back, and what is kept of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.serving import Service, served
from tests.conftest import NO_BROWSER
from tests.service.conftest import AUTHORISED, TOKEN

pytest.importorskip("playwright", reason=NO_BROWSER)

from playwright.sync_api import Page, expect

from tests.service import browsing
from tests.service.browsing import Watched, entity_route, go, shot


@pytest.fixture(scope="module")
def explored(
    towns: Path, token_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """Serves a copy of ``towns`` that may be changed."""
    own = tmp_path_factory.mktemp("reviewed") / "towns"
    shutil.copytree(towns, own)
    with served(own, options=("--write", "--token-file", str(token_file))) as service:
        yield service


def begin(page: Page, token: str = TOKEN) -> None:
    page.get_by_label("Your name").fill("Ada <b>Lovelace</b>")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Begin").click()


def pair(page: Page) -> list[str]:
    """The two entities in question."""
    return [str(name) for name in page.locator(".panel h2").all_inner_texts()]


def act(page: Page, key: str, says: str) -> None:
    """Press a key, and wait until it has had its effect."""
    page.keyboard.press(key)
    expect(page.locator("#status")).to_contain_text(says)


def counts(page: Page) -> list[str]:
    return [text.split()[0] for text in page.locator(".counts li").all_inner_texts()]


def decisions(seen: Watched) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = seen.get("v1/decisions")["decisions"]
    return found


def test_accept_reject_skip_and_undo(seen: Watched) -> None:
    page = seen.open("#/review")
    begin(page)
    assert counts(page)[:4] == ["0", "0", "0", "0"]
    first = pair(page)
    page.get_by_role("button", name="Accept").click()
    expect(page.locator("#status")).to_contain_text("Accepted")
    second = pair(page)
    assert second[0] != first[0]
    assert counts(page)[:4] == ["1", "1", "0", "0"]
    act(page, "r", "Rejected")
    act(page, "s", "Skipped")
    assert counts(page)[:4] == ["3", "1", "1", "1"]
    shot(page, "review")
    kept = decisions(seen)
    assert [x["verdict"] for x in kept] == ["accept", "reject", "skip"]
    assert {x["by"] for x in kept} == {"Ada <b>Lovelace</b>"}
    for left in (2, 1):
        page.keyboard.press("u")
        expect(page.locator(".counts li").first).to_contain_text(f"{left} of")
    assert pair(page) == second
    assert counts(page)[:4] == ["1", "1", "0", "0"]
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".counts li").first).to_contain_text("0 of")
    assert pair(page) == first
    assert [x["verdict"] for x in decisions(seen)][3:] == ["undo"] * 3


def test_a_wrong_token_is_asked_for_again(seen: Watched) -> None:
    before = decisions(seen)
    page = seen.open("#/review")
    begin(page, "not the token at all")
    page.keyboard.press("a")
    expect(page.get_by_role("alert")).to_have_text("The token is not the right one.")
    expect(page.get_by_label("Token")).to_be_focused()
    expect(page.get_by_role("button", name="Accept")).to_be_hidden()
    page.keyboard.press("Escape")
    page.get_by_role("heading", name="Who decides?").click()
    page.keyboard.press("a")
    page.wait_for_timeout(200)
    assert decisions(seen) == before


def test_an_alternative_can_be_accepted(seen: Watched) -> None:
    page = seen.open("#/review")
    begin(page)
    left, right = pair(page)
    page.locator(".alternatives button").first.click()
    expect(page.locator("#status")).to_contain_text("Now compared")
    other = pair(page)
    assert other[0] == left
    assert other[1] != right
    page.get_by_role("button", name="Accept").click()
    expect(page.locator("#status")).to_contain_text("Accepted")
    with page.expect_download() as downloading:
        page.get_by_role("link", name="links").click()
    links = Path(downloading.value.path()).read_text("utf-8").splitlines()
    assert len(links) == 1
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".counts li").first).to_contain_text("0 of")
    assert pair(page) == other  # although the queue has another one of this entity


def test_keys_decide_only_where_they_should(seen: Watched) -> None:
    page = seen.open("#/review")
    begin(page)
    before = decisions(seen)
    page.get_by_role("combobox").first.focus()
    page.keyboard.type("ars")
    page.keyboard.press("Escape")
    page.locator("main").focus()
    page.keyboard.press("Control+a")
    page.get_by_label("Keys").uncheck()
    page.keyboard.press("a")
    page.wait_for_timeout(200)
    assert decisions(seen) == before
    page.get_by_label("Keys").check()


def test_one_can_look_at_an_entity_and_come_back(seen: Watched) -> None:
    page = seen.open("#/review")
    begin(page)
    asked = pair(page)
    page.locator(".panel .triples a").first.click()
    expect(page.locator(".entity-head h1")).to_be_visible()
    before = decisions(seen)
    page.keyboard.press("a")
    page.wait_for_timeout(500)
    assert decisions(seen) == before
    page.go_back()
    expect(page.locator(".panel")).to_have_count(2)
    assert pair(page) == asked
    assert counts(page)[0] == "0"


def test_a_service_that_only_reads_says_so(seen: Watched) -> None:
    page = seen.open()

    def reading(route: Any) -> None:
        route.fulfill(json={**route.fetch().json(), "writable": False})

    page.route("**/v1/run", reading)
    page.reload()
    go(page, "#/review")
    expect(page.locator(".note")).to_contain_text("This service only reads")
    expect(page.get_by_role("button", name="Accept")).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_form_of_the_review(seen: Watched, scheme: str) -> None:
    page = seen.open("#/review", width=400, color_scheme=scheme)
    for step in ("asked who decides", "deciding"):
        assert browsing.sideways(page) <= 0, step
        assert page.evaluate(browsing.CONTRASTS) == [], step
        assert browsing.nameless_controls(page) == [], step
        if step == "asked who decides":
            begin(page)
    act(page, "s", "Skipped")
    act(page, "u", "taken back")
    go(page, entity_route("http://left.org/20", "left"))
    go(page, "#/review")
    assert browsing.shifted(page) < 0.02, page.evaluate("window.shifts")
    shot(page, f"review-narrow-{scheme}")


def test_the_end_of_the_queue(seen: Watched) -> None:
    with httpx.Client(base_url=seen.service.address, headers=AUTHORISED, timeout=60) as client:
        verdict = "skip"
        while open_items := [
            x for x in client.get("v1/review").json()["items"] if x["decision"] is None
        ]:
            ends = {side: open_items[0][side]["id"] for side in ("left", "right")}
            body = {**ends, "verdict": verdict, "by": "a test"}
            assert client.post("v1/decisions", json=body).is_success
            verdict = "accept"
    page = seen.open("#/review")
    expect(page.get_by_role("heading", name="Nothing is left to review")).to_be_visible()
    expect(page.locator("main")).to_contain_text("decentrl refit towns -o NEW")
    page.get_by_role("button", name="Look at 1 skipped match again").click()
    expect(page.locator(".panel")).to_have_count(2)
