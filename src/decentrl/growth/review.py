"""The review queue: matches in the order in which looking at them is worth most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.data.vocabulary import Ids
from decentrl.growth.decided import DecidedPairs, among, current
from decentrl.growth.growing import Growing
from decentrl.growth.growing_graph import GrowingGraph
from decentrl.growth.nearby import doubt_nearby
from decentrl.growth.potentials import Matching
from decentrl.growth.settled import Settled
from decentrl.matching.confidence import CAP, evidence, fit_confidence
from decentrl.matching.matches import Judge
from decentrl.matching.potentials import scale_of
from decentrl.matching.sparse import SparseScores

FOUND = 10
"""Candidates of each entity that are looked through; some may have been rejected or taken."""
SHOWN = 4
"""Alternatives of an item."""
FEWEST = 5
"""Matches that were accepted, and as many rejected, before the order learns from decisions."""
ALONE = 0.01
"""What a match counts beside which no other is in doubt; a neighbour's doubt is at most 1/4."""


@dataclass(frozen=True)
class Candidate:
    """A right entity that may be the match of an item's left one."""

    right: str
    confidence: float | None
    score: float
    right_name: str | None = None


@dataclass(frozen=True)
class ReviewItem:
    """A match to look at.

    Attributes:
        confidence: how likely it is right; None if that was not learned.
        alternatives: the next candidates, best first.
        decision: ``skip`` if it was skipped; what was accepted or rejected is in no queue.
    """

    left: str
    right: str
    confidence: float | None
    score: float
    alternatives: tuple[Candidate, ...] = ()
    decision: str | None = None
    left_name: str | None = None
    right_name: str | None = None


@dataclass(frozen=True)
class Progress:
    """How far a review is.

    Attributes:
        decided: pairs about which a decision counts: accepted, rejected and skipped ones.
        remaining: matches that were not looked at yet.
        estimated_precision: the share of right ones that is expected among all that is accepted or
            surer than the threshold; None if no confidence was learned.
        based_on: what that estimate is made of, in words.
    """

    decided: int
    accepted: int
    rejected: int
    skipped: int
    remaining: int
    estimated_precision: float | None
    based_on: str


@dataclass(frozen=True)
class ReviewQueue:
    """Some items of the queue, and how far the review is.

    Attributes:
        total: how many items the whole queue has.
    """

    items: tuple[ReviewItem, ...]
    progress: Progress
    total: int


class Review:
    """The matches of the left entities that nothing was decided about.

    They are found as if nothing was decided, then what was rejected or taken is left out: so
    a decision moves no other item, and the next page is there at once.

    Args:
        undecided: what matches entities without decisions.
        judge: from a side, ids of rows and ids of columns to what says how sure matches are.
        settled: the matches that stay, and those that were accepted.
    """

    def __init__(
        self,
        growing: Growing,
        undecided: Matching,
        config: MatchingConfig,
        judge: Callable[[str, Ids, Ids], Judge | None],
        decided: DecidedPairs,
        settled: Settled | None,
    ) -> None:
        self.growing, self.decided, self.settled = growing, decided, settled
        self.mine, self.theirs, pairs, cosines = undecided.pairs_together(
            "left", None, config.matcher, FOUND
        )
        ends = self.mine[pairs.rows.cpu().numpy()], self.theirs[pairs.columns.cpu().numpy()]
        every = np.stack(ends, axis=1)
        taken = [np.isin(every[:, side], decided.accepted[:, side]) for side in (0, 1)]
        free = torch.from_numpy(~(taken[0] | taken[1] | among(every, decided.rejected)))
        self.pairs, self.cosines = (x.where(free.to(x.rows.device)) for x in (pairs, cosines))
        self.before = evidence(pairs, cosines)[1]  # as those see it who decide first
        self.found, self.features = evidence(self.pairs, self.cosines)
        self.judge = judge("left", self.mine, self.theirs)
        self.sure = None if self.judge is None else self.judge.of(self.found, self.features)
        self.temperature = config.temperature * scale_of(config.matcher)

    # The order

    def order(self) -> Ids:
        """Rows with a match, those worth most first; skipped ones come last."""
        rows = (self.found >= 0).nonzero()[:, 0].numpy()
        worth = self.worth()[rows]
        skipped = np.isin(rows, self.skipped_rows())
        order: Ids = rows[np.lexsort((self.mine[rows], -worth, skipped))]
        return order

    def worth(self) -> Any:
        """How much it is worth to look at each row's match, float64[n].

        That is the doubt about it, chance · (1 - chance), times the doubts about pairs of
        neighbours, as an answer tells about these, too. Without a confidence it is the doubt which
        candidate is right, times the chance that one of them is: many entities have no
        counterpart, and to look at these teaches nothing.
        """
        every, places = shares(self.pairs, self.temperature), self.pairs.places(1)[:, 0]
        share = torch.where(places >= 0, every[places], 0.0).cpu()
        own = _doubt(share) * self.yields() if self.sure is None else _doubt(self.sure)
        return (own * (ALONE + self.doubt_nearby(_doubt(every).cpu()))).numpy()

    def doubt_nearby(self, doubt: Tensor) -> Tensor:
        """The doubt about pairs of neighbours of each row's match, float64[n]."""
        rows = (self.found >= 0).nonzero()[:, 0].numpy()
        matches = self.mine[rows], self.theirs[self.found.numpy()[rows]]
        ends = (self.mine, self.pairs.rows), (self.theirs, self.pairs.columns)
        pairs = [ids[index.cpu().numpy()] for ids, index in ends]
        graphs = self.growing.sides["left"], self.growing.sides["right"]
        near = doubt_nearby(graphs, np.stack(matches, 1), np.stack(pairs, 1), doubt.numpy())
        made = torch.zeros(len(self.mine), dtype=torch.float64)
        made[torch.from_numpy(rows)] = torch.from_numpy(near)
        return made

    def yields(self) -> Tensor:
        """The chance that a look at each row ends with an accepted pair, float64[n].

        Learned from the decisions so far by logistic regression on the features of matches; with
        fewer than FEWEST of either outcome it is the rank of the cosine, 0 to 1.
        """
        looked: dict[str, bool] = {}
        for (left, _), decision in current(self.growing.decided.log).items():
            if decision.verdict != "skip":
                looked[left] = looked.get(left, False) or decision.verdict == "accept"
        ids = self.growing.sides["left"].entities.find_all(looked)
        rows = np.searchsorted(self.mine, ids).clip(max=max(0, len(self.mine) - 1))
        there = self.mine[rows] == ids if len(self.mine) else np.zeros(len(ids), bool)
        good = torch.tensor(list(looked.values()), dtype=torch.bool)[torch.from_numpy(there)]
        if min(int(good.sum()), int((~good).sum())) < FEWEST:
            order = self.features[:, 2].nan_to_num(-1).argsort().argsort()
            return order.double() / max(1, len(order))
        return fit_confidence(self.before[torch.from_numpy(rows[there])], good)(self.features)

    def skipped_rows(self) -> Ids:
        """Rows whose match was skipped."""
        there = (self.found >= 0).numpy()
        best = self.theirs[self.found.clamp(min=0).numpy()] if len(self.theirs) else self.mine
        skipped = among(np.stack((self.mine, best), axis=1), self.decided.skipped) & there
        return np.flatnonzero(skipped)

    # What is shown

    def queue(self, limit: int, offset: int, language: str = "") -> ReviewQueue:
        """Some items of the queue, with names in a language where there are some."""
        order = self.order()
        items = self.items(order[offset : offset + limit], language)
        return ReviewQueue(tuple(items), self.progress(order), len(order))

    def items(self, rows: Ids, language: str = "") -> list[ReviewItem]:
        """What is shown of some rows, each with a match."""
        places = self.pairs.places(SHOWN + 1)[torch.from_numpy(rows)]
        chances = [self.chances(rows, places[:, rank], rank) for rank in range(places.shape[1])]
        skipped, sides = set(self.skipped_rows().tolist()), self.growing.sides
        lefts = _called(sides["left"], self.mine[rows], language)
        found = []
        for i, (row, own) in enumerate(zip(rows.tolist(), places, strict=True)):
            own = own[own >= 0]
            rights = self.theirs[self.pairs.columns[own].cpu().numpy()]
            called = zip(
                _called(sides["right"], rights, language),
                self.pairs.values[own].tolist(),
                strict=True,
            )
            first, *others = (
                Candidate(label, chances[rank][i], score, name)
                for rank, ((label, name), score) in enumerate(called)
            )
            found.append(
                ReviewItem(
                    lefts[i][0],
                    first.right,
                    first.confidence,
                    first.score,
                    tuple(others),
                    "skip" if row in skipped else None,
                    lefts[i][1],
                    first.right_name,
                )
            )
        return found

    def chances(self, rows: Ids, places: Tensor, rank: int) -> list[float | None]:
        """How likely the candidates of some rows are right; -1 in ``places`` for none.

        Those after the first are judged like a best one and have at most what the first leaves.
        """
        if self.judge is None or self.sure is None:
            return [None] * len(rows)
        chosen = torch.from_numpy(rows)
        if not rank:
            return list(self.sure[chosen].tolist())
        there = (places >= 0).cpu()
        features, found = torch.full_like(self.features, torch.nan), torch.full_like(self.found, -1)
        features[chosen[there]] = self.features_of(places[places >= 0])
        found[chosen[there]] = self.pairs.columns[places[places >= 0]].cpu()
        chance = self.judge.of(found, features)[chosen]
        return list(torch.minimum(chance, 1 - self.sure[chosen]).tolist())

    def features_of(self, places: Tensor) -> Tensor:
        """Features of pairs that are not the best of their rows, float64[k, F].

        As those of :func:`~decentrl.matching.confidence.evidence`, but for a negative margin.
        """
        pairs = self.pairs
        rows, columns = pairs.rows[places], pairs.columns[places]
        claims, claimants = self.claims
        best = self.best[rows].double()
        own = claimants[columns, 0] == rows
        rival = torch.where(own, claims[columns, 1], claims[columns, 0]).double()
        value, cosine = (x.values[places].double() for x in (pairs, self.cosines))
        made = torch.stack((value, value - best, cosine, value - rival), dim=1)
        made[:, [1, 3]] = made[:, [1, 3]].clamp(max=CAP)
        return made.cpu()

    @cached_property
    def claims(self) -> tuple[Tensor, Tensor]:
        """The two best scores of each column, and whose they are."""
        return self.pairs.T.best(2)

    @cached_property
    def best(self) -> Tensor:
        """The best score of each row."""
        return self.pairs.best(1)[0][:, 0]

    def progress(self, order: Ids) -> Progress:
        counts = dict.fromkeys(("accept", "reject", "skip"), 0)
        for decision in current(self.growing.decided.log).values():
            counts[decision.verdict] += 1
        accepted, skipped = counts["accept"], len(self.skipped_rows())
        return Progress(
            sum(counts.values()),
            accepted,
            counts["reject"],
            counts["skip"],
            len(order) - skipped,
            *self.precision(accepted, order),
        )

    def precision(self, accepted: int, order: Ids) -> tuple[float | None, str]:
        """The precision that is expected, and what it is based on."""
        if self.judge is None or self.sure is None:
            return None, "no confidence was learned in this run (training.valid is 0)"
        rows = torch.from_numpy(order)
        sure = self.sure[rows]
        sure = sure[sure >= self.judge.least(self.found, precise=False)[rows]]
        if self.settled is not None:
            stays = self.settled.confidence.double()
            sure = torch.cat((sure, stays[~self.settled.scores.isnan()]))
        size = accepted + len(sure)
        if not size:
            return None, "nothing is accepted, and no match is surer than the threshold"
        share = (accepted + float(sure.sum())) / size
        return share, (
            f"{accepted:,} accepted, taken as right, and the mean confidence "
            f"of {len(sure):,} other matches above the threshold"
        )


def _called(graph: GrowingGraph, ids: Ids, language: str) -> list[tuple[str, str | None]]:
    """Labels of entities, and their names where there are some."""
    labels = graph.entities.take(ids)
    names = graph.names.shown(ids, language) if graph.names else [""] * len(ids)
    return [(label, name or None) for label, name in zip(labels, names, strict=True)]


def _doubt(chance: Tensor) -> Tensor:
    """How little is known if something has a chance: most at one half."""
    return chance * (1 - chance)


def shares(pairs: SparseScores, temperature: float) -> Tensor:
    """How far each pair stands out, float64[number of pairs], 0 to 1: the lesser of its shares of
    exp(score / temperature) in its row and in its column.
    """
    logits = pairs.values.double() / temperature
    return torch.minimum(
        *(
            (logits - _log_sums(logits, ends, size)[ends]).exp()
            for ends, size in zip((pairs.rows, pairs.columns), pairs.shape, strict=True)
        )
    )


def _log_sums(values: Tensor, index: Tensor, size: int) -> Tensor:
    """log Σ exp(value) of each group, float[size]."""
    highest = values.new_full((size,), -torch.inf).scatter_reduce(0, index, values, "amax")
    sums = values.new_zeros(size).scatter_add(0, index, (values - highest[index]).exp())
    return highest + sums.log()
