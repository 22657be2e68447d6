"""Decoders: scores of triples (h, r, t) from the vectors of h and t.

Each is written as a product: a question (h, r, ?) becomes a vector, and the score of an answer is
its product with the answer's vector, so that all answers are scored by one matrix product.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.config.prediction import DecoderSettings
from decentrl.nn.aggregate import gather


class Decoder(nn.Module):
    r"""score(h, r, t) = query(h, r) · t + bias(t) + c(h, r), where c does not change an order.

    Relations are 0 … 2 · n_relations - 1: the second half are reciprocals, so that (?, r, t) is the
    question (t, n_relations + r, ?).

    Args:
        n_relations: how many relations there are, without reciprocals.
        dim: width of an entity's vector.
        relation_dim: width of a relation's vector.
    """

    def __init__(self, n_relations: int, dim: int, relation_dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim
        self.relations = nn.Parameter(torch.empty(2 * n_relations, relation_dim or dim))
        nn.init.normal_(self.relations, std=dim**-0.5)

    def query(self, heads: Tensor, relations: Tensor) -> Tensor:
        """h [b, dim], relation ids int64[b] → [b, dim]."""
        return self.combine(heads, gather(self.relations, relations))

    def combine(self, heads: Tensor, relations: Tensor) -> Tensor:
        """h [b, dim], relation vectors [b, relation_dim] → [b, dim]."""
        raise NotImplementedError

    def bias(self, vectors: Tensor) -> Tensor | None:
        """Of every answer, [n]; None if there is none."""
        return None

    def constant(self, queries: Tensor) -> Tensor | None:
        """Of every question, [b]: needed for scores, not for ranks."""
        return None

    def score(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """Scores of triples: [b, dim], int64[b], [b, dim] → [b]."""
        queries = self.query(heads, relations)
        scores = (queries * tails).sum(-1)
        for extra in (self.bias(tails), self.constant(queries)):
            if extra is not None:
                scores = scores + extra
        return scores

    def score_relations(self, heads: Tensor, tails: Tensor) -> Tensor:
        """Scores of all relations between h and t, up to a constant: → [b, 2 · n_relations]."""
        raise NotImplementedError

    def moduli(self, vectors: Tensor) -> Tensor:
        """What an N3 penalty cubes: absolute values."""
        return vectors.abs()

    def relation_moduli(self) -> Tensor:
        """The same of the relations."""
        return self.moduli(self.relations)


class _Distance(Decoder):
    """-|p - t|², written out: the query is 2p, where p is the point an answer is compared with."""

    def bias(self, vectors: Tensor) -> Tensor:
        return -vectors.square().sum(-1)

    def constant(self, queries: Tensor) -> Tensor:
        return -(queries / 2).square().sum(-1)


class TransE(_Distance):
    """-|h + r - t|² (the square changes no order)."""

    def combine(self, heads: Tensor, relations: Tensor) -> Tensor:
        return 2 * (heads + relations)

    def score_relations(self, heads: Tensor, tails: Tensor) -> Tensor:
        return 2 * (tails - heads) @ self.relations.t() - self.relations.square().sum(-1)


class DistMult(Decoder):
    """Σ h · r · t."""

    def combine(self, heads: Tensor, relations: Tensor) -> Tensor:
        return heads * relations

    def score_relations(self, heads: Tensor, tails: Tensor) -> Tensor:
        return heads * tails @ self.relations.t()


class _Complex(Decoder):
    """The first half of a vector is real, the second imaginary."""

    def moduli(self, vectors: Tensor) -> Tensor:
        real, imaginary = vectors.chunk(2, -1)
        return (real.square() + imaginary.square()).clamp(min=1e-12).sqrt()


class ComplEx(_Complex):
    """Re Σ h · r · conj(t)."""

    def combine(self, heads: Tensor, relations: Tensor) -> Tensor:
        return _times(heads, relations)

    def score_relations(self, heads: Tensor, tails: Tensor) -> Tensor:
        return _times(_conjugate(heads), tails) @ self.relations.t()


class RotatE(_Complex, _Distance):
    """-|h · e^{iθ} - t|²: a relation turns each complex coordinate by an angle."""

    def __init__(self, n_relations: int, dim: int) -> None:
        super().__init__(n_relations, dim, dim // 2)
        nn.init.uniform_(self.relations, -math.pi, math.pi)

    def combine(self, heads: Tensor, relations: Tensor) -> Tensor:
        return 2 * _times(heads, torch.cat((relations.cos(), relations.sin()), -1))

    def relation_moduli(self) -> Tensor:
        return torch.ones_like(self.relations)  # a turn changes no length

    def score_relations(self, heads: Tensor, tails: Tensor) -> Tensor:
        turns = torch.cat((self.relations.cos(), self.relations.sin()), -1)
        return 2 * _times(_conjugate(heads), tails) @ turns.t()


class TuckER(Decoder):
    """Σ W[k, i, j] r_k h_i t_j.

    Args:
        batch_norm: normalise heads and results over the batch, with dropout on the head, the
            relation's matrix and the result: 0.3, 0.4 and 0.5, as in the paper.
    """

    def __init__(
        self,
        n_relations: int,
        dim: int,
        relation_dim: int | None = None,
        batch_norm: bool = False,
    ) -> None:
        super().__init__(n_relations, dim, relation_dim or min(dim, 200))
        shares = (0.3, 4 / 3 * 0.3, 5 / 3 * 0.3) if batch_norm else (0.0, 0.0, 0.0)
        self.head_dropout, self.matrix_dropout, self.result_dropout = map(nn.Dropout, shares)
        self.head_norm, self.result_norm = (
            BatchNorm(dim) if batch_norm else nn.Identity() for _ in range(2)
        )
        width = self.relations.shape[1]
        self.core = nn.Parameter(torch.empty(width, dim, dim).uniform_(-1, 1) * 0.1)
        nn.init.normal_(self.relations, std=width**-0.5)

    def query(self, heads: Tensor, relations: Tensor) -> Tensor:
        heads = self.head_dropout(self.head_norm(heads))
        if heads.is_cuda and len(heads) * self.core[0].numel() * 4 <= 2**31:
            return self._finish(self._all_at_once(heads, relations))
        # A matrix for each question would be too much; one for each relation that occurs is not.
        distinct, which = torch.unique(relations, return_inverse=True)
        matrices = torch.einsum("uk,kij->uij", self.relations[distinct], self.core)
        matrices = self.matrix_dropout(matrices)
        order = torch.argsort(which, stable=True)
        counts = torch.bincount(which, minlength=len(distinct)).tolist()
        groups = torch.split(heads[order], counts)
        parts = [group @ matrix for group, matrix in zip(groups, matrices, strict=True)]
        return self._finish(torch.cat(parts)[torch.argsort(order)])

    def _all_at_once(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The same without a step for each relation, which is faster on a GPU."""
        matrices = gather(self.relations, relations) @ self.core.flatten(1)
        matrices = self.matrix_dropout(matrices).view(-1, self.dim, self.dim)
        return torch.bmm(heads[:, None], matrices)[:, 0]

    def _finish(self, result: Tensor) -> Tensor:
        finished: Tensor = self.result_dropout(self.result_norm(result))
        return finished

    def score_relations(self, heads: Tensor, tails: Tensor) -> Tensor:
        heads = self.head_norm(heads)
        if isinstance(self.result_norm, BatchNorm):  # all but its slope is a constant of the answer
            tails = tails * self.result_norm.slope()
        return torch.einsum("bi,kij,bj->bk", heads, self.core, tails) @ self.relations.t()


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation; a single row in training is normalised by the running statistics."""

    def forward(self, rows: Tensor) -> Tensor:
        if self.training and len(rows) == 1:
            known = self.running_mean, self.running_var, self.weight, self.bias
            return F.batch_norm(rows, *known, eps=self.eps)
        return super().forward(rows)

    def slope(self) -> Tensor:
        """The factor of each coordinate by the running statistics: [dim]."""
        assert self.running_var is not None
        return self.weight * (self.running_var + self.eps).rsqrt()


class ConvE(Decoder):
    """A convolution over h and r, laid one above the other, then a linear map; · t.

    The paper's sizes: 32 filters of 3 × 3, and dropout 0.2 on the image, 0.2 on whole channels and
    0.3 on the result.
    """

    CHANNELS = 32

    def __init__(self, n_relations: int, dim: int) -> None:
        super().__init__(n_relations, dim)
        self.height = next(k for k in range(int(dim**0.5), 0, -1) if dim % k == 0)
        self.width = dim // self.height
        self.image_norm = nn.BatchNorm2d(1)
        self.image_dropout = nn.Dropout(0.2)
        self.convolution = nn.Conv2d(1, self.CHANNELS, 3, padding=1)
        self.channel_norm = nn.BatchNorm2d(self.CHANNELS)
        self.channel_dropout = nn.Dropout2d(0.2)
        self.linear = nn.Linear(self.CHANNELS * 2 * dim, dim)
        self.result_dropout = nn.Dropout(1.5 * 0.2)
        self.result_norm = BatchNorm(dim)

    def combine(self, heads: Tensor, relations: Tensor) -> Tensor:
        shape = (-1, 1, self.height, self.width)
        image = torch.cat((heads.reshape(shape), relations.view(shape)), 2)
        image = self.image_dropout(self.image_norm(image))
        maps = self.channel_dropout(F.relu(self.channel_norm(self.convolution(image))))
        result = self.result_dropout(self.linear(maps.flatten(1)))
        return F.relu(self.result_norm(result))

    def score_relations(self, heads: Tensor, tails: Tensor) -> Tensor:
        """A relation at a time: nothing here is linear in r."""
        every = torch.arange(len(self.relations), device=heads.device)
        columns = [self.score(heads, r.expand(len(heads)), tails) for r in every]
        return torch.stack(columns, 1)


DECODERS: dict[str, type[Decoder]] = {
    "transe": TransE,
    "distmult": DistMult,
    "complex": ComplEx,
    "rotate": RotatE,
    "tucker": TuckER,
    "conve": ConvE,
}


def make_decoder(settings: DecoderSettings, n_relations: int, dim: int) -> Decoder:
    """The decoder that settings ask for, over vectors of width ``dim``."""
    if settings.name == "tucker":
        return TuckER(n_relations, dim, batch_norm=settings.batch_norm)
    return DECODERS[settings.name](n_relations, dim)


def _times(a: Tensor, b: Tensor) -> Tensor:
    """Complex product."""
    a_real, a_imaginary = a.chunk(2, -1)
    b_real, b_imaginary = b.chunk(2, -1)
    real = a_real * b_real - a_imaginary * b_imaginary
    return torch.cat((real, a_real * b_imaginary + a_imaginary * b_real), -1)


def _conjugate(a: Tensor) -> Tensor:
    real, imaginary = a.chunk(2, -1)
    return torch.cat((real, -imaginary), -1)
