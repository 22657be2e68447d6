"""What the decoders of the tables have from their papers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from decentrl.nn.decoders import BatchNorm, ConvE, TuckER

R, D, B = 3, 6, 5
KINDS = torch.tensor([0, 4, 4, 1, 0])


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def tucker(*, dropout: bool = False) -> TuckER:
    torch.manual_seed(0)
    decoder = TuckER(R, D, 4, batch_norm=True).double()
    if not dropout:
        for layer in (decoder.head_dropout, decoder.matrix_dropout, decoder.result_dropout):
            layer.p = 0.0
    return decoder


def normed(rows: Tensor) -> Tensor:
    return (rows - rows.mean(0)) / (rows.var(0, unbiased=False) + 1e-5).sqrt()


def test_tucker_normalises_heads_and_results_over_the_batch() -> None:
    decoder, heads = tucker(), randn(B, D)
    matrices = torch.einsum("bk,kij->bij", decoder.relations[KINDS], decoder.core)
    expected = normed(torch.einsum("bi,bij->bj", normed(heads), matrices))
    torch.testing.assert_close(decoder.query(heads, KINDS), expected)
    decoder.eval()
    alone = torch.cat([decoder.query(heads[k : k + 1], KINDS[k : k + 1]) for k in range(B)])
    torch.testing.assert_close(alone, decoder.query(heads, KINDS))


def test_tucker_is_the_same_all_at_once_and_relation_by_relation() -> None:
    decoder, heads = tucker().eval(), randn(B, D)
    at_once = decoder._finish(decoder._all_at_once(decoder.head_norm(heads), KINDS))
    torch.testing.assert_close(at_once, decoder.query(heads, KINDS))


def test_relations_are_ranked_as_triples_are_with_normalisation_too() -> None:
    decoder, heads, tails = tucker(), randn(B, D), randn(B, D, seed=1)
    decoder.query(heads, KINDS)  # something to know
    decoder.eval()
    found = decoder.score_relations(heads, tails)
    every = [decoder.score(heads, torch.full((B,), r), tails) for r in range(2 * R)]
    expected = torch.stack(every, 1)
    torch.testing.assert_close(found - found[:, :1], expected - expected[:, :1])


def test_dropouts_of_tucker_grow_from_head_to_result() -> None:
    decoder = tucker(dropout=True)
    layers = decoder.head_dropout, decoder.matrix_dropout, decoder.result_dropout
    assert [layer.p for layer in layers] == pytest.approx([0.3, 0.4, 0.5])
    assert not torch.equal(decoder.query(randn(B, D), KINDS), decoder.query(randn(B, D), KINDS))


def test_a_single_row_is_normalised_with_what_is_known() -> None:
    norm = BatchNorm(D).double()
    norm(randn(B, D))
    row = randn(1, D)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    expected = (row - norm.running_mean) / (norm.running_var + 1e-5).sqrt()
    torch.testing.assert_close(norm(row), expected)


def test_conve_has_the_sizes_of_its_paper() -> None:
    decoder = ConvE(R, 200)
    assert decoder.convolution.weight.shape == (32, 1, 3, 3)
    assert decoder.query(torch.ones(2, 200), KINDS[:2]).shape == (2, 200)
    dropouts = decoder.image_dropout, decoder.channel_dropout, decoder.result_dropout
    assert [dropout.p for dropout in dropouts] == pytest.approx([0.2, 0.2, 0.3])
