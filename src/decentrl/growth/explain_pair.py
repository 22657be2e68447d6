"""Why two entities are a match, or are none: from their vectors, neighbours, names and rivals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from decentrl.data.ngrams import buckets_in, folded
from decentrl.data.vocabulary import Ids
from decentrl.graph.arrivals import Neighbourhood
from decentrl.graph.texts import N_BUCKETS
from decentrl.growth.alignment_state import SIDES, AlignmentState, Side
from decentrl.growth.explanation import around, neighbour_weights, remade
from decentrl.growth.growing import Growing
from decentrl.growth.neighbours import no_vector
from decentrl.growth.newcomers import VECTORS
from decentrl.growth.pair_explanation import (
    STRUCTURE,
    Called,
    PairExplanation,
    Rival,
    SharedNeighbour,
    Without,
)
from decentrl.growth.potentials import Matching
from decentrl.growth.shared_neighbours import (
    Kind,
    Links,
    Shared,
    Weights,
    relations_by_neighbour,
    shared_neighbours,
)
from decentrl.matching.matches import KEPT, answer
from decentrl.matching.potentials import OTHER, scale_of
from decentrl.views.text import SHARED, NameView

NAMES = NameView.called
_IN_COMMON = 5  # words or pieces of names that are listed
_COMPARED = 10_000  # characters of an entity's names in which pieces of words are looked for


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of one entity, with the score and cosine of each, float64[c]."""

    ids: Ids
    scores: Tensor
    cosines: Tensor

    def place(self, entity: int) -> int | None:
        """Where an entity is among them."""
        found = np.flatnonzero(self.ids == entity)
        return int(found[0]) if len(found) else None

    def rank(self, entity: int) -> int | None:
        """The rank of an entity, 1 for the best; None if it is no candidate."""
        place = self.place(entity)
        return None if place is None else 1 + int((self.scores > self.scores[place]).sum())


def best(scores: Tensor, but: int | None = None) -> int | None:
    """The place of the highest score, of equal ones the first; perhaps without one place."""
    scores = scores.clone()
    if but is not None:
        scores[but] = -torch.inf
    return int(scores.numpy().argmax()) if scores.isfinite().any() else None


@dataclass(frozen=True, eq=False)
class PairExplainer:
    """Explains pairs of entities of what an aligner has learned.

    Attributes:
        matching: what matches entities, for scores and for matches among neighbours.
        language: of the names that are shown.
    """

    growing: Growing
    matching: Matching
    language: str = ""

    @property
    def _learned(self) -> AlignmentState:
        learned: AlignmentState = self.growing.learned
        return learned

    @property
    def _matcher(self) -> str:
        return str(self._learned.config.matching.matcher)

    def explain(self, left: int, right: int, shown: int) -> PairExplanation:
        """Explain a pair.

        Args:
            left, right: ids in their graphs.
            shown: how many shared neighbours to list.
        """
        ends: dict[Side, int] = {"left": left, "right": right}
        for side, entity in ends.items():
            if not self.growing.sides[side].has_vector()[entity]:
                raise no_vector(self.growing.sides[side], entity)
        task = self._learned.task
        known = Links(np.concatenate((task.train, task.valid)))
        links: dict[Kind, Links] = {"known": known, "found": Links(self._learned.found)}
        link = next((kind for kind, some in links.items() if right in some.of(left)), None)
        candidates, confidence = self._candidates("left", left)
        back = self._candidates("right", right)[0]
        place, first = candidates.place(right), best(candidates.scores)
        parts = self._parts(ends)
        shared, listed = self._shared(ends, links, parts, shown)
        shares = self._shares(left, right)
        names = {side: self._names(side, entity) for side, entity in ends.items()}
        linked = {
            side: None if link == "known" else self._linked(known, side, entity)
            for side, entity in ends.items()
        }
        return PairExplanation(
            left=self._called("left", left),
            right=self._called("right", right),
            link=link or "",
            left_linked=linked["left"],
            right_linked=linked["right"],
            matcher=self._matcher,
            score=None if place is None else float(candidates.scores[place]),
            cosine=self._cosine(left, right),
            rank=candidates.rank(right),
            reverse_rank=back.rank(left),
            confidence=confidence if place is not None and place == first else None,
            shares=shares,
            shared=listed,
            more=len(shared) - len(listed),
            left_names=names["left"],
            right_names=names["right"],
            in_common=self._in_common(*names.values()) if NAMES in shares else (),
            first=None if first is None else self._called("right", int(candidates.ids[first])),
            rivals=tuple(self._rivals(ends, {"left": candidates, "right": back})),
            without=()
            if place is None
            else (
                *self._without_views(left, place, candidates),
                *self._without_neighbours(
                    left, place, candidates, parts.get("left"), shared[: len(listed)]
                ),
            ),
        )

    def _called(self, side: str, entity: int) -> Called:
        graph = self.growing.sides[side]
        return Called(graph.entities[entity], graph.names.shown([entity], self.language)[0])

    def _names(self, side: str, entity: int) -> tuple[str, ...]:
        """All names of an entity, each once."""
        named = self.growing.sides[side].names.of(entity)
        return tuple(dict.fromkeys(text for text, _ in named))

    def _linked(self, links: Links, side: str, entity: int) -> Called | None:
        """What a known link says an entity is."""
        others = sorted(links.of(entity, side))
        return self._called(OTHER[side], others[0]) if others else None

    # Scores

    def _candidates(self, side: str, entity: int) -> tuple[Candidates, float | None]:
        """All candidates of an entity, or those that matching keeps, and how sure the best is."""
        learned, n = self._learned, len(self.growing.sides[OTHER[side]].entities)
        if side == "right" and not learned.config.matching.keep:
            ids, *columns = self.matching.claimants(entity, self._matcher)
            return Candidates(ids, *(x.double() for x in columns)), None
        sure = learned.confidence if side == "left" else None
        top = KEPT if learned.config.matching.keep else max(1, n)
        mine, theirs, pairs, cosines = self.matching.pairs(
            side, np.array([entity]), self._matcher, "nearest", top=top,
            rivals=sure is not None, ann=False,
        )  # fmt: skip
        row = int(np.searchsorted(mine, entity))
        own = pairs.rows == row
        ids = theirs[pairs.columns[own].cpu().numpy()]
        values = (x.values[own].double().cpu() for x in (pairs, cosines))
        confidence = None
        if sure is not None and len(ids):
            confidence = float(answer(pairs, cosines, confidence=sure).confidence[row])
        return Candidates(ids, *values), confidence

    def _shares(self, left: int, right: int) -> dict[str, float]:
        """The part of each view in the cosine of two entities; the rest is a missing name's."""
        products = self._vector("left", left) * self._vector("right", right)
        return {view: products[span].sum().item() for view, span in self._learned.spans.items()}

    def _cosine(self, left: int, right: int) -> float:
        return float(self._vector("left", left) @ self._vector("right", right))

    def _vector(self, side: str, entity: int) -> Tensor:
        """The vector of an entity, float64[d]."""
        return self.growing.sides[side].take_vectors(np.array([entity]))[0].double().cpu()

    def _rivals(
        self, ends: Mapping[Side, int], found: Mapping[Side, Candidates]
    ) -> Iterator[Rival]:
        """The best other candidate of each of two entities."""
        for side in SIDES:
            some, own = found[side], ends["right" if side == "left" else "left"]
            place = some.place(own)
            if (rival := best(some.scores, but=place)) is None:
                continue
            entity, score = int(some.ids[rival]), float(some.scores[rival])
            pair = (ends["left"], entity) if side == "left" else (entity, ends["right"])
            shares = self._shares(*pair)
            yield Rival(
                entity=self._called(OTHER[side], entity),
                side=side,
                score=score,
                margin=None if place is None else float(some.scores[place]) - score,
                cosine=self._cosine(*pair),
                shares=shares,
            )

    # Neighbours

    def _parts(self, ends: Mapping[Side, int]) -> dict[str, Neighbourhood]:
        """What the vector of each entity is made of; nothing for a model without neighbours."""
        if not self._learned.config.model.inductive or set(self.growing.model.widths) == {VECTORS}:
            return {}
        sides = self.growing.sides
        return {side: around(self.growing, sides[side], entity) for side, entity in ends.items()}

    def _shared(
        self,
        ends: Mapping[Side, int],
        links: Mapping[Kind, Links],
        parts: Mapping[str, Neighbourhood],
        shown: int,
    ) -> tuple[list[Shared], tuple[SharedNeighbour, ...]]:
        """All neighbours that two entities share, and those that are listed."""
        sides = self.growing.sides
        edges = {side: relations_by_neighbour(sides[side], entity) for side, entity in ends.items()}
        weights: dict[Side, Weights] = {
            side: neighbour_weights(self.growing, sides[side], parts[side], entity) if parts else {}
            for side, entity in ends.items()
        }
        near, weighed = (edges["left"], edges["right"]), (weights["left"], weights["right"])
        found = shared_neighbours(self.growing, self.matching, links, near, weighed)
        return found, tuple(
            SharedNeighbour(
                left=self._called("left", one.left),
                right=self._called("right", one.right),
                left_relations=tuple(edges["left"][one.left]),
                right_relations=tuple(edges["right"][one.right]),
                because=one.because,
                confidence=one.confidence,
                left_weight=weights["left"].get(one.left) if parts else None,
                right_weight=weights["right"].get(one.right) if parts else None,
            )
            for one in found[:shown]
        )

    # What would change the answer

    def _without_views(self, left: int, place: int, candidates: Candidates) -> Iterator[Without]:
        """Each view left out, and all of structure; the others have all the weight then."""
        vectors, own = self.growing.sides["right"].vectors, self._vector("left", left)
        ids, spans = torch.from_numpy(candidates.ids), self._learned.spans
        dots, lengths, mine = {}, {}, {}
        for view, span in spans.items():
            part, query = vectors[:, span], own[span]
            dots[view] = (part @ query.to(part)).cpu()[ids].double()
            lengths[view] = part.norm(dim=1).cpu()[ids].double().square()
            mine[view] = query.square().sum()
        structure = [view for view in spans if view != NAMES]
        sets = {view: [view] for view in spans} if len(spans) > 1 else {}
        if 1 < len(structure) < len(spans):
            sets[STRUCTURE] = structure
        for what, left_out in sets.items():
            kept = [view for view in spans if view not in left_out]
            dot, length, query = (
                torch.stack([x[view] for view in kept]).sum(0) for x in (dots, lengths, mine)
            )
            cosines = dot / (length * query).sqrt().clamp(min=1e-12)
            there = bool(query > 1e-12)
            yield self._changed("view", what, place, candidates, cosines if there else None)

    def _without_neighbours(
        self,
        left: int,
        place: int,
        candidates: Candidates,
        part: Neighbourhood | None,
        shared: Sequence[Shared],
    ) -> Iterator[Without]:
        """Each shared neighbour left out of the left entity's vector.

        The vector is made as if the entity came now, with the neighbour and without; by what that
        changes a cosine, the cosine is taken to change.
        """
        if part is None or not shared:
            return
        graph, vectors = self.growing.sides["left"], self.growing.sides["right"].vectors
        ids = torch.from_numpy(candidates.ids)
        whole = remade(self.growing, graph, part)
        for neighbour in dict.fromkeys(one.left for one in shared):
            local = int(np.searchsorted(part.entities, neighbour))
            fewer, cosines = remade(self.growing, graph, part, local), None
            if fewer.any():
                change = (vectors @ (fewer - whole).to(vectors)).cpu()[ids]
                cosines = candidates.cosines + change.double()
            what = self._called("left", neighbour).short
            yield self._changed("neighbour", what, place, candidates, cosines)

    def _changed(
        self, kind: str, what: str, place: int, candidates: Candidates, cosines: Tensor | None
    ) -> Without:
        """What is first with other cosines; what the matcher adds to them stays as it is."""
        if cosines is None:
            return Without(kind, what, None, None)  # type: ignore[arg-type]
        scores = candidates.scores + scale_of(self._matcher) * (cosines - candidates.cosines)
        rival = best(scores, but=place)
        margin = None if rival is None else float(scores[place] - scores[rival])
        first = place if rival is None or scores[place] >= scores[rival] else rival
        called = self._called("right", int(candidates.ids[first]))
        return Without(kind, what, called, margin)  # type: ignore[arg-type]

    # Names

    def _in_common(self, left: Sequence[str], right: Sequence[str]) -> tuple[str, ...]:
        """Words that both have in their names, or else pieces of words, the rarest first.

        A piece has a hyphen where the word goes on.
        """
        rarity = self.growing.model.shared[SHARED]
        common = in_both(folded(left), folded(right))
        weights = {x: rarity[buckets_in(x, N_BUCKETS)].sum().item() for x in common}
        rarest = sorted(common, key=lambda x: (-weights[x], x))[:_IN_COMMON]
        return tuple("-" * (x[0] != " ") + x.strip() + "-" * (x[-1] != " ") for x in rarest)


def in_both(left: Sequence[str], right: Sequence[str]) -> set[str]:
    """Words, of two letters or more, that are in texts of both sides, or else pieces of words.

    Pieces are as long as can be; they are looked for in the first texts of very many.
    """
    words, others = _words(left), _words(right)
    if common := {word for word in words & others if len(word.strip()) > 1}:
        return common
    every = "\n".join(sorted(_words(_first(right))))
    found = set()
    for word in _words(_first(left)):
        stop = 0
        for start in range(len(word)):
            longest = max(stop, start)
            while longest < len(word) and word[start : longest + 1] in every:
                longest += 1
            if longest > stop and len(word[start:longest].strip()) > 1:
                found.add(word[start:longest])
            stop = longest
    return {x for x in found if not any(x != y and x in y for y in found)}


def _words(texts: Iterable[str]) -> set[str]:
    """The words of texts, each between two spaces."""
    return {f" {word} " for text in texts for word in text.split()}


def _first(texts: Sequence[str]) -> Sequence[str]:
    """The first texts, until they are long enough."""
    ends = np.cumsum([len(text) for text in texts])
    return texts[: int(np.searchsorted(ends, _COMPARED)) + 1]
