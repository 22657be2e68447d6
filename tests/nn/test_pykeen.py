"""Our encoder as PyKEEN's representation of entities, and PyKEEN's triples as our graph."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import pytest
import torch

from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.errors import InputError
from decentrl.nn import DAN, GraphView

pytest.importorskip("pykeen")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of PyKEEN and its dependencies


@pytest.fixture(scope="module")
def factories(people: list[tuple[str, str, str]]) -> Any:
    """Training and test triples of PyKEEN."""
    import numpy as np

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pykeen.triples import TriplesFactory
    return TriplesFactory.from_labeled_triples(np.array(people)).split(random_state=0)


def representation(training: Any, **options: Any) -> Any:
    from decentrl.nn.pykeen import DANRepresentation

    return DANRepresentation(training, shape=16, **options)


def test_a_pipeline_trains_with_it(factories: Any) -> None:
    from pykeen.models import ERModel
    from pykeen.pipeline import pipeline

    from decentrl.nn.pykeen import DANRepresentation

    training, testing = factories
    result = pipeline(
        training=training,
        testing=testing,
        model=ERModel,
        model_kwargs={
            "interaction": "distmult",
            "entity_representations": DANRepresentation,
            "entity_representations_kwargs": {"triples_factory": training, "shape": 32},
            "relation_representations_kwargs": {"shape": 32},
        },
        optimizer_kwargs={"lr": 0.02},
        training_kwargs={"num_epochs": 15, "batch_size": 64, "use_tqdm": False},
        evaluation_kwargs={"use_tqdm": False},
        random_seed=0,
        device="cpu",
    )
    assert isinstance(result.model.entity_representations[0], DANRepresentation)
    assert result.losses[-1] < 0.7 * result.losses[0]
    # By chance the mean reciprocal rank among 47 entities is below .1.
    assert result.metric_results.get_metric("mrr") > 0.15


def test_the_vectors_are_those_of_a_dan(factories: Any) -> None:
    training, _ = factories
    ours = representation(training, layers=2).eval()
    dan = DAN(16, 2, relations="multiply", n_relations=training.num_relations).eval()
    dan.load_state_dict(ours.dan.state_dict())
    triples = training.mapped_triples.numpy()
    view = GraphView.build([triples], training.num_entities, training.num_relations, layers=2)
    expected = dan(ours.inputs, view)[-1]
    assert torch.equal(ours(None), expected)
    assert torch.equal(
        ours(torch.tensor([[3, 1], [1, 3]])), expected[torch.tensor([[3, 1], [1, 3]])]
    )


def test_vectors_that_were_kept_end_with_a_change(factories: Any) -> None:
    """Where no gradient is needed vectors are made once, until weights change."""
    ours = representation(factories[0]).eval()
    with torch.no_grad():
        first = ours(None)
        assert ours(None) is first
        ours.inputs += 1
        ours.post_parameter_update()
        assert not torch.equal(ours(None), first)
        ours.train()
        assert not torch.equal(ours(None), ours.eval()(None))
    assert ours(None).requires_grad


def test_another_number_of_entities_is_refused(factories: Any) -> None:
    with pytest.raises(ValueError, match="max_id is 3, but the triples have"):
        representation(factories[0], max_id=3)


def test_triples_of_pykeen_are_a_graph(factories: Any) -> None:
    training, _ = factories
    rows = [tuple(row) for row in training.label_triples(training.mapped_triples).tolist()]
    expected = KnowledgeGraph.read(rows).content_hash()
    assert KnowledgeGraph.read(training).content_hash() == expected
    assert len(GraphTask.read(training, 0.0, 0.0).graph.triples) == len(rows)


def test_triples_of_pykeen_without_labels_are_an_error(factories: Any) -> None:
    from pykeen.triples import CoreTriplesFactory

    numbers = CoreTriplesFactory(torch.tensor([[0, 0, 1]]), 2, 1)
    with pytest.raises(InputError, match="have no labels; use a TriplesFactory"):
        KnowledgeGraph.read(numbers)
    with pytest.raises(InputError, match="no links or names; give a table of them"):
        KnowledgeGraph.read([("city 0", "r", "city 1")]).with_names(factories[0])


def test_without_pykeen_the_error_says_what_to_install() -> None:
    code = "import sys; sys.modules['pykeen'] = None\nimport decentrl.nn\nimport decentrl.nn.pykeen"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].endswith("install it with: pip install pykeen")
