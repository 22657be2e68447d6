"""Every section of settings, and which of them each job has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from decentrl.config.settings import Settings, setting
from decentrl.errors import ConfigError


@dataclass(frozen=True)
class ModelConfig:
    encoder: Literal["dan", "reflection", "none", "gcn", "gat", "alinet", "transe", "rotate"] = (
        setting("dan", "the paper's network, the relational one, none (propagation), or a baseline")
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
    entity_dropout: float = setting(
        0.0,
        "reflection: share of the input embeddings left out of a step, as if never seen",
        at_least=0,
        at_most=1,
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

    @property
    def inductive(self) -> bool:
        """Whether entities that come after training can have vectors: not from a baseline."""
        return self.encoder in ("dan", "reflection", "none")


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
    kind: Literal["contrastive", "ranking"] = setting(
        "contrastive",
        "gcn, gat, alinet: links near and samples far, or links nearer than their samples in L1",
    )
    negatives: int = setting(
        10, "dan: sampled pairs for each training link; gcn, gat, alinet: for each of its ends",
        at_least=1,
    )  # fmt: skip
    hardness: int = setting(
        1, "gcn, gat, alinet: draw so many times as many samples, keep those nearest to an end",
        at_least=1,
    )  # fmt: skip
    nearest_to: Literal["replaced", "kept"] = setting(
        "replaced",
        "gcn, gat, alinet: hard samples are near the end they replace, or near the kept one",
    )
    relations: float = setting(
        0.0, "gcn, gat, alinet: weight of heads and tails of a relation lying alike", at_least=0
    )
    margin: float = setting(1.5, "λ: how far apart sampled pairs should be")
    weight: float = setting(0.1, "α: weight of the sampled pairs", at_least=0)
    squared: bool = setting(True, "squared distances, as in the authors' code")
    entities: int = setting(
        2048,
        "reflection, transe, rotate: sampled entities a step to be told apart from; 0 means all",
        at_least=0,
    )
    scale: float = setting(
        30.0, "reflection, transe, rotate: how much harder samples count more", at_least=0
    )


@dataclass(frozen=True)
class TrainingConfig:
    epochs: int = setting(80, "passes over the training links, or triples", at_least=0)
    batch: int = setting(0, "links or questions a step; 0 means all in one", at_least=0)
    optimizer: Literal["adam", "rmsprop", "adagrad"] = setting("adam", "what follows the gradient")
    learning_rate: float = setting(2e-3, "of the optimizer", at_least=0)
    encoder_rate: float = setting(
        1.0, "prediction: the encoder's learning rate, as a share of that of all else", at_least=0
    )
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
    told: float = setting(
        0.04,
        "share of a cosine that tells who has a counterpart already; 0: none",
        at_least=0,
        at_most=0.5,
    )


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
    encoder: Literal["dan", "reflection", "none", "rgcn", "compgcn", "lan"] = setting(
        "dan", "the paper's network, the relational one, none (a table), or a baseline"
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
    bases: int = setting(4, "rgcn: matrices that those of the relations are mixed from", at_least=1)
    composition: Literal["multiply", "correlate"] = setting(
        "correlate", "compgcn: what is made of a neighbour and its relation"
    )
    neighbour_dropout: float = setting(
        0.0, "rgcn: share of the edges left out in a step; compgcn: dropout on what is heard",
        at_least=0, at_most=1,
    )  # fmt: skip
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
    reuse: int = setting(
        1, "steps that share one encoding of the graph; the encoder learns from all at once",
        at_least=1,
    )  # fmt: skip
    dropout: float = setting(0.3, "dropout on entity vectors", at_least=0, at_most=1)

    @property
    def inductive(self) -> bool:
        """Whether entities that come after training can have vectors: not from a baseline."""
        return self.encoder in ("dan", "reflection", "none")


@dataclass(frozen=True)
class DecoderConfig:
    name: Literal["transe", "distmult", "complex", "rotate", "tucker", "conve"] = setting(
        "complex", "how likely a triple is, from the vectors of its ends"
    )
    dim: int = setting(0, "width of the vectors it reads; 0 takes the encoder's", at_least=0)
    normalise: bool = setting(True, "entity vectors have length 1")
    scale: float = setting(20.0, "of the scores, at first; it is learned", at_least=1e-3)
    dropout: float = setting(0.0, "dropout on the vector of a question", at_least=0, at_most=1)
    batch_norm: bool = setting(
        False, "tucker: normalise over a batch and drop out within, as in its paper"
    )
    inner_dropout: float = setting(
        0.2, "conve: on the channels, half as much again on the result; tucker: on "
        "the head, 4/3 of it on the matrix and 5/3 on the result", at_least=0, at_most=0.6,
    )  # fmt: skip
    image_dropout: float = setting(
        0.2, "conve: on the image of head and relation", at_least=0, at_most=1
    )
    channels: int = setting(32, "conve: filters", at_least=1)
    kernel: int = setting(3, "conve: height and width of a filter, odd", at_least=1)
    constant: bool = setting(
        False, "conve: the last coordinate of an answer's vector is a constant of it"
    )


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
    root: bool = setting(
        False, "transe, rotate: learn by distances instead of their squares (ranks are the same)"
    )
    level: float = setting(
        0.0, "bce: a constant in all scores, at first, which is learned; 0 does without", at_most=0
    )
    relations: float = setting(
        0.0, "weight of asking for the relation between two entities too", at_least=0
    )
    n3: float = setting(0.0, "weight of the cubed absolute values of h, r and t", at_least=0)


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
        parts = {"reflection": 2 * (self.model.layers + 1), "none": 0}
        return parts.get(self.model.encoder, 1) * self.model.dim

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
        if name == "tucker" and self.decoder.batch_norm and self.loss.relations:
            raise ConfigError("decoder.batch_norm does not go with relations; add loss.relations=0")
        if self.loss.root and name not in ("transe", "rotate"):
            raise ConfigError(f"{name} measures no distance; add loss.root=false")
        if self.loss.root and self.loss.kind == "bce":
            raise ConfigError("distances are all below 0, too low for bce; add loss.root=false")
        if name == "conve" and self.width <= self.decoder.constant:
            raise ConfigError("conve has nothing to make an image of; add model.dim=2 or more")
        if self.decoder.constant and (name != "conve" or self.model.encoder == "compgcn"):
            raise ConfigError(
                "decoder.constant is for conve, and not over compgcn, whose relations are as wide "
                "as its entities; add decoder.constant=false"
            )
        if self.decoder.kernel % 2 == 0:
            raise ConfigError(f"decoder.kernel is {self.decoder.kernel}; it must be odd")
        encoder, model = self.model.encoder, self.model
        # Steps that share an encoding must not change what it was made of.
        if model.reuse > 1 and (encoder == "compgcn" or self.distillation.variant == "infonce"):
            raise ConfigError("steps cannot share what they change; add model.reuse=1")
        if encoder in ("rgcn", "compgcn") and model.own != "off":
            raise ConfigError(f"{encoder} reads an entity's own embedding; add model.own=off")
        if encoder == "lan" and model.layers != 1:
            raise ConfigError("lan has one layer; add model.layers=1")
        if encoder == "compgcn" and (name in ("rotate", "tucker") or self.width != model.dim):
            raise ConfigError(
                "compgcn shares its relations with the decoder: that can be transe, distmult, "
                "complex or conve, and decoder.dim is 0"
            )


def must_grow(config: Config | PredictionConfig) -> None:
    """Raise if these are settings of a baseline, whose vectors are all that it will ever have."""
    if not config.model.inductive:
        other = "strong" if isinstance(config, Config) else "paper"
        raise ConfigError(
            f"{config.model.encoder} is a baseline: it cannot take in or explain entities after "
            f"training; train one that can, for example with the preset {other}"
        )
