"""Which matcher is best where some, or most, entities have no counterpart.

    DECENTRL_DATA=... python benchmarks/missing.py [--datasets dbp15k/zh-en world]
                      [--preset quick] [--missing 0 0.5 0.9] [--balances 0.5 0.7 0.9] [--folds 1]

A fifth of the training links is held out; test links are not used. All entities without a known
link take part. With a share missing, only the other share of these entities stays, drawn on each
side by itself, so that of those that stay about this share has lost its counterpart; of held-out
links one end stays alone as often. Hits@1 is that of held-out links whose two ends are there; F1 is
that of all held-out left ends, at the best threshold of a confidence fitted on the other half of
them. `blend N` is a blend with that balance instead of the one found from the data.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from decentrl import Aligner, AlignmentTask, load_dataset
from decentrl.config import MatchingConfig
from decentrl.matching.confidence import evidence, fit_confidence
from decentrl.matching.matchers import MATCHERS, apply_matcher, balance_of
from decentrl.matching.similarity import Scores, blend, csls
from decentrl.matching.sparse import top_pairs

Ids = npt.NDArray[np.int64]
Pools = tuple[Ids, Ids]
SIDES = ("left", "right")
SPLITS = {0.0: 1, 0.5: 2, 0.9: 5}  # draws; fewer links are left where more is missing


def drawn(pools: Pools, held: Ids, missing: float, seed: int) -> tuple[Ids, Ids, Ids, Ids]:
    """Left and right entities that stay, the held-out left ends, and their counterparts or -1."""
    rng, (left, right) = np.random.default_rng(seed), pools
    if not missing:
        return left, right, held[:, 0], held[:, 1]
    there = rng.permutation(len(held)) >= missing * len(held)
    alone = rng.random(len(held)) < 0.5
    others = [
        rng.choice(rest, round((1 - missing) * len(rest)), replace=False)
        for rest in (np.setdiff1d(ids, held[:, i]) for i, ids in enumerate(pools))
    ]
    left = np.union1d(others[0], held[there | alone, 0])
    right = np.union1d(others[1], held[there | ~alone, 1])
    return left, right, held[there | alone, 0], np.where(there, held[:, 1], -1)[there | alone]


def reading(scores: Scores, cosine: Scores, rows: Tensor, targets: Tensor) -> tuple[float, float]:
    """Hits@1 of rows with a target, and F1 of all rows at the best threshold of a confidence."""
    pairs = top_pairs(scores, 5)
    cosines = replace(pairs, values=(cosine.left[pairs.rows] * cosine.right[pairs.columns]).sum(1))
    found, features = evidence(pairs, cosines)
    right, there = found[rows] == targets, targets >= 0
    sure, even = torch.zeros(len(rows), dtype=torch.float64), torch.arange(len(rows)) % 2 == 0
    for half in (even, ~even):
        sure[~half] = fit_confidence(features[rows[half]], right[half])(features[rows[~half]])
    hits = right[sure.argsort(descending=True)].double().cumsum(0)
    f1 = 2 * hits / (torch.arange(1, len(rows) + 1) + there.sum())
    return right[there].double().mean().item(), f1.max().item()


def trained(
    dataset: str, preset: str, fold: int
) -> tuple[MatchingConfig, list[Tensor], Pools, Ids]:
    """Vectors of both sides, the entities without a known link, and the held-out links of these."""
    task = load_dataset(dataset)
    assert isinstance(task, AlignmentTask)
    task = replace(task, test=task.test[:0]).hold_out(0.2, fold, into="test")
    aligner = Aligner.from_preset(preset, "training.valid=0", "names.weight=0").fit(task)
    vectors = [aligner.vectors(side).cpu() for side in SIDES]
    left, right = (
        np.setdiff1d(x.any(1).nonzero()[:, 0].numpy(), task.train[:, i])
        for i, x in enumerate(vectors)
    )
    there = np.isin(task.test[:, 0], left) & np.isin(task.test[:, 1], right)
    return aligner.config.matching, vectors, (left, right), task.test[there]


def readings(
    cosine: Scores, config: MatchingConfig, balances: list[float], rows: Tensor, targets: Tensor
) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Each matcher with its Hits@1 and F1, and the balance that was found."""
    scaled = csls(cosine, config.csls_k)
    balance = balance_of(scaled)
    for matcher in MATCHERS:
        scores = apply_matcher(cosine, matcher, config)
        yield matcher, (*reading(scores, cosine, rows, targets), balance)
    for value in balances:
        yield (
            f"blend {value}",
            (*reading(blend(cosine, scaled, value), cosine, rows, targets), balance),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=["dbp15k/zh-en"])
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--missing", nargs="+", type=float, default=list(SPLITS))
    parser.add_argument("--balances", nargs="*", type=float, default=[])
    parser.add_argument("--folds", type=int, default=1, help="trainings, each with others held out")
    options = parser.parse_args()
    print("| dataset | missing | matcher | Hits@1 | F1 |\n| --- | ---: | --- | ---: | ---: |")
    for name in options.datasets:
        found: dict[tuple[float, str], list[tuple[float, ...]]] = {}
        for fold in range(options.folds):
            config, vectors, pools, held = trained(name, options.preset, fold)
            for missing in options.missing:
                for seed in range(SPLITS.get(missing, 2)):
                    left, right, ends, partners = drawn(pools, held, missing, seed)
                    rows = torch.from_numpy(np.searchsorted(left, ends))
                    places = np.searchsorted(right, partners.clip(0))
                    targets = torch.from_numpy(np.where(partners >= 0, places, -1))
                    cosine = Scores.cosine(vectors[0][left], vectors[1][right])
                    every = readings(cosine, config, options.balances, rows, targets)
                    for matcher, values in every:
                        found.setdefault((missing, matcher), []).append(values)
        for (missing, matcher), results in found.items():
            hits, f1, balance = np.mean(results, axis=0)
            known = f" ({balance:.2f})" if matcher == "blend" else ""
            cells = name, f"{missing:.0%}", matcher + known, f"{hits:.3f}", f"{f1:.3f}"
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
