"""The report is one safe, self-contained page that says exactly what it was given."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest

from decentrl.runs.report.pages import Report, render_report

VOID = {"meta", "br", "wbr"}


class Page(HTMLParser):
    """A page as a reader meets it: tags with attributes, visible words, table cells."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(source)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.words.append(data)
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


def result(**changes: Any) -> dict[str, Any]:
    row = {
        "direction": "left-right",
        "matcher": "csls",
        "candidates": "test",
        "subset": "all",
        "n": 693,
        "hits@1": 0.6118,
        "hits@5": 0.8514,
        "hits@10": 0.9437,
        "hits@50": 0.9913,
        "mr": 1234.56,
        "mrr": 0.7219,
    }
    return row | changes


def sample(**changes: Any) -> dict[str, Any]:
    row = {"left": "Berlin", "right": "Bern", "truth": "Berlin", "score": 0.5, "correct": False}
    return row | changes


@pytest.fixture
def report() -> Report:
    return Report(
        job="alignment",
        title="world: CLDR ↔ GeoNames",
        facts=[("preset", "paper"), ("seed", "0")],
        results=[result(), result(matcher="cosine", **{"hits@1": 0.55})],
        history=[
            {"epoch": 1, "loss": 0.9, "valid_hits@1": None},
            {"epoch": 2, "loss": 0.4, "valid_hits@1": 0.337},
            {"epoch": 3, "loss": 0.25},
        ],
        scores={"right": [0.9, 0.8, 0.7], "wrong": [0.2, 0.85]},
        groups=[
            {"name": "1", "n": 1210, "hits@1": 0.412},
            {"name": "2-3", "n": 98, "hits@1": 0.733},
        ],
        samples=[sample(), sample(left="Paris", right="Parigi", score=0.912, correct=True)],
        command="decentrl align --dataset world -o run",
    )


EMPTY = Report(
    "alignment", "a ↔ b", facts=[], results=[], history=[], scores={}, groups=[], samples=[]
)


def test_every_tag_that_opens_closes(report: Report) -> None:
    page = Page(render_report(report))
    assert page.named("html") == [{"lang": "en"}]
    assert len(page.named("h1")) == 1


def test_the_page_loads_and_runs_nothing(report: Report) -> None:
    iri = "http://example.org/resource/Berlin"
    source = render_report(replace(report, samples=[sample(left=iri)]))
    page = Page(source)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert not any(
        name in {"src", "href", "xlink:href", "srcset"} or name.startswith("on")
        for _, attrs in page.tags
        for name in attrs
    )
    style = re.search(r"<style>(.*?)</style>", source, re.S)
    assert style is not None
    assert not re.search(r"url\(|@import|@font-face", style[1])
    policies = [meta.get("content") for meta in page.named("meta") if "http-equiv" in meta]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]


@pytest.mark.parametrize(
    "hostile",
    [
        "<script>alert(1)</script>",
        "\"'><img src=x onerror=alert(1)>",
        "</table></main>&lt;",
        "ا<b>",
    ],
)
def test_text_from_outside_stays_text(report: Report, hostile: str) -> None:
    benign = Page(render_report(report))
    page = Page(
        render_report(
            replace(
                report,
                title=hostile,
                facts=[("preset", hostile), (hostile, "0")],
                groups=[{**row, "name": hostile} for row in report.groups],
                samples=[{**row, "left": hostile, "truth": hostile} for row in report.samples],
                command=hostile,
            )
        )
    )
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in benign.tags]
    assert hostile in page.words
    assert {"title": hostile} in page.named("bdi")


def test_a_text_that_utf8_cannot_carry_does_not_lose_the_page(report: Report) -> None:
    source = render_report(replace(report, samples=[sample(left="a\ud800b\x00c\u202ed")]))
    assert "a\ufffdb\ufffdc\ufffdd" in source.encode("utf-8").decode("utf-8")


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("http://zh.dbpedia.org/resource/%E5%8C%97%E4%BA%AC", "北京"),
        ("<http://example.org/thing#AC%2FDC>", "AC/DC"),
        ("http://sws.geonames.org/3424932/", "3424932"),
        ("urn:isbn:0451450523", "0451450523"),
        ("territory/CH", "territory/CH"),
        ("Star Wars: A New Hope 100%", "Star Wars: A New Hope 100%"),
        ("http://example.org/" + "x" * 500, "x" * 89 + "…"),
        ("://", "://"),
    ],
)
def test_an_iri_is_shown_by_its_end_and_kept_in_the_title(
    report: Report, label: str, shown: str
) -> None:
    page = Page(render_report(replace(report, samples=[sample(left=label)])))
    assert {"title": label} in page.named("bdi")
    assert [shown, "Bern", "Berlin", "0.500"] in page.rows


def test_the_headline_is_a_sentence(report: Report) -> None:
    assert (
        "Of 693 test entities, 61 % find their counterpart first and 94 % within the first ten "
        "(CSLS, left to right, among the test targets)."
    ) in Page(render_report(report)).text


def test_the_headline_does_not_pick_the_luckiest_row(report: Report) -> None:
    lucky = [
        result(matcher="sinkhorn", **{"hits@1": 0.99}),
        result(candidates="all", **{"hits@1": 0.98}),
        result(direction="right-left", **{"hits@1": 0.97}),
    ]
    text = Page(render_report(replace(report, results=[*lucky, result()]))).text
    assert "61 % find their counterpart first" in text
    assert "From right to left, 97 % find it first." in text


def test_the_headline_is_by_the_runs_own_matcher(report: Report) -> None:
    both = replace(report, results=[result(), result(matcher="sinkhorn", **{"hits@1": 0.5})])
    own = Page(render_report(replace(both, matcher="sinkhorn"))).text
    assert "50 % find their counterpart first" in own
    assert "(Sinkhorn, left to right" in own
    assert "(CSLS, left to right" in Page(render_report(both)).text


def test_the_headline_says_all_or_none_only_when_it_is_so(report: Report) -> None:
    almost = result(**{"hits@1": 0.0004, "hits@10": 0.9996})
    text = Page(render_report(replace(report, results=[almost]))).text
    assert "less than 1 % find their counterpart first and more than 99 % within" in text


def test_numbers_shown_are_the_numbers_given(report: Report) -> None:
    page = Page(render_report(report))
    assert ["CSLS", "61.2", "85.1", "94.4", "99.1", "0.722", "1,234.6"] in page.rows
    assert ["Cosine", "55.0", "85.1", "94.4", "99.1", "0.722", "1,234.6"] in page.rows
    assert ["Berlin", "Bern", "Berlin", "0.500"] in page.rows
    assert ["Paris", "Parigi", "✓", "0.912"] in page.rows
    assert ["seed", "0"] in page.rows
    for words in ("41.2 %", "n = 1,210", "73.3 %", "n = 98", "Loss, 0.25 at the end"):
        assert words in page.words
    assert "Validation Hits@1, best 33.7 % at epoch 2" in page.text
    assert "Half of the right score 0.8 or more; 50 % of the wrong do." in page.text


def test_the_histogram_counts_every_score_once() -> None:
    scores = {"right": [i / 100 for i in range(101)], "wrong": [0.5] * 7}
    words = Page(render_report(replace(EMPTY, scores=scores))).words
    bars = [re.fullmatch(r"\S+ to \S+: (\d+) right, (\d+) wrong", word) for word in words]
    counts = [(int(bar[1]), int(bar[2])) for bar in bars if bar]
    assert min(right for right, _ in counts) >= 4, "evenly spread scores fill every bin"
    # Each bin is told twice: by its bar upwards and by its bar downwards.
    assert sum(right for right, _ in counts) == 2 * 101
    assert sum(wrong for _, wrong in counts) == 2 * 7


def test_known_and_unknown_appear_only_when_measured(report: Report) -> None:
    assert "unknown" not in Page(render_report(report)).text
    unknown = result(subset="unknown", n=213, **{"hits@1": 0.428})
    page = Page(render_report(replace(report, results=[unknown, *report.results])))
    assert "Of 693 test entities" in page.text
    assert "Hits@1, unknown42.8 %of the 213 not seen in training" in page.text
    assert ["Left to right, among the test targets 213 unknown entities"] in page.rows


@pytest.mark.parametrize(
    ("part", "heading"),
    [
        ("results", "As the field reports it"),
        ("history", "Training"),
        ("scores", "How far to trust a score"),
        ("groups", "Hits@1 by degree"),
        ("samples", "A sample of the matches"),
    ],
)
def test_a_part_without_data_disappears_alone(report: Report, part: str, heading: str) -> None:
    full = Page(render_report(report))
    bare = Page(render_report(replace(report, **{part: type(getattr(report, part))()})))
    assert heading in full.words
    assert heading not in bare.words
    assert len(bare.named("h2")) < len(full.named("h2"))


def test_nothing_at_all_still_makes_a_page() -> None:
    page = Page(render_report(EMPTY))
    assert "a ↔ b" in page.words
    assert not page.named("svg")
    assert not page.named("table")


@pytest.mark.parametrize(
    "changes",
    [
        {"history": [{"epoch": 1, "loss": 0.5}]},
        {"history": [{"epoch": 1, "loss": math.nan}, {"epoch": 2, "loss": 3e7}]},
        {"history": [{"epoch": 0, "loss": 0.0}, {"epoch": 1, "loss": -1.5}]},
        {"history": [{"epoch": 5, "loss": None, "valid_hits@1": 0.0}]},
        {"scores": {"right": [0.5]}},
        {"scores": {"right": [], "wrong": [1e-12, math.inf]}},
        {"results": [result(n=0, mr=None, mrr=math.nan, **{"hits@1": None})]},
        {"samples": [sample(truth=None, score=1e-7)]},
    ],
)
def test_odd_but_honest_data_are_drawn(changes: dict[str, Any]) -> None:
    source = render_report(replace(EMPTY, **changes))
    page = Page(source)
    drawn = [str(value) for _, attrs in page.tags for value in attrs.values()]
    assert not re.search(r"\b(nan|inf)\b", " ".join([page.text, *drawn]))


def test_charts_and_tables_speak_to_those_who_cannot_see_them(report: Report) -> None:
    page = Page(render_report(report))
    charts = page.named("svg")
    assert len(charts) == 3
    assert all(chart["role"] == "img" and chart["aria-label"] for chart in charts)
    assert any("Degree 1: 41.2 % of 1,210" in str(chart["aria-label"]) for chart in charts)
    assert all("scope" in heading for heading in page.named("th"))


def test_the_page_follows_the_reader_into_the_dark_and_onto_paper(report: Report) -> None:
    source = render_report(report)
    assert "prefers-color-scheme:dark" in source
    assert "@media print" in source


# Prediction


def answered(group: str, name: str, **changes: Any) -> dict[str, Any]:
    row = {"group": group, "name": name, "n": 1006, "mrr": 0.4567, "hits@1": 0.3333}
    return row | {"hits@3": 0.5, "hits@10": 0.6789, "mr": 1234.56} | changes


def question(**changes: Any) -> dict[str, Any]:
    row = {"head": "Rwanda", "relation": "borders", "tail": "Croatia", "asked": "tail"}
    row |= {"truth": ["Tanzania"], "probability": 0.125, "score": 3.0, "correct": False}
    return row | changes


@pytest.fixture
def prediction() -> Report:
    return Report(
        job="prediction",
        title="world/geonames",
        facts=[("preset", "paper")],
        results=[
            answered("all", "all"),
            answered("direction", "tail", n=503, mrr=0.5),
            answered("direction", "head", n=503, mrr=0.25),
            answered("category", "N-1", n=648, **{"hits@10": 0.75}),
            answered("relation", "borders", n=10, mrr=0.111),
            answered("relation", "speaks", n=99, mrr=0.222),
        ],
        frequency={"mrr": 0.149, "hits@1": 0.1, "hits@3": 0.16, "hits@10": 0.24, "mr": 709.2},
        groups=[answered("category", "N-1", n=648, **{"hits@10": 0.75})],
        confidence={"ece": 0.017, "mean": 0.3, "right": 0.31},
        history=[
            {"epoch": 1, "loss": 0.9},
            {"epoch": 2, "loss": 0.4, "valid_mrr": 0.337},
            {"epoch": 3, "loss": 0.25, "valid_mrr": 0.3},
        ],
        scores={"right": [0.9, 0.7, None], "wrong": [0.2, 0.85]},
        samples=[
            question(),
            question(head="Laiwu", tail="China", correct=True, truth=["China"], probability=0.9),
            question(asked="head", truth=["Kenya", "Uganda"], probability=None),
        ],
        command="decentrl complete --dataset world/geonames -o run",
    )


def test_the_page_of_a_prediction_says_what_it_was_given(prediction: Report) -> None:
    page = Page(render_report(prediction))
    assert (
        "Of 1,006 questions, 33 % are answered right at once and 68 % within the first ten. "
        "By training frequency alone, 24 % would be within the first ten."
    ) in page.text
    assert ["this model", "1,006", "0.457", "33.3", "50.0", "67.9", "1,234.6"] in page.rows
    assert [
        "for the tail (h, r, ?)",
        "503",
        "0.500",
        "33.3",
        "50.0",
        "67.9",
        "1,234.6",
    ] in page.rows
    assert ["training frequency", "", "0.149", "10.0", "16.0", "24.0", "709.2"] in page.rows
    assert ["Rwanda – borders → ?", "Croatia", "Tanzania", "0.125"] in page.rows
    assert ["Laiwu – borders → ?", "China", "✓", "0.900"] in page.rows
    assert ["? – borders → Croatia", "Rwanda", "Kenya, Uganda", "–"] in page.rows
    assert "Validation MRR, best 0.337 at epoch 2" in page.text
    assert "Half of the right have 0.8 or more; 50 % of the wrong do." in page.text
    assert "Calibration error0.017" in page.text
    for words in ("75.0 %", "n = 648", "decentrl complete --dataset world/geonames -o run"):
        assert words in page.words
    names = [row[0] for row in page.rows]
    assert names.index("speaks") < names.index("borders"), "the most asked relation comes first"


def test_the_open_world_of_a_prediction_appears_only_when_measured(
    prediction: Report,
) -> None:
    assert "arrived after training" not in Page(render_report(prediction)).text
    cell = answered("open world", "new query, known answer", n=213, mrr=0.428)
    rows = [*prediction.results[:4], cell, *prediction.results[4:]]
    page = Page(render_report(replace(prediction, results=rows)))
    assert ["By what arrived after training"] in page.rows
    assert "MRR, new asks0.428of 213 with an entity unseen in training" in page.text


@pytest.mark.parametrize("hostile", ["<script>alert(1)</script>", "\"'><img src=x onerror=a>"])
def test_text_from_outside_stays_text_in_predictions(prediction: Report, hostile: str) -> None:
    benign = Page(render_report(prediction))
    page = Page(
        render_report(
            replace(
                prediction,
                title=hostile,
                facts=[(hostile, hostile)],
                results=[
                    {**row, "name": hostile} if row["group"] in ("relation", "category") else row
                    for row in prediction.results
                ],
                groups=[{**row, "name": hostile} for row in prediction.groups],
                samples=[
                    {
                        **row,
                        "head": hostile,
                        "relation": hostile,
                        "truth": [hostile] * len(row["truth"]),
                    }
                    for row in prediction.samples
                ],
                command=hostile,
            )
        )
    )
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in benign.tags]
    assert hostile in page.words
    assert not {"script", "img"} & {tag for tag, _ in page.tags}


@pytest.mark.parametrize(
    ("part", "heading"),
    [
        ("results", "All results"),
        ("results", "Relation by relation"),
        ("groups", "Hits@10 by category"),
        ("history", "Training"),
        ("scores", "How far to trust a probability"),
        ("samples", "A sample of the answers"),
    ],
)
def test_a_part_of_a_prediction_without_data_disappears_alone(
    prediction: Report, part: str, heading: str
) -> None:
    full = Page(render_report(prediction))
    empty = type(getattr(prediction, part))()
    bare = Page(render_report(replace(prediction, **{part: empty})))
    assert heading in full.words
    assert heading not in bare.words


def claimed(**changes: Any) -> dict[str, Any]:
    row = {"subset": "all", "matcher": "blend", "n": 631, "claimed": 1500, "judged": 700}
    shares = {"hits@1": 0.676, "precision": 0.412, "recall": 0.598, "f1": 0.4879}
    return row | shares | changes


def test_what_match_gives_comes_first_then_the_tables_of_the_field(report: Report) -> None:
    page = Page(render_report(replace(report, matches=[claimed()])))
    assert ["all", "631", "67.6", "0.412", "0.598", "0.488"] in page.rows
    first, second = (page.text.index(x) for x in ("Matches among everything", "As the field repo"))
    assert first < second
    assert "Of 1,500 matches among everything, 41 % are right, and 60 % of 631" in page.text
    assert "exactly one test entity" in page.text
    assert "say little" not in page.text


def test_few_test_links_are_a_warning(report: Report) -> None:
    page = Page(render_report(replace(report, matches=[claimed(n=49)])))
    assert "Only 49 links are tested: these numbers say little" in page.text


def test_calibration_of_an_alignment_is_shown(report: Report) -> None:
    sure = {"ece": 0.0213, "mean": 0.71, "right": 0.69, "threshold": 0.4}
    text = Page(render_report(replace(report, confidence=sure))).text
    assert "Calibration error0.021confidence expects 71 % right, 69 % are" in text
