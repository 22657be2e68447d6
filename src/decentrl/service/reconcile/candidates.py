"""Candidates for what a reconciliation query describes: by structure and name together.

An entity that a query describes is in no graph. What its properties say of it are triples of the
graph that the question comes from, its *source*: with these it gets a vector as a newcomer would,
without being kept, and is matched with the entities of the *target* graph, as a newcomer is. Where
properties say nothing of the source but something of the target, it is described by its neighbours
in the target, and the nearest of its entities are the candidates; no confidence was learned there.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from decentrl.growth.explain_pair import NAMES
from decentrl.growth.strangers import with_strangers
from decentrl.matching.potentials import OTHER
from decentrl.service.entities import folded, search, shown
from decentrl.service.reconcile.candidate import Candidate
from decentrl.service.reconcile.questions import Meaning, Query, Words
from decentrl.service.reconcile.structure import ByStructure
from decentrl.service.served_run import ServedRun

ENTITY = "entity"
"""The type of the entities of a run with one graph."""


class Reconciler:
    """Answers reconciliation queries about a run; asked in the thread that has its model."""

    def __init__(self, run: ServedRun) -> None:
        self._run, self._by_structure = run, ByStructure(run)

    @property
    def default(self) -> str:
        """The target where a query names no type."""
        return "right" if self._run.two_graphs else ""

    def target(self, query: Query) -> str | None:
        """The graph whose entities a query asks for; None if it asks for no entities of these."""
        if not self._run.two_graphs:
            known = not query.types or ENTITY in query.types
            return "" if known or query.type_strict != "all" else None
        for name in query.types:
            if name in OTHER:
                return name
        return None if query.types and query.type_strict == "all" else self.default

    def answer(self, batch: dict[str, Query]) -> dict[str, list[dict[str, Any]]]:
        """The candidates of each query, best first."""
        found: dict[str, list[dict[str, Any]]] = {}
        targets = {key: self.target(query) for key, query in batch.items()}
        for target in dict.fromkeys(targets.values()):
            keys = [key for key in batch if targets[key] == target]
            if target is None:
                found |= {key: [] for key in keys}
                continue
            for key, some in zip(
                keys, self._candidates(target, [batch[key] for key in keys]), strict=True
            ):
                found[key] = self.in_words(target, some[: batch[key].most])
        return {key: found[key] for key in batch}

    def in_words(self, target: str, candidates: Sequence[Candidate]) -> list[dict[str, Any]]:
        """Candidates as the API has them."""
        graph = self._run.model.growing.sides[target]
        names = shown(graph, [x.id for x in candidates])
        return [
            {
                "id": graph.entities[x.id],
                "name": name,
                "score": round(x.score, 4),
                "match": x.sure,
                "type": [type_of(target)],
                "features": [{"id": k, "value": round(v, 6)} for k, v in x.features.items()],
            }
            for x, name in zip(candidates, names, strict=True)
        ]

    # Finding them

    def _candidates(self, target: str, queries: Sequence[Query]) -> list[list[Candidate]]:
        source = OTHER.get(target, "")
        meanings = [self._meaning(source, query) for query in queries]
        ways: dict[str, list[int]] = {"match": [], "near": []}
        for i, (query, meaning) in enumerate(zip(queries, meanings, strict=True)):
            named = query.query.strip() and self._reads_names
            if self._run.two_graphs and (meaning.says_something or named):
                other = self._meaning(target, query)
                if meaning.says_something or not other.says_something:
                    ways["match"].append(i)
                    continue
            meanings[i] = self._meaning(target, query)
            if meanings[i].says_something:
                ways["near"].append(i)
        found: list[dict[int, Candidate]] = [{} for _ in queries]
        called = [i for i in ways["match"] if meanings[i].stranger.names]
        nameless = [i for i in ways["match"] if not meanings[i].stranger.names]
        for places, find in (
            (called, self._matched), (nameless, self._matched), (ways["near"], self._near)
        ):  # fmt: skip
            if places:
                strangers = [meanings[i] for i in places]
                most = max(queries[i].most for i in places)
                for i, listed in zip(places, find(target, strangers, most), strict=True):
                    found[i] = {x.id: x for x in listed}
        for query, some, meaning in zip(queries, found, meanings, strict=True):
            if query.query.strip():
                self._by_name(target, query, some, alone=not meaning.says_something)
        return [sorted(some.values(), key=lambda x: (-x.score, x.id)) for some in found]

    @property
    def _reads_names(self) -> bool:
        return self._run.two_graphs and NAMES in self._run.model.learned.spans

    def _meaning(self, side: str, query: Query) -> Meaning:
        run = self._run
        graph = run.model.growing.sides[side]
        words: Words = run.keep(f"words {side}", lambda: Words(graph))
        return words.mean(graph, query, lambda label: self._counterpart(side, label))

    def _counterpart(self, side: str, label: str) -> int | None:
        """The entity of a side that a link says an entity of the other side is."""
        if not self._run.two_graphs:
            return None
        other = self._run.model.growing.sides[OTHER[side]]
        place = int(other.entities.find_all([label])[0])
        make = partial(self._links_to, side)
        links: dict[int, int] = self._run.keep(f"links to {side}", make, version=True)
        return links.get(place)

    def _links_to(self, side: str) -> dict[int, int]:
        model = self._run.model
        rows = model.known_links()
        if model.learned.settled is not None:
            rows = np.concatenate((model.learned.settled.pairs, rows))
        rows = rows if side == "right" else rows[:, ::-1]
        return dict(rows.tolist())

    def _matched(self, target: str, meanings: Sequence[Meaning], top: int) -> list[list[Candidate]]:
        """The matches of strangers of the source graph."""
        source = OTHER[target]
        strangers = [meaning.stranger for meaning in meanings]
        model, ids = with_strangers(self._run.model, source, strangers)
        own, graph = model.growing.sides[source], model.growing.sides[target]
        table = model.match(own.entities.take(ids), top=max(top, 2), side=source)
        found: list[list[Candidate]] = []
        least = model.thresholds()
        if self._reads_names and not any(stranger.names for stranger in strangers):
            sure = {row[source]: row for row in table if row["rank"] == 1}
            firsts = [sure[label] for label in own.entities.take(ids)]
            own_ids: list[int] = ids.tolist()
            return self._by_structure.find(model, target, strangers, firsts, own_ids, top)
        for row in table:
            if row["rank"] == 1:
                found.append([])
            if row[target] is None:
                continue
            place = graph.entities.id(row[target])
            cosine = self._shares(model, source, int(ids[len(found) - 1]), target, place)
            one = Candidate(place, features={"score": row["score"], **cosine})
            if row["confidence"] is not None:
                one.features["confidence"] = row["confidence"]
                one.score = 100 * row["confidence"]
                one.sure = least is not None and row["confidence"] >= least[1]
            found[-1].append(one)
        return [_scored(some) for some in found]

    def _near(self, target: str, meanings: Sequence[Meaning], top: int) -> list[list[Candidate]]:
        """The entities of the target that are nearest to strangers among them."""
        strangers = [meaning.stranger for meaning in meanings]
        model, ids = with_strangers(self._run.model, target, strangers)
        graph = model.growing.sides[target]
        found: list[list[Candidate]] = []
        for own in ids.tolist():
            if not graph.has_vector()[own]:
                found.append([])
                continue
            places, cosines = model.indexes.nearest(own, target, target, top + len(ids), False)
            some = [
                Candidate(int(i), max(0.0, 100 * cosine), features={"cosine": cosine})
                for i, cosine in zip(places.tolist(), cosines.tolist(), strict=True)
                if i < ids[0]
            ]
            found.append(some[:top])
        return found

    def _shares(
        self, model: Any, source: str, own: int, target: str, place: int
    ) -> dict[str, float]:
        """The part of each view in the cosine of two entities."""
        sides = model.growing.sides
        one, other = (
            sides[side].take_vectors(np.array([i]))[0].double().cpu()
            for side, i in ((source, own), (target, place))
        )
        products = one * other
        return {
            "cosine": products.sum().item(),
            **{view: products[span].sum().item() for view, span in model.learned.spans.items()},
        }

    def _by_name(self, target: str, query: Query, found: dict[int, Candidate], alone: bool) -> None:
        """Say how alike names are, and add entities with that very name.

        Entities of the target that are in a known link are no candidates of newcomers, and are
        found in this way only.

        Args:
            alone: nothing but a name is asked about; then similar names count, too.
        """
        graph = self._run.model.growing.sides[target]
        listed = search(self._run, target).find(graph, query.query, query.most)
        likenesses = {i: _likeness(query.query, graph, i) for i in [*listed, *found]}
        (own,) = graph.entities.find_all([query.query]).tolist()
        same = own if own >= 0 else self._same_as_named(target, query.query)
        if same is not None:
            likenesses[same] = 1.0
        exact = [i for i, likeness in likenesses.items() if likeness == 1]
        if same is not None:  # an identifier, or the name of what is linked, leaves no doubt
            exact = [same]
        if alone and exact:  # what a model makes of a name says less than the very name
            for one in found.values():
                one.score, one.sure = min(one.score, 30.0 / len(exact)), False
        settled = any(one.sure for one in found.values())
        for i, likeness in likenesses.items():
            if not alone and likeness < 1 and i not in found:
                continue
            one = found.setdefault(i, Candidate(i))
            one.features["name_likeness"] = likeness
            if i in exact:
                one.score = max(one.score, (50 if settled else 100) / len(exact))
                one.sure |= len(exact) == 1 and not settled
            elif alone:
                one.score = max(one.score, (30 / len(exact) if exact else 99) * likeness)

    def _same_as_named(self, target: str, name: str) -> int | None:
        """The counterpart of the one entity of the source that is called like that."""
        if not self._run.two_graphs:
            return None
        graph = self._run.model.growing.sides[OTHER[target]]
        called = [i for i in graph.entities.find_all([name]).tolist() if i >= 0]
        ids = called or graph.names.find(name).tolist()
        return self._counterpart(target, graph.entities[ids[0]]) if len(ids) == 1 else None


def _likeness(text: str, graph: Any, place: int) -> float:
    """How like a text the names of an entity are, without case, accents and signs: 0 to 1."""
    names = [graph.entities[place], *shown(graph, [place]), *(x for x, _ in graph.names.of(place))]
    given = pa.array([x[:200] for x in (text, *names)], pa.string())
    sought, *others = folded(given).to_pylist()
    if not sought:
        return 0.0
    if sought in others:
        return 1.0
    return min(0.99, max(SequenceMatcher(None, sought, x).ratio() for x in others))


def _scored(found: list[Candidate]) -> list[Candidate]:
    """Candidates whose scores fall with their rank: only the first has a confidence.

    The others share what it leaves, by how far behind their matcher's scores are; where no
    confidence was learned the first has the likeness of its vector.
    """
    if not found:
        return found
    first = found[0]
    if "confidence" not in first.features:
        first.score = max(0.0, 100 * first.features["cosine"])
    behind = np.array([x.features["score"] - first.features["score"] for x in found[1:]])
    weights = np.exp(behind / 0.1)
    most = min(first.score, 100 - first.score) if "confidence" in first.features else first.score
    for one, weight in zip(found[1:], weights, strict=True):
        one.score = float(most * weight)
    return found


def type_of(target: str) -> dict[str, str]:
    """The type of a graph's entities."""
    if not target:
        return {"id": ENTITY, "name": "entity"}
    return {"id": target, "name": f"entity of the {target} graph"}
