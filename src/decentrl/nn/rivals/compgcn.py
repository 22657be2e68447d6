"""CompGCN: neighbours composed with relations, which are learned along (Vashishth et al., 2020)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from decentrl.graph.baselines import BaselineView
from decentrl.nn.aggregate import gather, weighted_sum
from decentrl.nn.decoders import Decoder
from decentrl.nn.dropout import ByteDropout

Composition = Literal["multiply", "correlate"]


class RelationUpdate(nn.Module):
    """Relation vectors after each layer: r' = W r.

    No entity takes part, so the relations that a decoder reads are known without the graph: this
    is a parametrisation of the decoder's ``relations``.
    """

    def __init__(self, dim: int, layers: int) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(layers))
        for layer in self.maps:
            assert isinstance(layer, nn.Linear)
            nn.init.xavier_uniform_(layer.weight)

    def stages(self, relations: Tensor) -> list[Tensor]:
        """Before the first layer, before the second, …, after the last."""
        found = [relations]
        for layer in self.maps:
            found.append(layer(found[-1]))
        return found

    def forward(self, relations: Tensor) -> Tensor:
        return self.stages(relations)[-1]


def update_relations(decoder: Decoder, layers: int) -> None:
    """From now on the decoder's relations are those after the last layer."""
    parametrize.register_parametrization(decoder, "relations", RelationUpdate(decoder.dim, layers))


def relation_stages(decoder: Decoder) -> list[Tensor]:
    """The relations that each layer reads, and those after the last."""
    parametrised: Any = decoder.parametrizations
    found: list[Tensor] = parametrised.relations[0].stages(parametrised.relations.original)
    return found


class CompGCNLayer(nn.Module):
    r"""A matrix for what an entity hears as a head, one as a tail, one for itself.

    .. math::
        h'_i = \tanh \mathrm{norm} \tfrac13 \Bigl( \sum_{d} W_d \sum_{(r, j) \in N_d(i)}
        \frac{h_j \star r}{\sqrt{|N_d(i)| |N_d^{-1}(j)|}} + W_0 (h_i \star r_0) \Bigr)

    The sums are made before the matrices, and of the distinct pairs of neighbour and relation
    instead of the edges. Correlation, :math:`F^{-1}(\overline{F h} \odot F r)`, is a product too,
    so it is summed up before it is turned back. The normalisation is over the entities that
    training sees: no other has a part in what is learned, nor learns through it.

    Args:
        dropout: on both sums.
    """

    def __init__(self, dim: int, composition: Composition, dropout: float) -> None:
        super().__init__()
        self.composition, self.dim = composition, dim
        self.directions = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(3))
        for layer in self.directions:
            assert isinstance(layer, nn.Linear)
            nn.init.xavier_uniform_(layer.weight)
        self.loop = nn.Parameter(torch.empty(1, dim))
        nn.init.xavier_uniform_(self.loop)
        self.dropout = ByteDropout(dropout)
        self.norm = nn.BatchNorm1d(dim)

    def forward(self, h: Tensor, relations: Tensor, view: BaselineView, shares: Tensor) -> Tensor:
        """h [n_entities, dim], relations [2 · n_relations, dim] → [n_entities, dim].

        Args:
            shares: of every message, [n_edges].
        """
        head, tail, own = self.directions
        left, right = self._open(h, conjugate=True), self._open(relations)
        pairs = view.edges.pairs
        composed = self._times(gather(left, pairs.rows), gather(right, pairs.columns))
        heard = self._close(weighted_sum(shares, composed, view.messages))
        as_head, as_tail = heard.chunk(2)
        itself = self._close(self._times(left, self._open(self.loop)))
        total = self.dropout(head(as_head)) + self.dropout(tail(as_tail)) + own(itself)
        return torch.tanh(self._normalised(total / 3, view.seen))

    def _normalised(self, rows: Tensor, seen: Tensor) -> Tensor:
        """As far as training sees them; then all, by what was seen."""
        if not self.training:
            normal: Tensor = self.norm(rows)
            return normal
        known = seen.nonzero().squeeze(1)
        if len(known) < 2:  # one alone has no spread
            return rows
        return rows.index_copy(0, known, self.norm(gather(rows, known)))

    def _open(self, rows: Tensor, conjugate: bool = False) -> Tensor:
        """What is multiplied: the rows, or their spectrum, the real part beside the imaginary."""
        if self.composition == "multiply":
            return rows
        spectrum = torch.fft.rfft(rows)
        return torch.cat((spectrum.real, -spectrum.imag if conjugate else spectrum.imag), 1)

    def _times(self, left: Tensor, right: Tensor) -> Tensor:
        if self.composition == "multiply":
            return left * right
        (a, b), (c, d) = left.chunk(2, 1), right.chunk(2, 1)
        return torch.cat((a * c - b * d, a * d + b * c), 1)

    def _close(self, rows: Tensor) -> Tensor:
        """Back from the spectrum."""
        if self.composition == "multiply":
            return rows
        real, imaginary = rows.chunk(2, 1)
        closed: Tensor = torch.fft.irfft(torch.complex(real, imaginary), self.dim)
        return closed


class CompGCN(nn.Module):
    """It is centralised: an entity's own embedding takes part, and where that was never trained it
    is read as it was at first, as the paper's model would.

    Args:
        unit: vectors have a length of about 1 at first, like embeddings, instead of √dim.
    """

    def __init__(
        self,
        n_entities: int,
        dim: int,
        layers: int,
        composition: Composition,
        dropout: float,
        *,
        unit: bool = False,
    ) -> None:
        super().__init__()
        self.entities = nn.Parameter(torch.empty(n_entities, dim))
        nn.init.xavier_uniform_(self.entities)
        self.layers = nn.ModuleList(CompGCNLayer(dim, composition, dropout) for _ in range(layers))
        if unit:
            last = self.layers[-1]
            assert isinstance(last, CompGCNLayer)
            nn.init.constant_(last.norm.weight, dim**-0.5)

    def forward(
        self,
        view: BaselineView,
        inputs: Tensor,
        relations: list[Tensor],
        kept: Tensor | None = None,
    ) -> Tensor:
        """Input embeddings [n_entities, dim] → vectors of that shape.

        Args:
            relations: of every layer; see :func:`relation_stages`.
            kept: bool[n_edges], the edges that count; all by default.
        """
        shares = _shares(view, inputs, kept)
        h = inputs
        for layer, vectors in zip(self.layers, relations, strict=False):
            h = layer(h, vectors, view, shares)
        return h


def _shares(view: BaselineView, like: Tensor, kept: Tensor | None) -> Tensor:
    """One over the root of how many i hears and how many hear j in that direction: [n_edges]."""
    n, graph = len(view.seen), view.messages
    # Who hears j as a head is who j hears as a tail.
    senders = view.edges.nodes.columns[view.message_edges] + n * (graph.rows >= n)
    heard, sent = graph.degrees(), torch.bincount(senders, minlength=2 * n)
    shares = (heard[graph.rows] * sent[senders]).to(like.dtype).rsqrt()
    return shares if kept is None else shares * kept[view.message_edges]
