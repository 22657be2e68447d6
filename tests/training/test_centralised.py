"""The objective of centralised rivals: wrong counterparts, near ones, and both losses."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from decentrl.nn.alignment import join
from decentrl.nn.rivals.alinet import relation_loss
from decentrl.training.centralised import CentralisedObjective
from decentrl.training.encoders import MODELS

from decentrl.config import Config
from decentrl.graph.centralised import CentralisedView
from decentrl.graph.merged import MergedGraph
from decentrl.training.unlinked import Unlinked

SIZE = 20  # entities a side; the last one of each has no triple


def make(encoder: str, *settings: str, epsilon: float = 0.0) -> CentralisedObjective:
    """Two graphs that are the same, and vectors that are nearly so."""
    settings = (f"model.encoder={encoder}", "model.dim=10", "model.dropout=0", *settings)
    config = Config.from_preset("tiny", settings)
    rng = np.random.default_rng(1)
    ring = np.array([(i, i % 2, (i + 1) % (SIZE - 1)) for i in range(SIZE - 1)])
    links = np.stack((np.arange(8), np.arange(8)), 1)
    links = np.concatenate((links, [(9, SIZE - 1)]))
    graph = MergedGraph.merge(ring, ring, links, (SIZE, SIZE), (2, 2))
    view = CentralisedView.build(graph, two_hop=encoder == "alinet")
    torch.manual_seed(0)
    model = MODELS[encoder](2 * SIZE, 4, config.model, config.distillation)
    valid = np.array([(i, SIZE + i) for i in range(8, 19)])
    unlinked = Unlinked.of(SIZE, 2 * SIZE, graph.links, valid)
    if epsilon:
        with torch.no_grad():
            noise = torch.from_numpy(rng.normal(size=(SIZE, 10))).float()
            model.entities[SIZE:] = model.entities[:SIZE] + epsilon * noise
    return CentralisedObjective(model, graph.links, SIZE, view, valid, unlinked, config)


@pytest.mark.parametrize("hardness", [1, 4])
def test_wrong_counterparts_are_seen_entities_of_the_same_side(hardness: int) -> None:
    objective = make("gcn", f"loss.hardness={hardness}", "loss.negatives=3")
    assert len(objective.links) == 8  # one link's right end has no triple
    links = torch.from_numpy(objective.links)
    left, right = objective._wrong(objective.model(objective.view), links, np.random.default_rng(0))
    assert left.shape == right.shape == (8, 3)
    assert set(left.flatten().tolist()) <= set(range(SIZE - 1))
    assert set(right.flatten().tolist()) <= set(range(SIZE, 2 * SIZE - 1))


@pytest.mark.parametrize("nearest_to", ["replaced", "kept"])
def test_hard_ones_are_the_nearest_but_never_the_end_itself(nearest_to: str) -> None:
    # A pool of all nineteen that have a triple: so it is known who must be found.
    settings = ("loss.hardness=100", "loss.negatives=4", f"loss.nearest_to={nearest_to}")
    objective = make("gat", *settings)
    parts, links = objective.model(objective.view), torch.from_numpy(objective.links)
    vectors = join(parts).detach()
    for side, found in enumerate(objective._wrong(parts, links, np.random.default_rng(0))):
        pool = torch.arange(SIZE - 1) + side * SIZE
        for link, chosen in zip(links, found, strict=True):
            cosine = vectors[pool] @ vectors[link[side if nearest_to == "replaced" else 1 - side]]
            cosine[pool == link[side]] = -2
            assert set(chosen.tolist()) == set(pool[cosine.topk(4).indices].tolist())


def test_the_contrastive_loss_is_the_formula() -> None:
    settings = ("loss.negatives=2", "loss.weight=0.3", "loss.relations=0.05", "loss.margin=3")
    objective = make("alinet", *settings)
    found = objective.loss(objective.links, np.random.default_rng(5))
    parts, links = objective.model(objective.view), torch.from_numpy(objective.links)
    left, right = objective._wrong(parts, links, np.random.default_rng(5))
    x = join(parts)
    expected = (x[links[:, 0]] - x[links[:, 1]]).square().sum()
    for b, (i, j) in enumerate(links):
        for wrong in left[b]:
            expected = expected + 0.3 * F.relu(3 - (x[wrong] - x[j]).square().sum())
        for wrong in right[b]:
            expected = expected + 0.3 * F.relu(3 - (x[i] - x[wrong]).square().sum())
    expected = expected + 0.05 * relation_loss(parts, objective.view)
    torch.testing.assert_close(found, expected)


def test_the_ranking_loss_is_the_formula() -> None:
    objective = make("gcn", "loss.kind=ranking", "loss.negatives=3", "loss.margin=2")
    found = objective.loss(objective.links, np.random.default_rng(5))
    (x,) = objective.model(objective.view)
    links = torch.from_numpy(objective.links)
    left, right = objective._wrong([x], links, np.random.default_rng(5))
    terms = []
    for b, (i, j) in enumerate(links):
        near = (x[i] - x[j]).abs().sum()
        terms += [F.relu(near + 2 - (x[wrong] - x[j]).abs().sum()) for wrong in left[b]]
        terms += [F.relu(near + 2 - (x[i] - x[wrong]).abs().sum()) for wrong in right[b]]
    torch.testing.assert_close(found, torch.stack(terms).mean())


def test_held_out_links_are_ranked_by_what_the_model_says() -> None:
    found = make("gcn", epsilon=1e-3).validate()
    assert found is not None
    assert found["hits@1"] == 1
    unlike = make("gcn").validate()
    assert unlike is not None
    assert unlike["mrr"] < 0.9
