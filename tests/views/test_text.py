"""The view by names: what it reads, what newcomers get, what a bundle may hold of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.config import Config
from decentrl.data.names import Names
from decentrl.data.ngrams import ngram_counts
from decentrl.errors import InputError
from decentrl.graph.arrivals import Neighbourhood
from decentrl.graph.merged import MergedGraph
from decentrl.graph.texts import N_BUCKETS, TextRows, Texts, ValueRows
from decentrl.nn.text import Weighted, name_vectors, rarity, shared_rarity
from decentrl.views import text
from decentrl.views.part import Part
from decentrl.views.text import COEFFICIENTS, LINKED, OWN, PAIRS, SHARED, NameStructure, NameView

LEFT = ["Rivière Rouge", "Lac Bleu", "", "Mont Rouge", "Lac Noir", "Rivière Bleue", "Ax"]
RIGHT = ["Red River", "Blue Lake", "Mount Red", "", "Black Lake", "Blue River", "Lac Noir"]
SIZE, SEEN = 7, 5  # entities a side; those from SEEN on have no triple
LINKS = torch.tensor([(0, 7), (1, 8), (2, 9), (3, 10), (4, 11)])
NO_LINKS = LINKS[:0]
NAMED = [0, 1, 4]  # links with a name at both ends
CPU = torch.device("cpu")


def rows_of(texts: list[str]) -> TextRows:
    names = Names.of_rows(np.arange(len(texts)), texts)
    return TextRows(*ngram_counts(names, len(texts), N_BUCKETS))


def texts_of(texts: list[str]) -> Texts:
    """Names alone, no attributes."""
    return Texts(rows_of(texts), ValueRows.empty(len(texts)))


def graph(left: list[str] = LEFT, right: list[str] = RIGHT) -> MergedGraph:
    ring = np.array([(i, 0, (i + 1) % SEEN) for i in range(SEEN)])
    merged = MergedGraph.merge(ring, ring, LINKS.numpy()[:2] - [0, 7], (SIZE, SIZE), (1, 1))
    return replace(merged, texts=(texts_of(left), texts_of(right)))


def view(translation: float = 0.5, *settings: str) -> NameView:
    changes = ("names.width=96", f"names.translation={translation}", *settings)
    return NameView(Config.from_preset("propagate", changes))


def read(merged: MergedGraph) -> NameStructure:
    return view().read(merged, merged, CPU)


def encoded(translation: float, links: Tensor = LINKS, merged: MergedGraph | None = None) -> Tensor:
    return view(translation).encode(read(merged or graph()), links).vectors


def test_rarity_is_that_of_entities_known_in_training() -> None:
    structure = read(graph())
    known = rows_of(LEFT[:SEEN]), rows_of(RIGHT[:SEEN])
    assert torch.equal(structure.shared, shared_rarity(*known, N_BUCKETS))
    assert torch.equal(structure.own, rarity(known[0], N_BUCKETS))


@pytest.mark.parametrize("translation", [0.0, 0.5, 1.0])
def test_vectors_are_names_as_they_are_and_translated(translation: float) -> None:
    structure, found = read(graph()), encoded(translation)
    direct = [name_vectors(Weighted.of(side.names, structure.shared), 96) for side in
              (structure.left, structure.right)]  # fmt: skip
    mapped = encoded(1.0)[:SIZE]
    mixed = F.normalize((1 - translation) * direct[0] + translation * mapped, dim=1)
    torch.testing.assert_close(found, torch.cat((mixed, direct[1])))
    assert translation == 1 or not torch.equal(direct[0], mapped)
    lengths = found.norm(dim=1)
    assert ((lengths - 1).abs() < 1e-6).logical_or(lengths == 0).all()
    assert lengths[2] == lengths[10] == 0  # without a name
    assert lengths[0] == pytest.approx(1)


def test_translation_reads_links_with_names_at_both_ends() -> None:
    assert torch.equal(encoded(1.0), encoded(1.0, LINKS[NAMED]))
    assert not torch.equal(encoded(1.0), encoded(1.0, LINKS[NAMED[:2]]))
    assert encoded(1.0, LINKS[:1]).isfinite().all()
    # Without any there is no translation, and names are compared as they are.
    for links in (NO_LINKS, LINKS[2:4]):
        assert torch.equal(encoded(0.7, links), encoded(0.0, links))
        assert set(view().memory_of(read(graph()), links).shared) == {SHARED, OWN}


@pytest.mark.parametrize("translation", [0.0, 0.5])
def test_names_of_entities_that_have_not_arrived_have_no_influence(translation: float) -> None:
    before = encoded(translation)
    left = [*LEFT[:SEEN], "Rouge Bleu Noir", "Red Blue Black"]
    right = [*RIGHT[:SEEN], "", "Mont Rouge Lac Noir"]
    after = encoded(translation, merged=graph(left, right))
    known = np.r_[:SEEN, SIZE : SIZE + SEEN]
    assert torch.equal(before[known], after[known])
    assert not torch.equal(before[5:7], after[5:7])


def test_more_links_than_are_used_are_sampled_by_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MOST_LINKS", 2)
    found = {}
    for seed in range(8):
        config = Config.from_preset("propagate", ("names.translation=1",), seed)
        for _ in range(2):
            shared = NameView(config).memory_of(read(graph()), LINKS).shared
            assert len(shared[COEFFICIENTS]) == 2 == len(shared[LINKED[0]]) - 1
            used = tuple(shared[LINKED[1]].tolist())
            assert found.setdefault(seed, used) == used
    assert len(set(found.values())) > 1


def part(texts: Texts | None, side: str, shared: dict[str, Tensor], old: int = 0) -> Part:
    n = old if texts is None else len(texts)
    ids = np.arange(n)
    hood = Neighbourhood(ids, np.empty((0, 3), np.int64), ids >= old, np.empty(0, bool))
    none = np.zeros(n, bool)
    return Part(
        hood, none, np.zeros(1, bool), lambda name: torch.empty(0), shared, CPU, texts, side
    )


@pytest.mark.parametrize("translation", [0.0, 0.5, 1.0])
def test_newcomers_get_what_encoding_gives_by_the_same_rarities(translation: float) -> None:
    made, structure = view(translation), read(graph())
    rows = made.encode(structure, LINKS)
    for side, texts, vectors in (
        ("left", structure.left, rows.vectors[:SIZE]),
        ("right", structure.right, rows.vectors[SIZE:]),
    ):
        assert torch.equal(made.newcomers(part(texts, side, rows.shared)).vectors, vectors)
        for i in range(SIZE):
            alone = made.newcomers(part(texts.take(np.array([i])), side, rows.shared)).vectors
            assert torch.equal(alone[0], vectors[i])
    assert made.newcomers(part(None, "left", rows.shared, 3)).vectors.shape == (3, 96)
    assert made.newcomers(part(texts_of([]), "left", rows.shared)).vectors.shape == (0, 96)
    assert not made.attentions(part(structure.left, "left", rows.shared), rows)


def test_graphs_without_names_are_an_error() -> None:
    bare = replace(graph(), texts=None)
    with pytest.raises(InputError, match=r"not both graphs have some; give names of both, or"):
        read(bare)


def memory() -> dict[str, Tensor]:
    found = view().memory_of(read(graph()), LINKS).shared
    return {name: x.clone(memory_format=torch.contiguous_format) for name, x in found.items()}


def without(name: str) -> Any:
    return lambda found: found.pop(name)


def put(name: str, place: int, value: float) -> Any:
    return lambda found: found[name].view(-1).__setitem__(place, value)


def made(name: str, how: Any) -> Any:
    return lambda found: found.__setitem__(name, how(found[name]))


def put_in(name: str, tensor: Tensor) -> Any:
    return lambda found: found.__setitem__(name, tensor)


ROWS, CELLS, COUNTS = LINKED
DAMAGE = {
    **{f"no {name}": without(name) for name in (SHARED, OWN, COEFFICIENTS, *LINKED)},
    **{f"{name} of no shape": made(name, lambda x: x.sum()) for name in (SHARED, OWN, *LINKED)},
    **{f"{name} as a column": made(name, lambda x: x[:, None]) for name in (OWN, *LINKED)},
    **{f"{name} too short": made(name, lambda x: x[:-1])
       for name in (SHARED, OWN, COEFFICIENTS, *LINKED)},
    **{f"no row of {name}": made(name, lambda x: x[:0]) for name in (COEFFICIENTS, *LINKED)},
    **{f"{name} of another type": made(name, lambda x: x.to(torch.float64))
       for name in (SHARED, COEFFICIENTS, *LINKED)},
    **{f"{value} in {name}": put(name, 1, value) for name in (SHARED, OWN, COEFFICIENTS, COUNTS)
       for value in (float("nan"), float("inf"), -float("inf"))},
    **{f"{value} is no rarity": put(SHARED, 1, value) for value in (-1.0, 3e38)},
    "a coefficient too large": put(COEFFICIENTS, 1, -3e38),
    "half a count": put(COUNTS, 0, 0.5),
    "a bucket below": put(CELLS, 0, -1),
    "a bucket above": put(CELLS, -1, N_BUCKETS),
    "rows that go back": put(ROWS, 1, 2**40),
    "rows that begin late": put(ROWS, 0, 1),
    "rows that end late": put(ROWS, -1, 2**40),
    "coefficients too wide": made(COEFFICIENTS, lambda x: torch.cat((x, x), 1)),
    **{f"attributes in the shape {shape}": put_in(PAIRS, torch.ones(shape, dtype=torch.int64))
       for shape in ((), (3,), (2, 2))},
}  # fmt: skip


def test_what_a_run_writes_is_good() -> None:
    view().check(memory())
    view().check(view().memory_of(read(graph()), NO_LINKS).shared)


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_damaged_memories_are_an_error(damage: Any) -> None:
    found = memory()
    damage(found)
    with pytest.raises(ValueError, match=r"^memory: "):
        view().check(found)
