"""Which decisions count is what the log says, in whatever order they were made and taken back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decentrl.data.alignment_task import AlignmentTask
from decentrl.errors import InputError
from decentrl.growth.decided import Decided, DecidedPairs, among, current, most_of_one
from decentrl.storage.additions import Store
from decentrl.storage.decision import Pair

LABELS = st.sampled_from("abc"), st.sampled_from("xyz")
STEP = st.tuples(
    st.sampled_from(["accept", "accept", "reject", "skip", "undo"]),
    st.lists(st.tuples(*LABELS), min_size=1, max_size=2, unique=True),
)


def expected(steps: list[tuple[str, list[Pair]]]) -> dict[Pair, str]:
    """The same by hand: each step forgets what it contradicts, and is forgotten if taken back."""
    stack: list[tuple[str, list[Pair]]] = []
    for verdict, pairs in steps:
        if verdict != "undo":
            stack.append((verdict, pairs))
        elif stack:
            stack.pop()
    found: dict[Pair, str] = {}
    for verdict, pairs in stack:
        for left, right in pairs if verdict == "accept" else ():
            for other in [x for x, was in found.items() if was == "accept"]:
                if other[0] == left or other[1] == right:
                    del found[other]
        found |= dict.fromkeys(pairs, verdict)
    return found


@given(st.lists(STEP, max_size=12))
def test_any_order_of_decisions_and_undos_equals_the_replay_of_the_log(
    steps: list[tuple[str, list[Pair]]],
) -> None:
    # A step that accepts several counterparts of one entity keeps them all.
    steps = [(x, pairs if x != "accept" else pairs[:1]) for x, pairs in steps]
    decided = Decided()
    for verdict, pairs in steps:
        if verdict != "undo":
            decided.write(None, verdict, pairs)
        elif any(row["verdict"] != "undo" for row in decided.table().to_pylist()):
            try:
                decided.undo(None)
            except InputError:
                assert not current(decided.log)
    counts = {pair: x.verdict for pair, x in current(decided.log).items()}
    assert counts == expected(steps)
    assert {pair: x.verdict for pair, x in current(Decided(decided.log).log).items()} == counts
    rows = [(x["left"], x["right"]) for x in decided.table().to_pylist() if x["current"]]
    assert sorted(rows) == sorted(counts)
    assert [x.number for x in decided.log] == list(range(1, len(decided.log) + 1))


def test_one_step_may_accept_several_counterparts_and_a_later_one_takes_their_place() -> None:
    decided = Decided()
    decided.write(None, "accept", [("a", "x"), ("a", "y"), ("b", "z")])
    assert set(current(decided.log)) == {("a", "x"), ("a", "y"), ("b", "z")}
    decided.write(None, "accept", [("a", "z")])
    assert set(current(decided.log)) == {("a", "z")}
    decided.undo(None)
    assert set(current(decided.log)) == {("a", "x"), ("a", "y"), ("b", "z")}


def test_a_rejection_does_not_fall_with_another_match_of_its_entity() -> None:
    decided = Decided()
    for verdict, pair in (
        ("accept", ("a", "x")), ("reject", ("a", "x")), ("accept", ("a", "y")),
    ):  # fmt: skip
        decided.write(None, verdict, [pair])
    assert {pair: x.verdict for pair, x in current(decided.log).items()} == {
        ("a", "x"): "reject", ("a", "y"): "accept",
    }  # fmt: skip


def test_what_a_training_has_learned_from_is_not_taken_back_but_overruled() -> None:
    before = Decided()
    with pytest.raises(InputError, match="no decision to take back; decide first"):
        before.undo(None)
    before.write(None, "accept", [("a", "x")], "Ada")
    decided = before.learned()
    with pytest.raises(InputError, match="a training has learned from it; decide anew"):
        decided.undo(None)
    decided.write(None, "reject", [("a", "x")])
    assert current(decided.log)["a", "x"].verdict == "reject"
    decided.undo(None)
    assert current(decided.log)["a", "x"].by == "Ada"


def test_a_log_is_kept_in_a_store_and_what_is_there_already_is_not_repeated(
    tmp_path: Path,
) -> None:
    decided = Decided()
    decided.save(tmp_path / "store", "b")
    assert not (tmp_path / "store").exists()
    for i in range(3):
        decided.write(None, "accept", [(str(i), "x")])
        assert decided.begins_with(tmp_path / "store")
        decided.save(tmp_path / "store", "b")
    with Store(tmp_path / "store", "b") as store:
        assert tuple(store.decisions()) == decided.log
    assert not Decided(decided.log[:2]).begins_with(tmp_path / "store")
    assert not Decided(decided.log[::-1]).begins_with(tmp_path / "store")


def ids(*pairs: tuple[int, int]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.array(pairs, np.int64).reshape(-1, 2)


def test_links_after_decisions() -> None:
    decided = DecidedPairs(accepted=ids((1, 11), (2, 12)), rejected=ids((3, 13)), skipped=ids())
    known = ids((1, 10), (2, 12), (3, 13), (4, 14), (5, 11))
    assert decided.links(known).tolist() == [[4, 14], [1, 11], [2, 12]]
    assert decided
    assert not DecidedPairs(ids(), ids(), ids((1, 2)))


def test_pairs_among_others() -> None:
    pairs = ids((1, 2), (2, 1), (0, 5), (1, -1), (0, -1), (-1, 5))
    assert among(pairs, ids((2, 1), (0, 5))).tolist() == [False, True, True, False, False, False]
    assert among(pairs, ids()).tolist() == [False] * 6
    assert most_of_one(ids()) == 0
    assert most_of_one(ids((1, 2), (3, 2), (3, 4), (5, 2))) == 3


def test_a_task_learns_from_decisions_and_tests_none_of_them() -> None:
    graphs = [("a", "r", "b"), ("c", "r", "d"), ("e", "r", "a")]
    task = AlignmentTask.read(
        graphs, graphs, links=[("a", "a"), ("b", "b")], test_links=[("c", "c"), ("d", "d")]
    )
    decided = Decided()
    assert decided.learned_by(task) is task
    decided.write(None, "accept", [("c", "c")])
    decided.write(None, "accept", [("a", "e")])  # against a known link
    decided.write(None, "reject", [("b", "b"), ("d", "e")])
    decided.write(None, "accept", [("of an addition", "taken back")])
    learned = decided.learned_by(task)
    left, right = learned.left.entities, learned.right.entities

    def named(links: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> set[tuple[str, str]]:
        return {(left[i], right[j]) for i, j in links.tolist()}

    assert named(learned.train) == {("a", "e"), ("c", "c")}
    assert named(learned.test) == {("d", "d")}
    assert named(learned.rejected) == {("b", "b"), ("d", "e")}
    # So a refit that was interrupted does not go on after other decisions.
    decided.write(None, "reject", [("d", "d")])
    assert decided.learned_by(task).content_hash() != learned.content_hash()
