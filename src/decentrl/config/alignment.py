"""Settings of entity alignment: a dataclass for each encoder and loss, and the other sections.

Defaults are those of the preset ``strong``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from decentrl.config.settings import Section, Sections, Settings, setting
from decentrl.config.shared import (
    SHARE,
    WIDEST,
    Distillation,
    EncoderSettings,
    HoldOut,
    Steps,
    WatchedSteps,
)


@dataclass(frozen=True)
class SampledPairs:
    """Loss of the paper: links near, sampled pairs at least a margin apart."""

    negatives: int = setting(10, "sampled pairs for each training link", at_least=1)


@dataclass(frozen=True)
class HardSamples(Section):
    """Loss of the relational encoder: a link's ends nearer than all sampled entities."""

    entities: int = setting(
        8192, "sampled entities a step that links or answers compete with; 0 means all", at_least=0
    )
    scale: float = setting(30.0, "of the scores: how much harder samples count more", at_least=0)


@dataclass(frozen=True)
class InducingDistillation(Distillation):
    weight: float = 3.0
    induce: bool = setting(
        True, "make input embeddings of entities unseen in training with the distillation head"
    )


@dataclass(frozen=True)
class Training(Steps):
    refit: bool = setting(
        True, "once all is chosen on the held-out links, train again on all of them"
    )


@dataclass(frozen=True)
class WatchedTraining(Training, WatchedSteps):
    """Training that looks at the validation links between epochs and may stop early."""


@dataclass(frozen=True)
class DANSettings(EncoderSettings):
    """The paper's Decentralized Attention Network."""

    encoder: ClassVar[str] = "dan"
    sections: ClassVar[Sections] = {
        "loss": SampledPairs,
        "distillation": Distillation,
        "training": WatchedTraining,
    }

    dim: int = setting(
        512, "width of the input embeddings and of every layer", at_least=1, at_most=WIDEST
    )
    layers: int = setting(4, "number of layers, K", at_least=1, at_most=64)
    dropout: float = setting(0.5, "dropout on attention scalars", **SHARE)
    hops: Literal["alternating", "one"] = setting(
        "alternating", "two-hop neighbours in layers 1, 3, … (alternating) or one-hop in all"
    )
    relation_weight: float = setting(1.0, "weight of the added relation vector")
    self_entity: bool = setting(
        False, "ablation: let an entity be its own neighbour (gives up the open world)"
    )
    output: Literal["layers", "all-layers", "all-layers+input"] = setting(
        "layers", "an entity's vector: layers 1 … K; 0 … K; 0 … K and e (0 for unseen entities)"
    )


@dataclass(frozen=True)
class ReflectionSettings(EncoderSettings):
    """The relational encoder: neighbours reflected along relations."""

    encoder: ClassVar[str] = "reflection"
    sections: ClassVar[Sections] = {
        "loss": HardSamples,
        "distillation": InducingDistillation,
        "training": Training,
    }

    dim: int = setting(
        256, "width of the input embeddings and of every layer", at_least=1, at_most=WIDEST
    )
    layers: int = setting(2, "number of layers, K", at_least=1, at_most=64)
    dropout: float = setting(0.3, "dropout on vectors", **SHARE)
    edge_dropout: float = setting(0.1, "share of the edges left out in a layer", **SHARE)
    entity_dropout: float = setting(
        0.1, "share of the input embeddings left out of a step, as if never seen", **SHARE
    )
    context: bool = setting(
        True, "weigh neighbours by their context too, not by the relation alone"
    )
    same_relations: float = setting(
        0.3,
        "relations of the two graphs share a vector if they are each other's nearest by "
        "propagation with at least this cosine; above 1 never",
        at_least=0,
    )


@dataclass(frozen=True)
class NoEncoderSettings(EncoderSettings):
    """Seed propagation alone: nothing is trained."""

    encoder: ClassVar[str] = "none"
    sections: ClassVar[Sections] = {"training": HoldOut}


@dataclass(frozen=True)
class Propagation:
    weight: float = setting(
        0.4, "share of seed propagation in the score, the encoder has the rest", **SHARE
    )
    dim: int = setting(512, "width of a link's random vector", at_least=1, at_most=WIDEST)
    relation_dim: int = setting(
        128, "coordinates of a relation in the features", at_least=1, at_most=WIDEST
    )

    rounds: ClassVar[int] = 2  # how far the vectors travel
    width: ClassVar[int] = 16  # coordinates of a neighbour, for each one of a relation


@dataclass(frozen=True)
class NameSettings:
    """Names of entities, where both graphs have some."""

    weight: float = setting(
        -1.0,
        "share of names in the score, 1 for names alone; below 0 the validation links choose it",
        at_least=-1,
        at_most=1,
    )
    translation: float = setting(
        -1.0,
        "share of names translated as known links teach, the rest are compared as they are; "
        "below 0 the validation links choose it",
        at_least=-1,
        at_most=1,
    )
    width: int = setting(1024, "width of a name's vector", at_least=1, at_most=WIDEST)

    USUAL: ClassVar[tuple[float, float]] = 0.4, 0.5  # both, without validation links


@dataclass(frozen=True)
class SelfTraining:
    rounds: int = setting(
        0,
        "rounds of training on found links too, at most; validation links choose",
        at_least=0,
        at_most=10_000,
    )
    mass: float = setting(
        0.3, "Sinkhorn mass that two mutually nearest entities need to become a link", **SHARE
    )
    epochs: int = setting(2, "passes over known and found links in a round", at_least=0)


@dataclass(frozen=True)
class MatchingConfig:
    csls_k: ClassVar[int] = 2  # neighbours in CSLS

    matcher: Literal["cosine", "csls", "sinkhorn", "blend"] = setting(
        "blend", "what `match` ranks by; blend is CSLS and Sinkhorn in one"
    )
    temperature: float = setting(0.02, "of Sinkhorn and blend", at_least=1e-4, at_most=1e4)
    iterations: int = setting(30, "of Sinkhorn and blend", at_least=1, at_most=10_000)
    keep: int = setting(
        0,
        "nearest entities that `match` keeps of each; 0 keeps all where they fit memory, else 64",
        at_least=0,
    )


_OURS: tuple[type[EncoderSettings], ...] = (DANSettings, ReflectionSettings, NoEncoderSettings)
ENCODERS = {kind.encoder: kind for kind in _OURS}
"""Settings of every encoder by its name; :func:`decentrl.views.register_view` adds to it."""


@dataclass(frozen=True)
class Config(Settings):
    """Settings of entity alignment."""

    known: ClassVar[dict[str, dict[str, Any]]] = {"model": ENCODERS}
    usual: ClassVar[Sections] = {"distillation": None, "loss": None}

    model: Any = ReflectionSettings()
    propagation: Propagation = Propagation()
    names: NameSettings = NameSettings()
    distillation: Any = InducingDistillation()
    loss: Any = HardSamples()
    training: Any = Training()
    self_training: SelfTraining = SelfTraining()
    matching: MatchingConfig = MatchingConfig()
