"""Entities of a run: found by their names or identifiers, and described."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from decentrl.data.names import LAST, Names
from decentrl.data.vocabulary import Ids, nearest
from decentrl.growth.growing_graph import GrowingGraph
from decentrl.service.failures import RequestError
from decentrl.service.served_run import ServedRun

TRIPLES = 500
"""Triples of an entity that are listed."""
LANGUAGES = 8
"""In which names are kept at a time."""
_LAST = re.compile(LAST)
_UNSPACED = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"


def folded(texts: pa.Array) -> pa.Array:
    """Texts as they are searched: without case, accents and signs, a space before each word."""
    plain = pc.replace_substring_regex(pc.utf8_normalize(texts, "NFKD"), r"\p{M}+", "")
    words = pc.replace_substring_regex(pc.utf8_lower(plain), r"[^\p{L}\p{N}]+", " ")
    return pc.utf8_trim_whitespace(words)


def _search_texts(labels: pa.Array, names: Names, first: int) -> pa.Array:
    """What the entities from ``first`` on are found by: ``| a name | another | identifier |``."""
    n = len(labels)
    places = names.entities - first
    inside = (places >= 0) & (places < n)
    texts = folded(names.texts.filter(pa.array(inside)))
    counts = np.bincount(places[inside], minlength=n)
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), " | ")
    return pc.binary_join_element_wise("", joined, folded(labels), "", " | ")


class EntitySearch:
    """Finds entities of one graph by the beginnings of words.

    What training knew is made ready once, what came later for every question.
    """

    def __init__(self, graph: GrowingGraph) -> None:
        trained = graph.trained
        self._trained = _search_texts(trained.entities.to_arrow(), trained.names, 0)
        self._degrees = np.bincount(
            np.concatenate((trained.triples, graph.arrivals.triples))[:, [0, 2]].ravel(),
            minlength=len(graph.entities),
        )

    def find(self, graph: GrowingGraph, query: str, limit: int) -> list[int]:
        """Ids of the entities that a query means: exact names first, then by their degree."""
        (phrase,) = folded(pa.array([query], pa.string())).to_pylist()
        exact = graph.entities.find_all([query])
        named = graph.names.find(query) if query.strip() else exact[:0]
        texts = [self._trained, self._later(graph)]
        found = np.concatenate([
            start + np.flatnonzero(self._matching(part, phrase))
            for start, part in zip((0, len(self._trained)), texts, strict=True)
        ])  # fmt: skip
        order = self._order(texts, found, phrase, limit)
        first = [int(i) for i in chain(exact, named) if i >= 0]
        return list(dict.fromkeys([*first, *order]))[:limit]

    def _later(self, graph: GrowingGraph) -> pa.Array:
        n = len(self._trained)
        ids = np.arange(n, len(graph.entities))
        if not len(ids):
            return pa.array([], pa.string())
        labels = pa.array(graph.entities.take(ids), pa.string())
        return _search_texts(labels, graph.literals_of(ids).names, n)

    @staticmethod
    def _matching(texts: pa.Array, phrase: str) -> Any:
        mask = np.ones(len(texts), bool)
        for word in phrase.split():
            # Words of some scripts have no space between them.
            inner = pc.match_substring_regex(pa.array([word]), _UNSPACED)[0].as_py()
            found = pc.match_substring(texts, word if inner else f" {word}")
            mask &= np.asarray(found)
        return mask

    def _order(self, texts: list[pa.Array], found: Ids, phrase: str, limit: int) -> list[int]:
        """The best of what was found."""
        degrees = np.zeros(max(int(found.max(initial=-1)) + 1, len(self._degrees)))
        degrees[: len(self._degrees)] = self._degrees
        if phrase:
            some = pa.concat_arrays(texts).take(pa.array(found))
            bonus = [np.asarray(pc.match_substring(some, f"| {phrase}{x}")) for x in (" |", "")]
            rank = 2 * bonus[0] + bonus[1]
        else:
            rank = np.zeros(len(found))
        order = np.lexsort((found, -degrees[found], -rank))[:limit]
        return [int(i) for i in found[order]]


def search(run: ServedRun, side: str) -> EntitySearch:
    """What finds the entities of a side; made at the first question."""
    graph = run.model.growing.sides[side]
    return run.keep(f"search {side}", lambda: EntitySearch(graph))


def entity_id(run: ServedRun, side: str, called: str, near: bool = True) -> int:
    """The id of an entity by its identifier, or else by its name.

    Args:
        near: look for near names of what is unknown, which takes a moment.
    """
    graph = run.model.growing.sides[side]
    id = int(graph.entities.find_all([called])[0])
    if id >= 0:
        return id
    named = graph.names.find(called)
    if len(named) == 1:
        return int(named[0])
    if len(named):
        some = graph.entities.take(named[:10])
        problem = f"{len(named)} entities are called {called!r}"
        raise RequestError(422, problem, "give one of their identifiers", some)
    raise unknown(run, side, called, near)


def unknown(run: ServedRun, side: str, called: str, near: bool = True) -> RequestError:
    """The failure of a question about what no entity is called."""
    graphs = run.model.growing.sides
    for other, graph in graphs.items():
        if other != side and (called in graph.entities or len(graph.names.find(called))):
            problem = f"{called!r} is unknown in the {side} graph"
            return RequestError(404, problem, f"it is in the {other} one: ask with side={other}")
    graph = graphs[side]
    known = chain(graph.entities, graph.names.texts.to_pylist()) if near else ()
    where = f" in the {side} graph" if side else ""
    similar = nearest(called[:100], known)
    remedy = "ask for a near name" if similar else "look for it with /v1/entities?q="
    return RequestError(404, f"{called!r} is unknown{where}", remedy, similar)


def brief(
    run: ServedRun, side: str, ids: Iterable[int], language: str = ""
) -> list[dict[str, Any]]:
    """Entities in a line each: id, side, name, degree, added."""
    ids = list(ids)
    graph = run.model.growing.sides[side]
    names = shown(graph, ids, language)
    degrees = degrees_of(run, side)
    new = ~graph.arrivals.is_trained(np.array(ids, np.int64))
    return [
        {
            "id": graph.entities[i],
            "side": side,
            "name": name,
            "degree": int(degrees[i]),
            "added": bool(late),
        }
        for i, name, late in zip(ids, names, new, strict=True)
    ]


def degrees_of(run: ServedRun, side: str) -> Any:
    """In how many triples each entity is, int64[n]."""
    graph = run.model.growing.sides[side]

    def count() -> Any:
        rows = np.concatenate((graph.trained.triples, graph.arrivals.triples))
        return np.bincount(rows[:, [0, 2]].ravel(), minlength=len(graph.entities))

    return run.keep(f"degrees {side}", count, version=True)


def described(run: ServedRun, side: str, id: int, language: str = "") -> dict[str, Any]:
    """All that is known of an entity."""
    graph = run.model.growing.sides[side]
    (line,) = brief(run, side, [id], language)
    names = [{"text": text, "language": tag} for text, tag in graph.names.of(id)]
    attributes = [
        {"attribute": name, "value": value, "kind": kind}
        for name, value, kind in graph.literals.attributes.of(id)
    ]
    triples = graph.arrivals.about(id)
    listed = triples_in_words(graph, triples[:TRIPLES], id, language)
    return line | {
        "names": names,
        "attributes": attributes,
        "triples": listed,
        "more_triples": max(0, len(triples) - TRIPLES),
    }


def triples_in_words(
    graph: GrowingGraph, triples: Ids, own: int, language: str
) -> list[dict[str, Any]]:
    """Triples about an entity: labels, names, and whether it is their head (out) or tail (in)."""
    ids = list(dict.fromkeys(triples[:, [0, 2]].ravel().tolist()))
    ends = dict(zip(ids, shown(graph, ids, language), strict=True))
    arrived = {tuple(row) for row in graph.arrivals.triples.tolist()}
    return [
        {
            "head": graph.entities[h],
            "relation": graph.trained.relations[r],
            "tail": graph.entities[t],
            "direction": "out" if h == own else "in",
            "head_name": ends[h],
            "tail_name": ends[t],
            "added": (h, r, t) in arrived,
        }
        for h, r, t in triples.tolist()
    ]


def shown(graph: GrowingGraph, ids: Sequence[int], language: str = "") -> list[str]:
    """What entities are called on a page: their names, or what their identifiers end with."""
    kept = _names_of(graph, language)
    missing = [i for i in ids if i not in kept]
    if missing:
        names = graph.names.shown(missing, language) if len(graph.names) else [""] * len(missing)
        for i, name in zip(missing, names, strict=True):
            kept[i] = name or in_words(graph.entities[i])
    return [kept[i] for i in ids]


_NAMES: WeakKeyDictionary[GrowingGraph, dict[str, tuple[Names, dict[int, str]]]]
_NAMES = WeakKeyDictionary()


def _names_of(graph: GrowingGraph, language: str) -> dict[int, str]:
    """Names of a graph that were shown before; to find one takes longer than to answer."""
    every, names = _NAMES.setdefault(graph, {}), graph.names
    if language not in every or every[language][0] is not names:
        if len(every) >= LANGUAGES:
            every.clear()
        every[language] = names, {}
    return every[language][1]


def in_words(label: str) -> str:
    """What an identifier ends with, if it is an IRI, else the identifier itself."""
    found = _LAST.match(label) if "://" in label else None
    last = unquote(found[1] or found[2]).replace("_", " ").strip() if found else ""
    return last or label
