"""Decisions about matches: which pairs are links by now, and which are none.

The log is replayed: a decision counts until it is taken back or a later one contradicts it. Two
decisions contradict each other if they are about the same pair, or accept different counterparts of
one entity. Decisions name entities by their labels; what names an entity that is not there (as its
addition was taken back) waits until it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.naming import Named
from decentrl.data.results import ResultTable
from decentrl.data.vocabulary import Ids
from decentrl.errors import BundleError, InputError
from decentrl.storage.additions import Store
from decentrl.storage.decision import UNDO, Decision, Pair

NO_LINKS: Ids = np.empty((0, 2), np.int64)
COLUMNS = {
    "number": pa.int64(), "left": pa.string(), "right": pa.string(), "verdict": pa.string(),
    "by": pa.string(), "note": pa.string(), "at": pa.string(), "current": pa.bool_(),
}  # fmt: skip
"""Of the table of decisions."""


def standing(log: Iterable[Decision]) -> list[Decision]:
    """The decisions of a log that were not taken back."""
    left: list[Decision] = []
    for decision in log:
        if decision.verdict == UNDO:
            left.pop()
        else:
            left.append(decision)
    return left


def current(log: Iterable[Decision]) -> dict[Pair, Decision]:
    """What counts now about each pair that was decided on."""
    found: dict[Pair, Decision] = {}
    accepted: dict[tuple[int, str], list[Pair]] = {}  # by side and label
    for decision in standing(log):
        if decision.verdict == "accept":
            ends = {end for pair in decision.pairs for end in enumerate(pair)}
            for other in (pair for end in ends for pair in accepted.pop(end, ())):
                if other in found and found[other].verdict == "accept":
                    del found[other]
            for pair in decision.pairs:
                for end in enumerate(pair):
                    accepted.setdefault(end, []).append(pair)
        found |= dict.fromkeys(decision.pairs, decision)
    return found


@dataclass(frozen=True, eq=False)
class DecidedPairs:
    """The pairs that count now, int64[n, 2] each: ids of a left and a right entity."""

    accepted: Ids
    rejected: Ids
    skipped: Ids

    def __bool__(self) -> bool:
        return len(self.accepted) + len(self.rejected) > 0

    def links(self, known: Ids) -> Ids:
        """Known links after these decisions: with the accepted, without what contradicts them."""
        return np.concatenate((known[self.leaves(known)], self.accepted))

    def leaves(self, pairs: Ids) -> npt.NDArray[np.bool_]:
        """Which pairs, int64[n, 2], were not rejected and share no entity with an accepted one."""
        taken = [np.isin(pairs[:, side], self.accepted[:, side]) for side in (0, 1)]
        kept: npt.NDArray[np.bool_] = ~(taken[0] | taken[1] | among(pairs, self.rejected))
        return kept


def among(pairs: Ids, others: Ids) -> npt.NDArray[np.bool_]:
    """Which of some pairs, int64[n, 2], are among others, bool[n]; none with an id of -1 is."""
    width = 1 + max((int(x.max()) for x in (pairs[:, 1], others[:, 1]) if len(x)), default=0)
    keys, gone = (x[:, 0] * width + x[:, 1] for x in (pairs, others))
    found = np.isin(keys, gone)
    return found & (pairs >= 0).all(axis=1)


def most_of_one(pairs: Ids) -> int:
    """In how many of some pairs, int64[n, 2], one entity is at most."""
    return max(int(np.unique(ends, return_counts=True)[1].max(initial=0)) for ends in pairs.T)


class Decided:
    """The log of decisions of one model; in its store if it has one that is open for writing."""

    def __init__(self, log: Sequence[Decision] = ()) -> None:
        self.log: tuple[Decision, ...] = tuple(log)

    def sync(self, store: Store | None) -> bool:
        """Take in what another process has decided; whether that was anything."""
        more = [] if store is None else store.decisions(len(self.log))
        self.log += tuple(more)
        return bool(more)

    def write(
        self,
        store: Store | None,
        verdict: str,
        pairs: Sequence[Pair],
        by: str = "",
        note: str = "",
    ) -> Decision:
        """Log a decision; if there is a store, it is on disk when this returns."""
        decision = Decision.now(len(self.log) + 1, verdict, pairs, by, note)
        if store is not None:
            store.decide([decision])
        self.log += (decision,)
        return decision

    def undo(self, store: Store | None, by: str = "") -> Decision:
        """Take back the last decision that stands; that is logged, too."""
        left = standing(self.log)
        if not left or left[-1].learned:
            remedy = "a training has learned from it; decide anew" if left else "decide first"
            raise InputError("there is no decision to take back", remedy=remedy)
        self.write(store, UNDO, left[-1].pairs, by)
        return left[-1]

    def save(self, folder: Path, base: str) -> None:
        """Keep the log in a new store of the bundle ``base``, or what that lacks of it."""
        if self.log:
            with Store(folder, base, write=True) as store:
                store.decide(self.log[len(store.decisions()) :])

    def begins_with(self, folder: Path) -> bool:
        """Whether a store has no additions, and no decisions but the first of this log."""
        try:
            with Store(folder, "") as store:  # the bundle matters to additions alone
                there = tuple(store.decisions())
        except BundleError:
            return False
        return there == self.log[: len(there)]

    def learned(self) -> Decided:
        """The same log, for a model that has learned from it."""
        return Decided([replace(decision, learned=True) for decision in self.log])

    def pairs(self, graphs: Sequence[Named]) -> DecidedPairs:
        """What counts now, between entities of two graphs."""
        found = current(self.log)
        ids = {
            verdict: _ids([pair for pair, x in found.items() if x.verdict == verdict], graphs)
            for verdict in ("accept", "reject", "skip")
        }
        return DecidedPairs(ids["accept"], ids["reject"], ids["skip"])

    def learned_by(self, task: AlignmentTask) -> AlignmentTask:
        """The task whose known links are those after these decisions, of which none is tested."""
        found = self.pairs((task.left, task.right))
        if not found:
            return task
        tested = ~among(task.test, found.accepted)
        return replace(
            task,
            train=found.links(task.train),
            valid=task.valid[found.leaves(task.valid)],
            test=task.test[tested],
            unknown=None if task.unknown is None else task.unknown[tested],
            rejected=found.rejected,
        )

    def table(self) -> ResultTable:
        """Every decision, the oldest first, one row a pair."""
        counts = current(self.log)
        return ResultTable.from_rows(
            [
                {
                    "number": decision.number, "left": pair[0], "right": pair[1],
                    "verdict": decision.verdict, "by": decision.by, "note": decision.note,
                    "at": decision.time, "current": counts.get(pair) is decision,
                }
                for decision in self.log
                for pair in decision.pairs
            ],
            pa.schema(COLUMNS),
        )  # fmt: skip


def _ids(pairs: Sequence[Pair], graphs: Sequence[Named]) -> Ids:
    """Ids of pairs whose ends are there, int64[n, 2]."""
    sides = zip(*pairs, strict=True) if pairs else ((), ())
    ends = zip(graphs, sides, strict=True)
    found: Ids = np.stack([graph.entities.find_all(list(labels)) for graph, labels in ends], axis=1)
    return found[(found >= 0).all(axis=1)]
