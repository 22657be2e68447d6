"""One query among many vectors: how long it takes exactly and with FAISS, and what FAISS misses.

    python benchmarks/nearest.py [--sizes 10000 100000 500000] [--dim 256]

Three kinds of vectors of length 1. `clustered`: around one centre for every 100 vectors, with noise
of the same length as the centre, so that cosines within a cluster are about 0.5; queries are
further points of the clusters. `noisy`: noise of 1.5 times the length, cosines of about 0.3.
`gaussian`: no structure at all, the worst case of an index by lists. Recall@10 is the share of the
ten exact neighbours that FAISS finds with the probes it chose itself; `MB` is the size of the index
in a file, which has no vectors; in memory there is a copy of them. The exact index takes nothing
beside the vectors.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from decentrl.storage.index import ExactIndex, FaissIndex


def clustered(n: int, dim: int, queries: int, noise: float = 1.0) -> tuple[Tensor, Tensor]:
    """Vectors [n, dim] and queries [queries, dim]."""
    centres = torch.nn.functional.normalize(torch.randn(max(1, n // 100), dim))

    def points(count: int) -> Tensor:
        made = torch.randn(count, dim).mul_(noise * dim**-0.5)
        made += centres[torch.randint(len(centres), (count,))]
        return torch.nn.functional.normalize(made, out=made)

    return points(n), points(queries)


def noisy(n: int, dim: int, queries: int) -> tuple[Tensor, Tensor]:
    return clustered(n, dim, queries, noise=1.5)


def gaussian(n: int, dim: int, queries: int) -> tuple[Tensor, Tensor]:
    made = torch.nn.functional.normalize(torch.randn(n + queries, dim))
    return made[:n], made[n:]


def latency(index: ExactIndex | FaissIndex, queries: Tensor) -> tuple[float, float, Tensor]:
    """Milliseconds, median and 95th percentile, and what was found [q, 10]."""
    times, found = [], []
    index.search(queries[:1], 10)
    for query in queries:
        started = time.perf_counter()
        found.append(index.search(query[None], 10)[1])
        times.append(1000 * (time.perf_counter() - started))
    return median(times), quantiles(times, n=20)[-1], torch.cat(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 500_000])
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--queries", type=int, default=200)
    options = parser.parse_args()
    print("| vectors | kind | index | median ms | p95 ms | recall@10 | build s | load s | MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for make in (clustered, noisy, gaussian):
        for n in options.sizes:
            torch.manual_seed(0)
            vectors, queries = make(n, options.dim, options.queries)
            row = f"| {n:,} | {make.__name__} |"
            middle, slow, truth = latency(ExactIndex(vectors), queries)
            print(f"{row} exact | {middle:.1f} | {slow:.1f} | 1 | | | 0 |", flush=True)
            started = time.perf_counter()
            index = FaissIndex.build(vectors)
            built = time.perf_counter() - started
            with TemporaryDirectory() as folder:
                index.save(Path(folder) / "index")
                size = (Path(folder) / "index").stat().st_size / 2**20
                started = time.perf_counter()
                FaissIndex.load(Path(folder) / "index", vectors, [""])
                loaded = time.perf_counter() - started
            middle, slow, found = latency(index, queries)
            recall = (truth[:, :, None] == found[:, None, :]).any(2).float().mean().item()
            print(
                f"{row} FAISS, {index.probes} of {index.lists} lists | {middle:.1f} | {slow:.1f} "
                f"| {recall:.3f} | {built:.1f} | {loaded:.1f} | {size:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
