"""D-GCN against a loop over triples in float64."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.autograd import gradcheck

from decentrl.config import PredictionConfig
from studies.rivals.baseline_view import BaselineView
from studies.rivals.dgcn import DGCN

N, R, D = 8, 3, 4
# Two neighbours by one relation, three relations to one neighbour, a loop, nothing about 7.
TRIPLES = np.array(
    [(0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 2, 0), (2, 1, 3), (3, 0, 4), (5, 2, 5), (6, 0, 2)],
    np.int64,
)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def make(layers: int = 2) -> DGCN:
    """A network whose biases are not 0, as they are at first."""
    torch.manual_seed(0)
    settings = (f"model.dim={D}", f"model.layers={layers}")
    model = DGCN(PredictionConfig.from_preset("dgcn", settings), N, R).double()
    with torch.no_grad():
        for k, layer in enumerate(model.layers):
            layer.biases.copy_(randn(2 * R + 1, D, seed=2 * k + 1))
            layer.gate_biases.copy_(randn(2 * R + 1, seed=2 * k + 2))
    return model


def view_of(triples: np.ndarray = TRIPLES) -> BaselineView:
    return BaselineView.of(triples, TRIPLES, N, R)


def looped(model: DGCN, h: Tensor, triples: np.ndarray = TRIPLES) -> Tensor:
    """One message at a time."""
    for layer in model.layers:
        matrices = [linear.weight for linear in layer.values]
        rows = [[] for _ in range(N)]

        def send(
            to: int, source: int, label: int, direction: int,
            h: Tensor = h, layer=layer, matrices=matrices, rows=rows,
        ) -> None:  # fmt: skip
            gate = (layer.gate.weight[direction] @ h[source] + layer.gate_biases[label]).sigmoid()
            rows[to].append(gate * (matrices[direction] @ h[source] + layer.biases[label]))

        for head, relation, tail in triples.tolist():
            if head != tail:
                send(head, tail, relation, 0)
                send(tail, head, R + relation, 1)
        for entity in range(N):
            send(entity, entity, 2 * R, 2)
        h = torch.stack([torch.stack(row).sum(0).clamp(min=0) for row in rows])
    return h


def test_it_is_what_a_loop_over_triples_makes() -> None:
    model, h = make(), randn(N, D).requires_grad_()
    parts = (h, *model.layers.parameters())
    found, expected = model.network(view_of(), h), looped(model, h)
    torch.testing.assert_close(found, expected)
    assert found.any()
    slopes = randn(N, D, seed=9)
    torch.testing.assert_close(
        torch.autograd.grad((found * slopes).sum(), parts),
        torch.autograd.grad((expected * slopes).sum(), parts),
    )


def test_hidden_edges_are_as_if_they_were_not_there() -> None:
    model, view, h = make(), view_of(), randn(N, D)
    ends = torch.stack((view.edges.nodes.rows, view.edges.nodes.columns), 1).tolist()
    kept = torch.tensor([set(pair) != {0, 2} for pair in ends])
    found = model.network(view, h, kept)
    torch.testing.assert_close(found, looped(model, h, np.delete(TRIPLES, 1, axis=0)))
    assert not torch.equal(found, model.network(view, h))


def test_gradients_are_those_of_the_formula() -> None:
    model, view = make(1), view_of()
    h = randn(N, D).requires_grad_()
    assert gradcheck(lambda h, *_: model.network(view, h), (h, *model.layers.parameters()))
