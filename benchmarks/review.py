"""What 200 decisions of the review queue are worth, beside 200 at random: a simulated reviewer.

    DECENTRL_DATA=... PYTHONPATH=. python benchmarks/review.py world dbp15k/zh-en
    DECENTRL_DATA=... PYTHONPATH=. python benchmarks/review.py world dbp15k/zh-en --print
    DECENTRL_DATA=... PYTHONPATH=. python benchmarks/review.py dbp15k/zh-en --choose
        --set model.encoder=none --decisions 600 --seeds 0

For each seed an aligner is trained on the known links. A reviewer who knows the test links looks at
matches: in one arm at the first of the review queue, ten at a time, in the other at as many drawn
at random from the whole queue. If the right counterpart is shown, as the match or as one of the
alternatives, it is accepted; else the match is rejected, also that of an entity in no test link.
Each is one decision. Then each arm is trained again from the same start (`decentrl refit`). All are
measured on the same links, the test links of which no end was looked at or accepted in either arm:
Hits@1 by CSLS, left to right, among the right ends of these links.

Each seed leaves a file in results/review, and one that has left its file is not repeated.

With --choose orders of the queue are compared in the same way without any test link: of the
training links a half is known (another one for each seed), the reviewer answers from the others and
is measured on these. Entities of test links are never looked at, of those in no link so many that
there are as many for each link as beside the test links. Nothing is kept then.
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
from decentrl.errors import DecentRLError
from decentrl.evaluation.ranks import rank
from decentrl.growth.review import Review, ReviewItem, shares
from decentrl.matching.matchers import apply_matcher
from decentrl.matching.similarity import Scores
from studies.source_tree import check_committed, commit

PAGE = 10
"""Items that the reviewer looks at before the queue is asked again."""
FOLDER = Path("results/review")
Pairs = list[tuple[str, str]]
Picks = Callable[[Aligner, set[str]], Iterator[ReviewItem]]


def labels(task: AlignmentTask, links: Any) -> Pairs:
    ends = zip((task.left.entities, task.right.entities), links.T, strict=True)
    return list(zip(*(entities.take(ids) for entities, ids in ends), strict=True))


# Who looks at what


def first_of_queue(aligner: Aligner, hidden: set[str]) -> Iterator[ReviewItem]:
    """The first items of the queue, which is asked again after every page."""
    while True:
        items = aligner.review_queue(limit=len(hidden) + PAGE).items
        yield from [item for item in items if item.left not in hidden][:PAGE]


def at_random(seed: int) -> Picks:
    def picks(aligner: Aligner, hidden: set[str]) -> Iterator[ReviewItem]:
        items = [x for x in aligner.review_queue(limit=10**9).items if x.left not in hidden]
        for place in np.random.default_rng(seed).permutation(len(items)):
            yield items[place]

    return picks


def ordered_by(worth: Callable[[Review], Any]) -> Picks:
    """Another order of the queue."""

    def picks(aligner: Aligner, hidden: set[str]) -> Iterator[ReviewItem]:
        with mock.patch.object(Review, "worth", worth):
            yield from first_of_queue(aligner, hidden)

    return picks


def reviewed(
    aligner: Aligner, truth: dict[str, str], hidden: set[str], picks: Picks, decisions: int
) -> tuple[list[str], Pairs]:
    """Decide so often; the left entities that were looked at, and the accepted pairs."""
    seen, accepted = list[str](), Pairs()
    for item in picks(aligner, hidden):
        right = truth.get(item.left, "")
        if right in [item.right, *(other.right for other in item.alternatives)]:
            aligner.decide(item.left, right, "accept")
            accepted.append((item.left, right))
        else:
            aligner.decide(item.left, item.right, "reject")
        seen.append(item.left)
        if len(seen) == decisions:
            break
    return seen, accepted


def firsts(aligner: Aligner, links: Pairs) -> Any:
    """Whether each link is first, left to right among their right ends; ties count in part."""
    ids = torch.from_numpy(aligner.task.read_links(links))
    left, right = (aligner.vectors(side)[ids[:, i]] for i, side in enumerate(("left", "right")))
    scores = apply_matcher(Scores.cosine(left, right), "csls", aligner.config.matching)
    ranks = rank(scores, torch.arange(len(ids)))
    return torch.where(ranks.better == 0, 1 / ranks.tied, 0.0)


def compared(
    aligner: Aligner, links: Pairs, hidden: set[str], arms: dict[str, Picks], decisions: int
) -> dict[str, Any]:
    """Hits@1 before, and of each arm after a refit, and what its reviewer has found."""
    again, found = {"start": aligner}, dict[str, Any]()
    looked, taken = set[str](), set[str]()
    for name, picks in arms.items():
        seen, accepted = reviewed(aligner, dict(links), hidden, picks, decisions)
        found[name] = {"accepted": len(accepted), "rejected": len(seen) - len(accepted)}
        looked, taken = looked | set(seen), taken | {right for _, right in accepted}
        again[name] = aligner.refit()
        for _ in seen:
            aligner.undo_decision()
    measured = [(x, y) for x, y in links if x not in looked and y not in taken]
    hits = {name: float(firsts(model, measured).mean()) for name, model in again.items()}
    return {"links": len(measured), "hits@1": hits, "decisions": found}


# Other orders, to choose by


def chances(review: Review) -> Any:
    """How far each match stands out among its rivals, 0 to 1."""
    every, places = shares(review.pairs, review.temperature), review.pairs.places(1)[:, 0]
    return torch.where(places >= 0, every[places], 0.0).numpy()


def doubt(review: Review) -> Any:
    return chances(review) * (1 - chances(review))


def yields(review: Review) -> Any:
    return review.yields().numpy()


def nearby(review: Review) -> Any:
    """The doubt about pairs of neighbours."""
    every = shares(review.pairs, review.temperature)
    return review.doubt_nearby(every * (1 - every)).numpy()


ORDERS: dict[str, Callable[[Review], Any]] = {
    "doubt": doubt,
    "yield": yields,
    "yield x doubt": lambda review: yields(review) * doubt(review),
    "yield x nearby": lambda review: yields(review) * nearby(review),
    "yield x doubt x (1 + nearby)": lambda review: (
        yields(review) * doubt(review) * (1 + nearby(review))
    ),
    "yield x doubt x nearby": Review.worth,
}


# One seed


def trained(task: AlignmentTask, options: argparse.Namespace, seed: int) -> Aligner:
    aligner = Aligner.from_preset(options.preset, *options.settings, seed=seed, device="cpu")
    return aligner.fit(task, progress=False)


def choose(task: AlignmentTask, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """All orders on one half of the training links."""
    tested = {left for left, _ in labels(task, task.test)}
    half = task.hold_out(0.5, seed, into="valid")
    known = AlignmentTask(task.name, task.left, task.right, half.train, task.valid, half.valid)
    aligner, held_out = trained(known, options, seed), labels(task, half.valid)
    # As many without a counterpart for each that has one as there are beside the test links.
    every = {item.left for item in aligner.review_queue(limit=10**9).items}
    linked = {left for left, _ in held_out}
    others = np.array(sorted(every - linked - tested), object)
    share = len(linked) * (len(every) - len(linked) - len(tested)) / len(tested)
    kept = np.random.default_rng(seed).permutation(others)[: round(share)]
    arms = {"random": at_random(seed)} | {x: ordered_by(worth) for x, worth in ORDERS.items()}
    hidden = every - linked - set(kept)
    return compared(aligner, held_out, hidden, arms, options.decisions)


def measure(task: AlignmentTask, options: argparse.Namespace, seed: int) -> dict[str, Any]:
    arms = {"random": at_random(seed), "queue": first_of_queue}
    links = labels(task, task.test)
    return compared(trained(task, options, seed), links, set(), arms, options.decisions)


def file_of(dataset: str, options: argparse.Namespace, seed: int) -> Path:
    settings = "".join(f"-{x.replace('.', '').replace('=', '')}" for x in options.settings)
    name = f"{dataset.replace('/', '-')}-{options.preset}{settings}-{options.decisions}"
    return FOLDER / f"{name}-seed{seed}.json"


def print_table(dataset: str, rows: list[dict[str, Any]]) -> None:
    """Means over seeds, with the standard deviation of the gain over the start."""
    print(f"\n{dataset}, {len(rows)} seeds, {fmean(x['links'] for x in rows):,.0f} links\n")
    print("| arm | accepted | rejected | Hits@1 | gain |\n| --- | --- | --- | --- | --- |")
    for arm in rows[0]["hits@1"]:
        hits = [100 * row["hits@1"][arm] for row in rows]
        gains = [100 * (row["hits@1"][arm] - row["hits@1"]["start"]) for row in rows]
        made = [row["decisions"].get(arm, {"accepted": 0, "rejected": 0}) for row in rows]
        counts = [f"{fmean(x[name] for x in made):.0f}" for name in ("accepted", "rejected")]
        spread = f" ± {stdev(gains):.2f}" if len(rows) > 1 else ""
        print(f"| {arm} | {' | '.join(counts)} | {fmean(hits):.2f} | {fmean(gains):+.2f}{spread} |")
    if "queue" in rows[0]["hits@1"]:
        more = [100 * (row["hits@1"]["queue"] - row["hits@1"]["random"]) for row in rows]
        each = ", ".join(f"{x:+.2f}" for x in more)
        print(f"\nqueue beyond random, seed by seed: {each}; mean {fmean(more):+.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--decisions", type=int, default=200)
    parser.add_argument("--choose", action="store_true", help="compare orders of the queue")
    parser.add_argument("--print", action="store_true", help="only what is there: train nothing")
    options = parser.parse_args()
    for dataset in options.datasets:
        task, rows = load_dataset(dataset), list[dict[str, Any]]()
        assert isinstance(task, AlignmentTask)
        for seed in options.seeds:
            file, started = file_of(dataset, options, seed), time.process_time()
            if options.choose:
                rows.append(choose(task, options, seed))
            elif not file.exists() and not options.print:
                check_committed(commit())
                found = {"commit": commit(), **measure(task, options, seed)}
                found["cpu_seconds"] = round(time.process_time() - started)
                FOLDER.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(found) + "\n", "utf-8")
            if file.exists() and not options.choose:
                rows.append(json.loads(file.read_text("utf-8")))
        if rows:
            print_table(dataset, rows)


if __name__ == "__main__":
    try:
        main()
    except DecentRLError as error:
        sys.exit(f"error: {error}")
