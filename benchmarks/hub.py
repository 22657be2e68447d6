"""Does the cost of an addition grow with how many there were around the same entity?

    python benchmarks/hub.py [--additions 2000] [--new-hub] [--entities 1000]

Trains on a generated pair (preset ``tiny``), then adds entities one by one in memory, each by one
triple to the same entity: the one of the most triples, or with ``--new-hub`` one that came after
training. Prints the milliseconds of an addition for each quarter; equal ones mean linear growth.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from decentrl import Aligner, AlignmentTask, KnowledgeGraph
from decentrl.data.generator import Shape, generate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--additions", type=int, default=2000)
    parser.add_argument("--new-hub", action="store_true")
    parser.add_argument("--entities", type=int, default=1000, help="of each side")
    given = parser.parse_args()
    world = generate(Shape(given.entities, batches=0))
    graphs = [
        KnowledgeGraph.from_labels(*(map(str, x.tolist()) for x in side.triples.T))
        for side in (world.left, world.right)
    ]
    links = [(str(i), str(j)) for i, j in world.links[: given.entities // 5].tolist()]
    aligner = Aligner.from_preset("tiny").fit(AlignmentTask.read(*graphs, links))
    left = world.left.triples
    hub = str(np.bincount(left[:, [0, 2]].ravel()).argmax())
    relation = str(left[0, 1])
    if given.new_hub:
        aligner.add([("hub", relation, hub)], side="left")
        hub = "hub"
    for quarter in range(4):
        started = time.process_time()
        for i in range(given.additions // 4):
            aligner.add([(f"new-{quarter}-{i}", relation, hub)], side="left")
        seconds = time.process_time() - started
        print(f"quarter {quarter + 1}: {4000 * seconds / given.additions:.2f} ms", flush=True)


if __name__ == "__main__":
    main()
