"""Attributes of two graphs mean the same if linked entities agree on them, beyond chance."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from decentrl.graph.adjacency import Ids
from decentrl.graph.paired import paired_attributes
from decentrl.graph.texts import N_BUCKETS, ValueRows

Items = list[tuple[int, int, int]]  # entity, attribute, form
N = 60
LINKS = np.stack((np.arange(N), np.arange(N)[::-1]), axis=1)


def rows(items: Items, n: int = N) -> ValueRows:
    table = np.array(sorted(set(items)), np.int64).reshape(-1, 3)
    indptr = np.searchsorted(table[:, 0], np.arange(n + 1))
    return ValueRows(indptr, table[:, 1].copy(), table[:, 2].copy())


def graphs(rng: np.random.Generator, equal: float) -> tuple[ValueRows, ValueRows]:
    """A key (1 and 11), of which a share is equal, a flag (2 and 12), and one without a partner."""
    left: Items = []
    right: Items = []
    for i, j in LINKS.tolist():
        flag = int(rng.random() < 0.5)
        left += [(i, 1, 100 + i), (i, 2, flag), (i, 3, int(rng.integers(1000, 2000)))]
        same = 100 + i if rng.random() < equal else 5000 + i
        right += [(j, 11, same), (j, 12, flag), (j, 13, int(rng.integers(3000, 4000)))]
    return rows(left), rows(right)


def test_renamed_attributes_find_each_other() -> None:
    pairs, agreement = paired_attributes(*graphs(np.random.default_rng(0), 1.0), LINKS)
    assert dict(pairs.tolist()) == {1: 11, 2: 12}
    # Equal keys and equal flags are both full agreement: half of the flags agree by chance.
    assert agreement.tolist() == [1.0, 1.0]


def test_agreement_is_the_share_of_links_that_agree() -> None:
    left, right = graphs(np.random.default_rng(1), 0.5)
    pairs, agreement = paired_attributes(left, right, LINKS)
    found = dict(zip(pairs[:, 0].tolist(), agreement, strict=True))
    equal = np.isin(left.forms[left.attributes == 1], right.forms[right.attributes == 11])
    assert found[1] == equal.mean()


def test_only_links_say_so() -> None:
    left, right = graphs(np.random.default_rng(2), 1.0)
    assert len(paired_attributes(left, right, LINKS[:0])[0]) == 0
    assert len(paired_attributes(left, right, LINKS[:3])[0]) == 0  # too few to be sure
    wrong = np.stack((LINKS[:, 0], np.roll(LINKS[:, 1], 7)), axis=1)
    assert len(paired_attributes(left, right, wrong)[0]) == 0
    none = ValueRows.empty(N)
    assert len(paired_attributes(none, right, LINKS)[0]) == 0
    assert len(paired_attributes(left, none, LINKS)[0]) == 0


@given(st.permutations(range(N)))
def test_the_order_of_links_hardly_matters(order: list[int]) -> None:
    sides = graphs(np.random.default_rng(3), 0.8)
    first, second = (paired_attributes(*sides, links) for links in (LINKS, LINKS[order]))
    assert (1, 11) in {tuple(x) for x in first[0].tolist()} & {tuple(x) for x in second[0].tolist()}


def test_an_attribute_has_one_partner_at_most() -> None:
    left, right = graphs(np.random.default_rng(4), 1.0)
    twice: Items = [(i, 21, 100 + i) for i in range(0, N, 2)]
    items = list(zip(*left_items(left), strict=True))
    pairs, _ = paired_attributes(rows([*items, *twice]), right, LINKS)
    assert dict(pairs.tolist()) == {1: 11, 2: 12}  # 21 agrees as well, on fewer entities


def left_items(side: ValueRows) -> tuple[list[int], ...]:
    return tuple(x.tolist() for x in (side.owners, side.attributes, side.forms))


def bucket_sets(side: ValueRows, known: list[int]) -> list[set[int]]:
    found, _ = side.bucketed(np.array(known, np.int64))
    return [set(x.tolist()) for x in np.split(found.buckets, found.indptr[1:-1])]


def test_equal_values_of_a_pair_are_one_bucket_and_of_others_another() -> None:
    left, right = graphs(np.random.default_rng(5), 1.0)
    ours, theirs = bucket_sets(left, [2, 1]), bucket_sets(right, [12, 11])
    assert all(ours[i] == theirs[j] and len(ours[i]) == 2 for i, j in LINKS.tolist())
    crossed = bucket_sets(right, [11, 12])
    assert not any(ours[i] & crossed[j] for i, j in LINKS.tolist())
    assert max(map(max, ours)) < N_BUCKETS


def test_unknown_attributes_have_no_bucket() -> None:
    left, _ = graphs(np.random.default_rng(6), 1.0)
    assert bucket_sets(left, []) == bucket_sets(left, [99]) == [set()] * N


def test_items_of_some_entities_in_any_order() -> None:
    left, _ = graphs(np.random.default_rng(7), 1.0)
    ids: Ids = np.array([5, 2, 5])
    taken = left.take(ids)
    assert taken.owners.tolist() == [0] * 3 + [1] * 3 + [2] * 3
    assert taken.attributes.tolist() == [1, 2, 3] * 3
    assert taken.forms.reshape(3, 3).tolist() == left.forms.reshape(N, 3)[ids].tolist()
