"""Labels get ids, and keep them."""

from __future__ import annotations

import hashlib

import numpy as np
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


@given(st.lists(labels))
def test_sorted_forgets_the_order_of_arrival(given_labels: list[str]) -> None:
    there, back = Vocabulary.sorted(given_labels), Vocabulary.sorted(reversed(given_labels))
    assert there == back
    assert list(there) == sorted(set(given_labels))


@given(st.lists(labels), st.lists(labels), st.lists(labels))
def test_appending_never_moves_an_id(first: list[str], second: list[str], third: list[str]) -> None:
    vocabulary = Vocabulary.sorted(first)
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
