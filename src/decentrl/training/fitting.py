"""From two graphs and links to vectors: train, choose on held-out links, train again on all.

A training is a *pass*: the views learn from the links, then, round by round, also from the links
they have found. The first pass leaves the validation links out; on these the number of rounds is
chosen and confidence is fitted. With ``training.refit`` a second pass uses every link.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from decentrl.config import Config
from decentrl.errors import DivergedError, InputError
from decentrl.evaluation.metrics import summary
from decentrl.evaluation.ranks import Ranks
from decentrl.graph.adjacency import Ids
from decentrl.graph.merged import MergedGraph
from decentrl.graph.view import entities_of
from decentrl.matching.confidence import Confidence
from decentrl.matching.matchers import field_matcher
from decentrl.nn.running import all_finite
from decentrl.training.loop import Row, train
from decentrl.training.names import (
    ITERATIONS,
    MOST_SURE,
    SURE,
    best_name_weights,
    doubted_names,
    same_names,
    settled_names,
)
from decentrl.training.unlinked import (
    VALIDATED,
    Unlinked,
    found_links,
    held_out_ranks,
    learn_confidence,
    worth_keeping,
)
from decentrl.views.base import Rows, TrainingData
from decentrl.views.fused import FusedViews, Structures
from decentrl.views.text import PAIRS, NameView, texts_of

NO_LINKS: Ids = np.empty((0, 2), np.int64)
FEWEST_NAMED = 10  # links of entities with names or attributes that weights are chosen by
LEAST_ROUNDS = 2  # of self-training after a start without links


@dataclass(frozen=True, eq=False)
class Fitted:
    """What training leaves."""

    vectors: Tensor  # of all entities, [n_entities, d]
    weights: dict[str, Tensor]  # of the encoder; empty if there is none
    history: list[Row]  # a row an epoch
    rounds: list[dict[str, float]]  # validation metrics of each round tried; the first has none
    chosen: int  # how many rounds of self-training the vectors have had
    found: Ids  # the links that self-training added, int64[n, 2] in merged ids
    confidence: Confidence | None  # None without validation links
    config: Config  # with what was chosen on validation links
    started: Ids  # links by names that a training without known links began with
    first: tuple[Ids, dict[str, Tensor]] | None  # found links and weights without held-out links


@dataclass(eq=False)
class TrainingContext:
    """The graphs, the settings, and where a run keeps its files; shared by all passes."""

    known: MergedGraph  # the graph and links known in training
    now: MergedGraph  # the graph that vectors are made of; more may have arrived
    config: Config
    device: torch.device
    run: Path | None = None
    resume: bool = False
    on_epoch: Callable[[Row], None] | None = None
    warm: Mapping[str, Tensor] | None = None  # weights to start from, instead of random ones
    rejected: Ids = field(default_factory=NO_LINKS.copy)  # pairs that self-training never takes
    history: list[Row] = field(default_factory=list)

    @cached_property
    def seen(self) -> Ids:
        """The entities that have a triple in training."""
        return np.flatnonzero(entities_of(self.known.triples(), self.known.n_entities))

    @cached_property
    def structures(self) -> dict[str, Structures]:
        """What views read of the ``known`` graph and of the one there is ``now``."""
        return self.structures_of(self.known.links)

    def not_rejected(self, links: Ids) -> Ids:
        """Those of some links that are not among the rejected pairs."""
        size = self.known.n_entities
        keys, gone = (x[:, 0] * size + x[:, 1] for x in (links, self.rejected))
        return np.asarray(links[~np.isin(keys, gone)])

    def structures_of(self, links: Ids) -> dict[str, Structures]:
        """The same, with given links."""

        def read(graph: MergedGraph) -> Structures:
            return Structures(replace(graph, links=links), self.known, self.device)

        known = read(self.known)
        return {"known": known, "now": known if self.now is self.known else read(self.now)}


class Pass:
    """One training from scratch: :meth:`start`, then any number of :meth:`self_training_round`.

    Args:
        links: known links, int64[n, 2] in merged ids.
        valid: links to validate on; may be empty.
        name: names the stages of this pass; the first pass has none.
    """

    def __init__(self, context: TrainingContext, links: Ids, valid: Ids, name: str = "") -> None:
        self.context, self.links, self.valid, self.name = context, links, valid, name
        self.found = NO_LINKS
        self.round = 0

    @cached_property
    def views(self) -> FusedViews:
        """The views with random weights, made when first asked for."""
        known = self.context.known
        views = FusedViews(self.context.config, known.n_entities, known.n_relations)
        if views.encoder is not None:
            views.encoder.to(self.context.device)
        return views

    @cached_property
    def structures(self) -> dict[str, Structures]:
        """What the views read; shared with other passes where that does not depend on links."""
        context, encoder = self.context, self.views.encoder
        reads_links = encoder is not None and encoder.reads_links
        if reads_links and len(self.links) != len(context.known.links):
            return context.structures_of(self.links)
        return context.structures

    def start(self, rounds: int = 0) -> None:
        """Make the views and train them on the known links, then so many rounds further."""
        config = self.context.config
        torch.manual_seed(config.seed)
        views = self.views  # made now: random weights are the first that are drawn
        if self.context.warm is not None:
            views.load(self.context.warm)
        self._train(config.training.epochs)
        for _ in range(rounds):
            self.self_training_round()

    def self_training_round(self) -> None:
        """Train on, with links found among the unlinked entities as if they were known."""
        context, settings = self.context, self.context.config.self_training
        pool = self.unlinked(context.seen)
        vectors = self.vectors("known")
        seed = _mixed(context.config.seed, self.round + 1)
        found = found_links(vectors, pool, settings.mass, context.config.matching, seed)
        self.found = context.not_rejected(found)
        self.round += 1
        torch.manual_seed(seed)
        self._train(settings.epochs)

    def weights(self) -> dict[str, Tensor]:
        """The encoder's weights; empty without one."""
        encoder = self.views.encoder
        return {} if encoder is None else dict(encoder.state_dict())

    def state(self) -> tuple[Ids, dict[str, Tensor]]:
        """The links found so far and a copy of the weights."""
        weights = {name: tensor.clone() for name, tensor in self.weights().items()}
        return self.found, weights

    def restore(self, found: Ids, weights: Mapping[str, Tensor]) -> None:
        """Go back to a :meth:`state`, also to one that another process has left."""
        self.found = found
        self.views.load(weights)

    def unlinked(self, among: Ids) -> Unlinked:
        """Those of some entities that no known link has taken, and those of validation links."""
        return Unlinked.of(self.context.known.n_left, self.links, self.valid, among)

    def vectors(self, when: str) -> Tensor:
        """Every entity's vector over the ``known`` graph or the one there is ``now``."""
        vectors = self.views.encode(self.structures[when], self.all_links())
        if not all_finite(vectors):
            raise DivergedError("the trained vectors are not finite")
        return vectors

    def memory(self, when: str) -> Rows:
        """What newcomers read of all entities."""
        return self.views.memory(self.structures[when], self.all_links())

    def all_links(self) -> Tensor:
        """The links known and found, int64[n, 2]."""
        return torch.from_numpy(np.concatenate((self.links, self.found)))

    def _train(self, epochs: int) -> None:
        """Train the encoder, if there is one that learns, on the links known and found."""
        context, views, structures = self.context, self.views, self.structures["known"]
        if views.encoder is None:
            return
        links = np.concatenate((self.links, self.found))

        def relation_features() -> Tensor:
            return views.seeds.relation_features(structures.of(views.seeds), self.all_links())

        data = TrainingData(context.known, links, relation_features)
        objective = views.encoder.objective(structures.of(views.encoder), data)
        if objective is None:
            return
        if not np.isin(links, context.seen).all(axis=1).any():
            raise InputError(
                "no training link joins two entities that have triples",
                remedy="check that the links are about these graphs",
            )
        seed = context.config.seed
        context.history += train(
            objective,
            replace(context.config.training, epochs=epochs),
            _mixed(seed, self.round) if self.round else seed,
            validate=self.validate,
            run=context.run,
            resume=context.resume,
            on_epoch=context.on_epoch,
            stage=f"{self.name or 'train'}-{self.round}" if self.name or self.round else "",
            before=context.history,
            warm=context.warm is not None and not self.round,
        )

    def validate(self) -> dict[str, float] | None:
        """Hits@1, Hits@10 and MRR of the held-out links, left to right, by the encoder alone."""
        context, encoder = self.context, self.views.encoder
        if encoder is None or not len(self.valid) or not context.config.training.validates:
            return None
        pool = self.unlinked(np.union1d(context.seen, self.valid))
        vectors = encoder.encode(self.structures["known"].of(encoder), self.all_links()).vectors
        ranks = held_out_ranks(vectors, pool, self.valid, context.config.matching)
        return summary(ranks, VALIDATED)


def planned_epochs(config: Config, validated: bool) -> int:
    """How many epochs a training has at most, in all its passes and rounds."""
    if not config.training.epochs:
        return 0
    more = config.self_training.rounds * config.self_training.epochs
    passes = 2 if validated and config.training.refit else 1
    return int(passes * (config.training.epochs + more))


def fit_alignment(context: TrainingContext, valid: Ids) -> Fitted:
    """Train as the settings say.

    Args:
        valid: held-out links, int64[n, 2] in merged ids; may be empty.
    """
    if context.config.names.weight > 0:
        texts_of(context.known)  # an error now, not after training
    first = final = Pass(context, context.known.links, valid)
    rounds: list[dict[str, float]] = []
    chosen, confidence, started = context.config.self_training.rounds, None, NO_LINKS
    state = None
    if not len(first.links):
        first.found = started = context.not_rejected(_links_by_names(context))
        chosen = max(chosen, LEAST_ROUNDS)
    if not len(valid):
        first.start()
        context.config = _weigh_names(first)
        first.views.weigh(context.config)
        for _ in range(chosen):
            first.self_training_round()
    else:
        first.start()
        context.config = _weigh_names(first)
        first.views.weigh(context.config)
        chosen, rounds, confidence = _choose(first)
        state = first.state()
        if context.config.training.refit:
            final = Pass(context, np.concatenate((first.links, valid)), valid[:0], "refit")
            final.start(chosen)
    return Fitted(
        final.vectors("now"),
        final.weights(),
        context.history,
        rounds,
        chosen,
        final.found,
        confidence,
        context.config,
        started,
        state,
    )


def _links_by_names(context: TrainingContext) -> Ids:
    """Links to start from where none is known: pairs of names that are surely the same."""
    if context.known.texts is None:
        unread = context.config.names.weight == 0
        raise InputError(
            "there is no training link, and the settings give names no weight"
            if unread
            else "there is no training link, and not both graphs have names to start from",
            remedy=f"give links, or {'another names.weight' if unread else 'names of both graphs'}",
        )
    names = replace(context.config.names, translation=0.0)
    view = NameView(replace(context.config, names=names))
    structure = context.structures["known"].of(view)
    pool = Unlinked.of(context.known.n_left, NO_LINKS, NO_LINKS, context.seen)
    links = same_names(view.encode(structure, torch.from_numpy(NO_LINKS)).vectors, pool)
    # The first links show which attributes mean the same, and with these there are more links.
    made = view.encode(structure, torch.from_numpy(links))
    if PAIRS in made.shared:
        links = same_names(made.vectors, pool)
    if not len(links):
        raise InputError("no two names are alike enough to start from", remedy="give some links")
    return links


def _weigh_names(first: Pass) -> Config:
    """The settings with the weights of names that suit the held-out links best.

    With too few of these the usual weights, or a smaller one if names contradict structure.
    """
    context, config = first.context, first.context.config
    settings = settled_names(config, context.known.texts is not None)
    if settings.names.weight == 0 or (config.names.weight >= 0 and config.names.translation >= 0):
        return settings
    valid = _named(context, first.valid)
    chosen = config.names.weight >= 0 or not len(first.links)
    if len(valid) < FEWEST_NAMED and chosen:
        return settings
    structure = first.structures["known"].of(NameView(settings))

    def names(share: float) -> Tensor:
        view = NameView(replace(config, names=replace(settings.names, translation=share)))
        return view.encode(structure, first.all_links()).vectors

    first.views.weigh(replace(config, names=replace(config.names, weight=0.0)))
    others = first.vectors("known")
    unlinked = first.unlinked(np.union1d(context.seen, first.valid))
    if len(valid) >= FEWEST_NAMED:
        return best_name_weights(config, others, (names(0.0), names(1.0)), unlinked, valid)
    matching = replace(config.matching, iterations=ITERATIONS)
    sure = _named(context, found_links(others, unlinked, SURE, matching, config.seed))
    if len(sure) < FEWEST_NAMED:
        return settings
    sure = np.random.default_rng(config.seed).permutation(sure)[:MOST_SURE]
    return doubted_names(settings, names(settings.names.translation), unlinked, sure)


def _named(context: TrainingContext, links: Ids) -> Ids:
    """Those of some links whose two ends have names or attributes."""
    texts = context.known.texts
    assert texts is not None
    ends = links - np.array([0, context.known.n_left])
    named: Ids = links[texts[0].there()[ends[:, 0]] & texts[1].there()[ends[:, 1]]]
    return named


def _choose(first: Pass) -> tuple[int, list[dict[str, float]], Confidence]:
    """Try rounds of self-training and leave the pass in the state of the one chosen.

    That is the last round that is not clearly worse than the best one before it, and not worse
    than none at all. By MRR, which is steadier than Hits@1 on a few hundred links.
    """
    config = first.context.config
    # Rounds take pairs by Sinkhorn, so they are compared by it where the settings leave that open.
    matching = config.matching
    ranked = replace(matching, matcher=field_matcher(matching.matcher))
    # Entities that have not arrived cannot be counterparts yet.
    unlinked = first.unlinked(np.union1d(first.context.seen, first.valid))
    rounds: list[dict[str, float]] = []
    best: Ranks | None = None
    for number in range(config.self_training.rounds + 1):
        if number:
            first.self_training_round()
        vectors = first.vectors("known")
        cosine = unlinked.candidates(vectors, matching)
        ranks = held_out_ranks(vectors, unlinked, first.valid, ranked, cosine)
        rounds.append(summary(ranks, VALIDATED))
        mrr = [row["mrr"] for row in rounds]
        if best is None or (mrr[-1] >= mrr[0] and worth_keeping(ranks, best)):
            chosen, kept = number, first.state()
            confidence = learn_confidence(
                vectors, unlinked, first.valid, matching, config.seed, cosine
            )
        if best is None or mrr[-1] == max(mrr):
            best = ranks
    first.restore(*kept)
    return chosen, rounds, confidence


def _mixed(seed: int, number: int) -> int:
    """Another seed for each round."""
    return int(np.random.SeedSequence((seed, number)).generate_state(1, np.uint64)[0] >> 1)
