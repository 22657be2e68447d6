"""Propagation from the most promising entities alone: its formula, and what it does not touch.

Made by hand, one at a time; the tests beside it failed.

=============================================  =================================================
change                                         test that fails
=============================================  =================================================
all reached states send                        test_scores_are_those_of_the_formula
what is not reached counts as 0                test_scores_are_those_of_the_formula
bounds of all entities are looked up            test_work_follows_the_edges_of_the_frontier
=============================================  =================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from decentrl.graph.messages import Messages
from decentrl.nn.frontier import frontier_scores, frontier_slopes
from decentrl.nn.paths import PathLayer, PathNetwork

N, R, D = 12, 2, 8
TRIPLES = np.array(
    [(0, 0, 1), (1, 0, 2), (1, 1, 2), (3, 1, 1), (4, 0, 4), (2, 1, 5), (5, 0, 6), (5, 1, 7),
     (7, 0, 8), (8, 1, 9), (6, 1, 9), (1, 0, 10)], np.int64,
)  # fmt: skip
HEADS, RELATIONS = torch.tensor([0, 3, 11, 5, 5]), torch.tensor([0, 3, 1, 2, 2])
GRAPH = Messages.of_triples(TRIPLES, N, R)


def network(layers: int = 3) -> PathNetwork:
    torch.manual_seed(0)
    made = PathNetwork(D, layers, 2 * R).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return made


def reference(net: PathNetwork, head: int, relation: int, most: int) -> Tensor:
    """Scores of one question by the formula, an edge at a time: [n]."""
    edges = [(h, r, t) for h, r, t in TRIPLES.tolist()]
    edges += [(t, r + R, h) for h, r, t in TRIPLES.tolist()]
    q = net.questions.weight[relation]
    rest, states = torch.zeros_like(q), {head: q}
    for layer in net.layers:
        assert isinstance(layer, PathLayer)
        w = layer.relations(q).view(2 * R, D)
        far = sorted(states, key=lambda v: (-float((states[v] - rest).detach().norm()), v))
        sends = set(far[:most])
        reached = set(states) | {t for h, _, t in edges if h in sends}
        now, before = {}, rest

        def updated(x: Tensor, a: Tensor, degree: int, layer: PathLayer = layer) -> Tensor:
            joined = torch.cat((x, a / 10, 3 * a / (degree + 1)))
            return x + F.relu(layer.norm(layer.update(joined)))

        for v in sorted(reached):
            around = [(u, r) for u, r, t in edges if t == v]
            a = q if v == head else torch.zeros_like(q)
            for u, r in around:
                a = a + (states[u] if u in sends else before) * w[r]
            now[v] = updated(states.get(v, before), a, len(around))
        rest, states = updated(before, torch.zeros_like(q), 0), now
    rows = torch.stack([states.get(v, rest) for v in range(N)])
    joined = torch.cat((rows, q.expand(N, D)), 1)
    return net.score(F.relu(net.read(joined))).squeeze(1)


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_scores_are_those_of_the_formula(most: int) -> None:
    net = network()
    found = frontier_scores(net, GRAPH, HEADS, RELATIONS, most)
    for i, (head, relation) in enumerate(zip(HEADS.tolist(), RELATIONS.tolist(), strict=True)):
        expected = reference(net, head, relation, most)
        torch.testing.assert_close(found[i].double(), expected, rtol=1e-5, atol=1e-5)


def test_one_step_from_all_that_was_reached_is_exact() -> None:
    net = network(1)
    found = frontier_scores(net, GRAPH, HEADS, RELATIONS, 100)
    torch.testing.assert_close(found, net(GRAPH, HEADS, RELATIONS))


@pytest.mark.parametrize("most", [1, 3])
def test_a_question_does_not_see_the_others_of_its_batch(most: int) -> None:
    net = network()
    together = frontier_scores(net, GRAPH, HEADS, RELATIONS, most)
    for i in range(len(HEADS)):
        alone = frontier_scores(net, GRAPH, HEADS[i : i + 1], RELATIONS[i : i + 1], most)
        torch.testing.assert_close(together[i : i + 1], alone)
    assert torch.equal(together, frontier_scores(net, GRAPH, HEADS, RELATIONS, most))


def test_every_weight_learns() -> None:
    net = network()
    frontier_scores(net, GRAPH, HEADS, RELATIONS, 2).square().sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_an_entity_that_was_not_reached_has_the_score_of_one_without_an_edge() -> None:
    found = frontier_scores(network(2), GRAPH, torch.tensor([0]), torch.tensor([0]), 100)[0]
    assert found[[5, 6, 7, 8, 9, 11]].unique().numel() == 1
    assert found[[0, 1, 2, 11]].unique().numel() == 4


class Sizes(TorchDispatchMode):
    """How many numbers the largest result of a computation has."""

    largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, tuple | list) else (made,):
            if isinstance(one, Tensor):
                alone = one.untyped_storage().nbytes() // one.element_size()
                self.largest = max(self.largest, min(one.numel(), alone))
        return made


def test_work_follows_the_edges_of_the_frontier() -> None:
    """On a long ring no result but the scores is as large as the graph."""
    n = 20_000
    ring = np.stack((np.arange(n), np.zeros(n, np.int64), (np.arange(n) + 1) % n), 1)
    graph, net = Messages.of_triples(ring, n, R), network().float()
    with torch.no_grad(), Sizes() as sizes:
        read = frontier_slopes(net, graph, torch.tensor([7]), torch.tensor([0]), 9, 5)
    assert read[1].tolist() == [4, 5, 6, 7, 8, 9, 10]
    assert sizes.largest < 1000


def test_slopes_are_those_of_what_was_reached() -> None:
    """What a layer's sums change in a score, by a small change of the weights of edges."""
    net = network()
    graph, reached, slopes = frontier_slopes(net, GRAPH, HEADS[:1], RELATIONS[:1], 2, 2)
    assert reached.tolist() == sorted(reached.tolist())
    assert len(graph.degrees()) == len(reached)
    assert len(slopes) == 3
    x, w, slope = slopes[0]
    assert x[:, 0].nonzero()[:, 0].tolist() == reached.eq(0).nonzero()[:, 0].tolist()
    assert w.shape == (2 * R, D)
    assert slope[reached.tolist().index(1)].any()
