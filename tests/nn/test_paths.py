"""The network that propagates a question: its formula edge by edge, and what it must not read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.graph.adjacency import Ids
from decentrl.graph.messages import Messages
from decentrl.nn.paths import PathNetwork

N, R, D = 7, 2, 8
TRIPLES = np.array([(0, 0, 1), (1, 0, 2), (1, 1, 2), (3, 1, 1), (4, 0, 4), (2, 1, 5)], np.int64)
HEADS, RELATIONS = torch.tensor([0, 3, 6]), torch.tensor([0, 3, 1])


def network(layers: int = 2) -> PathNetwork:
    torch.manual_seed(0)
    made = PathNetwork(D, layers, 2 * R).double()
    for parameter in made.parameters():  # norms and biases too
        torch.nn.init.normal_(parameter, std=0.7)
    return made


def graph(triples: Ids = TRIPLES) -> Messages:
    return Messages.of_triples(triples, N, R)


def reference(net: PathNetwork, triples: Ids, head: int, relation: int) -> Tensor:
    """Scores of one question by the formula, an edge at a time: [n]."""
    edges = [(h, r, t) for h, r, t in triples.tolist()]
    edges += [(t, r + R, h) for h, r, t in triples.tolist()]
    q = net.questions.weight[relation]
    begin = torch.zeros(N, D, dtype=q.dtype)
    begin[head] = q
    x = begin
    for layer in net.layers:
        w = layer.relations(q).view(2 * R, D)
        rows = []
        for v in range(N):
            around = [(u, r) for u, r, t in edges if t == v]
            a = begin[v] + sum((x[u] * w[r] for u, r in around), torch.zeros_like(q))
            joined = torch.cat((x[v], a / 10, 3 * a / (len(around) + 1)))
            rows.append(x[v] + F.relu(layer.norm(layer.update(joined))))
        x = torch.stack(rows)
    joined = torch.cat((x, q.expand(N, D)), 1)
    return net.score(F.relu(net.read(joined))).squeeze(1)


def test_scores_are_those_of_the_formula() -> None:
    net = network()
    found = net(graph(), HEADS, RELATIONS)
    for i, (head, relation) in enumerate(zip(HEADS.tolist(), RELATIONS.tolist(), strict=True)):
        expected = reference(net, TRIPLES, head, relation)
        torch.testing.assert_close(found[i].double(), expected, rtol=1e-5, atol=1e-5)


def test_a_question_does_not_see_the_others_of_its_batch() -> None:
    net = network()
    together = net(graph(), HEADS, RELATIONS)
    for i in range(len(HEADS)):
        alone = net(graph(), HEADS[i : i + 1], RELATIONS[i : i + 1])
        torch.testing.assert_close(together[i : i + 1], alone)


def test_ids_mean_nothing() -> None:
    """Entities in another order have the same scores: nothing belongs to an entity."""
    net, order = network(), np.random.default_rng(0).permutation(N)
    moved = TRIPLES.copy()
    moved[:, [0, 2]] = order[TRIPLES[:, [0, 2]]]
    found = net(graph(moved), torch.from_numpy(order)[HEADS], RELATIONS)
    torch.testing.assert_close(found[:, torch.from_numpy(order)], net(graph(), HEADS, RELATIONS))


def test_every_weight_learns() -> None:
    net = network()
    net(graph(), HEADS, RELATIONS).square().sum().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


@pytest.mark.parametrize("kept", [True, False])
def test_the_degree_is_counted_without_what_is_hidden(kept: bool) -> None:
    """Were it counted with a hidden edge, a missing one would show in the degree."""
    net, every = network(), graph()
    mask = torch.ones(len(every.edges[0]), dtype=torch.bool)
    rows, relations, columns = every.edges
    mask[((rows == 2) & (columns == 1)) | ((rows == 1) & (columns == 2))] = kept
    without = TRIPLES if kept else np.delete(TRIPLES, [1, 2], axis=0)
    assert relations.shape == mask.shape
    found = net(every.keep(mask), HEADS, RELATIONS)
    torch.testing.assert_close(found, net(graph(without), HEADS, RELATIONS))


def test_the_last_product_is_in_single_precision() -> None:
    """In half precision different answers would have the same score."""
    net = network().float()
    x, q = torch.randn(50, 3, D), torch.randn(3, D)
    with torch.autocast("cpu", torch.bfloat16):
        scores = net.scores(x, q)
    assert scores.dtype == torch.float32
    assert len(scores[0].unique()) == 50
