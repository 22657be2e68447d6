"""Nearest entities and approximate indexes: new entities are found at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from decentrl.aligner import Aligner
from decentrl.errors import ConfigError, InputError, NotFittedError, UnknownLabelError
from decentrl.growth import neighbours
from decentrl.growth.growing_model import GrowingModel
from decentrl.predictor import Predictor
from decentrl.storage.index import FaissIndex

KNOWN, R0, R1 = "http://left.org/3", "http://left.org/r0", "http://left.org/r1"
NEW = [("new", R0, KNOWN), ("new", R1, "http://left.org/5")]


@pytest.fixture(scope="module")
def aligned(twin_files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run; nobody writes to it."""
    aligner = Aligner.from_preset("propagate", "propagation.dim=8", device="cpu")
    aligner.fit(*(twin_files[name] for name in ("left", "right", "links")))
    run = tmp_path_factory.mktemp("runs") / "aligned"
    aligner.save(run)
    return run


@pytest.fixture(scope="module", autouse=True)
def one_round() -> Iterator[None]:
    """Seeds travel one round, so that what relations carry reaches no island."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("decentrl.config.alignment.Propagation.rounds", 1)
        yield


@pytest.fixture
def run(aligned: Path, tmp_path: Path) -> Path:
    import shutil

    return Path(shutil.copytree(aligned, tmp_path / "run"))


def cosines(own: Any, others: Any) -> Any:
    own, others = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (own, others))
    return (own @ others.T)[0]


@pytest.mark.parametrize("ann", [False, True])
@pytest.mark.parametrize("among", ["left", "right"])
def test_the_nearest_come_first_and_the_entity_itself_not_at_all(
    run: Path, among: Any, ann: bool
) -> None:
    aligner = Aligner.load(run, "cpu")
    table = aligner.neighbours(KNOWN, among=among, top=100, ann=ann)
    names = [name for name in getattr(aligner.task, among).entities if name != KNOWN]
    expected = cosines(aligner.embed([KNOWN]), aligner.embed(names, among))
    order = np.argsort(-expected, kind="stable")
    assert table["cosine"].to_pylist() == pytest.approx(expected[order].tolist(), abs=1e-6)
    assert set(table["entity"].to_pylist()) == set(names)
    assert table["rank"].to_pylist() == list(range(1, len(names) + 1))
    assert aligner.neighbours(KNOWN, among=among, top=3, ann=ann).equals(table.slice(0, 3))


@pytest.mark.parametrize("ann", [False, True])
def test_a_predictors_vectors_are_compared_by_direction_alone(people_file: Path, ann: bool) -> None:
    settings = ("model.dim=8", "decoder.normalise=false", "training.epochs=1")
    predictor = Predictor.from_preset("paper", *settings, device="cpu").fit(people_file)
    names = [name for name in predictor.task.graph.entities if name != "person 1"]
    vectors = predictor.embed(names)
    assert np.linalg.norm(vectors, axis=1).min() > 2, "choose a model of other lengths than 1"
    table = predictor.neighbours("person 1", top=5, ann=ann)
    expected = np.sort(cosines(predictor.embed(["person 1"]), vectors))[::-1][:5]
    assert table["cosine"].to_pylist() == pytest.approx(expected.tolist(), abs=1e-5)


@pytest.mark.parametrize("ann", [False, True])
def test_new_entities_ask_and_are_answers_at_once(run: Path, ann: bool) -> None:
    aligner = Aligner.load(run, "cpu")
    before = aligner.neighbours(KNOWN, top=100, ann=ann)
    aligner.add(NEW, side="left")
    found = aligner.neighbours(KNOWN, top=100, ann=ann)
    assert set(found["entity"].to_pylist()) == {"new", *before["entity"].to_pylist()}
    (nearest,) = aligner.neighbours("new", top=1, ann=ann).to_pylist()
    row = next(row for row in found.to_pylist() if row["entity"] == "new")
    # Its row is made anew by more triples, and the index follows.
    aligner.add([("new", R0, "http://left.org/9")], side="left")
    after = aligner.neighbours(KNOWN, top=100, ann=ann).to_pylist()
    moved = next(row for row in after if row["entity"] == "new")
    assert moved["cosine"] != pytest.approx(row["cosine"], abs=1e-6)
    aligner.undo()
    assert aligner.neighbours("new", top=1, ann=ann).to_pylist() == [nearest]
    aligner.undo()
    assert aligner.neighbours(KNOWN, top=100, ann=ann).equals(before)


def test_who_has_no_vector_cannot_be_compared(run: Path) -> None:
    aligner = Aligner.load(run, "cpu")
    n = len(aligner.neighbours(KNOWN, top=100))
    aligner.add([("island", R0, "rock")], side="left")
    with pytest.raises(InputError, match="nothing known reaches 'island', so it has no vector; "):
        aligner.neighbours("island")
    assert len(aligner.neighbours(KNOWN, top=100)) == n


def test_wrong_questions_are_told(run: Path) -> None:
    aligner = Aligner.load(run, "cpu")
    with pytest.raises(UnknownLabelError, match="'nobody' is unknown"):
        aligner.neighbours("nobody")
    with pytest.raises(ConfigError, match="top is 0; it must be at least 1"):
        aligner.neighbours(KNOWN, top=0)
    with pytest.raises(ConfigError, match="no side 'middle'"):
        aligner.neighbours(KNOWN, among="middle")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="give the graph that the triples belong to"):
        aligner.add(NEW)
    with pytest.raises(NotFittedError, match="learned nothing yet"):
        Aligner.from_preset("tiny", device="cpu").neighbours(KNOWN)


def test_one_graph_has_neither_sides_nor_links(people_run: Path) -> None:
    predictor = Predictor.load(people_run, device="cpu")
    for ask in (predictor.neighbours, predictor.explain):
        with pytest.raises(ConfigError, match="no side 'left'; there is one graph"):
            ask("person 0", side="left")
    with pytest.raises(ConfigError, match="this run is about prediction; it has no links"):
        predictor.refit(links="links.tsv")


# Indexes on disk


def index(model: GrowingModel) -> FaissIndex:
    return model.indexes.faiss("left")


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stamps of the indexes that were built."""
    made: list[str] = []
    build = FaissIndex.build

    def count(*args: Any, **options: Any) -> FaissIndex:
        made.append(options.get("stamp", ""))
        return build(*args, **options)

    monkeypatch.setattr(FaissIndex, "build", count)
    return made


def test_an_index_is_built_once_and_follows_what_is_added(run: Path, builds: list[str]) -> None:
    Aligner.load(run, "cpu", durable=True).close()  # the bundle gets what new entities need
    n = len(index(Aligner.load(run, "cpu")))
    assert (run / "store" / "index-left.safetensors").is_file()
    with Aligner.load(run, "cpu", durable=True) as writer:
        writer.add(NEW, side="left")
        assert len(index(writer)) == n + 1
        # The one in the file is before the addition.
        again = Aligner.load(run, "cpu")
        assert len(index(again)) == n + 1
        assert again.neighbours("new", ann=True).equals(writer.neighbours("new", ann=True))
    assert len(builds) == 1


def test_an_index_of_other_vectors_is_built_anew(run: Path, builds: list[str]) -> None:
    with Aligner.load(run, "cpu", durable=True) as writer:
        writer.add(NEW, side="left")
        index(writer)
        writer.undo()  # what the file has in it is no more
        other = Aligner.load(run, "cpu")
        assert len(index(other)) == len(other.task.left.entities)
        assert len(builds) == 2
        writer.add(NEW, side="left")
        writer.refresh()
        assert len(index(writer)) == len(other.task.left.entities) + 1
    assert len(set(builds)) == len(builds) == 3


def test_a_damaged_index_or_none_to_be_written_is_no_obstacle(
    run: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    index(Aligner.load(run, "cpu"))
    (run / "store" / "index-left.safetensors").write_bytes(b"nonsense" * 9)
    index(Aligner.load(run, "cpu"))
    assert len(builds) == 2

    def refuse(*_: object) -> None:
        raise OSError("could not open for writing")

    monkeypatch.setattr(FaissIndex, "save", refuse)
    (run / "store" / "index-left.safetensors").unlink()
    assert len(index(Aligner.load(run, "cpu")))
    bundle = Aligner.load(run / "bundle", "cpu")
    assert len(index(bundle)) == len(index(bundle)) > 0
    assert len(builds) == 4


def test_what_two_states_differ_in() -> None:
    from decentrl.storage.addition import Growth

    def growth(side: str, first: int, n: int, *ids: int) -> Growth:
        rows = torch.zeros(len(ids), 2).numpy()
        none = np.empty((0, 3), np.int64)
        return Growth(side, none, [str(i) for i in range(n)], first, np.array(ids, np.int64), rows)

    a, b, c = growth("left", 5, 2, 5, 6), growth("left", 7, 0, 5), growth("right", 3, 1, 3)
    assert neighbours.changed_entities([], [], "left").tolist() == []
    assert neighbours.changed_entities([a], [a], "left").tolist() == []
    assert neighbours.changed_entities([a], [a, b, c], "left").tolist() == [5]
    assert neighbours.changed_entities([a, c], [b], "left").tolist() == [5, 6]
    assert neighbours.changed_entities([a, c], [b], "right").tolist() == [3]
