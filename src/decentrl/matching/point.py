"""Candidates of single entities, by the potentials of a matching problem solved before.

Every matcher's score is scale · cos(i, j) + row[i] + column[j]. The two vectors, its potentials,
are kept from the full problem; matching one entity then takes one pass over its candidates. An
entity that was not in the full problem, because it is new or in a known link, gets its potential
by one half-step of the matcher against the potentials that are known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.matching.matches import KEPT
from decentrl.matching.similarity import Scores, mean_of_finite
from decentrl.matching.sparse import SparseScores

NEAR = 64
"""Least number of candidates of an approximate search: a row's term is a sum over them."""
_BLOCK = 32 << 20  # bytes of scores at once
ROWS, COLUMNS = 0, 1


class Search(Protocol):
    """Interface of a nearest-neighbour index, such as those of :mod:`decentrl.storage.index`."""

    def search(
        self,
        queries: Tensor,
        top: int,
        *,
        scale: float = 1.0,
        bias: Tensor | None = None,
        allowed: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Find the candidates with the highest scale · query·candidate + bias, best first.

        Args:
            queries: float32[b, d].
            bias: float32[n], one for each candidate, finite.
            allowed: bool[n], the candidates that may be found.
        Returns:
            scores float32[b, top] and ids int64[b, top] on the CPU, filled up with -inf and -1.
        """
        ...


@dataclass(frozen=True, eq=False)
class End:
    """One of the two graphs of a matching problem.

    Results are cached by the identity of ``free``: pass the same object as long as its values are
    the same.
    """

    vectors: Tensor  # of all its entities, [n, d]
    free: Tensor  # bool[n] on the CPU, the entities in no known link
    index: Search  # searches the vectors


class Potentials:
    """The vectors row[i] and column[j] that a matcher adds to the scaled cosines.

    Rows are the entities to be matched, columns those of the other graph.

    Attributes:
        solved: float32[n] and float32[m] of the full problem, NaN for entities not in it.
        scale: of the cosine.
    """

    def __init__(self, matcher: str, config: MatchingConfig, solved: tuple[Tensor, Tensor]) -> None:
        self.matcher, self.config = matcher, config
        self.scale = 2.0 if matcher == "csls" else 1.0
        self.solved = [end.cpu() for end in solved]
        self._known = [~end.isnan() for end in self.solved]
        self._values = [end.nan_to_num(0.0) for end in self.solved]
        # The last masks of free entities. To go through half a million potentials takes longer
        # than to search them, so it is done once for each mask.
        self._filled: list[Tensor | None] = [None, None]
        self._covers: list[tuple[Tensor, bool] | None] = [None, None]

    @classmethod
    def from_scores(
        cls,
        scores: Scores,
        ids: tuple[Tensor, Tensor],
        sizes: tuple[int, int],
        matcher: str,
        config: MatchingConfig,
    ) -> Potentials:
        """The potentials of a full problem; row k of the scores is the entity ``ids[0][k]``."""
        ends = [torch.full((n,), torch.nan) for n in sizes]
        for end, own, term in zip(ends, ids, (scores.row, scores.column), strict=True):
            if term is not None and min(scores.shape):
                end[own] = term.float().cpu()
        return cls(matcher, config, (ends[0], ends[1]))

    @property
    def T(self) -> Potentials:  # noqa: N802 (as of a matrix)
        """The same with rows and columns swapped; not for Sinkhorn, which ends with the rows."""
        assert self.matcher != "sinkhorn"
        return Potentials(self.matcher, self.config, (self.solved[1], self.solved[0]))

    def discard(self, end: int, ids: Tensor, n: int) -> None:
        """Discard the potentials of changed entities, int64[k], and make room for n entities."""
        kept, changed = min(n, len(self.solved[end])), ids[ids < n]
        for held, unknown in ((self.solved, torch.nan), (self._known, False), (self._values, 0.0)):
            new = torch.full((n,), unknown)
            new[:kept] = held[end][:kept]
            new[changed] = unknown
            held[end] = new
        self._filled, self._covers = [None, None], [None, None]

    def covers(self, end: int, free: Tensor) -> bool:
        """Whether the entities of the full problem are those in ``free``, bool[n]."""
        last = self._covers[end]
        if last is None or last[0] is not free:
            last = self._covers[end] = free, torch.equal(~self.solved[end].isnan(), free)
        return last[1]

    def values(self, end: int, ends: tuple[End, End], more: Tensor) -> Tensor:
        """Potentials of one end, float32[n], valid for its free entities and ``more``, int64[k].

        Read only; the values of other entities may be 0. A missing potential is computed by a
        half-step and kept: of a column t·log(n / m) - t·log Σᵢ exp((cos + row[i]) / t) for
        Sinkhorn, minus the mean of the k best cosines for CSLS; over the n rows of the full
        problem of n × m.
        """
        own, other, free = ends[end].vectors, ends[1 - end].vectors, ends[end].free
        for ids in [more] if self._filled[end] is free else [more, free.nonzero()[:, 0]]:
            lacking = ids[~self._known[end][ids]]
            if not len(lacking):
                continue
            made = self.terms(own[lacking], other, self.solved[1 - end])
            if self.matcher == "sinkhorn" and end == COLUMNS:
                n, m = (max(1, int((~x.isnan()).sum())) for x in self.solved)
                made += self.config.temperature * math.log(n / m)
            self._values[end][lacking] = made
            self._known[end][lacking] = True
        self._filled[end] = free
        return self._values[end]

    def terms(self, vectors: Tensor, others: Tensor, bias: Tensor) -> Tensor:
        """Compute the matcher's additive term of vectors [k, d], by those of others, [n, d].

        ``bias``, float32[n], are the potentials of the others; NaN for those to leave out.
        """
        made = torch.zeros(len(vectors))
        if self.matcher == "cosine":
            return made
        bias = bias.where(~bias.isnan(), -torch.inf).to(others.device)
        size = max(1, _BLOCK // (4 * max(1, len(others))))
        for start in range(0, len(vectors), size):
            some = slice(start, start + size)
            made[some] = self.term(torch.matmul(vectors[some], others.t()), bias).cpu()
        return made

    def term(self, cosine: Tensor, bias: Tensor) -> Tensor:
        """Compute the additive term of each row of cosines [b, n], which are overwritten.

        CSLS: minus the mean of the k best cosines; Sinkhorn: -t·log Σⱼ exp((cos + bias[j]) / t);
        0 where all are left out. ``bias`` is [n] or [b, n], -inf for those to leave out.
        """
        if self.matcher == "cosine":
            return torch.zeros(len(cosine))
        if self.matcher == "csls":
            cosine += bias.where(bias.isinf(), 0.0)
            k = min(self.config.csls_k, cosine.shape[1])
            return -mean_of_finite(cosine.topk(k, dim=1).values)
        temperature = self.config.temperature
        made = -temperature * (cosine.add_(bias) / temperature).logsumexp(1)
        return made.where(made.isfinite(), 0.0)


@dataclass(frozen=True, eq=False)
class CandidatePairs:
    """The best candidates of some entities, as scored pairs."""

    rows: Tensor  # int64[r], ascending: the entities, and their rivals for a candidate
    columns: Tensor  # int64[c], ascending: the candidates
    pairs: SparseScores  # their scores, r × c
    cosines: SparseScores  # of the same pairs


def find_candidates(
    potentials: Potentials,
    ends: tuple[End, End],
    entities: Tensor,
    counterparts: Tensor,
    *,
    top: int,
    rivals: bool,
    near: bool,
) -> CandidatePairs:
    """Find the best candidates of some entities.

    Args:
        ends: the graph of the entities, and the other one.
        entities: int64[q].
        counterparts: int64[k], candidates of the other graph although they are in a known link.
        top: how many candidates to find for each.
        rivals: whether to find other entities that claim each best candidate, too, as
            :func:`decentrl.matching.confidence.evidence` needs.
        near: whether the indexes are approximate. A term that is not known is then computed from
            the candidates found alone, and so are the scores.
    """
    own, other = ends
    scale, allowed = potentials.scale, _include(other.free, counterparts)
    column = potentials.values(COLUMNS, ends, counterparts)
    kept = max(1, min(max(top, KEPT, NEAR if near else 0), len(allowed)))
    found = other.index.search(
        own.vectors[entities], kept, scale=scale, bias=column, allowed=allowed
    )[1]
    rows, columns = _pairs(entities, found)

    term = _row_terms(potentials, ends, entities, found if near else None, allowed, column)
    row = potentials.values(ROWS, ends, entities[:0]) if rivals else potentials.solved[ROWS]
    if not torch.equal(row[entities], term):
        row = row.index_put((entities,), term)
    scores = Scores(own.vectors, other.vectors, scale=scale, row=row, column=column)
    candidates = _score_pairs(scores, entities, rows, columns)
    if not rivals or not len(columns):
        return candidates
    best = candidates.pairs.best(1)[1][:, 0]
    best = torch.unique(candidates.columns[best[best >= 0]])
    among = _include(own.free, entities)
    claims = own.index.search(other.vectors[best], 2, scale=scale, bias=row, allowed=among)[1]
    claimed, claimants = _pairs(best, claims)
    rows, columns = torch.cat((rows, claimants)), torch.cat((columns, claimed))
    return _score_pairs(scores, entities, rows, columns)


def _row_terms(
    potentials: Potentials,
    ends: tuple[End, End],
    entities: Tensor,
    found: Tensor | None,
    allowed: Tensor,
    column: Tensor,
) -> Tensor:
    """Row terms of the entities, float32[q]: from the full problem, or computed where missing.

    Args:
        found: int64[q, c], the candidates to compute them from, -1 for none; None for all.
        allowed: bool[m], the candidates of this search.
        column: float32[m], the potentials of candidates.
    """
    own, other = ends
    # CSLS terms are over free entities only, not over ``allowed``, so that a pair has one score.
    pool = allowed if potentials.matcher == "sinkhorn" else other.free
    term = potentials.solved[ROWS][entities]
    if pool is not other.free or not potentials.covers(COLUMNS, other.free):
        term = torch.full_like(term, torch.nan)
    lacking = term.isnan()
    asked = entities[lacking]
    if len(asked) and found is None:
        bias = column.where(pool, torch.nan)
        term[lacking] = potentials.terms(own.vectors[asked], other.vectors, bias)
    elif len(asked) and found is not None:
        found = found[lacking]
        rows, columns = _pairs(asked, found)
        cosine = torch.full(found.shape, -torch.inf)
        cosine[found >= 0] = dots(own.vectors, rows, other.vectors, columns).float().cpu()
        term[lacking] = potentials.term(cosine, column[found].where(pool[found], -torch.inf))
    return term


def _pairs(entities: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
    """Pairs of entities, int64[q], with what was found of each, int64[q, c], -1 for none."""
    there = found >= 0
    return entities[:, None].expand_as(found)[there], found[there]


def _score_pairs(scores: Scores, entities: Tensor, rows: Tensor, columns: Tensor) -> CandidatePairs:
    """Score the pairs of ``rows`` and ``columns``, int64[p] each, that need not be distinct."""
    m = max(1, scores.shape[1])
    keys = torch.unique(rows * m + columns)
    rows, columns = keys // m, keys % m
    row_ids, column_ids = torch.unique(torch.cat((entities, rows))), torch.unique(columns)
    pairs = SparseScores(
        torch.searchsorted(row_ids, rows),
        torch.searchsorted(column_ids, columns),
        torch.empty(len(keys)),
        (len(row_ids), len(column_ids)),
    )
    scores = scores.rows(row_ids).columns(column_ids)
    return CandidatePairs(row_ids, column_ids, *rescore(pairs, scores))


def rescore(pairs: SparseScores, scores: Scores) -> tuple[SparseScores, SparseScores]:
    """Scores and cosines of pairs, summed in float64 as :func:`find_candidates` does.

    So a pair has the same score in the full problem and in the search of one entity.
    """
    cosine = dots(scores.left, pairs.rows, scores.right, pairs.columns).cpu()
    score = scores.scale * cosine
    if scores.row is not None:
        score += scores.row[pairs.rows].double().cpu()
    if scores.column is not None:
        score += scores.column[pairs.columns].double().cpu()
    device = pairs.values.device
    return (
        replace(pairs, values=score.float().to(device)),
        replace(pairs, values=cosine.float().to(device)),
    )


def dots(left: Tensor, rows: Tensor, right: Tensor, columns: Tensor) -> Tensor:
    """Dot products left[rows]·right[columns] of p pairs, float64[p]."""
    sums = left.new_empty(len(rows), dtype=torch.float64)
    step = max(1, (8 << 20) // (8 * max(1, left.shape[1])))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        sums[some] = (left[rows[some]].double() * right[columns[some]].double()).sum(1)
    return sums


def _include(mask: Tensor, ids: Tensor) -> Tensor:
    """The mask, bool[n], with some ids added; the same object if it has them all."""
    if bool(mask[ids].all()):
        return mask
    return mask.index_put((ids,), torch.tensor(True))
