"""The prediction model: what an entity's vector is made of, and what it never is."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from decentrl.config import PredictionConfig
from decentrl.nn.dan import NeighbourAttention
from decentrl.nn.decoders import DECODERS
from decentrl.scorers.model import SCALE, PredictionModel

N, R, D = 10, 3, 4
# A ring of 0 … 5 with two chords. 0 and 6 have the same neighbours by the same relations.
KNOWN = np.array(
    [(0, 0, 1), (1, 0, 2), (2, 1, 3), (3, 1, 4), (4, 0, 5), (5, 1, 0), (1, 1, 3), (2, 0, 4),
     (6, 0, 1), (5, 1, 6)],
    np.int64,
)  # fmt: skip
# 7 and 8 arrive later, 8 by a relation that training never saw; nothing is ever known of 9.
LATER = np.array([(7, 0, 1), (3, 1, 7), (7, 0, 8), (8, 2, 2)], np.int64)
NEW, NOBODY = [7, 8], 9
UNSEEN = [*NEW, NOBODY]

made_by_neighbours = pytest.mark.parametrize("encoder", ["dan", "reflection"])
owns = pytest.mark.parametrize("own", ["off", "add", "concatenate"])
outputs = pytest.mark.parametrize("output", ["tied", "table"])


def configured(*settings: str) -> PredictionConfig:
    if "model.encoder=none" in settings:  # a table has none of these settings
        others = ("model.own=", "model.hidden=", "model.layers=", "distillation.")
        settings = tuple(text for text in settings if not text.startswith(others))
    plain = (f"model.dim={D}", "model.dropout=0", "model.hidden=1.0", "distillation.weight=0.3")
    return PredictionConfig.from_preset("paper", plain).with_setting(*settings)


def make(*settings: str) -> PredictionModel:
    """Without dropout on attention."""
    torch.manual_seed(0)
    model = PredictionModel(N, R, configured(*settings)).double()
    for part in model.modules():
        if isinstance(part, NeighbourAttention):
            part.dropout.p = 0.0
    return model


def view_of(model: PredictionModel, triples: np.ndarray | None = None) -> Any:
    triples = np.concatenate((KNOWN, LATER)) if triples is None else triples
    return model.encoder.read(triples, KNOWN, N, R, torch.device("cpu"))


def randn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def normed(rows: Tensor) -> Tensor:
    return torch.nn.functional.normalize(rows, dim=-1)


def inputs_of(model: PredictionModel) -> Tensor | None:
    """The embeddings that neighbours are read by."""
    return model.encoder.embeddings if model.made else None


# What an entity's vector is made of.


@owns
@outputs
def test_a_vector_is_what_neighbours_say_and_what_is_its_own(
    encoder: str, own: str, output: str
) -> None:
    settings = (f"model.encoder={encoder}", f"model.own={own}", f"model.output={output}")
    model = make(*settings, "decoder.normalise=false").eval()
    view = view_of(model)
    g, x = model.encode(view), model.rows(view).vectors
    if not model.made or own != "off":
        assert model.own is not None
        e = model.own.detach().clone()
        e[UNSEEN] = 0
    if not model.made:
        expected = e
    else:
        assert own in ("off", "add", "concatenate")
        expected = g if own == "off" else g + e if own == "add" else torch.cat((g, e), 1)
    torch.testing.assert_close(x, expected.detach())
    assert not x.requires_grad
    torch.testing.assert_close(make(*settings).rows(view).vectors, normed(x))


@owns
@outputs
def test_an_entity_without_a_training_triple_brings_nothing_of_its_own(
    encoder: str, own: str, output: str
) -> None:
    settings = (f"model.encoder={encoder}", f"model.own={own}", f"model.output={output}")
    model, changed = make(*settings), make(*settings)
    with torch.no_grad():
        inputs = inputs_of(changed)
        if inputs is not None:
            inputs[UNSEEN] = torch.nan  # one product with it anywhere would show
        if changed.own is not None:
            changed.own[UNSEEN] = 100 * randn(len(UNSEEN), changed.own.shape[1])
    for triples in (KNOWN, None):
        found = model.rows(view_of(model, triples)).vectors
        assert torch.equal(changed.rows(view_of(changed, triples)).vectors, found)
    assert found[NEW].any(1).tolist() == [encoder != "none"] * 2
    # Nobody learns from it either.
    x = model.vectors(view_of(model), model.encode(view_of(model)))
    (x * randn(*x.shape)).sum().backward()
    read = (inputs_of(model), model.own)
    gradients = [part.grad for part in read if part is not None]
    assert all(part is not None and not part[UNSEEN].any() for part in gradients)
    assert any(part is not None and part[:6].any(1).all() for part in gradients)


@pytest.mark.parametrize("own", ["add", "concatenate"])
def test_an_own_embedding_enters_its_own_vector_and_no_other(encoder: str, own: str) -> None:
    settings = (f"model.encoder={encoder}", f"model.own={own}")
    model = make(*settings)
    view = view_of(model)
    for i in range(N):
        changed = make(*settings)
        assert changed.own is not None
        with torch.no_grad():
            changed.own[i] += 1
        moved = (changed.rows(view).vectors != model.rows(view).vectors).any(1)
        assert moved.tolist() == [j == i and i not in UNSEEN for j in range(N)]


@outputs
def test_one_layer_of_neighbours_knows_nothing_of_the_entity_itself(output: str) -> None:
    settings = ("model.layers=1", f"model.output={output}")
    model = make(*settings)
    assert model.own is None
    view = view_of(model)
    for i in range(N):
        changed = make(*settings)
        with torch.no_grad():
            changed.encoder.embeddings[i] = 100 * randn(D, seed=5)
        found, before = changed.rows(view).vectors, model.rows(view).vectors
        assert torch.equal(found[i], before[i])
        assert torch.equal(found, before) == (i in UNSEEN)  # others do notice whom they know


def test_the_first_layer_of_relations_knows_nothing_of_the_entity_itself() -> None:
    settings = ("model.encoder=reflection", "decoder.normalise=false")
    model = make(*settings)
    assert model.own is None
    view = view_of(model)
    for i in range(N):
        changed = make(*settings)
        with torch.no_grad():
            changed.encoder.embeddings[i] = torch.nan
        assert torch.equal(changed.rows(view).vectors[i, :D], model.rows(view).vectors[i, :D])


@made_by_neighbours
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_entities_with_the_same_neighbours_get_the_same_vector(encoder: str, layers: int) -> None:
    settings = (f"model.encoder={encoder}", f"model.layers={layers}")
    x = make(*settings).rows(view_of(make(*settings))).vectors
    torch.testing.assert_close(x[0], x[6], rtol=0, atol=1e-14)
    assert not any(torch.allclose(x[0], x[j]) for j in range(N) if j not in (0, 6))


@pytest.mark.parametrize(
    ("encoder", "own"),
    [*itertools.product(("dan", "reflection"), ("add", "concatenate")), ("none", "off")],
)
def test_their_ownnothing_tell_them_apart(encoder: str, own: str) -> None:
    model = make(f"model.encoder={encoder}", f"model.own={own}")
    x = model.rows(view_of(model)).vectors
    assert not torch.allclose(x[0], x[6])


@made_by_neighbours
def test_hidden_edges_have_no_say(encoder: str) -> None:
    model = make(f"model.encoder={encoder}", "model.layers=1")
    view = view_of(model, KNOWN)
    graphs = model.encoder.edges(view)
    kept = tuple((graph.rows != 2) | (graph.columns != 4) for graph in graphs)
    found, whole = model.encode(view, kept), model.encode(view)
    # What 2 reads is another thing now, and so is what its neighbours read of it in layer 1.
    moved = [2] if encoder == "dan" else [1, 2, 3, 4]
    assert (found != whole).any(1).nonzero()[:, 0].tolist() == moved


@made_by_neighbours
def test_the_number_of_layers_reaches_the_encoder(encoder: str) -> None:
    model, other = (
        make(f"model.encoder={encoder}"),
        make(f"model.encoder={encoder}", "model.layers=1"),
    )
    found, before = other.rows(view_of(other)).vectors, model.rows(view_of(model)).vectors
    assert found.shape != before.shape or not torch.allclose(found, before)


# Lengths and widths.


@owns
def test_vectors_have_length_one_if_asked_for(encoder: str, own: str) -> None:
    settings = (f"model.encoder={encoder}", f"model.own={own}")
    model, free = make(*settings), make(*settings, "decoder.normalise=false")
    lengths = model.rows(view_of(model)).vectors.norm(dim=1)
    known = [i != NOBODY and (encoder != "none" or i not in UNSEEN) for i in range(N)]
    torch.testing.assert_close(lengths, torch.tensor(known, dtype=torch.float64))
    assert (free.rows(view_of(free)).vectors.norm(dim=1) - lengths).abs()[:6].min() > 1e-3


widths = [
    pytest.param("dan", "off", D, id="dan"),
    pytest.param("dan", "add", D, id="dan-add"),
    pytest.param("dan", "concatenate", 2 * D, id="dan-concatenate"),
    pytest.param("reflection", "off", 6 * D, id="reflection"),
    pytest.param("reflection", "add", 6 * D, id="reflection-add"),
    pytest.param("reflection", "concatenate", 7 * D, id="reflection-concatenate"),
    pytest.param("none", "off", D, id="none"),
    pytest.param("none", "concatenate", D, id="none-concatenate"),
]


@outputs
@pytest.mark.parametrize(("encoder", "own", "width"), widths)
def test_a_decoder_reads_as_much_as_an_encoder_makes(
    encoder: str, own: str, width: int, output: str
) -> None:
    model = make(f"model.encoder={encoder}", f"model.own={own}", f"model.output={output}")
    x = model.rows(view_of(model)).vectors
    assert x.shape == model.answers(x).shape == (N, width)
    assert model.scores(x, torch.tensor([0, 7]), torch.tensor([1, 4])).shape == (2, N)


@outputs
@pytest.mark.parametrize("own", ["off", "add", "concatenate"])
@pytest.mark.parametrize("dim", [6, D])
def test_a_decoder_may_have_a_width_of_its_own(
    encoder: str, own: str, output: str, dim: int
) -> None:
    model = make(
        f"model.encoder={encoder}", f"model.own={own}", f"model.output={output}",
        f"decoder.dim={dim}",
    )  # fmt: skip
    x = model.rows(view_of(model)).vectors
    assert x.shape == model.answers(x).shape == (N, dim)
    assert model.scores(x, torch.tensor([0, 7]), torch.tensor([1, 4])).shape == (2, N)


def test_a_width_of_its_own_is_a_linear_map_of_what_neighbours_say() -> None:
    model = make("decoder.dim=6", "model.own=add", "decoder.normalise=false")
    view = view_of(model)
    g = model.encode(view)
    assert g is not None
    assert model.own is not None
    assert model.project is not None
    assert not model.project.weight.any()  # at first nothing drowns what is its own
    torch.nn.init.normal_(model.project.weight)
    e = model.own * view.seen[:, None]
    torch.testing.assert_close(model.rows(view).vectors, (g @ model.project.weight.T + e).detach())


# Scores.


@outputs
@pytest.mark.parametrize("normalise", ["true", "false"])
@pytest.mark.parametrize("name", list(DECODERS))
def test_scores_are_the_decoders_up_to_scale_and_a_constant(
    name: str, normalise: str, output: str
) -> None:
    model = make(
        f"decoder.name={name}", f"decoder.normalise={normalise}", f"model.output={output}",
        "model.own=add", "decoder.dropout=0.5", "model.dropout=0.5",
    ).train()  # fmt: skip
    x = model.rows(view_of(model)).vectors
    entities, relations = torch.tensor([0, 3, 7, 3]), torch.tensor([0, 4, 2, 4])
    found = model.scores(x, entities, relations)
    assert {module.training for module in model.modules()} == {True}
    model.eval()
    with torch.no_grad():
        answers = x if model.table is None else model.table
        whole = model.decoder.query(x[entities], relations) @ answers.t()
        bias = model.decoder.bias(answers)
        whole = whole if bias is None else whole + bias
        left = found - whole * (SCALE if normalise == "true" else 1)
    torch.testing.assert_close(left, left[:, :1].expand_as(left), rtol=1e-6, atol=1e-5)
    assert found.std(1).min() > 1e-3
    assert not found.requires_grad


def test_answers_are_compared_by_the_vectors_that_ask_or_by_a_table() -> None:
    tied, apart = make(), make("model.output=table")
    x = tied.rows(view_of(tied)).vectors
    assert tied.answers(x) is x
    assert tied.table is None
    assert apart.answers(x) is apart.table
    ids = torch.tensor([2]), torch.tensor([1])
    before = apart.scores(x, *ids)
    with torch.no_grad():
        assert apart.table is not None
        apart.table[4] += 1
    assert (apart.scores(x, *ids) != before).tolist() == [[j == 4 for j in range(N)]]
    assert torch.equal(
        apart.rows(view_of(apart)).vectors, make("model.output=table").rows(view_of(apart)).vectors
    )


@pytest.mark.parametrize("normalise", [True, False])
def test_the_scale_is_learned_where_lengths_are_fixed(normalise: bool) -> None:
    model = make(f"decoder.normalise={str(normalise).lower()}")
    assert model.log_scale.requires_grad == normalise
    assert model.log_scale.exp().item() == pytest.approx(SCALE if normalise else 1)
    asked = torch.tensor([0, 1]), torch.tensor([0, 5])
    x = model.rows(view_of(model)).vectors
    torch.testing.assert_close(
        model.questions(x, *asked),
        model.decoder.query(x[asked[0]], asked[1]) * model.log_scale.exp(),
    )


@pytest.mark.parametrize("name", ["transe", "rotate"])
def test_the_bias_of_an_answer_has_the_scale_of_its_score(name: str) -> None:
    model = make(f"decoder.name={name}", "model.output=table")
    vectors, bias = randn(N, D), make(f"decoder.name={name}").decoder.bias(randn(N, D))
    found = model.bias(vectors)
    assert found is not None
    assert bias is not None
    torch.testing.assert_close(found, SCALE * bias, rtol=1e-6, atol=0)
    assert make().bias(vectors) is None


# Dropout.


def test_dropout_on_vectors_and_questions_is_for_training_only(encoder: str) -> None:
    model = make(
        f"model.encoder={encoder}", "model.dropout=0.5", "decoder.dropout=0.5",
        "decoder.normalise=false", "model.own=add",
    ).train()  # fmt: skip
    view = view_of(model)
    plain = model.rows(view).vectors
    thinned = torch.stack([model.vectors(view, model.encode(view)) for _ in range(20)])[:, :6]
    assert 0.4 < (thinned == 0).double().mean() < 0.6
    torch.testing.assert_close(
        thinned[thinned != 0], 2 * plain[:6].expand_as(thinned)[thinned != 0]
    )
    asked = torch.arange(6).repeat(20), torch.zeros(120, dtype=torch.int64)
    questions = model.questions(plain, *asked)
    assert 0.4 < (questions == 0).double().mean() < 0.6
    assert torch.equal(model.eval().questions(plain, *asked), model.questions(plain, *asked))


@pytest.mark.parametrize("training", [True, False])
def test_embedding_leaves_the_training_flag_as_it_was(encoder: str, training: bool) -> None:
    model = make(f"model.encoder={encoder}").train(training)
    x = model.rows(view_of(model)).vectors
    model.scores(x, torch.tensor([0]), torch.tensor([0]))
    assert {module.training for module in model.modules()} == {training}
    broken: Any = None
    with pytest.raises(AttributeError):
        model.rows(broken)
    with pytest.raises(AttributeError):
        model.scores(broken, torch.tensor([0]), torch.tensor([0]))
    assert {module.training for module in model.modules()} == {training}


# Self-distillation.


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("distillation.weight=0.5", True),
        ("distillation.weight=0", False),
        ("distillation.variant=none", False),
    ],
)
@made_by_neighbours
def test_inputnothing_teach_where_that_has_a_weight(
    encoder: str, setting: str, expected: bool
) -> None:
    model = make(f"model.encoder={encoder}", setting)
    assert (model.distillation is not None) == expected
    assert model.encoder.embeddings.shape == (N, D)
    if model.distillation is not None:
        g = model.encode(view_of(model))
        assert g is not None
        assert model.distillation.head(g).shape == (N, D)


def test_without_an_encoder_nobody_teaches() -> None:
    assert make("model.encoder=none").distillation is None


@owns
@outputs
def test_every_parameter_of_every_model_learns(encoder: str, own: str, output: str) -> None:
    settings = (f"model.encoder={encoder}", f"model.own={own}", f"model.output={output}")
    model = make(*settings, "decoder.dim=0", "distillation.variant=none")
    view = view_of(model, KNOWN)
    x = model.vectors(view, model.encode(view))
    asked = torch.arange(6), torch.arange(6)
    scores = model.questions(x, *asked) @ model.answers(x).t()
    (scores * randn(6, N)).sum().backward()
    learning = [(name, p.grad) for name, p in model.named_parameters() if p.requires_grad]
    assert [name for name, gradient in learning if gradient is None or not gradient.any()] == []
