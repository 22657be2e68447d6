"""An encoder from outside the package, through everything that a predictor does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from decentrl.config import PredictionConfig, preset_names
from decentrl.config.prediction import ENCODERS, InductiveSettings
from decentrl.config.settings import MORE_PRESETS
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.errors import ConfigError
from decentrl.graph.adjacency import Adjacency, Ids
from decentrl.graph.relational import RelationalView
from decentrl.graph.view import entities_of, relations_of
from decentrl.nn.aggregate import pool
from decentrl.predictor import Predictor
from decentrl.scorers import registry
from decentrl.scorers.base import Scorer
from decentrl.scorers.encoder import Encoded, PredictionEncoder
from decentrl.scorers.model import PredictionModel
from decentrl.scorers.registry import encoder_type, register_prediction_encoder
from decentrl.views.base import INPUTS, STATES, Attention
from decentrl.views.part import Part


@dataclass(frozen=True)
class MeanSettings(InductiveSettings):
    encoder: ClassVar[str] = "mean"


class Mean(PredictionEncoder):
    """The mean of the neighbours' embeddings beside that of the relations'."""

    entity_tables = ("entities",)

    def __init__(self, config: PredictionConfig, n_entities: int, n_relations: int) -> None:
        super().__init__()
        dim = config.model.dim
        self.entities = nn.Parameter(torch.randn(n_entities, dim) * dim**-0.5)
        self.relations = nn.Parameter(torch.randn(2 * n_relations, dim) * dim**-0.5)
        self.memories, self.reach = {STATES: dim, INPUTS: dim}, 1

    @property
    def embeddings(self) -> Tensor:
        return self.entities

    def read(
        self, triples: Ids, trained_on: Ids, n_entities: int, n_relations: int, device: torch.device
    ) -> RelationalView:
        seen, relations = entities_of(trained_on, n_entities), relations_of(trained_on, n_relations)
        return RelationalView.build(
            triples, n_entities, n_relations, seen=seen, seen_relations=relations, device=device
        )

    def edges(self, view: RelationalView) -> list[Adjacency]:
        return [view.first]

    def forward(
        self, view: RelationalView, inputs: Tensor, kept: Any = None, relations: Any = None
    ) -> Encoded:
        near = pool(inputs, view.first, kept=None if kept is None else kept[0])
        g = near + pool(self.relations if relations is None else relations, view.bag)
        return g, [g]

    def newcomers(self, part: Part) -> Encoded:
        relations = self.relations[part.few_relations[1]]
        g, _ = self.forward(part.relational_view(), part.memory(INPUTS), None, relations)
        g = part.frozen(part.memory(STATES), 1).put(0, g)
        return g, [g]

    def attentions(self, part: Part) -> list[Attention]:
        near = part.relational_view().first
        shares = 1 / near.degrees()[near.rows].to(torch.float32)
        return [Attention(near.rows, near.columns, torch.full_like(near.rows, -1), shares)]


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    preset = {
        "model": {"dim": 8},
        "decoder": {"name": "distmult", "dim": 0, "normalise": True},
        "loss": {"relations": 0.0, "n3": 0.0},
        "training": {"epochs": 3, "batch": 64, "optimizer": "adam", "learning_rate": 0.02},
    }
    register_prediction_encoder(MeanSettings, preset)(Mean)
    yield
    for known in (ENCODERS, registry.ENCODERS.registered, MORE_PRESETS["prediction"]):
        known.pop("mean")


@pytest.fixture
def graph(people: list[tuple[str, str, str]]) -> KnowledgeGraph:
    return KnowledgeGraph.from_labels(*zip(*people, strict=True))


def vectors(predictor: Predictor) -> np.ndarray[Any, Any]:
    return predictor.embed(list(predictor.task.graph.entities))


def test_it_is_trained_kept_asked_grown_explained_and_trained_again(
    graph: KnowledgeGraph, tmp_path: Path
) -> None:
    predictor = Predictor.from_preset("mean", device="cpu").fit(graph)
    losses = [row["loss"] for row in predictor.history]
    assert losses[-1] < losses[0]
    predictor.save(tmp_path)
    loaded = Predictor.load(tmp_path, "cpu")
    assert np.array_equal(vectors(loaded), vectors(predictor))
    asked = {"head": "person 1", "relation": "knows"}
    assert loaded.predict(**asked).equals(predictor.predict(**asked))

    before = vectors(loaded)
    loaded.add([("newcomer", "knows", "person 1"), ("later", "knows", "newcomer")])
    assert np.array_equal(vectors(loaded)[: len(before)], before)
    assert loaded.embed(["newcomer"]).any()
    assert loaded.predict(head="newcomer", relation="knows").num_rows
    (reason,) = loaded.explain("newcomer")[:1]
    assert (reason.neighbour, reason.arrived) == ("person 1", True)
    assert sum(r.weight for r in loaded.explain("person 1")) == pytest.approx(1)

    again = loaded.refit(share=1.0)
    assert again.embed(["newcomer"]).any()
    assert not np.array_equal(vectors(again)[: len(before)], before)


@pytest.mark.parametrize(
    ("encoder", "table"),
    [
        ("mean", "encoder.entities"),
        ("dan", "inputs"),
        ("reflection", "reflection.entities"),
        ("none", "own"),
    ],
)
def test_weights_keep_the_names_that_bundles_have(encoder: str, table: str) -> None:
    config = PredictionConfig.from_preset("paper", (f"model.encoder={encoder}", "model.dim=4"))
    model, other = PredictionModel(5, 2, config), PredictionModel(5, 2, config)
    stored = model.state_dict()
    assert table in stored
    other.load_state_dict(stored)
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True)
    )
    assert encoder == "mean" or not any(name.startswith("encoder.") for name in stored)


def test_it_is_a_preset_and_has_its_settings() -> None:
    assert "mean" in preset_names("prediction")
    assert PredictionConfig.from_preset("mean", ("model.own=add",)).model == MeanSettings(
        dim=8, own="add"
    )
    with pytest.raises(ConfigError, match="does not apply to the encoder mean"):
        PredictionConfig.from_preset("mean", ("decoder.batch_norm=true",))


def test_a_name_is_given_once() -> None:
    @dataclass(frozen=True)
    class Other(InductiveSettings):
        encoder: ClassVar[str] = "mean"

    with pytest.raises(ConfigError, match="there is an encoder 'mean' already"):
        register_prediction_encoder(Other)(Mean)
    another = type("Another", (Mean,), {})
    for name in ("mean", "dan"):  # ours also before anything has asked for it
        with pytest.raises(ConfigError, match=f"there is an encoder '{name}' already"):
            register_prediction_encoder(ENCODERS[name])(another)
    assert registry.ENCODERS.registered["mean"] is Mean


def test_every_name_of_ours_has_its_encoder() -> None:
    assert set(registry.ENCODERS.ours) == set(ENCODERS) - set(registry.ENCODERS.registered)
    for name in registry.ENCODERS.ours:
        config = PredictionConfig.from_preset("strong", (f"model.encoder={name}", "model.dim=4"))
        kind = encoder_type(config.model.encoder)
        if issubclass(kind, Scorer):  # has neither an encoder nor a decoder of its own
            assert (kind(5, 2, config).width > 0) == config.model.vectors
            continue
        encoder = kind(config, 5, 2)
        assert encoder.embeddings.shape == (5, 4 if config.made else 0)
        state = encoder.state_dict()
        assert set(encoder.entity_tables) <= set(state)
