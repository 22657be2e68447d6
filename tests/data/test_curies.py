"""CURIEs of IRIs, and what they stand for."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.data.curies import BUILT_IN, Prefixes, expand
from decentrl.data.iris import is_iri, uri_of

IRIS = st.text("ab:/?#éx1.", min_size=1).map("http:".__add__).filter(is_iri).map(uri_of)
# RFC 3986: a relative reference, here without an authority.
LOCAL = re.compile(r"(?:[^:/?#\s]+(?:/[^?#\s]*)?|/[^?#\s]*)?(?:\?[^#\s]*)?(?:#[^#\s]*)?")


@settings(max_examples=500, deadline=None)
@given(st.lists(IRIS, max_size=40))
def test_a_curie_stands_for_its_iri(iris: list[str]) -> None:
    prefixes = Prefixes(iris)
    for iri in iris:
        curie = prefixes.curie(iri)
        assert expand(curie, prefixes.by_name) == iri
        name, _, local = curie.partition(":")
        assert re.fullmatch("[a-z]+[0-9]*", name)
        assert LOCAL.fullmatch(local), curie


def test_namespaces_of_names_with_slashes_share_a_prefix() -> None:
    base = "http://x.org/resource/"
    iris = [f"{base}{i}" for i in range(50)] + [f"{base}AC{i}/DC" for i in range(50)]
    prefixes = Prefixes(iris)
    assert prefixes.curie(f"{base}7") == "ns1:7"
    assert prefixes.curie(f"{base}AC49/DC") == "ns1:AC49/DC"
    assert len(prefixes.by_name) <= 16


def test_a_host_for_each_entity_does_not_make_a_prefix_for_each() -> None:
    iris = [f"https://host-{i}.org/about" for i in range(1000)]
    prefixes = Prefixes(iris)
    assert len(prefixes.by_name) == 17
    assert "https://" in prefixes.by_name.values()
    assert {expand(prefixes.curie(x), prefixes.by_name) for x in iris} == set(iris)


def test_known_namespaces_have_their_known_names() -> None:
    prefixes = Prefixes([f"{iri}x" for iri in BUILT_IN.values()] + ["urn:decentrl:left:a"])
    assert prefixes.by_name == BUILT_IN | {"left": "urn:decentrl:left:"}


def test_a_long_iri_takes_no_longer_for_its_slashes() -> None:
    iris = ["http://x" + "/" * 300_000 + end for end in ("", "a", "b:", "b:c")]
    prefixes = Prefixes(iris)
    assert [expand(prefixes.curie(x), prefixes.by_name) for x in iris] == iris
