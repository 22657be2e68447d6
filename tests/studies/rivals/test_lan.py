"""LAN against a loop over edges; an entity has no say in its own vector."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.autograd import gradcheck

from decentrl.config import PredictionConfig
from studies.rivals.baseline_view import BaselineView
from studies.rivals.lan import LAN

N, R, D = 8, 3, 4
KNOWN = np.array(
    [(0, 0, 1), (0, 0, 2), (3, 0, 1), (0, 1, 1), (1, 2, 0), (2, 1, 3), (4, 2, 5)], np.int64
)
LATER = np.array([(6, 0, 1), (6, 1, 7), (2, 2, 6)], np.int64)  # 6 and 7 arrive
NEW = [6, 7]


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def make() -> LAN:
    torch.manual_seed(0)
    return LAN(PredictionConfig.from_preset("lan", (f"model.dim={D}",)), N, R).double()


def view_of(triples: np.ndarray | None = None) -> BaselineView:
    every = np.concatenate((KNOWN, LATER)) if triples is None else triples
    return BaselineView.of(every, KNOWN, N, R)


def naive(model: LAN, view: BaselineView, e: Tensor, kept: list[bool]) -> Tensor:
    """One entity after the other."""
    nodes, kinds = view.edges.nodes, view.edges.relations.columns.tolist()
    edges = list(zip(nodes.rows.tolist(), nodes.columns.tolist(), kinds, strict=True))
    found = torch.zeros(N, D, dtype=torch.float64)
    for i in range(N):
        own = [
            (k, j, r)
            for k, (row, j, r) in enumerate(edges)
            if row == i and kept[k] and j not in NEW
        ]
        if not own:
            continue
        projected, logits, logic = [], [], []
        for k, j, r in own:
            w = model.relations[r] / model.relations[r].norm()
            projected.append(e[j] - (e[j] @ w) * w)
            logits.append(model.score.weight[0] @ torch.tanh(model.key.weight @ projected[-1]))
            logic.append(float(view.informative[k]))
        weights = torch.softmax(torch.stack(logits), 0) + torch.tensor(logic) / sum(logic)
        found[i] = (weights[:, None] * torch.stack(projected)).sum(0)
    return found


def test_it_is_what_a_loop_over_entities_makes() -> None:
    model, e = make(), randn(N, D)
    for triples in (KNOWN, None):
        view = view_of(triples)
        expected = naive(model, view, e, [True] * view.edges.nodes.n_edges)
        torch.testing.assert_close(model.network(view, e), expected, rtol=1e-6, atol=1e-6)
    assert model.network(view_of(), e)[[6, 7]].any(1).tolist() == [True, False]  # 7 knows but 6


def test_hidden_edges_have_no_weight() -> None:
    model, view, e = make(), view_of(), randn(N, D)
    kept = torch.arange(view.edges.nodes.n_edges) % 3 > 0
    expected = naive(model, view, e, kept.tolist())
    torch.testing.assert_close(model.network(view, e, kept), expected, rtol=1e-6, atol=1e-6)


def test_nothing_of_the_entity_itself_enters_nor_of_one_that_arrived() -> None:
    model, view, e = make(), view_of(), randn(N, D)
    before = model.network(view, e)
    for i in range(N):
        changed = e.clone()
        changed[i] = torch.nan if i in NEW else changed[i] + 1
        moved = (model.network(view, changed) != before).any(1)
        assert not moved[i]
        assert moved.any() == (i not in NEW)


def test_gradients_are_those_of_the_formula() -> None:
    model, view = make(), view_of()
    e = randn(N, D).requires_grad_()
    weights = model.relations, model.key.weight, model.score.weight
    assert gradcheck(lambda e, *_: model.network(view, e), (e, *weights))


def test_some_input_embeddings_are_not_read_while_training() -> None:
    model, view, e = make(), view_of(), randn(N, D)
    known = list[Tensor]()
    for seed in range(60):
        torch.manual_seed(seed)
        found, _ = model.train()(view, e)
        torch.manual_seed(seed)
        known.append(torch.rand(N, 1) >= 0.2)
        # A row is there or it is 0.
        torch.testing.assert_close(found, model.eval()(view, e * known[-1])[0])
    assert 0.7 < torch.stack(known).double().mean() < 0.9
    assert torch.equal(model.eval()(view, e)[0], model.network(view, e))
