"""The paths that an answer owes most to: a beam search equals going through every path."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.graph.adjacency import Ids
from decentrl.graph.messages import Messages
from decentrl.nn.paths import PathNetwork
from decentrl.scorers.reasons import Edge, best_paths, distances

N, R, L = 6, 2, 3


@st.composite
def triples(draw: st.DrawFn) -> Ids:
    one = st.tuples(st.integers(0, N - 1), st.integers(0, R - 1), st.integers(0, N - 1))
    return np.array(sorted(draw(st.sets(one, min_size=1, max_size=10))), np.int64)


def edges_of(some: Ids) -> list[Edge]:
    forth = [(h, r, t) for h, r, t in some.tolist()]
    return forth + [(t, r + R, h) for h, r, t in some.tolist()]


@settings(deadline=None, max_examples=40)
@given(triples(), st.integers(0, N - 1), st.integers(0, N - 1))
def test_the_beam_finds_what_all_paths_together_are(some: Ids, head: int, answer: int) -> None:
    torch.manual_seed(0)
    net, graph = PathNetwork(8, L, 2 * R), Messages.of_triples(some, N, R)
    slopes = net.slopes(graph, torch.tensor([head]), torch.tensor([1]), answer)
    weights: dict[tuple[Edge, ...], float] = defaultdict(float)

    def follow(node: int, layer: int, path: tuple[Edge, ...], weight: float) -> None:
        if layer == L:
            if node == answer and path:
                weights[path] += weight
            return
        follow(node, layer + 1, path, weight)
        x, w, slope = slopes[layer]
        for u, r, v in edges_of(some):
            if u == node and v not in [head, *(end for _, _, end in path)]:
                count = float((x[u] * w[r]) @ slope[v])
                follow(v, layer + 1, (*path, (u, r, v)), weight + count)

    follow(head, 0, (), 0.0)
    expected = {path: weight for path, weight in weights.items() if weight > 1e-6}
    found = best_paths(graph, slopes, head, answer, 1000)
    assert {path.edges for path in found} >= set(expected)
    assert sum(path.share for path in found) == pytest.approx(1 if found else 0)
    total = sum(weight for weight in weights.values() if weight > 0)
    for path in found:
        assert path.share * total == pytest.approx(weights[path.edges], abs=1e-5)
    assert [path.share for path in found] == sorted((p.share for p in found), reverse=True)


def test_an_edge_counts_for_the_slope_of_the_score_by_its_weight() -> None:
    """Seen by moving it: a second, parallel relation that is nearly nothing."""
    torch.manual_seed(0)
    net = PathNetwork(8, 1, 2).double()
    graph = Messages.of_triples(np.array([(0, 0, 1)]), 2, 1)
    (layer,) = net.slopes(graph, torch.tensor([0]), torch.tensor([0]), 1)
    x, w, slope = layer
    counted = float((x[0] * w[0]) @ slope[1])
    step = 1e-6
    with torch.no_grad():
        before = net(graph, torch.tensor([0]), torch.tensor([0]))[0, 1]
    original = net.layers[0].weights
    scale = torch.tensor([1 + step, 1.0], dtype=torch.float64)[:, None]
    net.layers[0].weights = lambda q: original(q) * scale  # type: ignore[method-assign]
    with torch.no_grad():
        after = net(graph, torch.tensor([0]), torch.tensor([0]))[0, 1]
    assert counted == pytest.approx(float(after - before) / step, rel=1e-3)


@given(triples(), st.integers(0, N - 1))
def test_distances_are_those_of_a_search(some: Ids, head: int) -> None:
    expected = {head: 0}
    for step in range(1, L + 1):
        for u, _, v in edges_of(some):
            if expected.get(u) == step - 1:
                expected.setdefault(v, step)
    found = distances(Messages.of_triples(some, N, R), head, L)
    assert found.tolist() == [expected.get(i, L + 1) for i in range(N)]
