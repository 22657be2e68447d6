"""Sums over edges of x[u] ⊙ w[ρ] equal dense float64 algebra both ways, and stay small."""

from __future__ import annotations

import os
import subprocess
import sys
from textwrap import dedent
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from decentrl.graph.messages import Messages
from decentrl.nn import relation_sum as module
from decentrl.nn.relation_sum import Ways, relation_sum

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
N, R, D = 6, 3, 4


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def random_messages(n: int, r: int, size: int, seed: int = 0) -> Messages:
    rng = np.random.default_rng(seed)
    some = np.stack((rng.integers(0, n, size), rng.integers(0, r, size), rng.integers(0, n, size)))
    return Messages.of_triples(np.unique(some.T, axis=0), n, r)


def one_way(graph: Messages) -> Messages:
    """Part of the edges, so that the transpose has to be sorted."""
    rows, relations, columns = graph.edges
    chosen = relations < graph.sizes[1] // 2
    return Messages.of_edges(rows[chosen], relations[chosen], columns[chosen], graph.sizes)


def dense(x: Tensor, w: Tensor, graph: Messages) -> Tensor:
    """The same by a tensor [n_rows, n_relations, n_columns] of counts."""
    counts = torch.zeros(graph.sizes, dtype=x.dtype)
    counts.index_put_(graph.edges, torch.ones(len(graph.edges[0]), dtype=x.dtype), accumulate=True)
    return torch.einsum("vru,ud,rd->vd", counts, x, w)


graphs = st.builds(random_messages, st.just(N), st.just(R), st.integers(0, 40), st.integers(0, 99))


@settings(deadline=None)  # a first call may wait for its threads
@given(graphs, st.booleans(), st.sampled_from([1, 2 * D, 10**6]))
def test_sums_and_gradients_are_the_dense_ones(graph: Messages, part: bool, cells: int) -> None:
    graph = one_way(graph) if part else graph
    x, w, g = randn(N, D, seed=1), randn(2 * R, D, seed=2), randn(N, D, seed=3)
    found, expected = [], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CELLS", cells)
        for function, into in ((relation_sum, found), (dense, expected)):
            leaves = x.clone().requires_grad_(), w.clone().requires_grad_()
            made = function(*leaves, graph)
            into += [made.detach(), *torch.autograd.grad((made * g).sum(), leaves)]
    for mine, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("part", [False, True])
def test_gradcheck(part: bool) -> None:
    graph = random_messages(4, 2, 9)
    graph = one_way(graph) if part else graph
    inputs = randn(4, 3).requires_grad_(), randn(4, 3, seed=1).requires_grad_()
    assert gradcheck(lambda x, w: relation_sum(x, w, graph), inputs)
    assert gradcheck(lambda x: relation_sum(x, inputs[1].detach(), graph), inputs[:1])


def test_an_entity_without_an_edge_gets_nothing() -> None:
    graph = Messages.of_triples(np.array([(0, 0, 2)]), 4, 1)
    made = relation_sum(randn(4, 2), randn(2, 2), graph)
    assert made[[1, 3]].eq(0).all()
    assert made[[0, 2]].ne(0).all()
    none = Messages.of_triples(np.empty((0, 3), np.int64), 4, 1)
    assert relation_sum(randn(4, 2), randn(2, 2), none).eq(0).all()


def test_a_hub_of_100_000_edges_is_summed_like_all_others() -> None:
    n = 100_000
    rng = np.random.default_rng(0)
    some = np.stack((np.arange(1, n + 1), rng.integers(0, 3, n), np.zeros(n, np.int64)), 1)
    graph = Messages.of_triples(some, n + 1, 3)
    x, w = randn(n + 1, 2).requires_grad_(), randn(6, 2, seed=1).requires_grad_()
    made = relation_sum(x, w, graph)
    kinds = torch.from_numpy(some[:, 1])
    torch.testing.assert_close(made[0], (x[1:] * w[kinds]).sum(0))
    torch.testing.assert_close(made[1:], x[0] * w[kinds + 3])
    torch.autograd.grad(made.sum(), (x, w))


def test_the_same_bits_every_time() -> None:
    graph = random_messages(300, 5, 4000)
    found = []
    for _ in range(3):
        leaves = randn(300, 32).float().requires_grad_(), randn(10, 32).float().requires_grad_()
        made = relation_sum(*leaves, graph)
        found.append([made, *torch.autograd.grad(made.square().sum(), leaves)])
    for mine, theirs in zip(found[0], found[1], strict=True):
        assert torch.equal(mine, theirs)


def test_memory_is_that_of_a_block_not_of_all_edges() -> None:
    """Half a million edges of width 512 would take a gigabyte; what is made takes 60 MB."""
    script = """
        import resource, numpy as np, torch
        from decentrl.graph.messages import Messages
        from decentrl.nn.relation_sum import Ways, relation_sum
        rng = np.random.default_rng(0)
        n, width = 3000, 512
        some = np.stack([rng.integers(0, k, 260_000) for k in (n, 100, n)], 1)
        graph = Messages.of_triples(np.unique(some, axis=0), n, 100)
        x, w = torch.randn(n, width).requires_grad_(), torch.randn(200, width).requires_grad_()
        graph.transposed, graph.edges
        relation_sum(x[:, :8], w[:, :8], graph).sum().backward()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        relation_sum(x, w, graph).sum().backward()
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(script)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 150


@needs_cuda
def test_a_card_gives_the_same() -> None:
    graph = random_messages(200, 5, 3000)
    moved = Messages.of_triples(np.empty((0, 3), np.int64), 200, 5, "cuda")
    rows, relations, columns = (x.cuda() for x in graph.edges)
    moved = Messages.of_edges(rows, relations, columns, graph.sizes, graph.back.cuda())  # type: ignore[union-attr]
    found = []
    for device, messages in (("cpu", graph), ("cuda", moved)):
        x = randn(200, 64).float().to(device).requires_grad_()
        w = randn(10, 64, seed=1).float().to(device).requires_grad_()
        made = relation_sum(x, w, messages)
        found.append([y.cpu() for y in (made, *torch.autograd.grad(made.sin().sum(), (x, w)))])
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(theirs, mine, rtol=1e-4, atol=1e-4)


# Kernels in Triton. Where there is no CUDA these are skipped; with Triton installed they can be
# run by its interpreter, which says whether the sums are right, not whether they compile.


@needs_cuda
def test_kernels_for_cuda_are_right_there() -> None:
    from decentrl.nn import triton_sum

    kernels = Ways(triton_sum.summed, triton_sum.by_relation)
    assert module.agree(kernels, torch.device("cuda"))
    assert module._kernels(torch.device("cuda", 0)) != module.TORCH


def test_kernels_are_right_by_the_interpreter() -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    code = """
        import torch
        from decentrl.nn import triton_sum
        from decentrl.nn.relation_sum import Ways, agree
        kernels = Ways(triton_sum.summed, triton_sum.by_relation)
        print(agree(kernels, torch.device("cpu")))
    """
    told = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", dedent(code)], env=told, capture_output=True, text=True, check=False
    )
    assert done.stdout == "True\n", done.stderr


def test_kernels_that_are_wrong_are_not_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fake, cpu = ModuleType("decentrl.nn.triton_sum"), torch.device("cpu")
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    monkeypatch.setattr("decentrl.nn.triton_sum", fake, raising=False)
    module._kernels.cache_clear()
    try:
        vars(fake).update(summed=lambda *x: 1.1 * module.summed(*x), by_relation=module.by_relation)
        assert module._kernels(cpu) == module.TORCH
        assert "give other sums than torch on cpu: not used" in caplog.text
        vars(fake).update(summed=lambda *x: module.summed(*x))
        module._kernels.cache_clear()
        assert module._kernels(cpu).summed is fake.summed
        del fake.summed  # as where Triton is missing, or raises
        module._kernels.cache_clear()
        assert module._kernels(cpu) == module.TORCH
    finally:
        module._kernels.cache_clear()
