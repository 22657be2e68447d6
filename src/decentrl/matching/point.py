"""Questions about single entities, answered without solving the whole problem again.

Every matcher's score is scale · cos(i, j) + row[i] + column[j]. The two vectors, its potentials,
are kept from the full problem; a question then takes one pass over the candidates. Who was not in
the full problem, because it is new or because a known link names it, gets its potential by one
half-step of the matcher against the potentials that are known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from decentrl.config import MatchingConfig
from decentrl.matching.matches import KEPT
from decentrl.matching.similarity import Scores
from decentrl.matching.sparse import SparseScores

NEAR = 64
"""Candidates that an approximate search brings at least: a row's term is a sum over them."""
_BLOCK = 32 << 20  # bytes of scores at once
ROWS, COLUMNS = 0, 1


class Search(Protocol):
    """The best candidates of each query; the indexes of :mod:`decentrl.storage.index` have it."""

    def search(
        self,
        queries: Tensor,
        top: int,
        *,
        scale: float = 1.0,
        bias: Tensor | None = None,
        allowed: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The candidates with the highest scale · query·candidate + bias[candidate], best first.

        Args:
            queries: float32[b, d].
            top: how many of each.
            scale: above 0.
            bias: float32[n], finite.
            allowed: bool[n], the candidates that may be found.
        Returns:
            scores float32[b, top] and ids int64[b, top] on the CPU, filled up with -inf and -1.
        """
        ...


@dataclass(frozen=True, eq=False)
class End:
    """One of the two graphs in a question.

    Attributes:
        vectors: of all its entities, [n, d].
        free: bool[n] on the CPU, who is in no known link; the same object as long as it is so.
        index: searches the vectors.
    """

    vectors: Tensor
    free: Tensor
    index: Search


class Potentials:
    """row[i] and column[j] of a matcher, for all entities of the asked graph and of the other.

    Attributes:
        solved: float32[n] and float32[m] of the full problem, NaN for who was not in it.
        scale: of the cosine.
    """

    def __init__(self, matcher: str, config: MatchingConfig, solved: tuple[Tensor, Tensor]) -> None:
        self.matcher, self.config = matcher, config
        self.scale = 2.0 if matcher == "csls" else 1.0
        self.solved = [end.cpu() for end in solved]
        self._known = [~end.isnan() for end in self.solved]
        self._values = [end.nan_to_num(0.0) for end in self.solved]
        # The masks of free entities that an answer was given for. To go through half a million
        # potentials takes longer than to search them, so it is done once.
        self._filled: list[Tensor | None] = [None, None]
        self._covers: list[tuple[Tensor, bool] | None] = [None, None]

    @classmethod
    def of(
        cls,
        scores: Scores,
        ids: tuple[Tensor, Tensor],
        sizes: tuple[int, int],
        matcher: str,
        config: MatchingConfig,
    ) -> Potentials:
        """Those of a full problem: row k of the scores is the entity ``ids[0][k]`` of n."""
        ends = []
        for own, n, term in zip(ids, sizes, (scores.row, scores.column), strict=True):
            end = torch.full((n,), torch.nan)
            if term is not None and min(scores.shape):
                end[own] = term.float().cpu()
            ends.append(end)
        return cls(matcher, config, (ends[0], ends[1]))

    @property
    def T(self) -> Potentials:  # noqa: N802 (as of a matrix)
        """The same asked from the other side; Sinkhorn, which ends with the rows, has none."""
        assert self.matcher != "sinkhorn"
        return Potentials(self.matcher, self.config, (self.solved[1], self.solved[0]))

    def forget(self, end: int, ids: Tensor, n: int) -> None:
        """There are n entities now, and these, int64[k], may have other vectors than before."""
        old = self.solved[end], self._known[end], self._values[end]
        kept, changed = min(n, len(old[0])), ids[ids < n]
        new = torch.full((n,), torch.nan), torch.zeros(n, dtype=torch.bool), torch.zeros(n)
        for before, after, unknown in zip(old, new, (torch.nan, False, 0.0), strict=True):
            after[:kept] = before[:kept]
            after[changed] = unknown
        self.solved[end], self._known[end], self._values[end] = new
        self._filled, self._covers = [None, None], [None, None]

    def covers(self, end: int, free: Tensor) -> bool:
        """Whether the full problem was about just these, bool[n]."""
        last = self._covers[end]
        if last is None or last[0] is not free:
            last = free, torch.equal(~self.solved[end].isnan(), free)
            self._covers[end] = last
        return last[1]

    def values(
        self, end: int, free: Tensor, more: Tensor, vectors: tuple[Tensor, Tensor]
    ) -> Tensor:
        """The potentials of one end, float32[n]: of those in ``free``, bool[n], and ``more``.

        Of others it may be 0. Only to be read. Where one is lacking, a half-step makes it, and it
        is remembered: of a column t·log(n / m) - t·log Σᵢ exp((cos + row[i]) / t) for Sinkhorn,
        minus the mean of the k best cosines for CSLS; over the n rows of the full problem of n × m.
        """
        asked = [more] if self._filled[end] is free else [more, free.nonzero()[:, 0]]
        for ids in asked:
            lacking = ids[~self._known[end][ids]]
            if not len(lacking):
                continue
            made = self.terms(vectors[end][lacking], vectors[1 - end], self.solved[1 - end])
            if self.matcher == "sinkhorn" and end == COLUMNS:
                n, m = (max(1, int((~x.isnan()).sum())) for x in self.solved)
                made += self.config.temperature * math.log(n / m)
            self._values[end][lacking] = made
            self._known[end][lacking] = True
        self._filled[end] = free
        return self._values[end]

    def terms(self, vectors: Tensor, others: Tensor, bias: Tensor) -> Tensor:
        """What the matcher adds to all scores of each of some entities, float32[k].

        CSLS: minus the mean of the k best cosines; Sinkhorn: -t·log Σⱼ exp((cos + bias[j]) / t).

        Args:
            vectors: float32[k, d], theirs.
            others: float32[n, d].
            bias: float32[n], the potentials of the others; NaN for those that do not count.
        """
        made = torch.zeros(len(vectors))
        if self.matcher == "cosine":
            return made
        count = int((~bias.isnan()).sum())
        if not count:
            return made
        bias = bias.to(others.device)
        extra = bias.where(~bias.isnan(), -torch.inf)
        if self.matcher == "csls":
            extra = extra.where(extra.isinf(), 0.0)
        size = max(1, _BLOCK // (4 * len(others)))
        for start in range(0, len(vectors), size):
            some = slice(start, start + size)
            block = torch.matmul(vectors[some], others.t()).add_(extra)
            made[some] = self._term(block, count).cpu()
        return made

    def _term(self, block: Tensor, count: int) -> Tensor:
        """Of each row of cosines [b, n], with the bias for Sinkhorn, -inf for who is not there."""
        if self.matcher == "csls":
            return -block.topk(min(self.config.csls_k, count), dim=1).values.mean(1)
        temperature = self.config.temperature
        return -temperature * (block / temperature).logsumexp(1)

    def terms_near(self, cosine: Tensor, bias: Tensor) -> Tensor:
        """:meth:`terms` by some candidates only: their cosines and bias [k, c], -inf for none."""
        made = torch.zeros(len(cosine))
        for i, (own, extra) in enumerate(zip(cosine, bias, strict=True)):
            there = own > -torch.inf
            if self.matcher != "cosine" and there.any():
                row = own[there] if self.matcher == "csls" else own[there] + extra[there]
                made[i] = self._term(row[None], len(row))[0]
        return made


@dataclass(frozen=True, eq=False)
class Found:
    """The pairs that answer a question.

    Attributes:
        rows: int64[r], ascending: who was asked about, and their rivals.
        columns: int64[c], ascending, the candidates found.
        pairs, cosines: of the same pairs, r × c; see :func:`decentrl.matching.matches.answer`.
    """

    rows: Tensor
    columns: Tensor
    pairs: SparseScores
    cosines: SparseScores


def ask(
    potentials: Potentials,
    ends: tuple[End, End],
    asked: Tensor,
    counterparts: Tensor,
    *,
    top: int,
    rivals: bool,
    near: bool,
) -> Found:
    """The best candidates of each asked entity.

    Args:
        ends: the asked graph and the other one.
        asked: int64[q].
        counterparts: int64[k], candidates of the other graph although a known link names them.
        top: how many candidates of each are wanted.
        rivals: whether to find who else of the asked graph claims each best candidate, which
            evidence needs.
        near: the indexes find only what is near. Where an asked entity's own term is not known, it
            is then by what was found, and so are its scores.
    """
    own, other = ends
    vectors = own.vectors, other.vectors
    allowed = _with(other.free, counterparts)
    column = potentials.values(COLUMNS, other.free, counterparts, vectors)
    queries = own.vectors[asked]
    kept = max(1, min(max(top, KEPT, NEAR if near else 0), len(allowed)))
    scale = potentials.scale
    found = other.index.search(queries, kept, scale=scale, bias=column, allowed=allowed)[1]
    there = found >= 0
    rows = asked[:, None].expand_as(found)[there]
    columns = found[there]

    # The terms of CSLS are about free entities only, whoever asks, so that a pair has one score.
    pool = allowed if potentials.matcher == "sinkhorn" else other.free
    term = potentials.solved[ROWS][asked]
    if pool is not other.free or not potentials.covers(COLUMNS, other.free):
        term = torch.full_like(term, torch.nan)
    lacking = term.isnan()
    if lacking.any() and near:
        cosine = torch.full(found.shape, -torch.inf)
        cosine[there] = dots(own.vectors, rows, other.vectors, columns).float()
        cosine.masked_fill_(~pool[found], -torch.inf)
        term[lacking] = potentials.terms_near(cosine[lacking], column[found][lacking])
    elif lacking.any():
        bias = column.where(pool, torch.nan)
        term[lacking] = potentials.terms(queries[lacking], other.vectors, bias)

    row = potentials.solved[ROWS]
    if rivals:
        row = potentials.values(ROWS, own.free, asked[:0], vectors)
    if not torch.equal(row[asked], term):
        row = row.index_put((asked,), term)
    answers = _found(scale, ends, asked, rows, columns, row, column)
    if not rivals or not len(columns):
        return answers
    best = answers.pairs.best(1)[1][:, 0]
    best = _distinct(answers.columns[best[best >= 0]])
    among = _with(own.free, asked)
    claims = own.index.search(other.vectors[best], 2, scale=scale, bias=row, allowed=among)[1]
    there = claims >= 0
    rows = torch.cat((rows, claims[there]))
    columns = torch.cat((columns, best[:, None].expand_as(claims)[there]))
    return _found(scale, ends, asked, rows, columns, row, column)


def _found(
    scale: float,
    ends: tuple[End, End],
    asked: Tensor,
    rows: Tensor,
    columns: Tensor,
    row: Tensor,
    column: Tensor,
) -> Found:
    """The scores of pairs, int64[p] each, that need not be distinct."""
    m = max(1, len(ends[1].vectors))
    keys = _distinct(rows * m + columns)
    rows, columns = keys // m, keys % m
    row_ids, column_ids = _distinct(torch.cat((asked, rows))), _distinct(columns)
    pairs = SparseScores(
        torch.searchsorted(row_ids, rows),
        torch.searchsorted(column_ids, columns),
        torch.empty(len(keys)),
        (len(row_ids), len(column_ids)),
    )
    cosine = dots(ends[0].vectors, rows, ends[1].vectors, columns)
    score = scale * cosine + row[rows].double() + column[columns].double()
    return Found(
        row_ids,
        column_ids,
        replace(pairs, values=score.float()),
        replace(pairs, values=cosine.float()),
    )


def rescored(pairs: SparseScores, scores: Scores) -> tuple[SparseScores, SparseScores]:
    """The scores of pairs and their cosines, summed in float64 as :func:`ask` does.

    So the full problem and a question give the same score, whatever the order of their sums.
    """
    cosine = dots(scores.left, pairs.rows, scores.right, pairs.columns)
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
    """float64[p] on the CPU, left[rows]·right[columns] for p pairs."""
    sums = torch.empty(len(rows), dtype=torch.float64)
    step = max(1, (8 << 20) // (8 * max(1, left.shape[1])))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        sums[some] = (left[rows[some]].double() * right[columns[some]].double()).sum(1).cpu()
    return sums


def _with(mask: Tensor, ids: Tensor) -> Tensor:
    """bool[n], and these as well; the mask itself if it has them all."""
    if bool(mask[ids].all()):
        return mask
    return mask.index_put((ids,), torch.tensor(True))


def _distinct(ids: Tensor) -> Tensor:
    return torch.from_numpy(np.unique(ids.numpy()))
