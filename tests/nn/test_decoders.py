"""Every decoder is its formula, however many answers are asked for at once."""

from __future__ import annotations

import cmath
import itertools
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import gradcheck

from decentrl.config import prediction
from decentrl.nn.decoders import DECODERS, ConvE, Decoder, RotatE, TuckER

R, D, B, N = 3, 6, 5, 7
RELATIONS = torch.tensor([4, 0, 4, 1, 0])  # some twice, in no order; 4 is a reciprocal
every_decoder = pytest.mark.parametrize("name", list(DECODERS))


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def make(name: str) -> Decoder:
    """A decoder in double precision and with dropout off, its batch norms anything but neutral."""
    torch.manual_seed(0)
    made = TuckER(R, D, 4) if name == "tucker" else DECODERS[name](R, D)
    if isinstance(made, ConvE):
        for norm in (made.image_norm, made.channel_norm, made.result_norm):
            torch.nn.init.uniform_(norm.weight, 0.5, 2)
            torch.nn.init.normal_(norm.bias)
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
    return made.double().eval()


def complexes(vector: Tensor) -> list[complex]:
    half = len(vector) // 2
    return [complex(a, b) for a, b in zip(vector[:half], vector[half:], strict=True)]


# The formulas, for one triple of vectors.


def transe(_: Decoder, h: Tensor, r: Tensor, t: Tensor) -> float:
    return -sum((h[i] + r[i] - t[i]).item() ** 2 for i in range(D))


def distmult(_: Decoder, h: Tensor, r: Tensor, t: Tensor) -> float:
    return sum((h[i] * r[i] * t[i]).item() for i in range(D))


def complex_(_: Decoder, h: Tensor, r: Tensor, t: Tensor) -> float:
    parts = zip(complexes(h), complexes(r), complexes(t), strict=True)
    return sum(a * b * c.conjugate() for a, b, c in parts).real


def rotate(_: Decoder, h: Tensor, r: Tensor, t: Tensor) -> float:
    parts = zip(complexes(h), r.tolist(), complexes(t), strict=True)
    return -sum(abs(a * cmath.exp(1j * angle) - c) ** 2 for a, angle, c in parts)


def tucker(decoder: Decoder, h: Tensor, r: Tensor, t: Tensor) -> float:
    assert isinstance(decoder, TuckER)
    core, ways = decoder.core.tolist(), itertools.product(range(len(r)), range(D), range(D))
    r, h, t = r.tolist(), h.tolist(), t.tolist()  # type: ignore[assignment]
    return sum(float(core[k][i][j] * r[k] * h[i] * t[j]) for k, i, j in ways)


def conve(decoder: Decoder, h: Tensor, r: Tensor, t: Tensor) -> float:
    assert isinstance(decoder, ConvE)

    def normed(norm: torch.nn.Module, values: Tensor) -> Tensor:
        """[channels, …]"""
        shape = (-1,) + (1,) * (values.dim() - 1)
        mean, variance = norm.running_mean.view(shape), norm.running_var.view(shape)
        scaled = (values - mean) / (variance + norm.eps).sqrt()
        return scaled * norm.weight.view(shape) + norm.bias.view(shape)

    image = torch.cat((h.view(2, 3), r.view(2, 3)))  # 6 = 2 × 3, one above the other
    (image,) = normed(decoder.image_norm, image[None])
    padded = F.pad(image, (1, 1, 1, 1))
    weight, bias = decoder.convolution.weight, decoder.convolution.bias
    maps = torch.empty(len(weight), 4, 3, dtype=torch.float64)
    for c, row, column in itertools.product(range(len(weight)), range(4), range(3)):
        window = padded[row : row + 3, column : column + 3]
        maps[c, row, column] = (weight[c, 0] * window).sum() + bias[c]
    maps = normed(decoder.channel_norm, maps).clamp(min=0)
    result = decoder.linear.weight @ maps.reshape(-1) + decoder.linear.bias
    return (normed(decoder.result_norm, result).clamp(min=0) @ t).item()


FORMULAS: dict[str, Callable[[Decoder, Tensor, Tensor, Tensor], float]] = {
    "transe": transe,
    "distmult": distmult,
    "complex": complex_,
    "rotate": rotate,
    "tucker": tucker,
    "conve": conve,
}


@torch.no_grad()
def naive(name: str, decoder: Decoder, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
    """[b, dim], int64[b], [b, dim] → [b]."""
    vectors = decoder.relations.detach()[relations]
    rows = zip(heads, vectors, tails, strict=True)
    return torch.tensor([FORMULAS[name](decoder, h, r, t) for h, r, t in rows], dtype=torch.float64)


def score_all(decoder: Decoder, heads: Tensor, relations: Tensor, vectors: Tensor) -> Tensor:
    """Scores of all answers by their definition: [b, dim], int64[b], [n, dim] → [b, n]."""
    queries = decoder.query(heads, relations)
    scores = queries @ vectors.t()
    for extra, dim in ((decoder.bias(vectors), 0), (decoder.constant(queries), 1)):
        if extra is not None:
            scores = scores + extra.unsqueeze(dim)
    return scores


def test_every_decoder_of_the_settings_exists_and_has_a_formula_here() -> None:
    assert list(prediction.DECODERS) == list(DECODERS) == list(FORMULAS)


@every_decoder
def test_the_score_of_a_triple_is_its_formula(name: str) -> None:
    decoder, heads, tails = make(name), randn(B, D), randn(B, D, seed=1)
    found = decoder.score(heads, RELATIONS, tails)
    torch.testing.assert_close(found, naive(name, decoder, heads, RELATIONS, tails))


@every_decoder
def test_the_scores_of_all_answers_are_the_formula_of_each(name: str) -> None:
    decoder, heads, vectors = make(name), randn(B, D), randn(N, D, seed=1)
    found = score_all(decoder, heads, RELATIONS, vectors)
    expected = [naive(name, decoder, heads, RELATIONS, vector.expand(B, D)) for vector in vectors]
    torch.testing.assert_close(found, torch.stack(expected, 1))


@every_decoder
def test_all_answers_score_as_they_do_one_by_one_with_their_gradients(name: str) -> None:
    decoder = make(name)
    heads, vectors = randn(B, D).requires_grad_(), randn(N, D, seed=1).requires_grad_()
    together = score_all(decoder, heads, RELATIONS, vectors)
    pairs = torch.cartesian_prod(torch.arange(B), torch.arange(N))
    single = decoder.score(heads[pairs[:, 0]], RELATIONS[pairs[:, 0]], vectors[pairs[:, 1]])
    torch.testing.assert_close(together.flatten(), single)
    wanted, toward = (heads, vectors, *decoder.parameters()), randn(B * N, seed=2)
    torch.testing.assert_close(
        torch.autograd.grad(together.flatten(), wanted, toward),
        torch.autograd.grad(single, wanted, toward),
    )


@every_decoder
def test_a_query_and_a_bias_are_all_that_ranks_need(name: str) -> None:
    decoder, heads, vectors = make(name), randn(B, D), randn(N, D, seed=1)
    scores, bias = decoder.query(heads, RELATIONS) @ vectors.t(), decoder.bias(vectors)
    left = score_all(decoder, heads, RELATIONS, vectors) - scores
    if bias is not None:
        assert bias.shape == (N,)
        left = left - bias
    torch.testing.assert_close(left, left[:, :1].expand(B, N))


@every_decoder
def test_the_scores_of_all_relations_are_the_formula_up_to_a_constant(name: str) -> None:
    decoder, heads, tails = make(name), randn(B, D), randn(B, D, seed=1)
    found = decoder.score_relations(heads, tails)
    expected = torch.stack(
        [naive(name, decoder, heads, torch.full((B,), r), tails) for r in range(2 * R)], 1
    )
    assert found.shape == (B, 2 * R)
    assert expected.std(1).min() > 1e-3  # the relation matters, so there is something to get wrong
    left = found - expected
    torch.testing.assert_close(left, left[:, :1].expand(B, 2 * R))


@every_decoder
def test_its_gradients_are_right(name: str) -> None:
    decoder = make(name)

    def run(heads: Tensor, relations: Tensor, vectors: Tensor) -> Tensor:
        scores: Tensor = torch.func.functional_call(
            _Scoring(decoder), {"decoder.relations": relations}, (heads, RELATIONS, vectors)
        )
        return scores

    inputs = randn(B, D), decoder.relations.detach(), randn(N, D, seed=1)
    assert gradcheck(run, [part.clone().requires_grad_() for part in inputs])


class _Scoring(torch.nn.Module):
    """All answers and all relations, in one call."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, heads: Tensor, relations: Tensor, vectors: Tensor) -> Tensor:
        answers = score_all(self.decoder, heads, relations, vectors)
        return torch.cat((answers, self.decoder.score_relations(heads, vectors[:B])), 1)


@every_decoder
def test_gradients_reach_every_head_every_answer_and_the_relations_asked(name: str) -> None:
    decoder = make(name)
    heads, vectors = randn(B, D).requires_grad_(), randn(N, D, seed=1).requires_grad_()
    (score_all(decoder, heads, RELATIONS, vectors) * randn(B, N, seed=2)).sum().backward()
    assert decoder.relations.grad is not None
    assert heads.grad is not None
    assert vectors.grad is not None
    assert heads.grad.any(1).all()
    assert vectors.grad.any(1).all()
    asked = [r in RELATIONS.tolist() for r in range(2 * R)]
    assert decoder.relations.grad.any(1).tolist() == asked


@every_decoder
def test_moduli_are_absolute_values(name: str) -> None:
    vectors = randn(N, D)
    found = make(name).moduli(vectors)
    if name in ("complex", "rotate"):
        expected = [[abs(number) for number in complexes(vector)] for vector in vectors]
    else:
        expected = [[abs(number) for number in vector] for vector in vectors.tolist()]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


@every_decoder
def test_the_modulus_of_nothing_has_a_gradient(name: str) -> None:
    nothing = torch.zeros(2, D, requires_grad=True)
    make(name).float().moduli(nothing).pow(3).sum().backward()
    assert nothing.grad is not None
    assert not nothing.grad.any()


def test_a_turn_keeps_lengths() -> None:
    decoder, heads = make("rotate"), randn(B, D)
    assert isinstance(decoder, RotatE)
    moved = decoder.combine(heads, decoder.relations[RELATIONS]) / 2
    torch.testing.assert_close(decoder.moduli(moved), decoder.moduli(heads))
    assert decoder.relations.shape == (2 * R, D // 2)


@pytest.mark.parametrize(("dim", "height"), [(6, 2), (16, 4), (7, 1), (200, 10)])
def test_an_image_is_as_square_as_its_width_allows(dim: int, height: int) -> None:
    decoder = ConvE(1, dim).eval()
    assert (decoder.height, decoder.height * decoder.width) == (height, dim)
    assert decoder.query(torch.randn(2, dim), torch.tensor([0, 1])).shape == (2, dim)


def test_a_convolution_is_thinned_out_while_training_only() -> None:
    decoder, heads = make("conve"), randn(B, D)
    assert torch.equal(decoder.query(heads, RELATIONS), decoder.query(heads, RELATIONS))
    decoder.train()
    assert not torch.equal(decoder.query(heads, RELATIONS), decoder.query(heads, RELATIONS))


def test_one_relation_or_one_question_is_no_special_case_of_a_core() -> None:
    decoder, heads, tails = make("tucker"), randn(B, D), randn(B, D, seed=1)
    for relations in (torch.full((B,), 2), torch.arange(B)):
        found = decoder.score(heads, relations, tails)
        torch.testing.assert_close(found, naive("tucker", decoder, heads, relations, tails))
    one = decoder.score(heads[:1], RELATIONS[:1], tails[:1])
    torch.testing.assert_close(one, naive("tucker", decoder, heads[:1], RELATIONS[:1], tails[:1]))
