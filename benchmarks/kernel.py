"""Softmax-weighted aggregation, forward and backward: ours beside PyTorch Geometric's.

    DECENTRL_DATA=... python benchmarks/kernel.py [--dataset dbp15k/zh-en] [--dim 128]

Both run in one process on the same graph, values and gradient, taking turns; the ratio is what
counts on a noisy machine. Runs on CUDA where there is one.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from statistics import median

import numpy as np
import torch
from torch import Tensor

from decentrl import AlignmentTask, load_dataset
from decentrl.graph.adjacency import Adjacency, neighbours
from decentrl.nn.aggregate import segment_softmax, weighted_sum

Kernel = Callable[[Tensor, Tensor, Adjacency], Tensor]


def ours(logits: Tensor, values: Tensor, graph: Adjacency) -> Tensor:
    return weighted_sum(segment_softmax(logits, graph), values, graph)


def pyg(logits: Tensor, values: Tensor, graph: Adjacency) -> Tensor:
    from torch_geometric.utils import scatter, softmax

    weights = softmax(logits, graph.rows, num_nodes=graph.n_rows)
    messages = weights[:, None] * values[graph.columns]
    return scatter(messages, graph.rows, dim=0, dim_size=graph.n_rows, reduce="sum")


def once(kernel: Kernel, logits: Tensor, values: Tensor, graph: Adjacency) -> tuple[float, Tensor]:
    logits.grad = values.grad = None
    if values.is_cuda:
        torch.cuda.synchronize()
    started = time.perf_counter()
    result = kernel(logits, values, graph)
    result.backward(values.detach())
    if values.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - started, result.detach()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="dbp15k/zh-en")
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"

    task = load_dataset(options.dataset)
    assert isinstance(task, AlignmentTask)
    n = len(task.left.entities) + len(task.right.entities)
    shift = np.array([len(task.left.entities), 0, len(task.left.entities)])
    graph = neighbours(np.concatenate((task.left.triples, task.right.triples + shift)), n)
    graph = graph.to(device)
    torch.manual_seed(0)
    logits = torch.randn(graph.n_edges, device=device, requires_grad=True)
    values = torch.randn(n, options.dim, device=device, requires_grad=True)

    seconds: dict[str, list[float]] = {"ours": [], "pyg": []}
    results = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for turn in range(options.rounds + 1):
            for name, kernel in (("ours", ours), ("pyg", pyg)):
                elapsed, results[name] = once(kernel, logits, values, graph)
                if turn:  # the first turn warms up
                    seconds[name].append(elapsed)
    torch.testing.assert_close(results["ours"], results["pyg"], rtol=1e-3, atol=1e-4)
    mine, theirs = median(seconds["ours"]), median(seconds["pyg"])
    print(
        f"{device}, {graph.n_edges:,} edges, {n:,} nodes, d={options.dim}, median of "
        f"{options.rounds}: ours {1e3 * mine:.1f} ms, PyG {1e3 * theirs:.1f} ms, "
        f"{theirs / mine:.1f} times faster"
    )


if __name__ == "__main__":
    main()
