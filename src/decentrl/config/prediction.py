"""Settings of entity prediction: a dataclass for each encoder, decoder and loss.

Defaults are those of the preset ``strong``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from decentrl.config.settings import Sections, Settings, setting
from decentrl.config.shared import SHARE, WIDEST, Distillation, EncoderSettings, WatchedSteps
from decentrl.errors import ConfigError


@dataclass(frozen=True)
class PredictionDistillation(Distillation):
    variant: Literal["detached", "infonce", "l2", "none"] = "none"


@dataclass(frozen=True)
class PredictionTraining(WatchedSteps):
    epochs: int = 30
    optimizer: Literal["adam", "rmsprop", "adagrad"] = "adagrad"
    learning_rate: float = 0.1
    schedule: Literal["constant", "linear"] = setting(
        "constant", "linear lowers the learning rate from epoch to epoch, to 0 after the last"
    )
    encoder_rate: float = setting(
        0.05, "the encoder's learning rate, as a share of that of all else", at_least=0
    )


@dataclass(frozen=True)
class PathsTraining(WatchedSteps):
    epochs: int = setting(8, "stretches of training between two checkpoints", at_least=0)
    steps: int = setting(
        50,
        "steps an epoch; 0 asks about every training triple once, in both directions",
        at_least=0,
    )
    batch: int = setting(32, "questions a step", at_least=1, at_most=2**16)
    optimizer: Literal["adamw"] = "adamw"  # type: ignore[assignment]
    learning_rate: float = 0.003
    validate_every: int = 4
    patience: int = 0

    schedule = "steps"
    warm_up = 100
    clip = 1.0


@dataclass(frozen=True)
class ScorerSettings(EncoderSettings):
    """Base of the settings of what answers questions in a way of its own, without a decoder.

    Attributes:
        vectors: whether it makes vectors of entities.
        any_graph: whether it can be asked about other graphs with the same relations.
        validated: triples looked at in a validation while training: a sample is enough.
        calibrated: triples that probabilities are fitted to; 0 means all.
    """

    sections: ClassVar[dict[str, type | None]] = {
        "decoder": None, "distillation": None, "loss": None,
    }  # fmt: skip
    vectors: ClassVar[bool] = False
    any_graph: ClassVar[bool] = False
    validated: ClassVar[int] = 500
    calibrated: ClassVar[int] = 2000


@dataclass(frozen=True)
class PathsSettings(ScorerSettings):
    """Question-conditioned propagation: answers are read off the paths that lead to them."""

    encoder: ClassVar[str] = "paths"
    any_graph: ClassVar[bool] = True
    sections: ClassVar[dict[str, type | None]] = {
        **ScorerSettings.sections, "training": PathsTraining,
    }  # fmt: skip

    dim: int = setting(16, "width of an entity's state", at_least=1, at_most=2**10)
    layers: int = setting(5, "number of layers: how long a path can be", at_least=1, at_most=64)
    frontier: int = setting(
        0,
        "entities that a layer goes on from, the most promising of a question; 0 is exact: all",
        at_least=0,
    )
    members: int = setting(
        1, "networks that are trained, each alone; their log-probabilities are averaged",
        at_least=1, at_most=64,
    )  # fmt: skip
    hide: Literal["auto", "pair", "triple"] = setting(
        "auto",
        "what a batch must not see: the triples asked about, all edges between their entities "
        "(pair), or what validation triples look like (auto)",
    )


@dataclass(frozen=True)
class FusedTraining(PathsTraining):
    vectors: float = setting(
        1.0, "share of the epochs of the preset strong that the vectors are trained for", **SHARE
    )


@dataclass(frozen=True)
class FusedSettings(PathsSettings):
    """Answers by paths, and by vectors as the preset ``strong`` makes them, weighed together."""

    encoder: ClassVar[str] = "fused"
    vectors: ClassVar[bool] = True
    any_graph: ClassVar[bool] = False
    sections: ClassVar[dict[str, type | None]] = {
        **PathsSettings.sections, "training": FusedTraining,
    }  # fmt: skip


@dataclass(frozen=True)
class PredictionEncoderSettings(EncoderSettings):
    """Base of the settings of an encoder under a decoder."""

    vectors: ClassVar[bool] = True
    any_graph: ClassVar[bool] = False
    validated: ClassVar[int] = 5000
    calibrated: ClassVar[int] = 0

    dim: int = setting(
        512, "width of the input embeddings and of every layer", at_least=1, at_most=WIDEST
    )
    dropout: float = setting(0.3, "dropout on entity vectors", **SHARE)
    output: Literal["tied", "table"] = setting(
        "tied", "answers are compared by the vectors that ask, or by a table (no new answers then)"
    )

    layers = 0
    own = "off"
    hidden = 0.0
    reuse = 1

    def made(self) -> int:
        """Width of what the encoder makes of an entity's neighbours; 0 without one."""
        return self.dim


@dataclass(frozen=True)
class LayeredSettings(PredictionEncoderSettings):
    layers: int = setting(2, "number of layers, K", at_least=1, at_most=64)
    hidden: float = setting(
        0.5,
        "share of the edges between a batch's questions and answers hidden while it is learned",
        **SHARE,
    )
    reuse: int = setting(
        1,
        "steps that share one encoding of the graph; the encoder learns from all at once",
        at_least=1,
        at_most=10_000,
    )


@dataclass(frozen=True)
class InductiveSettings(LayeredSettings):
    own: Literal["off", "add", "concatenate"] = setting(
        "off", "an entity's own embedding: not used, added to the encoder's vector, or beside it"
    )


@dataclass(frozen=True)
class PredictionDANSettings(InductiveSettings):
    """The paper's Decentralized Attention Network."""

    encoder: ClassVar[str] = "dan"


@dataclass(frozen=True)
class PredictionReflectionSettings(InductiveSettings):
    """The relational encoder: neighbours reflected along relations."""

    encoder: ClassVar[str] = "reflection"

    dim: int = 128
    dropout: float = 0.0
    hidden: float = 0.0
    reuse: int = 10
    own: Literal["off", "add", "concatenate"] = "add"

    def made(self) -> int:
        return 2 * (self.layers + 1) * self.dim


@dataclass(frozen=True)
class TableSettings(PredictionEncoderSettings):
    """A table of embeddings: an entity that comes later has none."""

    encoder: ClassVar[str] = "none"
    sections: ClassVar[dict[str, type | None]] = {"distillation": None}

    def made(self) -> int:
        return 0


ENCODERS: dict[str, type[EncoderSettings]] = {
    "dan": PredictionDANSettings,
    "reflection": PredictionReflectionSettings,
    "none": TableSettings,
    "paths": PathsSettings,
    "fused": FusedSettings,
}
"""Settings of every encoder by its name; registering a prediction encoder adds to it."""


@dataclass(frozen=True)
class PredictionLoss:
    """Softmax: one answer against all others."""

    candidates: int = setting(
        0, "sampled entities that a step's answers compete with; 0 means all", at_least=0
    )
    smoothing: float = setting(0.0, "share of a right answer spread over all", **SHARE)
    relations: float = setting(
        4.0, "weight of asking for the relation between two entities too", at_least=0
    )
    n3: float = setting(0.05, "weight of the cubed absolute values of h, r and t", at_least=0)

    root = False


@dataclass(frozen=True)
class DistanceLoss(PredictionLoss):
    """The same for decoders that measure distances."""

    root: bool = setting(False, "learn by distances instead of their squares (ranks are the same)")


@dataclass(frozen=True)
class DecoderSettings:
    """Base of a decoder's settings."""

    name: ClassVar[str] = ""
    sections: ClassVar[Sections] = {}
    """Dataclasses of other sections, where they differ from the defaults."""

    dim: int = setting(
        1024, "width of the vectors it reads; 0 takes the encoder's", at_least=0, at_most=WIDEST
    )
    normalise: bool = setting(False, "entity vectors have length 1")
    dropout: float = setting(0.0, "dropout on the vector of a question", **SHARE)

    batch_norm = False


@dataclass(frozen=True)
class DistanceDecoder(DecoderSettings):
    sections: ClassVar[Sections] = {"loss": DistanceLoss}


@dataclass(frozen=True)
class TuckERDecoder(DecoderSettings):
    name: ClassVar[str] = "tucker"

    batch_norm: bool = setting(False, "normalise over a batch and drop out within, as in its paper")


def _named(base: type[DecoderSettings], *names: str) -> dict[str, type[DecoderSettings]]:
    """Dataclasses that differ from their base in the name alone."""
    return {name: type(base.__name__, (base,), {"name": name}) for name in names}


DECODERS: dict[str, type[DecoderSettings]] = {
    **_named(DistanceDecoder, "transe"),
    **_named(DecoderSettings, "distmult", "complex"),
    **_named(DistanceDecoder, "rotate"),
    "tucker": TuckERDecoder,
    **_named(DecoderSettings, "conve"),
}
_COMPLEX = DECODERS["complex"]()


@dataclass(frozen=True)
class PredictionConfig(Settings):
    """Settings of entity prediction."""

    folder: ClassVar[str] = "prediction"
    choices: ClassVar[dict[str, str]] = {"model": "encoder", "decoder": "name"}

    known: ClassVar[dict[str, dict[str, Any]]] = {"model": ENCODERS, "decoder": DECODERS}

    model: Any = PredictionReflectionSettings()
    decoder: Any = _COMPLEX
    distillation: Any = PredictionDistillation()
    loss: Any = PredictionLoss()
    training: Any = PredictionTraining()

    @property
    def made(self) -> int:
        """Width of what the encoder makes of an entity's neighbours; 0 without one."""
        return int(self.model.made())

    @property
    def width(self) -> int:
        """Width of an entity's vector."""
        beside = self.model.dim if self.made and self.model.own == "concatenate" else 0
        return int(self.decoder.dim or self.made + beside or self.model.dim)

    def check(self) -> None:
        if self.decoder is not None:
            self._check_decoder()
        super().check()

    def _check_decoder(self) -> None:
        name = self.decoder.name
        if name in ("complex", "rotate") and self.width % 2:
            raise ConfigError(f"{name} needs vectors of even width, not {self.width}")
        if name == "conve" and self.loss.relations:
            raise ConfigError("conve cannot be asked for relations; add loss.relations=0")
        if self.decoder.batch_norm and self.loss.relations:
            raise ConfigError("decoder.batch_norm does not go with relations; add loss.relations=0")
        # Steps that share an encoding must not change what it was made of.
        distils = self.distillation is not None and self.distillation.variant == "infonce"
        if self.model.reuse > 1 and distils:
            raise ConfigError("steps cannot share what they change; add model.reuse=1")
