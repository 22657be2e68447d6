"""Translational rivals: links make one of two, triples do the rest."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from decentrl.config import Config
from decentrl.errors import ConfigError
from decentrl.graph.merged import MergedGraph
from decentrl.views.base import TrainingData
from studies.rivals.translational import TranslationalModel, TranslationalObjective

SIZE = 6
LEFT = np.array([(0, 0, 1), (1, 0, 2), (1, 1, 3), (2, 1, 4)], np.int64)  # nothing of 5
RIGHT = np.array([(0, 0, 1), (1, 0, 3), (3, 0, 4)], np.int64)  # nothing of 2 and 5
LINKS = np.array([(0, 0), (1, 1), (3, 2)], np.int64)
NO_LINKS = torch.empty(0, 2, dtype=torch.int64)
N, R = 8, 3


def vectors_of(model: TranslationalModel) -> Tensor:
    return model.encode(None, NO_LINKS).vectors


def table(encoder: str, dim: int = 6) -> TranslationalModel:
    torch.manual_seed(0)
    return TranslationalModel(Config.from_preset(encoder, (f"model.dim={dim}",)), N, R)


def test_linked_entities_share_a_row_also_by_several_steps() -> None:
    model = table("transe")
    model.unite(torch.tensor([(1, 6), (3, 6), (3, 7), (0, 4)]))
    assert model.representative.tolist() == [0, 1, 2, 1, 0, 5, 1, 1]
    vectors = vectors_of(model)
    assert torch.equal(vectors[7], vectors[1])
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(N))
    model.unite(torch.tensor([(0, 4)]))  # what was shared before is forgotten
    assert model.representative.tolist() == [0, 1, 2, 3, 0, 5, 6, 7]


@pytest.mark.parametrize("encoder", ["transe", "rotate"])
def test_the_way_back_along_a_relation_undoes_it(encoder: str) -> None:
    model = table(encoder)
    heads = vectors_of(model)[:R]
    there = torch.arange(R)
    moved = model.questions(heads, there) / 2  # a question is twice the place of its answer
    torch.testing.assert_close(model.questions(moved, there + R) / 2, heads)
    assert (moved - heads).abs().amax() > 0.01
    assert len(model.decoder.relations) == R


@pytest.mark.parametrize("encoder", ["transe", "rotate"])
def test_relations_move_little_at_first(encoder: str) -> None:
    """So that relations of the two graphs that mean the same begin alike."""
    model = table(encoder, 64)
    heads = vectors_of(model)[:R]
    moved = model.questions(heads, torch.arange(R)) / 2
    assert (moved - heads).norm(dim=1).max() < 0.4


def test_rotate_turns_pairs_of_coordinates() -> None:
    with pytest.raises(ConfigError, match=r"rotate needs an even model\.dim, not 5"):
        table("rotate", 5)


# Their objective.


def no_features() -> Tensor:
    raise AssertionError("it reads no features of relations")


def make(encoder: str, *settings: str) -> TranslationalObjective:
    config = Config.from_preset(encoder, ("model.dim=4", "loss.scale=2", *settings))
    graph = MergedGraph.merge(LEFT, RIGHT, LINKS, (SIZE, SIZE), (2, 1))
    torch.manual_seed(0)
    model = TranslationalModel(config, 2 * SIZE, 3)
    structure = model.read(graph, graph, torch.device("cpu"))
    return model.objective(structure, TrainingData(graph, graph.links, no_features))


def test_links_make_one_entity_of_two() -> None:
    objective = make("transe")
    place = objective.model.representative.tolist()
    assert place == [0, 1, 2, 3, 4, 5, 0, 1, 3, 9, 10, 11]
    assert len(objective.links) == 2  # 8 has no triple: its link teaches nothing
    assert objective.seen[0].tolist() == [0, 1, 2, 3, 4]
    assert objective.seen[1].tolist() == [0, 1, 9, 10]


def test_an_epoch_asks_every_question_once_and_of_one_graph_at_a_time() -> None:
    objective = make("transe", "training.batch=3")
    asked: list[list[int]] = [[], []]
    for side, chosen in objective.batches(np.random.default_rng(0)):
        assert len(chosen) <= 3
        asked[side] += chosen.tolist()
    assert [sorted(side) for side in asked] == [list(range(len(q))) for q in objective.queries]


@pytest.mark.parametrize("encoder", ["transe", "rotate"])
@pytest.mark.parametrize("side", [0, 1])
def test_the_loss_is_a_softmax_over_the_entities_of_the_graph(encoder: str, side: int) -> None:
    objective = make(encoder, "loss.entities=0")
    model, queries = objective.model, objective.queries[side]
    found = objective.loss((side, np.arange(len(queries))), np.random.default_rng(0))
    place = model.representative.tolist()
    x = vectors_of(model).double()
    relations = model.decoder.relations.detach().double()
    shift = (0, 0, 0) if side == 0 else (SIZE, 2, SIZE)
    terms = []
    for h, r, t in (LEFT if side == 0 else RIGHT) + np.array(shift):
        for start, end, sign in ((h, t, 1), (t, h, -1)):
            if encoder == "transe":
                moved = x[start] + sign * relations[r]
            else:
                turned = torch.complex(x[start][:2], x[start][2:]) * torch.exp(
                    1j * sign * relations[r]
                )
                moved = torch.cat((turned.real, turned.imag))
            scores = -2 * (moved - x[objective.seen[side].tolist()]).square().sum(1)
            right = objective.seen[side].tolist().index(place[end])
            terms.append(scores.logsumexp(0) - scores[right])
    torch.testing.assert_close(found.double(), torch.stack(terms).mean(), rtol=1e-5, atol=1e-6)


def test_sampled_candidates_hold_the_right_answers_and_nobody_of_the_other_graph() -> None:
    objective = make("rotate", "loss.entities=2")
    rng = np.random.default_rng(0)
    for _ in range(20):
        found = objective._candidates(objective.seen[1], np.array([10]), rng)
        assert 10 in found
        assert 2 <= len(found) <= 3
        assert set(found) <= {0, 1, 9, 10}


def test_an_entity_that_no_triple_names_keeps_what_it_was_given() -> None:
    objective = make("transe")
    before = objective.model.entities.detach().clone()
    optimizer = torch.optim.Adam(objective.model.parameters(), 0.02)
    rng = np.random.default_rng(0)
    for batch in objective.batches(rng):
        optimizer.zero_grad()
        objective.loss(batch, rng).backward()
        optimizer.step()
    moved = (objective.model.entities - before).abs().amax(1) > 0
    assert moved.nonzero()[:, 0].tolist() == [0, 1, 2, 3, 4, 9, 10]
