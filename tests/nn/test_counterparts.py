"""Whether an entity has a counterpart, in its vector."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from decentrl.nn.counterparts import WIDTH, mark_counterparts

SURE = arrays(np.float64, st.integers(1, 12), elements=st.floats(0, 1))


def units(n: int, seed: int = 0) -> torch.Tensor:
    random = torch.Generator().manual_seed(seed)
    vectors = torch.randn(n, 5, generator=random, dtype=torch.float64)
    return vectors / vectors.norm(dim=1, keepdim=True)


@settings(deadline=None)
@given(SURE, st.floats(0, 0.5))
def test_a_cosine_gains_by_alike_and_loses_by_opposite(
    sure: np.ndarray[tuple[int], np.dtype[np.float64]], weight: float
) -> None:
    own = units(len(sure))
    marked = mark_counterparts(
        torch.nn.functional.pad(own, (0, WIDTH)), torch.from_numpy(sure), weight
    )
    angles = 2 * np.arctan2(np.sqrt(1 - sure), np.sqrt(sure))
    alike = torch.from_numpy(np.cos(angles[:, None] - angles))
    expected = (1 - weight) * own @ own.T + weight * alike
    torch.testing.assert_close(marked @ marked.T, expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(marked.norm(dim=1), torch.ones(len(sure), dtype=torch.float64))


def test_a_row_of_zeros_stays_so() -> None:
    vectors = torch.zeros(2, 5 + WIDTH)
    vectors[1, 0] = 1.0
    marked = mark_counterparts(vectors, torch.zeros(2), 0.1)
    assert not marked[0].any()
    torch.testing.assert_close(marked[1].norm(), torch.tensor(1.0))
