"""Makes the golden bundles of today's format version: ``python tests/golden/make.py``.

Each is a small run with what a bundle can hold (an open world, a confidence), beside what it must
answer for ever. Bundles that are there already are left alone: they are of the version that their
name says, and only the decentrl of that time can write them. Blocks are small, so that small files
have many.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from decentrl.aligner import Aligner
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.predictor import Predictor
from decentrl.storage import mapped
from decentrl.storage.bundle import VERSION

HERE = Path(__file__).parent
SIZE = 12
QUESTIONS = [
    ("e00", "next", None),
    ("é03", "over", None),
    (None, "next", "é11"),
    ("new", "over", None),
]


def triples(side: str) -> list[tuple[str, str, str]]:
    """A ring with chords of twelve entities, some of them not in ASCII."""
    names = [f"{side}{'é' if i % 4 == 3 else 'e'}{i:02}" for i in range(SIZE)]
    ring = [(names[i], f"{side}next", names[(i + 1) % SIZE]) for i in range(SIZE)]
    return ring + [(names[i], f"{side}over", names[(i * 5 + 3) % SIZE]) for i in range(0, SIZE, 2)]


def aligner() -> Aligner:
    left, right = (
        KnowledgeGraph.from_labels(*zip(*triples(side), strict=True)) for side in ("l/", "r/")
    )
    links = np.stack([np.arange(SIZE)] * 2, axis=1)
    # The last entity of each side is new: its triples arrive after training.
    known, later = [], []
    for graph in (left, right):
        new = (graph.triples[:, [0, 2]] == SIZE - 1).any(axis=1)
        known.append(graph.with_triples(graph.triples[~new]))
        later.append(graph.triples[new])
    test = links[8:]
    task = AlignmentTask(
        "rings", known[0], known[1], links[:5], links[5:8], test,
        (later[0], later[1]), test[:, 0] == SIZE - 1,
    )  # fmt: skip
    settings = ("model.dim=4", "training.epochs=3", "training.validate_every=1")
    made = Aligner.from_preset("tiny", *settings, device="cpu").fit(task)
    # Since version 2 a bundle can hold what new entities read, and entities that were added.
    made.add([("l/new", "l/next", "l/e00"), ("l/e02", "l/over", "l/new")], side="left")
    return made


def predictor() -> Predictor:
    settings = ("model.dim=4", "training.epochs=3", "training.batch=8", "training.validate_every=1")
    graph = KnowledgeGraph.from_labels(*zip(*triples(""), strict=True))
    made = Predictor.from_preset("quick", *settings, device="cpu").fit(graph, valid=0.2, test=0.1)
    made.add([("new", "next", "e00"), ("e02", "over", "new")])
    return made


def aligner_answers(loaded: Aligner) -> dict[str, Any]:
    """Vectors and matches of an aligner, as JSON has them."""
    sides: tuple[Any, ...] = ("left", "right")
    names = {side: list(getattr(loaded.task, side).entities) for side in sides}
    return {
        "labels": names,
        "vectors": {side: loaded.embed(names[side], side).tolist() for side in sides},
        "matches": {side: loaded.match(top=2, side=side).to_pylist() for side in sides},
    }


def predictor_answers(loaded: Predictor) -> dict[str, Any]:
    """Vectors and answers of a predictor, as JSON has them."""
    return {
        "labels": list(loaded.task.graph.entities),
        "vectors": loaded.vectors().tolist(),
        "answers": [
            loaded.predict(head=head, relation=relation, tail=tail, top=3).to_pylist()
            for head, relation, tail in QUESTIONS
        ],
    }


def main() -> None:
    mapped.BLOCK = 256
    kinds: dict[str, tuple[Callable[[], Any], Callable[[Any], dict[str, Any]]]] = {
        "aligner": (aligner, aligner_answers),
        "predictor": (predictor, predictor_answers),
    }
    for name, (train, answers) in kinds.items():
        folder = HERE / f"{name}-v{VERSION}"
        if not folder.exists():
            run = train()
            run.save(folder)
            text = json.dumps(answers(run), ensure_ascii=False, indent=1)
            (folder / "expected.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
