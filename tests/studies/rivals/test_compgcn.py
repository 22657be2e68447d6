"""CompGCN against a loop over edges, and the relations that its decoder reads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from decentrl.config import PredictionConfig
from decentrl.nn.decoders import DistMult
from decentrl.scorers.model import PredictionModel
from studies.rivals.baseline_view import BaselineView
from studies.rivals.compgcn import CompGCN, CompGCNLayer

N, R = 7, 3
# 0 is twice a head of relation 0; two triples share neighbour and relation; nothing about 6.
TRIPLES = np.array(
    [(0, 0, 1), (0, 0, 2), (3, 0, 1), (0, 1, 1), (1, 2, 0), (2, 1, 3), (4, 2, 5)], np.int64
)
widths = pytest.mark.parametrize("dim", [4, 5])


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


class Plain(CompGCN):
    """Without dropout, and with given relations before each layer."""

    dropout = 0.0
    given: list[Tensor] | None = None

    def relation_stages(self) -> list[Tensor]:
        return super().relation_stages() if self.given is None else self.given

    def made(
        self, view: BaselineView, h: Tensor, given: list[Tensor], kept: Tensor | None = None
    ) -> Tensor:
        self.given = given
        return self.network(view, h, kept)


def make(dim: int, layers: int = 1) -> Plain:
    torch.manual_seed(0)
    settings = (f"model.dim={dim}", f"model.layers={layers}")
    return Plain(PredictionConfig.from_preset("compgcn", settings), N, R).double().eval()


def view_of(triples: np.ndarray = TRIPLES) -> BaselineView:
    return BaselineView.of(triples, TRIPLES, N, R)


def composed(h: Tensor, r: Tensor) -> Tensor:
    d = len(h)
    return torch.stack([sum(h[i] * r[(i + k) % d] for i in range(d)) for k in range(d)])


def naive(layer: CompGCNLayer, h: Tensor, r: Tensor) -> Tensor:
    """One triple at a time, as head and as tail."""
    heads, tails = np.bincount(TRIPLES[:, 0], minlength=N), np.bincount(TRIPLES[:, 2], minlength=N)
    as_head, as_tail, itself = (linear.weight.t() for linear in layer.directions)
    total = torch.stack([composed(row, layer.loop[0]) for row in h]) @ itself
    for head, relation, tail in TRIPLES.tolist():
        share = 1 / float(heads[head] * tails[tail]) ** 0.5
        total[head] += share * composed(h[tail], r[relation]) @ as_head
        total[tail] += share * composed(h[head], r[R + relation]) @ as_tail
    known = (total / 3 - layer.norm.running_mean) / (layer.norm.running_var + 1e-5).sqrt()
    return torch.tanh(known * layer.norm.weight + layer.norm.bias)


@widths
def test_it_is_what_a_loop_over_triples_makes(dim: int) -> None:
    model = make(dim)
    layer = model.layers[0]
    assert isinstance(layer, CompGCNLayer)
    assert layer.norm.running_mean is not None
    with torch.no_grad():
        layer.norm.running_mean.copy_(randn(dim, seed=2))
        layer.norm.bias.copy_(randn(dim, seed=3))
    h, r = randn(N, dim), randn(2 * R, dim, seed=1)
    torch.testing.assert_close(model.made(view_of(), h, [r, r]), naive(layer, h, r))


def test_a_hidden_edge_says_nothing_and_the_other_shares_stay() -> None:
    """The shares are the graph's, so what is hidden is missing and nothing else changes."""
    model, view = make(4), view_of()
    h, r = randn(N, 4), randn(2 * R, 4, seed=1)
    ends = torch.stack((view.edges.nodes.rows, view.edges.nodes.columns), 1)
    kept = (ends.sort(1).values != torch.tensor([1, 3])).any(1)
    assert kept.sum() == len(kept) - 2
    moved = (model.made(view, h, [r], kept) != model.made(view, h, [r])).any(1)
    assert moved.tolist() == [i in (1, 3) for i in range(N)]


def test_training_takes_no_notice_of_who_comes_later() -> None:
    """Neither do they change what is normalised, nor are they learned through it."""
    model, view = make(4, layers=2).train(), view_of()
    assert view.seen.tolist() == [True] * 6 + [False]
    r, h = randn(2 * R, 4, seed=1), randn(N, 4)
    other = torch.cat((h[:6], 100 * randn(1, 4, seed=5)))
    torch.testing.assert_close(model.made(view, h, [r, r])[:6], model.made(view, other, [r, r])[:6])
    h.requires_grad_()
    model.made(view, h, [r, r])[:6].square().sum().backward()
    assert h.grad is not None
    assert h.grad[:6].any(1).all()
    assert not h.grad[6].any()


def test_one_entity_alone_can_be_trained() -> None:
    alone = BaselineView.of(np.array([(0, 0, 0)]), np.array([(0, 0, 0)]), N, R)
    model = make(4).train()
    assert model.made(alone, randn(N, 4), [randn(2 * R, 4)]).isfinite().all()


def test_gradients_are_those_of_the_formula() -> None:
    model, view = make(4, layers=2), view_of()
    h, r = randn(N, 4).requires_grad_(), randn(2 * R, 4, seed=1).requires_grad_()
    assert gradcheck(
        lambda h, r, *_: model.made(view, h, [r, 2 * r]), (h, r, *model.layers.parameters())
    )


def test_the_decoder_reads_the_relations_after_the_last_layer() -> None:
    decoder = DistMult(R, 4)
    base = decoder.relations.detach().clone()
    model = make(4, layers=2).float()
    model.attach(decoder)
    first, second = decoder.parametrizations.relations[0].maps
    stages = model.relation_stages()
    for found, expected in zip(stages, (base, first(base), second(first(base))), strict=True):
        torch.testing.assert_close(found, expected)
    torch.testing.assert_close(decoder.relations, stages[-1])
    heads, kinds = torch.ones(2, 4), torch.tensor([0, 5])
    torch.testing.assert_close(decoder.query(heads, kinds), stages[-1][kinds])


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("decoder", ["conve", "distmult"])
def test_vectors_begin_as_long_as_the_decoder_can_read(decoder: str, layers: int) -> None:
    """ConvE shows heads and relations in one image: they begin alike. A product needs no such."""
    torch.manual_seed(0)
    settings = (
        f"decoder.name={decoder}", "decoder.normalise=false", "model.dropout=0",
        f"model.layers={layers}",
    )  # fmt: skip
    model = PredictionModel(N, R, PredictionConfig.from_preset("compgcn", settings)).train()
    x = model.vectors(view_of(), model.encode(view_of()))[view_of().seen]
    length = x.norm(dim=1).mean().item()
    lengths_of_relations = model.decoder.relations.norm(dim=1).mean().item()
    if decoder == "conve":
        assert length == pytest.approx(lengths_of_relations, rel=0.3)
    else:
        assert length > 5 * lengths_of_relations
