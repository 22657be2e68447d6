"""A decentralised encoder that reads relations: neighbours are reflected along them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.graph.relational import RelationalEdges, RelationalView
from decentrl.nn.aggregate import edge_dots, gather, pool, segment_softmax, weighted_sum
from decentrl.nn.running import ByteDropout, FrozenStates


class ReflectionLayer(nn.Module):
    r"""Sum up the neighbours, each reflected along the relation that leads to it.

    .. math::
        g_i = \tanh \sum_{(r, j) \in N(i)} \alpha_{irj}\, (h_j - 2 (h_j^\top \hat r)\, \hat r),
        \quad \alpha = \mathrm{softmax}(a^\top \hat r + \tanh(k^\top h_j))

    :math:`h_j` is what the layer before made of j's neighbours: its context. (A term of i's own
    context would be the same for all edges of i, so it would cancel in the softmax.) An
    edges × dimensions tensor is never made, because the sum is

    .. math::
        \sum_e \alpha_e h_{j(e)} - 2 \sum_e \alpha_e (h_{j(e)}^\top \hat r_e)\, \hat r_e.

    Args:
        dim: width of vectors and relations.
        context: let the neighbour's context take part (k); otherwise the relation alone decides.
        dropout: share of the edges left out while training.
    """

    def __init__(self, dim: int, context: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = ByteDropout(dropout)
        self.relation_score = nn.Linear(dim, 1, bias=False)
        self.context_score = nn.Linear(dim, 1, bias=False) if context else None
        for score in (self.relation_score, self.context_score):
            if score is not None:
                nn.init.xavier_uniform_(score.weight)

    def forward(
        self, h: Tensor, relations: Tensor, edges: RelationalEdges, kept: Tensor | None = None
    ) -> Tensor:
        """h [n_entities, dim], relations of length 1 [2 · n_relations, dim] → [n_rows, dim].

        Args:
            kept: bool[n_edges], the edges that count; all by default.
        """
        weights = self.dropout(self.weights(h, relations, edges, kept))
        along = edge_dots(h, relations, edges.pairs).index_select(0, edges.edge_pair)
        total = weighted_sum(weights, h, edges.nodes)
        total = total - weighted_sum(2 * weights * along, relations, edges.relations)
        return torch.tanh(total)

    def weights(
        self, h: Tensor, relations: Tensor, edges: RelationalEdges, kept: Tensor | None = None
    ) -> Tensor:
        """α of every edge: [n_edges]."""
        by_relation = self.relation_score(relations).squeeze(-1)
        logits = by_relation.index_select(0, edges.relations.columns)
        if self.context_score is not None:
            key = torch.tanh(self.context_score(h)).squeeze(-1)
            logits = logits + key.index_select(0, edges.nodes.columns)
        return segment_softmax(logits, edges.nodes, kept)


class RelationalEncoder(nn.Module):
    r"""Two views of an entity, its neighbours' input embeddings and its relations', side by side.

    .. math::
        g^0_i = \tanh \frac{1}{|N_i|} \sum_{j \in N_i} e_j \quad\text{or}\quad
        g^0_i = \tanh \frac{1}{|R_i|} \sum_{r \in R_i} r

    Each view goes through layers of its own (:class:`ReflectionLayer`); an entity's vector is
    layers 0 … K of both. Nothing of the entity itself enters, so an entity that arrives later is
    encoded like any other; where an input embedding was never trained it is left out, and a
    relation that was never trained reflects nothing.

    Args:
        dim: width of each view's layers.
        layers: K.
        context: see :class:`ReflectionLayer`.
        dropout: on the vectors that :meth:`forward` returns for chosen entities.
        edge_dropout: share of the edges that a layer leaves out while training.
        entity_dropout: share of the input embeddings left out while training, other ones every
            time: vectors get used to neighbours that were never seen.
    """

    representative: Tensor

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        dim: int,
        layers: int = 2,
        *,
        context: bool = False,
        dropout: float = 0.3,
        edge_dropout: float = 0.0,
        entity_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.entities = nn.Parameter(torch.empty(n_entities, dim))
        self.relations = nn.Parameter(torch.empty(2 * n_relations, dim))
        nn.init.xavier_uniform_(self.entities)
        nn.init.xavier_uniform_(self.relations)
        # Relations known to be the same one share a vector: that of their representative.
        own = torch.empty(2 * n_relations, dtype=torch.int64)
        if not own.is_meta:  # there arange would load torch's compiler, for most of a second
            torch.arange(2 * n_relations, out=own)
        self.register_buffer("representative", own)
        self.views = nn.ModuleList(
            nn.ModuleList(ReflectionLayer(dim, context, edge_dropout) for _ in range(layers))
            for _ in range(2)
        )
        self.dropout = ByteDropout(dropout)
        self.entity_dropout = entity_dropout
        self.dim = 2 * (layers + 1) * dim

    def forward(
        self,
        view: RelationalView,
        entities: Tensor | None = None,
        inputs: Tensor | None = None,
        kept: tuple[Tensor, Tensor | None] | None = None,
        frozen: FrozenStates | None = None,
        directed: Tensor | None = None,
    ) -> Tensor:
        """Vectors of all entities, or of some (int64[k], repetitions allowed): [k, self.dim].

        The last layer is made for the asked entities alone. ``inputs``, [n_entities, dim], are
        read instead of the trained input embeddings. ``kept`` are the edges that count, bool each,
        of ``view.edges`` and of ``view.first``; no others are left out of the latter. ``frozen``
        are known states, of both views' layers 0 … K. Neither goes together with ``entities``.
        ``directed``, int64[k], are the directed relations of a view that has fewer of them.
        """
        of_edges, of_first = (None, None) if kept is None else kept
        if self.training and self.entity_dropout and kept is None:
            read = torch.rand(len(self.entities), device=self.entities.device)
            of_first = (read >= self.entity_dropout)[view.first.columns]
        shared = self.representative if directed is None else self.representative[directed]
        relations = gather(self.relations, shared)
        units = F.normalize(relations, dim=-1) * view.seen_relations[:, None]
        last = view.edges if entities is None else view.edges.of(entities)
        parts: list[Tensor] = []
        embeddings = self.entities if inputs is None else inputs
        contexts = (
            pool(embeddings, view.first, kept=of_first),
            pool(relations, view.bag),
        )
        for layers, pooled in zip(self.views, contexts, strict=True):
            assert isinstance(layers, nn.ModuleList)
            h = torch.tanh(pooled)
            for k, layer in enumerate(layers, start=1):
                h = h if frozen is None else frozen.put(len(parts), h)
                parts.append(h if entities is None else gather(h, entities))
                h = layer(h, units, last if k == len(layers) else view.edges, of_edges)
            parts.append(h if frozen is None else frozen.put(len(parts), h))
        vectors: Tensor = self.dropout(torch.cat(parts, -1))
        return vectors
