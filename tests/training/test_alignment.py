"""The objective of alignment: its batches, its samples, its validation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from decentrl.nn.alignment import AlignmentModel
from decentrl.training.alignment import AlignmentObjective

from decentrl.config import Config
from decentrl.graph.adjacency import Adjacency, Ids
from decentrl.graph.merged import MergedGraph
from decentrl.training.unlinked import Unlinked

SIZE = 12  # entities a side; the last one of each has no triple
LINKS = np.array([(0, 0), (1, 1), (2, 2), (3, 3), (4, SIZE - 1), (5, 5)])


@pytest.fixture(autouse=True)
def _own_random_state() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        yield


def make(*settings: str, valid: Ids | None = None, seed: int = 0) -> AlignmentObjective:
    config = Config.from_preset("tiny", ("model.dim=8", *settings))
    rng = np.random.default_rng(1)
    ring = np.array([(i, i % 2, (i + 1) % (SIZE - 1)) for i in range(SIZE - 1)])
    more = np.stack([rng.integers(0, SIZE - 1, 15), rng.integers(0, 2, 15),
                     rng.integers(0, SIZE - 1, 15)], axis=1)  # fmt: skip
    triples = np.unique(np.concatenate((ring, more)), axis=0)
    graph = MergedGraph.merge(triples, triples, LINKS, (SIZE, SIZE), (2, 2))
    view = graph.view(
        layers=2, order=2, two_hop=True, residual=True, self_entity=False, counterparts=True
    )
    torch.manual_seed(seed)
    model = AlignmentModel(graph.n_entities, graph.n_relations, config.model, config.distillation)
    held = np.empty((0, 2), np.int64) if valid is None else valid + np.array([0, SIZE])
    unlinked = Unlinked.of(graph.n_left, graph.n_entities, graph.links, held)
    return AlignmentObjective(model, graph.links, graph.n_left, view, held, unlinked, config)


def test_what_has_no_triple_is_neither_pulled_nor_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    objective = make()
    assert objective.links.tolist() == [[i, SIZE + i] for i in (0, 1, 2, 3, 5)]
    assert objective.seen_left.tolist() == list(range(SIZE - 1))
    assert objective.seen_right.tolist() == list(range(SIZE, 2 * SIZE - 1))

    sampled: list[tuple[Ids, Ids]] = []
    original = Adjacency.from_pairs

    def spy(rows: Ids, columns: Ids, n_rows: int, n_columns: int) -> Adjacency:
        sampled.append((rows, columns))
        return original(rows, columns, n_rows, n_columns)

    monkeypatch.setattr(Adjacency, "from_pairs", spy)
    rng = np.random.default_rng(0)
    for _ in range(10):
        objective.loss(objective.links, rng)
    assert len(sampled) == 10
    for rows, columns in sampled:
        assert len(rows) == len(columns) == 5 * objective.config.loss.negatives
        assert set(rows) <= set(objective.seen_left)
        assert set(columns) <= set(objective.seen_right)


def test_an_epoch_takes_every_link_once() -> None:
    objective = make("training.batch=2")
    rng = np.random.default_rng(0)
    first, second = (list(objective.batches(rng)) for _ in range(2))
    assert [len(batch) for batch in first] == [2, 2, 1]
    for epoch in (first, second):
        assert sorted(map(tuple, np.concatenate(epoch))) == sorted(map(tuple, objective.links))
    assert not np.array_equal(np.concatenate(first), np.concatenate(second))


@pytest.mark.parametrize("size", [0, 5, 100])
def test_all_links_in_one_step_need_no_order(size: int) -> None:
    objective = make(f"training.batch={size}")
    (batch,) = objective.batches(np.random.default_rng(0))
    assert np.array_equal(batch, objective.links)


def test_the_loss_depends_on_the_seeds_alone() -> None:
    def loss(seed: int, torch_seed: int) -> float:
        objective = make()
        torch.manual_seed(torch_seed)
        return objective.loss(objective.links, np.random.default_rng(seed)).item()

    assert loss(0, 0) == loss(0, 0)
    assert loss(0, 0) != loss(1, 0)
    assert loss(0, 0) != loss(0, 1)  # dropout


def test_the_loss_reaches_every_seen_input_embedding_and_no_other() -> None:
    objective = make("model.dropout=0", "distillation.variant=none")
    objective.loss(objective.links, np.random.default_rng(0)).backward()
    gradient = objective.model.entities.grad
    assert gradient is not None
    moved = gradient.abs().sum(1) > 0
    assert moved.tolist() == objective.view.seen.tolist()


def test_the_weight_of_the_distillation_counts() -> None:
    def loss(*settings: str) -> float:
        objective = make(*settings)
        torch.manual_seed(0)
        return objective.loss(objective.links, np.random.default_rng(0)).item()

    alone = loss("distillation.weight=0")
    once, twice = (loss(f"distillation.weight={w}") - alone for w in (0.5, 1.0))
    assert once > 0
    assert twice == pytest.approx(2 * once, rel=1e-4)


def test_without_held_out_links_there_is_nothing_to_validate() -> None:
    assert make().validate() is None


def test_validation_ranks_among_what_no_training_link_has_taken() -> None:
    valid = np.array([(6, 6), (7, 7), (8, 9)])
    objective = make("matching.matcher=cosine", valid=valid)
    objective.model.train()
    found = objective.validate()
    assert objective.model.training
    assert found is not None
    assert list(found) == ["hits@1", "hits@10", "mrr"]

    vectors = objective.model.encode(objective.view).double().numpy()
    taken = set(LINKS[:, 1] + SIZE)  # also by a link that nothing is learned from
    candidates = [i for i in range(SIZE, 2 * SIZE) if i not in taken]
    ranks = []
    for left, right in valid + np.array([0, SIZE]):
        scores = {i: vectors[left] @ vectors[i] for i in candidates}
        better = sum(s > scores[right] + 1e-6 for s in scores.values())
        tied = sum(abs(s - scores[right]) <= 1e-6 for s in scores.values())
        ranks.append((better, tied))
    assert all(tied == 1 for _, tied in ranks)
    assert found["hits@1"] == pytest.approx(np.mean([b < 1 for b, _ in ranks]))
    assert found["hits@10"] == pytest.approx(np.mean([b < 10 for b, _ in ranks]))
    assert found["mrr"] == pytest.approx(np.mean([1 / (b + 1) for b, _ in ranks]))
