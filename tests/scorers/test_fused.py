"""Paths and vectors weighed together: the weights, entities that vectors do not know, its parts.

Made by hand, one at a time; the tests beside it failed.

==========================================  ======================================================
change                                      test that fails
==========================================  ======================================================
vectors say something of new entities       test_of_new_entities_paths_alone_say_something
weights may fall below 0                    test_weights_are_those_of_the_best_fit
other known answers compete in the fit      test_weights_are_fitted_to_what_is_not_known
==========================================  ======================================================
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from decentrl.config import PredictionConfig
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.predictor import Predictor
from decentrl.scorers.fused import Both, FusedScorer, fitted_weights

N, R = 8, 2
TRIPLES = np.array([(0, 0, 1), (0, 0, 2), (0, 1, 1), (1, 1, 3), (3, 0, 4), (4, 1, 5), (5, 0, 6)])
LATER = np.array([(7, 0, 1), (6, 1, 7)])
CPU = torch.device("cpu")
QUICK = (
    "model.dim=8", "model.layers=3", "training.epochs=4", "training.steps=10",
    "training.validate_every=2", "training.vectors=0.1",
)  # fmt: skip


def scorer() -> FusedScorer:
    torch.manual_seed(0)
    return FusedScorer(N, R, PredictionConfig.from_preset("fused", QUICK)).eval()


def ground(made: FusedScorer) -> Both:
    return made.ground_of(made.read(np.concatenate((TRIPLES, LATER)), TRIPLES, CPU))


def test_a_score_is_a_weighted_sum_of_log_probabilities() -> None:
    made = scorer()
    made.weights.copy_(torch.tensor([0.7, 0.2]))
    on = ground(made)
    asked = torch.tensor([0, 3]), torch.tensor([0, 2])
    paths = made.paths.scores(on.paths, *asked).softmax(1)
    vectors = made.vectors.scores(on.vectors, *asked)[:, :7].softmax(1)
    # Vectors divide among known entities what paths give all of them.
    vectors = vectors * paths[:, :7].sum(1, keepdim=True)
    expected = 0.7 * paths[:, :7].log() + 0.2 * vectors.log()
    torch.testing.assert_close(made.scores(on, *asked)[:, :7], expected)


def test_of_new_entities_paths_alone_say_something() -> None:
    made = scorer()
    on = ground(made)
    asked = torch.tensor([7, 0]), torch.tensor([0, 1])
    before = made.scores(on, *asked)
    with torch.no_grad():
        for parameter in made.vectors.parameters():
            torch.nn.init.normal_(parameter)
    now = made.scores(made.ground_of(made.read(np.concatenate((TRIPLES, LATER)), TRIPLES, CPU)),
                      *asked)  # fmt: skip
    assert torch.equal(before[0], now[0])
    assert before[1, 7] == now[1, 7]
    assert not torch.allclose(before[1, :7], now[1, :7])


def test_weights_are_those_of_the_best_fit() -> None:
    torch.manual_seed(0)
    right = torch.randint(9, (200,))
    good, noise = torch.randn(200, 9), torch.randn(200, 9)
    good[torch.arange(200), right] += 2
    both = torch.stack((good, noise)).log_softmax(2)
    found = fitted_weights(both, right)
    assert found.min() >= 0
    assert found[0] > 0.5
    assert found[1] < 0.3

    def loss(weights: torch.Tensor) -> float:
        return float(F.cross_entropy((weights[:, None, None] * both).sum(0), right))

    for step in ([0.05, 0], [-0.05, 0], [0, 0.05], [0, -0.05], [0.05, 0.05]):
        assert loss((found + torch.tensor(step)).clamp(min=0)) >= loss(found) - 1e-6
    # The second way could only take away the first one's noise, with a weight below 0.
    noisy = torch.stack((good + noise, noise)).log_softmax(2)
    assert fitted_weights(noisy, right)[1] == 0
    assert fitted_weights(torch.stack((noise, good)).log_softmax(2), right)[1] > 0.5


def test_weights_are_fitted_to_what_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    made, seen = scorer(), list[Any]()
    monkeypatch.setattr(
        "decentrl.scorers.fused.fitted_weights",
        lambda both, right: seen.append((both, right)) or torch.tensor([0.25, 0.75]),
    )
    valid = np.array([(0, 0, 4)])
    made.settle(TRIPLES, made.read(TRIPLES, TRIPLES, CPU), valid)
    ((both, right),) = seen
    (row,) = (right == 4).nonzero()[:, 0].tolist()
    # 1 and 2 are other answers of (0, 0, ?); 7 is not known yet.
    assert both[0, row].isfinite().nonzero()[:, 0].tolist() == [0, 3, 4, 5, 6, 7]
    assert made.weights.tolist() == [0.25, 0.75]
    made.settle(TRIPLES, made.read(TRIPLES, TRIPLES, CPU), valid[:0])
    assert made.weights.tolist() == [0.25, 0.75]


# As a predictor


@pytest.fixture(scope="module")
def task(people: list[tuple[str, str, str]]) -> GraphTask:
    graph = KnowledgeGraph.from_labels(*zip(*people, strict=True))
    return GraphTask.from_graph("people", graph, 0.1, 0.1)


@pytest.fixture(scope="module")
def fitted(task: GraphTask) -> Predictor:
    return make().fit(task)


def make(*changes: str) -> Predictor:
    return Predictor.from_preset("fused", *QUICK, *changes, device="cpu")


def weights(predictor: Predictor) -> dict[str, torch.Tensor]:
    return dict(predictor.learned.model.state_dict())


def test_its_parts_are_trained_one_after_the_other(fitted: Predictor, task: GraphTask) -> None:
    stages = [row["stage"] for row in fitted.history]
    assert stages == ["paths"] * 4 + ["vectors"] * 3
    alone = Predictor.from_preset("paths", *QUICK[:-1], device="cpu").fit(task)
    assert alone.history[-1]["valid_mrr"] == fitted.history[3]["valid_mrr"]
    found = weights(fitted)
    for name, tensor in weights(alone).items():
        assert torch.equal(found[f"paths.{name}"], tensor), name


def test_a_killed_training_goes_on_to_the_same_end(
    task: GraphTask, fitted: Predictor, tmp_path: Path
) -> None:
    for epoch in (2, 5):

        def stop(row: dict[str, Any], epoch: int = epoch) -> None:
            if row["epoch"] + 4 * (row["stage"] == "vectors") == epoch:
                raise KeyboardInterrupt

        often, run = "training.checkpoint_every=0", tmp_path / str(epoch)
        with pytest.raises(KeyboardInterrupt):
            make(often).fit(task, run=run, on_epoch=stop)
        again = make(often).fit(task, run=run, resume=True)
        for name, tensor in weights(fitted).items():
            assert torch.equal(weights(again)[name], tensor), name


def test_it_is_kept_grows_and_has_vectors_and_reasons(fitted: Predictor, tmp_path: Path) -> None:
    fitted.save(tmp_path / "run")
    news = [("newcomer", "lives in", "city 3"), ("person 5", "knows", "newcomer")]
    with Predictor.load(tmp_path / "run", "cpu", durable=True) as grown:
        assert grown.evaluate().rows == fitted.evaluate().rows
        before = grown.embed(["person 1"])
        grown.add(news)
        asked = {"head": "newcomer", "relation": "knows", "top": 3}
        table = grown.predict(**asked)
        assert table.num_rows == 3
        assert np.array_equal(grown.embed(["person 1"]), before)
        assert grown.neighbours("newcomer", top=2).num_rows == 2
        assert grown.explain("newcomer")
        assert grown.explain(head="person 5", relation="lives in", tail="city 3") is not None
        grown.compact()
        scores = grown.predict(**asked)["score"].to_pylist()
        assert scores == pytest.approx(table["score"].to_pylist(), abs=1e-4)
    again = Predictor.load(tmp_path / "run", "cpu")
    assert again.predict(**asked)["tail"].to_pylist() == table["tail"].to_pylist()
    assert 0 < again.refit().evaluate().rows[0]["mrr"] < 1


def test_test_triples_are_read_nowhere(task: GraphTask, fitted: Predictor) -> None:
    other = make().fit(replace(task, test=task.test[:0]))
    for name, tensor in weights(fitted).items():
        assert torch.equal(weights(other)[name], tensor), name
