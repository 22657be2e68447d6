"""The interface of a prediction encoder: what it reads of a graph, and the vectors it makes."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from decentrl.graph.adjacency import Adjacency, Ids
from decentrl.nn.decoders import Decoder
from decentrl.views.base import Attention, Encoder, layer_attentions
from decentrl.views.part import Part

Encoded = tuple[Tensor, list[Tensor]]
"""g of every entity, [n, width], and the states of the encoder's stages, [n, …] each."""


class PredictionEncoder(Encoder):
    """Makes a vector g of every entity from the graph; a decoder scores triples of them.

    The width of g is ``config.model.made()``. :meth:`newcomers` makes what :meth:`forward` does;
    the memories are ``STATES`` and ``INPUTS``, or nothing.

    Attributes:
        stored_as: what the names of its weights begin with in a bundle.
    """

    stored_as: ClassVar[str] = "encoder."

    def __init__(self) -> None:
        super().__init__()
        self.memories, self.reach = {}, 0

    @property
    def embeddings(self) -> Tensor:
        """Input embeddings [n_entities, dim], which self-distillation learns from.

        By default the first of :attr:`entity_tables`.
        """
        return self.get_parameter(self.entity_tables[0])

    @abstractmethod
    def read(
        self, triples: Ids, trained_on: Ids, n_entities: int, n_relations: int, device: torch.device
    ) -> Any:
        """What it reads of ``triples`` after training on ``trained_on``, int64[n, 3] each.

        The result has ``seen``, bool[n_entities]: the entities of ``trained_on``.
        """

    def edges(self, view: Any) -> list[Adjacency]:
        """Adjacencies of a view in which edges between questions and answers can be hidden."""
        return []

    @abstractmethod
    def forward(self, view: Any, inputs: Tensor, kept: tuple[Tensor, ...] | None = None) -> Encoded:
        """Encode all entities.

        Args:
            view: what :meth:`read` returned.
            inputs: input embeddings [n_entities, dim], in place of :attr:`embeddings`.
            kept: of each adjacency of :meth:`edges` the edges that count, bool[n_edges].
        """

    def attach(self, decoder: Decoder) -> None:
        """Join the decoder, once it is made; for encoders that share its relations."""

    def attentions(self, part: Part) -> list[Attention]:
        """Which neighbours the new vectors of a part are made of; weights of a row sum to 1.

        By default the weights in its attention layers of :mod:`decentrl.nn`, if it has any.
        """
        return layer_attentions(self, part)
