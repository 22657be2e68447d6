"""The explorer in a real browser: Debian's chromium over a service in a process of its own."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

import decentrl
from benchmarks.serving import Service, served
from tests.conftest import NO_BROWSER
from tests.service import hostile
from tests.service.conftest import finished

pytest.importorskip("playwright", reason=NO_BROWSER)

from playwright.sync_api import Browser, Page, expect

from tests.service import browsing
from tests.service.browsing import Watched, entity_route, go, settled, shot

CONTROLS = "[\x00-\x08\x0b-\x1f\x7f-\x9f]"


@pytest.fixture(scope="module")
def explored(
    tmp_path_factory: pytest.TempPathFactory, towns: Path, people_file: Path
) -> Iterator[Service]:
    """Serves ``towns``, and ``people``, answers by paths."""
    few = ("--preset", "paths", "--set", "training.epochs=2", "--device", "cpu")
    folder = tmp_path_factory.mktemp("paths") / "people"
    with served(towns, finished(folder, "complete", str(people_file), *few)) as service:
        yield service


def heading(page: Page, text: str | re.Pattern[str]) -> None:
    expect(page.locator("main h1")).to_have_text(text)


# Looking


def test_search_with_the_keyboard_alone(seen: Watched) -> None:
    page = seen.open()
    heading(page, "towns")
    focused = "document.activeElement.getAttribute('aria-label')"
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate(focused) == "Search entities by name":
            break
    field = page.get_by_role("combobox", name="Search entities by name")
    expect(field).to_be_focused()
    page.keyboard.type("town 30")
    expect(page.locator("[role=option]")).to_have_count(2)  # on either side
    expect(field).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    chosen = page.locator("[role=option][aria-selected=true]")
    expect(chosen).to_contain_text("right")
    expect(field).to_have_attribute("aria-activedescendant", str(chosen.get_attribute("id")))
    shot(page, "search")
    page.keyboard.press("Enter")
    heading(page, "Plain town 30")
    expect(page.locator("main h1")).to_be_focused()
    expect(page.locator(".entity-head")).to_contain_text("right graph")
    page.go_back()
    heading(page, "towns")


def test_search_says_when_nothing_is_found_and_escape_closes(seen: Watched) -> None:
    page = seen.open()
    page.get_by_role("combobox").first.fill("there is no such entity")
    expect(page.locator("#status")).to_have_text("No entity begins with this.")
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox")).to_have_count(0)


def test_triples_lead_to_other_entities_and_back(seen: Watched) -> None:
    page = seen.open(entity_route("http://left.org/20", "left"))
    heading(page, "Plain town 20")
    link = page.locator(".triples dd a").first
    name = link.inner_text()
    link.click()
    heading(page, name)
    page.go_back()
    heading(page, "Plain town 20")


def explained(seen: Watched) -> tuple[str, str]:
    """A left entity with shared neighbours, and its best match."""
    for i in range(15, hostile.SIZE):
        left = hostile.entity("left", i)
        found = seen.get("v1/matches", id=left, side="left")["matches"]
        first = next((x for x in found if x["chosen"]), found[0])["id"]
        if seen.get("v1/explain/match", left=left, right=first)["shared"]:
            return left, first
    raise AssertionError("no entity shares a neighbour with its match")


def test_matches_and_the_reasons_drawn(seen: Watched) -> None:
    left, right = explained(seen)
    page = seen.open(entity_route(left, "left"))
    found = seen.get("v1/matches", id=left, side="left", top=5)["matches"]
    expect(page.locator(".match")).to_have_count(len(found))
    why = seen.get("v1/explain/match", left=left, right=right)
    rows = page.locator(".lens-row")
    expect(rows).to_have_count(len(why["shared"]))
    expect(page.locator(".lens path.edge")).to_have_count(3 * len(why["shared"]))
    # Each line ends where its nodes are.
    width = page.locator(".lens").bounding_box()["width"]  # type: ignore[index]
    assert float(page.locator(".lens svg").get_attribute("viewBox").split()[2]) == width  # type: ignore[union-attr]
    page.locator(".in-words summary").click()
    expect(page.locator(".in-words")).to_contain_text(re.compile("best match|known link"))
    shot(page, "entity")
    other = page.locator(".match").nth(1)
    other.get_by_role("button", name="Why").click()
    expect(other.get_by_role("button")).to_have_attribute("aria-pressed", "true")
    settled(page)
    page.locator(".match").nth(1).get_by_role("link", name="Compare").click()
    heading(page, "Side by side")
    expect(page.locator(".panel")).to_have_count(2)
    go(page, entity_route(left, "left"))
    name = rows.first.locator("a").nth(1).inner_text()
    rows.first.locator("a").nth(1).click()
    heading(page, name)


def test_what_a_vector_is_made_of(seen: Watched) -> None:
    page = seen.open(entity_route("http://left.org/20", "left"))
    page.get_by_text("What it is made of").click()
    expect(page.locator(".weights li").first).to_contain_text("%")


def test_an_unknown_entity_suggests_near_names(seen: Watched) -> None:
    page = seen.open(entity_route("Plain town 2O", "left"))
    heading(page, "Not found")
    page.locator(".chips a").first.click()
    heading(page, re.compile("Plain town"))


def test_a_question_and_its_paths(seen: Watched) -> None:
    page = seen.open("#/ask", run="people")
    page.get_by_role("combobox", name="Head").fill("person 1")
    page.locator("[role=option]").first.click()
    page.get_by_label("Relation").select_option("citizen of")
    page.get_by_role("button", name="Ask").click()
    expect(page.locator(".answer")).to_have_count(10)
    settled(page)
    first = page.locator(".answer").first
    question = {"head": "person 1", "relation": "citizen of"}
    best = seen.get("v1/runs/people/predictions", **question)["answers"][0]["tail"]
    expect(first.locator(".match-name")).to_have_text(best)
    paths = seen.get("v1/runs/people/explain/answer", **question, tail=best)["paths"]
    expect(first.locator(".path")).to_have_count(len(paths))
    assert {paths[0]["steps"][0][f"{end}_name"] for end in ("head", "tail")} >= {"person 1"}
    steps = sum(len(path["steps"]) for path in paths)
    expect(first.locator("path.edge")).to_have_count(steps)
    expect(first.locator("path.tip")).to_have_count(steps)
    shot(page, "paths")
    second = page.locator(".answer").nth(1)
    second.locator("summary").click()
    expect(second.locator(".path, .paths-place p").first).to_be_visible()
    first.locator(".path-node a").first.click()
    heading(page, "person 1")
    page.locator(".asks a").first.click()
    expect(page.get_by_role("combobox", name="Head")).to_have_value("person 1")


def test_a_question_needs_one_end(seen: Watched) -> None:
    page = seen.open("#/ask", run="people")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose a head or a tail")


def test_several_runs_can_be_chosen(seen: Watched) -> None:
    page = seen.open()
    page.get_by_label("Run", exact=True).select_option("people")
    heading(page, "people")
    expect(page.get_by_role("navigation").get_by_role("link", name="Ask")).to_be_visible()


def test_it_lives_under_any_path(seen: Watched, chromium: Browser) -> None:
    """As behind a proxy that takes a prefix off."""
    page = chromium.new_context().new_page()
    page.route(
        "**/graphs/**",
        lambda route: route.continue_(url=route.request.url.replace("/graphs/", "/")),
    )
    page.goto(f"{seen.service.address}graphs/{entity_route('http://left.org/20', 'left')}")
    heading(page, "Plain town 20")
    asked = page.evaluate("performance.getEntriesByType('resource').map((x) => x.name)")
    assert asked
    assert all("/graphs/" in url for url in asked)
    page.context.close()


# Safety


def visible(text: str) -> str:
    """A text without spaces, controls and what stands for them."""
    return "".join(c for c in text if unicodedata.category(c)[0] not in "CZ" and c != "\ufffd")


def test_hostile_labels_are_only_text(seen: Watched) -> None:
    page = seen.open(width=400)
    for i, label in enumerate([*hostile.LABELS, hostile.LONG]):
        go(page, entity_route(hostile.entity("left", i), "left"))
        shown = label if len(label) <= 160 else label[:159] + "…"
        text = page.locator("main h1").evaluate("(h1) => h1.textContent")
        assert not re.search(CONTROLS, text)
        assert visible(text) == visible(shown)
        assert page.evaluate("document.scripts.length") == 1
        assert page.locator("main :is(img, script, base, iframe, style, link)").count() == 0
        assert (
            page.locator("main b:not(.lens-end b, .question-line b, .share-names b)").count() == 0
        )
        assert browsing.sideways(page) <= 0, label
    shot(page, "long")


def test_hostile_labels_in_suggestions_and_reasons(seen: Watched) -> None:
    page = seen.open()
    page.get_by_role("combobox").first.fill("script")
    expect(page.locator("[role=option]").first).to_contain_text("<script>alert(1)</script>")
    go(
        page,
        "#/match?" + "left=%3Cscript%3Ealert(1)%3C%2Fscript%3E&right=http%3A%2F%2Fright.org%2F1",
    )
    expect(page.locator(".panel h2").first).to_have_text("<script>alert(1)</script>")
    for javascript in page.locator("a").evaluate_all("(all) => all.map((a) => a.protocol)"):
        assert javascript == "http:"


def test_the_watch_sees_what_must_not_happen(seen: Watched) -> None:
    """The guard of these tests itself: an injected script breaks the policy, and is noticed."""
    page = seen.open()
    page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=alert(1)>')")
    page.wait_for_timeout(300)
    assert page.evaluate("window.violations") != []
    page.evaluate("window.violations = []")
    assert seen.wrong == []


def test_files_of_the_page_hold_no_markup_from_outside() -> None:
    folder = Path(decentrl.__file__).parent / "service" / "page"
    files = {file.name: file.read_text("utf-8") for file in folder.iterdir()}
    for name, text in files.items():
        assert len(text.splitlines()) <= 400, name
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(", text
        ), name
        assert set(re.findall(r"https?://[\w.]+", text)) <= {"http://www.w3.org"}, name
    assert not re.search(r"<style|style=|\bon\w+=|javascript:", files["index.html"])
    assert not re.search(r"""["'(]/(?!/)[\w]""", files["index.html"])


# Form


ROUTES = {
    "towns": ["#/", entity_route("http://left.org/20", "left"), "#/review", "#/nowhere",
              "#/match?left=http%3A%2F%2Fleft.org%2F20&right=http%3A%2F%2Fright.org%2F20"],
    "people": ["#/", "#/ask", "#/ask?head=person+1&relation=citizen+of", entity_route("person 1")],
}  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("run", list(ROUTES))
def test_narrow_screens_contrast_names_and_stillness(seen: Watched, run: str, scheme: str) -> None:
    page = seen.open(run=run, width=400, color_scheme=scheme)
    for route in ROUTES[run]:
        go(page, route)
        assert browsing.sideways(page) <= 0, route
        assert page.evaluate(browsing.CONTRASTS) == [], route
        assert browsing.nameless_controls(page) == [], route
        assert page.locator("h1").count() == 1, route
        shot(page, re.sub(r"\W+", "-", f"{run}{route[:12]}{scheme}"))
    assert browsing.shifted(page) < 0.02, page.evaluate("window.shifts")


def test_nothing_jumps_on_a_wide_screen(seen: Watched) -> None:
    page = seen.open(color_scheme="light")
    for route in ROUTES["towns"]:
        go(page, route)
    assert browsing.shifted(page) < 0.02, page.evaluate("window.shifts")
