"""Do the neighbours that `explain` puts first matter more than those it puts last?

    python benchmarks/explain.py RUN [--side left] [--entities 200]

Of random entities with several neighbours: how far the vector moves without the weightiest
neighbour and without the last one.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from decentrl import Aligner, Predictor
from decentrl.storage.bundle import open_bundle


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--side", choices=("left", "right"), default="left")
    parser.add_argument("--entities", type=int, default=200)
    options = parser.parse_args()
    aligner = open_bundle(options.run).kind.name == "aligner"
    model: Any = (Aligner if aligner else Predictor).load(options.run, device="cpu")
    where = {"side": options.side} if aligner else {}
    names = model.growing.sides[options.side if aligner else ""].entities
    order = np.random.default_rng(0).permutation(len(names))
    pairs, sums = [], []
    for entity in names.take(order):
        reasons = model.explain(entity, moved=1, **where)
        moves = {r.neighbour: r.moves for r in reasons if r.moves is not None}
        if len(moves) == 2:
            pairs.append(tuple(moves.values()))
            sums.append(sum(reason.weight for reason in reasons))
        if len(pairs) == options.entities:
            break
    first, last = np.array(pairs).T
    print(f"{len(pairs)} entities: the vector moves {first.mean():.4f} without the weightiest "
          f"neighbour, {last.mean():.4f} without the last (1 - cos, means); it moves further "
          f"without the weightiest for {np.mean(first > last):.1%}")  # fmt: skip
    print(f"sums of weights: {min(sums):.6f} to {max(sums):.6f}")


if __name__ == "__main__":
    main()
