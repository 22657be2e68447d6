"""Matches of entities: found by the model, and kept until something changes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from decentrl.data.vocabulary import Ids
from decentrl.matching.potentials import OTHER
from decentrl.service.asking import TOGETHER
from decentrl.service.entities import entity_id, shown
from decentrl.service.failures import RequestError
from decentrl.service.served_run import ServedRun

KEPT = 10
"""Best matches of each entity that are kept."""
AHEAD = 32
"""Entities that are matched ahead at a time."""
QUIET = 1.0
"""Seconds without a change after which matching ahead goes on."""


class KeptMatches:
    """The best matches of all entities, as far as they were asked for or found ahead.

    Between two questions the thread that asks finds those of the next entities, until there are
    all. A change of the run makes all of them outdated.
    """

    def __init__(self, run: ServedRun) -> None:
        self._run = run
        self._version = -1
        self._sides: dict[str, _Kept] = {}
        self._changed = 0.0
        run.idle = self._ahead

    # Asking

    async def of(self, side: str, called: str, top: int, language: str) -> dict[str, Any]:
        """The matches of an entity, as an answer."""
        run = self._run
        if (kept := self._current(side)) is not None and top <= KEPT:
            # Nothing to compute: no thread has to be waited for.
            with suppress(IndexError):  # what another thread takes back just now
                place = int(run.model.growing.sides[side].entities.find_all([called])[0])
                if place >= 0 and kept.has(place):
                    return self._in_words(side, place, kept.line(place, top), language)
        found: dict[str, Any] | RequestError = await run.ask_together(
            ("match", side, top, language),
            called,
            lambda items: self._answer(side, items, top, language),
        )
        if isinstance(found, RequestError):
            raise found
        return found

    async def of_all(
        self, side: str, called: Sequence[str], top: int, language: str
    ) -> list[dict[str, Any]]:
        """The matches of many entities, as answers; of what is unknown the failure."""
        found = await self._run.ask(lambda: self._answer(side, called, top, language))
        return [
            {"id": name, "side": side, **x.body()} if isinstance(x, RequestError) else x
            for name, x in zip(called, found, strict=True)
        ]

    def known(self, side: str, id: int) -> int | None:
        """The counterpart that a known link, or a decision, gives an entity."""
        run = self._run
        found: dict[str, dict[int, int]] = run.keep("links", self._known, version=True)
        return found[side].get(id)

    def _known(self) -> dict[str, dict[int, int]]:
        links = self._run.model.known_links()
        return {"left": dict(links.tolist()), "right": dict(links[:, ::-1].tolist())}

    @property
    def share(self) -> float:
        """The share of entities whose matches are kept."""
        if self._version != self._run.version or not self._sides:
            return 0.0
        n = sum(len(kept.done) for kept in self._sides.values())
        return float(sum(kept.done.sum() for kept in self._sides.values()) / max(1, n))

    # In the asking thread

    def _answer(
        self, side: str, called: Sequence[str], top: int, language: str
    ) -> list[dict[str, Any] | RequestError]:
        """An answer, or a failure, for each entity."""
        places: list[int | RequestError] = []
        for name in called:
            try:
                places.append(entity_id(self._run, side, name, near=len(called) <= TOGETHER))
            except RequestError as failure:
                places.append(failure)
        ids = [i for i in places if isinstance(i, int)]
        if top > KEPT:
            distinct = np.unique(np.array(ids, np.int64))
            found = self._find(side, distinct, top) if ids else _Kept(0, top)
            lines = {int(i): found.line(k, top) for k, i in enumerate(distinct)}
        else:
            kept = self._now(side)
            missing = np.unique(np.array([i for i in ids if not kept.has(i)], np.int64))
            if len(missing):
                kept.put(missing, self._find(side, missing, KEPT))
            lines = {i: kept.line(i, top) for i in ids}
        return [
            self._in_words(side, i, lines[i], language) if isinstance(i, int) else i for i in places
        ]

    def _in_words(self, side: str, id: int, line: Line, language: str) -> dict[str, Any]:
        """The matches of an entity, with labels and names."""
        sides, other = self._run.model.growing.sides, OTHER[side]
        graph, own, known = sides[other], sides[side], self.known(side, id)
        listed = line.ids if known is None else [*line.ids, known]
        names, (name,) = shown(graph, listed, language), shown(own, [id], language)
        sure, least = line.confidence, line.least
        counts = known is None and (least is None or (sure is not None and sure >= least))
        matches = [
            {
                "id": graph.entities[place],
                "side": other,
                "name": names[i],
                "rank": i + 1,
                "score": score,
                "confidence": sure if i == 0 else None,
                "chosen": place == known if known is not None else i == 0 and counts,
            }
            for i, (place, score) in enumerate(zip(line.ids, line.scores, strict=True))
        ]
        counterpart = None
        if known is not None:
            counterpart = {"id": graph.entities[known], "side": other, "name": names[-1]}
        return {
            "id": own.entities[id],
            "side": side,
            "name": name,
            "known": counterpart,
            "matches": matches,
            "none_below": least,
        }

    def _find(self, side: str, ids: Sequence[int] | Ids, top: int) -> _Kept:
        """The best matches of some entities."""
        growing = self._run.model.growing
        own, other = growing.sides[side], growing.sides[OTHER[side]]
        labels = own.entities.take(ids)
        table = self._run.model.match(labels, top=top, side=side).to_arrow()
        found = _Kept(len(ids), top)
        rank = np.asarray(table["rank"]) - 1
        row = np.cumsum(rank == 0) - 1
        counterparts = table[OTHER[side]].to_pylist()
        found.ids[row, rank] = other.entities.find_all([x or "" for x in counterparts])
        found.scores[row, rank] = table["score"].fill_null(np.nan).to_numpy()
        sure = table["confidence"].fill_null(np.nan).to_numpy()
        found.confidence[row[rank == 0]] = sure[rank == 0]
        least = self._run.model.thresholds()
        if least is not None:
            new = ~own.arrivals.is_trained(np.asarray(ids, np.int64))
            best = found.ids[:, 0]
            new |= (best >= 0) & ~other.arrivals.is_trained(best.clip(0).astype(np.int64))
            found.least[:] = np.where(new, least[1], least[0])
        found.done[:] = True
        return found

    def _current(self, side: str) -> _Kept | None:
        """What is kept, if it is of the run as it is now."""
        run = self._run
        if self._version != run.version or not run.current:
            return None
        return self._sides.get(side)

    def _now(self, side: str) -> _Kept:
        if self._version != self._run.version:
            self._version, self._sides, self._changed = self._run.version, {}, time.monotonic()
        if side not in self._sides:
            self._sides[side] = _Kept(len(self._run.model.growing.sides[side].entities), KEPT)
        return self._sides[side]

    def _ahead(self) -> float | None:
        """Match some entities that were not asked for; the seconds until there are more to match,
        None if there are no more.
        """
        self._run.refresh()
        for side in self._run.model.growing.sides:
            kept = self._now(side)
            if (left := self._changed + QUIET - time.monotonic()) > 0:
                return left
            missing = np.flatnonzero(~kept.done)[:AHEAD]
            if len(missing):
                kept.put(missing, self._find(side, missing, KEPT))
                return 0.0
        return None


class _Kept:
    """The best matches of entities: ids int32[n, top], -1 for none, scores float32[n, top], the
    confidence in the first, float32[n], the least that counts, and whether they were found.
    """

    def __init__(self, n: int, top: int) -> None:
        self.ids = np.full((n, top), -1, np.int32)
        self.scores = np.full((n, top), np.nan, np.float32)
        self.confidence = np.full(n, np.nan, np.float32)
        self.least = np.full(n, np.nan, np.float32)
        self.done = np.zeros(n, bool)

    def has(self, id: int) -> bool:
        return id < len(self.done) and bool(self.done[id])

    def put(self, ids: Ids, found: _Kept) -> None:
        self.ids[ids], self.scores[ids] = found.ids, found.scores
        self.confidence[ids], self.least[ids] = found.confidence, found.least
        self.done[ids] = True

    def line(self, place: int, top: int) -> Line:
        """What is kept of an entity, as Python objects."""
        there = self.ids[place, :top] >= 0
        return Line(
            self.ids[place, :top][there].tolist(),
            [_number(score) for score in self.scores[place, :top][there]],
            _number(self.confidence[place]),
            _number(self.least[place]),
        )


class Line(NamedTuple):
    """Matches of an entity: ids and scores, best first, the confidence in the first, and the
    least that counts. What was decided has no score.
    """

    ids: list[int]
    scores: list[float | None]
    confidence: float | None
    least: float | None


def _number(value: np.float32) -> float | None:
    return None if np.isnan(value) else float(value)
