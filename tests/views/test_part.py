"""A part of a graph: what newcomers read of the entities around them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from decentrl.graph.adjacency import Adjacency
from decentrl.graph.arrivals import Neighbourhood
from decentrl.views.part import Part

# Local ids: 0 and 1 were trained, 2 came before, 3 and 4 are new. Of six relations two occur.
TRIPLES = np.array([(3, 4, 0), (1, 1, 3), (3, 4, 2), (4, 1, 3)])
NEW = np.array([False, False, False, True, True])
TRAINED = np.array([True, True, False, False, False])
SEEN_RELATIONS = np.array([True, True, True, True, False, True])


def memory(name: str) -> Tensor:
    """One number an entity; 0 for new ones, as a model's memory gives it."""
    assert name == "states"
    return torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [0.0, 0.0], [0.0, 0.0]])


@pytest.fixture
def part() -> Part:
    hood = Neighbourhood(np.array([3, 7, 20, 30, 31]), TRIPLES, NEW, np.ones(4, bool))
    return Part(hood, TRAINED, SEEN_RELATIONS, memory, {}, torch.device("cpu"))


def edges(graph: Adjacency) -> set[tuple[int, int]]:
    return set(zip(graph.rows.tolist(), graph.columns.tolist(), strict=True))


def test_only_the_relations_that_occur_are_numbered(part: Part) -> None:
    few, directed = part.few_relations
    assert few.tolist() == [[3, 1, 0], [1, 0, 3], [3, 1, 2], [4, 0, 3]]
    assert directed.tolist() == [1, 4, 1 + 6, 4 + 6]
    assert part.hood.triples.tolist() == TRIPLES.tolist()  # the part itself is as it was


def test_states_of_all_that_is_not_new_are_frozen(part: Part) -> None:
    frozen = part.frozen(part.memory("states"), 2)
    assert part.new.tolist() == NEW.tolist()
    made = torch.full((5, 1), 9.0)
    assert frozen.put(0, made)[:, 0].tolist() == [1, 3, 5, 9, 9]
    assert frozen.put(1, made)[:, 0].tolist() == [2, 4, 6, 9, 9]


def test_a_dan_reads_inputs_of_trained_entities_and_layers_of_all_that_are_known(
    part: Part,
) -> None:
    view = part.graph_view(part.memory("states"), layers=2)
    assert view.seen.tolist() == TRAINED.tolist()
    near = {(3, 0), (0, 3), (1, 3), (3, 1), (3, 2), (2, 3), (4, 3), (3, 4)}
    assert edges(view.first) == edges(view.layers[0]) == {(3, 0), (3, 1)}
    # Layer 2 reads the context: known of what is frozen, and of 3, which has trained neighbours.
    assert edges(view.layers[1]) == near - {(3, 4)}
    assert edges(view.relations) == {(1, 1), (3, 1 + 6), (4, 1), (3, 1 + 6)}  # 4 was never seen


def test_what_is_zero_is_not_known_though_it_is_not_new(part: Part) -> None:
    states = part.memory("states")
    states[2] = 0
    view = part.graph_view(states, layers=2)
    assert not any(column == 2 for _, column in edges(view.layers[1]))


def test_a_relational_encoder_reads_the_relations_that_occur(part: Part) -> None:
    view = part.relational_view()
    assert edges(view.first) == {(3, 0), (3, 1)}
    assert view.seen_relations.tolist() == [True, False] * 2
    assert edges(view.bag) == {(1, 0), (3, 0 + 2), (4, 0)}
    assert {(3, 2), (3, 4), (4, 3)} <= edges(view.edges.nodes)


def test_seeds_travel_along_all_edges_of_a_part(part: Part) -> None:
    near = {(3, 0), (0, 3), (1, 3), (3, 1), (3, 2), (2, 3), (4, 3), (3, 4)}
    assert edges(part.propagation_view().edges) == near
