"""What narrower vectors cost: metrics of a finished run with its vectors exported by --dim.

python benchmarks/narrow.py RUN --dims 1024 512 256 128
"""

from __future__ import annotations

import argparse
import time

import torch

from decentrl import Aligner
from decentrl.evaluation.links import evaluate_links
from decentrl.storage.export import Part
from decentrl.storage.narrow import narrowed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--dims", type=int, nargs="+", default=[1024, 512, 256, 128])
    asked = parser.parse_args()
    aligner = Aligner.load(asked.run, "cpu")
    sides = [aligner.vectors(side) for side in ("left", "right")]
    parts = [Part([""] * len(x), x.numpy()) for x in sides]
    test = torch.from_numpy(aligner.task.test)
    width, count = sides[0].shape[1], sum(map(len, sides))
    print(f"{aligner.task.name}, {aligner.config.preset}, {len(test):,} test links, left to right")
    print("| numbers | MB of float32 | Hits@1 cosine | CSLS | Sinkhorn | seconds |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: |")
    for dim in (width, *(x for x in asked.dims if x < width)):
        began = time.perf_counter()
        some = parts if dim == width else narrowed(parts, dim)
        took = time.perf_counter() - began
        left, right = (
            torch.nn.functional.normalize(torch.as_tensor(part.vectors)) for part in some
        )
        rows, _ = evaluate_links(left, right, test, aligner.config.matching, candidates=("test",))
        found = {x["matcher"]: x["hits@1"] for x in rows if x["direction"] == "left-right"}
        cells = " | ".join(f"{found[x]:.4f}" for x in ("cosine", "csls", "sinkhorn"))
        print(f"| {dim:,} | {4e-6 * dim * count:.1f} | {cells} | {took:.1f} |", flush=True)


if __name__ == "__main__":
    main()
