"""Entities without a counterpart: precision and recall of `match` when it may abstain.

    DECENTRL_DATA=... python benchmarks/dangling.py [--dataset dbp15k/zh-en] [--self-train]

Half of the right test entities (seed 0) are removed with all their triples before training. Then
every left test entity is matched among all right entities without a known link. Precision = right
answers / answers given, recall = right answers / entities that still have a counterpart. The
confidence and the threshold for "none" are fitted on links held out of the training links. ECE:
expected calibration error of the confidence on the remaining test links, 15 bins of equal mass.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np
import torch

from decentrl import Aligner, AlignmentTask, KnowledgeGraph, load_dataset
from decentrl.matching.confidence import expected_calibration_error


def answer_scores(
    found_right: torch.Tensor, answered: torch.Tensor, has_counterpart: torch.Tensor
) -> dict[str, float]:
    """Precision, recall and F1 of matches, and of the prediction "has no counterpart".

    ``precision`` is right answers / answers, ``recall`` right answers / entities with a
    counterpart. With the prefix ``none_``, positives are the entities without an answer, true
    positives those of them without a counterpart. An empty denominator gives 0. All arguments are
    bool[n].
    """
    result: dict[str, float] = {}
    for name, right, positive, truth in (
        ("", found_right, answered, has_counterpart),
        ("none_", ~has_counterpart, ~answered, ~has_counterpart),
    ):
        hits, predicted, true = (int(x.sum()) for x in (right & positive, positive, truth))
        result[f"{name}precision"] = hits / max(predicted, 1)
        result[f"{name}recall"] = hits / max(true, 1)
        result[f"{name}f1"] = 2 * hits / max(predicted + true, 1)
    return result


def without(task: AlignmentTask, gone: np.ndarray) -> AlignmentTask:
    """The task without some right entities; links to what is left keep their order."""
    kept = ~np.isin(task.right.triples[:, [0, 2]], gone).any(axis=1)
    heads, kinds, tails = task.right.triples[kept].T
    names = task.right.entities
    right = KnowledgeGraph.from_labels(
        names.take(heads), task.right.relations.take(kinds), names.take(tails)
    )
    new_ids = right.entities.find_all(names.take(np.arange(len(names))))

    def moved(links: np.ndarray) -> np.ndarray:
        links = np.stack((links[:, 0], new_ids[links[:, 1]]), axis=1)
        return links[links[:, 1] >= 0]

    return replace(task, right=right, train=moved(task.train), test=moved(task.test))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="dbp15k/zh-en")
    parser.add_argument("--preset", default="strong")
    parser.add_argument("--self-train", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    whole = load_dataset(options.dataset)
    assert isinstance(whole, AlignmentTask)
    asked = whole.test[:, 0]
    half = np.random.default_rng(0).permutation(len(asked))[: len(asked) // 2]
    task = without(whole, whole.test[half, 1])
    settings = ["self_training.rounds=2"] if options.self_train else []
    aligner = Aligner.from_preset(options.preset, *settings, seed=options.seed).fit(task)

    table = aligner.match(min_confidence="fitted").to_pydict()
    best = aligner.match().to_pydict()
    row_of = {label: row for row, label in enumerate(best["left"])}
    rows = [row_of[label] for label in whole.left.entities.take(asked)]
    truth = dict(task.test.tolist())
    names = task.right.entities
    counterpart = [names[truth[i]] if i in truth else None for i in asked.tolist()]
    there = torch.tensor([label is not None for label in counterpart])
    right = torch.tensor(
        [t is not None and best["right"][r] == t for r, t in zip(rows, counterpart, strict=True)]
    )
    answered = torch.tensor([table["right"][r] is not None for r in rows])
    always = answer_scores(right, torch.ones_like(answered), there)
    careful = answer_scores(right & answered, answered, there)
    sure = torch.tensor([best["confidence"][r] for r in rows], dtype=torch.float64)
    print(
        f"{options.dataset}: {len(rows):,} left test entities, {int(there.sum()):,} of them with "
        f"a counterpart; {options.preset}, {aligner.chosen_rounds} rounds of self-training"
    )
    for name, scores in (("always answering", always), ("abstaining", careful)):
        print(f"{name:17}", *(f"{key} {scores[key]:.3f}" for key in ("precision", "recall", "f1")))
    print(f"F1 gained by abstaining   {careful['f1'] - always['f1']:+.3f}")
    print('detection of "none"      ', *(f"{key} {careful[f'none_{key}']:.3f}"
                                         for key in ("precision", "recall", "f1")))  # fmt: skip
    print(f"ECE on the test links     {expected_calibration_error(sure[there], right[there]):.3f}")


if __name__ == "__main__":
    main()
