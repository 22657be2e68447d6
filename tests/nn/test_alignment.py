"""One vector an entity: which parts it has, and what of it is the entity's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from decentrl.nn.alignment import AlignmentModel, join

from decentrl.config import DistillationConfig, ModelConfig
from decentrl.nn import GraphView

N, R, D, K = 6, 2, 4, 2
TRIPLES = np.array([(0, 0, 1), (1, 1, 2), (2, 0, 3), (3, 1, 4), (4, 0, 0)], np.int64)
SEEN = np.array([True, True, True, True, False, False])  # 4 is new; 5 has no triple at all


def make(**options: Any) -> AlignmentModel:
    torch.manual_seed(0)
    config = replace(ModelConfig(dim=D, layers=K, hops="one"), **options)
    return AlignmentModel(N, R, config, DistillationConfig())


@pytest.fixture
def view() -> GraphView:
    return GraphView.build([TRIPLES], N, R, layers=K, seen=SEEN)


@pytest.mark.parametrize(
    ("output", "layers", "with_input"),
    [
        ("layers", [1, 2], False),
        ("all-layers", [0, 1, 2], False),
        ("all-layers+input", [0, 1, 2], True),
    ],
)
def test_the_parts_are_the_layers_asked_for(
    output: str, layers: list[int], with_input: bool, view: GraphView
) -> None:
    model = make(output=output).eval()
    outputs, parts = model.dan(model.entities, view), model(view)
    assert len(parts) == len(layers) + with_input
    for part, layer in zip(parts, layers, strict=False):
        assert torch.equal(part, outputs[layer])
    assert model.encode(view).shape == (N, model.dim) == (N, D * len(parts))


def test_the_input_part_of_an_unseen_entity_is_zero(view: GraphView) -> None:
    model = make(output="all-layers+input")
    own = model(view)[-1]
    assert torch.equal(own[SEEN], model.entities[SEEN])
    assert not own[~SEEN].any()


@pytest.mark.parametrize("output", ["layers", "all-layers", "all-layers+input"])
def test_no_vector_notices_the_input_of_an_unseen_entity(output: str, view: GraphView) -> None:
    model = make(output=output)
    before = model.encode(view)
    with torch.no_grad():
        model.entities[~SEEN] = 100 * torch.rand(2, D)
    assert torch.equal(model.encode(view), before)


def test_a_new_entity_is_encoded_and_one_without_triples_is_nothing(view: GraphView) -> None:
    lengths = make().encode(view).norm(dim=1)
    torch.testing.assert_close(lengths, torch.tensor([1.0, 1.0, 1.0, 1.0, 1.0, 0.0]))


@pytest.mark.parametrize("training", [True, False])
def test_encoding_is_without_dropout_and_leaves_the_mode_alone(
    training: bool, view: GraphView
) -> None:
    model = make().train(training)
    once, again = model.encode(view), model.encode(view)
    assert torch.equal(once, again)
    assert not once.requires_grad
    assert all(module.training == training for module in model.modules())


def test_the_mode_is_restored_after_an_error_too() -> None:
    model = make().train()
    with pytest.raises(AttributeError):
        model.encode(None)  # type: ignore[arg-type]
    assert model.training


def test_join_weighs_every_part_alike() -> None:
    parts = [torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 100.0]])]
    expected = F.normalize(torch.tensor([[0.6, 0.8, 0.0, 1.0]]), dim=-1)
    torch.testing.assert_close(join(parts), expected)


def test_lengths_are_constant_only_where_a_normalisation_makes_them_so() -> None:
    assert make().constant_length
    assert not make(norm=False).constant_length
    assert not make(output="all-layers+input").constant_length
