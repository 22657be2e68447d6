"""Σ x[u] ⊙ w[ρ] over edges on a CPU: ours beside other ways to do it.

    DECENTRL_DATA=... python benchmarks/relation_sum.py [--dataset fb15k-237] [--width 512]

Forward only, all in one process on the same graph, taking turns; the ratio is what counts on a
noisy machine. ``chunks`` gathers the products of some edges and adds them up by index; ``columns``
sums groups first as ours does, some columns of all entities at a time; ``compiled`` is a loop in
C++, where there is a compiler.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.data.graph_task import GraphTask
from decentrl.data.registry import load_task
from decentrl.graph.messages import Messages
from decentrl.nn.relation_sum import relation_sum

SOURCE = """
#include <torch/extension.h>
#include <ATen/Parallel.h>
torch::Tensor sum(torch::Tensor x, torch::Tensor w, torch::Tensor ends, torch::Tensor columns,
                  torch::Tensor relations) {
  int64_t n = ends.size(0) - 1, width = x.size(1);
  auto out = torch::zeros({n, width});
  const float *X = x.data_ptr<float>(), *W = w.data_ptr<float>();
  const int64_t *E = ends.data_ptr<int64_t>(), *C = columns.data_ptr<int64_t>(),
                *R = relations.data_ptr<int64_t>();
  float *O = out.data_ptr<float>();
  at::parallel_for(0, n, 16, [&](int64_t begin, int64_t end) {
    for (int64_t v = begin; v < end; v++)
      for (int64_t e = E[v]; e < E[v + 1]; e++) {
        const float *from = X + C[e] * width, *by = W + R[e] * width;
        for (int64_t k = 0; k < width; k++) O[v * width + k] += from[k] * by[k];
      }
  });
  return out;
}
"""
Way = Callable[[Tensor, Tensor, Messages], Tensor]


def chunks(x: Tensor, w: Tensor, graph: Messages) -> Tensor:
    out, size = torch.zeros(graph.sizes[0], x.shape[1]), max(1, 2**20 // x.shape[1])
    for rows, relations, columns in zip(
        *(torch.split(part, size) for part in graph.edges), strict=True
    ):
        out.index_add_(0, rows, x.index_select(0, columns).mul_(w.index_select(0, relations)))
    return out


def columns(x: Tensor, w: Tensor, graph: Messages) -> Tensor:
    out = []
    for some, weights in zip(x.split(256, 1), w.split(256, 1), strict=True):
        sums = F.embedding_bag(
            graph.sources.columns, some.contiguous(), graph.sources.indptr, mode="sum",
            include_last_offset=True,
        )  # fmt: skip
        sums *= weights.contiguous()[graph.groups.columns]
        every = torch.arange(len(sums))
        out.append(
            F.embedding_bag(every, sums, graph.groups.indptr, mode="sum", include_last_offset=True)
        )
    return torch.cat(out, 1)


def compiled() -> Way | None:
    try:
        from torch.utils.cpp_extension import load_inline

        module = load_inline(
            "relation_sum_loop", [SOURCE], functions=["sum"],
            extra_cflags=["-O3", "-march=native", "-fopenmp"],
        )  # fmt: skip
    except (ImportError, OSError, RuntimeError):
        return None

    def way(x: Tensor, w: Tensor, graph: Messages) -> Tensor:
        ends = graph.sources.indptr[graph.groups.indptr]
        _, relations, sources = graph.edges
        made: Tensor = module.sum(x, w, ends, sources, relations)
        return made

    return way


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="fb15k-237")
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    graph = load_task(GraphTask, options.dataset).graph
    messages = Messages.of_triples(graph.triples, len(graph.entities), len(graph.relations))
    x = torch.randn(len(graph.entities), options.width)
    w = torch.randn(2 * len(graph.relations), options.width)
    ways: dict[str, Way] = {"ours": relation_sum, "columns": columns, "chunks": chunks}
    if loop := compiled():
        ways["compiled"] = loop
    expected, taken = relation_sum(x, w, messages), dict[str, list[float]]()
    for _ in range(options.repeats):
        for name, way in ways.items():
            started = time.process_time()
            found = way(x, w, messages)
            taken.setdefault(name, []).append(time.process_time() - started)
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-2)
    groups = len(messages.groups.columns)
    print(f"{options.dataset}: {messages.sources.n_edges:,} edges in {groups:,} groups, "
          f"width {options.width}, {torch.get_num_threads()} threads")  # fmt: skip
    for name, seconds in taken.items():
        print(f"{name:8}  {1e3 * median(seconds):7.0f} ms of CPU")


if __name__ == "__main__":
    main()
