"""Embeddings of triples: TransE (MTransE, JAPE's structure) and RotatE as aligners.

MTransE: Chen et al., IJCAI 2017; JAPE: Sun et al., ISWC 2017; RotatE: Sun et al., ICLR 2019.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.config import DistillationConfig, ModelConfig
from decentrl.errors import ConfigError
from decentrl.nn.aggregate import gather
from decentrl.nn.decoders import DECODERS

AT_FIRST = 0.1
"""Relations begin so much smaller than in a decoder alone. Those of two graphs that mean the same
then begin alike, near "no move at all"; at full size each begins somewhere else, and entities that
are each other's counterparts are drawn to different places."""


class TranslationalModel(nn.Module):
    """A table of embeddings; entities that a training link joins share a row of it.

    Nothing but an entity's own triples in training tells of it. One that comes later has the row
    that it was given at random, and no way to a better one.

    Attributes:
        representative: int64[n_entities], whose row an entity has.
    """

    representative: Tensor

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        model: ModelConfig,
        distillation: DistillationConfig | None = None,
    ) -> None:
        super().__init__()
        if model.encoder == "rotate" and model.dim % 2:
            raise ConfigError(f"rotate needs vectors of even width, not model.dim={model.dim}")
        self.entities = nn.Parameter(F.normalize(torch.randn(n_entities, model.dim), dim=1))
        self.register_buffer("representative", torch.arange(n_entities))
        self.decoder = DECODERS[model.encoder](n_relations, model.dim)
        # The way back along a relation is the relation the other way round, so half is needed.
        self.decoder.relations = nn.Parameter(
            AT_FIRST * self.decoder.relations.detach()[:n_relations]
        )

    def unite(self, links: Tensor) -> None:
        """Let linked entities, int64[n, 2], share a row: that of the least one they lead to."""
        place = torch.arange(len(self.representative), device=links.device)
        while True:
            least = place[links].amin(1)
            joined = place.scatter_reduce(0, links.t().reshape(-1), least.repeat(2), "amin")
            if torch.equal(joined, place):
                break
            place = joined
        self.representative.copy_(place)

    def vectors(self, rows: Tensor) -> Tensor:
        """Rows of the table by their places, int64[k] → [k, dim], of length 1."""
        return F.normalize(gather(self.entities, rows), dim=1)

    def questions(self, heads: Tensor, relations: Tensor) -> Tensor:
        """h [b, dim], int64[b] → [b, dim]; ids from n_relations on are ways back."""
        both = torch.cat((self.decoder.relations, -self.decoder.relations))
        return self.decoder.combine(heads, gather(both, relations))

    @torch.no_grad()
    def encode(self, view: object = None) -> Tensor:
        """Every entity's vector, [n_entities, dim], of length 1; no graph is read."""
        return self.vectors(self.representative)
