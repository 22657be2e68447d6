"""Matching of grown graphs, with the potentials of solved problems kept for later calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.data.alignment_task import NO_LINKS
from decentrl.data.vocabulary import Ids
from decentrl.errors import ConfigError
from decentrl.growth.decided import among, most_of_one
from decentrl.growth.found_pairs import Pairs, found_pairs, score_pairs
from decentrl.growth.growing import Growing
from decentrl.growth.neighbours import Indexes, changed_entities
from decentrl.matching.clustered import nearest_pairs
from decentrl.matching.matchers import apply_matcher
from decentrl.matching.matches import KEPT, best_pairs
from decentrl.matching.potentials import OTHER, Potentials, scale_of
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import LARGE_KEEP, SparseScores, dots, rescore, top_pairs
from decentrl.storage.addition import Growth
from decentrl.storage.index.exact import BLOCK

MOST_PAIRS = 2**32
"""Largest full problem, in pairs, that is solved in order to match a single entity."""
BALANCE = "potential.balance"
NEAR = 64
"""Least number of candidates of an approximate search: a row's term is a sum over them."""
Mask = npt.NDArray[np.bool_]


class Matching:
    """Finds the best pairs of entities of two graphs as they are now.

    The potentials of solved problems are kept, so that single entities match at once.

    Args:
        links: known links, int64[k, 2], left then right: their entities are no candidates.
        tensors: potentials that :meth:`to_tensors` returned before.
        settled: matches that stay, int64[m, 2]: their entities are no candidates either.
        rejected: pairs that are never found, int64[r, 2].
    """

    def __init__(
        self,
        growing: Growing,
        indexes: Indexes,
        config: MatchingConfig,
        links: Ids,
        tensors: Mapping[str, Tensor],
        settled: Ids | None = None,
        rejected: Ids = NO_LINKS,
    ) -> None:
        self._growing, self._indexes, self._config = growing, indexes, config
        # So many more are looked for as may be rejected of one entity.
        self._rejected, self._more = rejected, most_of_one(rejected)
        self._known = dict(zip(OTHER, links.T, strict=True))
        every = links if settled is None else np.concatenate((links, settled))
        self._links = dict(zip(OTHER, every.T, strict=True))
        # By matcher and the side normalised last; where that is all the same, the left one.
        self._solved: dict[tuple[str, str], Potentials] = {}
        self._seen: list[Growth] = []
        self._masks: dict[str, tuple[Tensor, Tensor]] = {}
        self._stored: SparseScores | None = None
        self._together: dict[tuple[str, str, int], Pairs] = {}
        for side, other in OTHER.items():
            names = f"potential.{side}.own", f"potential.{side}.other"
            if all(name in tensors for name in names):
                ends = {side: tensors[names[0]].clone(), other: tensors[names[1]].clone()}
                balance = tensors[BALANCE].item() if BALANCE in tensors else 1.0
                self._keep(config.matcher, side, ends, balance)

    def to_tensors(self) -> dict[str, Tensor]:
        """Potentials of the configured matcher, as far as they are solved, for a file.

        Those of entities that additions have changed since are left out.
        """
        self._discard_outdated()
        blended = self._solved.get(("blend", "left"))
        found = {}
        if blended is not None and self._config.matcher == "blend":
            found[BALANCE] = torch.tensor(blended.balance)
        return found | {
            f"potential.{rows}.{name}": potentials.solved[side]
            for (matcher, rows), potentials in self._solved.items()
            if matcher == self._config.matcher != "cosine"
            for side, name in ((rows, "own"), (OTHER[rows], "other"))
        }

    def _keep(
        self, matcher: str, side: str, solved: Mapping[str, Tensor], balance: float = 1.0
    ) -> Potentials:
        rows = _rows(matcher, side)
        potentials = Potentials(matcher, self._config, rows, solved, balance)
        self._solved[matcher, rows] = potentials
        return potentials

    def _discard_outdated(self) -> None:
        """Discard the potentials of entities that additions have changed since the last call."""
        now = self._growing.growths
        if now != self._seen:
            self._stored, self._together = None, {}
        for side, graph in self._growing.sides.items():
            changed = torch.from_numpy(changed_entities(self._seen, now, side))
            for potentials in self._solved.values():
                if len(changed) or len(potentials.solved[side]) != len(graph.entities):
                    potentials.discard(side, changed, len(graph.entities))
        self._seen = now

    def pairs(
        self,
        side: str,
        asked: Ids | None,
        matcher: str,
        assign: str,
        *,
        top: int,
        rivals: bool,
        ann: bool,
    ) -> Pairs:
        """The best pairs of some entities of ``side``, or of all that no known link names.

        Given entities are matched alone where their scores do not depend on each other.

        Args:
            top: how many candidates to find for each.
            rivals: whether to find other entities that claim each best candidate, too, as
                :func:`decentrl.matching.confidence.evidence` needs.
            ann: search in approximate indexes. A term that is not known is then computed from the
                candidates found alone, and so are the scores.
        """
        alone = assign == "nearest" and (matcher == "cosine" or not self._config.keep)
        if ann and (asked is None or not alone):
            raise ConfigError(
                "an approximate index is for questions about given entities, each by its nearest; "
                "name them, use assign=nearest, and the matcher cosine if matching.keep is set"
            )
        self._discard_outdated()
        if asked is None or not alone:
            kept = max(top, 50 if assign == "one-to-one" else KEPT)
            return self.pairs_together(side, asked, matcher, kept)
        return self._pairs_alone(side, np.unique(asked), matcher, top, rivals, ann)

    # Single entities

    def _pairs_alone(
        self, side: str, asked: Ids, matcher: str, top: int, rivals: bool, ann: bool
    ) -> Pairs:
        """The best candidates of some entities, and rivals for these; see :meth:`pairs`."""
        potentials, other = self._potentials(side, matcher), OTHER[side]
        own, others = (self._growing.sides[which].vectors for which in (side, other))
        entities, scale = torch.from_numpy(asked), potentials.scale
        # The counterpart of a linked entity is a candidate too.
        linked = torch.from_numpy(self._links[other][np.isin(self._links[side], asked)])
        free, allowed = self.candidates(other), _with(self.candidates(other), linked)
        column = potentials.values(other, free, linked, others, own)
        kept = max(1, min(max(top, KEPT, NEAR if ann else 0) + self._more, len(allowed)))
        products = None if ann else _products(own[entities], others)
        found = self._indexes.get(other, ann).search(
            own[entities], kept, scale=scale, bias=column, allowed=allowed, products=products
        )[1]
        found = self._without_rejected(side, entities, found)
        near = found if ann else None
        term = self._row_terms(potentials, side, entities, allowed, column, near, products)
        row = potentials.solved[side]
        if rivals:
            row = potentials.values(side, self.candidates(side), entities[:0], own, others)
        if not torch.equal(row[entities], term):
            row = row.index_put((entities,), term)
        scores = Scores(own, others, scale=scale, row=row, column=column)
        rows, columns = found_pairs(entities, found)
        made = score_pairs(scores, entities, rows, columns)
        if not rivals or not len(columns):
            return made
        best = made[2].best(1)[1][:, 0]
        best = torch.from_numpy(made[1])[torch.unique(best[best >= 0])]
        rivals_of, more = _with(self.candidates(side), entities), 2 + self._more
        claims = self._indexes.get(side, ann).search(
            others[best], more, scale=scale, bias=row, allowed=rivals_of
        )[1]
        claimed, claimants = found_pairs(best, self._without_rejected(other, best, claims))
        return score_pairs(
            scores, entities, torch.cat((rows, claimants)), torch.cat((columns, claimed))
        )

    def claimants(self, entity: int, matcher: str) -> tuple[Ids, Tensor, Tensor]:
        """All left candidates of a right entity, with scores and cosines, float[c] each.

        They are a column of the problem whose rows are the left entities, so that nothing has to be
        solved for the right side. Not where ``matching.keep`` is set.
        """
        self._discard_outdated()
        potentials, free = self._potentials("left", matcher), self.candidates("left")
        own, others = (self._growing.sides[side].vectors for side in OTHER)
        linked = torch.from_numpy(self._links["left"][self._links["right"] == entity])
        row = potentials.values("left", free, linked, own, others)
        one = torch.tensor([entity])
        column = potentials.values("right", self.candidates("right"), one, others, own)[one]
        ids = _with(free, linked).nonzero()[:, 0]
        cosines = torch.mv(own, others[entity]).cpu()[ids]
        return ids.numpy(), potentials.scale * cosines + row[ids] + column, cosines

    def _row_terms(
        self,
        potentials: Potentials,
        side: str,
        entities: Tensor,
        allowed: Tensor,
        column: Tensor,
        found: Tensor | None,
        products: Tensor | None,
    ) -> Tensor:
        """Row terms of the entities, float32[q]: from the full problem, or computed where missing.

        Args:
            allowed: bool[m], the candidates of this search.
            column: float32[m], their potentials.
            found: int64[q, c], the candidates to compute terms from, -1 for none; None for all.
            products: float32[q, m], their cosines with all, if they were made.
        """
        own, others = (self._growing.sides[which].vectors for which in (side, OTHER[side]))
        # Those of CSLS are over free entities only, so that a pair has one score.
        # So are those of blend, for the same reason.
        pool = allowed if potentials.matcher == "sinkhorn" else self.candidates(OTHER[side])
        term = potentials.solved[side][entities]
        if not potentials.covers(OTHER[side], pool):
            term = torch.full_like(term, torch.nan)
        lacking = term.isnan()
        asked = entities[lacking]
        if len(asked) and found is None:
            bias = column.where(pool, torch.nan)
            cosines = None if products is None else products[lacking.to(products.device)]
            term[lacking] = potentials.terms(own[asked], others, bias, cosines)
        elif len(asked) and found is not None:
            found = found[lacking]
            cosine = torch.full(found.shape, -torch.inf)
            rows, columns = found_pairs(asked, found)
            cosine[found >= 0] = dots(own, rows, others, columns).float().cpu()
            term[lacking] = potentials.term(cosine, column[found].where(pool[found], -torch.inf))
        return term

    def solve(self, side: str, matcher: str) -> None:
        """Find the potentials that single entities of a side are matched with."""
        if not self._config.keep and matcher != "cosine":
            self._potentials(side, matcher)

    def _potentials(self, side: str, matcher: str) -> Potentials:
        """The potentials of a matcher; the full problem is solved if it was not before."""
        key = matcher, _rows(matcher, side)
        if key in self._solved:
            return self._solved[key]
        if matcher == "cosine":  # nothing to solve: every term is 0
            sizes = {which: len(graph.entities) for which, graph in self._growing.sides.items()}
            nothing = {which: torch.full((n,), torch.nan) for which, n in sizes.items()}
            return self._keep(matcher, side, nothing)
        n, m = (int(self.candidates(which).sum()) for which in (side, OTHER[side]))
        if n * m > MOST_PAIRS:
            raise ConfigError(
                f"{matcher} has to match all {n:,} × {m:,} entities once before it can match "
                "one; use the matcher cosine, or match everything first and save"
            )
        self._score_unlinked(side, matcher)
        return self._solved[key]

    # All at once

    def pairs_together(self, side: str, asked: Ids | None, matcher: str, kept: int) -> Pairs:
        """The best pairs when all unlinked entities, and those asked for, are matched at once."""
        named = np.isin(self._links[side], [] if asked is None else asked)
        kept += self._more
        if named.any():
            return self._allowed(side, *self._found_together(side, named, matcher, kept))
        self._discard_outdated()
        key = side, matcher, kept
        if key not in self._together:
            found = self._found_together(side, named, matcher, kept)
            self._together[key] = self._allowed(side, *found)
        return self._together[key]

    def _allowed(
        self, side: str, mine: Ids, theirs: Ids, pairs: SparseScores, cosines: SparseScores
    ) -> Pairs:
        """The same without rejected pairs."""
        if not self._more:
            return mine, theirs, pairs, cosines
        ends = mine[pairs.rows.cpu().numpy()], theirs[pairs.columns.cpu().numpy()]
        gone = among(np.stack(ends if side == "left" else ends[::-1], axis=1), self._rejected)
        kept = torch.from_numpy(~gone).to(pairs.rows.device)
        return mine, theirs, pairs.where(kept), cosines.where(kept)

    def _without_rejected(self, side: str, entities: Tensor, found: Tensor) -> Tensor:
        """What was found of each entity, int64[q, c], with -1 for rejected pairs."""
        if not self._more:
            return found
        ends = entities[:, None].expand_as(found).flatten(), found.flatten()
        pairs = torch.stack(ends if side == "left" else ends[::-1], dim=1).numpy()
        gone = torch.from_numpy(among(pairs, self._rejected)).view_as(found)
        return found.where(~gone, -1)

    def _found_together(self, side: str, named: Mask, matcher: str, kept: int) -> Pairs:
        """The same; ``named`` is bool[k], the links whose entities take part, too."""
        if not self._config.keep and not named.any():
            mine, theirs, scores = self._score_unlinked(side, matcher)
            if scores.kept is None:
                row, column = (
                    scores.left.new_zeros(n) if term is None else term
                    for n, term in zip(scores.shape, (scores.row, scores.column), strict=True)
                )
                pairs = self._best_cosines(side).plus(scores.scale, row, column).nearest(kept)
                return mine.numpy(), theirs.numpy(), *rescore(pairs, scores)
        else:
            # A linked entity that is asked for takes part, and its counterpart too.
            ends = {}
            for which, graph in self._growing.sides.items():
                linked = torch.from_numpy(self._links[which][named])
                mask = _with(self.candidates(which), linked) & graph.has_vector()
                ends[which] = mask.nonzero()[:, 0]
            mine, theirs = ends[side], ends[OTHER[side]]
            cosine = self._cosine("left", ends["left"], ends["right"])
            cosine = cosine if side == "left" else cosine.T
            if self._config.keep or cosine.kept is None:
                most = max(self._config.keep or LARGE_KEEP, kept)
                found = best_pairs(nearest_pairs(cosine, most), matcher, self._config)
                return mine.numpy(), theirs.numpy(), *found
            scores = apply_matcher(cosine, matcher, self._config)
        return mine.numpy(), theirs.numpy(), *rescore(top_pairs(scores, kept), scores)

    def _score_unlinked(self, side: str, matcher: str) -> tuple[Tensor, Tensor, Scores]:
        """Ids of the unlinked entities of ``side`` and of the other side, and their scores.

        Where the cosines are too many to keep, the problem is solved on the best pairs of each.
        """
        if side != (rows := _rows(matcher, side)):
            theirs, mine, scores = self._score_unlinked(rows, matcher)
            return mine, theirs, scores.T
        free = {which: self.candidates(which) for which in (side, OTHER[side])}
        mine, theirs = (mask.nonzero()[:, 0] for mask in free.values())
        scores, known = self._cosine(side, mine, theirs), self._solved.get((matcher, side))
        if matcher == "cosine":
            return mine, theirs, scores
        if known is not None and all(known.covers(which, mask) for which, mask in free.items()):
            ends = (known.solved[which][mask] for which, mask in free.items())
            row, column = (end.to(scores.left.device) for end in ends)
            return mine, theirs, replace(scores, scale=known.scale, row=row, column=column)
        if scores.kept is None:
            pairs = apply_matcher(self._best_cosines(side), matcher, self._config)
            if pairs.terms is not None:
                row, column = pairs.terms
                scores = replace(scores, row=row, column=column, balance=pairs.balance)
            scores = replace(scores, scale=scale_of(matcher))
        else:
            scores = apply_matcher(scores, matcher, self._config)
        solved = {which: torch.full(mask.shape, torch.nan) for which, mask in free.items()}
        if scores.row is not None and scores.column is not None and min(scores.shape):
            solved[side][mine] = scores.row.float().cpu()
            solved[OTHER[side]][theirs] = scores.column.float().cpu()
        self._keep(matcher, side, solved, scores.balance)
        return mine, theirs, scores

    def _best_cosines(self, side: str) -> SparseScores:
        """The best pairs of the unlinked entities by cosine; found in one pass, then kept."""
        if self._stored is None:
            ends = (self.candidates(which).nonzero()[:, 0] for which in ("left", "right"))
            self._stored = nearest_pairs(self._cosine("left", *ends), LARGE_KEEP)
        return self._stored if side == "left" else self._stored.T

    def _cosine(self, side: str, mine: Tensor, theirs: Tensor) -> Scores:
        """Cosines of entities of ``side`` and of the other side."""
        left, right = (self._growing.sides[which].vectors for which in (side, OTHER[side]))
        return Scores.cosine(left[mine], right[theirs])

    def candidates(self, side: str) -> Tensor:
        """Mask of the entities of a side that may be matched and have a vector, bool[n]."""
        there = self._growing.sides[side].has_vector()
        if side not in self._masks or self._masks[side][0] is not there:
            self._masks[side] = there, there & self._outside(self._links[side], side)
        return self._masks[side][1]

    def unlinked(self, side: str) -> Tensor:
        """Mask of the entities of a side that are in no known link, bool[n]."""
        return self._outside(self._known[side], side)

    def _outside(self, linked: Ids, side: str) -> Tensor:
        mask = torch.ones(len(self._growing.sides[side].entities), dtype=torch.bool)
        mask[torch.from_numpy(linked)] = False
        return mask


def _rows(matcher: str, side: str) -> str:
    """The side whose entities are rows of the full problem; the same for both unless Sinkhorn."""
    return side if matcher == "sinkhorn" else "left"


def _products(vectors: Tensor, others: Tensor) -> Tensor | None:
    """The cosines of a few vectors with all others, which the search and the terms share: to read
    all others takes most of the time of both. None if they are too many to be kept.
    """
    if 4 * len(vectors) * len(others) > BLOCK:
        return None
    return torch.matmul(vectors, others.t())


def _with(mask: Tensor, ids: Tensor) -> Tensor:
    """The mask, bool[n], with some ids added; the same object if it has them all."""
    return mask if mask[ids].all() else mask.index_put((ids,), torch.tensor(True))
