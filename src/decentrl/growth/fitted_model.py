"""What holds the state of an aligner or a predictor: it is swapped whole, never changed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch

from decentrl.config import Settings
from decentrl.errors import ConfigError, NotFittedError
from decentrl.growth.growing import Growing
from decentrl.growth.learned import Learned
from decentrl.nn.running import pick_device
from decentrl.storage.kinds import KINDS, KindName
from decentrl.training.loop import Row

T = TypeVar("T")
L = TypeVar("L", bound=Learned)


class FittedModel(ABC, Generic[L]):
    """Settings, a device, and what was learned, once it was.

    Attributes:
        kind: what a bundle of it is called.
        learned_type: the class of what it learns.
        history: a row for each epoch of the training.
        seconds: how long each step took.
    """

    kind: ClassVar[KindName]
    learned_type: ClassVar[type[Learned]]

    def __init__(self, config: Settings, device: str | torch.device = "auto") -> None:
        self.config: Any = config
        self.device = pick_device(device)
        self._growing: Growing | None = None
        self._derived: dict[str, tuple[Any, Any]] = {}
        self.history: list[Row] = []
        self.seconds: dict[str, float] = {}

    @classmethod
    def from_preset(
        cls, name: str, *settings: str, seed: int = 0, device: str | torch.device = "auto"
    ) -> Self:
        """``Aligner.from_preset("paper", "model.dim=128", seed=1)``."""
        return cls(KINDS[cls.kind].settings.from_preset(name, settings, seed), device)

    @property
    def growing(self) -> Growing:
        """All that it knows now: what was learned, and the graphs with what was added since.

        A fit, a refresh or a compaction makes another one, which takes its place.
        """
        if self._growing is None:
            raise NotFittedError(
                f"this {self.kind} has learned nothing yet; call fit or load first"
            )
        return self._growing

    @property
    def learned(self) -> L:
        """What training, or the last compaction, has left."""
        learned: L = self.growing.learned
        return learned

    @property
    def task(self) -> Any:
        """What it learned from, with all that was added."""
        return self._once("task", lambda: self.learned.grown_task(self.growing))

    def _swap(self, learned: L, **place: Any) -> None:
        """Let a new state take the place of the old one; ``place`` as for :class:`Growing`."""
        self._growing, self._derived = Growing(learned, **place), {}

    def _once(self, name: str, make: Callable[[], T], grows: bool = False, of: bytes = b"") -> T:
        """Something made of the state: once, until it (or what it ``grows`` of) is another one."""
        now = self.growing, None if grows else self.growing.version, of
        if name not in self._derived or self._derived[name][0] != now:
            self._derived[name] = now, make()
        made: T = self._derived[name][1]
        return made

    def __repr__(self) -> str:
        config = self.config
        about = f"{type(self).__name__}(preset={config.preset!r}, seed={config.seed}"
        if self._growing is None:
            return f"{about}, not fitted)"
        sizes = " + ".join(f"{len(side.entities):,}" for side in self.growing.sides.values())
        added = len(self.growing.log())
        more = f", {added:,} additions" if added else ""
        return f"{about}, fitted on {self.task.name!r}: {sizes} entities{more})"

    @abstractmethod
    def fit(self, *args: Any, **options: Any) -> Self:
        """Train."""

    def _side(self, side: str | None) -> str:
        """The name of a graph; None for the first, or only, one."""
        sides = self.growing.sides
        if side is None:
            return next(iter(sides))
        if side not in sides:
            names = f"there are: {', '.join(sides)}" if len(sides) > 1 else "there is one graph"
            raise ConfigError(f"no side {side!r}; {names}")
        return side
