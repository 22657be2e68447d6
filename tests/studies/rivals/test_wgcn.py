"""W-GCN against a dense adjacency for each relation in float64."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.autograd import gradcheck

from decentrl.config import PredictionConfig
from studies.rivals.baseline_view import BaselineView
from studies.rivals.wgcn import WGCN

N, R, D = 8, 3, 4
# Two neighbours by one relation, three relations to one neighbour, a loop, nothing about 7.
TRIPLES = np.array(
    [(0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 2, 0), (2, 1, 3), (3, 0, 4), (5, 2, 5), (6, 0, 2)],
    np.int64,
)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def make(layers: int = 2) -> WGCN:
    torch.manual_seed(0)
    settings = (f"model.dim={D}", f"model.layers={layers}")
    model = WGCN(PredictionConfig.from_preset("wgcn", settings), N, R).double()
    with torch.no_grad():
        for k, layer in enumerate(model.layers):
            layer.alpha.copy_(randn(R, seed=k + 1))
            layer.norm.running_mean.copy_(randn(D, seed=k + 3))
            layer.norm.weight.copy_(randn(D, seed=k + 5))
    return model.eval()


def view_of(triples: np.ndarray = TRIPLES) -> BaselineView:
    return BaselineView.of(triples, TRIPLES, N, R)


def dense(model: WGCN, h: Tensor, triples: np.ndarray = TRIPLES) -> Tensor:
    """tanh norm (Σ_r α_r A_r h W + h W) with A_r symmetric, N × N."""
    seen = np.unique(TRIPLES[:, [0, 2]])
    for layer in model.layers:
        weights = torch.eye(N, dtype=torch.float64)
        for head, relation, tail in triples.tolist():
            if head != tail:
                joined = torch.zeros(N, N, dtype=torch.float64)
                joined[head, tail] = joined[tail, head] = 1
                weights = weights + layer.alpha[relation] * joined
        rows = weights @ h @ layer.value.weight.t()
        mean, variance = layer.norm.running_mean, layer.norm.running_var
        if model.training:
            mean, variance = rows[seen].mean(0), rows[seen].var(0, unbiased=False)
        normal = (rows - mean) / (variance + 1e-5).sqrt() * layer.norm.weight + layer.norm.bias
        if model.training:  # an entity outside the training graph is not normalised
            normal[7] = rows[7]
        h = torch.tanh(normal)
    return h


def test_it_is_what_dense_algebra_makes() -> None:
    h = randn(N, D).requires_grad_()
    slopes = randn(N, D, seed=9)
    for model in (make(), make().train()):
        expected, found = dense(model, h), model.network(view_of(), h)
        torch.testing.assert_close(found, expected)
        parts = (h, *model.layers.parameters())
        torch.testing.assert_close(
            torch.autograd.grad((found * slopes).sum(), parts),
            torch.autograd.grad((expected * slopes).sum(), parts),
        )


def test_hidden_edges_are_as_if_they_were_not_there() -> None:
    model, view, h = make(), view_of(), randn(N, D)
    ends = torch.stack((view.edges.nodes.rows, view.edges.nodes.columns), 1).tolist()
    kept = torch.tensor([set(pair) != {0, 2} for pair in ends])
    found = model.network(view, h, kept)
    torch.testing.assert_close(found, dense(model, h, np.delete(TRIPLES, 1, axis=0)))
    assert not torch.equal(found, model.network(view, h))


def test_gradients_are_those_of_the_formula() -> None:
    model, view = make(), view_of()
    h = randn(N, D).requires_grad_()
    assert gradcheck(lambda h, *_: model.network(view, h), (h, *model.layers.parameters()))
