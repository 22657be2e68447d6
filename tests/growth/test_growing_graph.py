"""Graphs that grow: what was trained stays, what is new has vectors at once, in any order."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.aligner import Aligner
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.registry import load_dataset
from decentrl.errors import BundleError, ConfigError, DecentRLWarning, InputError, UnknownLabelError
from decentrl.growth.growing_model import GrowingModel
from decentrl.predictor import Predictor

Rows = list[tuple[str, str, str]]
FEW = ("training.epochs=3", "training.valid=0.0", "training.batch=16")
ALIGNERS = {
    "strong": ("strong", "model.dim=6", "propagation.dim=8", "propagation.relation_dim=3",
               "loss.entities=16"),
    "not induced": ("strong", "model.dim=6", "propagation.weight=0", "distillation.induce=false"),
    "self-trained": ("strong", "model.dim=6", "propagation.dim=8", "propagation.relation_dim=3",
                     "self_training.rounds=1", "self_training.mass=0.05"),
    "propagate": ("propagate", "propagation.dim=8", "propagation.relation_dim=3"),
    "dan": ("tiny", "model.dim=8", "model.hops=one"),
    "two hops": ("tiny", "model.dim=8"),
}  # fmt: skip
PREDICTORS = {
    "paper": ("paper", "model.dim=8"),
    "strong": ("strong", "model.dim=8", "decoder.dim=8"),
    "table": ("paper-code", "model.dim=8"),
    "none": ("quick", "model.encoder=none", "model.dim=8", "decoder.dim=8"),
}
LATER = {f"http://left.org/{i}" for i in range(30, 40)}


@pytest.fixture(scope="module")
def split(twins: dict[str, list[tuple[str, ...]]]) -> tuple[AlignmentTask, Rows]:
    """A task without ten of the left entities, and the triples about these."""
    rows: Rows = [(h, r, t) for h, r, t in twins["left"]]
    later = [row for row in rows if {row[0], row[2]} & LATER]
    known = [row for row in rows if not {row[0], row[2]} & LATER]
    left = KnowledgeGraph.from_labels(*zip(*known, strict=True))
    right = KnowledgeGraph.from_labels(*zip(*twins["right"], strict=True))
    links = [(a, b) for a, b in twins["links"] if a not in LATER]
    pairs = np.array([(left.entities.id(a), right.entities.id(b)) for a, b in links])
    none = pairs[:0]
    return AlignmentTask("twins", left, right, pairs, none, none), later


@pytest.fixture(scope="module")
def people_split(people: Rows) -> tuple[KnowledgeGraph, Rows]:
    """A graph without some people and a city, and the triples about these."""
    new = {"city 7", *(f"person {i}" for i in range(24, 32))}
    later = [row for row in people if {row[0], row[2]} & new]
    known = [row for row in people if not {row[0], row[2]} & new]
    return KnowledgeGraph.from_labels(*zip(*known, strict=True)), later


@pytest.fixture(scope="module")
def trained(
    split: tuple[AlignmentTask, Rows],
    people_split: tuple[KnowledgeGraph, Rows],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], Path]:
    """The run of a model; nobody writes to it."""
    folder, done = tmp_path_factory.mktemp("trained"), {}

    def run(name: str) -> Path:
        if name not in done:
            job, _, which = name.partition(" ")
            if job == "align":
                few = FEW[1:2] if which == "propagate" else FEW
                model = Aligner.from_preset(*ALIGNERS[which], *few, device="cpu").fit(split[0])
            else:
                few = ("training.epochs=2",)
                model = Predictor.from_preset(*PREDICTORS[which], *few, device="cpu")
                model.fit(people_split[0])
            model.save(folder / name)
            done[name] = folder / name
        return done[name]

    return run


NAMES = [*(f"align {name}" for name in ALIGNERS), *(f"complete {name}" for name in PREDICTORS)]
each = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module")
def later(
    split: tuple[AlignmentTask, Rows], people_split: tuple[KnowledgeGraph, Rows]
) -> Callable[[str], Rows]:
    return lambda name: split[1] if name.startswith("align") else people_split[1]


def load(run: Path, durable: bool = False) -> GrowingModel:
    kind = Aligner if run.name.startswith("align") else Predictor
    return kind.load(run, device="cpu", durable=durable)


def add(model: GrowingModel, triples: Rows, **options: bool) -> object:
    if isinstance(model, Aligner):
        return model.add(triples, side="left", **options)
    return model.add(triples, **options)


def vectors(model: GrowingModel) -> dict[str, torch.Tensor]:
    """By label."""
    side = next(iter(model.growing.sides.values()))
    return dict(zip(side.entities, side.vectors.clone(), strict=True))


def largest(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> float:
    assert one.keys() == other.keys()
    return max((one[label] - other[label]).abs().max().item() for label in one)


@each
def test_what_was_trained_stays_bit_for_bit(
    name: str, trained: Callable[[str], Path], later: Callable[[str], Rows]
) -> None:
    model = load(trained(name))
    before = vectors(model)
    for triple in later(name):
        add(model, [triple])
    after = vectors(model)
    assert len(after) > len(before)
    assert all(torch.equal(after[label], vector) for label, vector in before.items())
    made = [vector for label, vector in after.items() if label not in before]
    if name != "complete none":
        assert all(vector.isfinite().all() and vector.abs().max() > 0 for vector in made)


@each
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_neither_order_nor_pieces_matter(
    name: str,
    trained: Callable[[str], Path],
    later: Callable[[str], Rows],
    data: st.DataObject,
) -> None:
    triples = data.draw(st.permutations(later(name)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(triples)), max_size=4)))
    at_once, in_pieces = load(trained(name)), load(trained(name))
    add(at_once, later(name))
    for start, end in zip([0, *cuts], [*cuts, len(triples)], strict=True):
        add(in_pieces, triples[start:end])
    assert largest(vectors(at_once), vectors(in_pieces)) < 1e-5


@pytest.mark.parametrize("layers", [2, 4])
def test_pieces_do_not_matter_to_two_hop_neighbours(layers: int, tmp_path: Path) -> None:
    """Trained entities stand between two new ones, and a few patterns are most of the paths."""
    task = load_dataset("world", open_world=True)
    assert isinstance(task, AlignmentTask)
    assert task.auxiliary is not None
    known = replace(task, auxiliary=None, unknown=None)
    quick = ("training.epochs=1", "model.dim=8", f"model.layers={layers}")
    aligner = Aligner.from_preset("tiny", *quick, device="cpu").fit(known)
    assert aligner.config.model.hops == "alternating"
    aligner.save(tmp_path)
    graph = task.right
    rows = [(graph.entities[h], graph.relations[r], graph.entities[t])
            for h, r, t in task.auxiliary[1].tolist()]  # fmt: skip
    at_once, in_pieces = (Aligner.load(tmp_path, device="cpu") for _ in range(2))
    at_once.add(rows, side="right")
    for start in range(0, len(rows), 60):
        in_pieces.add(rows[start : start + 60], side="right")
    one, other = (
        dict(zip(side.entities, side.vectors.clone(), strict=True))
        for side in (model.growing.sides["right"] for model in (at_once, in_pieces))
    )
    assert largest(one, other) < 1e-5


@each
def test_refreshed_pieces_equal_all_at_once(
    name: str, trained: Callable[[str], Path], later: Callable[[str], Rows]
) -> None:
    at_once, in_pieces = load(trained(name)), load(trained(name))
    add(at_once, later(name), refresh=True)
    for start in range(0, len(later(name)), 7):
        add(in_pieces, later(name)[start : start + 7])
    before = vectors(in_pieces)
    in_pieces.refresh()
    assert largest(vectors(at_once), vectors(in_pieces)) < 1e-5
    if name != "complete none":
        assert largest(before, vectors(in_pieces)) > 0
    assert [addition.folded for addition in in_pieces.log()] == [True] * len(in_pieces.log())
    assert add(in_pieces, [("nobody", *later(name)[0][1:])])


@pytest.mark.parametrize("which", ["strong", "self-trained"])
def test_a_refreshed_aligner_is_the_one_of_the_open_world(
    which: str, split: tuple[AlignmentTask, Rows]
) -> None:
    """The same training, told of the new entities by name beforehand, sees them all at once."""
    task, later = split
    names = task.left.entities.copy()
    names.append([x for h, _, t in later for x in (h, t)])
    left = KnowledgeGraph(names, task.left.relations, task.left.triples)
    ids = np.array([(names.id(h), left.relations.id(r), names.id(t)) for h, r, t in later])
    closed = AlignmentTask("x", left, task.right, task.train, task.valid, task.test)
    opened = AlignmentTask(
        "x", left, task.right, task.train, task.valid, task.test, (ids, ids[:0]), np.zeros(0, bool)
    )

    def make() -> Aligner:
        return Aligner.from_preset(*ALIGNERS[which], *FEW, device="cpu")

    grown = make().fit(closed)
    grown.add(later, side="left", refresh=True)
    expected = make().fit(opened)
    for side in ("left", "right"):
        assert torch.allclose(grown.vectors(side), expected.vectors(side), atol=1e-6)


def test_a_model_that_was_just_trained_grows_as_one_that_was_loaded(
    split: tuple[AlignmentTask, Rows], trained: Callable[[str], Path]
) -> None:
    fitted = Aligner.from_preset(*ALIGNERS["strong"], *FEW, device="cpu").fit(split[0])
    loaded = load(trained("align strong"))
    for model in (fitted, loaded):
        add(model, split[1])
    assert largest(vectors(fitted), vectors(loaded)) == 0


@each
def test_undo_brings_back_every_bit(
    name: str, trained: Callable[[str], Path], later: Callable[[str], Rows]
) -> None:
    model, rows = load(trained(name)), later(name)
    add(model, rows[:9])
    before = vectors(model)
    add(model, rows[9:])
    assert model.undo().number == 2
    assert largest(before, vectors(model)) == 0
    model.undo()
    with pytest.raises(InputError, match="no addition to take back"):
        model.undo()


# What can and what cannot be said of a new entity


@pytest.fixture
def aligner(trained: Callable[[str], Path]) -> Aligner:
    return Aligner.load(trained("align strong"), device="cpu")


KNOWN, R0, R1 = "http://left.org/3", "http://left.org/r0", "http://left.org/r1"


def test_a_chain_of_new_entities_reaches_as_far_as_it_goes(aligner: Aligner) -> None:
    names = [f"new {i}" for i in range(8)]
    chain = [(a, R0, b) for a, b in zip([KNOWN, *names], names, strict=False)]
    told = aligner.add(chain, side="left")
    assert told.entities == 8
    assert told.facts["without_trained_neighbour"] == 7
    assert told.facts["without_vector"] == 0  # its relations tell of the last one still
    longer = aligner.add([(KNOWN, R1, "new 7")], side="left")
    assert longer.facts["made"] >= 4  # new 7 and those near it
    assert longer.facts["recomputed"] == longer.facts["made"]


def test_an_unknown_relation_is_left_out_and_counted_or_refused(aligner: Aligner) -> None:
    triples = [("new", "http://left.org/r9", KNOWN), ("new", R0, KNOWN), ("x", "no", "y")]
    with pytest.raises(UnknownLabelError, match=r"'http://left\.org/r9' is unknown"):
        aligner.add(triples, side="left", strict=True)
    assert not aligner.log()
    with pytest.warns(DecentRLWarning, match="2 triples were left out: ") as warned:
        told = aligner.add(triples, side="left")
    assert warned[0].filename == __file__
    assert (told.triples, told.entities, told.facts["ignored"]) == (1, 1, 2)
    assert told.facts["ignored_relations"] == {"http://left.org/r9": 1, "no": 1}
    assert "x" not in aligner.task.left.entities


def test_who_is_joined_to_nothing_known_is_told_of_by_its_relations_alone(
    aligner: Aligner,
) -> None:
    told = aligner.add([("island", R0, "rock")], side="left")
    assert told.facts["without_trained_neighbour"] == 2
    assert aligner.embed(["island"]).any()


def test_where_nothing_can_be_said_it_is_told(trained: Callable[[str], Path]) -> None:
    """A table of embeddings knows nothing of an entity that it has no row for."""
    predictor = Predictor.load(trained("complete none"), device="cpu")
    told = predictor.add([("stranger", "lives in", "city 0")])
    assert (told.facts["without_vector"], told.facts["for_example"]) == (1, ["stranger"])
    assert not predictor.embed(["stranger"]).any()
    assert predictor.predict(head="stranger", relation="citizen of").num_rows == 0


def test_what_is_known_already_changes_nothing(
    aligner: Aligner, split: tuple[AlignmentTask, Rows]
) -> None:
    left = split[0].left
    h, r, t = (int(x) for x in left.triples[0])
    known = (left.entities[h], left.relations[r], left.entities[t])
    told = aligner.add([known, known, ("new", R0, KNOWN), ("new", R0, KNOWN)], side="left")
    assert (told.triples, told.facts["known"]) == (1, 3)
    assert aligner.add([("new", R0, KNOWN)], side="left").triples == 0


def test_new_triples_between_trained_entities_wait_for_a_refresh(aligner: Aligner) -> None:
    before = aligner.embed([KNOWN])
    other = "http://left.org/17"
    told = aligner.add([(KNOWN, R1, other), (other, R0, KNOWN)], side="left")
    assert told.facts["made"] == 0
    assert np.array_equal(aligner.embed([KNOWN]), before)
    aligner.refresh()
    assert not np.array_equal(aligner.embed([KNOWN]), before)


def test_new_entities_are_matched_at_once(aligner: Aligner) -> None:
    aligner.add([("new", R0, KNOWN), ("new", R1, "http://left.org/5")], side="left")
    (row,) = aligner.match(["new"]).to_pylist()
    assert row["right"].startswith("http://right.org/e/")
    (back,) = aligner.match([row["right"]], side="right").to_pylist()
    assert back["left"] in aligner.task.left.entities
    assert "new" in {row["left"] for row in aligner.match().to_pylist()}


# Runs that keep what was added


@pytest.fixture(params=["align strong", "complete paper"])
def run(request: pytest.FixtureRequest, trained: Callable[[str], Path], tmp_path: Path) -> Path:
    import shutil

    return Path(shutil.copytree(trained(request.param), tmp_path / request.param))


def test_what_was_added_is_there_in_the_next_process(
    run: Path, later: Callable[[str], Rows]
) -> None:
    rows = later(run.name)
    with load(run, durable=True) as model:
        add(model, rows[:9])
        add(model, rows[9:])
        expected = vectors(model)
        model.undo()
        add(model, rows[9:])
    again = load(run)
    assert largest(vectors(again), expected) == 0
    assert [a.entities > 0 for a in again.log()] == [True, True]
    # And it goes on as if it had never been away.
    with load(run, durable=True) as writer:
        for one in (writer, again):
            add(one, [("late", *rows[0][1:])])
        assert largest(vectors(writer), vectors(again)) == 0


def test_a_reader_takes_in_what_a_writer_adds(run: Path, later: Callable[[str], Rows]) -> None:
    reader = None
    with load(run, durable=True) as writer:
        reader = load(run)
        add(writer, later(run.name)[:9])
        assert len(vectors(reader)) < len(vectors(writer))
        assert reader.sync() == 1
        assert largest(vectors(reader), vectors(writer)) == 0
        with pytest.raises(BundleError, match="another process is adding"):
            load(run, durable=True)
    add(reader, later(run.name)[9:])  # in its own memory alone
    assert len(vectors(load(run))) < len(vectors(reader))


def test_compacting_changes_no_vector_and_keeps_the_log(
    run: Path, later: Callable[[str], Rows]
) -> None:
    rows = later(run.name)
    with load(run, durable=True) as model:
        add(model, rows[:9])
        before = vectors(model)
        model.compact()
        assert largest(before, vectors(model)) == 0
        with pytest.raises(InputError, match="compacted"):
            model.undo()
        again = load(run)
        assert largest(before, vectors(again)) == 0
        assert [(a.number, a.folded) for a in again.log()] == [(1, True)]
        add(model, rows[9:])
        add(again, rows[9:])
        assert largest(vectors(model), vectors(again)) == 0
    whole = load(run)
    assert len(whole.log()) == 2
    assert largest(vectors(whole), vectors(model)) == 0


def test_pieces_with_a_compaction_between_equal_pieces_without(
    run: Path, later: Callable[[str], Rows]
) -> None:
    rows, plain = later(run.name), load(run)
    add(plain, rows)
    with load(run, durable=True) as model:
        add(model, rows[:9])
        model.compact()
        add(model, rows[9:])
        assert largest(vectors(model), vectors(plain)) < 1e-5
        model.refresh()
        plain.refresh()
        assert largest(vectors(model), vectors(plain)) < 1e-5
        assert largest(vectors(load(run)), vectors(model)) == 0


def test_a_grown_model_can_be_saved_elsewhere(
    run: Path, later: Callable[[str], Rows], tmp_path: Path
) -> None:
    model = load(run)
    add(model, later(run.name)[:9])
    before = vectors(model)
    model.save(tmp_path / run.name / "elsewhere" / run.name)  # type: ignore[attr-defined]
    again = load(tmp_path / run.name / "elsewhere" / run.name)
    assert largest(before, vectors(again)) == 0
    for one in (model, again):
        add(one, later(run.name)[9:])
    assert largest(vectors(model), vectors(again)) < 1e-5


def test_a_bundle_alone_has_no_place_for_additions(run: Path) -> None:
    kind = Aligner if run.name.startswith("align") else Predictor
    with pytest.raises(ConfigError, match="give the run"):
        kind.load(run / "bundle", device="cpu", durable=True)


def test_a_thousand_additions_leave_trained_vectors_alone(trained: Callable[[str], Path]) -> None:
    aligner = Aligner.load(trained("align strong"), device="cpu")
    before = vectors(aligner)
    rng = np.random.default_rng(0)
    names = list(before)
    for i in range(1000):
        other = names[rng.integers(len(names))]
        relation = (R0, R1)[rng.integers(2)]
        triple = (f"new {i}", relation, other) if i % 3 else (other, relation, names[i % 30])
        aligner.add([triple], side="left")
    after = vectors(aligner)
    assert all(torch.equal(after[label], vector) for label, vector in before.items())


def test_opening_a_run_imports_no_more_than_it_needs(run: Path) -> None:
    """FAISS is for those who ask for it."""
    code = f"import sys; from decentrl import Aligner, Predictor; kind = {run.name[:5]!r}; " + (
        "m = (Aligner if kind == 'align' else Predictor).load(sys.argv[1], device='cpu'); "
        "print('faiss' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, run], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


@pytest.mark.parametrize("change", ["undo", "compact", "refresh"])
def test_what_a_reader_changes_is_its_own(
    run: Path, later: Callable[[str], Rows], change: str
) -> None:
    with load(run, durable=True) as writer:
        add(writer, later(run.name)[:9])
    before = vectors(load(run))
    reader = load(run)
    getattr(reader, change)()
    assert largest(vectors(load(run)), before) == 0
    assert len(load(run).log()) == 1
    assert len(reader.log()) == (0 if change == "undo" else 1)


# Saving, closing and failing


def test_saving_a_run_that_grows_leaves_it_growing(
    run: Path, later: Callable[[str], Rows], tmp_path: Path
) -> None:
    rows = later(run.name)
    with load(run, durable=True) as model:
        add(model, rows[:5])
        model.save(tmp_path / "elsewhere" / run.name)  # type: ignore[attr-defined]
        add(model, rows[5:])  # still kept in the run
        with pytest.raises(ConfigError, match="kept there already"):
            model.save(run)  # type: ignore[attr-defined]
        expected = vectors(model)
    assert len(load(run).log()) == 2
    assert largest(vectors(load(run)), expected) == 0
    other = load(tmp_path / "elsewhere" / run.name)
    assert len(vectors(other)) < len(expected)
    with pytest.raises(InputError, match="this run has additions"):
        other.save(run)  # type: ignore[attr-defined]


def test_a_closed_run_is_changed_no_more(run: Path, later: Callable[[str], Rows]) -> None:
    model = load(run, durable=True)
    model.close()
    with pytest.raises(ConfigError, match="was closed; load it again"):
        add(model, later(run.name)[:2])
    load(run, durable=True).close()  # its lock is free


def test_a_compaction_that_fails_changes_nothing(
    run: Path, later: Callable[[str], Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = later(run.name)
    with load(run, durable=True) as model:
        add(model, rows[:5])

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("decentrl.growth.growing_model.write_bundle", full)
            for change in (model.compact, model.refresh):
                with pytest.raises(OSError, match="No space"):
                    change()
        add(model, rows[5:])
        expected = vectors(model)
    assert [(a.number, a.folded) for a in load(run).log()] == [(1, False), (2, False)]
    assert largest(vectors(load(run)), expected) == 0


def test_a_reader_that_was_there_before_the_first_addition_follows(
    run: Path, later: Callable[[str], Rows]
) -> None:
    reader = load(run)
    with load(run, durable=True) as writer:
        add(writer, later(run.name)[:5])
        assert reader.sync() == 1
        writer.compact()
        add(writer, later(run.name)[5:])
        assert reader.sync() == 1
        assert largest(vectors(reader), vectors(writer)) == 0
        writer.undo()
        reader.sync()
        assert largest(vectors(reader), vectors(writer)) == 0


def test_an_interrupt_after_all_was_kept_loses_nothing(
    run: Path, later: Callable[[str], Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    from decentrl.storage.additions import Store

    real = Store.add

    def interrupted(*arguments: object) -> None:
        real(*arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with load(run, durable=True) as model:
        with monkeypatch.context() as patch:
            patch.setattr(Store, "add", interrupted)
            with pytest.raises(KeyboardInterrupt):
                add(model, later(run.name)[:5])
        assert len(model.log()) == 1
        add(model, later(run.name)[5:])
        assert largest(vectors(load(run)), vectors(model)) == 0


def test_the_card_still_tells_how_good_it_was(run: Path, later: Callable[[str], Rows]) -> None:
    card = run / "bundle" / "README.md"
    before = "Quality on the test" in card.read_text("utf-8")
    with load(run, durable=True) as model:
        add(model, later(run.name)[:5])
        model.compact()
    assert ("Quality on the test" in card.read_text("utf-8")) == before


def test_what_is_no_triple_of_texts_is_refused(aligner: Aligner) -> None:
    for rows in [("abc", "def", "ghi")], [("\udcff", R0, KNOWN)], [("a", "b")], "abc":
        bad = rows if rows == "abc" else list(rows)
        if rows == [("abc", "def", "ghi")]:
            bad = ("abc", "def", "ghi")  # one triple, not a list of them
        with pytest.raises(InputError):
            aligner.add(bad, side="left")  # type: ignore[arg-type]
    assert not aligner.log()


# Entities without a vector


def test_who_has_no_vector_neither_answers_nor_matches(trained: Callable[[str], Path]) -> None:
    predictor = Predictor.load(trained("complete none"), device="cpu")
    predictor.add([("stranger", "lives in", "city 0")])
    found = predictor.predict(relation="lives in", tail="city 0", top=1000)["head"].to_pylist()
    assert found
    assert "stranger" not in found


def test_an_aligner_has_no_match_for_who_has_no_vector(split: tuple[AlignmentTask, Rows]) -> None:
    task = split[0]
    names = task.left.entities.copy()
    names.append(["silent"])
    left = KnowledgeGraph(names, task.left.relations, task.left.triples)
    more = AlignmentTask("x", left, task.right, task.train, task.valid, task.test)
    aligner = Aligner.from_preset(*ALIGNERS["strong"], *FEW, device="cpu").fit(more)
    for matcher in ("cosine", "csls", "sinkhorn"):
        for assign in ("nearest", "mutual", "one-to-one"):
            asked = aligner.match(["silent", KNOWN], matcher=matcher, assign=assign)  # type: ignore[arg-type]
            assert asked.to_pylist()[0]["right"] is None
            rows = aligner.match(matcher=matcher, assign=assign).to_pylist()  # type: ignore[arg-type]
            assert [row["right"] for row in rows if row["left"] == "silent"] == [None]
        back = aligner.match(side="right", matcher=matcher, top=100)["left"].to_pylist()
        assert "silent" not in back
    with pytest.raises(InputError, match="nothing known reaches 'silent'"):
        aligner.neighbours("silent")
    assert "silent" not in aligner.neighbours(KNOWN, top=100)["entity"].to_pylist()


def test_an_island_cannot_be_explained(split: tuple[AlignmentTask, Rows]) -> None:
    """No link reaches the relation "odd", and so nothing that hangs on it alone."""
    task = split[0]
    names, relations = task.left.entities.copy(), task.left.relations.copy()
    names.append(["far", "away"])
    relations.append(["odd"])
    odd = np.array([[len(names) - 2, len(relations) - 1, len(names) - 1]])
    left = KnowledgeGraph(names, relations, np.concatenate((task.left.triples, odd)))
    more = AlignmentTask("x", left, task.right, task.train, task.valid, task.test)
    aligner = Aligner.from_preset(*ALIGNERS["propagate"], device="cpu").fit(more)
    aligner.add([("island", "odd", "rock")], side="left")
    with pytest.raises(InputError, match="nothing known reaches 'island'"):
        aligner.explain("island", side="left")
