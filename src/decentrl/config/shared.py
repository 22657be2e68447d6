"""Sections that both jobs have: training steps, self-distillation, and the base of encoders.

What has no annotation in a section is a constant there, which a section derived from it may make a
setting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from decentrl.config.settings import Section, setting

SHARE = {"at_least": 0, "at_most": 1}
FEW_LINKS = 50
"""Fewer test links than this say little."""
WIDEST = 2**16
"""Of vectors: a wider one is a mistake, or an attempt to fill the memory."""


@dataclass(frozen=True)
class EncoderSettings(Section):
    """Base of an encoder's settings.

    Attributes:
        encoder: its name, by which ``model.encoder`` chooses it.
        inductive: whether entities that come after training can have vectors.
        sections: dataclasses of the other sections, where they differ from the job's defaults;
            None for a section that the encoder does without.
    """

    encoder: ClassVar[str] = ""
    inductive: ClassVar[bool] = True
    sections: ClassVar[dict[str, type | None]] = {}

    def check(self, config: Any) -> None:
        """Raise where its values contradict each other, or the job's other settings."""


@dataclass(frozen=True)
class Distillation(Section):
    variant: Literal["detached", "infonce", "l2", "none"] = setting(
        "detached", "self-distillation: the paper's, or one of its ablations"
    )
    weight: float = setting(0.3, "weight of the distillation loss", at_least=0)

    negatives: ClassVar[int] = 64
    """Sampled entities a step."""
    induce = False


@dataclass(frozen=True)
class HoldOut:
    """Training settings of what has no trained parameters."""

    valid: float = setting(0.1, "share of the training data held out for validation", at_least=0)
    refit: bool = setting(
        True, "once all is chosen on the held-out links, train again on all of them"
    )

    epochs: ClassVar[int] = 0


@dataclass(frozen=True)
class Steps(Section):
    """Training settings of everything that follows a gradient."""

    epochs: int = setting(15, "passes over the training links, or triples", at_least=0)
    batch: int = setting(1024, "links or questions a step; 0 means all in one", at_least=0)
    optimizer: Literal["adam", "rmsprop", "adagrad"] = setting(
        "rmsprop", "what follows the gradient"
    )
    learning_rate: float = setting(0.005, "of the optimizer", at_least=0)
    valid: float = setting(0.1, "share of the training data held out for validation", at_least=0)
    checkpoint_every: float = setting(30.0, "seconds between two checkpoints", at_least=0)

    validates = False  # between epochs
    validate_every = 10
    patience = 0
    schedule = "constant"
    encoder_rate = 1.0
    warm_up = 0  # steps, of the schedule "steps"
    clip = 0.0  # the largest norm of a gradient; 0 leaves it as it is


@dataclass(frozen=True)
class WatchedSteps(Steps):
    """Training that looks at the validation data between epochs and may stop early."""

    validates = True

    validate_every: int = setting(10, "epochs between two validations", at_least=1)
    patience: int = setting(
        3, "stop after this many validations without a better value; 0 never stops", at_least=0
    )
