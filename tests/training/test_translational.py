"""The objective of translational rivals: links make one of two, triples do the rest."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from decentrl.nn.rivals.translational import TranslationalModel
from decentrl.training.translational import TranslationalObjective

from decentrl.config import Config
from decentrl.graph.merged import MergedGraph
from decentrl.training.unlinked import Unlinked

SIZE = 6
LEFT = np.array([(0, 0, 1), (1, 0, 2), (1, 1, 3), (2, 1, 4)], np.int64)  # nothing of 5
RIGHT = np.array([(0, 0, 1), (1, 0, 3), (3, 0, 4)], np.int64)  # nothing of 2 and 5
LINKS = np.array([(0, 0), (1, 1), (3, 2)], np.int64)
VALID = np.array([(4, 4 + SIZE)], np.int64)


def make(encoder: str, *settings: str, valid: bool = False) -> TranslationalObjective:
    config = Config.from_preset(encoder, ("model.dim=4", "loss.scale=2", *settings))
    graph = MergedGraph.merge(LEFT, RIGHT, LINKS, (SIZE, SIZE), (2, 1))
    torch.manual_seed(0)
    model = TranslationalModel(2 * SIZE, 3, config.model)
    held = VALID if valid else VALID[:0]
    unlinked = Unlinked.of(SIZE, 2 * SIZE, graph.links, held)
    return TranslationalObjective(model, graph.links, graph, held, unlinked, config)


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
    x = model.encode().double()
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
    objective = make("transe", valid=True)
    before = objective.model.entities.detach().clone()
    optimizer = torch.optim.Adam(objective.model.parameters(), 0.02)
    rng = np.random.default_rng(0)
    for batch in objective.batches(rng):
        optimizer.zero_grad()
        objective.loss(batch, rng).backward()
        optimizer.step()
    moved = (objective.model.entities - before).abs().amax(1) > 0
    assert moved.nonzero()[:, 0].tolist() == [0, 1, 2, 3, 4, 9, 10]


def test_held_out_links_are_watched_where_there_are_any() -> None:
    found = make("rotate", valid=True).validate()
    assert found is not None
    assert list(found) == ["hits@1", "hits@10", "mrr"]
    assert make("rotate").validate() is None
