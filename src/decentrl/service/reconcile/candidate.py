"""A candidate of a reconciliation query."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Candidate:
    """An entity of the target, and why it may be the one.

    Attributes:
        score: 100 times the confidence, or likeness where none was learned.
        sure: whether it is taken to be the one.
        features: numbers by what they are called.
    """

    id: int
    score: float = 0.0
    sure: bool = False
    features: dict[str, float] = field(default_factory=dict)
