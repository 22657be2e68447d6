"""An explanation names the neighbours that a vector is made of, by how much they count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from decentrl.aligner import Aligner
from decentrl.errors import UnknownLabelError
from decentrl.predictor import Predictor

SMALL = ("training.epochs=3", "training.valid=0.0", "training.batch=16", "model.dim=8")
ALIGNERS = {
    "strong": ("strong", "propagation.dim=8", "propagation.relation_dim=3"),
    "propagate": ("propagate", "propagation.dim=8", "propagation.relation_dim=3"),
    "two hops": ("tiny",),
    "one hop": ("tiny", "model.hops=one"),
}


@pytest.fixture(scope="module", params=ALIGNERS)
def aligner(request: pytest.FixtureRequest, twin_files: dict[str, Path]) -> Aligner:
    files = [twin_files[name] for name in ("left", "right", "links")]
    return Aligner.from_preset(*ALIGNERS[request.param], *SMALL, device="cpu").fit(*files)


@pytest.mark.parametrize("side", ["left", "right"])
def test_weights_sum_to_one_and_name_every_triple(aligner: Aligner, side: str) -> None:
    graph = aligner.task.left if side == "left" else aligner.task.right
    for entity in graph.entities.take(range(0, 40, 7)):
        reasons = aligner.explain(entity, side=side)  # type: ignore[arg-type]
        assert sum(reason.weight for reason in reasons) == pytest.approx(1)
        assert min(reason.weight for reason in reasons) >= 0
        total: dict[str, float] = {}
        for reason in reasons:
            total[reason.neighbour] = total.get(reason.neighbour, 0) + reason.weight
        weights = list(total.values())
        assert weights == sorted(weights, reverse=True)
        own, names = graph.entities.id(entity), graph.entities
        expected = {
            (
                names[int(t if h == own else h)],
                graph.relations[int(r)],
                "head" if h == own else "tail",
            )
            for h, r, t in graph.triples
            if own in (h, t) and h != t
        }
        direct = {(r.neighbour, r.relation, r.role) for r in reasons if r.relation}
        assert direct == expected


def test_removing_the_weightiest_neighbour_mostly_moves_the_vector_more_than_the_last() -> None:
    aligner = Aligner.from_preset(
        "quick", "model.dim=32", "propagation.dim=64", "training.epochs=20", device="cpu"
    ).fit(_world())
    rng, more, shifts = np.random.default_rng(0), 0, []
    entities = aligner.task.left.entities
    asked = entities.take(rng.permutation(len(entities))[:60])
    for entity in asked:
        reasons = aligner.explain(entity, moved=1)
        moves = {r.neighbour: r.moves for r in reasons if r.moves is not None}
        if len(moves) == 2:
            first, last = moves.values()
            more += first > last
            shifts.append((first, last))
    assert len(shifts) > 30
    assert more / len(shifts) > 0.75
    firsts, lasts = zip(*shifts, strict=True)
    assert np.mean(firsts) > 1.3 * np.mean(lasts)


def _world() -> object:
    from decentrl import load_dataset

    return load_dataset("world")


def test_what_arrived_is_told_apart(aligner: Aligner) -> None:
    left, relation = aligner.task.left.entities, aligner.task.left.relations[0]
    aligner.add([("new", relation, left[3]), (left[5], relation, "new")], side="left")
    reasons = aligner.explain("new")
    assert {(r.neighbour, r.role) for r in reasons if r.relation} >= {
        (left[3], "head"),
        (left[5], "tail"),
    }
    assert all(r.arrived for r in reasons if r.relation)
    assert next(r.arrived for r in aligner.explain(left[3]) if r.neighbour == "new")
    with pytest.raises(UnknownLabelError):
        aligner.explain("nobody at all")


def test_a_predictor_explains_itself_too(people_run: Path) -> None:
    predictor = Predictor.load(people_run, device="cpu")
    reasons = predictor.explain("person 0")
    assert sum(reason.weight for reason in reasons) == pytest.approx(1)
    assert any(reason.relation == "lives in" for reason in reasons)
    assert reasons[0].moves is not None
    assert reasons[0].moves > 0
