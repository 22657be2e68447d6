"""The relational alignment model: encoder, self-distillation, one vector an entity."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.config import DistillationConfig, ModelConfig
from decentrl.graph.relational import RelationalView
from decentrl.nn.distillation import SelfDistillation
from decentrl.nn.dropout import eval_mode
from decentrl.nn.frozen_states import FrozenStates
from decentrl.nn.reflection import RelationalEncoder


class RelationalModel(nn.Module):
    """The encoder and the head of its self-distillation."""

    def __init__(
        self,
        n_entities: int,
        n_relations: int,
        model: ModelConfig,
        distillation: DistillationConfig,
    ) -> None:
        super().__init__()
        self.encoder = RelationalEncoder(
            n_entities,
            n_relations,
            model.dim,
            model.layers,
            context=model.context,
            dropout=model.dropout,
            edge_dropout=model.edge_dropout,
            entity_dropout=model.entity_dropout,
        )
        self.induce = distillation.induce
        self.distillation: SelfDistillation | None = None
        if distillation.variant != "none":
            self.distillation = SelfDistillation(
                self.encoder.dim,
                model.dim,
                distillation.variant,
                distillation.head,
                distillation.dropout,
            )

    def encode(self, view: RelationalView) -> Tensor:
        """Every entity's vector with dropout off, [n_entities, d], of length 1 or 0."""
        states, _ = self.states(view)
        return unit_rows(states)

    @torch.no_grad()
    def states(self, view: RelationalView) -> tuple[Tensor, Tensor]:
        """Layers 0 … K of both views, [n_entities, d], and the input embeddings they were made of.

        The head of the distillation has learned to tell an entity's input embedding from its
        vector. So where some were never trained they are induced: a first pass without them gives
        vectors, the head what their input embeddings would be, and a second pass reads those.
        """
        with eval_mode(self):
            inputs = self.encoder.entities.detach()
            states: Tensor = self.encoder(view, inputs=inputs)
            if bool(view.seen.all()):
                return states, inputs
            inputs = torch.where(view.seen[:, None], inputs, 0)
            unseen = ~view.seen & (states.abs().amax(1) > 0)
            induced = self.induced(states[unseen], mean_length(inputs[view.seen]))
            if induced is not None and len(induced):
                inputs[unseen] = induced
                states = self.encoder(view.reading(view.seen | unseen), inputs=inputs)
            return states, inputs

    @torch.no_grad()
    def grown(
        self,
        view: RelationalView,
        inputs: Tensor,
        trained: Tensor,
        given: FrozenStates,
        length: Tensor,
        relations: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """:meth:`states` of new entities among others whose states stay as they are.

        What a new entity's input embedding would be is told from its neighbours in training alone,
        so that it does not hang on who else is new.

        Args:
            inputs: input embeddings [n_entities, dim], 0 for the new entities.
            trained: bool[n_entities], the entities that training has seen.
            length: of an input embedding, on average.
            relations: vectors of the relations of ``view``.
        """
        with eval_mode(self):
            near = view.reading(trained)
            kept = trained[near.edges.nodes.columns], None
            encode = partial(self.encoder, frozen=given, relations=relations)
            states: Tensor = encode(near, inputs=inputs, kept=kept)
            new = (~given.mask & (states.abs().amax(1) > 0)).nonzero()[:, 0]
            induced = self.induced(states[new], length)
            if induced is not None:
                inputs = inputs.index_put((new,), induced)
            there = inputs.abs().amax(1) > 0
            return encode(view.reading(there), inputs=inputs), inputs

    def induced(self, states: Tensor, length: Tensor) -> Tensor | None:
        """What the input embeddings of entities with these states would be; None if untold."""
        if not self.induce or self.distillation is None:
            return None
        return length * F.normalize(self.distillation.head(states), dim=1)


def mean_length(vectors: Tensor) -> Tensor:
    """Of the rows of [n, d]; 0 if there are none."""
    total: Tensor = vectors.norm(dim=1).sum() / max(1, len(vectors))
    return total


def unit_rows(vectors: Tensor) -> Tensor:
    """Make rows of length 1 (or 0) of them, in place."""
    return vectors.div_(vectors.norm(dim=1, keepdim=True).clamp(min=1e-12))
