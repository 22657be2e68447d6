"""Matches of entities: found by the model, and kept until something changes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from decentrl.data.vocabulary import Ids
from decentrl.matching.potentials import OTHER
from decentrl.service.served_run import ServedRun

KEPT = 10
"""Best matches of each entity that are kept."""
AHEAD = 128
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
        self._counterparts: dict[str, dict[int, int]] = {}
        self._links: Any = None
        run.idle = self._ahead

    # Asking

    async def of(self, side: str, ids: Sequence[int], top: int) -> list[dict[str, Any]]:
        """For each entity: ids, scores, the confidence of the first, and the least that counts."""
        if top > KEPT:
            return await self._run.ask(
                lambda: self._find(side, ids, top).lines(range(len(ids)), top)
            )
        if len(ids) == 1:
            if (kept := self._current(side)) is not None and kept.has(ids[0]):
                return kept.lines(ids, top)
            line = await self._run.ask_together(
                ("match", side), ids[0], lambda items: self._answer(side, items)
            )
            return [line | {name: line[name][:top] for name in ("ids", "scores")}]
        lines = await self._run.ask(lambda: self._answer(side, ids))
        return [line | {name: line[name][:top] for name in ("ids", "scores")} for line in lines]

    def known(self, side: str, id: int) -> int | None:
        """The counterpart that a known link gives an entity."""
        task = self._run.model.learned.task
        if self._links is not task:
            links = np.concatenate((task.train, task.valid)).tolist()
            self._counterparts = {
                "left": {left: right for left, right in links},
                "right": {right: left for left, right in links},
            }
            self._links = task
        return self._counterparts[side].get(id)

    @property
    def share(self) -> float:
        """The share of entities whose matches are kept."""
        if self._version != self._run.version or not self._sides:
            return 0.0
        n = sum(len(kept.done) for kept in self._sides.values())
        return float(sum(kept.done.sum() for kept in self._sides.values()) / max(1, n))

    # In the asking thread

    def _answer(self, side: str, ids: Sequence[int]) -> list[dict[str, Any]]:
        kept = self._now(side)
        missing = np.unique([i for i in ids if not kept.has(i)])
        if len(missing):
            kept.put(missing, self._find(side, missing, KEPT))
        return kept.lines(ids, KEPT)

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

    def _ahead(self) -> bool:
        """Match some entities that were not asked for; whether there are more."""
        self._run.refresh()
        for side in self._run.model.growing.sides:
            kept = self._now(side)
            if time.monotonic() - self._changed < QUIET:
                time.sleep(0.01)
                return True
            missing = np.flatnonzero(~kept.done)[:AHEAD]
            if len(missing):
                kept.put(missing, self._find(side, missing, KEPT))
                return True
        return False


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

    def lines(self, ids: Sequence[int] | range, top: int) -> list[dict[str, Any]]:
        """As Python objects."""
        found = []
        for i in ids:
            there = self.ids[i, :top] >= 0
            found.append(
                {
                    "ids": self.ids[i, :top][there].tolist(),
                    "scores": self.scores[i, :top][there].tolist(),
                    "confidence": _number(self.confidence[i]),
                    "least": _number(self.least[i]),
                }
            )
        return found


def _number(value: np.float32) -> float | None:
    return None if np.isnan(value) else float(value)
