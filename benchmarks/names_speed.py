"""What a million names cost: reading them, cutting them into pieces, and making vectors of them.

    python benchmarks/names_speed.py [--names 1000000] [--links 5000] [--width 512]

Half of the names are on either side, two to four made-up words each; the right one of a pair has a
letter changed. Peak memory is that of the whole process.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from decentrl.config import Config
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.growth.alignment_state import merged_graphs
from decentrl.views.text import NameView


def made_up(n: int, rng: np.random.Generator) -> list[str]:
    """Names of words of syllables; some words are in many names, most in few."""
    syllables = [a + b for a in "bcdfghklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "or")]
    parts = rng.choice(syllables, size=(n // 4 + 1, 3))
    words = np.array(["".join(x) for x in parts.tolist()])
    chosen = (rng.pareto(1.0, size=(n, 4)) * 20).astype(np.int64) % len(words)
    lengths = rng.integers(2, 5, n)
    rows = words[chosen].tolist()
    return [" ".join(row[:k]) for row, k in zip(rows, lengths.tolist(), strict=True)]


def misspelt(name: str, at: int) -> str:
    at %= len(name)
    return f"{name[:at]}x{name[at + 1 :]}"


def write(folder: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    names = made_up(count, rng)
    others = map(misspelt, names, rng.integers(0, 1 << 30, count).tolist())
    for side, some in (("left", names), ("right", others)):
        with (folder / f"{side}.tsv").open("w") as file:
            file.writelines(f"{side}{i}\tr\t{side}{(i + 1) % count}\n" for i in range(count))
        with (folder / f"{side}-names.tsv").open("w") as file:
            file.writelines(f"{side}{i}\t{name}\n" for i, name in enumerate(some))


def timed(what: str, work: Callable[[], Any]) -> Any:
    started = time.perf_counter()
    found = work()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{what:<44} {time.perf_counter() - started:6.1f} s, peak so far {peak / 1e9:.2f} GB")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", type=int, default=1_000_000)
    parser.add_argument("--links", type=int, default=5000)
    parser.add_argument("--width", type=int, default=512)
    options = parser.parse_args()
    count = options.names // 2
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write(folder, count)
        graphs = [KnowledgeGraph.read(folder / f"{side}.tsv") for side in ("left", "right")]
        names = [folder / f"{side}-names.tsv" for side in ("left", "right")]
        print(f"{2 * count:,} names, {options.links:,} links, width {options.width}")
        started = time.perf_counter()
        left, right = timed(
            "read the names",
            lambda: [graph.with_names(x) for graph, x in zip(graphs, names, strict=True)],
        )
        rng = np.random.default_rng(1)
        ids = rng.permutation(count)[: options.links]
        links = np.stack((ids, ids), axis=1)
        task = AlignmentTask("names", left, right, links, links[:0], links[:0])
        graph, _ = timed("cut them into pieces", lambda: merged_graphs(task, True))
        view = NameView(Config.from_preset("quick", (f"names.width={options.width}",
                                                     "names.translation=0.5")))  # fmt: skip
        read = view.read(graph, graph, torch.device("cpu"))
        ends = torch.from_numpy(links + np.array([0, count]))
        vectors = timed("make vectors", lambda: view.encode(read, ends).vectors)
        print(f"together {time.perf_counter() - started:.1f} s")
        asked = torch.from_numpy(rng.permutation(count)[:1000])
        found = torch.cat(
            [(some @ vectors[count:].t()).argmax(1) for some in vectors[asked].split(50)]
        )
        print(f"1,000 names find their misspelt one first: {(found == asked).float().mean():.3f}")


if __name__ == "__main__":
    main()
