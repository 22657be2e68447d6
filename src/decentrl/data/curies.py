"""CURIEs: IRIs shortened by a prefix, ``ns1:Berlin`` for ``http://example.org/Berlin``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from decentrl.data.iris import OWN

BUILT_IN = {
    "linkml": "https://w3id.org/linkml/",
    "owl": "http://www.w3.org/2002/07/owl#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "semapv": "https://w3id.org/semapv/vocab/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "sssom": "https://w3id.org/sssom/",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}
"""Prefixes that mean the same in every SSSOM file."""
_OUR_OWN = {"left": f"{OWN}left:", "right": f"{OWN}right:"}
_NAMES = {iri: name for name, iri in (BUILT_IN | _OUR_OWN).items()}
_LARGEST = 16


class Prefixes:
    """Few prefixes for many IRIs: one for each of the 16 namespaces with the most IRIs.

    A namespace is what comes before the last ``/``, ``#`` or ``:``. IRIs elsewhere get the
    longest of these prefixes that they begin with, or one for all that begin with ``http://``.
    The part after the prefix is a relative reference, as the syntax of CURIEs has it: it has no
    colon before its first slash.
    """

    def __init__(self, iris: Iterable[str]) -> None:
        counts = Counter(map(_namespace, iris))
        by_size = sorted(counts, key=lambda space: (-counts[space], space))
        largest = set(by_size[:_LARGEST])
        self._prefix = {space: _prefix(space, largest) for space in by_size}
        numbered = [x for x in dict.fromkeys(self._prefix.values()) if x not in _NAMES]
        names = _NAMES | {prefix: f"ns{i}" for i, prefix in enumerate(numbered, 1)}
        self._names = {prefix: names[prefix] for prefix in self._prefix.values()}

    @property
    def by_name(self) -> dict[str, str]:
        """The prefix that each name stands for."""
        return {name: prefix for prefix, name in self._names.items()}

    def curie(self, iri: str) -> str:
        """One of the IRIs, shortened."""
        prefix = self._prefix[_namespace(iri)]
        return f"{self._names[prefix]}:{iri[len(prefix) :]}"


def _namespace(iri: str) -> str:
    if iri.endswith(":"):
        return iri  # a CURIE may be a prefix and nothing else
    return iri[: max(iri.rfind(mark, 0, -1) for mark in "/#:") + 1]


def _prefix(space: str, largest: Collection[str]) -> str:
    """What IRIs of a namespace are shortened by: it or what it begins with."""
    if space in largest:
        return space
    scheme, mark, _ = space.partition("://")
    known = sorted(filter(space.startswith, largest), key=len, reverse=True)
    for prefix in (*known, scheme + mark):
        first = re.match(r"[^/?#]*", space[len(prefix) :])
        if first and ":" not in first[0]:
            return prefix
    return space


def expand(curie: str, prefixes: Mapping[str, str]) -> str | None:
    """The IRI that a CURIE stands for, or None if its prefix is unknown."""
    name, colon, rest = curie.partition(":")
    return prefixes[name] + rest if colon and name in prefixes else None
