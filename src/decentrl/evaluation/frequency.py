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
    names = []
    sizes = known.sizes
    for relation in range(known.n_relations):
        tails, heads = (
            sizes[known.relations == kind] for kind in (relation, relation + known.n_relations)
        )
        of_heads = "N" if len(heads) and heads.mean() > 1.5 else "1"
        of_tails = "N" if len(tails) and tails.mean() > 1.5 else "1"
        names.append(f"{of_heads}-{of_tails}")
    return names
