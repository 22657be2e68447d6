"""How sure matches of newcomers are, learned by letting some entities arrive late.

Where a graph grows, most newcomers have a triple or two, and few have a counterpart. Held-out links
say nothing of that, as their ends are well known. So ends of some of them are taken out of the
graphs and come back with few of their triples, both of a link or one, among strangers: copies of
other entities with few of their triples, which have no counterpart.
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
)
from decentrl.matching.matches import KEPT
from decentrl.matching.potentials import OTHER

FEWEST = 100
"""Held-out links that a rehearsal takes, at least."""
STRANGERS = 9
"""Newcomers without a counterpart to one with; in ContEA there are about as many."""
MOST_STRANGERS = 6000
CHANCE, MOST = 0.45, 12
"""Of a newcomer's number of triples: the parameter of its geometric distribution, its limit."""
PRECISE = 0.5
"""Confidence without which `match` claims no newcomer when it may abstain."""
Mask = npt.NDArray[np.bool_]
Triples = list[tuple[str, str, str]]


@dataclass(frozen=True, eq=False)
class GrownConfidence:
    """Confidence in matches of graphs that have grown: newcomers have a model of their own.

    Beside the features of all matches it reads in how many triples the entity and its match are,
    and which of the two is new.
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
        sure[new] = self.new(torch.cat((features, more), dim=1)[new])
        return sure

    def least(self, found: Tensor, precise: bool = True) -> Tensor:
        """The confidence below which a match is none, float64[n].

        Args:
            precise: claim newcomers only where that is rather right than wrong.
        """
        new = max(self.new.threshold, PRECISE) if precise else self.new.threshold
        return torch.where(self.facts(found)[1], new, self.old.threshold)

    def facts(self, found: Tensor) -> tuple[Tensor, Tensor]:
        """Features of newness, float64[n, 5], and whether a row or its match is new, bool[n]."""
        return facts_of(self.growing, self.side, self.mine, self.theirs, found)


def facts_of(
    growing: Growing, side: str, mine: Ids, theirs: Ids, found: Tensor
) -> tuple[Tensor, Tensor]:
    """See :meth:`GrownConfidence.facts`; rows for which nothing was found are not new."""
    there = found.numpy() >= 0
    matched = np.zeros(len(mine), np.int64)
    matched[there] = theirs[found.numpy()[there]]
    degrees, new = [], []
    for name, ids in ((side, mine), (OTHER[side], matched)):
        graph = growing.sides[name]
        triples = np.concatenate((graph.trained.triples, graph.arrivals.triples))
        counts = np.bincount(triples[:, [0, 2]].ravel(), minlength=len(graph.entities))
        degrees.append(np.log(counts[ids].clip(1)))
        new.append(~graph.arrivals.is_trained(ids) & there)
    own, other = new
    columns = (*degrees, own & other, own & ~other, ~own & other)
    return torch.from_numpy(np.stack(columns, axis=1).astype(float)), torch.from_numpy(own | other)


def learn_newcomers(state: AlignmentState, valid: Ids, seed: int) -> Confidence | None:
    """Confidence in matches of newcomers, rehearsed; None with too few held-out links.

    Args:
        state: what training has left that has not learned from the held-out links.
        valid: held-out links, int64[n, 2].
    """
    if len(valid) < FEWEST:
        return None
    rng = np.random.default_rng(seed)
    # Of a quarter of the links both ends come late, of a quarter one.
    part = rng.permutation(len(valid)) * 4 // len(valid)
    ends = rng.integers(0, 2, len(valid))
    late = [valid[(part == 2) | ((part == 3) & (ends == i)), i] for i in range(2)]
    graphs = dict(zip(SIDES, (state.task.left, state.task.right), strict=True))
    kept, arriving = {}, {}
    for (side, graph), ids in zip(graphs.items(), late, strict=True):
        kept[side], arriving[side] = _late(graph, ids, rng)
    task = replace(state.task, left=kept["left"], right=kept["right"])
    state = replace(state, task=task, stored=None)
    growing = Growing(replace(state, vectors=state.encoded()[0]))
    for side in SIDES:
        if arriving[side]:
            growing.add(side, arriving[side], "rehearsal")
    return _learned(growing, state, valid)


def _learned(growing: Growing, state: AlignmentState, valid: Ids) -> Confidence:
    """The confidence of newcomers, from graphs to which they were added."""
    config = state.config.matching
    matching = Matching(growing, Indexes(growing, True), config, state.task.train, {})
    mine, theirs, *pairs = matching.pairs_together("left", None, config.matcher, KEPT)
    found, features = evidence(*pairs)
    more, new = facts_of(growing, "left", mine, theirs, found)
    truth = np.full(len(growing.sides["left"].entities), -1)
    truth[valid[:, 0]] = valid[:, 1]
    # Of all others than these and strangers it is not known whether they have a counterpart.
    known = torch.from_numpy((truth[mine] >= 0) | (mine >= len(state.task.left.entities)))
    right = torch.from_numpy(truth[mine] == np.append(theirs, -2)[found.numpy()])
    examples = torch.cat((features, more), dim=1)
    confidence = fit_confidence(examples[known & new], right[known & new])
    sure = confidence(examples).where(new, 0.0)
    arrived = [
        ~growing.sides[side].arrivals.is_trained(valid[:, i]) for i, side in enumerate(SIDES)
    ]
    linked = torch.from_numpy(np.isin(mine, valid[arrived[0] | arrived[1], 0]))
    threshold = choose_threshold(sure[known], (right & new)[known], linked[known])
    return replace(confidence, threshold=threshold)


def _late(
    graph: KnowledgeGraph, late: Ids, rng: np.random.Generator
) -> tuple[KnowledgeGraph, Triples]:
    """A graph without some entities, and triples with which these and strangers come later."""
    gone = np.isin(graph.triples[:, [0, 2]], late).any(axis=1)
    kept = graph.with_triples(graph.triples[~gone])
    there = entities_of(kept.triples, len(graph.entities))
    count = min(STRANGERS * len(late), MOST_STRANGERS)
    copied = rng.choice(np.flatnonzero(there), count)
    own = _incidence(graph)
    labels, relations = (np.array([*words], object) for words in (graph.entities, graph.relations))
    arriving: Triples = []
    for entity, name in (
        *((i, labels[i]) for i in late.tolist()),
        *((i, f"stranger {number} of a rehearsal") for number, i in enumerate(copied.tolist())),
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
