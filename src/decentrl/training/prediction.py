"""Training of entity prediction, stage by stage, and its validation meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from decentrl.evaluation.filtered import rank_answers
from decentrl.evaluation.metrics import summary
from decentrl.graph.adjacency import Ids
from decentrl.graph.queries import Queries
from decentrl.graph.splits import Splits
from decentrl.scorers.base import Scorer, Stage
from decentrl.training.loop import Row, train


def estimate(stages: Sequence[Stage]) -> float:
    """About how many seconds training takes, of the stages that can say it."""
    said = (
        float(stage.objective.seconds(stage.training.epochs))
        for stage in stages
        if hasattr(stage.objective, "seconds")
    )
    return sum(said, 0.0)


def train_stages(
    stages: Sequence[Stage],
    splits: Splits,
    run: Path | None,
    resume: bool,
    on_epoch: Callable[[Row], None],
) -> list[Row]:
    """Train one stage after the other, each with checkpoints of its own: the rows of all epochs."""
    history, held_out = list[Row](), (splits.train, splits.known_valid)
    for stage in stages:
        history += train(
            stage.objective,
            stage.training,
            stage.seed,
            validate=Validation(stage.model, stage.view, *held_out, splits.n_relations),
            run=run,
            resume=resume,
            on_epoch=on_epoch,
            stage=stage.name,
            before=history,
        )
    return history


class Validation:
    """Ranks a sample of held-out triples, in both directions, whenever it is called.

    Args:
        view: what the scorer reads of the training triples.
        triples: these, int64[n, 3].
        valid: held-out triples, int64[n, 3]; may be empty.
    """

    def __init__(
        self, model: Scorer, view: Any, triples: Ids, valid: Ids, n_relations: int
    ) -> None:
        self.model, self.view = model, view
        order = np.random.default_rng(model.config.seed).permutation(len(valid))
        chosen = np.sort(order[: model.config.model.validated])
        self.valid = Queries.of(valid[chosen], n_relations)
        self.known = Queries.of(np.concatenate((triples, valid)), n_relations)
        seen = np.zeros(model.n_entities, bool)
        seen[triples[:, [0, 2]]] = True
        self.unseen = torch.from_numpy(~seen)

    @torch.no_grad()
    def __call__(self) -> dict[str, float] | None:
        """MRR, Hits@1 and Hits@10, filtered; None where nothing is held out."""
        if not len(self.valid):
            return None
        ground, device = self.model.ground_of(self.view), self.model.device
        unseen = self.unseen.to(device)

        def score(entities: Tensor, relations: Tensor) -> Tensor:
            """Scores in which entities that arrive later rank last."""
            scores = self.model.scores(ground, entities, relations)
            scores[:, unseen] = scores.amin(1, keepdim=True)
            return scores

        ranks = rank_answers(score, self.valid, self.known, len(unseen), device=device)
        return summary(ranks, ("mrr", "hits@1", "hits@10"))
