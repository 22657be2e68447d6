"""The paper's encoder as a representation of entities in PyKEEN, which must be installed."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from decentrl.errors import MissingExtraError
from decentrl.graph.view import GraphView
from decentrl.nn.dan import DAN

try:
    from pykeen.nn.representation import Representation
    from pykeen.triples import CoreTriplesFactory
except ImportError:
    raise MissingExtraError("decentrl.nn.pykeen", "pykeen") from None


class DANRepresentation(Representation):
    """Vectors of entities that a DAN makes of the training graph, for any model of PyKEEN.

    >>> pipeline(
    ...     training=training, testing=testing, model=ERModel, model_kwargs=dict(
    ...         interaction="distmult",
    ...         entity_representations=DANRepresentation,
    ...         entity_representations_kwargs=dict(triples_factory=training, shape=64),
    ...         relation_representations_kwargs=dict(shape=64),
    ...     ),
    ... )

    Args:
        triples_factory: the training triples, the graph that is read.
        max_id: number of entities, as PyKEEN gives it.
        shape: width of the vectors.
        layers: of the DAN.
        dropout: on its attention scalars.
        kwargs: those of :class:`pykeen.nn.representation.Representation`.
    """

    def __init__(
        self,
        triples_factory: CoreTriplesFactory,
        max_id: int | None = None,
        shape: int = 64,
        *,
        layers: int = 2,
        dropout: float = 0.3,
        **kwargs: Any,
    ) -> None:
        n_entities = int(triples_factory.num_entities)
        if max_id not in (None, n_entities):
            raise ValueError(f"max_id is {max_id}, but the triples have {n_entities} entities")
        super().__init__(max_id=n_entities, shape=shape, **kwargs)
        n_relations = int(triples_factory.real_num_relations)
        self.inputs = nn.Parameter(torch.empty(n_entities, *self.shape))
        nn.init.xavier_uniform_(self.inputs)
        self.dan = DAN(
            self.shape[0], layers, relations="multiply", n_relations=n_relations, dropout=dropout
        )
        triples = triples_factory.mapped_triples.cpu().numpy()
        self.view = GraphView.build([triples], n_entities, n_relations, layers=layers)
        self._vectors: Tensor | None = None

    def post_parameter_update(self) -> None:
        super().post_parameter_update()  # type: ignore[no-untyped-call,unused-ignore]
        self._vectors = None

    def train(self, mode: bool = True) -> DANRepresentation:
        self._vectors = None
        super().train(mode)
        return self

    def _plain_forward(self, indices: Tensor | None = None) -> Tensor:
        vectors = None if torch.is_grad_enabled() else self._vectors
        if vectors is None:
            if self.view.seen.device != self.inputs.device:
                self.view = self.view.to(self.inputs.device)
            vectors = self.dan(self.inputs, self.view)[-1]
            # Where nothing is learned, the same vectors answer every batch of questions.
            self._vectors = None if torch.is_grad_enabled() else vectors
        return vectors if indices is None else vectors[indices]
