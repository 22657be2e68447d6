"""The Decentralized Attention Network: an entity's vector is made of its neighbours' alone."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from decentrl.graph.adjacency import Adjacency
from decentrl.graph.view import GraphView
from decentrl.nn.aggregate import RowNorm, pool, segment_softmax, weighted_sum
from decentrl.nn.running import FrozenStates

Combination = Literal["add", "multiply", "off"]


def _linear(dim: int) -> nn.Linear:
    layer = nn.Linear(dim, dim, bias=False)
    nn.init.xavier_uniform_(layer.weight)
    return layer


class NeighbourAttention(nn.Module):
    r"""Score neighbours by a query that is not the entity's own embedding, and sum them up.

    .. math::
        s_{ij} = \mathrm{LeakyReLU}(\tanh(a_1^\top q_i) + \tanh(a_2^\top k_j)), \quad
        \alpha_{ij} = \mathrm{softmax}_{j \in N(i)}(s_{ij}), \quad
        g_i = W \sum_{j \in N(i)} \alpha_{ij} k_j

    :math:`a^\top[W_1 q_i \| W_2 k_j]` of the paper is a sum of two scalars, one for each node;
    :math:`a_1 = W_1^\top a` and :math:`a_2 = W_2^\top a` are learned directly. The tanh and the
    dropout on both scalars are the authors' practice.

    Args:
        dim: width of queries, keys and output.
        dropout: share of the scalars dropped while training.
    """

    def __init__(self, dim: int, dropout: float = 0.5) -> None:
        super().__init__()
        self.query_score = nn.Linear(dim, 1)
        self.key_score = nn.Linear(dim, 1, bias=False)
        self.value = _linear(dim)
        self.dropout = nn.Dropout(dropout)
        for layer in (self.query_score, self.key_score):
            nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(self.query_score.bias)

    def weights(
        self, query: Tensor, keys: Tensor, graph: Adjacency, kept: Tensor | None = None
    ) -> Tensor:
        """α of every edge: [n_edges], 0 where an edge is not ``kept``, bool[n_edges]."""
        by_row = self.dropout(torch.tanh(self.query_score(query))).squeeze(-1)
        by_column = self.dropout(torch.tanh(self.key_score(keys))).squeeze(-1)
        logits = by_row.index_select(0, graph.rows) + by_column.index_select(0, graph.columns)
        return segment_softmax(F.leaky_relu(logits, 0.2), graph, kept)

    def forward(
        self, query: Tensor, keys: Tensor, graph: Adjacency, kept: Tensor | None = None
    ) -> Tensor:
        """query [n_rows, dim], keys [n_columns, dim] → [n_rows, dim]."""
        weights = self.weights(query, keys, graph, kept)
        # The sum is cheap to make again in the backward pass, and as large as g to keep.
        summed: Tensor = checkpoint(
            lambda: self.value(weighted_sum(weights, keys, graph)),
            use_reentrant=False, preserve_rng_state=False,
        )  # fmt: skip
        return summed


class RelationContext(nn.Module):
    """A second attention, from each entity over the relations around it.

    The query is the entity's decentralised vector, detached; the result is added to that vector
    (``g + weight · W r``) or multiplied into it (``g ⊙ W r``).
    """

    def __init__(
        self, dim: int, how: Literal["add", "multiply"], weight: float, dropout: float
    ) -> None:
        super().__init__()
        self.attention = NeighbourAttention(dim, dropout)
        self.how, self.weight = how, weight

    def forward(self, g: Tensor, relations: Tensor, graph: Adjacency) -> Tensor:
        """g [n_entities, dim], relations [2 · n_relations, dim] → [n_entities, dim]."""
        attention = self.attention
        weights = attention.weights(g.detach(), relations, graph)
        if self.how == "multiply":
            return g * weighted_sum(weights, attention.value(relations), graph)
        # Scaling the few relation vectors and adding in place spares two tensors of g's size.
        return weighted_sum(weights, self.weight * attention.value(relations), graph).add_(g)


class DAN(nn.Module):
    r"""Decentralized Attention Network over a :class:`~decentrl.graph.view.GraphView`.

    .. math::
        g^0_i = \frac{1}{|N_i|} \sum_{j \in N_i} W^0 e_j, \quad g^{-1}_j = e_j, \quad
        g^k_i = \sum_{j \in N_i} \mathrm{softmax}_j\, s(g^{k-1}_i, g^{k-2}_j)\; W g^{k-2}_j

    Layer k asks with the entity's neighbour context (:math:`g^{k-1}`) and reads the neighbours one
    layer earlier (:math:`g^{k-2}`), so the context costs nothing extra. :math:`g^0 + g^{k-1}` is
    added to every layer; whatever a layer reads and what it has aggregated is normalised to the
    length √dim.

    It is an ordinary module: give it any [n_entities, dim] tensor and use what comes back in a
    model of your own (``examples/dan_layer.py``).

    Args:
        dim: width of the input and of every layer.
        layers: K.
        relations: add relation vectors to each layer, multiply them in, or leave them ``off``.
        n_relations: how many relations there are (each has two directions).
        relation_weight: weight of the added relation vector.
        dropout: on the attention scalars.
    """

    def __init__(
        self,
        dim: int,
        layers: int = 2,
        *,
        relations: Combination = "off",
        n_relations: int = 0,
        relation_weight: float = 0.6,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.norm = RowNorm()
        self.contexts = nn.ModuleList([_linear(dim)])  # W⁰; bundles know it as contexts.0
        self.attentions = nn.ModuleList(NeighbourAttention(dim, dropout) for _ in range(layers))
        self.relations = nn.ModuleList()
        if relations != "off":
            self.relation_vectors = nn.Parameter(torch.empty(2 * n_relations, dim))
            nn.init.xavier_uniform_(self.relation_vectors)
            self.relations.extend(
                RelationContext(dim, relations, relation_weight, dropout) for _ in range(layers + 1)
            )

    def forward(
        self,
        inputs: Tensor,
        view: GraphView,
        kept: Tensor | None = None,
        frozen: FrozenStates | None = None,
    ) -> list[Tensor]:
        """Input embeddings [n_entities, dim] → [g⁰, g¹, …, gᴷ], each of that shape.

        Args:
            kept: bool[n_edges], the edges that count, where all layers read the same graph.
            frozen: known states, g⁰ … gᴷ.
        """
        keys = self.norm(inputs)
        relations = self.norm(self.relation_vectors) if self.relations else None
        outputs: list[Tensor] = []

        def finish(aggregated: Tensor) -> None:
            """What every layer does to the neighbours' sum: relations, residual, normalisation."""
            k, g = len(outputs), self.norm(aggregated)
            if relations is not None:
                g = self.relations[k](g, relations, view.relations)
            if outputs:
                g = g + outputs[0] if relations is None else g.add_(outputs[0])
                g = g.add_(outputs[-1])
            g = self.norm(g)
            outputs.append(g if frozen is None else frozen.put(k, g))

        finish(self.contexts[0](pool(keys, view.first, kept=kept)))
        for attention, graph in zip(self.attentions, view.layers, strict=True):
            finish(attention(outputs[-1], keys, graph, kept))
            keys = outputs[-2]
        return outputs
