"""The table of an evaluation is complete, consistent and does not depend on the budget."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from textwrap import dedent
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.evaluation.links import evaluate_links
from decentrl.evaluation.metrics import summary
from decentrl.evaluation.ranks import rank
from decentrl.matching.matchers import FIELD as MATCHERS
from decentrl.matching.matchers import apply_matcher
from decentrl.matching.similarity import Scores

CONFIG = MatchingConfig()
DIRECTIONS, CANDIDATES, SUBSETS = (
    ("left-right", "right-left"),
    ("test", "all"),
    ("known", "unknown"),
)
PLACE = ("direction", "matcher", "candidates", "subset")


def place(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(row[key] for key in PLACE)


@pytest.fixture
def vectors() -> tuple[Tensor, Tensor]:
    """Thirty entities left, forty right; the first thirty are noisy copies, with twins."""
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(30, 8, dtype=torch.float64, generator=generator)
    left[20:25] = left[:5]
    right = torch.randn(40, 8, dtype=torch.float64, generator=generator)
    right[:30] = left + 0.7 * right[:30]
    right[20:25] = right[:5]
    return F.normalize(left, dim=1), F.normalize(right, dim=1)


LINKS = torch.stack([torch.arange(3, 27)] * 2, dim=1)
UNKNOWN = torch.arange(3, 27) % 3 == 0


def test_there_is_a_row_for_every_combination(vectors: tuple[Tensor, Tensor]) -> None:
    rows, ranks = evaluate_links(*vectors, LINKS, CONFIG, unknown=UNKNOWN)
    expected = set(product(DIRECTIONS, MATCHERS, CANDIDATES, ("all", *SUBSETS)))
    assert len(rows) == len(expected)
    assert {place(row) for row in rows} == expected
    assert set(ranks) == set(MATCHERS)
    numbers = {"n", "hits@1", "hits@5", "hits@10", "hits@50", "mr", "mrr"}
    assert all(set(row) == {*PLACE, *numbers} for row in rows)


def test_a_closed_world_has_no_subsets(vectors: tuple[Tensor, Tensor]) -> None:
    rows, _ = evaluate_links(*vectors, LINKS, CONFIG, candidates=("test",))
    assert {place(row) for row in rows} == set(product(DIRECTIONS, MATCHERS, ("test",), ("all",)))


def test_an_empty_subset_has_no_row(vectors: tuple[Tensor, Tensor]) -> None:
    nobody = torch.zeros(len(LINKS), dtype=torch.bool)
    rows, _ = evaluate_links(*vectors, LINKS, CONFIG, unknown=nobody)
    assert {row["subset"] for row in rows} == {"all", "known"}


def test_known_and_unknown_make_up_all(vectors: tuple[Tensor, Tensor]) -> None:
    rows, _ = evaluate_links(*vectors, LINKS, CONFIG, unknown=UNKNOWN)
    table = {place(row): row for row in rows}
    for combination in product(DIRECTIONS, MATCHERS, CANDIDATES):
        whole = table[(*combination, "all")]
        parts = [table[(*combination, subset)] for subset in SUBSETS]
        assert [part["n"] for part in parts] == [16, 8]
        for metric in ("hits@1", "hits@10", "mr", "mrr"):
            mean = sum(part["n"] * part[metric] for part in parts) / whole["n"]
            assert whole[metric] == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("budget", [1, 3000])
def test_the_budget_changes_nothing(vectors: tuple[Tensor, Tensor], budget: int) -> None:
    plenty, _ = evaluate_links(*vectors, LINKS, CONFIG, unknown=UNKNOWN)
    little, _ = evaluate_links(*vectors, LINKS, CONFIG, unknown=UNKNOWN, budget=budget)
    assert little == plenty


@pytest.mark.parametrize("matcher", MATCHERS)
def test_a_row_says_what_ranking_the_dense_matrix_says(
    vectors: tuple[Tensor, Tensor], matcher: str
) -> None:
    left, right = vectors
    rows, _ = evaluate_links(left, right, LINKS, CONFIG)
    table = {place(row): row for row in rows}
    ends = {"left-right": (left, right), "right-left": (right, left)}
    for direction, (queries, others) in ends.items():
        among_test = Scores.cosine(queries[3:27], others[3:27])
        among_all = Scores.cosine(queries[3:27], others)
        for candidates, cosine, targets in (
            ("test", among_test, torch.arange(24)),
            ("all", among_all, torch.arange(3, 27)),
        ):
            if (direction, candidates) == ("right-left", "test"):
                # One matrix serves both directions; Sinkhorn is not the same from the other side.
                scores = apply_matcher(cosine.T, matcher, CONFIG).T
            else:
                scores = apply_matcher(cosine, matcher, CONFIG)
            row = table[direction, matcher, candidates, "all"]
            for metric, value in summary(rank(scores, targets)).items():
                assert row[metric] == pytest.approx(value, rel=1e-12)


def test_swapping_the_sides_swaps_the_directions(vectors: tuple[Tensor, Tensor]) -> None:
    left, right = vectors
    rows, _ = evaluate_links(left, right, LINKS, CONFIG)
    swapped, _ = evaluate_links(right, left, LINKS.flip(1), CONFIG)
    other = {"left-right": "right-left", "right-left": "left-right"}
    table = {place({**row, "direction": other[row["direction"]]}): row for row in swapped}
    for row in rows:
        if row["matcher"] != "sinkhorn":  # the one matcher that treats its two sides differently
            assert table[place(row)]["mrr"] == pytest.approx(row["mrr"], rel=1e-12)


def test_evaluation_memory_is_bounded_by_the_budget() -> None:
    """Of 6,000 × 6,000 and 300 × 100,000 similarities, 144 and 120 MB, a few are there at once."""
    script = dedent("""
        import resource
        import torch
        from decentrl.config import MatchingConfig
        from decentrl.evaluation.links import evaluate_links

        torch.set_num_threads(1)

        def evaluate(links, n, budget):
            vectors = torch.nn.functional.normalize(torch.randn(n, 8), dim=1)
            pairs = torch.arange(links)[:, None].expand(-1, 2)
            candidates = ("test", "all") if links < n else ("test",)
            config = MatchingConfig(iterations=1)
            evaluate_links(vectors, vectors, pairs, config, candidates=candidates, budget=budget)

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        evaluate(50, 100, 1)  # whatever torch loads on first use
        before = peak()
        evaluate(6000, 6000, 8 << 20)
        evaluate(300, 100_000, 8 << 20)
        print(peak() - before)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 48 * 1024  # kilobytes


@pytest.mark.parametrize("candidates", [("test", "all"), ("all",), ("test",)])
def test_many_links_are_ranked_among_the_nearest(
    candidates: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    sides = [F.normalize(torch.randn(n, 8, generator=torch.Generator().manual_seed(n)), dim=1)
             for n in (30, 25)]  # fmt: skip
    links = torch.stack((torch.arange(20), torch.arange(20)), dim=1)
    exact = evaluate_links(*sides, links, CONFIG, candidates=candidates)
    monkeypatch.setattr("decentrl.evaluation.links.MOST_RANKED", 0)
    seen: list[object] = []
    found = evaluate_links(*sides, links, CONFIG, candidates=candidates, on_test=seen.append)
    assert [type(x).__name__ for x in seen] == ["SparseScores"] * ("test" in candidates)
    for mine, theirs in zip(found[0], exact[0], strict=True):
        for name, value in theirs.items():
            assert mine[name] == (pytest.approx(value) if isinstance(value, float) else value)
