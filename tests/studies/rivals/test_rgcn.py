"""R-GCN against another implementation of it, and what is left of it without some edges."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from decentrl.config import PredictionConfig
from studies.rivals.baseline_view import BaselineView
from studies.rivals.rgcn import RGCN

N, R, D, BASES = 8, 3, 4, 2
# Two neighbours by one relation, three relations to one neighbour, a loop, nothing about 7.
TRIPLES = np.array(
    [(0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 2, 0), (2, 1, 3), (3, 0, 4), (5, 2, 5), (6, 0, 2)],
    np.int64,
)


def make(layers: int = 2, dropout: float = 0.0) -> RGCN:
    torch.manual_seed(0)
    kind = type("Small", (RGCN,), {"bases": BASES, "dropout": dropout})
    settings = (f"model.dim={D}", f"model.layers={layers}")
    return kind(PredictionConfig.from_preset("rgcn", settings), N, R).double()


def view_of(triples: np.ndarray = TRIPLES) -> BaselineView:
    return BaselineView.of(triples, TRIPLES, N, R)


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.filterwarnings("ignore")
def test_it_is_what_torch_geometric_makes() -> None:
    conv = pytest.importorskip("torch_geometric.nn").RGCNConv
    model, view = make().eval(), view_of()
    with torch.no_grad():
        model.layers[0].own.bias.copy_(randn(D))
    nodes, kinds = view.edges.nodes, view.edges.relations.columns
    h = expected = randn(N, D)
    for k, layer in enumerate(model.layers):
        other = conv(D, D, 2 * R, num_bases=BASES, aggr="mean").double()
        with torch.no_grad():
            other.weight.copy_(torch.stack([basis.weight.t() for basis in layer.bases]))
            other.comp.copy_(layer.mixture.t())
            other.root.copy_(layer.own.weight.t())
            other.bias.copy_(layer.own.bias)
            expected = other(
                expected.relu() if k else expected, torch.stack((nodes.columns, nodes.rows)), kinds
            )
    torch.testing.assert_close(model.network(view, h).detach(), expected)


def test_hidden_edges_are_as_if_they_were_not_there() -> None:
    model, view = make(), view_of()
    ends = torch.stack((view.edges.nodes.rows, view.edges.nodes.columns), 1).tolist()
    kept = torch.tensor([set(pair) != {0, 2} for pair in ends])
    fewer = np.delete(TRIPLES, 1, axis=0)
    found = model.network(view, randn(N, D), kept)
    torch.testing.assert_close(found, model.network(view_of(fewer), randn(N, D)))
    assert not torch.equal(found, model.network(view, randn(N, D)))


def test_a_share_of_the_edges_is_left_out_while_training_alone() -> None:
    model, view, h = make(1, 0.5), view_of(), randn(N, D)
    torch.testing.assert_close(model.eval().network(view, h), make(1).network(view, h))
    once, again = model.train().network(view, h), model.network(view, h)
    assert not torch.equal(once, again)
    # Nobody is next to 5 and 7, and the entity itself stays.
    assert torch.equal(once[[5, 7]], again[[5, 7]])
    assert once.any(1).all()
    every = make(1, 1.0)
    torch.testing.assert_close(every.network(view, h), every.layers[0].own(h))


def test_gradients_are_those_of_the_formula() -> None:
    model, view = make(), view_of()
    h = randn(N, D).requires_grad_()
    assert gradcheck(lambda h, *_: model.network(view, h), (h, *model.layers.parameters()))
