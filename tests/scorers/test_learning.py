"""The objective of answers by vectors: what a step reads, hides, compares and learns."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from decentrl.config import PredictionConfig
from decentrl.config.prediction import PredictionEncoderSettings
from decentrl.config.shared import Distillation
from decentrl.evaluation.filtered import rank_answers
from decentrl.evaluation.groups import frequency_scores
from decentrl.evaluation.metrics import summary
from decentrl.graph.adjacency import Ids
from decentrl.graph.queries import Queries
from decentrl.graph.relational import RelationalView
from decentrl.graph.view import GraphView
from decentrl.nn.dan import NeighbourAttention
from decentrl.nn.decoders import DECODERS
from decentrl.scorers import learning as prediction
from decentrl.scorers.learning import DecoderObjective
from decentrl.scorers.model import PredictionModel
from decentrl.training.loop import train
from decentrl.training.prediction import Validation

N, R, D = 12, 2, 4
# 0 … 9 are in the training graph; 10 arrives later, nothing is ever known of 11.
# 0 and 1 are joined three times, (3, 0, ?) has three answers, 5 is joined to itself.
TRIPLES = np.array(
    [(0, 0, 1), (0, 1, 1), (1, 0, 0), (1, 1, 2), (2, 0, 3), (3, 0, 4), (3, 0, 5), (3, 0, 6),
     (4, 1, 7), (5, 1, 5), (5, 0, 8), (6, 1, 8), (7, 0, 9), (8, 1, 9), (9, 0, 0), (6, 0, 2)],
    np.int64,
)  # fmt: skip
LATER = np.array([(10, 0, 1), (2, 1, 10)], np.int64)
VALID = np.array([(1, 0, 3), (4, 0, 8), (3, 0, 9), (10, 1, 2)], np.int64)
NOTHING = np.empty((0, 3), np.int64)
SEEN = list(range(10))

made_by_neighbours = pytest.mark.parametrize("encoder", ["dan", "reflection"])


def configured(*settings: str) -> PredictionConfig:
    """Small, and without anything that is left to chance."""
    if "model.encoder=none" in settings:  # a table has none of these settings
        others = ("model.own=", "model.hidden=", "model.layers=", "distillation.")
        settings = tuple(text for text in settings if not text.startswith(others))
    plain = (
        f"model.dim={D}", "model.dropout=0", "model.hidden=1.0", "distillation.variant=none",
        "training.batch=0",
    )  # fmt: skip
    config = PredictionConfig.from_preset("paper", plain)
    return config.with_setting(*settings)


def read(model: PredictionModel, triples: Ids, trained_on: Ids) -> Any:
    return model.encoder.read(triples, trained_on, N, R, torch.device("cpu"))


def objective(
    *settings: str, triples: Ids = TRIPLES, view: Any = None, seed: int = 0
) -> DecoderObjective:
    """Of a model that is the same whatever is changed around it."""
    config = replace(configured(*settings), seed=seed)
    torch.manual_seed(0)
    model = PredictionModel(N, R, config).double()
    for part in model.modules():
        if isinstance(part, NeighbourAttention):
            part.dropout.p = 0.0
    if view is None:
        view = read(model, TRIPLES, TRIPLES)
    return DecoderObjective(model, triples, view, R)


def validation(made: DecoderObjective, valid: Ids = VALID) -> Validation:
    return Validation(made.model, made.view, TRIPLES, valid, R)


def everything(made: DecoderObjective) -> Ids:
    return np.arange(len(made.queries))


def loss_of(made: DecoderObjective, batch: Ids | None = None) -> Tensor:
    return made.loss(everything(made) if batch is None else batch, np.random.default_rng(0))


def asked_in(made: DecoderObjective, batch: Ids) -> list[tuple[int, int, int]]:
    """The triples of a batch as (question, relation, answer), one by one."""
    queries = made.queries
    return [
        (int(queries.entities[i]), int(queries.relations[i]), int(answer))
        for i in batch
        for answer in queries.answers[queries.indptr[i] : queries.indptr[i + 1]]
    ]


def vectors_of(made: DecoderObjective) -> Tensor:
    return made.model.vectors(made.view, made.model.encode(made.view))


# What the encoder reads.


@made_by_neighbours
def test_a_view_knows_what_training_knew(encoder: str) -> None:
    config = configured(f"model.encoder={encoder}", "model.layers=3")
    only_0 = TRIPLES[TRIPLES[:, 1] == 0]
    view = read(PredictionModel(N, R, config), np.concatenate((TRIPLES, LATER)), only_0)
    assert isinstance(view, GraphView if encoder == "dan" else RelationalView)
    assert view.seen.tolist() == [i in SEEN for i in range(N)]
    first = set(zip(view.first.rows.tolist(), view.first.columns.tolist(), strict=True))
    assert {(10, 1), (10, 2), (8, 6), (9, 8)} <= first  # all triples are read …
    assert not any(j == 10 for _, j in first)  # … but no embedding that was never trained
    bag = view.relations if isinstance(view, GraphView) else view.bag
    assert set(bag.columns.tolist()) == {0, R}
    if isinstance(view, GraphView):
        assert len(view.layers) == 3
        assert (view.layers[1].columns == 10).any()  # what was made of its neighbours is readable
    else:
        assert view.seen_relations.tolist() == [True, False, True, False]
        assert (view.edges.nodes.columns == 10).any()


# Batches.


@pytest.mark.parametrize("size", [0, 1, 7, 1000])
def test_an_epoch_takes_every_question_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "STEPS", 1)
    made = objective(f"training.batch={size}")
    n, rng = len(made.queries), np.random.default_rng(0)
    first, second = (list(made.batches(rng)) for _ in range(2))
    assert {len(batch) for batch in first[:-1]} <= {size}
    assert len(first) == (-(-n // size) if size else 1)
    for epoch in (first, second):
        assert sorted(np.concatenate(epoch).tolist()) == list(range(n))
        assert all((np.diff(batch) > 0).all() for batch in epoch)
    if len(first) > 1:
        assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_a_small_graph_has_smaller_batches_but_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "STEPS", 5)
    made = objective("training.batch=1000")
    batches = list(made.batches(np.random.default_rng(0)))
    assert len(batches) == 5
    assert max(map(len, batches)) - min(map(len, batches)) < len(batches)
    assert len(list(objective("training.batch=0").batches(np.random.default_rng(0)))) == 1


# The loss over answers.


def dense_loss(made: DecoderObjective, batch: Ids, x: Tensor) -> Tensor:
    """The formula, triple by triple, among all entities of the training graph."""
    model, settings = made.model, made.config.loss
    answers, scale = model.answers(x), model.log_scale.exp()
    asked = asked_in(made, batch)
    total = torch.zeros((), dtype=torch.float64)

    def scores_of(entity: int, relation: int) -> Tensor:
        heads = x[[entity] * len(SEEN)]
        kinds = torch.full((len(SEEN),), relation)
        return model.decoder.score(heads, kinds, answers[SEEN]) * scale

    for entity, relation, answer in asked:
        chances = scores_of(entity, relation).log_softmax(0)
        total = total - (1 - settings.smoothing) * chances[SEEN.index(answer)]
        total = total - settings.smoothing * chances.mean()
    return total / len(asked)


@pytest.mark.parametrize("output", ["tied", "table"])
@pytest.mark.parametrize("smoothing", [0, 0.1])
@pytest.mark.parametrize("decoder", list(DECODERS))
def test_the_loss_is_its_formula_over_single_triples(
    decoder: str, smoothing: float, output: str
) -> None:
    made = objective(
        "model.encoder=none", f"decoder.name={decoder}",
        f"loss.smoothing={smoothing}", f"model.output={output}",
    )  # fmt: skip
    made.model.eval()  # a convolution has dropout of its own
    for batch in (everything(made), np.array([0, 10, 15])):
        found, expected = loss_of(made, batch), dense_loss(made, batch, vectors_of(made))
        torch.testing.assert_close(found, expected)
        learning = [p for p in made.model.parameters() if p.requires_grad]
        torch.testing.assert_close(
            torch.autograd.grad(found, learning, materialize_grads=True, allow_unused=True),
            torch.autograd.grad(expected, learning, materialize_grads=True, allow_unused=True),
        )


@pytest.mark.parametrize("own", ["off", "add", "concatenate"])
def test_the_loss_of_all_questions_is_the_mean_over_single_triples(encoder: str, own: str) -> None:
    settings = (f"model.encoder={encoder}", f"model.own={own}", "model.hidden=0.0")
    together = loss_of(objective(*settings))
    single = [loss_of(objective(*settings, triples=triple[None])) for triple in TRIPLES]
    torch.testing.assert_close(together, torch.stack(single).mean())
    assert len(objective(*settings).queries) < 2 * len(TRIPLES)  # some share a question


def test_no_gradient_reaches_what_training_never_saw(encoder: str) -> None:
    made = objective(
        f"model.encoder={encoder}", "model.own=add", "model.output=table", "loss.n3=0.1",
        "loss.relations=0.5", "distillation.variant=infonce", "model.hidden=0.0",
    )  # fmt: skip
    loss_of(made).backward()
    tables = [made.model.own, made.model.table]
    if encoder != "none":
        tables.append(made.model.encoder.embeddings)  # type: ignore[arg-type]
    for table in tables:
        assert table is not None
        assert table.grad is not None
        assert table.grad.any(1).tolist() == [i in SEEN for i in range(N)]


# Sampled candidates.


class Compared:
    """What each step compares its questions with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.vectors: list[Tensor] = []
        self.right: list[Tensor] = []
        original = prediction.answer_loss

        def loss(
            q: Tensor, v: Tensor, b: Tensor, rows: Tensor, columns: Tensor, **o: Any
        ) -> Tensor:
            self.vectors.append(v.detach())
            self.right.append(v.detach()[columns])
            return original(q, v, b, rows, columns, **o)

        monkeypatch.setattr(prediction, "answer_loss", loss)


@pytest.mark.parametrize("output", ["tied", "table"])
def test_sampled_candidates_are_seen_and_hold_all_right_answers(
    output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = objective("model.encoder=none", "loss.candidates=3", f"model.output={output}")
    compared, rng = Compared(monkeypatch), np.random.default_rng(0)
    vectors = made.model.answers(vectors_of(made)).detach()
    batches = [np.array(batch) for batch in ([0], [2, 8], [1, 4, 5], [10], list(range(10)))]
    drawn = []
    for batch in batches * 8:
        made.loss(batch, rng)
        answers = [answer for _, _, answer in asked_in(made, batch)]
        assert torch.equal(compared.right[-1], vectors[answers])
        ids = [(vectors == row).all(1).nonzero().item() for row in compared.vectors[-1]]
        assert len(set(ids)) == len(ids)
        assert set(answers) <= set(ids) <= set(SEEN)
        assert 3 <= len(ids) <= 3 + len(set(answers))
        drawn.append(tuple(ids))
    assert {i for ids in drawn for i in ids} == set(SEEN)
    assert len(set(drawn[0::5])) > 1  # new ones each step


@pytest.mark.parametrize("count", [0, len(SEEN), 1000])
def test_all_seen_entities_compete_if_no_fewer_are_asked_for(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = objective("model.encoder=none", f"loss.candidates={count}")
    compared = Compared(monkeypatch)
    loss_of(made, np.array([3]))
    assert torch.equal(compared.vectors[0], vectors_of(made)[SEEN])


def test_more_candidates_make_a_harder_question() -> None:
    losses = []
    for count in (1, 4, 0):
        made, rng = objective(f"loss.candidates={count}"), np.random.default_rng(0)
        batch = np.array([2])
        losses.append(np.mean([made.loss(batch, rng).item() for _ in range(20)]))
    assert losses[0] < losses[1] < losses[2]


# Hidden edges.


def view_without(made: DecoderObjective, pairs: set[frozenset[int]]) -> Any:
    """The view as if no triple joined these pairs; the relations around each entity stay known."""
    hidden = [frozenset((int(h), int(t))) in pairs for h, _, t in TRIPLES]
    view = read(made.model, TRIPLES[~np.array(hidden)], TRIPLES)
    if isinstance(view, GraphView):
        return replace(view, relations=made.view.relations)
    return replace(view, bag=made.view.bag)


hidden_batches = pytest.mark.parametrize(
    "batch",
    [[0], [10], [4, 7], [1, 2, 15, 20], "all"],
    ids=["one answer", "three", "two questions", "four", "all"],
)


@hidden_batches
@pytest.mark.parametrize(
    "setting", ["model.encoder=dan", "model.own=add", "model.encoder=reflection"]
)
def test_edges_between_questions_and_answers_of_a_batch_are_hidden(
    setting: str, batch: Any
) -> None:
    made, open_made = objective(setting), objective(setting, "model.hidden=0.0")
    chosen = everything(made) if batch == "all" else np.array(batch)
    pairs = {frozenset((e, a)) for e, _, a in asked_in(made, chosen)}
    removed = objective(setting, "model.hidden=0.0", view=view_without(made, pairs))
    found, expected = loss_of(made, chosen), loss_of(removed, chosen)
    torch.testing.assert_close(found, expected)
    ours, theirs = (
        torch.autograd.grad(
            loss,
            [p for p in one.model.parameters() if p.requires_grad],
            materialize_grads=True,
            allow_unused=True,
        )
        for one, loss in ((made, found), (removed, expected))
    )
    torch.testing.assert_close(ours, theirs)
    # Seen, those edges do matter.
    assert not torch.allclose(loss_of(open_made, chosen), expected)


@made_by_neighbours
def test_what_stands_between_a_question_and_its_answer_cannot_help(encoder: str) -> None:
    """Whether two entities are joined once more cannot be told while that is asked."""
    setting = f"model.encoder={encoder}"
    # (0, 0, ?) is answered by 1; the two are also joined by (0, 1, 1) and (1, 0, 0).
    fewer = TRIPLES[~np.isin(np.arange(len(TRIPLES)), [1, 2])]

    def loss(hidden: float, told: Ids) -> float:
        settings = (setting, f"model.hidden={hidden}")
        whole = objective(*settings).view
        view = read(objective(*settings).model, told, TRIPLES)
        same = {"relations": whole.relations} if encoder == "dan" else {"bag": whole.bag}
        made = objective(*settings, triples=TRIPLES[:1], view=replace(view, **same))
        return loss_of(made, np.array([0])).item()

    assert loss(1.0, TRIPLES) == pytest.approx(loss(1.0, fewer), abs=1e-12)
    assert loss(1.0, TRIPLES) == pytest.approx(loss(1.0, fewer[1:]), abs=1e-12)
    assert abs(loss(0.0, TRIPLES) - loss(0.0, fewer[1:])) > 1e-3
    if encoder == "reflection":  # which counts edges, not neighbours
        assert abs(loss(0.0, TRIPLES) - loss(0.0, fewer)) > 1e-6


@made_by_neighbours
def test_a_share_of_these_edges_may_be_hidden(encoder: str) -> None:
    def losses(*settings: str) -> list[float]:
        made, rng = objective(f"model.encoder={encoder}", *settings), np.random.default_rng(0)
        return [made.loss(np.array([7]), rng).item() for _ in range(40)]

    (hidden,) = set(losses())
    (seen,) = set(losses("model.hidden=0.0"))
    assert losses("model.hidden=0") == pytest.approx([seen] * 40)
    mixed = losses("model.hidden=0.7")  # of a single edge, all or nothing
    assert all(loss == pytest.approx(hidden) or loss == pytest.approx(seen) for loss in mixed)
    assert 0.5 < np.mean([loss == pytest.approx(hidden) for loss in mixed]) < 0.9


@made_by_neighbours
def test_a_batch_hides_nothing_of_the_next_and_nothing_of_validation(encoder: str) -> None:
    made = objective(f"model.encoder={encoder}")
    before, validated = loss_of(made, np.array([4])), validation(made)()
    loss_of(made)
    assert torch.equal(loss_of(made, np.array([4])), before)
    assert validation(made)() == validated
    opened = objective(f"model.encoder={encoder}", "model.hidden=0.0")
    assert validation(opened)() == validated


def test_with_every_edge_hidden_nobody_knows_anything() -> None:
    made = objective()
    assert loss_of(made).item() == pytest.approx(np.log(len(SEEN)))


@pytest.mark.parametrize("layers", [2, 10])
def test_entities_whose_every_edge_is_hidden_leave_gradients_finite(layers: int) -> None:
    made = objective(f"model.layers={layers}")
    made.model.float()
    loss_of(made, np.array([0, 1, 2, 3, 8, 12])).backward()
    learned = [(name, p.grad) for name, p in made.model.named_parameters() if p.grad is not None]
    assert learned
    assert [name for name, gradient in learned if not gradient.isfinite().all()] == []


# What is added to it.


def added(setting: str, *settings: str, batch: Ids) -> tuple[DecoderObjective, Tensor]:
    """What a term adds to the loss of a batch."""
    plain, more = objective(*settings), objective(*settings, setting)
    for made in (plain, more):
        made.model.eval()  # a convolution has dropout of its own
    return more, loss_of(more, batch) - loss_of(plain, batch)


some_batches = pytest.mark.parametrize(
    "batch", [np.array([4]), np.array([0, 2, 10, 13])], ids=["one", "four"]
)


@some_batches
@pytest.mark.parametrize("decoder", [name for name in DECODERS if name != "rotate"])
def test_n3_is_the_mean_of_cubed_absolute_values_over_triples(decoder: str, batch: Ids) -> None:
    settings = ("model.encoder=none", f"decoder.name={decoder}", "decoder.normalise=false")
    made, found = added("loss.n3=0.7", *settings, batch=batch)
    x, relations = vectors_of(made), made.model.decoder.relations

    def cubes(vector: Tensor) -> Tensor:
        if decoder == "complex":
            return torch.complex(*vector.chunk(2)).abs().pow(3).sum()
        return vector.abs().pow(3).sum()

    asked = asked_in(made, batch)
    total = sum(cubes(x[e]) + cubes(relations[r]) + cubes(x[a]) for e, r, a in asked)
    torch.testing.assert_close(found, 0.7 * total / len(asked))


@some_batches
@pytest.mark.parametrize("dim", [4, 10])
def test_n3_of_a_rotation_is_that_of_its_entities_whatever_its_angles(dim: int, batch: Ids) -> None:
    """A turn has length 1 at every angle, so there is nothing of it to make smaller."""
    settings = (
        "model.encoder=none", "decoder.name=rotate", "decoder.normalise=false", f"model.dim={dim}",
    )  # fmt: skip
    made, found = added("loss.n3=0.7", *settings, batch=batch)
    torch.nn.init.uniform_(made.model.decoder.relations, -3, 3)
    plain = objective(*settings)
    plain.model.load_state_dict(made.model.state_dict())
    again = loss_of(made, batch) - loss_of(plain, batch)
    torch.testing.assert_close(again, found)


@some_batches
@pytest.mark.parametrize("decoder", [name for name in DECODERS if name != "conve"])
def test_the_relation_between_two_entities_is_asked_for_too(decoder: str, batch: Ids) -> None:
    settings = ("model.encoder=none", f"decoder.name={decoder}")
    made, found = added("loss.relations=0.3", *settings, batch=batch)
    x, decoding, scale = vectors_of(made), made.model.decoder, made.model.log_scale.exp()
    asked, total = asked_in(made, batch), torch.zeros((), dtype=torch.float64)
    for e, r, a in asked:
        every = torch.arange(2 * R)
        scores = decoding.score(x[[e] * 2 * R], every, x[[a] * 2 * R]) * scale
        total = total - scores.log_softmax(0)[r]
    torch.testing.assert_close(found, 0.3 * total / len(asked))


@made_by_neighbours
def test_the_weight_of_the_distillation_counts(
    encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Distillation, "negatives", 5)

    def loss(weight: float) -> float:
        made = objective(
            f"model.encoder={encoder}", "distillation.variant=detached",
            f"distillation.weight={weight}",
        )  # fmt: skip
        made.model.distillation.head[-1].p = 0.0  # dropout
        return loss_of(made, np.arange(0, 29, 3)).item()

    least, more, most = (loss(weight) for weight in (1, 2, 5))
    assert more > least
    assert most - more == pytest.approx(3 * (more - least))
    # As a mean over the entities that ask, a guess among six is not far from log 6.
    assert 0.5 < (more - least) / np.log(6) < 2


def test_distillation_teaches_each_asking_entity_once_and_draws_seen_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Distillation, "negatives", 7)
    made = objective("distillation.variant=detached")
    assert made.model.distillation is not None
    teach, taught, wrong = made.model.distillation.forward, list[list[int]](), set[int]()

    def spy(g: Tensor, teachers: Tensor, ids: Tensor, negatives: Tensor) -> Tensor:
        assert teachers is made.model.encoder.embeddings
        assert len(negatives) == 7
        taught.append(ids.tolist())
        wrong.update(negatives.tolist())
        return teach(g, teachers, ids, negatives)

    monkeypatch.setattr(made.model.distillation, "forward", spy)
    rng, batch = np.random.default_rng(0), np.arange(9)
    for _ in range(20):
        made.loss(batch, rng)
    assert taught == [sorted(set(made.queries.entities[batch].tolist()))] * 20
    assert wrong == set(SEEN)


# Validation.


@pytest.mark.parametrize("output", ["tied", "table"])
def test_validation_is_filtered_and_tie_aware_with_mrr_first(encoder: str, output: str) -> None:
    settings = (f"model.encoder={encoder}", f"model.output={output}", "model.dropout=0.5")
    made = objective(*settings)
    made.model.train()
    found = validation(made)()
    assert made.model.training
    assert found is not None
    assert list(found) == ["mrr", "hits@1", "hits@10"]

    x = made.model.rows(made.view).vectors
    true = {tuple(row) for row in np.concatenate((TRIPLES, VALID)).tolist()}
    true |= {(t, r + R, h) for h, r, t in true}
    asked = [(h, r, t) for h, r, t in VALID.tolist()]
    asked += [(t, r + R, h) for h, r, t in VALID.tolist()]
    means: dict[str, list[float]] = {name: [] for name in found}
    for e, r, a in asked:
        scores = made.model.scores(x, torch.tensor([e]), torch.tensor([r]))[0].tolist()
        lowest = min(scores)  # where those are who are not there yet
        scores = [score if j in SEEN else lowest for j, score in enumerate(scores)]
        rivals = [scores[j] for j in range(N) if j == a or (e, r, j) not in true]
        slack = 1e-6 * max(abs(score) for score in scores)
        better = sum(score > scores[a] + slack for score in rivals)
        tied = sum(score >= scores[a] - slack for score in rivals) - better
        places = range(better + 1, better + tied + 1)
        means["mrr"].append(np.mean([1 / place for place in places]))
        for k in (1, 10):
            means[f"hits@{k}"].append(np.mean([place <= k for place in places]))
    assert found == pytest.approx({name: np.mean(values) for name, values in means.items()})


def test_without_held_out_triples_there_is_nothing_to_validate() -> None:
    assert validation(objective(), NOTHING)() is None


def test_a_sample_of_the_held_out_triples_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def validated(seed: int) -> set[tuple[int, int, int]]:
        queries = validation(objective(seed=seed), TRIPLES).valid
        rows = np.repeat(np.arange(len(queries)), queries.sizes)
        found = zip(queries.entities[rows], queries.relations[rows], queries.answers, strict=True)
        return {(int(h), int(r), int(t)) for h, r, t in found if r < R}

    assert validated(0) == {tuple(row) for row in TRIPLES.tolist()}
    monkeypatch.setattr(PredictionEncoderSettings, "validated", 5)
    assert len(validated(0)) == 5
    assert validated(0) == validated(0)
    assert validated(0) != validated(1)


# Learning.


@pytest.mark.parametrize("decoder", list(DECODERS))
def test_a_last_batch_may_be_a_single_question(decoder: str) -> None:
    made = objective(f"decoder.name={decoder}")
    found = made.loss(np.array([0]), np.random.default_rng(0))
    found.backward()
    assert found.isfinite()


def test_the_loss_depends_on_the_seeds_alone() -> None:
    def loss(seed: int, torch_seed: int) -> float:
        made = objective("loss.candidates=4", "model.dropout=0.5", "model.own=add")
        torch.manual_seed(torch_seed)
        return made.loss(np.array([1, 8, 15]), np.random.default_rng(seed)).item()

    assert loss(0, 0) == loss(0, 0)
    assert loss(0, 0) != loss(1, 0)
    assert loss(0, 0) != loss(0, 1)  # dropout


def clans() -> tuple[Ids, Ids]:
    """Five clans of six: each clan likes the next by one relation and the one after by another.

    Everybody is liked by as many, so it takes structure to do better than counting. A seventh is
    held out.
    """
    every = [
        (i, r, j)
        for i in range(30)
        for r in range(2)
        for j in range(30)
        if (i + r + 1) % 5 == j % 5
    ]
    triples = np.array(every, np.int64)
    held = np.random.default_rng(0).permutation(len(triples)) % 7 == 0
    return triples[~held], triples[held]


@pytest.mark.parametrize(
    "settings",
    [
        ("model.encoder=dan",),
        ("model.encoder=reflection",),
        ("model.encoder=none",),
        ("model.encoder=dan", "model.own=add"),
        ("model.encoder=reflection", "model.own=concatenate"),
        ("model.encoder=dan", "model.output=table"),
    ],
    ids="-".join,
)
def test_training_lowers_the_loss_and_beats_counting(settings: tuple[str, ...]) -> None:
    known, held = clans()
    config = configured(
        "model.dim=16", "training.batch=24", "training.learning_rate=0.02", "training.epochs=10",
        "training.validate_every=5", "training.patience=0", *settings,
    )  # fmt: skip
    torch.manual_seed(0)
    model = PredictionModel(30, 2, config)
    view = model.encoder.read(known, known, 30, 2, torch.device("cpu"))
    true = Queries.of(np.concatenate((known, held)), 2)
    made = DecoderObjective(model, known, view, 2)
    validate = Validation(model, view, known, held, 2)
    before = validate()
    history = train(made, config.training, seed=0, validate=validate)
    losses = [row["loss"] for row in history]
    assert np.mean(losses[-3:]) < 0.95 * losses[0]

    counts = frequency_scores(Queries.of(known, 2), 30)
    guess = summary(rank_answers(lambda _, r: counts[r], validate.valid, true, 30))
    after = validate()
    assert before is not None
    assert after is not None
    assert after["mrr"] == max(row.get("valid_mrr", 0) for row in history)
    assert after["mrr"] > 0.4 > 0.3 > max(guess["mrr"], before["mrr"])


# Steps that share an encoding.


@made_by_neighbours
@pytest.mark.parametrize("hidden", [0, 1])
def test_an_encoding_for_some_steps_learns_their_mean(encoder: str, hidden: int) -> None:
    settings = f"model.encoder={encoder}", "model.own=add", f"model.hidden={hidden}"
    one, all_ = objective(*settings), objective(*settings, "model.reuse=3", "training.batch=6")
    steps = list(all_.batches(np.random.default_rng(0)))
    assert [len(step) for step in steps] != [len(everything(all_))]
    groups = [steps[i : i + 3] for i in range(0, len(steps), 3)]
    rng = np.random.default_rng(0)
    seen = [all_.loss(step, rng).backward() for step in all_.batches(rng)]
    assert len(seen) == len(steps)
    # The same by hand: what is hidden for one of the steps is hidden for all of them.
    for group in groups:
        share = 1 / len(group)
        made = one.model.encode(one.view, one._kept(np.concatenate(group), rng))
        assert made is not None
        for step in group:
            one._encoded = lambda *_, g=made: g  # type: ignore[method-assign]
            leaves = [p for p in one.model.parameters() if p.requires_grad]
            found = torch.autograd.grad(
                one.loss(step, rng), leaves, retain_graph=True, allow_unused=True
            )
            inside = {id(p) for p in _made_with(one.model)}
            for parameter, gradient in zip(leaves, found, strict=True):
                if gradient is not None:
                    factor = share if id(parameter) in inside else 1.0
                    parameter.grad = factor * gradient + (
                        0 if parameter.grad is None else parameter.grad
                    )
    for (name, mine), theirs in zip(
        one.model.named_parameters(), all_.model.parameters(), strict=True
    ):
        assert (mine.grad is None) == (theirs.grad is None), name
        if mine.grad is not None and theirs.grad is not None:
            torch.testing.assert_close(theirs.grad, mine.grad, msg=name)


def _made_with(model: PredictionModel) -> list[Tensor]:
    """What the encoder is made of."""
    return list(model.encoder.parameters())


def test_an_epoch_with_shared_encodings_encodes_less(monkeypatch: pytest.MonkeyPatch) -> None:
    made = objective("model.reuse=4", "training.batch=4")
    calls: list[int] = []
    original = made.model.encode
    monkeypatch.setattr(made.model, "encode", lambda *a: (calls.append(1), original(*a))[1])
    rng = np.random.default_rng(0)
    steps = 0
    for batch in made.batches(rng):
        made.loss(batch, rng).backward()
        steps += 1
    assert len(calls) == -(-steps // 4)
    assert not made._encodings  # nothing is left for the next epoch


@made_by_neighbours
def test_a_shared_encoding_leaves_with_its_last_step(encoder: str) -> None:
    made = objective(f"model.encoder={encoder}", "model.reuse=2", "training.batch=4")
    rng = np.random.default_rng(0)
    gc.collect()
    gc.disable()  # whoever is still there then waits for the collector
    try:
        left = []
        for batch in made.batches(rng):
            made.loss(batch, rng).backward()
            left += [weakref.ref(vectors) for vectors in made._encodings[:1]]
        assert len(left) > 1
        assert [ref() for ref in left] == [None] * len(left)
    finally:
        gc.enable()
