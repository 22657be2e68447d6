"""Tables of embeddings under each decoder: their presets learn, and contradictions are errors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from decentrl.config import PredictionConfig, preset_names
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.errors import ConfigError
from decentrl.predictor import Predictor

TABLES = [name for name in preset_names("prediction") if name.startswith("table-")]


@pytest.fixture(scope="module")
def task(people: list[tuple[str, str, str]]) -> GraphTask:
    graph = KnowledgeGraph.from_labels(*zip(*people, strict=True))
    whole = GraphTask.from_graph("people", graph, 0.1, 0.1)
    return replace(whole, valid=whole.valid[:0])


def test_there_is_a_table_for_every_decoder() -> None:
    presets = [PredictionConfig.from_preset(name) for name in TABLES]
    found = {(config.preset, config.model.encoder, config.decoder.name) for config in presets}
    names = ("transe", "distmult", "complex", "rotate", "tucker", "conve")
    assert found == {(f"table-{name}", "none", name) for name in names}


@pytest.mark.parametrize("preset", TABLES)
def test_it_learns_to_complete_triples(task: GraphTask, preset: str) -> None:
    steep = ("training.learning_rate=0.02", "model.dropout=0", "model.dim=16", "training.batch=64")

    def mrr(epochs: int) -> float:
        more = ("training.validate_every=2", f"training.epochs={epochs}")
        predictor = Predictor.from_preset(preset, *steep, *more, device="cpu").fit(task)
        return float(predictor.evaluate(task.graph.triples).rows[0]["mrr"])

    assert mrr(30) > 2.5 * mrr(0)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("loss.root=true", "loss.root does not apply"),
        ("loss.relations=1.0", "loss.relations=0"),
    ],
)
def test_settings_that_contradict_each_other_are_errors(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        PredictionConfig.from_preset("table-tucker", (setting,))
