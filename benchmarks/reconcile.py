"""Entities in no graph, described by their neighbours alone, and reconciled.

Some left entities of test links of `world` are taken out of the left graph before training, with
all their triples. Then each is asked about over the reconciliation API, by its triples as
properties and without its name: is its counterpart among the first five?

    PYTHONPATH=. python benchmarks/reconcile.py [--run FOLDER] [--entities 200] [--preset strong]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import urllib.parse
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.serving import served
from decentrl import Aligner
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.registry import load_task

MOST = 50
"""Queries in a request."""


def without(task: AlignmentTask, held_out: Any) -> AlignmentTask:
    """The task without the left triples of some left entities; their links are not there either.

    The entities stay in the list of labels, without a triple, a name, an attribute or a link.
    """
    left = task.left
    apart = np.isin(left.triples[:, [0, 2]], held_out).any(axis=1)
    places = np.arange(len(left.entities))
    places[held_out] = -1
    kept = replace(
        left.with_triples(left.triples[~apart]),
        names=left.names.moved(places),
        attributes=left.attributes.moved(places),
    )
    return replace(task, left=kept, test=task.test[~np.isin(task.test[:, 0], held_out)])


def queries(task: AlignmentTask, held_out: Any) -> dict[str, Any]:
    """A query for each entity: its triples with neighbours that are in the graph."""
    left, gone = task.left, set(held_out.tolist())
    found: dict[str, Any] = {}
    for entity in held_out.tolist():
        rows = left.triples[(left.triples[:, [0, 2]] == entity).any(axis=1)].tolist()
        properties = []
        for h, r, t in rows:
            other = t if h == entity else h
            if other in gone:
                continue
            pid = left.relations[r] if h == entity else f"^{left.relations[r]}"
            properties.append({"pid": pid, "v": {"id": left.entities[other]}})
        found[str(entity)] = {"query": "", "properties": properties, "limit": 5}
    return found


def ask(address: str, batch: dict[str, Any]) -> dict[str, Any]:
    """What the service answers."""
    body = urllib.parse.urlencode({"queries": json.dumps(batch)}).encode()
    with urllib.request.urlopen(f"{address}reconcile", body, timeout=120) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, help="keep the run there, or use the one that is there")
    parser.add_argument("--entities", type=int, default=200)
    parser.add_argument("--preset", default="strong")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    task = load_task(AlignmentTask, "world", False)
    rng = np.random.default_rng(args.seed)
    links = task.test[rng.permutation(len(task.test))]
    # What has no neighbour but others that are held out cannot be described: it stays in the graph.
    some = links[: args.entities + args.entities // 4]
    described = queries(task, some[:, 0])
    chosen = some[[bool(x["properties"]) for x in described.values()]][: args.entities]
    batch = queries(task, chosen[:, 0])
    mean = np.mean([len(query["properties"]) for query in batch.values()])
    print(f"entities in no graph: {len(batch)}, properties of each: {mean:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        run = args.run or Path(folder) / "run"
        if not (run / "bundle").exists():
            aligner = Aligner.from_preset(args.preset, *args.set, seed=args.seed)
            aligner.fit(without(task, chosen[:, 0])).save(run)
        ranks, sure = {}, 0
        right = {str(left): task.right.entities[r] for left, r in chosen.tolist()}
        with served(run) as service:
            keys = list(batch)
            for start in range(0, len(keys), MOST):
                part = {key: batch[key] for key in keys[start : start + MOST]}
                for key, answer in ask(service.address, part).items():
                    ids = [x["id"] for x in answer["result"]]
                    ranks[key] = ids.index(right[key]) + 1 if right[key] in ids else 0
                    sure += ranks[key] == 1 and answer["result"][0]["match"]
    n = len(batch)
    for k in (1, 5):
        found = sum(0 < rank <= k for rank in ranks.values())
        print(f"right counterpart among the first {k}: {found} of {n} ({found / n:.1%})")
    print(f"first and said to match: {sure} of {n}")


if __name__ == "__main__":
    main()
