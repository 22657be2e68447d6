"""Names and attributes of additions: there at once, kept, taken back, and in any order."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from decentrl.aligner import Aligner
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.literals import Literals
from decentrl.errors import BundleError, InputError
from decentrl.predictor import Predictor
from decentrl.storage.additions import Store

Twins = dict[str, list[tuple[str, ...]]]
LEFT = "http://left.org/"
NEW = [(f"{LEFT}new {i}", f"{LEFT}r{i % 3}", f"{LEFT}{i}") for i in range(6)]
NAMES = [
    (f"{LEFT}new 0", "Zero", "en"),
    (f"{LEFT}new 0", "Null", "de"),
    (f"{LEFT}new 1", "One <b>", ""),
    (f"{LEFT}3", "Three again", "fr"),
    (f"{LEFT}new 5", "חמש", "he"),
    (f"{LEFT}elsewhere", "Else", "en"),
]


@pytest.fixture(scope="module")
def trained(twins: Twins, tmp_path_factory: pytest.TempPathFactory) -> Path:
    left = KnowledgeGraph.read(twins["left"]).with_names([(f"{LEFT}3", "Three", "en")])
    task = AlignmentTask.read(left, twins["right"], twins["links"])
    run = tmp_path_factory.mktemp("trained")
    few = ("model.dim=6", "propagation.dim=8", "propagation.relation_dim=3", "training.epochs=2")
    Aligner.from_preset("strong", *few, device="cpu").fit(task).save(run)
    return run


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "run")


def open_run(run: Path, durable: bool = False) -> Aligner:
    return Aligner.load(run, device="cpu", durable=durable)


def known(model: Any) -> dict[str, list[tuple[str, str]]]:
    """Every name by the label of its entity."""
    graph = next(iter(model.growing.sides.values()))
    found = {label: graph.names.of(i) for i, label in enumerate(graph.entities)}
    return {label: names for label, names in found.items() if names}


WHOLE = {
    f"{LEFT}3": [("Three", "en"), ("Three again", "fr")],
    f"{LEFT}new 0": [("Zero", "en"), ("Null", "de")],
    f"{LEFT}new 1": [("One <b>", "")],
    f"{LEFT}new 5": [("חמש", "he")],
}


def test_names_are_there_at_once_and_in_the_next_process(run: Path) -> None:
    with open_run(run, durable=True) as model:
        addition = model.add(NEW, side="left", names=NAMES)
        assert addition.facts["names"] == 5
        assert known(model) == WHOLE
    reader = open_run(run)
    assert known(reader) == WHOLE
    assert known(Aligner.load(run, device="cpu")) == WHOLE
    assert reader.task.left.names.to_arrow().equals(reader.growing.sides["left"].names.to_arrow())


@pytest.mark.parametrize("seed", range(3))
def test_neither_order_nor_pieces_matter(run: Path, seed: int) -> None:
    rng = random.Random(seed)
    model = open_run(run)
    for row in rng.sample(NEW, len(NEW)):
        model.add([row], side="left", names=NAMES)
    assert known(model) == WHOLE
    whole = open_run(run)
    whole.add(NEW, side="left", names=NAMES)
    mine, other = (x.growing.sides["left"] for x in (model, whole))
    places = mine.entities.ids(other.entities)
    assert torch.allclose(mine.vectors[places], other.vectors, atol=1e-5)


def test_a_name_may_come_after_its_entity(run: Path) -> None:
    model = open_run(run)
    model.add(NEW, side="left")
    assert model.add(NEW[:1], side="left", names=NAMES).facts["known"] == 1
    assert known(model)[f"{LEFT}new 0"] == WHOLE[f"{LEFT}new 0"]


def test_undo_takes_names_back_and_a_reader_sees_it(run: Path) -> None:
    with open_run(run, durable=True) as model:
        model.add(NEW[:2], side="left", names=NAMES)
        reader = open_run(run)
        model.add(NEW[2:], side="left", names=NAMES)
        assert reader.sync() == 1
        assert known(reader) == known(model) == WHOLE
        model.undo()
        assert f"{LEFT}new 5" not in known(model)
        model.undo()
        assert known(model) == {f"{LEFT}3": [("Three", "en")]}


@pytest.mark.parametrize("fold", ["compact", "refresh"])
def test_names_become_part_of_the_bundle(run: Path, fold: str) -> None:
    with open_run(run, durable=True) as model:
        model.add(NEW, side="left", names=NAMES)
        getattr(model, fold)()
        assert known(model) == WHOLE
        assert model.settled_task().left.names.to_arrow().equals(model.task.left.names.to_arrow())
    assert known(open_run(run)) == WHOLE


def test_a_failed_addition_leaves_no_names(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = open_run(run, durable=True)

    def fail(*_: Any) -> None:
        raise OSError("no room")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "add", fail)
        with pytest.raises(OSError, match="no room"):
            model.add(NEW, side="left", names=NAMES)
    assert known(model) == {f"{LEFT}3": [("Three", "en")]}
    model.close()


def test_names_can_be_made_of_identifiers(run: Path) -> None:
    model = open_run(run)
    model.add(NEW[:1], side="left", names="ids")
    assert known(model) == {f"{LEFT}3": [("Three", "en")], f"{LEFT}new 0": [("new 0", "")]}
    model.add(NEW[1:2], side="left", names="none")
    assert f"{LEFT}new 1" not in known(model)


def test_names_alone_cannot_be_added(run: Path) -> None:
    with pytest.raises(InputError, match="names alone cannot be added; give triples"):
        open_run(run).add([], side="left", names=NAMES)


def test_rdf_additions_bring_their_literals(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    file = tmp_path / "more.ttl"
    file.write_text(
        f'<{LEFT}n> <{LEFT}r0> <{LEFT}3> ; <http://schema.org/name> "N"@en ; <{LEFT}age> 7 .',
        "utf-8",
    )
    with open_run(run, durable=True) as model:
        facts = model.add(file, side="left").facts
    assert (facts["names"], facts["attributes"], facts["literals"]) == (1, 1, 0)
    graph = open_run(run).task.left
    new = graph.entities.id(f"{LEFT}n")
    assert graph.names.of(new) == [("N", "en")]
    assert graph.attributes.of(new) == [(f"{LEFT}age", "7", "number")]


def test_a_predictor_takes_names_too(people_run: Path) -> None:
    model = Predictor.load(people_run, device="cpu")
    model.add([("person x", "knows", "person 1")], names=[("person x", "Xenia", "")])
    assert known(model) == {"person x": [("Xenia", "")]}


def test_names_that_no_run_writes_are_an_error(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = KnowledgeGraph.read(NEW).with_names([(NEW[0][0], "A")]).names
    object.__setattr__(bad, "entities", np.array([10**6]))
    from decentrl.storage.addition import Growth

    check: Callable[..., None] = Growth.check
    with open_run(run, durable=True) as model, monkeypatch.context() as patch:
        patch.setattr(Growth, "check", lambda *_: None)
        patch.setattr("decentrl.growth.arriving._literals", lambda *_: Literals(bad))
        model.add(NEW, side="left")
    assert Growth.check is check
    with pytest.raises(BundleError, match=r"store\.sqlite: damaged .*has an id that is none"):
        open_run(run)


def test_a_graph_in_memory_brings_its_names_and_attributes(run: Path) -> None:
    graph = KnowledgeGraph.read(NEW).with_names([x for x in NAMES if "elsewhere" not in x[0]])
    graph = graph.with_attributes([(f"{LEFT}new 5", "size", "7")])
    model = open_run(run)
    facts = model.add(graph, side="left").facts
    assert (facts["names"], facts["attributes"]) == (5, 1)
    assert known(model) == WHOLE
    once = open_run(run)
    once.add(NEW, side="left", names=NAMES)
    assert torch.equal(model.growing.sides["left"].vectors, once.growing.sides["left"].vectors)
    model.undo()
    model.add(graph, side="left", names="none")
    assert f"{LEFT}new 5" not in known(model)
