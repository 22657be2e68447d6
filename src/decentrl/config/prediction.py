"""Settings of entity prediction: a dataclass for each encoder, decoder and loss.

Defaults are those of the preset ``strong``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Literal

from decentrl.config.settings import Sections, Settings, section_names, setting
from decentrl.config.shared import Distillation, EncoderSettings, Steps
from decentrl.errors import ConfigError

_SHARE = {"at_least": 0, "at_most": 1}


@dataclass(frozen=True)
class PredictionDistillation(Distillation):
    variant: Literal["detached", "infonce", "l2", "none"] = setting(
        "none", "self-distillation: the paper's, or one of its ablations"
    )


@dataclass(frozen=True)
class PredictionTraining(Steps):
    validates: ClassVar[bool] = True

    epochs: int = setting(30, "passes over the training triples", at_least=0)
    optimizer: Literal["adam", "rmsprop", "adagrad"] = setting(
        "adagrad", "what follows the gradient"
    )
    learning_rate: float = setting(0.1, "of the optimizer", at_least=0)
    encoder_rate: float = setting(  # type: ignore[misc]
        0.05, "the encoder's learning rate, as a share of that of all else", at_least=0
    )
    schedule: Literal["constant", "linear"] = setting(  # type: ignore[misc]
        "constant", "linear lowers the learning rate from epoch to epoch, to 0 after the last"
    )
    validate_every: int = setting(10, "epochs between two validations", at_least=1)  # type: ignore[misc]
    patience: int = setting(  # type: ignore[misc]
        3, "stop after this many validations without a better value; 0 never stops", at_least=0
    )


@dataclass(frozen=True)
class PredictionEncoderSettings(EncoderSettings):
    """Base of the settings of an encoder under a decoder."""

    dim: int = setting(512, "width of the input embeddings and of every layer", at_least=1)
    dropout: float = setting(0.3, "dropout on entity vectors", **_SHARE)
    output: Literal["tied", "table"] = setting(
        "tied", "answers are compared by the vectors that ask, or by a table (no new answers then)"
    )

    layers: ClassVar[int] = 0
    own: ClassVar[str] = "off"
    hidden: ClassVar[float] = 0.0
    reuse: ClassVar[int] = 1

    def made(self) -> int:
        """Width of what the encoder makes of an entity's neighbours; 0 without one."""
        return self.dim


@dataclass(frozen=True)
class LayeredSettings(PredictionEncoderSettings):
    layers: int = setting(2, "number of layers, K", at_least=1)  # type: ignore[misc]
    hidden: float = setting(  # type: ignore[misc]
        0.5,
        "share of the edges between a batch's questions and answers hidden while it is learned",
        **_SHARE,
    )
    reuse: int = setting(  # type: ignore[misc]
        1, "steps that share one encoding of the graph; the encoder learns from all at once",
        at_least=1,
    )  # fmt: skip


@dataclass(frozen=True)
class InductiveSettings(LayeredSettings):
    own: Literal["off", "add", "concatenate"] = setting(  # type: ignore[misc]
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

    dim: int = setting(128, "width of the input embeddings and of every layer", at_least=1)
    dropout: float = setting(0.0, "dropout on entity vectors", **_SHARE)
    hidden: float = setting(  # type: ignore[misc]
        0.0,
        "share of the edges between a batch's questions and answers hidden while it is learned",
        **_SHARE,
    )
    reuse: int = setting(  # type: ignore[misc]
        10, "steps that share one encoding of the graph; the encoder learns from all at once",
        at_least=1,
    )  # fmt: skip
    own: Literal["off", "add", "concatenate"] = setting(  # type: ignore[misc]
        "add", "an entity's own embedding: not used, added to the encoder's vector, or beside it"
    )

    def made(self) -> int:
        return 2 * (self.layers + 1) * self.dim


@dataclass(frozen=True)
class TableSettings(PredictionEncoderSettings):
    """A table of embeddings: an entity that comes later has none."""

    encoder: ClassVar[str] = "none"
    sections: ClassVar[dict[str, type | None]] = {"distillation": None}

    def made(self) -> int:
        return 0


@dataclass(frozen=True)
class RivalEncoderSettings(LayeredSettings):
    """Base of the rivals' settings: they have no newcomers."""

    inductive: ClassVar[bool] = False

    dim: int = setting(200, "width of the input embeddings and of every layer", at_least=1)


@dataclass(frozen=True)
class RGCNSettings(RivalEncoderSettings):
    encoder: ClassVar[str] = "rgcn"


@dataclass(frozen=True)
class CompGCNSettings(RivalEncoderSettings):
    encoder: ClassVar[str] = "compgcn"


@dataclass(frozen=True)
class LANSettings(RivalEncoderSettings):
    encoder: ClassVar[str] = "lan"

    layers: int = setting(1, "number of layers: one", at_least=1, at_most=1)  # type: ignore[misc]
    own: Literal["off", "add", "concatenate"] = setting(  # type: ignore[misc]
        "off", "an entity's own embedding: not used, added to the encoder's vector, or beside it"
    )


@dataclass(frozen=True)
class DGCNSettings(RivalEncoderSettings):
    encoder: ClassVar[str] = "dgcn"


@dataclass(frozen=True)
class WGCNSettings(RivalEncoderSettings):
    encoder: ClassVar[str] = "wgcn"


ENCODERS: dict[str, type[PredictionEncoderSettings]] = {
    kind.encoder: kind
    for kind in (
        PredictionDANSettings,
        PredictionReflectionSettings,
        TableSettings,
        RGCNSettings,
        CompGCNSettings,
        LANSettings,
        DGCNSettings,
        WGCNSettings,
    )
}
"""Settings of every encoder by its name; registering a prediction encoder adds to it."""


@dataclass(frozen=True)
class PredictionLoss:
    """Softmax: one answer against all others."""

    candidates: int = setting(
        0, "sampled entities that a step's answers compete with; 0 means all", at_least=0
    )
    smoothing: float = setting(0.0, "share of a right answer spread over all", **_SHARE)
    relations: float = setting(
        4.0, "weight of asking for the relation between two entities too", at_least=0
    )
    n3: float = setting(0.05, "weight of the cubed absolute values of h, r and t", at_least=0)

    root: ClassVar[bool] = False


@dataclass(frozen=True)
class DistanceLoss(PredictionLoss):
    """The same for decoders that measure distances."""

    root: bool = setting(  # type: ignore[misc]
        False, "learn by distances instead of their squares (ranks are the same)"
    )


@dataclass(frozen=True)
class DecoderSettings:
    """Base of a decoder's settings."""

    name: ClassVar[str] = ""
    loss: ClassVar[type[PredictionLoss]] = PredictionLoss
    batch_norm: ClassVar[bool] = False

    dim: int = setting(1024, "width of the vectors it reads; 0 takes the encoder's", at_least=0)
    normalise: bool = setting(False, "entity vectors have length 1")
    dropout: float = setting(0.0, "dropout on the vector of a question", **_SHARE)


@dataclass(frozen=True)
class TransEDecoder(DecoderSettings):
    name: ClassVar[str] = "transe"
    loss: ClassVar[type[PredictionLoss]] = DistanceLoss


@dataclass(frozen=True)
class DistMultDecoder(DecoderSettings):
    name: ClassVar[str] = "distmult"


@dataclass(frozen=True)
class ComplExDecoder(DecoderSettings):
    name: ClassVar[str] = "complex"


@dataclass(frozen=True)
class RotatEDecoder(DecoderSettings):
    name: ClassVar[str] = "rotate"
    loss: ClassVar[type[PredictionLoss]] = DistanceLoss


@dataclass(frozen=True)
class TuckERDecoder(DecoderSettings):
    name: ClassVar[str] = "tucker"

    batch_norm: bool = setting(  # type: ignore[misc]
        False, "normalise over a batch and drop out within, as in its paper"
    )


@dataclass(frozen=True)
class ConvEDecoder(DecoderSettings):
    name: ClassVar[str] = "conve"


DECODERS: dict[str, type[DecoderSettings]] = {
    kind.name: kind
    for kind in (
        TransEDecoder,
        DistMultDecoder,
        ComplExDecoder,
        RotatEDecoder,
        TuckERDecoder,
        ConvEDecoder,
    )
}


@dataclass(frozen=True)
class PredictionConfig(Settings):
    """Settings of entity prediction."""

    folder: ClassVar[str] = "prediction"
    choices: ClassVar[dict[str, str]] = {"model": "encoder", "decoder": "name"}

    model: Any = PredictionReflectionSettings()
    decoder: Any = ComplExDecoder()
    distillation: Any = PredictionDistillation()
    loss: Any = PredictionLoss()
    training: Any = PredictionTraining()

    @classmethod
    def default_names(cls) -> dict[str, str]:
        return {"model": "reflection", "decoder": "complex"}

    @classmethod
    def all_names(cls) -> Iterable[dict[str, str]]:
        pairs = product(ENCODERS, DECODERS)
        return ({"model": encoder, "decoder": decoder} for encoder, decoder in pairs)

    @classmethod
    def chosen(cls, names: Mapping[str, str]) -> Sections:
        for path, known in (("model.encoder", ENCODERS), ("decoder.name", DECODERS)):
            name = names[path.partition(".")[0]]
            if name not in known:
                raise ConfigError(f"{path} is {name!r}; it can be: {', '.join(known)}")
        model, decoder = ENCODERS[names["model"]], DECODERS[names["decoder"]]
        usual: Sections = {
            "model": model,
            "decoder": decoder,
            "distillation": PredictionDistillation,
            "loss": decoder.loss,
            "training": PredictionTraining,
        }
        return {key: model.sections.get(key, usual[key]) for key in section_names(cls)}

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
        name, encoder, model = self.decoder.name, self.model.encoder, self.model
        if name in ("complex", "rotate") and self.width % 2:
            raise ConfigError(f"{name} needs vectors of even width, not {self.width}")
        if name == "conve" and self.loss.relations:
            raise ConfigError("conve cannot be asked for relations; add loss.relations=0")
        if self.decoder.batch_norm and self.loss.relations:
            raise ConfigError("decoder.batch_norm does not go with relations; add loss.relations=0")
        # Steps that share an encoding must not change what it was made of.
        distils = self.distillation is not None and self.distillation.variant == "infonce"
        if model.reuse > 1 and (encoder == "compgcn" or distils):
            raise ConfigError("steps cannot share what they change; add model.reuse=1")
        if encoder == "compgcn" and (name in ("rotate", "tucker") or self.width != model.dim):
            raise ConfigError(
                "compgcn shares its relations with the decoder: that can be transe, distmult, "
                "complex or conve, and decoder.dim is 0"
            )
