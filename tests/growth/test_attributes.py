"""Values of attributes tell entities apart, also new ones, and models keep how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from decentrl.aligner import Aligner
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.errors import InputError
from decentrl.views.text import PAIRS, VALUES

N, KNOWN = 60, 40
FEW = ("model.dim=6", "propagation.dim=8", "propagation.relation_dim=3", "training.epochs=1")


def side(name: str, size: str, born: str, scale: float) -> tuple[list[Any], list[Any], list[Any]]:
    """Triples that say little, one name for all, and values that are like those of the twin."""
    rng = np.random.default_rng(0)
    sizes, days = rng.integers(10**3, 10**7, N), rng.integers(0, 40_000, N)
    triples = [(f"{name}{i}", "next", f"{name}{(i + 1) % N}") for i in range(N)]
    names = [(f"{name}{i}", "Thing") for i in range(N)]
    values = [(f"{name}{i}", size, str(int(sizes[i] * scale))) for i in range(N)]
    values += [
        (f"{name}{i}", born, str(np.datetime64("1900-01-01") + int(days[i]))) for i in range(N)
    ]
    return triples, names, values


def graph(parts: tuple[list[Any], ...], rows: slice = slice(None)) -> KnowledgeGraph:
    triples, names, values = parts
    read = KnowledgeGraph.read(triples[rows]).with_names(names)
    return read.with_attributes(values)


LEFT = side("l", "size", "born", 1.0)
RIGHT = side("r", "population", "birthday", 1.004)
LINKS = [(f"l{i}", f"r{i}") for i in range(KNOWN)]


def task(left: KnowledgeGraph, right: KnowledgeGraph) -> AlignmentTask:
    pairs = [(f"l{i}", f"r{i}") for i in range(KNOWN, N)]
    known = [x for x in pairs if x[0] in left.entities and x[1] in right.entities]
    return AlignmentTask.read(left, right, LINKS, test_links=known)


def fitted(*changes: str) -> Aligner:
    model = Aligner.from_preset("strong", *FEW, "names.weight=0.9", *changes, device="cpu")
    return model.fit(task(graph(LEFT), graph(RIGHT)))


def hits(model: Aligner) -> float:
    rows = model.evaluate(candidates=("all",)).rows
    return float(np.mean([row["hits@1"] for row in rows if row["matcher"] == "cosine"]))


@pytest.fixture(scope="module")
def trained() -> Aligner:
    return fitted()


def test_values_find_what_names_cannot(trained: Aligner) -> None:
    assert hits(trained) == 1.0
    model = Aligner.from_preset("strong", *FEW, "names.weight=0.9", device="cpu")
    bare = [graph(parts).with_attributes("none") for parts in (LEFT, RIGHT)]
    assert hits(model.fit(task(*bare))) < 0.5


def test_values_alone_are_enough() -> None:
    model = Aligner.from_preset("strong", *FEW, "names.weight=0.9", device="cpu")
    bare = [graph(parts).with_names("none") for parts in (LEFT, RIGHT)]
    assert hits(model.fit(task(*bare))) == 1.0


def test_validation_links_weigh_values_too() -> None:
    model = fitted("names.weight=-1", "training.valid=0.25")
    assert model.learned.config.names.weight > 0.3
    assert hits(model) == 1.0


def test_without_any_name_there_is_nothing_to_start_from() -> None:
    left, right = (graph(parts).with_names("none") for parts in (LEFT, RIGHT))
    with pytest.raises(InputError, match="no two names are alike enough"):
        Aligner.from_preset("strong", *FEW, device="cpu").fit(task(left, right).without_links())


def test_names_of_a_start_without_links_show_which_attributes_are_alike() -> None:
    """Half of the entities have a name of their own, the others are found by their values."""
    parts = []
    for triples, names, values in (LEFT, RIGHT):
        own = [(x, f"name {int(x[1:]) ** 3}" if int(x[1:]) < N // 2 else y) for x, y in names]
        parts.append(graph((triples, own, values)))
    model = Aligner.from_preset("strong", *FEW, device="cpu").fit(task(*parts).without_links())
    assert hits(model) == 1.0


NEW = f"l{N - 1}"


def newcomer(tmp_path: Path) -> Path:
    """An RDF file of the one entity that training has not seen."""
    pytest.importorskip("pyoxigraph")
    _, _, values = LEFT
    date = "http://www.w3.org/2001/XMLSchema#date"
    lines = [f"<l:{NEW}> <x:next> <l:l0> ."]
    for entity, attribute, value in values:
        if entity == NEW:
            kind = f"^^<{date}>" if "-" in value else ""
            lines.append(f'<l:{NEW}> <x:{attribute}> "{value}"{kind} .')
    file = tmp_path / "more.nt"
    file.write_text("\n".join(lines), "utf-8")
    return file


def grown_run(tmp_path: Path) -> Path:
    """A run that has not seen the last left entity, as RDF would call all."""
    triples, names, values = LEFT
    label = "l:{}".format
    triples = [(label(h), "x:next", label(t)) for h, _, t in triples if NEW not in (h, t)]
    names = [(label(x), y) for x, y in names if x != NEW]
    values = [(label(x), f"x:{a}", y) for x, a, y in values if x != NEW]
    left = graph((triples, names, values))
    links = [(label(a), b) for a, b in LINKS]
    model = Aligner.from_preset("strong", *FEW, "names.weight=0.9", device="cpu")
    model.fit(AlignmentTask.read(left, graph(RIGHT), links)).save(tmp_path / "run")
    return tmp_path / "run"


def test_newcomers_have_values_too(tmp_path: Path) -> None:
    run, file = grown_run(tmp_path), newcomer(tmp_path)
    with Aligner.load(run, device="cpu", durable=True) as model:
        assert model.add(file, side="left").facts["attributes"] == 2
        assert model.match([f"l:{NEW}"])["right"].to_pylist() == [f"r{N - 1}"]
        vector = model.growing.sides["left"].vectors[-1].clone()
    again = Aligner.load(run, device="cpu")
    assert torch.equal(again.growing.sides["left"].vectors[-1], vector)


def test_values_may_come_after_their_entity(tmp_path: Path) -> None:
    run, file = grown_run(tmp_path), newcomer(tmp_path)
    once = Aligner.load(run, device="cpu")
    once.add(file, side="left")
    late = Aligner.load(run, device="cpu")
    late.add([(f"l:{NEW}", "x:next", "l:l0")], side="left")
    before = late.growing.sides["left"].vectors[-1].clone()
    late.add(file, side="left")
    vectors = [x.growing.sides["left"].vectors[-1] for x in (once, late)]
    assert torch.allclose(*vectors, atol=1e-6)
    assert not torch.allclose(before, vectors[0], atol=1e-2)


def test_a_bundle_keeps_pairs_and_refuses_impossible_ones(trained: Aligner) -> None:
    shared = dict(trained.learned.shared)
    assert shared[PAIRS].shape == (2, 2)
    assert int((shared[VALUES] > 0).sum()) > N
    view = trained.learned.newcomers().frozen.names
    view.check(shared)
    for name, wrong in (
        (PAIRS, shared[PAIRS][:, :1]),
        (PAIRS, shared[PAIRS].float()),
        (VALUES, shared[VALUES][:-1]),
    ):
        with pytest.raises(ValueError, match=f"{name} is missing, or of another shape"):
            view.check({**shared, name: wrong})
    del shared[VALUES]
    with pytest.raises(ValueError, match=f"{VALUES} is missing"):
        view.check(shared)
