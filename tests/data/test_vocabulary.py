"""Labels get ids, and keep them."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decentrl.data.vocabulary import Vocabulary, nearest
from decentrl.errors import InputError, UnknownLabelError

labels = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


def test_ids_follow_the_given_order() -> None:
    vocabulary = Vocabulary(["b", "a", "c"])
    assert vocabulary.ids(["a", "b", "b"]).tolist() == [1, 0, 0]
    assert vocabulary.ids(["a"]).dtype == np.int64
    assert vocabulary.take(np.array([2, 0])) == ["c", "b"]
    assert (vocabulary[1], len(vocabulary), "c" in vocabulary) == ("a", 3, True)


def test_a_label_cannot_have_two_ids() -> None:
    with pytest.raises(ValueError, match="'a' occurs twice"):
        Vocabulary(["a", "b", "a"])


@given(st.lists(labels), st.lists(labels), st.lists(labels))
def test_appending_never_moves_an_id(first: list[str], second: list[str], third: list[str]) -> None:
    vocabulary = Vocabulary(sorted(set(first)))
    seen = list(vocabulary)
    for batch in (second, third):
        ids = vocabulary.append(batch)
        assert vocabulary.take(ids) == batch
        assert list(vocabulary)[: len(seen)] == seen
        assert list(vocabulary)[len(seen) :] == sorted(set(batch) - set(seen))
        seen = list(vocabulary)


def test_a_copy_does_not_grow_with_the_original() -> None:
    original = Vocabulary(["a"])
    copy = original.copy()
    original.append(["b"])
    assert list(copy) == ["a"]


def test_an_unknown_label_is_an_error_that_names_its_neighbours() -> None:
    vocabulary = Vocabulary(["Berlin", "Bern", "Paris"])
    with pytest.raises(UnknownLabelError, match="'Berlim' is unknown; did you mean 'Berlin'"):
        vocabulary.id("Berlim")
    with pytest.raises(UnknownLabelError, match="'Tokyo' is unknown; check its spelling"):
        vocabulary.ids(["Paris", "Tokyo"])
    assert issubclass(UnknownLabelError, InputError)


def test_the_nearest_label_may_differ_in_case_only() -> None:
    assert nearest("berlin", ["Berlin", "Merlin", "Oslo"])[0] == "Berlin"


def test_negative_ids_do_not_count_from_the_end() -> None:
    with pytest.raises(IndexError):
        Vocabulary(["a"])[-1]


def test_arrow_holds_the_labels_in_the_order_of_their_ids() -> None:
    assert Vocabulary(["b", "ä"]).to_arrow().to_pylist() == ["b", "ä"]


@given(st.lists(labels, unique=True, max_size=3), st.lists(labels, unique=True, max_size=3))
def test_only_equal_vocabularies_hash_alike(one: list[str], other: list[str]) -> None:
    digests = []
    for given_labels in (one, other):
        digest = hashlib.sha256()
        Vocabulary(given_labels).update_hash(digest)
        digests.append(digest.hexdigest())
    assert (digests[0] == digests[1]) == (one == other)


# Labels in Arrow, copies that share them


class Model:
    """A vocabulary as a plain list and dict."""

    def __init__(self, given_labels: list[str]) -> None:
        self.labels = list(given_labels)

    def append(self, batch: list[str]) -> list[int]:
        self.labels += sorted(set(batch) - set(self.labels))
        return [self.labels.index(x) for x in batch]


def check_same(vocabulary: Vocabulary, model: Model, asked: list[str]) -> None:
    ids = {label: i for i, label in enumerate(model.labels)}
    assert len(vocabulary) == len(model.labels)
    assert vocabulary.find_all(asked).tolist() == [ids.get(x, -1) for x in asked]
    assert [x in vocabulary for x in asked] == [x in ids for x in asked]
    known = [x for x in asked if x in ids]
    assert vocabulary.ids(known).tolist() == [vocabulary.id(x) for x in known]
    assert vocabulary.ids(known).tolist() == [ids[x] for x in known]
    assert vocabulary.take(range(len(model.labels))) == list(vocabulary) == model.labels
    assert vocabulary.to_arrow().to_pylist() == model.labels
    assert vocabulary.to_arrow().type == pa.string()
    assert vocabulary == Vocabulary(model.labels)
    assert vocabulary != Vocabulary([*model.labels, "another"])
    with pytest.raises(IndexError):
        vocabulary[len(model.labels)]
    for label in asked:
        if label not in ids:
            with pytest.raises(UnknownLabelError, match="is unknown"):
                vocabulary.ids([*known, label])


few = st.sampled_from([f"{x}{y}" for x in "abcdé" for y in "0123"])
steps = st.tuples(st.sampled_from(["append", "copy"]), st.integers(0, 9), st.lists(few, max_size=4))


@given(st.lists(few, unique=True), st.booleans(), st.lists(steps, max_size=12), st.lists(few))
def test_copies_and_appends_are_those_of_a_plain_list(
    first: list[str],
    from_arrow: bool,
    done: list[tuple[str, int, list[str]]],
    asked: list[str],
) -> None:
    """What is appended to one vocabulary shows in no other, and no id moves in any."""
    made = Vocabulary.from_arrow(pa.array(first, pa.string())) if from_arrow else Vocabulary(first)
    both = [(made, Model(first))]
    for what, which, batch in done:
        vocabulary, model = both[which % len(both)]
        if what == "append":
            assert vocabulary.append(batch).tolist() == model.append(batch)
        else:
            both.append((vocabulary.copy(), Model(model.labels)))
    for vocabulary, model in both:
        check_same(vocabulary, model, asked)
    for one, its in both:
        for other, others in both:
            assert (one == other) == (its.labels == others.labels)


class Counted:
    """An Arrow array that counts how often Python objects are made of it."""

    def __init__(self, given_labels: list[str]) -> None:
        self.given_labels, self.times = given_labels, 0

    def __len__(self) -> int:
        return len(self.given_labels)

    def to_pylist(self) -> list[str]:
        self.times += 1
        return self.given_labels


def test_nothing_is_built_before_it_is_needed_and_then_once() -> None:
    array = Counted([f"entity {i}" for i in range(1000)])
    vocabulary = Vocabulary.from_arrow(array)
    assert (len(vocabulary), len(vocabulary.copy()), array.times) == (1000, 1000, 0)
    latest = vocabulary
    for i in range(50):
        latest = latest.copy()
        assert latest.append([f"later {i}", "entity 7"]).tolist() == [1000 + i, 7]
    assert (len(latest), len(vocabulary), array.times) == (1050, 1000, 1)


def test_a_long_tail_is_shared_again() -> None:
    """Else each copy of a vocabulary that grew from nothing would copy all of it."""
    grown = Vocabulary()
    grown.append(str(i) for i in range(1000))
    copy = grown.copy()
    assert list(copy) == list(grown)
    assert copy.copy()._first is copy._first
    assert copy._later == []


def test_labels_that_contain_what_was_asked_are_suggested() -> None:
    known = [f"http://example.org/{x}" for x in ("Berlin", "East_Berlin", "Bern", "Paris")]
    assert nearest("berlin", known)[:2] == [known[0], known[1]]
    assert nearest("http://example.org/Berln", known)[0] == known[0]  # a slip comes before
    assert nearest("be", known) == []  # two letters are in everything
