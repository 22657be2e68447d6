"""What an alignment will take is estimated from sizes alone."""

from __future__ import annotations

import pytest
import torch

from decentrl.config import Config
from decentrl.config.memory import VARIABLE
from decentrl.training.estimate import needs

QUICK = Config.from_preset("quick")


def test_needs_grow_in_line_with_the_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "16")
    small, large = (needs(QUICK, (n, n), 12 * n) for n in (100_000, 1_000_000))
    assert 9 < large.disk / small.disk < 11
    assert 5 < large.memory / small.memory < 11


def test_needs_of_a_pair_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """2 × 20,000 entities with 240,000 triples: 1.84 GB until vectors and memories are made."""
    monkeypatch.setenv(VARIABLE, "16")
    found = needs(QUICK, (20_000, 20_000), 240_000)
    assert 1.6e9 < found.training < 2.2e9
    assert found.memory == max(found.training, found.matching)


def test_what_is_wider_needs_more_and_nothing_is_drawn() -> None:
    before = torch.random.get_rng_state()
    wide = needs(Config.from_preset("strong"), (10_000, 10_000), 100_000)
    assert wide.training > needs(QUICK, (10_000, 10_000), 100_000).training
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("preset", ["strong", "paper", "propagate", "tiny"])
def test_all_presets_have_needs(preset: str) -> None:
    assert needs(Config.from_preset(preset), (1000, 1000), 5000).memory > 450 << 20
