"""Answers by vectors: an encoder makes vectors of entities, a decoder scores triples of them."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.config import PredictionConfig
from decentrl.graph.adjacency import Ids
from decentrl.graph.splits import Splits
from decentrl.nn.aggregate import gather
from decentrl.nn.all_answers import take_root
from decentrl.nn.decoders import make_decoder
from decentrl.nn.distillation import SelfDistillation
from decentrl.nn.running import ByteDropout, eval_mode
from decentrl.scorers.base import Scorer
from decentrl.scorers.encoder import PredictionEncoder
from decentrl.scorers.learning import DecoderObjective
from decentrl.scorers.registry import encoder_type
from decentrl.views.base import INPUTS, STATES, Attention, Objective, Rows
from decentrl.views.part import Part

SCALE = 20.0
"""Of the scores of vectors of length 1, before training."""


class PredictionModel(Scorer):
    """Entity vectors x from their neighbours, and a decoder over them.

    x = W g, where g is what the encoder makes of the neighbours. With ``model.own`` the entity's
    own embedding takes part where it was trained: x = W g + e (``add``) or [g ‖ e]
    (``concatenate``); for an entity that arrived later e is 0. Answers are compared by the same x,
    so that a new entity can be one, or by a table of their own (``model.output="table"``).
    """

    def __init__(self, n_entities: int, n_relations: int, config: PredictionConfig) -> None:
        super().__init__(n_entities, n_relations, config)
        model, distillation = config.model, config.distillation
        self.distillation = self.project = self.own = self.table = None
        self.made, width = config.made, config.width
        self.encoder: PredictionEncoder = encoder_type(model.encoder)(
            config, n_entities, n_relations
        )
        if self.made and distillation.variant != "none" and distillation.weight:
            self.distillation = SelfDistillation(self.made, model.dim, distillation.variant)
        self.beside = bool(self.made) and model.own == "concatenate"
        joined = self.made + model.dim if self.beside else self.made
        if self.made and joined != width:
            self.project = nn.Linear(joined, width, bias=False)
            if model.own == "add":  # embeddings are small at first and must not be drowned
                nn.init.zeros_(self.project.weight)
        if model.own != "off" or not self.made:
            self.own = nn.Parameter(torch.empty(n_entities, model.dim if self.beside else width))
            nn.init.normal_(self.own, std=width**-0.5)
        if model.output == "table":
            self.table = nn.Parameter(torch.empty(n_entities, width))
            nn.init.normal_(self.table, std=width**-0.5)
        self.dropout = ByteDropout(model.dropout)
        self.question_dropout = ByteDropout(config.decoder.dropout)
        self.decoder = make_decoder(config.decoder, n_relations, width)
        self.encoder.attach(self.decoder)
        # Lengths are 1, so scores need a scale: the scale of questions, learned as a logarithm.
        start = SCALE if config.decoder.normalise else 1.0
        self.log_scale = nn.Parameter(torch.tensor(start).log())
        self.log_scale.requires_grad_(config.decoder.normalise)
        self.register_state_dict_post_hook(_store_encoder)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_find_encoder)  # type: ignore[no-untyped-call]
        self.encoder_parts = [self.encoder, self.project]  # learn at training.encoder_rate
        self.width, self.memories, self.reach = width, self.encoder.memories, self.encoder.reach
        tables = [self.encoder.stored_as + name for name in self.encoder.entity_tables]
        self.without_rows = ("own", "table", *tables)

    def read(self, triples: Ids, trained_on: Ids, device: torch.device) -> Any:
        sizes = self.n_entities, self.n_relations
        return self.encoder.read(triples, trained_on, *sizes, device)

    def objective(self, triples: Ids, view: Any, valid: Ids) -> Objective:
        return DecoderObjective(self, triples, view, self.n_relations)

    def encode(self, view: Any, kept: tuple[Tensor, ...] | None = None) -> Tensor:
        """g of every entity: [n_entities, made]."""
        g: Tensor = self.encoder(view, self.encoder.embeddings, kept)[0]
        return g

    def vectors(self, view: Any, g: Tensor) -> Tensor:
        """x of every entity, from what the encoder made: [n_entities, width]."""
        own = None
        if self.own is not None:
            own = self.own * view.seen.to(torch.float32)[:, None]
        return self._join(g, own)

    def _join(self, x: Tensor, own: Tensor | None) -> Tensor:
        if self.beside and own is not None:
            x, own = torch.cat((x, own), 1), None
        if self.project is not None:
            x = self.project(x)
        if own is not None:
            x = x + own if self.made else own
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

    @torch.no_grad()
    def rows(self, view: Any) -> Rows:
        """x of every entity with dropout off, and what newcomers will read of it."""
        with eval_mode(self):
            inputs = self.encoder.embeddings.detach()
            g, states = self.encoder(view, inputs)
            vectors = self.vectors(view, g)
        if not self.encoder.memories:
            return Rows(vectors)
        inputs = torch.where(view.seen[:, None], inputs, 0)
        return Rows(vectors, {STATES: torch.cat(states, 1), INPUTS: inputs})

    @torch.no_grad()
    def newcomers(self, part: Part) -> Rows:
        """:meth:`rows` of a part, in which entities that are not new stay as they are."""
        with eval_mode(self):
            g, states = self.encoder.newcomers(part)
            # What came later has no embedding of its own.
            own = None if self.own is None else g.new_zeros(len(g), self.own.shape[1])
            vectors = self._join(g, own)
        if not self.encoder.memories:
            return Rows(vectors)
        return Rows(vectors, {STATES: torch.cat(states, 1), INPUTS: part.memory(INPUTS)})

    @torch.no_grad()
    def attentions(self, part: Part) -> list[Attention]:
        """Which neighbours the new vectors of a part are made of."""
        with eval_mode(self):
            return self.encoder.attentions(part)

    def ground_of(self, view: Any) -> Tensor:
        return self.rows(view).vectors

    def unknown(self, ground: Tensor, splits: Splits) -> tuple[Tensor, Tensor]:
        """Those without a vector; of a table the rows that were never trained are no answer."""
        none = ground.abs().amax(1) == 0
        if self.table is None:
            return none, none
        return none, torch.from_numpy(~splits.seen).to(ground.device)

    @torch.no_grad()
    def relation_scores(self, ground: Tensor, heads: Tensor, tails: Tensor) -> Tensor:
        with eval_mode(self):
            answers = self.answers(ground)
            scores = self.decoder.score_relations(ground[heads], answers[tails])
            return scores[:, : self.n_relations] * self.log_scale.exp()

    def grown_row(self, name: str, rows: Tensor, fresh: bool) -> Tensor:
        # An entity that came later has no embedding of its own beside what is made of it.
        return super().grown_row(name, rows, fresh and not (name == "own" and self.made))

    @torch.no_grad()
    def scores(self, ground: Tensor, entities: Tensor, relations: Tensor) -> Tensor:
        """Scores of all answers up to a constant of the question, with dropout off: [b, n].

        With ``loss.root`` distances, as in training: confidences are fitted to these.
        """
        with eval_mode(self):
            answers = self.answers(ground)
            bias, asked = self.bias(answers), self.questions(ground, entities, relations)
            scores = asked @ answers.t()
            if bias is not None:
                scores += bias
            if self.config.loss.root:
                offset = self.offset(asked)
                assert offset is not None  # these decoders measure distances
                take_root(scores.add_(offset[:, None]))
            return scores


def make_scorer(n_entities: int, n_relations: int, config: PredictionConfig) -> Scorer:
    """What answers questions by these settings: a scorer, or an encoder under a decoder."""
    kind = encoder_type(config.model.encoder)
    if issubclass(kind, Scorer):
        made: Scorer = kind(n_entities, n_relations, config)
        return made
    return PredictionModel(n_entities, n_relations, config)


def _store_encoder(model: PredictionModel, state: dict[str, Any], prefix: str, _: Any) -> None:
    """Give the encoder's weights the names that they have in a bundle."""
    own = prefix + "encoder."
    for name in [name for name in state if name.startswith(own)]:
        state[prefix + model.encoder.stored_as + name.removeprefix(own)] = state.pop(name)


def _find_encoder(model: PredictionModel, state: dict[str, Any], prefix: str, *_: Any) -> None:
    """The inverse of :func:`_store_encoder`."""
    for name in model.encoder.state_dict():
        stored = prefix + model.encoder.stored_as + name
        if stored in state:
            state[f"{prefix}encoder.{name}"] = state.pop(stored)
