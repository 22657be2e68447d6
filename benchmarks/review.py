"""What 200 decisions of the review queue are worth, beside 200 at random: a simulated reviewer.

    DECENTRL_DATA=... PYTHONPATH=. python benchmarks/review.py [world dbp15k/zh-en] [--seeds 5]
                      [--preset quick] [--decisions 200] [--print]
    DECENTRL_DATA=... PYTHONPATH=. python benchmarks/review.py choose dbp15k/zh-en

For each seed an aligner is trained on the known links. A reviewer who knows the test links looks at
matches: in one arm at the first of the review queue, ten at a time, in the other at as many drawn
at random from all of the queue. A right match is accepted; of a wrong one, the right counterpart if
it is among the alternatives that the queue shows, else the match is rejected (so is that of an
entity in no test link). One decision is one pair. Then each arm is trained again, from the same
start (`decentrl refit`), as is a third one without decisions. All are measured on the same links,
the test links of which no end was looked at or accepted in either arm: Hits@1, left to right, among
the right ends of these links, with the preset's matcher.

Each seed leaves a file in results/review, and one that has left its file is not repeated.

``choose`` compares orders of the queue in the same way without any test link: of the training links
a half (by seed) is known, the reviewer answers from the other half, and is measured on that;
entities of test links are never looked at.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from unittest import mock

import numpy as np
import torch

from decentrl import Aligner, AlignmentTask, load_dataset
from decentrl.evaluation.ranks import rank
from decentrl.matching.matchers import apply_matcher
from decentrl.matching.similarity import Scores
from decentrl.errors import DecentRLError
from decentrl.growth import review
from decentrl.growth.review import Review, ReviewItem
from studies.source_tree import check_committed, commit

PAGE = 10
"""Items that the reviewer looks at before the queue is asked again."""
Pairs = list[tuple[str, str]]
Picks = Callable[[Aligner, set[str]], Iterator[ReviewItem]]


def labels(task: AlignmentTask, links: Any) -> Pairs:
    left, right = (graph.entities for graph in (task.left, task.right))
    return list(zip(left.take(links[:, 0]), right.take(links[:, 1]), strict=True))


def first_of_queue(aligner: Aligner, hidden: set[str]) -> Iterator[ReviewItem]:
    """The first items of the queue, which is asked again after every page."""
    while True:
        items = aligner.review_queue(limit=len(hidden) + PAGE).items
        yield from [item for item in items if item.left not in hidden][:PAGE]


def at_random(seed: int) -> Picks:
    def picks(aligner: Aligner, hidden: set[str]) -> Iterator[ReviewItem]:
        items = [x for x in aligner.review_queue(limit=10**9).items if x.left not in hidden]
        yield from np.random.default_rng(seed).permutation(np.array(items, object))

    return picks


def reviewed(
    aligner: Aligner, truth: dict[str, str], hidden: set[str], picks: Picks, decisions: int
) -> tuple[list[str], Pairs]:
    """Decide so often; the left entities that were looked at, and the accepted pairs."""
    seen, accepted = list[str](), Pairs()
    for item in picks(aligner, hidden):
        shown = [item.right, *(other.right for other in item.alternatives)]
        right = truth.get(item.left)
        if right in shown:
            aligner.decide(item.left, right, "accept")
            accepted.append((item.left, right))
        else:
            aligner.decide(item.left, item.right, "reject")
        seen.append(item.left)
        if len(seen) == decisions:
            return seen, accepted
    raise AssertionError("the queue has an end")


def right_ones(aligner: Aligner, links: Pairs) -> Any:
    """Share of first place that each link has, left to right among their right ends, by CSLS."""
    ids = torch.from_numpy(aligner.task.read_links(links))
    left, right = (aligner.vectors(side)[ids[:, i]] for i, side in enumerate(("left", "right")))
    scores = apply_matcher(Scores.cosine(left, right), "csls", aligner.config.matching)
    ranks = rank(scores, torch.arange(len(ids)))
    return torch.where(ranks.better == 0, 1 / ranks.tied, 0.0).numpy()


def compared(
    aligner: Aligner, links: Pairs, hidden: set[str], arms: dict[str, Picks], decisions: int
) -> dict[str, Any]:
    """Hits@1 of each arm after a refit, and what its reviewer has found."""
    truth, again, found = dict(links), {"none": aligner.refit()}, dict[str, Any]()
    looked, taken = set[str](), set[str]()
    for name, picks in arms.items():
        seen, accepted = reviewed(aligner, truth, hidden, picks, decisions)
        found[name] = {"accepted": len(accepted), "rejected": len(seen) - len(accepted)}
        looked |= set(seen)
        taken |= {right for _, right in accepted}
        again[name] = aligner.refit()
        for _ in seen:
            aligner.undo_decision()
    measured = [
        (left, right) for left, right in links if left not in looked | {""} and right not in taken
    ]
    scores = {"start": hits(aligner, measured)} | {x: hits(y, measured) for x, y in again.items()}
    return {"links": len(measured), "hits@1": scores, "decisions": found}


def worth_of(name: str) -> Callable[[Review], Any]:
    """Another order of the queue, to be compared."""
    return getattr(review, f"_{name}")  # type: ignore[no-any-return]


def ordered_by(name: str) -> Picks:
    def picks(aligner: Aligner, hidden: set[str]) -> Iterator[ReviewItem]:
        with mock.patch.object(Review, "worth", ORDERS[name]):
            aligner._derived.pop("review", None)
            yield from first_of_queue(aligner, hidden)

    return picks


ORDERS: dict[str, Callable[[Review], Any]] = {}


def choose(dataset: str, preset: str, seed: int, decisions: int) -> dict[str, Any]:
    """All orders on one half of the training links."""
    task = load_dataset(dataset)
    assert isinstance(task, AlignmentTask)
    tested = set(task.left.entities.take(task.test[:, 0]))
    half = task.hold_out(0.5, seed, into="valid")
    held_out = labels(task, half.valid)
    known = AlignmentTask(task.name, task.left, task.right, half.train, task.valid, half.valid)
    aligner = Aligner.from_preset(preset, seed=seed, device="cpu").fit(known, progress=False)
    arms = {"random": at_random(seed), **{name: ordered_by(name) for name in ORDERS}}
    return compared(aligner, held_out, tested, arms, decisions)


def test(dataset: str, preset: str, seed: int, decisions: int) -> dict[str, Any]:
    task = load_dataset(dataset)
    assert isinstance(task, AlignmentTask)
    aligner = Aligner.from_preset(preset, seed=seed, device="cpu").fit(task, progress=False)
    arms = {"random": at_random(seed), "queue": first_of_queue}
    return compared(aligner, labels(task, task.test), set(), arms, decisions)
