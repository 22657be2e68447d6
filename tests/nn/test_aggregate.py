"""Sparse aggregation equals dense float64 algebra, in both directions, and stays small."""

from __future__ import annotations

import subprocess
import sys
import warnings
from textwrap import dedent

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from decentrl.graph.adjacency import Adjacency
from decentrl.nn.aggregate import (
    RowNorm,
    edge_dots,
    gather,
    pool,
    segment_softmax,
    segment_sum,
    weighted_sum,
)

D = 3
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def adjacency(edges: list[tuple[int, int]], n_rows: int, n_columns: int) -> Adjacency:
    rows, columns = np.array(edges, np.int64).reshape(-1, 2).T
    return Adjacency.from_pairs(rows, columns, n_rows, n_columns)


# Parallel edges (row 0), an empty row (1), a column nobody reads (3), more columns than rows.
AWKWARD = adjacency([(0, 2), (0, 2), (0, 1), (2, 0), (2, 2), (2, 4)], 3, 5)


@st.composite
def graphs(draw: st.DrawFn) -> Adjacency:
    n_rows, n_columns = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    edge = st.tuples(st.integers(0, n_rows - 1), st.integers(0, n_columns - 1))
    return adjacency(draw(st.lists(edge, max_size=20)), n_rows, n_columns)


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def random_graph(n: int, n_edges: int, seed: int = 0) -> Adjacency:
    random = np.random.default_rng(seed)
    return Adjacency.from_pairs(*random.integers(0, n, (2, n_edges)), n, n)


def incidence(graph: Adjacency) -> Tensor:
    """Dense [n_rows, n_edges]: 1 where an edge belongs to a row."""
    return (graph.rows == torch.arange(graph.n_rows)[:, None]).double()


def dense_softmax(logits: Tensor, graph: Adjacency) -> Tensor:
    """A softmax over the row of a matrix that is -inf where an edge is not the row's."""
    matrix = logits.masked_fill(incidence(graph) == 0, -torch.inf)
    return torch.nan_to_num(matrix.softmax(1)).sum(0)


def dense_sum(weights: Tensor, values: Tensor, graph: Adjacency) -> Tensor:
    return incidence(graph) @ (weights[:, None] * values[graph.columns])


def dense_dots(left: Tensor, right: Tensor, graph: Adjacency) -> Tensor:
    return (left[graph.rows] * right[graph.columns]).sum(-1)


@given(graphs())
@settings(deadline=None)
def test_softmax_equals_the_dense_one_with_its_gradient(graph: Adjacency) -> None:
    logits = (5 * randn(graph.n_edges)).requires_grad_()
    weights, expected = segment_softmax(logits, graph), dense_softmax(logits, graph)
    torch.testing.assert_close(weights, expected)
    toward = randn(graph.n_edges, seed=1)
    (found,) = torch.autograd.grad(weights, logits, toward)
    (right,) = torch.autograd.grad(expected, logits, toward)
    torch.testing.assert_close(found, right)


@given(graphs())
@settings(deadline=None)
def test_weighted_sum_equals_the_dense_one_with_its_gradients(graph: Adjacency) -> None:
    inputs = (
        randn(graph.n_edges).requires_grad_(),
        randn(graph.n_columns, D, seed=1).requires_grad_(),
    )
    result, expected = weighted_sum(*inputs, graph), dense_sum(*inputs, graph)
    torch.testing.assert_close(result, expected)
    toward = randn(graph.n_rows, D, seed=2)
    found = torch.autograd.grad(result, inputs, toward)
    torch.testing.assert_close(found, torch.autograd.grad(expected, inputs, toward))


@given(graphs())
@settings(deadline=None)
def test_edge_dots_equal_the_dense_ones_with_their_gradients(graph: Adjacency) -> None:
    inputs = (
        randn(graph.n_rows, D).requires_grad_(),
        randn(graph.n_columns, D, seed=1).requires_grad_(),
    )
    result, expected = edge_dots(*inputs, graph), dense_dots(*inputs, graph)
    torch.testing.assert_close(result, expected)
    toward = randn(graph.n_edges, seed=2)
    found = torch.autograd.grad(result, inputs, toward)
    torch.testing.assert_close(found, torch.autograd.grad(expected, inputs, toward))


@given(graphs(), st.sampled_from(["mean", "sum"]))
@settings(deadline=None)
def test_pool_takes_each_rows_neighbours_together(graph: Adjacency, how: str) -> None:
    values = randn(graph.n_columns, D)
    expected = torch.zeros(graph.n_rows, D, dtype=torch.float64)
    for row in range(graph.n_rows):
        own = values[graph.columns[graph.rows == row]]
        if len(own):
            expected[row] = getattr(own, how)(0)
    torch.testing.assert_close(pool(values, graph, how), expected)


@given(graphs())
@settings(deadline=None)
def test_dots_of_vectors_with_themselves_have_both_gradients(graph: Adjacency) -> None:
    size = max(graph.n_rows, graph.n_columns)
    square = Adjacency.from_pairs(graph.rows.numpy(), graph.columns.numpy(), size, size)
    vectors, toward = randn(size, D).requires_grad_(), randn(graph.n_edges, seed=1)
    (found,) = torch.autograd.grad(edge_dots(vectors, vectors, square), vectors, toward)
    (right,) = torch.autograd.grad(dense_dots(vectors, vectors, square), vectors, toward)
    torch.testing.assert_close(found, right)


@pytest.mark.parametrize("ids", [[3, 0, 3, 3, 1], [2], []], ids=["repeated", "one", "none"])
def test_gather_is_indexing(ids: list[int]) -> None:
    values, chosen = randn(5, D).requires_grad_(), torch.tensor(ids, dtype=torch.int64)
    assert torch.equal(gather(values, chosen), values[chosen])
    toward = randn(len(ids), D, seed=1)
    (found,) = torch.autograd.grad(gather(values, chosen), values, toward)
    (right,) = torch.autograd.grad(values[chosen], values, toward)
    torch.testing.assert_close(found, right)


def test_sums_and_maxima_of_empty_rows_are_neutral() -> None:
    per_edge = torch.arange(6.0)
    assert segment_sum(per_edge, AWKWARD).tolist() == [3.0, 0.0, 12.0]


def test_softmax_survives_huge_logits() -> None:
    weights = segment_softmax(torch.tensor([1e4, 1e4, 0, -1e4, -1e4, -1e4]), AWKWARD)
    torch.testing.assert_close(weights, torch.tensor([0.5, 0.5, 0, 1 / 3, 1 / 3, 1 / 3]))


def test_a_graph_without_edges_gives_zeros() -> None:
    empty = adjacency([], 2, 3)
    values = randn(3, D).requires_grad_()
    for how in ("mean", "sum"):
        assert torch.equal(pool(values, empty, how), torch.zeros(2, D, dtype=torch.float64))
    weighted_sum(randn(0), values, empty).sum().backward()
    assert not values.grad.any()


def test_a_tiny_graph_may_have_more_parallel_edges_than_cells() -> None:
    many = adjacency([(0, 0)] * 5, 1, 1)
    vectors = torch.tensor([[1.0, 2.0]], requires_grad=True)
    dots = edge_dots(vectors, vectors, many)
    dots.sum().backward()
    assert dots.tolist() == [5.0] * 5
    assert vectors.grad.tolist() == [[10.0, 20.0]]


def test_gradients_pass_gradcheck_on_an_awkward_graph() -> None:
    graph = AWKWARD
    logits, left = randn(graph.n_edges).requires_grad_(), randn(3, D, seed=1).requires_grad_()
    right = randn(5, D, seed=2).requires_grad_()
    assert gradcheck(lambda x: segment_softmax(x, graph), logits)
    assert gradcheck(lambda w, v: weighted_sum(w, v, graph), (logits, right))
    assert gradcheck(lambda a, b: edge_dots(a, b, graph), (left, right))
    for how in ("mean", "sum"):
        assert gradcheck(lambda v, how=how: pool(v, graph, how), right)
    assert gradcheck(
        lambda x, v: weighted_sum(segment_softmax(x, graph), v, graph), (logits, right)
    )


# Edges that do not count.


@given(graphs(), st.integers(0, 2**16))
@settings(deadline=None)
def test_a_softmax_over_kept_edges_is_that_of_a_graph_without_the_others(
    graph: Adjacency, seed: int
) -> None:
    kept = randn(graph.n_edges, seed=seed) > 0
    logits = (5 * randn(graph.n_edges)).requires_grad_()
    weights = segment_softmax(logits, graph, kept)
    assert not weights[~kept].any()
    expected = segment_softmax(logits[kept], graph.keep_edges(kept.nonzero()[:, 0]))
    torch.testing.assert_close(weights[kept], expected)
    toward = randn(graph.n_edges, seed=1)
    (found,) = torch.autograd.grad(weights, logits, toward)
    (right,) = torch.autograd.grad(expected, logits, toward[kept])
    torch.testing.assert_close(found, right)
    assert not found[~kept].any()


@given(graphs(), st.sampled_from(["mean", "sum"]), st.integers(0, 2**16))
@settings(deadline=None)
def test_pooling_over_kept_edges_is_that_of_a_graph_without_the_others(
    graph: Adjacency, how: str, seed: int
) -> None:
    kept = randn(graph.n_edges, seed=seed) > 0
    values = randn(graph.n_columns, D).requires_grad_()
    pooled = pool(values, graph, how, kept)
    expected = pool(values, graph.keep_edges(kept.nonzero()[:, 0]), how)
    torch.testing.assert_close(pooled, expected)
    toward = randn(graph.n_rows, D, seed=1)
    (found,) = torch.autograd.grad(pooled, values, toward)
    torch.testing.assert_close(found, torch.autograd.grad(expected, values, toward)[0])


def test_a_hidden_edge_has_no_say_however_large_its_logit() -> None:
    logits = torch.tensor([1e4, 0, 0, -1e4, -1e4, 1e4], requires_grad=True)
    kept = torch.tensor([False, True, True, True, True, False])
    weights = segment_softmax(logits, AWKWARD, kept)
    assert weights.tolist() == [0, 0.5, 0.5, 0.5, 0.5, 0]
    (found,) = torch.autograd.grad(weights[[1, 3]].sum(), logits)
    assert found.isfinite().all()


def test_a_row_whose_every_edge_is_hidden_reads_nothing() -> None:
    logits, kept = randn(6).requires_grad_(), torch.tensor([False, False, False, True, True, True])
    values = randn(5, D, seed=1).requires_grad_()
    made = weighted_sum(segment_softmax(logits, AWKWARD, kept), values, AWKWARD)
    made = made + pool(values, AWKWARD, "mean", kept)
    assert not made[:2].any()
    assert made[2].all()
    gradients = torch.autograd.grad(made, (logits, values), randn(3, D, seed=2))
    assert all(gradient.isfinite().all() for gradient in gradients)
    assert not gradients[0][:3].any()
    assert not gradients[1][1].any()  # read by nobody else


def test_row_norm_is_a_layer_normalisation() -> None:
    rows = (3 + 2 * randn(6, 8)).requires_grad_()
    reference = torch.nn.LayerNorm(8, elementwise_affine=False, dtype=torch.float64)
    torch.testing.assert_close(RowNorm()(rows), reference(rows))
    assert gradcheck(RowNorm(), rows)


def test_row_norm_leaves_nothing_as_nothing() -> None:
    rows = torch.zeros(2, 4, requires_grad=True)
    normed = RowNorm()(rows)
    normed.sum().backward()
    assert not normed.any()
    assert rows.grad.isfinite().all()


def test_attention_equals_torch_geometric() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch_geometric.utils import scatter, softmax
    graph = random_graph(50, 400)
    logits, values = randn(400).requires_grad_(), randn(50, 8, seed=1).requires_grad_()
    ours = weighted_sum(segment_softmax(logits, graph), values, graph)
    weights = softmax(logits, graph.rows, num_nodes=50)
    messages = weights[:, None] * values[graph.columns]
    theirs = scatter(messages, graph.rows, dim_size=50, reduce="sum")
    torch.testing.assert_close(ours, theirs)
    toward = randn(50, 8, seed=2)
    found = torch.autograd.grad(ours, (logits, values), toward)
    torch.testing.assert_close(found, torch.autograd.grad(theirs, (logits, values), toward))


@needs_cuda
@pytest.mark.parametrize("graph", [AWKWARD, random_graph(300, 5000)], ids=["awkward", "random"])
def test_cuda_equals_cpu(graph: Adjacency) -> None:
    logits, values = randn(graph.n_edges).float(), randn(graph.n_columns, 16, seed=1).float()
    queries, toward = randn(graph.n_rows, 16, seed=2).float(), randn(graph.n_rows, 16, seed=3)

    def run(device: str) -> list[Tensor]:
        there = graph.to(device)
        inputs = [x.to(device).requires_grad_() for x in (logits, values, queries)]
        x, v, q = inputs
        attended = weighted_sum(segment_softmax(x + edge_dots(q, v, there), there), v, there)
        pooled = [pool(v, there, how) for how in ("mean", "sum")]
        loss = ((RowNorm()(attended) + sum(pooled)) * toward.float().to(device)).sum()
        return [y.cpu() for y in (attended, *pooled, *torch.autograd.grad(loss, inputs))]

    for there, here in zip(run("cuda"), run("cpu"), strict=True):
        torch.testing.assert_close(there, here, rtol=1e-4, atol=1e-4)


def test_attention_never_holds_a_vector_for_every_edge() -> None:
    """400,000 edges × 256 dimensions would be 400 MB; the peak may not grow by a quarter of it."""
    script = dedent("""
        import resource
        import numpy as np, torch
        from decentrl.graph.adjacency import Adjacency
        from decentrl.nn.dan import NeighbourAttention
        from decentrl.nn.aggregate import edge_dots, pool

        torch.set_num_threads(1)
        torch.manual_seed(0)
        attention = NeighbourAttention(256)

        def step(n, n_edges):
            ends = np.random.default_rng(0).integers(0, n, (2, n_edges))
            graph = Adjacency.from_pairs(*ends, n, n)
            keys = torch.randn(n, 256, requires_grad=True)
            for how in ("mean", "sum"):
                pool(keys, graph, how).sum().backward()
            attention(keys, keys, graph).square().sum().backward()
            edge_dots(keys, keys, graph).sum().backward()

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        step(10, 100)  # whatever torch loads on first use
        before = peak()
        step(2000, 400_000)
        print(peak() - before)
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 100 * 1024  # kilobytes
