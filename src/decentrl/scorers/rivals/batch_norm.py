"""Batch normalisation over the entities that have training triples."""

from __future__ import annotations

from torch import Tensor, nn

from decentrl.nn.aggregate import gather


class SeenBatchNorm(nn.BatchNorm1d):
    """Batch normalisation whose statistics are those of the entities seen in training.

    While training, rows of other entities pass through unchanged and get no gradient from it.
    """

    def forward(self, rows: Tensor, seen: Tensor) -> Tensor:  # type: ignore[override]
        """rows [n_entities, dim], seen bool[n_entities] → [n_entities, dim]."""
        if not self.training:
            return super().forward(rows)
        known = seen.nonzero().squeeze(1)
        if len(known) < 2:  # a single row has no variance
            return rows
        return rows.index_copy(0, known, super().forward(gather(rows, known)))
