"""Metrics of a trained aligner by the degree of entities, and by layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.aligner import Aligner
from decentrl.data.alignment_task import AlignmentTask
from decentrl.evaluation.metrics import summary
from decentrl.evaluation.ranks import Ranks, rank
from decentrl.growth.alignment_state import SIDES
from decentrl.matching.similarity import Scores, csls
from studies.layout import DEGREE_NAMES, DEGREES

NAMES = ("hits@1", "hits@10", "mr", "mrr")


def by_degree(task: AlignmentTask, ranks: Ranks) -> list[dict[str, Any]]:
    """Metrics of the left test entities by the number of triples they are in.

    Args:
        ranks: of ``task.test``, in its order.
    """
    triples = np.concatenate([task.left.triples, *(task.auxiliary or ())[:1]])
    degrees = np.bincount(triples[:, [0, 2]].ravel(), minlength=len(task.left.entities))
    mine = degrees[task.test[:, 0]]
    rows = []
    for name, (first, last) in zip(DEGREE_NAMES, DEGREES, strict=True):
        inside = (mine >= first) & (mine <= (last or mine.max(initial=first)))
        if inside.any():
            found = ranks[torch.from_numpy(inside)]
            rows.append({"name": name, "n": int(inside.sum()), **summary(found, NAMES)})
    return rows


def by_layer(aligner: Aligner) -> list[dict[str, Any]]:
    """Metrics (CSLS, left to right among the test targets) of the input embeddings, of every layer
    of the paper's network alone, and of an entity's whole vector."""
    links = torch.from_numpy(aligner.task.test)
    growing = aligner.growing
    memories = [growing.sides[side].memory(growing.model) for side in SIDES]
    width = memories[0]["inputs"].shape[1]
    layers = memories[0]["states"].shape[1] // width

    def ends(name: str, columns: slice) -> tuple[Tensor, Tensor]:
        left, right = (m[name][links[:, i], columns] for i, m in enumerate(memories))
        return left, right

    parts = {"input": ends("inputs", slice(None))}
    for layer in range(layers):
        name = f"layer {layer}" if layer else "context"
        parts[name] = ends("states", slice(layer * width, (layer + 1) * width))
    vectors = [aligner.vectors(side) for side in SIDES]
    left, right = (x[links[:, i].to(x.device)] for i, x in enumerate(vectors))
    return [
        {"name": name, **_csls(*pair, aligner)}
        for name, pair in (*parts.items(), ("concatenation", (left, right)))
    ]


def _csls(left: Tensor, right: Tensor, aligner: Aligner) -> dict[str, float]:
    left, right = (F.normalize(x.to(aligner.device), dim=1) for x in (left, right))
    scores = csls(Scores.cosine(left, right), aligner.config.matching.csls_k)
    return summary(rank(scores, torch.arange(len(left), device=aligner.device)), NAMES)
