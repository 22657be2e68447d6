"""Pairs of entities that a search has found, and their scores."""

from __future__ import annotations

import torch
from torch import Tensor

from decentrl.data.vocabulary import Ids
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import SparseScores, rescore

Pairs = tuple[Ids, Ids, SparseScores, SparseScores]
"""Ids of a side and of the other one, ascending, and scores and cosines of their best pairs."""


def found_pairs(entities: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs of entities, int64[q], with what was found of each, int64[q, c], -1 for none."""
    there = found >= 0
    return entities[:, None].expand_as(found)[there], found[there]


def score_pairs(scores: Scores, entities: Tensor, rows: Tensor, columns: Tensor) -> Pairs:
    """Score the pairs of ``rows`` and ``columns``, int64[p] each, that need not be distinct."""
    m = max(1, scores.shape[1])
    keys = torch.unique(rows * m + columns)
    rows, columns = keys // m, keys % m
    row_ids, column_ids = torch.unique(torch.cat((entities, rows))), torch.unique(columns)
    pairs = SparseScores(
        torch.searchsorted(row_ids, rows),
        torch.searchsorted(column_ids, columns),
        torch.empty(len(keys)),
        (len(row_ids), len(column_ids)),
    )
    some = scores.rows(row_ids).columns(column_ids)
    return row_ids.numpy(), column_ids.numpy(), *rescore(pairs, some)
