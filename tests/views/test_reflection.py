"""The relational view: vectors for entities that came later, and what a step learns from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.config import Config
from decentrl.graph.adjacency import Ids
from decentrl.graph.merged import MergedGraph
from decentrl.graph.relational import RelationalView
from decentrl.training.loop import train
from decentrl.views import reflection
from decentrl.views.base import INPUTS, STATES, TrainingData
from decentrl.views.reflection import LENGTH, ReflectionObjective, ReflectionView

SIZE, SEEN, R, D = 13, 10, 2, 6
# Entities 10 … 12 of either side have no triple in training. Later 10 comes to know 0 and 1, and
# 11 comes to know nobody but 10; 12 stays without any.
LATER = np.array([(10, 0, 0), (1, 1, 10), (11, 0, 10)])
LINKS = np.array([(0, 0), (1, 1), (2, 2), (3, 3), (4, 11), (10, 5), (6, 6)])
USABLE = [[i, SIZE + i] for i in (0, 1, 2, 3, 6)]
seen_ids = [i for i in range(2 * SIZE) if i % SIZE < SEEN]


def graph() -> MergedGraph:
    """One random graph told twice."""
    rng = np.random.default_rng(1)
    ring = np.array([(i, i % R, (i + 1) % SEEN) for i in range(SEEN)])
    more = np.stack([rng.integers(0, size, 12) for size in (SEEN, R, SEEN)], axis=1)
    triples = np.unique(np.concatenate((ring, more)), axis=0)
    return MergedGraph.merge(triples, triples, LINKS, (SIZE, SIZE), (R, R))


KNOWN = graph()
NOW = KNOWN.grown(LATER, LATER + np.array([SIZE, R, SIZE]))
closed, opened = KNOWN.relational_view(), NOW.relational_view(KNOWN)


def configured(*settings: str) -> Config:
    small = (f"model.dim={D}", "loss.entities=0", "training.batch=0")
    whole = ("model.edge_dropout=0", "model.entity_dropout=0", "model.same_relations=2")
    return Config.from_preset("strong", (*small, *whole, *settings))


def make(*settings: str) -> ReflectionView:
    torch.manual_seed(0)
    return ReflectionView(configured(*settings), KNOWN.n_entities, KNOWN.n_relations).double()


def encode(model: ReflectionView, view: RelationalView) -> Tensor:
    return model.encode(view, torch.from_numpy(KNOWN.links)).vectors


def no_features() -> Tensor:
    raise AssertionError("no relation is shared: it needs no features")


def objective(*settings: str) -> ReflectionObjective:
    return make(*settings).objective(closed, TrainingData(KNOWN, KNOWN.links, no_features))


def learn(made: ReflectionObjective) -> list[dict[str, Any]]:
    return train(made, made.config.training, seed=0)


def unit(vectors: Tensor) -> Tensor:
    """Rows of length 1, or of zeros."""
    lengths = vectors.norm(dim=1, keepdim=True)
    return torch.where(lengths > 0, vectors / lengths, 0.0)


# Encoding.


@pytest.mark.parametrize("view", [closed, opened], ids=["closed", "open"])
def test_encoded_entities_have_length_one_or_nothing_around_them(view: RelationalView) -> None:
    vectors = encode(make("model.dropout=0.5", "model.edge_dropout=0.5"), view)
    degrees = view.edges.nodes.degrees()
    assert (degrees == 0).any()
    torch.testing.assert_close(vectors.norm(dim=1), (degrees > 0).double())
    assert not vectors.requires_grad


def test_in_a_closed_world_it_is_the_encoder_without_dropout() -> None:
    dropout = ("dropout", "edge_dropout", "entity_dropout")
    model = make(*(f"model.{name}=0.5" for name in dropout))
    found = encode(model.train(), closed)
    with torch.no_grad():
        expected = unit(model.eval().encoder(closed))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("view", [closed, opened], ids=["closed", "open"])
def test_encoding_leaves_the_training_flag_as_it_was(view: RelationalView, training: bool) -> None:
    model = make().train(training)
    encode(model, view)
    assert {module.training for module in model.modules()} == {training}
    broken: Any = None
    with pytest.raises(AttributeError):
        encode(model, broken)
    assert {module.training for module in model.modules()} == {training}


def test_unseen_inputs_are_what_the_head_makes_of_a_first_pass() -> None:
    model = make().eval()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    found = encode(model, opened)
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in before)

    assert model.distillation is not None
    arrived = [i for i in range(2 * SIZE) if SEEN <= i % SIZE < SEEN + 2]
    with torch.no_grad():
        first = model.encoder(opened)
        length = torch.stack([model.encoder.entities[i].norm() for i in seen_ids]).mean()
        for i in arrived:
            made = model.distillation.head(first[i])
            model.encoder.entities[i] = length * made / made.norm()
    everybody = np.isin(np.arange(2 * SIZE), seen_ids + arrived)
    as_if_trained = RelationalView.build(NOW.triples(), 2 * SIZE, 2 * R, seen=everybody)
    with torch.no_grad():
        torch.testing.assert_close(found, unit(model.encoder(as_if_trained)))


def test_neighbours_of_an_unseen_entity_read_something_of_it() -> None:
    induced, masked = encode(make(), opened), encode(make("distillation.induce=false"), opened)
    # Entity 11 knows 10 alone, which has no input embedding of its own.
    assert not masked[11, :D].any()
    assert induced[11, :D].any()
    for neighbour in (0, 1):
        assert not torch.allclose(induced[neighbour], masked[neighbour])


@pytest.mark.parametrize(
    "setting", ["distillation.variant=none", "distillation.induce=false"], ids=["no head", "off"]
)
def test_where_nothing_is_induced_unseen_inputs_are_left_out(setting: str) -> None:
    model = make(setting).eval()
    with torch.no_grad():
        torch.testing.assert_close(encode(model, opened), unit(model.encoder(opened)))


stored = pytest.mark.parametrize("value", ["random", "nan"])


@stored
def test_what_an_unseen_entity_has_stored_never_matters(value: str) -> None:
    model, changed = make(), make()
    unseen = ~opened.seen
    with torch.no_grad():
        changed.encoder.entities[unseen] = 100 * torch.randn(int(unseen.sum()), D).double()
        if value == "nan":
            changed.encoder.entities[unseen] = torch.nan
    assert torch.equal(encode(changed, opened), encode(model, opened))


@pytest.mark.parametrize("value", [3.0, torch.nan])
def test_nor_does_it_matter_where_nothing_is_induced(value: float) -> None:
    model, changed = make("distillation.induce=false"), make("distillation.induce=false")
    with torch.no_grad():
        changed.encoder.entities[~opened.seen] = value
    assert torch.equal(encode(changed, opened), encode(model, opened))


# Learning.


def test_links_with_an_unseen_end_are_left_out() -> None:
    made = objective()
    assert made.links.tolist() == USABLE
    assert made.seen.tolist() == seen_ids


@pytest.mark.parametrize(("size", "sizes"), [(0, [5]), (2, [2, 2, 1]), (5, [5]), (100, [5])])
def test_an_epoch_takes_every_link_once(size: int, sizes: list[int]) -> None:
    made = objective(f"training.batch={size}")
    rng = np.random.default_rng(0)
    first, second = (list(made.batches(rng)) for _ in range(2))
    assert [len(batch) for batch in first] == sizes
    for epoch in (first, second):
        assert sorted(np.concatenate(epoch).tolist()) == USABLE
    assert np.concatenate(first).tolist() != np.concatenate(second).tolist()


class Asked:
    """What each step compares: the others, and which of them are a link's own."""

    def __init__(self, made: ReflectionObjective, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ids: list[list[int]] = []
        self.own: list[Tensor] = []
        self.wrong: list[list[int]] = []
        encode, compare = made.model.encoder.forward, reflection.hard_sample_loss

        def encoder(view: RelationalView, ids: Tensor) -> Tensor:
            self.ids.append(ids.tolist())
            return encode(view, ids)

        def loss(*arguments: Any) -> Tensor:
            self.own.append(arguments[3])
            return compare(*arguments)

        monkeypatch.setattr(made.model.encoder, "forward", encoder)
        monkeypatch.setattr(reflection, "hard_sample_loss", loss)
        if made.model.distillation is not None:
            teach = made.model.distillation.forward

            def distillation(g: Tensor, e: Tensor, ids: Tensor, wrong: Tensor) -> Tensor:
                self.wrong.append(wrong.tolist())
                return teach(g, e, ids, wrong)

            monkeypatch.setattr(made.model.distillation, "forward", distillation)


def test_samples_are_different_seen_entities_and_new_ones_each_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = objective("loss.entities=8")
    asked, rng = Asked(made, monkeypatch), np.random.default_rng(0)
    for _ in range(20):
        made.loss(made.links, rng)
    ends = made.links.T.reshape(-1).tolist()
    drawn = [ids[len(ends) :] for ids in asked.ids]
    assert all(ids[: len(ends)] == ends for ids in asked.ids)
    assert all(len(sample) == len(set(sample)) == 8 for sample in drawn)
    assert {i for sample in drawn for i in sample} == set(seen_ids)
    assert len(set(map(tuple, drawn))) > 1
    assert all(len(wrong) == made.config.distillation.negatives == 64 for wrong in asked.wrong)
    assert {i for wrong in asked.wrong for i in wrong} == set(seen_ids)


@pytest.mark.parametrize("count", [0, len(seen_ids), 1000])
def test_all_seen_entities_are_compared_if_no_fewer_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    made = objective(f"loss.entities={count}")
    asked = Asked(made, monkeypatch)
    made.loss(made.links[:2], np.random.default_rng(0))
    assert asked.ids[0][4:] == seen_ids


def test_the_two_ends_of_a_link_are_no_others_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made = objective("loss.entities=15")
    asked = Asked(made, monkeypatch)
    made.loss(made.links, np.random.default_rng(0))
    others = asked.ids[0][2 * len(made.links) :]
    assert asked.own[0].tolist() == [[i in link for i in others] for link in made.links.tolist()]
    assert asked.own[0].any()


def dense_loss(model: ReflectionView, links: Ids, scale: float) -> Tensor:
    """The formula, link by link, over all seen entities."""
    vectors = model.encoder(closed)
    total = torch.zeros((), dtype=torch.float64)
    for link in links.tolist():
        others = vectors[[i for i in seen_ids if i not in link]]
        near = (vectors[link[0]] - vectors[link[1]]).square().sum()
        for end in link:
            margins = near - (vectors[end] - others).square().sum(1)
            z = (margins - margins.detach().mean()) / margins.detach().std(correction=0)
            total = total + (scale * z).exp().sum().log()
    return total / len(links)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_the_loss_is_its_formula_over_all_seen_entities(scale: float) -> None:
    made = objective("model.dropout=0", "distillation.variant=none", f"loss.scale={scale}")
    found = made.loss(made.links, np.random.default_rng(0))
    expected = dense_loss(made.model, made.links, scale)
    torch.testing.assert_close(found, expected)
    parameters = list(made.model.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(found, parameters), torch.autograd.grad(expected, parameters)
    )


def test_no_gradient_reaches_an_input_embedding_that_nobody_may_read() -> None:
    made = objective("distillation.variant=infonce")
    made.loss(made.links, np.random.default_rng(0)).backward()
    gradient = made.model.encoder.entities.grad
    assert gradient is not None
    assert gradient.any(1).nonzero()[:, 0].tolist() == seen_ids


def test_the_weight_of_the_distillation_counts() -> None:
    def loss(setting: str) -> float:
        made = objective(setting)
        torch.manual_seed(0)
        return made.loss(made.links, np.random.default_rng(0)).item()

    alone = loss("distillation.weight=0")
    once, thrice = (loss(f"distillation.weight={w}") - alone for w in (1, 3))
    assert once > 0
    assert thrice == pytest.approx(3 * once)
    # As a mean over the entities of the batch, a guess among 65 is not far from log 65.
    assert 0.5 < once / np.log(65) < 2


def test_distillation_brings_the_prediction_of_the_head_nearer_to_the_input() -> None:
    def cosine(weight: float) -> float:
        made = objective(f"distillation.weight={weight}", "training.epochs=30")
        learn(made)
        model = made.model.eval()
        assert model.distillation is not None
        with torch.no_grad():
            ids = torch.from_numpy(made.links.reshape(-1))
            predicted = model.distillation.head(model.encoder(closed, ids))
            return F.cosine_similarity(predicted, model.encoder.entities[ids]).mean().item()

    assert cosine(3.0) > cosine(0.0) + 0.2


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
def test_a_few_steps_bring_linked_entities_together(optimizer: str) -> None:
    settings = ("training.epochs=20", "training.batch=2", "model.dropout=0")
    made = objective(*settings, f"training.optimizer={optimizer}")

    def gap() -> float:
        """How much nearer linked entities are than any two of both sides."""
        vectors = encode(made.model, closed)
        cosine = vectors[:SEEN] @ vectors[SIZE : SIZE + SEEN].T
        linked = made.links[:, 0]
        return (cosine[linked, linked].mean() - cosine.mean()).item()

    before = gap()
    history = learn(made)
    losses = [row["loss"] for row in history]
    assert np.mean(losses[-5:]) < 0.95 * np.mean(losses[:5])  # normalised, so it cannot fall far
    assert gap() > before + 0.3


def test_the_loss_depends_on_the_seeds_alone() -> None:
    def loss(seed: int, torch_seed: int) -> float:
        made = objective("loss.entities=8")
        torch.manual_seed(torch_seed)
        return made.loss(made.links, np.random.default_rng(seed)).item()

    assert loss(0, 0) == loss(0, 0)
    assert loss(0, 0) != loss(1, 0)
    assert loss(0, 0) != loss(0, 1)  # dropout


@pytest.mark.parametrize(("threshold", "shared"), [(0.0, True), (1.0, False), (2.0, False)])
def test_relations_that_propagation_finds_alike_share_a_vector(
    threshold: float, shared: bool
) -> None:
    features = torch.zeros(4 * R, 4 * R, dtype=torch.float64)
    features[:, : 2 * R] = torch.cat([torch.eye(2 * R, dtype=torch.float64)] * 2)
    features += 0.1 * torch.eye(4 * R, dtype=torch.float64)  # alike, but not the same
    order = [0, 1, 4, 5, 2, 3, 6, 7]  # relations of both graphs, then their ways back
    asked = []

    def relation_features() -> Tensor:
        asked.append(True)
        return features[order]

    model = make(f"model.same_relations={threshold}")
    model.objective(closed, TrainingData(KNOWN, KNOWN.links, relation_features))
    assert len(asked) == (threshold <= 1)
    expected = [0, 1, 0, 1, 4, 5, 4, 5] if shared else list(range(4 * R))
    assert model.encoder.representative.tolist() == expected


# What newcomers read.


@pytest.mark.parametrize("view", [closed, opened], ids=["closed", "open"])
def test_memories_hold_states_inputs_and_the_length_of_trained_ones(view: RelationalView) -> None:
    model = make()
    rows = model.encode(view, torch.from_numpy(KNOWN.links))
    assert {name: memory.shape[1] for name, memory in rows.memory.items()} == model.memories
    torch.testing.assert_close(unit(rows.memory[STATES]), rows.vectors)
    trained = model.encoder.entities.detach()[seen_ids]
    assert torch.equal(rows.memory[INPUTS][seen_ids], trained)
    torch.testing.assert_close(rows.shared[LENGTH], trained.norm(dim=1).mean().reshape(1))
    if view is opened:  # induced ones are as long as trained ones on average
        torch.testing.assert_close(rows.memory[INPUTS][10].norm().reshape(1), rows.shared[LENGTH])
