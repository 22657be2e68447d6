"""Baselines of prediction are used like every model, up to what they cannot do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.open_world import split_graph
from decentrl.errors import ConfigError
from decentrl.growth.prediction_state import view_of
from decentrl.predictor import Predictor
from studies import rivals  # noqa: F401  registers what is tested here

ENCODERS = ("rgcn", "compgcn", "lan", "dgcn", "wgcn")
QUICK = ("model.dim=16", "training.batch=64", "training.validate_every=2")
NEWS = [("newcomer", "knows", "person 1")]
encoders = pytest.mark.parametrize("preset", ENCODERS)


def make(preset: str, *settings: str, epochs: int = 2) -> Predictor:
    settings = (*QUICK, f"training.epochs={epochs}", *settings)
    return Predictor.from_preset(preset, *settings, device="cpu")


@pytest.fixture(scope="module")
def graph(people: list[tuple[str, str, str]]) -> KnowledgeGraph:
    return KnowledgeGraph.from_labels(*zip(*people, strict=True))


@pytest.fixture(scope="module")
def task(graph: KnowledgeGraph) -> GraphTask:
    return GraphTask.from_graph("people", graph, 0.1, 0.1)


@pytest.fixture(scope="module")
def opened(graph: KnowledgeGraph) -> GraphTask:
    return split_graph(GraphTask.from_graph("people", graph, 0.1, 0.2), 0.2, 0)


@encoders
def test_it_learns_to_complete_triples(task: GraphTask, preset: str) -> None:
    steep = ("training.learning_rate=0.02", "model.dropout=0")
    everything = replace(task, valid=task.valid[:0])
    predictor = make(preset, *steep, epochs=30).fit(everything)
    rows = predictor.evaluate(task.graph.triples).rows
    untrained = make(preset, epochs=0).fit(everything).evaluate(task.graph.triples).rows
    assert rows[0]["mrr"] > 2.5 * untrained[0]["mrr"]


@encoders
def test_it_is_kept_and_answers_alike(opened: GraphTask, tmp_path: Path, preset: str) -> None:
    predictor = make(preset).fit(opened)
    predictor.save(tmp_path)
    loaded = Predictor.load(tmp_path, "cpu")
    assert torch.equal(loaded.vectors(), predictor.vectors())
    asked = {"head": "person 1", "relation": "knows"}
    assert loaded.predict(**asked).equals(predictor.predict(**asked))
    if preset != "compgcn":  # ConvE is slow to ask
        between = {"head": "person 1", "tail": "person 2", "known": True}
        assert loaded.predict(**between).equals(predictor.predict(**between))
    assert loaded.evaluate().rows == predictor.evaluate().rows
    assert loaded.neighbours("person 1").equals(predictor.neighbours("person 1"))


@encoders
def test_who_arrived_has_what_the_paper_gives_it(opened: GraphTask, preset: str) -> None:
    """Centralised ones read the embedding that it began with; LAN does not."""
    new = opened.new_entities
    assert new is not None
    predictor, other = make(preset).fit(opened), make(preset).fit(opened)
    model = other.learned.model
    with torch.no_grad():
        model.encoder.embeddings[torch.from_numpy(new)] += 1
    now = np.concatenate((opened.graph.triples, opened.auxiliary))  # type: ignore[arg-type]
    moved = (
        model.rows(view_of(model, now, opened, torch.device("cpu"))).vectors != predictor.vectors()
    )
    assert moved[new].any(1).all() == (preset != "lan")
    assert moved.any() == (preset != "lan")


@pytest.mark.parametrize(
    ("preset", "setting"),
    [
        *product(ENCODERS, ("model.hidden=1.0", "model.output=table")),
        *product(("rgcn", "lan", "dgcn", "wgcn"), ("model.reuse=3",)),
    ],
)
def test_other_settings_of_prediction_work(task: GraphTask, preset: str, setting: str) -> None:
    plain, changed = make(preset).fit(task), make(preset, setting).fit(task)
    assert np.isfinite([row["loss"] for row in changed.history]).all()
    assert not torch.equal(plain.vectors(), changed.vectors())


@encoders
def test_what_it_cannot_do_is_one_clear_line(task: GraphTask, tmp_path: Path, preset: str) -> None:
    predictor = make(preset).fit(task)
    before = predictor.vectors().clone()
    predictor.save(tmp_path)
    attempts: list[Callable[[], object]] = [
        lambda: predictor.add(NEWS),
        predictor.refresh,
        predictor.compact,
        lambda: predictor.explain("person 1"),
        lambda: Predictor.load(tmp_path, "cpu", durable=True),
    ]
    for attempt in attempts:
        with pytest.raises(ConfigError, match=f"^the encoder {preset} cannot .*the preset paper$"):
            attempt()
    assert torch.equal(predictor.vectors(), before)
    assert predictor.log() == []
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("preset", "setting", "message"),
    [
        ("rgcn", "model.own=add", "model.own does not apply to the encoder rgcn"),
        ("compgcn", "model.own=concatenate", "model.own does not apply"),
        ("compgcn", "decoder.name=rotate", "complex or conve"),
        ("compgcn", "decoder.dim=32", "decoder.dim is 0"),
        ("lan", "model.layers=2", "at most 1"),
        ("compgcn", "model.reuse=3", "share what they change"),
    ],
)
def test_settings_that_contradict_each_other_are_errors(
    task: GraphTask, preset: str, setting: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make(preset, setting).fit(task)


def test_the_commands_take_baselines(
    decentrl: Callable[..., object], people_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    sets = [word for setting in (*QUICK, "training.epochs=2") for word in ("--set", setting)]
    done = decentrl("complete", people_file, "--preset", "rgcn", *sets, "-o", run)
    assert done.code == 0, done.err  # type: ignore[attr-defined]
    assert (run / "report.html").exists()
    for command in (
        ["evaluate", run],
        ["predict", run, "--head", "person 1", "--relation", "knows"],
    ):
        assert decentrl(*command).code == 0  # type: ignore[attr-defined]
    news = tmp_path / "news.tsv"
    news.write_text("\t".join(NEWS[0]) + "\n", "utf-8")
    for command in (
        ["add", run, news],
        ["explain", run, "person 1"],
        ["compact", run, "--refresh"],
    ):
        refused = decentrl(*command)
        assert refused.code != 0  # type: ignore[attr-defined]
        assert "the encoder rgcn cannot take in" in " ".join(refused.err.split())  # type: ignore[attr-defined]
