"""CompGCN: neighbours composed with their relations, updated in each layer (Vashishth, 2020)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from decentrl.config import PredictionConfig
from decentrl.graph.baselines import BaselineView
from decentrl.nn.aggregate import gather, weighted_sum
from decentrl.nn.decoders import Decoder
from decentrl.nn.dropout import ByteDropout
from decentrl.scorers.encoder import Encoded
from decentrl.scorers.rivals.base import RivalEncoder
from decentrl.scorers.rivals.batch_norm import SeenBatchNorm


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
    r"""Neighbours composed with their relations by correlation, a matrix for each direction.

    .. math::
        h'_i = \tanh \mathrm{norm} \tfrac13 \Bigl( \sum_{d} W_d \sum_{(r, j) \in N_d(i)}
        \frac{h_j \star r}{\sqrt{|N_d(i)| |N_d^{-1}(j)|}} + W_0 (h_i \star r_0) \Bigr)

    The sums are made before the matrices, and of the distinct pairs of neighbour and relation
    instead of the edges. Correlation, :math:`F^{-1}(\overline{F h} \odot F r)`, is a product of
    spectra, which are summed up before they are transformed back.

    Args:
        dropout: on both sums.
    """

    def __init__(self, dim: int, dropout: float) -> None:
        super().__init__()
        self.dim = dim
        self.directions = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(3))
        for layer in self.directions:
            assert isinstance(layer, nn.Linear)
            nn.init.xavier_uniform_(layer.weight)
        self.loop = nn.Parameter(torch.empty(1, dim))
        nn.init.xavier_uniform_(self.loop)
        self.dropout = ByteDropout(dropout)
        self.norm = SeenBatchNorm(dim)

    def forward(self, h: Tensor, relations: Tensor, view: BaselineView, shares: Tensor) -> Tensor:
        """h [n_entities, dim], relations [2 · n_relations, dim] → [n_entities, dim].

        Args:
            shares: of every message, [n_edges].
        """
        head, tail, own = self.directions
        left, right = _spectrum(h, conjugate=True), _spectrum(relations)
        pairs = view.edges.pairs
        composed = _times(gather(left, pairs.rows), gather(right, pairs.columns))
        summed = _from_spectrum(weighted_sum(shares, composed, view.messages), self.dim)
        as_head, as_tail = summed.chunk(2)
        itself = _from_spectrum(_times(left, _spectrum(self.loop)), self.dim)
        total = self.dropout(head(as_head)) + self.dropout(tail(as_tail)) + own(itself)
        return torch.tanh(self.norm(total / 3, view.seen))


def _spectrum(rows: Tensor, conjugate: bool = False) -> Tensor:
    """The Fourier transform of every row, the real part beside the imaginary."""
    spectrum = torch.fft.rfft(rows)
    return torch.cat((spectrum.real, -spectrum.imag if conjugate else spectrum.imag), 1)


def _times(left: Tensor, right: Tensor) -> Tensor:
    """Complex product of spectra."""
    (a, b), (c, d) = left.chunk(2, 1), right.chunk(2, 1)
    return torch.cat((a * c - b * d, a * d + b * c), 1)


def _from_spectrum(rows: Tensor, dim: int) -> Tensor:
    """The inverse of :func:`_spectrum`."""
    real, imaginary = rows.chunk(2, 1)
    found: Tensor = torch.fft.irfft(torch.complex(real, imaginary), dim)
    return found


class CompGCN(nn.Module):
    """Layers of :class:`CompGCNLayer` over a table of input embeddings.

    It is centralised: an entity's own embedding takes part, and where that was never trained it is
    read as it was initialised, as the paper's model would.

    Args:
        unit: vectors have a length of about 1 at first, like embeddings, instead of √dim.
    """

    def __init__(
        self,
        n_entities: int,
        dim: int,
        layers: int,
        dropout: float = 0.1,
        *,
        unit: bool = False,
    ) -> None:
        super().__init__()
        self.entities = nn.Parameter(torch.empty(n_entities, dim))
        nn.init.xavier_uniform_(self.entities)
        self.layers = nn.ModuleList(CompGCNLayer(dim, dropout) for _ in range(layers))
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
    """1 / √(messages i receives · messages j sends) in an edge's direction: [n_edges]."""
    n, graph = len(view.seen), view.messages
    # What i receives as a head, j sends as a tail.
    senders = view.edges.nodes.columns[view.message_edges] + n * (graph.rows >= n)
    received, sent = graph.degrees(), torch.bincount(senders, minlength=2 * n)
    shares = (received[graph.rows] * sent[senders]).to(like.dtype).rsqrt()
    return shares if kept is None else shares * kept[view.message_edges]


class CompGCNEncoder(RivalEncoder):
    """CompGCN as an encoder of prediction, which updates the relations of its decoder."""

    def __init__(self, config: PredictionConfig, n_entities: int, n_relations: int) -> None:
        model = config.model
        # ConvE normalises a question, so long answers have scores that saturate, and its image, in
        # which long heads hide the relation beneath them.
        unit = config.decoder.name == "conve"
        super().__init__(CompGCN(n_entities, model.dim, model.layers, unit=unit))
        self.layers = model.layers
        self._decoder: list[Decoder] = []  # in a list: its weights are not the encoder's

    def attach(self, decoder: Decoder) -> None:
        update_relations(decoder, self.layers)
        self._decoder = [decoder]

    def forward(
        self, view: BaselineView, inputs: Tensor, kept: tuple[Tensor, ...] | None = None
    ) -> Encoded:
        (decoder,) = self._decoder
        stages = relation_stages(decoder)
        return self.baseline(view, inputs, stages, None if kept is None else kept[0]), []
