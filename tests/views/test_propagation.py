"""The view by seed propagation: its vectors, its memory, and what newcomers make of that."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from decentrl.config import Config
from decentrl.graph.arrivals import Neighbourhood
from decentrl.graph.merged import MergedGraph
from decentrl.nn.propagation import SeedPropagation
from decentrl.views.part import Part
from decentrl.views.propagation import ENTITIES, LINKS, RELATIONS, SeedView

SIZE, R, DIM = 8, 2, 16
NEW = SIZE - 1  # has no triple at first
KNOWN_LINKS = np.array([(0, 0), (1, 1), (2, 2)])
CPU = torch.device("cpu")


def graph() -> MergedGraph:
    ring = np.array([(i, i % R, (i + 1) % NEW) for i in range(NEW)])
    return MergedGraph.merge(ring, ring, KNOWN_LINKS, (SIZE, SIZE), (R, R))


KNOWN = graph()
NOW = KNOWN.grown(np.array([(NEW, 0, 0), (3, 1, NEW)]), np.empty((0, 3), np.int64))
ALL_LINKS = torch.from_numpy(KNOWN.links)


def make(seed: int = 0) -> SeedView:
    settings = (f"propagation.dim={DIM}", "propagation.relation_dim=4")
    return SeedView(Config.from_preset("propagate", settings, seed))


def grown_part(view: SeedView) -> Part:
    """The new entity and its neighbours, with what is remembered of these."""
    rows = view.encode(view.read(KNOWN, KNOWN, CPU), ALL_LINKS)
    entities = np.array([0, 3, NEW])
    local = np.array([(2, 0, 0), (1, 1, 2)])
    hood = Neighbourhood(entities, local, entities == NEW, np.ones(2, bool))
    taken = rows.memory[ENTITIES][torch.from_numpy(entities)]
    taken[2] = 0

    def memory(name: str) -> Tensor:
        assert name == ENTITIES
        return taken

    trained, seen_relations = entities != NEW, np.ones(2 * R, bool)
    return Part(hood, trained, seen_relations, memory, rows.shared, CPU)


def test_its_rows_are_those_of_seed_propagation() -> None:
    view = make()
    structure = view.read(KNOWN, KNOWN, CPU)
    expected = SeedPropagation(structure, ALL_LINKS, dim=DIM, rounds=2, seed=0)
    rows = view.encode(structure, ALL_LINKS)
    assert torch.equal(rows.vectors, expected.features(4, 16))
    assert rows.vectors.shape[1] == view.dim == 64
    assert torch.equal(rows.memory[ENTITIES], expected.entities)
    assert rows.memory[ENTITIES].shape[1] == view.memories[ENTITIES] == 3 * DIM
    assert torch.equal(rows.shared[RELATIONS], expected.relations)
    assert rows.shared[LINKS].tolist() == [len(KNOWN_LINKS)]


def test_memory_can_be_had_without_vectors() -> None:
    view = make()
    structure = view.read(KNOWN, KNOWN, CPU)
    rows, alone = view.encode(structure, ALL_LINKS), view.memory_of(structure, ALL_LINKS)
    assert torch.equal(alone.memory[ENTITIES], rows.memory[ENTITIES])
    assert torch.equal(alone.shared[RELATIONS], rows.shared[RELATIONS])
    assert not alone.vectors.numel()


def test_it_trains_nothing_and_the_seed_decides() -> None:
    view = make()
    assert not list(view.parameters())
    structure = view.read(KNOWN, KNOWN, CPU)
    vectors = view.encode(structure, ALL_LINKS).vectors
    assert torch.equal(vectors, make().encode(structure, ALL_LINKS).vectors)
    assert not torch.equal(vectors, make(1).encode(structure, ALL_LINKS).vectors)


def test_newcomers_get_a_vector_and_others_keep_what_is_known_of_them() -> None:
    view = make()
    part = grown_part(view)
    rows = view.newcomers(part)
    torch.testing.assert_close(rows.memory[ENTITIES][:2], part.memory(ENTITIES)[:2])
    new = rows.vectors[2]
    torch.testing.assert_close(new.norm(), torch.tensor(1.0))
    whole = view.encode(view.read(NOW, KNOWN, CPU), ALL_LINKS).vectors
    others = [i for i in range(2 * SIZE) if i not in (NEW, SIZE + NEW)]
    # Frozen neighbours are not quite those of the grown graph, but no other entity is as near.
    assert (whole @ new).argmax() == NEW
    assert whole[NEW] @ new > (whole[others] @ new).max() + 0.1


def test_random_numbers_of_newcomers_are_drawn_once() -> None:
    view = make()
    part = grown_part(view)
    first = view.newcomers(part).vectors
    kept = view._grown(part)
    assert torch.equal(view.newcomers(part).vectors, first)
    assert view._grown(part) is kept
    assert view._grown(grown_part(view)) is not kept  # other relations, another propagation


def test_shares_of_edges_sum_to_one() -> None:
    view = make()
    part = grown_part(view)
    (attention,) = view.attentions(part, view.newcomers(part))
    mine = attention.rows == 2
    torch.testing.assert_close(attention.weights[mine].sum(), torch.tensor(1.0))
    assert set(attention.columns[mine].tolist()) == {0, 1}
    assert set(attention.relations[mine].tolist()) == {0, 1 + 2 * R}
