"""An encoder of your own: one class, one registration, and everything else works with it.

python examples/own_encoder.py

An entity's vector is the mean of its neighbours' input embeddings, put through one linear map.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl import Aligner, load_dataset
from decentrl.config import Config, EncoderSettings, setting
from decentrl.graph.merged import MergedGraph
from decentrl.graph.relational import RelationalView
from decentrl.nn.aggregate import pool
from decentrl.views import Attention, LinkObjective, Part, Rows, TrainingData, View, register_view
from decentrl.views.base import INPUTS


@dataclass(frozen=True)
class MeanSettings(EncoderSettings):
    """The encoder's settings, for `--set model.KEY=VALUE` and `decentrl settings`."""

    encoder: ClassVar[str] = "mean"

    dim: int = setting(128, "width of the input embeddings", at_least=1)


# The preset "mean": this encoder alone, without seed propagation beside it.
PRESET: dict[str, dict[str, Any]] = {"propagation": {"weight": 0.0}, "training": {"epochs": 100}}


@register_view(MeanSettings, PRESET)
class MeanView(View):
    """The encoder: its weights, its training objective, its vectors and those of new entities."""

    def __init__(self, config: Config, n_entities: int, n_relations: int) -> None:
        super().__init__()
        self.config, self.dim = config, config.model.dim
        self.entities = nn.Parameter(torch.randn(n_entities, self.dim) * self.dim**-0.5)
        self.map = nn.Linear(self.dim, self.dim, bias=False)
        self.memories = {INPUTS: self.dim}  # what a newcomer reads of each neighbour
        self.reach = 0  # newcomers do not read each other

    def read(self, graph: MergedGraph, trained_on: MergedGraph, device: torch.device) -> Any:
        """The graph: ``first``, edges entity ← neighbour, and ``seen``, the trained entities."""
        return graph.relational_view(trained_on, device)

    def objective(self, structure: RelationalView, data: TrainingData) -> MeanObjective:
        return MeanObjective(self, structure, data)

    def forward(self, inputs: Tensor, structure: RelationalView) -> tuple[Tensor, Tensor]:
        """Vectors of length 1, and the means they are computed from, [n, dim] each."""
        means = pool(inputs, structure.first)
        return F.normalize(self.map(means), dim=1), means

    @torch.no_grad()
    def encode(self, structure: RelationalView, links: Tensor, out: Tensor | None = None) -> Rows:
        vectors, means = self(self.entities, structure)
        # An entity unseen in training has no embedding of its own; the mean takes its place.
        inputs = torch.where(structure.seen[:, None], self.entities, means)
        return Rows(vectors if out is None else out.copy_(vectors), {INPUTS: inputs})

    @torch.no_grad()
    def newcomers(self, part: Part) -> Rows:
        """Rows of new entities, from stored inputs of neighbours; `self.entities` is empty here."""
        inputs = part.memory(INPUTS)
        vectors, means = self(inputs, part.relational_view())
        return Rows(vectors, {INPUTS: torch.where(part.new[:, None], means, inputs)})

    def attentions(self, part: Part, rows: Rows) -> list[Attention]:
        """Attention weights for explanations: equal for all neighbours, by any relation."""
        near = part.relational_view().first
        weights = 1 / near.degrees()[near.rows]
        return [Attention(near.rows, near.columns, torch.full_like(near.rows, -1), weights)]


class MeanObjective(LinkObjective):
    """Cross-entropy of each link's right end among those of the batch, and vice versa."""

    def loss(self, batch: np.ndarray[Any, Any], rng: np.random.Generator) -> Tensor:
        vectors, _ = self.model(self.model.entities, self.structure)
        left, right = vectors[torch.from_numpy(batch.T)]
        scores = 10 * left @ right.T
        own = torch.arange(len(batch), device=scores.device)
        return F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)


def main(folder: Path, *settings: str) -> None:
    aligner = Aligner.from_preset("mean", *settings).fit(load_dataset("world"))
    losses = [row["loss"] for row in aligner.history]
    print(f"trained {len(losses)} epochs: the loss fell from {losses[0]:.2f} to {losses[-1]:.2f}")
    aligner.save(folder)
    aligner = Aligner.load(folder)
    print(f"Portugal is {aligner.match(['Portugal'])['right'][0]} in the other graph")
    new = [("Atlantide", "langue officielle", "portugais"), ("Atlantide", "monnaie", "euro")]
    aligner.add(new, side="left")
    print("Atlantide came later; it is made of")
    for reason in aligner.explain("Atlantide"):
        print(f"  {reason.weight:.0%} {reason.relation}: {reason.neighbour}")
    again = aligner.refit(share=0.2)
    print(f"trained again with Atlantide, {len(again.history)} epochs")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "own-encoder"))
