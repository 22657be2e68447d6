"""Frequency baseline: score each entity by how often it answers the relation."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from decentrl.graph.queries import Queries


def frequency_scores(known: Queries, n_entities: int) -> Tensor:
    """Count how often each entity answers each relation: [2 · n_relations, n_entities]."""
    counts = np.zeros((2 * known.n_relations, n_entities), np.float32)
    np.add.at(counts, (np.repeat(known.relations, known.sizes), known.answers), 1)
    return torch.from_numpy(counts)


def relation_categories(known: Queries) -> list[str]:
    """Category of each relation, ``1-1``, ``1-N``, ``N-1`` or ``N-N``; N: above 1.5 on average."""

    def many(kinds: range) -> list[str]:
        sizes = (known.sizes[known.relations == kind] for kind in kinds)
        return ["N" if len(x) and x.mean() > 1.5 else "1" for x in sizes]

    n = known.n_relations
    return [f"{h}-{t}" for h, t in zip(many(range(n, 2 * n)), many(range(n)), strict=True)]
