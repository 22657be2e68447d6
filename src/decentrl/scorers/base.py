"""The interface of a scorer: a way to answer questions (h, r, ?) about a graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from decentrl.config import PredictionConfig
from decentrl.graph.adjacency import Ids
from decentrl.graph.splits import Splits
from decentrl.scorers.reasons import Path
from decentrl.views.base import Attention, Objective, Rows, load_weights
from decentrl.views.part import Part


class Stage(NamedTuple):
    """A stretch of training with settings of its own, of a scorer or a part of it.

    Attributes:
        name: in files and rows of metrics; empty where there is only one.
        model: what is validated meanwhile, over ``view``, which is what it reads.
        seed: of the order of training triples.
    """

    name: str
    objective: Any
    training: Any
    model: Scorer
    view: Any
    seed: int


class Scorer(nn.Module, ABC):
    """Scores every entity as the answer of a question.

    Relations of questions are directed: (?, r, t) is the question (t, n_relations + r, ?). What it
    answers from is its *ground*: vectors of all entities, or the graph itself. Training, storing,
    growing and the jobs know it by these methods alone.

    Attributes:
        width: of the vectors that it makes of entities; 0 if it makes none.
        memories: what newcomers read of other entities, the width of each by its name.
        reach: how many steps through new entities the effect of a new triple goes.
        without_rows: weights with a row for each entity, which newcomers lack.
    """

    width: int = 0
    memories: Mapping[str, int] = MappingProxyType({})
    reach: int = 0
    without_rows: tuple[str, ...] = ()

    def __init__(self, n_entities: int, n_relations: int, config: PredictionConfig) -> None:
        super().__init__()
        self.n_entities, self.n_relations, self.config = n_entities, n_relations, config
        self.distillation: Any = None

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next(self.parameters()).device

    # Training

    @abstractmethod
    def read(self, triples: Ids, trained_on: Ids, device: torch.device) -> Any:
        """What it reads of triples int64[n, 3], after training on others (often the same)."""

    @abstractmethod
    def objective(self, triples: Ids, view: Any, valid: Ids) -> Objective:
        """What training on these triples minimises.

        Args:
            view: what :meth:`read` returned of them.
            valid: held-out triples, int64[n, 3], by which choices may be made; may be empty.
        """

    def stages(self, triples: Ids, view: Any, valid: Ids, share: float) -> list[Stage]:
        """How it is trained, one stage after the other, for a share of the epochs."""
        training = self.config.with_epochs(share).training
        objective = self.objective(triples, view, valid)
        return [Stage("", objective, training, self, view, self.config.seed)]

    def settle(self, triples: Ids, view: Any, valid: Ids) -> None:
        """Choose what is left to choose by held-out triples, once it is trained."""

    # Answering

    @abstractmethod
    def ground_of(self, view: Any) -> Any:
        """What questions about a graph are answered from, with dropout off."""

    def ground(self, splits: Splits, vectors: Tensor, device: torch.device) -> Any:
        """The same of all triples there are now, whose entities have these vectors [n, width]."""
        return vectors

    @abstractmethod
    def scores(self, ground: Any, entities: Tensor, relations: Tensor) -> Tensor:
        """Scores of all answers up to a constant of the question, int64[b] each → [b, n]."""

    @abstractmethod
    def relation_scores(self, ground: Any, heads: Tensor, tails: Tensor) -> Tensor:
        """Scores of all relations from heads to tails, int64[b] each → [b, n_relations]."""

    @abstractmethod
    def unknown(self, ground: Any, splits: Splits) -> tuple[Tensor, Tensor]:
        """Entities that nothing can be asked about, and those that are no answer: bool[n] each."""

    def reasons(
        self, ground: Any, entity: int, relation: int, answer: int, top: int
    ) -> list[Path] | None:
        """The paths that made an answer likely, the best first; None if it reads no paths."""
        return None

    # Vectors of entities, and those of newcomers; a scorer without vectors needs none of these

    def rows(self, view: Any) -> Rows:
        """Vectors of all entities, and what newcomers will read of them."""
        return Rows(torch.zeros(self.n_entities, 0, device=self.device))

    def newcomers(self, part: Part) -> Rows:
        """:meth:`rows` of a part, in which entities that are not new stay as they are."""
        return Rows(torch.zeros(len(part.new), 0, device=part.device))

    def attentions(self, part: Part) -> list[Attention]:
        """Which neighbours the new vectors of a part are made of."""
        return []

    def load_frozen(self, weights: Mapping[str, Tensor]) -> None:
        """Load all weights but the tables with a row for each entity, which newcomers lack."""
        load_weights(self, weights, self.without_rows)

    def grown_row(self, name: str, rows: Tensor, fresh: bool) -> Tensor:
        """New rows of a weight with a row for each entity, where entities have arrived.

        Args:
            rows: what an untrained scorer has there.
            fresh: they are to be trained; otherwise they are not read.
        """
        return rows if fresh else torch.zeros_like(rows)
