"""Several views as one vector: its cosine is the weighted mean of theirs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from decentrl.config import Config
from decentrl.data.names import Names
from decentrl.data.ngrams import ngram_counts
from decentrl.graph.merged import MergedGraph
from decentrl.graph.texts import N_BUCKETS, TextRows, Texts, ValueRows
from decentrl.nn.text import MISSING
from decentrl.views.fused import FusedViews, Structures

SIZE, SEEN, R = 12, 10, 2  # entities a side; those from SEEN on have no triple
LINKS = np.array([(0, 0), (1, 1), (2, 2)])
SMALL = {"reflection": "strong", "dan": "paper", "none": "propagate"}
encoders = pytest.mark.parametrize("encoder", list(SMALL))


def graph() -> MergedGraph:
    rng = np.random.default_rng(3)
    ring = np.array([(i, i % R, (i + 1) % SEEN) for i in range(SEEN)])
    more = np.stack([rng.integers(0, size, 15) for size in (SEEN, R, SEEN)], axis=1)
    triples = np.unique(np.concatenate((ring, more)), axis=0)
    return MergedGraph.merge(triples, triples[2:], LINKS, (SIZE, SIZE), (R, R))


GRAPH = graph()
ALL_LINKS = torch.from_numpy(GRAPH.links)


def make(encoder: str, *settings: str) -> FusedViews:
    small = ("propagation.dim=16", "propagation.relation_dim=4", *settings)
    if encoder != "none":
        small = ("model.dim=8", *small)
    torch.manual_seed(0)
    config = Config.from_preset(SMALL[encoder], small)
    return FusedViews(config, GRAPH.n_entities, GRAPH.n_relations)


def structures() -> Structures:
    return Structures(GRAPH, GRAPH, torch.device("cpu"))


def cosines(vectors: Tensor) -> Tensor:
    return vectors.double() @ vectors.double().T


@pytest.mark.parametrize("weight", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("encoder", ["reflection", "dan"])
def test_a_fused_cosine_is_the_weighted_mean_of_the_cosines_of_the_two_views(
    encoder: str, weight: float
) -> None:
    views, read = make(encoder, f"propagation.weight={weight}"), structures()
    fused = views.encode(read, ALL_LINKS)
    assert views.encoder is not None
    encoded = views.encoder.encode(read.of(views.encoder), ALL_LINKS).vectors
    features = views.seeds.propagate(read.of(views.seeds), ALL_LINKS).features(4, 16)
    widths = (encoded.shape[1] if weight < 1 else 0), (4 * 16 if weight else 0)
    assert fused.shape[1] == views.dim == sum(widths)
    expected = (1 - weight) * cosines(encoded) + weight * cosines(features)
    torch.testing.assert_close(cosines(fused), expected, rtol=0, atol=1e-5)
    lengths = [float(i % SIZE < SEEN) for i in range(2 * SIZE)]
    torch.testing.assert_close(fused.norm(dim=1), torch.tensor(lengths))


def test_without_an_encoder_seed_propagation_is_all_there_is() -> None:
    views, read = make("none"), structures()
    assert views.encoder is None
    features = views.seeds.propagate(read.of(views.seeds), ALL_LINKS).features(4, 16)
    assert torch.equal(views.encode(read, ALL_LINKS), features)


@encoders
@pytest.mark.parametrize("weight", [0.0, 0.4])
def test_memories_are_those_of_the_views_that_take_part(encoder: str, weight: float) -> None:
    views = make(encoder, f"propagation.weight={weight}")
    rows = views.memory(structures(), ALL_LINKS)
    assert {name: memory.shape[1] for name, memory in rows.memory.items()} == views.memories
    assert all(len(memory) == 2 * SIZE for memory in rows.memory.values())
    seeds = encoder == "none" or weight > 0
    assert ("propagation" in rows.memory) == ("relations" in rows.shared) == seeds
    assert ("states" in rows.memory) == (encoder != "none")


def test_what_a_view_reads_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    views, read, made = make("dan"), structures(), []
    assert views.encoder is not None
    original = type(views.encoder).read
    monkeypatch.setattr(
        type(views.encoder), "read", lambda *given: made.append(1) or original(*given)
    )
    assert read.of(views.encoder) is read.of(views.encoder)
    assert len(made) == 1
    assert read.of(views.seeds) is not read.of(views.encoder)


@pytest.mark.parametrize(
    ("encoder", "table"), [("dan", "entities"), ("reflection", "encoder.entities")]
)
def test_weights_are_loaded_with_and_without_rows_of_entities(encoder: str, table: str) -> None:
    trained = make(encoder)
    assert trained.encoder is not None
    weights = dict(trained.encoder.state_dict())
    for tensor in weights.values():
        if tensor.is_floating_point():
            tensor += 1
    whole = make(encoder)
    whole.load(weights)
    frozen = FusedViews(trained.config, 1, GRAPH.n_relations)
    frozen.load(weights, with_entities=False)
    assert whole.encoder is not None
    assert frozen.encoder is not None
    for name, tensor in weights.items():
        assert torch.equal(whole.encoder.state_dict()[name], tensor)
        kept = frozen.encoder.state_dict()[name]
        assert len(kept) == 1 if name == table else torch.equal(kept, tensor)


UNNAMED = [3, 11, SIZE + 4]  # the second and no other has no triple either


def named() -> Structures:
    """The same graph where most entities have names, also those without a triple."""

    def rows(start: int) -> Texts:
        places = np.setdiff1d(np.arange(SIZE), np.array(UNNAMED) - start)
        texts = [f"{'abcdefghijkl'[i]}ord number{i}" for i in places.tolist()]
        names = TextRows(*ngram_counts(Names.of_rows(places, texts), SIZE, N_BUCKETS))
        return Texts(names, ValueRows.empty(SIZE))

    both = replace(GRAPH, texts=(rows(0), rows(SIZE)))
    return Structures(both, both, torch.device("cpu"))


@pytest.mark.parametrize("weight", [0.3, 0.9])
@encoders
def test_names_take_their_share_where_there_is_one(encoder: str, weight: float) -> None:
    settings = "names.width=64", "names.translation=0.5"
    views, others = (make(encoder, f"names.weight={w}", *settings) for w in (weight, 0))
    assert views.names is not None
    assert others.names is None
    read = named()
    fused, plain = views.encode(read, ALL_LINKS), others.encode(read, ALL_LINKS)
    names = views.names.encode(read.of(views.names), ALL_LINKS).vectors
    assert fused.shape[1] == plain.shape[1] + 64 + 2 == views.dim
    has = plain.any(1), names.any(1)
    assert [*range(2 * SIZE)] != has[0].nonzero()[:, 0].tolist()
    assert not has[1][UNNAMED].any()
    torch.testing.assert_close(fused.norm(dim=1), (has[0] | has[1]).float())
    # Without another vector the name has the whole weight.
    alone = has[1] & ~has[0]
    assert alone.any()
    torch.testing.assert_close(fused[alone, plain.shape[1] : -2], names[alone])
    # The product of a left and a right entity is the weighted mean; a missing name is MISSING.
    left, right = has[0][:SIZE].nonzero()[:, 0], SIZE + has[0][SIZE:].nonzero()[:, 0]
    found = fused[left].double() @ fused[right].double().T
    alike = (names[left].double() @ names[right].double().T) / (1 + MISSING**2)
    both = has[1][left, None] & has[1][right]
    assert not both.all()
    expected = (1 - weight) * plain[left].double() @ plain[right].double().T
    expected += weight * alike.where(both, MISSING)
    assert (found - expected).abs()[both].max() < 1e-5
    assert (found - expected).abs()[~both].max() < MISSING**3


def test_an_entity_without_a_name_is_matched_by_the_rest_alone() -> None:
    """Its candidates with a name and those without one are in the order of the other views."""
    views, others = (make("reflection", f"names.weight={w}", "names.width=64") for w in (0.6, 0))
    fused, plain = (x.encode(named(), ALL_LINKS).double() for x in (views, others))
    left, right = UNNAMED[0], SIZE + plain[SIZE:].any(1).nonzero()[:, 0]
    assert plain[left].any()
    assert (right == UNNAMED[2]).any()
    found, expected = (x[left] @ x[right].T for x in (fused, plain))
    torch.testing.assert_close(found - found[0], 0.4 * (expected - expected[0]), atol=1e-5, rtol=0)


def test_names_are_weighed_later_too() -> None:
    views = make("reflection", "names.weight=-1", "names.width=64")
    before = views.encode(named(), ALL_LINKS)
    assert views.names is None
    given = views.config.names
    views.weigh(replace(views.config, names=replace(given, weight=0.5, translation=0.0)))
    assert views.names is not None
    assert views.encode(named(), ALL_LINKS).shape[1] == before.shape[1] + 64 + 2
    views.weigh(replace(views.config, names=replace(given, weight=0.0)))
    assert torch.equal(views.encode(named(), ALL_LINKS), before)
