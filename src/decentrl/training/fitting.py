"""From two graphs and links to vectors: train, choose on held-out links, train again on all.

A training is a *pass*: the encoder learns from the links, then, round by round, also from the
links it has found. The first pass leaves the validation links out and tells how many rounds are
best and how sure a match is; with ``training.refit`` a second pass uses every link.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.config import Config
from decentrl.errors import DecentRLError, InputError
from decentrl.evaluation.ranks import Ranks
from decentrl.graph.adjacency import Ids
from decentrl.graph.merged import MergedGraph
from decentrl.graph.relational import PropagationView
from decentrl.graph.view import entities_of
from decentrl.matching.confidence import Confidence
from decentrl.nn.alignment import AlignmentModel
from decentrl.nn.counterparts import WIDTH as COUNTERPART
from decentrl.nn.counterparts import tell_counterparts
from decentrl.nn.propagation import SeedPropagation, same_relations
from decentrl.nn.relational import RelationalModel, mean_length, unit_rows
from decentrl.nn.rivals.centralised import CentralisedModel
from decentrl.nn.rivals.translational import TranslationalModel
from decentrl.training.alignment import AlignmentObjective
from decentrl.training.centralised import CentralisedObjective
from decentrl.training.encoders import MODELS, Model, read_graph, reads_links
from decentrl.training.loop import Row, train
from decentrl.training.relational import RelationalObjective
from decentrl.training.translational import TranslationalObjective
from decentrl.training.unlinked import (
    Unlinked,
    found_links,
    held_out_ranks,
    in_short,
    learn_confidence,
    worth_keeping,
)

AnyObjective = (
    AlignmentObjective | RelationalObjective | CentralisedObjective | TranslationalObjective
)


@dataclass(frozen=True, eq=False)
class Fitted:
    """What training leaves.

    Attributes:
        vectors: of all entities, [n_entities, d].
        weights: of the encoder; empty if there is none.
        history: a row an epoch.
        rounds: validation metrics of every round that was tried; round 0 is without self-training.
        chosen: how many rounds of self-training the vectors have had.
        found: the links that self-training added, int64[n, 2] in merged ids.
        sure: how sure every entity can be of having a counterpart, where vectors tell of it.
        confidence: None without validation links.
    """

    vectors: Tensor
    weights: dict[str, Tensor]
    history: list[Row]
    rounds: list[dict[str, float]]
    chosen: int
    found: Ids
    sure: Tensor | None
    confidence: Confidence | None


@dataclass(eq=False)
class TrainingContext:
    """The graphs as encoders read them, and how a run goes on; shared by all passes.

    Args:
        known: the graph and links known in training.
        now: the graph that vectors are asked of; more may have arrived.
        warm: weights to start from, instead of random ones.
        sure: how sure entities could be of a counterpart when these were trained; negative for
            those that have come since.
    """

    known: MergedGraph
    now: MergedGraph
    config: Config
    device: torch.device
    run: Path | None = None
    resume: bool = False
    on_epoch: Callable[[Row], None] | None = None
    warm: Mapping[str, Tensor] | None = None
    sure: Tensor | None = None
    history: list[Row] = field(default_factory=list)

    @cached_property
    def seen(self) -> Ids:
        """The entities that have a triple in training."""
        return np.flatnonzero(entities_of(self.known.triples(), self.known.n_entities))

    @cached_property
    def _views(self) -> dict[str, Any]:
        return self._make_views(self.known.links)

    def views(self, links: Ids) -> dict[str, Any]:
        """What the encoder reads of the ``known`` graph and of the one there is ``now``."""
        if reads_links(self.config.model) and len(links) != len(self.known.links):
            return self._make_views(links)
        return self._views

    def _make_views(self, links: Ids) -> dict[str, Any]:
        def read(graph: MergedGraph) -> Any:
            seen = replace(graph, links=links)
            return read_graph(seen, self.known, self.config.model, self.device)

        known = read(self.known)
        return {"known": known, "now": known if self.closed else read(self.now)}

    @cached_property
    def propagation_views(self) -> dict[str, PropagationView]:
        known = self.known.propagation_view(self.device)
        now = known if self.closed else self.now.propagation_view(self.device)
        return {"known": known, "now": now}

    @property
    def closed(self) -> bool:
        return self.now is self.known


class Pass:
    """One training from scratch: :meth:`start`, then any number of :meth:`self_training_round`.

    Args:
        links: known links, int64[n, 2] in merged ids.
        valid: links to watch while training; may be empty.
        name: names the stages of this pass; the first pass has none.
    """

    def __init__(self, world: TrainingContext, links: Ids, valid: Ids, name: str = "") -> None:
        self.world, self.links, self.valid, self.name = world, links, valid, name
        self.views = world.views(links) if world.config.model.encoder != "none" else {}
        self.found = np.empty((0, 2), np.int64)
        self.sure: Tensor | None = None
        self.round = 0
        self.model: Model | None = None

    def start(self) -> None:
        config = self.world.config
        torch.manual_seed(config.seed)
        self.model = self._new_model()
        if self.model is not None and self.world.warm is not None:
            self.model.load_state_dict(dict(self.world.warm))
        self._train(config.training.epochs)

    def _new_model(self) -> Model | None:
        config, known = self.world.config, self.world.known
        kind = MODELS.get(config.model.encoder)
        if kind is None:
            return None
        sizes = known.n_entities, known.n_relations
        return kind(*sizes, config.model, config.distillation).to(self.world.device)

    def self_training_round(self) -> None:
        """One round of self-training: links found among the unlinked entities count as known."""
        world, settings = self.world, self.world.config.self_training
        pool = self.unlinked(world.seen)
        vectors = self.vectors("known", told=False)  # who was matched wrongly is free again
        seed = _mixed(world.config.seed, self.round)
        matched = found_links(vectors, pool, settings.mass, world.config.matching, seed)
        self.found = matched.links
        if self.sure is None:
            self.sure = self._sureness(matched.mass)
        self.round += 1
        torch.manual_seed(_mixed(world.config.seed, self.round))
        self._train(settings.epochs)

    def _sureness(self, mass: Tensor) -> Tensor:
        """How sure entities can be of a counterpart, by the masses before anything was found.

        Later rounds believe what was found, and so does an encoder that has learned from it
        before: of whom it was known then, that counts.
        """
        world, sure = self.world, mass**2
        if world.sure is not None:
            before = world.sure.to(sure)
            sure = torch.where(before >= 0, before, sure)
        linked = np.intersect1d(self.links, world.seen)
        sure[torch.from_numpy(linked).to(sure.device)] = 1.0
        return sure

    def state(self) -> tuple[Ids, dict[str, Tensor], Tensor | None]:
        """The links found so far, a copy of the weights, and who can be sure of a counterpart."""
        weights = {} if self.model is None else self.model.state_dict()
        return self.found, {name: tensor.clone() for name, tensor in weights.items()}, self.sure

    def restore(self, found: Ids, weights: dict[str, Tensor], sure: Tensor | None) -> None:
        """Go back to a :meth:`state`, also to one that another process has left."""
        self.found, self.sure = found, sure
        if self.model is None:
            self.model = self._new_model()
        if self.model is not None:
            self.model.load_state_dict(weights)

    def unlinked(self, among: Ids | None = None) -> Unlinked:
        """Entities that no known link has taken, and those of the validation links."""
        known = self.world.known
        unlinked = Unlinked.of(known.n_left, known.n_entities, self.links, self.valid)
        if among is None:
            return unlinked
        return Unlinked(np.intersect1d(unlinked.left, among), np.intersect1d(unlinked.right, among))

    def vectors(
        self, when: str, memory: dict[str, Tensor] | None = None, told: bool = True
    ) -> Tensor:
        """Every entity's vector over the ``known`` graph or the one there is ``now``.

        Args:
            told: with who has a counterpart, if any were found.
            memory: gets what entities that come later will read of all others: the encoder's
                ``states`` and ``inputs`` and ``propagation`` (a row an entity each), the
                ``relations`` of that, and the mean ``length`` of trained inputs.
        """
        weight = self.world.config.self_training.told
        sure = self.sure if told and weight and len(self.found) else None
        vectors = self._vectors(when, memory, 0 if sure is None else COUNTERPART)
        if sure is not None:
            tell_counterparts(vectors, sure.to(vectors), weight)
        if not vectors.isfinite().all():
            raise DecentRLError("the trained vectors are not finite; lower training.learning_rate")
        return vectors

    def _encoded(self, when: str, memory: dict[str, Tensor] | None) -> Tensor | None:
        if self.model is None:
            return None
        if isinstance(self.model, AlignmentModel):
            encoded, layers = self.model.encode_with_states(self.views[when])
            if memory is not None:
                memory["states"] = torch.cat(layers, 1)
                seen = self.views[when].seen
                memory["inputs"] = torch.where(seen[:, None], self.model.entities.detach(), 0)
            return encoded
        if not isinstance(self.model, RelationalModel):
            return self.model.encode(self.views[when])
        states, inputs = self.model.states(self.views[when])
        if memory is not None:
            memory["states"], memory["inputs"] = states.clone(), inputs
            memory["length"] = mean_length(inputs[self.views[when].seen]).reshape(1)
        return unit_rows(states)

    def _vectors(self, when: str, memory: dict[str, Tensor] | None, more: int) -> Tensor:
        """Both views of every entity, and room for so many coordinates more."""
        settings = self.world.config.propagation
        encoded = self._encoded(when, memory)
        if encoded is not None and not settings.weight:
            return F.pad(encoded, (0, more)) if more else encoded
        propagation = self.propagation(when)
        if memory is not None:
            memory["propagation"] = propagation.entities
            memory["relations"] = propagation.relations
        width = 0 if encoded is None else encoded.shape[1]
        features = settings.relation_dim * settings.width
        size = len(propagation.entities), width + features + more
        vectors = propagation.entities.new_empty(size)
        place = vectors[:, width : width + features]
        part = propagation.features(settings.relation_dim, settings.width, place)
        if encoded is not None:
            # So the cosine is the weighted mean of the two views' cosines.
            part.mul_(settings.weight**0.5)
            torch.mul(encoded, (1 - settings.weight) ** 0.5, out=vectors[:, :width])
        return vectors

    def propagation(self, when: str) -> SeedPropagation:
        """Seeds travelled from all links over a graph."""
        world, settings = self.world, self.world.config.propagation
        when = "known" if world.closed else when
        links = torch.from_numpy(np.concatenate((self.links, self.found)))
        return SeedPropagation(
            world.propagation_views[when],
            links,
            dim=settings.dim,
            rounds=settings.rounds,
            seed=world.config.seed,
        )

    def _train(self, epochs: int) -> None:
        world, training = self.world, self.world.config.training
        if self.model is None:
            return
        seed = world.config.seed
        world.history += train(
            self._objective(self.model),
            replace(training, epochs=epochs),
            _mixed(seed, self.round) if self.round else seed,
            run=world.run,
            resume=world.resume,
            on_epoch=world.on_epoch,
            stage=f"{self.name or 'train'}-{self.round}" if self.name or self.round else "",
            before=world.history,
            warm=world.warm is not None and not self.round,
        )

    def _objective(self, model: Model) -> AnyObjective:
        world, config = self.world, self.world.config
        links, view = np.concatenate((self.links, self.found)), self.views["known"]
        watched = self.valid, self.unlinked(np.union1d(world.seen, self.valid))
        objective: AnyObjective
        if isinstance(model, RelationalModel):
            if config.model.same_relations <= 1:
                features, n_left = self.propagation("known").relations, world.known.n_left_relations
                shared = same_relations(features, n_left, config.model.same_relations)
                model.encoder.representative.copy_(shared)
            objective = RelationalObjective(model, links, view, config)
        elif isinstance(model, TranslationalModel):
            objective = TranslationalObjective(model, links, view, *watched, config)
        else:
            centralised = isinstance(model, CentralisedModel)
            kind = CentralisedObjective if centralised else AlignmentObjective
            objective = kind(model, links, world.known.n_left, view, *watched, config)
        if not len(objective.links):
            raise InputError(
                "no training link joins two entities that have triples",
                remedy="check that the links are about these graphs",
            )
        return objective


def planned_epochs(config: Config, validated: bool) -> int:
    """How many epochs a training has at most, in all its passes and rounds."""
    if config.model.encoder == "none":
        return 0
    more = config.self_training.rounds * config.self_training.epochs
    passes = 2 if validated and config.training.refit else 1
    return passes * (config.training.epochs + more)


def fit_alignment(world: TrainingContext, valid: Ids) -> Fitted:
    """Train as the settings say.

    Args:
        valid: held-out links, int64[n, 2] in merged ids; may be empty.
    """
    config = world.config
    if world.run is not None and not world.resume:
        shutil.rmtree(world.run / "checkpoint", ignore_errors=True)
    first = Pass(world, world.known.links, valid)
    first.start()
    rounds: list[dict[str, float]] = []
    final, chosen, confidence = first, config.self_training.rounds, None
    if not len(valid):
        for _ in range(chosen):
            first.self_training_round()
    else:
        chosen, rounds, confidence = _choose(first)
        if config.training.refit:
            final = Pass(world, np.concatenate((first.links, valid)), valid[:0], "refit")
            final.start()
            for _ in range(chosen):
                final.self_training_round()
    vectors = final.vectors("now")
    weights = {} if final.model is None else final.model.state_dict()
    sure = final.sure if config.self_training.told and len(final.found) else None
    return Fitted(vectors, weights, world.history, rounds, chosen, final.found, sure, confidence)


def _choose(first: Pass) -> tuple[int, list[dict[str, float]], Confidence]:
    """Try rounds of self-training and leave the pass in the state of the one chosen.

    That is the last round that is not clearly worse than the best one before it, and not worse
    than none at all. By MRR, which is steadier than Hits@1 on a few hundred links.
    """
    config = first.world.config
    # Who has not arrived is nobody's counterpart yet.
    unlinked = first.unlinked(np.union1d(first.world.seen, first.valid))
    rounds: list[dict[str, float]] = []
    best: Ranks | None = None
    for number in range(config.self_training.rounds + 1):
        if number:
            first.self_training_round()
        vectors = first.vectors("known")
        ranks = held_out_ranks(vectors, unlinked, first.valid, config.matching)
        rounds.append(in_short(ranks))
        mrr = [row["mrr"] for row in rounds]
        if best is None or (mrr[-1] >= mrr[0] and worth_keeping(ranks, best)):
            chosen, kept = number, first.state()
            confidence = learn_confidence(
                vectors, unlinked, first.valid, config.matching, config.seed
            )
        if best is None or mrr[-1] == max(mrr):
            best = ranks
    first.restore(*kept)
    return chosen, rounds, confidence


def _mixed(seed: int, number: int) -> int:
    """Another seed for each round."""
    return int(np.random.SeedSequence((seed, number)).generate_state(1, np.uint64)[0] >> 1)
