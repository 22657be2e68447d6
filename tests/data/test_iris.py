"""IRIs of labels: every RDF reader takes them, and the label is found again."""

from __future__ import annotations

import pyoxigraph
from hypothesis import example, given, settings
from hypothesis import strategies as st

from decentrl.data.iris import iri_of, iri_of_uri, label_of, uri_of

LABELS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
LIKE_IRIS = st.text("ab:/?#[]@!$&'()*+,;=%0.-~ é\x85\ue000\ufffe")
ALL_LABELS = st.one_of(LABELS, LABELS.map("a:".__add__), LIKE_IRIS.map("http:".__add__))


@settings(max_examples=500, deadline=None)
@given(ALL_LABELS)
@example("http://x/%zz")
@example("http://x/a[b]")
@example("http://x:yy/")
@example("a:b#c#d")
@example("http://[x")
@example("http:")
@example("http://")
@example("urn:decentrl:left:a")
def test_whatever_a_label_is_the_statement_can_be_read(label: str) -> None:
    iri = iri_of(label, "left")
    (statement,) = pyoxigraph.parse(
        f"<{iri}> <http://p> <{iri}> .\n".encode(), pyoxigraph.RdfFormat.N_TRIPLES
    )
    assert statement.subject.value == iri
    assert iri == label or iri.startswith("urn:decentrl:left:")
    assert label_of(iri) == label


@settings(max_examples=300, deadline=None)
@given(ALL_LABELS)
def test_a_uri_is_ascii_and_leads_back_to_its_iri(label: str) -> None:
    iri = iri_of(label, "right")
    uri = uri_of(iri)
    assert uri.isascii()
    assert iri_of_uri(uri) == iri_of_uri(iri)
    assert iri_of_uri(uri) == iri or "%" in iri


def test_bytes_that_are_no_text_stay_as_they_are() -> None:
    assert iri_of_uri("http://x/%E9t%C3%A9%2F%20") == "http://x/%E9té%2F%20"
