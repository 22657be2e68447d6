"""Claims, the comparisons of numbers behind them, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from studies.store import Stat
from studies.tables import MARK


@dataclass(frozen=True)
class Comparison:
    """Two numbers; the claim is that the first is better."""

    where: str
    first: Stat | None
    second: Stat | None
    lower: bool = False
    digits: int = 3

    @property
    def sign(self) -> int | None:
        """1 if the first is better, -1 if the second is, by more than the standard error of the
        difference, 0 if neither; None if not measured.

        With one seed there is no such error, and any difference counts.
        """
        if self.first is None or self.second is None:
            return None
        gap = (self.second.mean - self.first.mean) * (1 if self.lower else -1)
        return 0 if abs(gap) <= _error(self.first, self.second) else 1 if gap > 0 else -1

    def __str__(self) -> str:
        if self.first is None or self.second is None or self.sign is None:
            return f"{self.where}: not measured"
        numbers = (f"{x.mean:.{self.digits}f}" for x in (self.first, self.second))
        mark = f" {MARK}" * (self.first.uncommitted or self.second.uncommitted)
        return f"{self.where}: {' against '.join(numbers)} {'≈✓✗'[self.sign]}{mark}"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and the comparisons it is judged by."""

    name: str
    statement: str
    evidence: Sequence[Comparison]

    @property
    def verdict(self) -> str:
        """Confirmed, partly confirmed, refuted or open, by the comparisons that were measured."""
        signs = [x.sign for x in self.evidence if x.sign is not None]
        if not signs:
            return "not yet measured"
        left = len(self.evidence) - len(signs)
        rest = f", {left} comparison{'s' * (left > 1)} not yet measured" if left else ""
        yes, no = signs.count(1), signs.count(-1)
        if yes == len(signs):
            return f"confirmed{rest}"
        if no and not yes:
            return f"refuted{rest}"
        if not yes:
            return f"no clear difference{rest}"
        return f"partly confirmed: {yes} of {len(signs)} comparisons for it, {no} against{rest}"


def ratio(first: Stat | None, second: Stat | None) -> Stat | None:
    """The ratio of two means, with the error that follows from theirs, as if of one seed."""
    if first is None or second is None or not first.mean or not second.mean:
        return None
    value = first.mean / second.mean
    error: float = sum(x.spread**2 / x.n / x.mean**2 for x in (first, second)) ** 0.5
    return Stat(value, value * error, 1, first.uncommitted or second.uncommitted)


def difference(first: Stat | None, second: Stat | None) -> Stat | None:
    """The difference of two means, with its error, as if of one seed."""
    if first is None or second is None:
        return None
    either = first.uncommitted or second.uncommitted
    return Stat(first.mean - second.mean, _error(first, second), 1, either)


def _error(first: Stat, second: Stat) -> float:
    """The standard error of the difference of two means."""
    return float(sum(x.spread**2 / x.n for x in (first, second)) ** 0.5)
