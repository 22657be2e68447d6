"""What an aligner can do with what it has learned: match, and say how good its matches are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from torch import Tensor

from decentrl.data.alignment_task import NO_LINKS
from decentrl.data.knowledge_graph import row_keys
from decentrl.data.memory import Source
from decentrl.data.naming import add_names, entity_ids
from decentrl.data.results import ResultTable
from decentrl.data.vocabulary import Ids
from decentrl.errors import ConfigError, InputError, warn_left_out
from decentrl.growth.alignment_state import SIDES, AlignmentState, Side
from decentrl.growth.arriving import called
from decentrl.growth.claims import Claims, find_claims
from decentrl.growth.decided import DecidedPairs
from decentrl.growth.growing_model import GrowingModel
from decentrl.growth.potentials import Matching
from decentrl.growth.rehearsal import PRECISE, GrownConfidence
from decentrl.growth.settled import Settled, count_triples, settled_by
from decentrl.matching.matchers import MATCHERS
from decentrl.matching.matches import Judge, answer, check_question, matches_table, threshold_of
from decentrl.matching.potentials import OTHER
from decentrl.storage.addition import Addition

Assign = Literal["nearest", "mutual", "one-to-one"]
MOST_COMPARED = 2**28
"""Pairs of candidates up to which an addition says what it changed: seconds of matching."""


class MatchingModel(GrowingModel[AlignmentState]):
    """The part of :class:`~decentrl.aligner.Aligner` that matches entities as they are now."""

    def _settled(self) -> AlignmentState:
        learned = super()._settled()
        # What newcomers read is made once, for this state and the one that is written.
        stored = learned.memories if self.config.model.inductive else learned.stored
        settled, potentials = self._stays(), self._undecided.to_tensors()
        return replace(learned, stored=stored, potentials=potentials, settled=settled)

    def _prepare_change(self) -> None:
        super()._prepare_change()
        if not self.growing.durable:  # there it is in the bundle
            self.growing.learned = replace(self.learned, settled=self._stays())

    def _stays(self) -> Settled | None:
        """The matches that stay; those of a state to which nothing was added are found out."""
        learned, growing = self.learned, self.growing
        if learned.settled:
            return learned.settled.without(growing.links)
        if learned.confidence is None or growing.additions:
            return None
        matcher = self.config.matching.matcher
        return Settled.of(growing, self._undecided, matcher, learned.confidence)

    def _judge(self, side: str, mine: Ids, theirs: Ids) -> Judge | None:
        """What says how sure matches of some entities with others are."""
        learned, growing = self.learned, self.growing
        grown = any(len(graph.arrivals.new_entities()) for graph in growing.sides.values())
        if learned.confidence is None or learned.newcomer is None or not grown:
            return learned.confidence
        return GrownConfidence(learned.confidence, learned.newcomer, growing, side, mine, theirs)

    @property
    def _stayed(self) -> Settled | None:
        """The matches that stay, as soon as something has arrived since they were found."""
        settled, growing = self.learned.settled, self.growing
        if settled is None or settled.triples >= count_triples(growing):
            return None
        return self._once("settled", lambda: settled.without(growing.links))

    @property
    def _decided(self) -> DecidedPairs:
        """What was decided, as far as it counts now."""
        growing = self.growing
        return self._once("decided", lambda: growing.decided.pairs(list(growing.sides.values())))

    @property
    def _settled_now(self) -> Settled | None:
        """The matches that stay or were accepted."""
        decided = self._decided
        return settled_by(decided, self._stayed) if decided else self._stayed

    @property
    def _undecided(self) -> Matching:
        """What matches entities as if nothing was decided, with what it has found out so far."""
        settled = self._stayed
        name, links = "matching" if settled is None else "grown", self._known_links
        added = self.growing.links.tobytes()
        return self._once(name, lambda: self._matching_of(links, settled), grows=True, of=added)

    @property
    def _matching(self) -> Matching:
        """What matches entities, after what was decided."""
        decided = self._decided
        if not decided:
            return self._undecided

        def make() -> Matching:
            links, tensors = self._known_links, self._undecided.to_tensors()
            links = links[decided.leaves(links)]
            return self._matching_of(links, self._settled_now, decided.rejected, tensors)

        return self._once("decided matching", make)

    @property
    def _known_links(self) -> Ids:
        """The links that training knew, and those that were added."""
        task = self.learned.task
        return np.concatenate((task.train, task.valid, self.growing.links))

    def _matching_of(
        self,
        links: Ids,
        settled: Settled | None,
        rejected: Ids = NO_LINKS,
        tensors: Mapping[str, Tensor] | None = None,
    ) -> Matching:
        tensors = self.learned.potentials if tensors is None else tensors
        pairs = None if settled is None else settled.pairs
        given = self.growing, self.indexes, self.config.matching, links, tensors
        return Matching(*given, pairs, rejected)

    def add(
        self,
        triples: Source | None = None,
        *,
        side: str | None = None,
        strict: bool = False,
        refresh: bool = False,
        source: str = "",
        names: Source | None = None,
        links: Source | None = None,
    ) -> Addition:
        """Take in new triples of one graph (:meth:`GrowingModel.add`), or links, untrained.

        The entities of links are matched with each other from then on and are no candidates for
        others. Links among those held out to test or to validate on stay held out.

        Args:
            links: pairs of left and right entities that have become known, or a file of them.
        """
        if links is None and triples is not None:
            more: dict[str, Any] = {"source": source, "names": names}
            return super().add(triples, side=side, strict=strict, refresh=refresh, **more)
        if links is None or triples is not None:
            raise ConfigError("give triples or links: each is an addition of its own")
        self._prepare_change()
        task = self.task
        sizes = len(task.left.entities), len(task.right.entities)
        given = task.read_links(links)
        known, tested = (
            np.isin(row_keys(given, sizes), row_keys(others, sizes))
            for others in (np.concatenate((task.train, task.valid)), task.test)
        )
        fresh = given[~known & ~tested]
        counts = {"links": len(fresh), "known": int(known.sum()), "tested": int(tested.sum())}
        if counts["tested"]:
            warn_left_out(f"{counts['tested']:,} links were left out: they are held out to test on")
        addition = self.growing.add_links(fresh, source or called(links, "links"), counts)
        if refresh:
            self.refresh()
        return addition

    def match(
        self,
        entities: Sequence[str] | str | None = None,
        *,
        top: int = 1,
        side: Side = "left",
        matcher: str | None = None,
        assign: Assign = "nearest",
        min_confidence: float | Literal["fitted"] | None = None,
        ann: bool = False,
        language: str = "",
    ) -> ResultTable:
        """The best counterparts of some entities, or of all that no known link names.

        Candidates are the entities of the other graph that no known link has taken. If an asked
        entity is in a known link itself, its counterpart is a candidate too.

        All entities are matched together. The potentials are kept, also by :meth:`save`: later
        questions about some entities take one pass over the candidates.

        Args:
            entities: identifiers or names of entities of ``side``, or one of them.
            top: how many for each.
            matcher: ``cosine``, ``csls``, ``sinkhorn`` or ``blend``; default: the configured one.
            assign: ``nearest`` gives each its best; ``mutual`` only pairs that are each other's
                best; ``one-to-one`` every entity at most once, best pairs of 50 for each first.
            min_confidence: entities whose best match is less sure have none. ``fitted`` is the
                value that was best on the validation links.
            ann: search in an approximate index (FAISS), built at the first such question. It may
                miss candidates, so scores of new or linked entities may differ.
            language: of the names that are shown, where there are some in it.
        Returns:
            table with the columns left, right, rank (1 is best), score and confidence: how likely
            the match is right, null where it was not learned (that takes validation links, the
            configured matcher and rank 1), 1 where it was accepted (:meth:`decide`), then without a
            score; and left_name and right_name, of graphs with names. An
            entity without a match has a null counterpart.
        """
        check_question(top, assign)
        self._side(side)
        matcher = self._matcher(matcher)
        own, other = (self.growing.sides[name] for name in (side, OTHER[side]))
        if entities is None:
            listed = self._matching.unlinked(side).nonzero()[:, 0].numpy()
        else:
            listed = entity_ids(own, entities, self.growing.sides)
        there = own.has_vector().numpy()[listed]
        own_matcher = matcher == self.config.matching.matcher
        settled = self._settled_now
        if entities is None and settled is not None:
            there &= ~np.isin(listed, settled.pairs[:, SIDES.index(side)])
        asked = None if entities is None else listed[there]
        judged = own_matcher and self.learned.confidence is not None
        least = threshold_of(min_confidence, self.learned.confidence if judged else None)
        mine, theirs, *pairs = self._matching.pairs(
            side, asked, matcher, assign, top=top, rivals=judged, ann=ann
        )
        confidence = self._judge(side, mine, theirs) if judged else None
        kept = min(top, max(1, len(theirs)))
        answers = answer(*pairs, top=kept, assign=assign, confidence=confidence, threshold=least)
        answers = answers.spread(np.searchsorted(mine, listed[there]), there)
        if settled is not None:
            theirs, answers = settled.put(SIDES.index(side), listed, theirs, answers)
        names = np.array([*other.entities.take(theirs), None], object)
        counterparts = names[answers.columns.numpy()]
        labels = np.array(own.entities.take(listed), object)
        table = matches_table(labels, counterparts, answers, swapped=side == "right")
        return ResultTable(add_names(table, self.growing.sides, language))

    def claimed(self) -> dict[str, str] | None:
        """The right entity of each left one that is claimed to match, or that an added link names.

        Matches are each other's best.
        With a confidence, it is not less than the fitted threshold. None where there are so many
        pairs that matching them takes longer than an addition.
        """
        left, right = (int(self._matching.candidates(side).sum()) for side in SIDES)
        if left * right > MOST_COMPARED:
            return None
        least: Literal["fitted"] | None = "fitted" if self.learned.confidence else None
        table = self.match(assign="mutual", min_confidence=least)
        rows = zip(*(table[side].to_pylist() for side in SIDES), strict=True)
        links = self.growing.links[self._decided.leaves(self.growing.links)]
        ends = zip(self.growing.sides.values(), links.T, strict=True)
        known = zip(*(graph.entities.take(ids) for graph, ids in ends), strict=True)
        return {mine: theirs for mine, theirs in rows if theirs is not None} | dict(known)

    def arrived_since(self, number: int, side: str = "left") -> list[str]:
        """Entities of a side that came with additions after that number."""
        self._side(side)
        additions = self.growing.additions
        if (additions and number < additions[0][0].number - 1) or not additions:
            first = additions[0][0].number if additions else self.growing.last + 1
            raise InputError(
                f"what came before addition {first} is in the bundle, and not known apart",
                remedy="give a later number, or match without one",
            )
        later = (x for addition, x in additions if addition.number > number and x.side == side)
        return [label for growth in later for label in growth.labels]

    def solved_for(self, side: Side) -> AlignmentState:
        """What was learned, with the potentials that questions about a side need."""
        self._undecided.solve(side, self.config.matching.matcher)
        return replace(self.learned, potentials=self._undecided.to_tensors())

    def candidates(self, side: Side) -> Tensor:
        """Mask of the entities of a side that may be matched: no link or sure match has them."""
        return self._matching.candidates(side)

    def known_links(self) -> Ids:
        """The links that are known now, after what was decided: int64[n, 2]."""
        return self._once("links", lambda: self._decided.links(self._known_links))

    def thresholds(self) -> tuple[float, float] | None:
        """The least confidence of a match, and of one of a newcomer, for ``fitted``; None where
        no confidence was learned.
        """
        sure, newcomer = self.learned.confidence, self.learned.newcomer
        if sure is None:
            return None
        return sure.threshold, max(newcomer.threshold, PRECISE) if newcomer else sure.threshold

    def _matcher(self, name: str | None) -> str:
        name = name or self.config.matching.matcher
        if name not in MATCHERS:
            raise ConfigError(f"no matcher {name!r}; there are: {', '.join(MATCHERS)}")
        return name

    def evaluate_matches(
        self, links: Source | None = None, abstain: bool = False
    ) -> list[dict[str, Any]]:
        """What :meth:`match` finds among everything without a known link.

        Matches less sure than the fitted threshold are left out. Rows have ``hits@1``,
        ``precision``, ``recall`` and ``f1``; where entities came after training, these apart. A
        match of an entity in no test link counts as wrong: where there are others, precision is
        a lower bound.

        Args:
            abstain: by the threshold of ``match --abstain``, which for newcomers is the more
                careful one.
        """
        claims = self._claims(links, abstain)
        if claims is None:
            return []
        matcher = self.config.matching.matcher
        return [{"matcher": matcher, **row} for row in claims.rows(self.growing)]

    def confidence(self, links: Source | None = None) -> dict[str, float]:
        """How sure matches are, checked on links, by default those to test on; empty if that was
        not learned.

        Of all that :meth:`match` gives, matches with an end in such a link count. ``ece`` is the
        expected calibration error (15 bins of equal mass), ``mean`` the mean confidence, ``right``
        the share that is right, ``threshold`` what ``min_confidence="fitted"`` means.
        """
        confidence, claims = self.learned.confidence, self._claims(links)
        found = {} if claims is None else claims.calibration()
        return found | {"threshold": confidence.threshold} if confidence and found else {}

    def _claims(self, links: Source | None, abstain: bool = False) -> Claims | None:
        """The matches of all left entities beside some links; None if there is no link."""
        test = self.task.test if links is None else self.task.read_links(links)
        matcher, settled = self.config.matching.matcher, self._settled_now
        given = self.growing, self._matching, matcher, self._judge, settled, test, abstain
        find = partial(find_claims, *given)
        return self._once("claims", find) if links is None and not abstain else find()
