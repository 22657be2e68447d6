"""How sure matches of newcomers are, learned by letting some entities arrive late.

Where a graph grows, most newcomers have a triple or two, and few have a counterpart. Held-out links
say nothing of that, as their ends are well known. So ends of some of them are taken out of the
graphs and come back with few of their triples, both of a link or one. Of most links one end comes
back and the other never does: these are strangers, which have no counterpart. Around them copies of
other entities arrive, of which nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.vocabulary import Ids
from decentrl.graph.view import entities_of
from decentrl.growth.alignment_state import SIDES, AlignmentState
from decentrl.growth.growing import Growing
from decentrl.growth.neighbours import Indexes
from decentrl.growth.potentials import Matching
from decentrl.matching.confidence import (
    Confidence,
    choose_threshold,
    evidence,
    fit_confidence,
    precise_threshold,
)
from decentrl.matching.matches import KEPT
from decentrl.matching.potentials import OTHER

FEWEST = 100
"""Held-out links that a rehearsal takes, at least."""
BOTH, ONE = 0.2, 0.2
"""Shares of them of which both ends come late, or one; of the others one end has no counterpart."""
STRANGERS = 9
"""Newcomers without a counterpart to one with, as they count; in ContEA there are about as many."""
COPIES, MOST_COPIES = 5, 3000
"""Copies of other entities to a late one that arrive beside them, and their most on each side."""
CHANCE, MOST = 0.45, 12
"""Of a newcomer's number of triples: the parameter of its geometric distribution, its limit."""
PRECISE = 0.5
"""How much of what is claimed for newcomers is right when `match` may abstain."""
FACTS = 7
"""Features of newness."""
Mask = npt.NDArray[np.bool_]
Triples = list[tuple[str, str, str]]


@dataclass(frozen=True, eq=False)
class GrownConfidence:
    """Confidence in matches of graphs that have grown: newcomers have a model of their own.

    Beside the features of all matches it reads in how many triples the entity and its match are,
    how many others have the rarest of their triples, and which of the two is new.
    """

    old: Confidence
    new: Confidence
    growing: Growing
    side: str
    mine: Ids  # ids of the rows
    theirs: Ids  # ids of the columns

    def of(self, found: Tensor, features: Tensor) -> Tensor:
        """Probability that the found column of each row is right, float64[n]."""
        more, new = self.facts(found)
        sure = self.old(features)
        # The model of an earlier bundle reads the first ones only.
        sure[new] = self.new(torch.cat((features, more), dim=1)[new, : len(self.new.mean)])
        return sure

    def least(self, found: Tensor, precise: bool = True) -> Tensor:
        """The confidence below which a match is none, float64[n].

        Args:
            precise: claim newcomers only where that is rather right than wrong.
        """
        new = self.new.threshold
        if precise:
            new = max(new, PRECISE if self.new.precise is None else self.new.precise)
        return torch.where(self.facts(found)[1], new, self.old.threshold)

    def facts(self, found: Tensor) -> tuple[Tensor, Tensor]:
        """Features of newness, float64[n, FACTS]; which rows or matches are new, bool[n]."""
        return facts_of(self.growing, self.side, self.mine, self.theirs, found)


def facts_of(
    growing: Growing, side: str, mine: Ids, theirs: Ids, found: Tensor
) -> tuple[Tensor, Tensor]:
    """See :meth:`GrownConfidence.facts`; rows for which nothing was found are not new."""
    there = found.numpy() >= 0
    matched = np.zeros(len(mine), np.int64)
    matched[there] = theirs[found.numpy()[there]]
    degrees, shared, new = [], [], []
    for name, ids in ((side, mine), (OTHER[side], matched)):
        graph = growing.sides[name]
        triples = np.concatenate((graph.trained.triples, graph.arrivals.triples))
        counts = np.bincount(triples[:, [0, 2]].ravel(), minlength=len(graph.entities))
        degrees.append(np.log(counts[ids].clip(1)))
        shared.append(np.log(rarest(triples, ids, len(graph.entities))))
        new.append(~graph.arrivals.is_trained(ids) & there)
    own, other = new
    columns = (*degrees, own & other, own & ~other, ~own & other, *shared)
    return torch.from_numpy(np.stack(columns, axis=1).astype(float)), torch.from_numpy(own | other)


def rarest(triples: Ids, ids: Ids, n: int) -> Ids:
    """How many of n entities have the rarest triple of each of some, with it, int64[k], or 1.

    A triple of an entity is a relation, its direction and the entity at the other end.
    """
    asked = np.zeros(n, bool)
    asked[ids] = True
    ends = np.concatenate((triples[:, 0], triples[:, 2]))
    heads, relations, tails = triples.T
    keys = np.concatenate((2 * relations * n + tails, (2 * relations + 1) * n + heads))
    own = asked[ends]
    some, which = np.unique(keys[own], return_inverse=True)
    fewest = np.full(n, np.iinfo(np.int64).max)
    if len(some):
        place = np.searchsorted(some, keys).clip(max=len(some) - 1)
        counts = np.bincount(place[some[place] == keys], minlength=len(some))
        np.minimum.at(fewest, ends[own], counts[which.ravel()])
    found: Ids = np.where(fewest == np.iinfo(np.int64).max, 1, fewest)[ids]
    return found


@dataclass(frozen=True, eq=False)
class Cast:
    """Who arrives in a rehearsal: of each side late ends of links, and ends without their other."""

    linked: Ids  # int64[k, 2], the links of late ends
    late: tuple[Ids, Ids]
    strangers: tuple[Ids, Ids]
    gone: tuple[Ids, Ids]  # the counterparts of strangers of the other side, which never come

    @classmethod
    def of(cls, links: Ids, rng: np.random.Generator) -> Cast:
        """The ends of held-out links, at random."""
        place, side = rng.permutation(len(links)) / len(links), rng.integers(0, 2, len(links))
        both, linked = place < BOTH, place < BOTH + ONE

        def ends(chosen: tuple[Mask, Mask]) -> tuple[Ids, Ids]:
            return links[chosen[0], 0], links[chosen[1], 1]

        left, right = side == 0, side == 1
        return cls(
            links[linked],
            late=ends((both | (linked & left), both | (linked & right))),
            strangers=ends((~linked & left, ~linked & right)),
            gone=ends((~linked & right, ~linked & left)),
        )


def learn_newcomers(state: AlignmentState, valid: Ids, seed: int) -> Confidence | None:
    """Confidence in matches of newcomers, rehearsed; None with too few held-out links.

    Args:
        state: what training has left that has not learned from the held-out links.
        valid: held-out links, int64[n, 2].
    """
    if len(valid) < FEWEST:
        return None
    rng = np.random.default_rng(seed)
    cast = Cast.of(valid, rng)
    graphs = dict(zip(SIDES, (state.task.left, state.task.right), strict=True))
    kept, arriving = {}, {}
    for i, (side, graph) in enumerate(graphs.items()):
        ends = np.concatenate((cast.late[i], cast.strangers[i]))
        kept[side], arriving[side] = _late(graph, ends, cast.gone[i], rng)
    task = replace(state.task, left=kept["left"], right=kept["right"])
    state = replace(state, task=task, stored=None)
    growing = Growing(replace(state, vectors=state.encoded()[0]))
    for side in SIDES:
        if arriving[side]:
            growing.add(side, arriving[side], "rehearsal")
    return _learned(growing, state, cast)


def _learned(growing: Growing, state: AlignmentState, cast: Cast) -> Confidence:
    """The confidence of newcomers, from graphs to which they were added."""
    config = state.config.matching
    matching = Matching(growing, Indexes(growing, True), config, state.task.train, {})
    mine, theirs, *pairs = matching.pairs_together("left", None, config.matcher, KEPT)
    found, features = evidence(*pairs)
    more, new = facts_of(growing, "left", mine, theirs, found)
    matched = np.append(theirs, -1)[found.numpy()]
    truth = np.full(len(growing.sides["left"].entities), -2)
    truth[cast.linked[:, 0]] = cast.linked[:, 1]
    linked = np.isin(mine, cast.linked[:, 0])
    alone = np.isin(mine, cast.strangers[0]) | np.isin(matched, cast.strangers[1])
    # A match is wrong, too, if that is known of the entity on the right alone.
    known = torch.from_numpy(linked | np.isin(matched, cast.linked[:, 1]) | alone)
    right = torch.from_numpy(truth[mine] == matched) & new
    late, strangers = (sum(map(len, x)) for x in (cast.late, cast.strangers))
    weights = torch.from_numpy(np.where(alone, STRANGERS * late / max(1, strangers), 1.0))
    examples, used = torch.cat((features, more), dim=1), known & new
    confidence = fit_confidence(examples[used], right[used], weights[used])
    sure = confidence(examples).where(new, 0.0)
    counted = used | torch.from_numpy(linked)
    there = torch.from_numpy(linked)[counted]
    threshold = choose_threshold(sure[counted], right[counted], there, weights[counted])
    precise = precise_threshold(sure[used], right[used], PRECISE, weights[used])
    return replace(confidence, threshold=threshold, precise=precise)


def _late(
    graph: KnowledgeGraph, late: Ids, gone: Ids, rng: np.random.Generator
) -> tuple[KnowledgeGraph, Triples]:
    """A graph without some entities, and triples with which ``late`` ones and others come."""
    out = np.isin(graph.triples[:, [0, 2]], np.concatenate((late, gone))).any(axis=1)
    kept = graph.with_triples(graph.triples[~out])
    there = entities_of(kept.triples, len(graph.entities))
    copied = rng.choice(np.flatnonzero(there), min(COPIES * len(late), MOST_COPIES))
    own = _incidence(graph)
    labels, relations = (np.array([*words], object) for words in (graph.entities, graph.relations))
    arriving: Triples = []
    for entity, name in (
        *((i, labels[i]) for i in late.tolist()),
        *((i, f"copy {number} of a rehearsal") for number, i in enumerate(copied.tolist())),
    ):
        triples = graph.triples[own(entity)]
        others = triples[:, [0, 2]].sum(axis=1) - entity
        some = triples[there[others]]
        size = min(MOST, rng.geometric(CHANCE))
        for h, r, t in rng.permutation(some)[:size].tolist():
            head, tail = (name if x == entity else labels[x] for x in (h, t))
            arriving.append((head, relations[r], tail))
    return kept, arriving


def _incidence(graph: KnowledgeGraph) -> Callable[[int], Ids]:
    """A function from an entity to the places of its triples."""
    ends = graph.triples[:, [0, 2]].ravel()
    order = ends.argsort(kind="stable")
    offsets = np.searchsorted(ends[order], np.arange(len(graph.entities) + 1))
    places = order // 2

    def own(entity: int) -> Ids:
        found: Ids = np.unique(places[offsets[entity] : offsets[entity + 1]])
        return found

    return own
