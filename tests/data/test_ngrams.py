"""N-grams of names: those of a slow implementation that makes strings, and of odd names too."""

from __future__ import annotations

import itertools
import sys
import time
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.data import ngrams
from decentrl.data.names import LONGEST, Names
from decentrl.data.ngrams import fold, ngram_counts

WIDE = 2**40
"""So many buckets that no two n-grams of a test share one."""
Named = list[tuple[int, str]]


def names_of(rows: Named) -> Names:
    return Names.of_rows(np.array([i for i, _ in rows], np.int64), [text for _, text in rows])


def slow(names: Names, n: int) -> list[Counter[str]]:
    """The n-grams of each entity as strings."""
    from anyascii import anyascii

    found: list[Counter[str]] = [Counter() for _ in range(n)]
    for entity in range(n):
        for text, _ in names.of(entity):
            once = fold(text)
            for folded in [once] if once.isascii() else [once, fold(anyascii(once))]:
                for word in folded.split(" "):
                    around = f" {word} "
                    whole = [
                        around[i : i + k] for k in range(1, 5) for i in range(len(around) - k + 1)
                    ]
                    found[entity].update(x for x in whole if word and x != " ")
    return found


def signatures(per_entity: list[Counter[object]]) -> Counter[tuple[tuple[int, int], ...]]:
    """How often each n-gram is in which entity, without what it is called."""
    where: dict[object, list[tuple[int, int]]] = {}
    for entity, counts in enumerate(per_entity):
        for gram, times in counts.items():
            where.setdefault(gram, []).append((entity, times))
    return Counter(map(tuple, where.values()))


def fast(names: Names, n: int, n_buckets: int = WIDE) -> list[Counter[int]]:
    indptr, buckets, counts = ngram_counts(names, n, n_buckets)
    assert len(indptr) == n + 1
    assert indptr[0] == 0
    assert indptr[-1] == len(buckets) == len(counts)
    assert counts.dtype == np.float32
    assert indptr.dtype == buckets.dtype == np.int64
    rows = [slice(a, b) for a, b in itertools.pairwise(indptr)]
    assert all((np.diff(buckets[row]) > 0).all() for row in rows)  # each once, in order
    return [
        Counter(dict(zip(buckets[row].tolist(), counts[row].astype(int).tolist(), strict=True)))
        for row in rows
    ]


@pytest.fixture(autouse=True)
def looked_up_again() -> Iterator[None]:
    ngrams._latin_letters.cache_clear()
    yield
    ngrams._latin_letters.cache_clear()


LETTERS = st.sampled_from("abA é_-ßÅ京東גח🍕𝐀ﬁ\u0301\u200fกำ")
TEXTS = st.one_of(st.text(LETTERS, max_size=12), st.text(max_size=12))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), TEXTS), max_size=8))
def test_ngrams_are_those_of_strings(rows: Named) -> None:
    names = names_of(rows)
    assert signatures([*fast(names, 5)]) == signatures([*slow(names, 5)])


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_folding_twice_changes_nothing(text: str) -> None:
    folded = fold(text)
    assert fold(folded) == folded
    assert folded == "" or (folded[0] == folded[-1] == " " and "  " not in folded)
    assert len(folded) != 1


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Château_d'If (1844)", " chateau d if 1844 "),
        ("ＡＢＣ ℌ ﬁn Ⅳ K", " abc h fin iv k "),
        ("İstanbul", " istanbul "),
        ("がぎ", " かき "),
        ("עִבְרִית", " עברית "),
        ("ภาษาไทย", " ภาษาไทย "),
        ("বাংলা", " বাংলা "),
        ("葛\U000e0100", " 葛 "),
        ("C++ / C#", " c c "),
        ("!!!", " !!! "),
        ("🍕 🍕", " 🍕 🍕 "),
        ("", ""),
        ("\u0301", ""),
    ],
)
def test_folding(text: str, folded: str) -> None:
    assert fold(text) == folded


def test_buckets_are_the_same_everywhere_and_in_every_version() -> None:
    """Bundles hold them."""
    (found,) = fast(names_of([(0, "Ab")]), 1, 2**18)
    assert sorted(found) == [27967, 40120, 65325, 107089, 122821, 166365, 218484, 261262]
    assert len(found) == len(slow(names_of([(0, "Ab")]), 1)[0])


def test_pieces_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = [
        (int(i), f"name {j} {'京' * int(i % 3)}") for j, i in enumerate(rng.integers(0, 30, 99))
    ]
    whole = ngram_counts(names_of(rows), 40, 2**18)
    for size in (1, 7, 100):
        monkeypatch.setattr(ngrams, "_AT_ONCE", size)
        for a, b in zip(ngram_counts(names_of(rows), 40, 2**18), whole, strict=True):
            assert np.array_equal(a, b)


def test_an_entity_with_very_many_names_takes_no_more_memory_than_many_entities() -> None:
    names = names_of([(i // 3_000, f"{i * 7919} {'x' * 900}") for i in range(6_000)])
    tracemalloc.start()
    indptr, _, counts = ngram_counts(names, 2, 2**18)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counts[: indptr[1]].max() == 3_000 * 900  # times that x is in the names of one
    assert peak < 250 * 2**20


def test_an_entity_of_an_emoji_is_not_like_one_of_another() -> None:
    pizza, sushi, marks, word = fast(names_of([(0, "🍕"), (1, "🍣"), (2, "!!!"), (3, "pizza")]), 4)
    assert pizza
    assert sushi
    assert marks
    assert not pizza.keys() & marks.keys()
    assert word.keys() < pizza.keys()  # which is ``pizza`` in Latin letters
    assert len(pizza.keys() & sushi.keys()) < 4


def test_no_names_and_very_long_ones() -> None:
    assert fast(names_of([]), 3) == [Counter()] * 3
    assert fast(names_of([(1, "\0\n \t")]), 2) == [Counter()] * 2
    started = time.process_time()
    (found,) = fast(names_of([(0, "x" * 2**20)]), 1)  # of which a KnowledgeGraph keeps the start
    assert sorted(found.values())[-1] == LONGEST
    assert (
        len(fast(names_of([(0, "a"), *((1, "京都" * 400 + str(i)) for i in range(999))]), 2)) == 2
    )
    assert time.process_time() - started < 10


def test_the_same_name_many_times_is_one() -> None:
    assert fast(names_of([(0, "Paris")] * 10_000), 1) == fast(names_of([(0, "Paris")]), 1)


def test_without_romanisation_there_is_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    with_latin = fast(names_of([(0, "東京")]), 1)[0]
    ngrams._latin_letters.cache_clear()
    monkeypatch.setitem(sys.modules, "anyascii", None)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert fast(names_of([(0, "Tokyo")]), 1)[0]
        assert not found  # nothing is missing yet
        without = [fast(names_of([(0, "東京")]), 1)[0] for _ in range(3)]
    (warning,) = found
    assert "pip install 'decentrl[text]'" in str(warning.message)
    assert without[0] == without[1] == without[2]
    assert without[0]
    assert without[0].keys() < with_latin.keys()
