"""Every setting of a run, as frozen dataclasses; TOML is their written form.

A preset is a TOML file that names only what differs from the defaults below.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from importlib.resources import files
from math import isfinite
from typing import Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

from decentrl.errors import ConfigError

DEFAULT_PRESET = "strong"


def setting(
    default: Any, meaning: str, *, at_least: float | None = None, at_most: float | None = None
) -> Any:
    """A field with its explanation, which ``decentrl settings`` prints."""
    limits = {"at_least": at_least, "at_most": at_most}
    return field(default=default, metadata={"meaning": meaning, **limits})


@dataclass(frozen=True)
class ModelConfig:
    encoder: Literal["dan", "reflection", "none"] = setting(
        "dan", "the paper's network, the relational one, or none at all (propagation alone)"
    )
    dim: int = setting(512, "width of the input embeddings and of every layer", at_least=1)
    layers: int = setting(4, "number of layers, K", at_least=1)
    first: Literal["mean", "max", "sum"] = setting("mean", "pooling of the neighbour context g⁰")
    variant: Literal["second-order", "context"] = setting(
        "second-order", "keys from layer k-2 (second-order) or a context of its own in each layer"
    )
    hops: Literal["alternating", "one"] = setting(
        "alternating", "two-hop neighbours in layers 1, 3, … (alternating) or one-hop in all"
    )
    relations: Literal["add", "multiply", "off"] = setting("add", "how relation vectors enter")
    relation_weight: float = setting(1.0, "weight of the added relation vector")
    dropout: float = setting(
        0.5, "dropout on attention scalars (dan) or on vectors (reflection)", at_least=0, at_most=1
    )
    edge_dropout: float = setting(
        0.0, "reflection: share of the edges left out in a layer", at_least=0, at_most=1
    )
    context: bool = setting(
        False, "reflection: weigh neighbours by their context too, not by the relation alone"
    )
    same_relations: float = setting(
        0.3,
        "reflection: relations of the two graphs share a vector if they are each other's nearest "
        "by propagation with at least this cosine; above 1 never",
        at_least=0,
    )
    norm: bool = setting(True, "layer normalisation of what a layer reads and aggregates")
    residual: bool = setting(True, "add g⁰ + gᵏ⁻¹ to every layer")
    self_entity: bool = setting(
        False, "ablation: let an entity be its own neighbour (gives up the open world)"
    )
    output: Literal["layers", "all-layers", "all-layers+input"] = setting(
        "layers", "an entity's vector: layers 1 … K; 0 … K; 0 … K and e (0 for unseen entities)"
    )
    counterparts: bool = setting(
        True, "tell a triple between two seeds in the other graph too, with its own relation"
    )


@dataclass(frozen=True)
class PropagationConfig:
    weight: float = setting(
        0.0,
        "share of seed propagation in the score, the encoder has the rest",
        at_least=0,
        at_most=1,
    )
    dim: int = setting(512, "width of a link's random vector", at_least=1)
    rounds: int = setting(2, "how far the vectors travel", at_least=0)
    relation_dim: int = setting(128, "coordinates of a relation in the features", at_least=1)
    width: int = setting(16, "coordinates of a neighbour, for each one of a relation", at_least=1)


@dataclass(frozen=True)
class DistillationConfig:
    variant: Literal["detached", "infonce", "l2", "none"] = setting(
        "detached", "self-distillation: the paper's, or one of its ablations"
    )
    head: Literal["bilinear", "mlp"] = setting(
        "mlp", "estimator f: the paper's bilinear form, or a small network as in the authors' code"
    )
    weight: float = setting(0.3, "weight of the distillation loss", at_least=0)
    negatives: int = setting(64, "sampled entities a step", at_least=1)
    dropout: float = setting(0.5, "dropout of the mlp head", at_least=0, at_most=1)
    induce: bool = setting(
        True, "reflection: let the head tell the input embeddings of entities unseen in training"
    )


@dataclass(frozen=True)
class LossConfig:
    negatives: int = setting(10, "dan: sampled pairs for each training link", at_least=1)
    margin: float = setting(1.5, "λ: how far apart sampled pairs should be")
    weight: float = setting(0.1, "α: weight of the sampled pairs", at_least=0)
    squared: bool = setting(True, "squared distances, as in the authors' code")
    entities: int = setting(
        2048, "reflection: sampled entities a step to be told apart from; 0 means all", at_least=0
    )
    scale: float = setting(30.0, "reflection: how much harder samples count more", at_least=0)


@dataclass(frozen=True)
class TrainingConfig:
    epochs: int = setting(80, "passes over the training links", at_least=0)
    batch: int = setting(0, "links or questions a step; 0 means all in one", at_least=0)
    optimizer: Literal["adam", "rmsprop", "adagrad"] = setting("adam", "what follows the gradient")
    learning_rate: float = setting(2e-3, "of the optimizer", at_least=0)
    schedule: Literal["constant", "linear"] = setting(
        "constant", "linear lowers the learning rate from epoch to epoch, to 0 after the last"
    )
    valid: float = setting(0.1, "share of the training data held out for validation", at_least=0)
    refit: bool = setting(
        False, "alignment: once all is chosen on the held-out links, train again on all of them"
    )
    validate_every: int = setting(10, "epochs between two validations", at_least=1)
    patience: int = setting(
        3, "stop after this many validations without a better value; 0 never stops", at_least=0
    )
    checkpoint_every: float = setting(30.0, "seconds between two checkpoints", at_least=0)


@dataclass(frozen=True)
class SelfTrainingConfig:
    rounds: int = setting(
        0,
        "at most so many times train on found links too; validation links choose how many",
        at_least=0,
    )
    mass: float = setting(
        0.3,
        "Sinkhorn mass that two mutually nearest entities need to become a link",
        at_least=0,
        at_most=1,
    )
    epochs: int = setting(2, "passes over known and found links in a round", at_least=0)


@dataclass(frozen=True)
class MatchingConfig:
    matcher: Literal["cosine", "csls", "sinkhorn"] = setting("csls", "what `match` ranks by")
    csls_k: int = setting(2, "neighbours in CSLS", at_least=1)
    temperature: float = setting(0.02, "of Sinkhorn", at_least=1e-4)
    iterations: int = setting(10, "of Sinkhorn", at_least=1)
    keep: int = setting(
        0,
        "`match` keeps each entity's so many nearest only, for large graphs; 0 keeps all",
        at_least=0,
    )


@dataclass(frozen=True)
class PredictionModelConfig:
    encoder: Literal["dan", "reflection", "none"] = setting(
        "dan", "the paper's network, the relational one, or none: a table of embeddings"
    )
    dim: int = setting(512, "width of the input embeddings and of every layer", at_least=1)
    layers: int = setting(2, "number of layers, K", at_least=1)
    relations: Literal["add", "multiply", "off"] = setting(
        "multiply", "dan: how relation vectors enter"
    )
    relation_weight: float = setting(1.0, "dan: weight of the added relation vector")
    residual: bool = setting(True, "dan: add g⁰ + gᵏ⁻¹ to every layer")
    attention_dropout: float = setting(
        0.3, "dan: dropout on attention scalars", at_least=0, at_most=1
    )
    context: bool = setting(
        True, "reflection: weigh neighbours by their context too, not by the relation alone"
    )
    own: Literal["off", "add", "concatenate"] = setting(
        "off", "an entity's own embedding: not used, added to what its neighbours say, or beside it"
    )
    own_dropout: float = setting(
        0.0, "share of the entities that do without their own embedding in a step", at_least=0,
        at_most=1,
    )  # fmt: skip
    input_dropout: float = setting(
        0.0, "share of the entities whose input embedding nobody reads in a step", at_least=0,
        at_most=1,
    )  # fmt: skip
    output: Literal["tied", "table"] = setting(
        "tied", "answers are compared by the vectors that ask, or by a table (no new answers then)"
    )
    hidden: float = setting(
        1.0,
        "share of the edges between a batch's questions and answers hidden while it is learned",
        at_least=0,
        at_most=1,
    )
    dropout: float = setting(0.3, "dropout on entity vectors", at_least=0, at_most=1)


@dataclass(frozen=True)
class DecoderConfig:
    name: Literal["transe", "distmult", "complex", "rotate", "tucker", "conve"] = setting(
        "complex", "how likely a triple is, from the vectors of its ends"
    )
    dim: int = setting(0, "width of the vectors it reads; 0 takes the encoder's", at_least=0)
    normalise: bool = setting(True, "entity vectors have length 1")
    scale: float = setting(20.0, "of the scores, at first; it is learned", at_least=1e-3)
    dropout: float = setting(0.0, "dropout on the vector of a question", at_least=0, at_most=1)


@dataclass(frozen=True)
class PredictionLossConfig:
    kind: Literal["softmax", "bce"] = setting(
        "softmax", "one answer against all others, or every answer on its own"
    )
    candidates: int = setting(
        0, "sampled entities that a step's answers compete with; 0 means all", at_least=0
    )
    smoothing: float = setting(
        0.0, "share of a right answer spread over all", at_least=0, at_most=1
    )
    relations: float = setting(
        0.0, "weight of asking for the relation between two entities too", at_least=0
    )
    n3: float = setting(0.0, "weight of the cubed absolute values of h, r and t", at_least=0)


_Self = TypeVar("_Self", bound="Settings")


@dataclass(frozen=True)
class Settings:
    """What the settings of both jobs have in common; a preset is a TOML file in ``folder``."""

    preset: str = DEFAULT_PRESET
    seed: int = 0

    folder: ClassVar[str] = ""

    @classmethod
    def sections(cls) -> dict[str, Any]:
        """The type of each section by its name."""
        hints = get_type_hints(cls)
        return {f.name: hints[f.name] for f in fields(cls) if f.name not in ("preset", "seed")}

    @classmethod
    def from_preset(
        cls: type[_Self], name: str, overrides: Iterable[str] = (), seed: int = 0
    ) -> _Self:
        """A named preset, then ``section.key=value`` changes on top."""
        values = read_preset(name, cls.folder)
        config = cls.from_dict({**values, "preset": name, "seed": seed})
        for override in overrides:
            config = config.with_setting(override)
        return config

    @classmethod
    def from_dict(cls: type[_Self], values: Mapping[str, Any]) -> _Self:
        parts: dict[str, Any] = {}
        for key, value in values.items():
            if key == "seed" and not (type(value) is int and 0 <= value < 2**63):
                raise ConfigError(f"the seed is {value!r}; it must be a whole number, at least 0")
            if key in ("preset", "seed"):
                parts[key] = value
            else:
                section = cls._section_type(key)
                if not isinstance(value, Mapping):
                    raise ConfigError(f"{key} is a section; write {key}.NAME = VALUE")
                known = {
                    name: _checked(section, f"{key}.{name}", name, item)
                    for name, item in value.items()
                }
                parts[key] = section(**known)
        return cls(**parts)

    def with_setting(self: _Self, override: str) -> _Self:
        """``model.dim=128`` and the like; the value is read as the field's type."""
        path, equals, text = override.partition("=")
        section, dot, name = path.strip().partition(".")
        if not equals or not dot:
            raise ConfigError(f"cannot read the setting {override!r}; write section.key=value")
        kind = self._section_type(section)
        value = _checked(kind, path.strip(), name, _parse(text.strip()))
        changed = {section: replace(getattr(self, section), **{name: value})}
        return replace(self, **changed)

    def to_dict(self) -> dict[str, Any]:
        sections = {
            name: {f.name: getattr(getattr(self, name), f.name) for f in fields(kind)}
            for name, kind in self.sections().items()
        }
        return {"preset": self.preset, "seed": self.seed, **sections}

    @classmethod
    def _section_type(cls, name: str) -> Any:
        if name not in cls.sections():
            names = ", ".join(cls.sections())
            raise ConfigError(f"no settings section {name!r}; there are: {names}")
        return cls.sections()[name]


@dataclass(frozen=True)
class Config(Settings):
    """Settings of entity alignment."""

    model: ModelConfig = ModelConfig()
    propagation: PropagationConfig = PropagationConfig()
    distillation: DistillationConfig = DistillationConfig()
    loss: LossConfig = LossConfig()
    training: TrainingConfig = TrainingConfig()
    self_training: SelfTrainingConfig = SelfTrainingConfig()
    matching: MatchingConfig = MatchingConfig()


@dataclass(frozen=True)
class PredictionConfig(Settings):
    """Settings of entity prediction."""

    folder: ClassVar[str] = "prediction"

    model: PredictionModelConfig = PredictionModelConfig()
    decoder: DecoderConfig = DecoderConfig()
    distillation: DistillationConfig = DistillationConfig()
    loss: PredictionLossConfig = PredictionLossConfig()
    training: TrainingConfig = TrainingConfig()

    @property
    def made(self) -> int:
        """Width of what the encoder makes of an entity's neighbours; 0 without one."""
        parts = {"dan": 1, "reflection": 2 * (self.model.layers + 1), "none": 0}
        return parts[self.model.encoder] * self.model.dim

    @property
    def width(self) -> int:
        """Width of an entity's vector."""
        beside = self.model.dim if self.made and self.model.own == "concatenate" else 0
        return self.decoder.dim or self.made + beside or self.model.dim

    def check(self) -> None:
        """Raise where settings contradict each other."""
        name = self.decoder.name
        if name in ("complex", "rotate") and self.width % 2:
            raise ConfigError(f"{name} needs vectors of even width, not {self.width}")
        if name == "conve" and self.loss.relations:
            raise ConfigError("conve cannot be asked for relations; add loss.relations=0")


SECTIONS = Config.sections()


def _presets(folder: str) -> Any:
    place = files("decentrl") / "presets"
    return place / folder if folder else place


def preset_names(folder: str = "") -> list[str]:
    names = (path.name for path in _presets(folder).iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def read_preset(name: str, folder: str = "") -> dict[str, Any]:
    if name not in preset_names(folder):
        raise ConfigError(f"no preset {name!r}; there are: {', '.join(preset_names(folder))}")
    return tomllib.loads((_presets(folder) / f"{name}.toml").read_text("utf-8"))


def to_toml(values: Mapping[str, Any]) -> str:
    """Scalars and one level of tables, which is all we write."""
    lines = [f"{key} = {_toml(v)}" for key, v in values.items() if not isinstance(v, Mapping)]
    for key, table in values.items():
        if isinstance(table, Mapping):
            lines += ["", f"[{key}]", *(f"{name} = {_toml(v)}" for name, v in table.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return repr(value)
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + escaped.replace("\t", "\\t") + '"'


def _parse(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text  # a bare word such as `mean`


def _checked(section: Any, path: str, name: str, value: Any) -> Any:
    """The value, if the field exists and may have it."""
    kinds = {f.name: f for f in fields(section)}
    if name not in kinds:
        near = get_close_matches(name, kinds, n=1, cutoff=0.0)
        raise ConfigError(f"no setting {path!r}; did you mean {path.split('.')[0]}.{near[0]}?")
    kind = get_type_hints(section)[name]
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise ConfigError(f"{path} is {value!r}; it can be: {', '.join(get_args(kind))}")
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind:
        raise ConfigError(f"{path} is {value!r}; it must be of type {kind.__name__}")
    if kind is float and not isfinite(value):
        raise ConfigError(f"{path} is {value}; it must be a finite number")
    least, most = (kinds[name].metadata[limit] for limit in ("at_least", "at_most"))
    if least is not None and value < least:
        raise ConfigError(f"{path} is {value}; it must be at least {least:g}")
    if most is not None and value > most:
        raise ConfigError(f"{path} is {value}; it must be at most {most:g}")
    return value
