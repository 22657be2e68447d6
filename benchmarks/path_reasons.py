"""Does a score depend on the paths that explain it?

    python benchmarks/path_reasons.py RUN [--answers 200] [--seed 0]

RUN is a run of `decentrl complete --preset paths`. For test triples (h, r, t), in random order, the
edges of the best path of `decentrl explain` are taken out of the graph, and in their place as many
others at random that end at an entity of the path. Prints in how many cases the score of t falls
more without the path.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch

from decentrl import Predictor
from decentrl.errors import DecentRLError
from decentrl.graph.messages import Hiding, Messages
from decentrl.scorers.reasons import Path as Reason


def score(predictor: Predictor, graph: Messages, h: int, r: int, t: int) -> float:
    scores = predictor.learned.model.scores(graph, torch.tensor([h]), torch.tensor([r]))
    return float(scores[0, t])


def without(graph: Messages, edges: list[tuple[int, int, int]]) -> Messages:
    """The graph without some edges u –(r)→ v and their reciprocals."""
    u, r, v = np.array(edges, np.int64).T
    return graph.keep(Hiding(graph, "triple").kept(u, r, v))


def others(graph: Messages, path: Reason, rng: np.random.Generator) -> list[tuple[int, int, int]]:
    """As many edges that end at entities of the path and are not on it."""
    rows, relations, columns = (x.numpy() for x in graph.edges)
    on_path = {end for u, _, v in path.edges for end in (u, v)}
    near = np.flatnonzero(np.isin(rows, list(on_path)))
    found: list[tuple[int, int, int]] = []
    for i in rng.permutation(near).tolist():
        edge = int(columns[i]), int(relations[i]), int(rows[i])
        turned = edge[2], (edge[1] + graph.sizes[1] // 2) % graph.sizes[1], edge[0]
        if edge not in path.edges and turned not in path.edges:
            found.append(edge)
        if len(found) == len(path.edges):
            break
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--answers", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    predictor, rng = Predictor.load(options.run, "cpu"), np.random.default_rng(options.seed)
    model, graph = predictor.learned.model, predictor._completion.ground
    more = tried = none = 0
    for h, r, t in rng.permutation(predictor.task.test).tolist():
        if tried == options.answers:
            break
        paths = model.reasons(graph, h, r, t, 1)
        random = others(graph, paths[0], rng) if paths else []
        if not random:
            none += 1
            continue
        before = score(predictor, graph, h, r, t)
        falls = [
            before - score(predictor, without(graph, list(edges)), h, r, t)
            for edges in (paths[0].edges, random)
        ]
        tried += 1
        more += falls[0] > falls[1]
    print(f"the score falls more without the best path in {more} of {tried} cases")
    print(f"without a path, or without other edges around it: {none} test triples, left out")


if __name__ == "__main__":
    try:
        main()
    except DecentRLError as error:
        sys.exit(f"error: {error}")
