"""CompGCN: neighbours composed with their relations, updated in each layer (Vashishth, 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from decentrl.config import PredictionConfig
from decentrl.errors import ConfigError
from decentrl.nn.aggregate import gather, weighted_sum
from decentrl.nn.decoders import Decoder
from decentrl.nn.running import ByteDropout
from decentrl.scorers.registry import register_prediction_encoder
from studies.rivals.baseline_view import BaselineView
from studies.rivals.layered import LayeredEncoder, SeenBatchNorm, glorot
from studies.rivals.settings import PREDICTION, PredictionSettings, preset


class RelationUpdate(nn.Module):
    """Relation vectors after each layer: r' = W r.

    No entity takes part, so the relations that a decoder reads are known without the graph: this
    is a parametrisation of the decoder's ``relations``.
    """

    def __init__(self, dim: int, layers: int) -> None:
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(dim, dim, bias=False) for _ in range(layers))
        glorot(self.maps)

    def stages(self, relations: Tensor) -> list[Tensor]:
        """Before the first layer, before the second, …, after the last."""
        found = [relations]
        for layer in self.maps:
            found.append(layer(found[-1]))
        return found

    def forward(self, relations: Tensor) -> Tensor:
        return self.stages(relations)[-1]


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
        glorot(self.directions)
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


@dataclass(frozen=True)
class CompGCNSettings(PredictionSettings):
    encoder: ClassVar[str] = "compgcn"

    def check(self, config: PredictionConfig) -> None:
        # Steps that share an encoding must not change what it was made of.
        if self.reuse > 1:
            raise ConfigError("steps cannot share what they change; add model.reuse=1")
        if config.decoder.name in ("rotate", "tucker") or config.width != self.dim:
            raise ConfigError(
                "compgcn shares its relations with the decoder: that can be transe, distmult, "
                "complex or conve, and decoder.dim is 0"
            )


# Correlation, one layer, 200 dimensions, dropout 0.3 on entities and message dropout 0.1 are the
# paper's and its code's best on FB15K-237. DistMult stands for ConvE, which learns too slowly to be
# trained here as long as there (docs/baselines.md). Vectors have length 1, half of a batch's own
# edges are hidden; batches are larger, epochs fewer than theirs, and the learning rate goes down.
PRESET = preset(
    PREDICTION,
    model={"layers": 1},
    decoder={"normalise": True},
    loss={"smoothing": 0.1},
    training={"epochs": 40},
)


@register_prediction_encoder(CompGCNSettings, PRESET)
class CompGCN(LayeredEncoder):
    """CompGCN as an encoder of prediction, which updates the relations of its decoder.

    Attributes:
        dropout: on the sums of each layer.
    """

    dropout = 0.1

    def __init__(self, config: PredictionConfig, n_entities: int, n_relations: int) -> None:
        super().__init__(config, n_entities, n_relations)
        self._decoder: list[Any] = []  # in a list: its weights are not the encoder's
        if config.decoder.name == "conve":
            # ConvE normalises a question, so long answers have scores that saturate, and its image,
            # in which long heads hide the relation beneath them. So vectors have a length of about
            # 1 at first, like embeddings, instead of √dim.
            last: Any = self.layers[-1]
            nn.init.constant_(last.norm.weight, config.model.dim**-0.5)

    def initialise(self, entities: Tensor) -> None:
        nn.init.xavier_uniform_(entities)

    def make_layer(self, n_relations: int, dim: int) -> CompGCNLayer:
        return CompGCNLayer(dim, self.dropout)

    def attach(self, decoder: Decoder) -> None:
        """From now on the decoder's relations are those after the last layer."""
        update = RelationUpdate(decoder.dim, len(self.layers))
        parametrize.register_parametrization(decoder, "relations", update)
        self._decoder = [decoder]

    def relation_stages(self) -> list[Tensor]:
        """The relations that each layer reads, and those after the last."""
        relations = self._decoder[0].parametrizations.relations
        found: list[Tensor] = relations[0].stages(relations.original)
        return found

    def network(self, view: BaselineView, h: Tensor, kept: Tensor | None = None) -> Tensor:
        shares = _shares(view, h, kept)
        for layer, relations in zip(self.layers, self.relation_stages(), strict=False):
            h = layer(h, relations, view, shares)
        return h


def _shares(view: BaselineView, like: Tensor, kept: Tensor | None) -> Tensor:
    """1 / √(messages i receives · messages j sends) in an edge's direction: [n_edges]."""
    n, graph = len(view.seen), view.messages
    # What i receives as a head, j sends as a tail.
    senders = view.edges.nodes.columns[view.message_edges] + n * (graph.rows >= n)
    received, sent = graph.degrees(), torch.bincount(senders, minlength=2 * n)
    shares = (received[graph.rows] * sent[senders]).to(like.dtype).rsqrt()
    return shares if kept is None else shares * kept[view.message_edges]
