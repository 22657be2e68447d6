"""Decisions about matches count at once, are kept, undone exactly, and learned from."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from decentrl import Aligner, AlignmentTask, ConfigError, InputError, UnknownLabelError
from decentrl.data.readers import read_table
from decentrl.data.table import LINK
from decentrl.errors import BundleError
from decentrl.growth.review import Review
from decentrl.training.fitting import Pass


@pytest.fixture(scope="module")
def trained(twins: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which no match is sure; nobody writes to it."""
    settings = "training.epochs=4", "model.dim=8", "training.valid=0.3"
    task = AlignmentTask.read(
        twins["left"], twins["right"], links=twins["links"][:20], test_links=twins["test"]
    )
    folder = tmp_path_factory.mktemp("trained") / "run"
    Aligner.from_preset("tiny", *settings, device="cpu").fit(task).save(folder)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture(scope="module")
def asked(trained: Path) -> Aligner:
    """The same run, for questions alone."""
    return Aligner.load(trained, "cpu")


@pytest.fixture(scope="module")
def before(asked: Aligner) -> list[dict[str, Any]]:
    return asked.match(top=3).to_pylist()


def best(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {row["left"]: row["right"] for row in rows if row["rank"] == 1}


def doubtful(aligner: Aligner, count: int) -> list[Any]:
    return [x for x in aligner.review_queue(limit=50).items if x.alternatives][:count]


# What counts


def test_an_accepted_pair_is_matched_at_once_and_with_nothing_else(run: Path) -> None:
    with Aligner.load(run, "cpu", durable=True) as aligner:
        item = doubtful(aligner, 1)[0]
        right = item.alternatives[0].right
        made = aligner.decide(item.left, right, "accept", by="Ada", note="seen")
        assert (made.number, made.pairs, made.by) == (1, ((item.left, right),), "Ada")
        rows = aligner.match(top=3).to_pylist()
        (mine,) = [row for row in rows if row["left"] == item.left and row["rank"] == 1]
        assert (mine["right"], mine["confidence"], mine["score"]) == (right, 1.0, None)
        assert [row["left"] for row in rows if row["right"] == right] == [item.left]
        assert aligner.match([item.left]).to_pylist() == [mine]
        back = aligner.match([right], side="right").to_pylist()[0]
        assert (back["left"], back["confidence"]) == (item.left, 1.0)
        assert aligner.match(assign="one-to-one").to_pylist().count(mine) == 1
        other = next(row["left"] for row in rows if row["left"] != item.left)
        assert right not in [row["right"] for row in aligner.match([other], top=50).to_pylist()]
        assert item.left not in [x.left for x in aligner.review_queue(10**6).items]


def test_a_rejected_pair_is_not_proposed_again_and_the_next_best_is(run: Path) -> None:
    with Aligner.load(run, "cpu", durable=True) as aligner:
        item = doubtful(aligner, 1)[0]
        order = [row["right"] for row in aligner.match([item.left], top=9).to_pylist()]
        assert order[0] == item.right
        for place in range(7):  # more than are kept of each entity
            aligner.decide(item.left, order[place], "reject")
            found = [row["right"] for row in aligner.match([item.left], top=2).to_pylist()]
            assert found == order[place + 1 :][:2]
            assert best(aligner.match().to_pylist())[item.left] == order[place + 1]
            (again,) = [x for x in aligner.review_queue(10**6).items if x.left == item.left]
            assert (again.right, again.decision) == (order[place + 1], None)
        back = aligner.match([order[0]], side="right", top=50).to_pylist()
        assert item.left not in [row["left"] for row in back]


def test_a_known_link_can_be_rejected_or_overruled(run: Path) -> None:
    with Aligner.load(run, "cpu", durable=True) as aligner:
        task = aligner.task
        (left, right), (mine, _) = [
            (task.left.entities[i], task.right.entities[j]) for i, j in task.train[:2].tolist()
        ]
        assert left not in best(aligner.match().to_pylist())
        aligner.decide(left, right, "reject")
        assert best(aligner.match().to_pylist())[left] not in (None, right)
        aligner.decide(mine, right, "accept")
        assert best(aligner.match().to_pylist())[mine] == right
        learned = aligner.settled_task()
        ends = {(task.left.entities[i], task.right.entities[j]) for i, j in learned.train.tolist()}
        assert (mine, right) in ends
        assert left not in {end for end, _ in ends}
        assert len(ends) == len(task.train) - 1


def test_undo_restores_the_exact_matches(run: Path, before: list[dict[str, Any]]) -> None:
    with Aligner.load(run, "cpu", durable=True) as aligner:
        items = doubtful(aligner, 6)
        queue = aligner.review_queue()
        tables = [aligner.match(top=3)]
        for verdict, item in zip(["accept", "reject", "skip"] * 2, items, strict=True):
            aligner.decide(item.left, item.right, verdict)  # type: ignore[arg-type]
            tables.append(aligner.match(top=3))
        for table in tables[-2::-1]:
            taken = aligner.undo_decision(by="Bob")
            assert taken.verdict in ("accept", "reject", "skip")
            assert aligner.match(top=3) == table
        assert aligner.match(top=3).to_pylist() == before
        assert aligner.review_queue() == queue
        assert aligner.decisions()["verdict"].to_pylist()[-6:] == ["undo"] * 6
        assert set(aligner.decisions()["current"].to_pylist()) == {False}
        with pytest.raises(InputError, match="no decision to take back"):
            aligner.undo_decision()


def test_of_decisions_that_contradict_each_other_the_later_counts_and_both_are_logged(
    run: Path,
) -> None:
    with Aligner.load(run, "cpu", durable=True) as aligner:
        item = doubtful(aligner, 1)[0]
        aligner.decide(item.left, item.right, "accept", by="Ada")
        aligner.decide(item.left, item.right, "reject", by="Bob")
        rows = aligner.decisions().to_pylist()
        assert [(x["number"], x["verdict"], x["by"], x["current"]) for x in rows] == [
            (1, "accept", "Ada", False), (2, "reject", "Bob", True),
        ]  # fmt: skip
        assert best(aligner.match().to_pylist())[item.left] != item.right


# Where it is kept


def test_decisions_are_in_the_run_and_a_reader_sees_them(run: Path) -> None:
    reader = Aligner.load(run, "cpu")
    reader.match()
    with Aligner.load(run, "cpu", durable=True) as aligner:
        first, second = doubtful(aligner, 2)
        aligner.decide(first.left, first.right, "accept")
        aligner.decide(second.left, second.right, "reject")
        assert reader.sync() == 0  # that is the number of additions
        assert reader.decisions() == aligner.decisions()
        assert reader.match(top=3) == aligner.match(top=3)
        with pytest.raises(BundleError, match="another process is adding"):
            Aligner.load(run, "cpu", durable=True)
    again = Aligner.load(run, "cpu")
    assert again.decisions() == reader.decisions()
    assert again.match(top=3) == reader.match(top=3)


def test_without_durable_decisions_are_in_this_process_alone(
    run: Path, tmp_path: Path, before: list[dict[str, Any]]
) -> None:
    aligner = Aligner.load(run, "cpu")
    item = doubtful(aligner, 1)[0]
    aligner.decide(item.left, item.right, "reject")
    assert best(aligner.match().to_pylist())[item.left] != item.right
    assert len(Aligner.load(run, "cpu").decisions()) == 0
    aligner.save(tmp_path / "saved")
    saved = Aligner.load(tmp_path / "saved", "cpu")
    assert saved.decisions() == aligner.decisions()
    assert saved.match() == aligner.match()
    with Aligner.load(tmp_path / "saved", "cpu", durable=True) as open_again:
        open_again.undo_decision()
        assert open_again.match(top=3).to_pylist() == before
    with pytest.raises(InputError, match="additions or decisions"):
        Aligner.load(run, "cpu").save(tmp_path / "saved")


def test_decisions_survive_additions_compact_and_refresh(run: Path) -> None:
    with Aligner.load(run, "cpu", durable=True) as aligner:
        item, other = doubtful(aligner, 2)
        relation = aligner.task.left.relations[0]
        aligner.decide(item.left, item.right, "accept", by="Ada")
        aligner.add(
            [("Neuland", relation, item.left), (other.left, relation, "Neuland")], side="left"
        )
        aligner.decide("Neuland", other.right, "accept")
        matched = best(aligner.match().to_pylist())
        assert (matched[item.left], matched["Neuland"]) == (item.right, other.right)
        aligner.compact()
        assert best(aligner.match().to_pylist()) == matched
        log = aligner.decisions()
    with Aligner.load(run, "cpu", durable=True) as aligner:
        assert aligner.decisions() == log
        aligner.refresh()
        found = best(aligner.match().to_pylist())
        assert (found[item.left], found["Neuland"]) == (item.right, other.right)
        assert aligner.decisions() == log


def test_a_decision_about_an_entity_waits_while_its_addition_is_taken_back(run: Path) -> None:
    with Aligner.load(run, "cpu", durable=True) as aligner:
        item = doubtful(aligner, 1)[0]
        triples = [("Neuland", aligner.task.left.relations[0], item.left)]
        aligner.add(triples, side="left")
        aligner.decide("Neuland", item.right, "accept")
        aligner.undo()
        assert "Neuland" not in best(aligner.match().to_pylist())
        assert aligner.decisions()["current"].to_pylist() == [True]
        aligner.add(triples, side="left")
        assert best(aligner.match().to_pylist())["Neuland"] == item.right


# What a refit learns


def test_a_refit_learns_from_decisions_and_takes_them_along(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[Pass] = []
    start = Pass.start
    monkeypatch.setattr(
        Pass, "start", lambda self, *given: (passes.append(self), start(self, *given))
    )
    with Aligner.load(run, "cpu", durable=True) as aligner:
        first, second = doubtful(aligner, 2)
        aligner.decide(first.left, first.right, "accept", by="Ada")
        aligner.decide(second.left, second.right, "reject")
        again = aligner.refit()
        decided = aligner.decisions()
    sides = again.task.left.entities, again.task.right.entities
    accepted, rejected = (
        [side.id(x) for side, x in zip(sides, (item.left, item.right), strict=True)]
        for item in (first, second)
    )
    assert accepted in again.task.train.tolist()
    assert accepted not in again.task.test.tolist()
    assert again.task.rejected.tolist() == [rejected]
    shifted = [rejected[0], rejected[1] + len(sides[0])]
    assert passes[0].context.rejected.tolist() == [shifted]
    assert passes[0].context.not_rejected(passes[0].context.rejected).tolist() == []
    again.save(tmp_path / "new")
    new = Aligner.load(tmp_path / "new", "cpu")
    assert new.decisions() == decided == again.decisions()
    rows = best(new.match().to_pylist())
    assert rows[first.left] == first.right
    assert rows[second.left] != second.right
    with pytest.raises(InputError, match="a training has learned from it"):
        new.undo_decision()


def test_self_training_takes_no_rejected_pair(
    twins: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = twins["left"], twins["right"]
    task = AlignmentTask.read(*graphs, links=twins["links"][:12], test_links=twins["test"])
    settings = "self_training.rounds=2", "training.valid=0.0", "self_training.mass=0.01"
    aligner = Aligner.from_preset("tiny", *settings, device="cpu").fit(task)
    found = [
        (task.left.entities[i], task.right.entities[j]) for i, j in aligner.learned.found.tolist()
    ]
    assert len(found) > 3
    for left, right in found:
        aligner.decide(left, right, "reject")
    again = aligner.refit()
    sides = again.task.left.entities, again.task.right.entities
    now = [(sides[0][i], sides[1][j]) for i, j in again.learned.found.tolist()]
    assert now
    assert not set(now) & set(found)


# Export


def test_accepted_pairs_are_written_as_links_that_are_read_back(run: Path, tmp_path: Path) -> None:
    with Aligner.load(run, "cpu", durable=True) as aligner:
        with pytest.raises(InputError, match="no decision to write"):
            aligner.export_decisions(tmp_path / "links.tsv")
        items = doubtful(aligner, 4)
        for item in items[:3]:
            aligner.decide(item.left, item.right, "accept", by="=Ada\t")
        aligner.decide(items[3].left, items[3].right, "reject")
        pairs = {(item.left, item.right) for item in items[:3]}
        if len(pairs) < 3:
            pytest.skip("two items with one match")
        current = {
            (x["left"], x["right"])
            for x in aligner.decisions().to_pylist()
            if x["current"] and x["verdict"] == "accept"
        }
        assert aligner.export_decisions(tmp_path / "links.tsv") == len(current)
        for file in ("links.tsv", "links.sssom.tsv"):
            kind = "sssom" if "sssom" in file else "links"
            count = aligner.export_decisions(tmp_path / file, kind)  # type: ignore[arg-type]
            assert count == len(current) + (kind == "sssom")
    read = read_table(tmp_path / "links.tsv", LINK)
    rows = set(zip(*(column.to_pylist() for column in read.columns), strict=True))
    assert rows == current
    with pytest.warns(UserWarning, match="1 mappings that are neither"):
        read = read_table(tmp_path / "links.sssom.tsv", LINK)
    assert set(zip(*(column.to_pylist() for column in read.columns), strict=True)) == current
    text = (tmp_path / "links.sssom.tsv").read_text("utf-8")
    header, *lines = [line.split("\t") for line in text.splitlines() if line[0] != "#"]
    cells = [dict(zip(header, line, strict=True)) for line in lines]
    assert {x["mapping_justification"] for x in cells} == {"semapv:ManualMappingCuration"}
    assert [x["author_label"] for x in cells if not x["predicate_modifier"]] == [" =Ada"] * 3
    assert [x["predicate_modifier"] for x in cells].count("Not") == 1


SSSOM = Path(__file__).parents[2] / ".venv-sssom/bin/python"
REFERENCE = """
import sys
from sssom.parsers import parse_sssom_table
from sssom.validators import validate
from sssom.constants import SchemaValidationType
found = parse_sssom_table(sys.argv[1])
validate(found, [SchemaValidationType.JsonSchema], True)
rows = found.df[["predicate_modifier", "author_label"]].fillna("").astype(str)
print(sorted(map(tuple, rows.values.tolist())))
"""


@pytest.mark.skipif(not SSSOM.exists(), reason="sssom is not installed: make sssom")
def test_the_reference_implementation_reads_decisions(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "m.sssom.tsv"
    with Aligner.load(run, "cpu", durable=True) as aligner:
        first, second = doubtful(aligner, 2)
        aligner.decide(first.left, first.right, "accept", by="Ada")
        aligner.decide(second.left, second.right, "reject", by="Bob")
        aligner.export_decisions(file, "sssom")
    told = subprocess.run(
        [SSSOM, "-c", REFERENCE, file], capture_output=True, text=True, check=True
    )
    assert told.stdout.splitlines()[-1] == str([("", "Ada"), ("Not", "Bob")])


# The queue


def test_the_queue_is_doubtful_first_and_has_every_match_once(
    asked: Aligner, before: list[dict[str, Any]]
) -> None:
    queue = asked.review_queue(limit=10**6)
    found = {item.left: item for item in queue.items}
    matched = best(before)
    assert len(found) == len(queue.items) == queue.total == queue.progress.remaining
    assert {left: item.right for left, item in found.items()} == matched
    sure = {row["left"]: row["confidence"] for row in before if row["rank"] == 1}
    for left, item in islice(found.items(), 200):
        assert item.confidence == pytest.approx(sure[left], abs=1e-5)
        chances = [item.confidence, *(other.confidence for other in item.alternatives)]
        assert sum(chances[:2]) <= 1 + 1e-6
        assert all(0 <= chance <= 1 for chance in chances)
        names = [item.right, *(other.right for other in item.alternatives)]
        assert len(set(names)) == len(names) <= 5
    pages = [asked.review_queue(limit=7, offset=offset).items for offset in (0, 7)]
    assert (*pages[0], *pages[1]) == queue.items[:14]
    assert asked.review_queue(limit=0).items == ()
    assert asked.review_queue(offset=10**6).items == ()


def test_of_matches_in_doubt_those_beside_others_in_doubt_come_first(
    asked: Aligner, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = asked.review_queue(limit=10**6).items
    sure = [item.confidence * (1 - item.confidence) for item in items]
    monkeypatch.setattr(Review, "doubt_nearby", lambda review, doubt: 0 * review.sure)
    alone = asked.review_queue(limit=10**6).items
    assert [x.left for x in alone] != [x.left for x in items]
    doubts = [item.confidence * (1 - item.confidence) for item in alone]
    assert doubts == pytest.approx(sorted(sure, reverse=True))
    second = asked.growing.sides["left"].entities.find_all([alone[1].left])[0]
    monkeypatch.setattr(
        Review, "doubt_nearby", lambda review, doubt: torch.from_numpy(review.mine == second)
    )
    assert asked.review_queue(limit=1).items[0].left == alone[1].left


def test_progress_counts_what_counts_now(run: Path) -> None:
    with Aligner.load(run, "cpu", durable=True) as aligner:
        every = [item.confidence for item in aligner.review_queue(10**6).items]
        threshold = sorted(every)[len(every) // 2]
        learned = aligner.learned
        chosen = replace(learned.confidence, threshold=threshold)
        aligner.growing.learned = replace(learned, confidence=chosen)
        aligner._derived = {}
        start, sure = aligner.review_queue(5), [x for x in every if x >= threshold]
        assert start.progress.estimated_precision == pytest.approx(sum(sure) / len(sure))
        first, second, third, *_ = doubtful(aligner, 3)
        aligner.decide(first.left, first.right, "accept")
        aligner.decide(second.left, second.right, "reject")
        aligner.decide(third.left, third.right, "skip")
        queue = aligner.review_queue(10**6)
        done = queue.progress
        assert (done.decided, done.accepted, done.rejected, done.skipped) == (3, 1, 1, 1)
        assert done.remaining == queue.total - 1
        assert queue.items[-1].left == third.left
        assert queue.items[-1].decision == "skip"
        assert "1 accepted" in done.based_on
        assert done.estimated_precision is not None
        aligner.undo_decision()
        assert aligner.review_queue().progress.skipped == 0


def test_a_queue_without_confidence_has_its_order_still(twins: dict[str, Any]) -> None:
    aligner = Aligner.from_preset("tiny", "training.valid=0.0", device="cpu")
    aligner.fit(twins["left"], twins["right"], twins["links"])
    queue = aligner.review_queue(limit=100)
    assert len(queue.items) == 15
    assert {item.confidence for item in queue.items} == {None}
    assert queue.progress.estimated_precision is None
    assert "no confidence was learned" in queue.progress.based_on
    aligner.decide(queue.items[0].left, queue.items[0].right, "accept")
    assert len(aligner.review_queue(100).items) == 14


# What is refused


def test_what_cannot_be_decided(asked: Aligner) -> None:
    left, right = asked.task.left.entities[0], asked.task.right.entities[0]
    with pytest.raises(ConfigError, match="no verdict 'perhaps'; there are: accept, reject, skip"):
        asked.decide(left, right, "perhaps")  # type: ignore[arg-type]
    with pytest.raises(UnknownLabelError, match="did you mean"):
        asked.decide(left + "x", right, "accept")
    with pytest.raises(UnknownLabelError, match="name the left entity first"):
        asked.decide(right, left, "accept")
    with pytest.raises(InputError, match="no pair to decide on"):
        asked.decide_all([], "accept")
    with pytest.raises(ConfigError, match="no format 'csv' of decisions"):
        asked.export_decisions("x", "csv")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="must not be negative"):
        asked.review_queue(limit=-1)
    assert len(asked.decisions()) == 0


def test_a_closed_run_takes_no_decision(run: Path) -> None:
    aligner = Aligner.load(run, "cpu", durable=True)
    item = doubtful(aligner, 1)[0]
    aligner.close()
    with pytest.raises(ConfigError, match="was closed; load it again"):
        aligner.decide(item.left, item.right, "accept")


def test_a_label_that_no_line_can_hold_is_written_as_sssom_alone(tmp_path: Path) -> None:
    rows = [("a", "r", "b"), ("b", "r", "c\td"), ("c\td", "r", "a")]
    aligner = Aligner.from_preset("tiny", "training.epochs=1", "training.valid=0.0", device="cpu")
    aligner.fit(rows, rows, [("a", "a")])
    aligner.decide("c\td", "c\td", "accept")
    with pytest.raises(InputError, match=r"contains a tab or a line end.*write SSSOM"):
        aligner.export_decisions(tmp_path / "x.tsv")
    assert not (tmp_path / "x.tsv").exists()
    assert aligner.export_decisions(tmp_path / "x.sssom.tsv", "sssom") == 1
