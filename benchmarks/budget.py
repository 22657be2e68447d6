"""Do ranking and matching keep to the memory they are given?

    python -m benchmarks.budget [--entities 12000] [--memory 0.7GB 1.5GB 4GB]

For each size of memory a process of its own ranks half as many links among each other and among all
entities by three matchers in both directions, and matches everything, on random vectors. Prints the
peak of its resident memory, the interpreter and torch included, and what share it is of what was
given.
"""

from __future__ import annotations

import argparse
import os
import sys

from benchmarks.size import measure
from decentrl.config.memory import VARIABLE, size_of

WORK = """
import sys
import torch
from torch.nn.functional import normalize
from decentrl.config import Config
from decentrl.evaluation.links import evaluate_links
from decentrl.matching.clustered import nearest_pairs
from decentrl.matching.matches import best_pairs
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import LARGE_KEEP
n = int(sys.argv[1])
chance = torch.Generator().manual_seed(0)
left = normalize(torch.randn(n, 64, generator=chance))
right = normalize(left + 0.1 * torch.randn(n, 64, generator=chance))
links = torch.arange(n // 2).repeat(2, 1).T
config = Config.from_preset("quick").matching
print(evaluate_links(left, right, links, config)[0][0]["hits@1"])
cosine = Scores.cosine(left, right)
kept = cosine.kept is not None
best_pairs(cosine if kept else nearest_pairs(cosine, LARGE_KEEP), "blend", config)
print("kept" if kept else "in blocks")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, default=12_000, help="of each side")
    parser.add_argument("--memory", nargs="+", default=["0.7GB", "1.5GB", "6GB"])
    given = parser.parse_args()
    for text in given.memory:
        size = size_of(text)
        os.environ[VARIABLE] = str(size / 2**30)
        said, found = measure([sys.executable, "-c", WORK, str(given.entities)])
        print(
            f"{text}: peak {found['GB']:.2f} GB, {found['GB'] * 1e9 / size:.0%} of it; "
            f"{found['cpu']:.1f} CPU seconds; scores of everything {said.split()[-1]}",
            flush=True,
        )


if __name__ == "__main__":
    main()
