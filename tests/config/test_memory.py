"""How much memory a job may use: one number, from an option, the environment or the machine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from decentrl.config.memory import VARIABLE, memory, score_budget, set_memory, size_of
from decentrl.data.limits import Limit
from decentrl.errors import ConfigError
from decentrl.matching.similarity import Scores


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GB", 8 * 10**9),
        ("8 gib", 8 * 2**30),
        ("500MB", 500 * 10**6),
        ("1.5TiB", int(1.5 * 2**40)),
        ("16", 16 * 2**30),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize(
    "text", ["", "much", "8 GBit", "-1GB", "0", "0.0MB", "1.2.3GB", "GB", "9" * 400]
)
def test_odd_sizes_are_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match="no size of memory"):
        size_of(text)


@given(st.integers(10**6, 10**13))
def test_what_is_set_is_what_is_used(size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, "1")  # is put back in the end
        set_memory(f"{size / 10**6!r}MB")
        assert abs(memory() - size) <= 1 + size * 1e-12
        assert score_budget() == min(1 << 30, memory() // 8)


def test_scores_and_text_follow_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    vectors = torch.eye(100)
    monkeypatch.setenv(VARIABLE, "1")
    assert Scores.cosine(vectors, vectors).kept is not None
    monkeypatch.setenv(VARIABLE, str(8 * 39_999 / 2**30))  # a matrix has 40,000 bytes
    assert Scores.cosine(vectors, vectors).kept is None
    assert Limit(tmp_path).bytes == memory() // 4


def test_a_large_machine_keeps_no_more_than_a_gibibyte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1000")
    assert score_budget() == 1 << 30
