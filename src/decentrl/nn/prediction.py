"""The prediction model: an encoder makes entity vectors, a decoder scores triples of them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.config import PredictionConfig
from decentrl.nn.aggregate import gather
from decentrl.nn.all_answers import take_root
from decentrl.nn.dan import DAN
from decentrl.nn.decoders import make_decoder
from decentrl.nn.distillation import SelfDistillation
from decentrl.nn.dropout import ByteDropout, eval_mode
from decentrl.nn.frozen_states import FrozenStates
from decentrl.nn.reflection import RelationalEncoder
from decentrl.nn.rivals.compgcn import CompGCN, relation_stages, update_relations
from decentrl.nn.rivals.lan import LAN
from decentrl.nn.rivals.rgcn import RGCN

View = Any
"""``GraphView`` for the encoder ``dan``, ``RelationalView`` for ``reflection`` and ``none``,
``BaselineView`` for the baselines."""

SCALE = 20.0
"""Of the scores of vectors of length 1, before training."""

ATTENTION_DROPOUT = 0.3
"""Of the encoder ``dan``, on attention scalars."""


class PredictionModel(nn.Module):
    """Entity vectors x from their neighbours, and a decoder over them.

    x = W g, where g is what the encoder makes of the neighbours. With ``model.own`` the entity's
    own embedding takes part where it was trained: x = W g + e (``add``) or [g ‖ e]
    (``concatenate``); for an entity that arrived later e is 0. Answers are compared by the same x,
    so that a new entity can be one, or by a table of their own (``model.output="table"``).
    """

    def __init__(self, n_entities: int, n_relations: int, config: PredictionConfig) -> None:
        super().__init__()
        model, distillation = config.model, config.distillation
        self.config = config
        self.dan = self.reflection = self.distillation = self.project = None
        self.baseline: RGCN | CompGCN | LAN | None = None
        config.check()
        made, width = config.made, config.width
        if model.encoder == "dan":
            self.inputs = nn.Parameter(torch.empty(n_entities, model.dim))
            nn.init.xavier_uniform_(self.inputs)
            self.dan = DAN(
                model.dim,
                model.layers,
                relations="multiply",
                n_relations=n_relations,
                dropout=ATTENTION_DROPOUT,
            )
        elif model.encoder == "reflection":
            self.reflection = RelationalEncoder(
                n_entities, n_relations, model.dim, model.layers, context=True, dropout=0.0
            )
        elif model.encoder == "rgcn":
            self.baseline = RGCN(n_entities, n_relations, model.dim, model.layers)
        elif model.encoder == "compgcn":
            self.baseline = CompGCN(
                n_entities,
                model.dim,
                model.layers,
                # ConvE normalises a question, so long answers have scores that saturate, and its
                # image, in which long heads hide the relation beneath them.
                unit=config.decoder.name == "conve",
            )
        elif model.encoder == "lan":
            self.baseline = LAN(n_entities, n_relations, model.dim)
        if made and distillation.variant != "none" and distillation.weight:
            self.distillation = SelfDistillation(
                made, model.dim, distillation.variant, distillation.head, distillation.dropout
            )
        beside = bool(made) and model.own == "concatenate"
        joined = made + model.dim if beside else made
        if made and joined != width:
            self.project = nn.Linear(joined, width, bias=False)
            if model.own == "add":  # an embedding is small at first: nothing should drown it
                nn.init.zeros_(self.project.weight)
        self.own: nn.Parameter | None = None
        if model.own != "off" or not made:
            self.own = nn.Parameter(torch.empty(n_entities, model.dim if beside else width))
            nn.init.normal_(self.own, std=width**-0.5)
        self.table: nn.Parameter | None = None
        if model.output == "table":
            self.table = nn.Parameter(torch.empty(n_entities, width))
            nn.init.normal_(self.table, std=width**-0.5)
        self.input_dropout = LAN.input_dropout if model.encoder == "lan" else 0.0
        self.dropout = ByteDropout(model.dropout)
        self.question_dropout = ByteDropout(config.decoder.dropout)
        self.decoder = make_decoder(config.decoder, n_relations, width)
        if model.encoder == "compgcn":
            update_relations(self.decoder, model.layers)
        # Lengths are 1, so scores need a scale: the scale of questions, learned as a logarithm.
        start = SCALE if config.decoder.normalise else 1.0
        self.log_scale = nn.Parameter(torch.tensor(start).log())
        self.log_scale.requires_grad_(config.decoder.normalise)

    @property
    def encoder_parts(self) -> list[nn.Module | nn.Parameter | None]:
        """What makes vectors of neighbours: ``training.encoder_rate`` is about these."""
        inputs = self.inputs if self.dan is not None else None
        return [inputs, self.dan, self.reflection, self.baseline, self.project]

    @property
    def teacher(self) -> Tensor:
        """The encoder's input embeddings, which self-distillation learns from."""
        if self.baseline is not None:
            return self.baseline.entities
        return self.inputs if self.reflection is None else self.reflection.entities

    @property
    def encodes(self) -> bool:
        """Whether there is an encoder."""
        return self.config.model.encoder != "none"

    def encode(self, view: View, kept: Any = None) -> Tensor | None:
        """g of every entity; None without an encoder."""
        if not self.encodes:
            return None
        inputs, share = self.teacher, self.input_dropout
        if self.training and share:  # as if some entities had come after training
            inputs = inputs * (torch.rand(len(inputs), 1, device=inputs.device) >= share)
        return self._encode(view, inputs, kept)[0]

    def _encode(
        self,
        view: View,
        inputs: Tensor,
        kept: Any = None,
        frozen: FrozenStates | None = None,
        relations: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """g of every entity, and what the encoder's stages made: [n_entities, width] each."""
        if self.dan is not None:
            layers: list[Tensor] = self.dan(inputs, view, kept, frozen)
            return layers[-1], layers
        if self.baseline is not None:
            return self._baseline_vectors(view, inputs, None if kept is None else kept[0]), []
        assert self.reflection is not None
        g: Tensor = self.reflection(
            view, inputs=inputs, kept=kept, frozen=frozen, relations=relations
        )
        return g, [g]

    def _baseline_vectors(self, view: View, inputs: Tensor, kept: Tensor | None) -> Tensor:
        """Nobody builds on what its layers made, so they are not told."""
        g: Tensor
        if isinstance(self.baseline, CompGCN):
            g = self.baseline(view, inputs, relation_stages(self.decoder), kept)
        else:
            assert self.baseline is not None
            g = self.baseline(view, inputs, kept)
        return g

    def vectors(self, view: View, g: Tensor | None) -> Tensor:
        """x of every entity, from what the encoder made: [n_entities, width]."""
        own = None
        if self.own is not None:
            own = self.own * view.seen.to(torch.float32)[:, None]
        return self._join(g, own)

    def _join(self, x: Tensor | None, own: Tensor | None) -> Tensor:
        if x is not None and own is not None and self.config.model.own == "concatenate":
            x, own = torch.cat((x, own), 1), None
        if x is not None and self.project is not None:
            x = self.project(x)
        if own is not None:
            x = own if x is None else x + own
        assert x is not None
        x = self.dropout(x)
        # An entity that nothing is known of is 0; its slope must stay within bounds.
        return F.normalize(x, dim=-1, eps=1e-6) if self.config.decoder.normalise else x

    def answers(self, x: Tensor) -> Tensor:
        """What answers are compared by."""
        return x if self.table is None else self.table

    def questions(self, x: Tensor, entities: Tensor, relations: Tensor) -> Tensor:
        """Vectors of questions (entity, relation, ?), int64[b] each → [b, width], scaled."""
        queries: Tensor = self.question_dropout(self.decoder.query(gather(x, entities), relations))
        return queries * self.log_scale.exp()

    def bias(self, answers: Tensor) -> Tensor | None:
        """Of every answer, scaled like the questions: [n]."""
        bias = self.decoder.bias(answers)
        return None if bias is None else bias * self.log_scale.exp()

    def offset(self, questions: Tensor) -> Tensor | None:
        """Of every question, scaled like it: [b]; it changes no order, but every single score."""
        scale = self.log_scale.exp()
        offset = self.decoder.constant(questions / scale)
        return None if offset is None else offset * scale

    def embed(self, view: View) -> Tensor:
        """x of every entity with dropout off."""
        return self.embed_with_states(view)[0]

    @torch.no_grad()
    def embed_with_states(self, view: View) -> tuple[Tensor, list[Tensor]]:
        """:meth:`embed`, and what the encoder's stages made, [n_entities, width] each."""
        with eval_mode(self):
            if not self.encodes:
                return self.vectors(view, None), []
            g, states = self._encode(view, self.teacher)
            return self.vectors(view, g), states

    @torch.no_grad()
    def grown(
        self, view: View, inputs: Tensor, frozen: FrozenStates, relations: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """:meth:`embed_with_states` of new entities among others whose states stay as they are.

        Args:
            inputs: input embeddings [n_entities, dim], 0 for the new entities.
            relations: vectors of the relations of a relational ``view``; default: all.
        """
        with eval_mode(self):
            g, states = self._encode(view, inputs, frozen=frozen, relations=relations)
            # What came later has no embedding of its own.
            own = None if self.own is None else g.new_zeros(len(g), self.own.shape[1])
            return self._join(g, own), states

    @torch.no_grad()
    def score_all(self, x: Tensor, entities: Tensor, relations: Tensor) -> Tensor:
        """Scores of all answers up to a constant of the question, with dropout off: [b, n].

        With ``loss.root`` distances, as in training: chances are told from these.
        """
        with eval_mode(self):
            answers = self.answers(x)
            bias, asked = self.bias(answers), self.questions(x, entities, relations)
            scores = asked @ answers.t()
            if bias is not None:
                scores += bias
            if self.config.loss.root:
                offset = self.offset(asked)
                assert offset is not None  # these decoders measure distances
                take_root(scores.add_(offset[:, None]))
            return scores
