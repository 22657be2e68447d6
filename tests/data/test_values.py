"""Values of attributes as numbers: like values share forms, others none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decentrl.data import values as module
from decentrl.data.attributes import NO_ATTRIBUTES, Attributes
from decentrl.data.values import forms_of, value_forms


def shared(kind: str, one: str, other: str, other_kind: str = "") -> set[str]:
    return set(forms_of(one, kind)) & set(forms_of(other, other_kind or kind))


numbers = st.floats(1e-6, 1e12)


@given(numbers, st.floats(0.9905, 1.0095))
def test_numbers_within_a_percent_meet_at_both_resolutions(number: float, factor: float) -> None:
    found = shared("number", repr(number), repr(number * factor))
    assert {x.split()[1] for x in found if x.startswith("size")} == {"0.02", "0.2"}


@given(numbers, st.floats(1.25, 1e6))
def test_numbers_a_quarter_apart_do_not(number: float, factor: float) -> None:
    assert not shared("number", repr(number), repr(number * factor))
    assert not shared("number", repr(number), repr(-number))


def test_a_number_is_the_same_however_it_is_written() -> None:
    assert set(forms_of("+1234567.0", "number")) == set(forms_of("1.234567e6", "number"))
    assert shared("number", "1234567", "1230000")
    assert list(forms_of("0", "number")) == list(forms_of("-0.0", "number")) == ["number 0"]
    assert list(forms_of("9" * 400, "number")) == ["number inf"]


def test_dates_share_their_day_month_and_year() -> None:
    day = set(forms_of("1879-03-14", "date"))
    assert day == set(forms_of("1879-03-14T11:30:00Z", "date"))
    assert {x for x in shared("date", "1879-03-14", "1879-03-01") if x[0] == "d"} == {
        "date 1879-03"
    }
    assert set(forms_of("1879", "number")) < day
    assert set(forms_of("1879+01:00", "date")) == set(forms_of("1879", "date"))
    assert set(forms_of("-0044-03", "date")) > set(forms_of("-44", "number"))


def test_texts_share_words_neighbours_and_the_whole() -> None:
    found = shared("string", "The quick brown Fox", "quick brown dog")
    assert found == {"quick", "brown", "quick brown"}
    assert shared("string", "978-3-16-148410-0", "9783161484100") == {"text 9783161484100"}
    assert shared("string", "Zürich", "zurich") == {"zurich", "text zurich"}
    assert list(forms_of("🦀", "string")) == ["🦀", "text 🦀"]


def test_booleans_are_what_they_mean() -> None:
    assert shared("boolean", "TRUE", "1")
    assert not shared("boolean", "true", "0")


ROWS = [(i % 5, f"a{i % 3}", str(i * 7)) for i in range(40)] + [(7, "a0", "some words of it")]


def made() -> tuple[list[int], ...]:
    ids, labels, texts = zip(*ROWS, strict=True)
    rows = value_forms(Attributes.of_rows(np.array(ids), labels, texts), 9)
    return tuple(x.tolist() for x in rows)


def test_pieces_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = made()
    monkeypatch.setattr(module, "_AT_ONCE", 3)
    assert made() == whole


def test_each_entity_has_its_own_forms() -> None:
    indptr, owners, forms = made()
    assert len(indptr) == 10
    assert indptr[-1] == len(owners) == len(forms)
    assert len(set(owners)) == 3  # attributes
    sizes = np.diff(indptr)
    assert sizes[[5, 6, 8]].tolist() == [0, 0, 0]
    assert sizes[7] == len(set(forms_of("some words of it", "string")))
    assert min(forms) >= 0


def test_without_attributes_there_are_no_forms() -> None:
    indptr, owners, forms = value_forms(NO_ATTRIBUTES, 3)
    assert indptr.tolist() == [0, 0, 0, 0]
    assert len(owners) == len(forms) == 0
