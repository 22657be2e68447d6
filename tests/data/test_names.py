"""Names: columns that any order of rows gives, cleaned, and found again."""

from __future__ import annotations

import hashlib
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decentrl.data.names import LONGEST, NO_NAMES, Names, clean, names_from_ids
from decentrl.data.vocabulary import Vocabulary

row = st.tuples(
    st.integers(0, 4),
    st.sampled_from(["Berlin", "berlin", "Köln", "ß", "שלום", "😀", " ", "", "a\x00b", "a\n b"]),
    st.sampled_from(["", "en", "EN-gb", "de", "no tag!"]),
    st.booleans(),
)
rows = st.lists(row, max_size=12)


def names(given: list[tuple[int, str, str, bool]]) -> Names:
    entities, texts, tags, aliases = zip(*given, strict=True) if given else ((), (), (), ())
    return Names.of_rows(np.array(entities, np.int64), texts, tags, aliases)


def digest(of: Names) -> str:
    found = hashlib.sha256()
    of.update_hash(found)
    return found.hexdigest()


def plain(text: str) -> str:
    """What cleaning makes of the texts above, written in another way."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


@given(rows, st.randoms())
def test_neither_the_order_nor_the_pieces_change_anything(
    given: list[tuple[int, str, str, bool]], rng: random.Random
) -> None:
    whole, shuffled = names(given), names(rng.sample(given, len(given)))
    cut = rng.randint(0, len(given))
    pieces = names(given[cut:]).concat(names(given[:cut]), NO_NAMES)
    assert digest(whole) == digest(shuffled) == digest(pieces)
    assert whole.to_arrow().equals(pieces.to_arrow())


@given(rows)
def test_names_are_those_of_a_plain_list(given: list[tuple[int, str, str, bool]]) -> None:
    best: dict[tuple[int, str, str], bool] = {}
    for entity, text, tag, alias in given:
        key = entity, plain(text), "" if tag == "no tag!" else tag.lower()
        if key[1]:
            best[key] = best.get(key, True) and alias
    for entity, tag in {(k[0], k[2]) for k, alias in best.items() if not alias}:
        mains = [k for k, alias in best.items() if (k[0], k[2]) == (entity, tag) and not alias]
        for key in sorted(mains, key=lambda k: k[1].encode())[1:]:
            best[key] = True
    languages = {"": 0, "en": 1, "en-gb": 2, "de": 3}
    listed = sorted(best, key=lambda k: (k[0], best[k], languages[k[2]], k[1].encode()))
    found = names(given)
    assert [(e, *x) for e in range(5) for x in found.of(e)] == listed
    assert found.shown(range(5), "EN_gb") == found.shown(range(5), "en-gb")
    for language in ("", "en", "DE", "fr"):
        wanted = []
        for e in range(5):
            own = [k for k in listed if k[0] == e]
            exact = [k for k in own if language and k[2] == language.lower()]
            near = [k for k in own if language and k[2].startswith(language.lower() + "-")]
            wanted.append((exact + near + own + [(e, "", "")])[0][1])
        assert found.shown(range(5), language) == wanted
    for text in ("Berlin", "BERLIN", "KÖLN", "ss", "a b", "nowhere"):
        same = {k[0] for k in listed if k[1] == text}
        folded = {k[0] for k in listed if k[1].casefold() == text.casefold()}
        assert found.find(text).tolist() == sorted(same or folded)
    kept = found.take([1, 3])
    assert [kept.of(e) for e in range(5)] == [found.of(e) if e in (1, 3) else [] for e in range(5)]


def test_a_name_of_a_megabyte_is_cut_and_one_of_nothing_dropped() -> None:
    texts = ["x" * 1_000_000, "\r\n\t\x00\u2028", "\u200b \ufeff\u200e", "\u200ea\u200d"]
    found = names([(i, text, "", False) for i, text in enumerate(texts)])
    assert [len(text) for text, _ in found.of(0)] == [LONGEST]
    assert found.of(1) == found.of(2) == []
    assert found.shown([3]) == ["\u200ea\u200d"]


@given(st.lists(st.text(), max_size=5), st.integers(995, 1005))
def test_what_is_clean_stays_as_it_is(texts: list[str], spaces: int) -> None:
    """Or a bundle could not be read again."""
    given = pa.array([*texts, "x" * spaces + " y", "😀" * spaces], pa.string())
    once = clean(given)
    assert clean(once).equals(once)
    assert all(
        len(text) <= LONGEST and text.isprintable() for text in once[len(texts) :].to_pylist()
    )


def test_what_would_reverse_the_text_after_it_is_dropped() -> None:
    found = names([(0, "\u202eabc\u202c \u2067x\u2069y", "", False)])
    assert found.shown([0]) == ["abc x y"]


def test_right_to_left_emoji_and_html_stay_as_they_are() -> None:
    texts = ["مدينة", "👩‍👩‍👧", "<b>&amp;</b>", "\u200fא\u200e"]
    found = names([(i, text, "", False) for i, text in enumerate(texts)])
    assert found.shown(range(4)) == texts


def test_the_same_name_of_very_many_entities_finds_them_all() -> None:
    found = names([(i, "twin", "en", False) for i in range(10_000)] * 2)
    assert len(found) == 10_000
    assert found.find("Twin").tolist() == list(range(10_000))


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("http://e.org/Berlin", "Berlin"),
        ("http://e.org/Berlin/", "Berlin"),
        ("http://e.org/onto#New_York", "New York"),
        ("http://dbpedia.org/resource/AC/DC", "AC/DC"),
        ("https://en.wikipedia.org/wiki/Bras%C3%ADlia", "Brasília"),
        ("http://e.org/100%", "100%"),
        ("new_york", "new york"),
        ("/m/02mjmr", "/m/02mjmr"),
        ("50%20off", "50%20off"),
        ("_:file-0.1", ""),
    ],
)
def test_an_identifier_gives_a_name(label: str, name: str) -> None:
    assert names_from_ids(Vocabulary(["other", label])).shown([1, 0]) == [name, "other"]
