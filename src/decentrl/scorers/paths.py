"""Answers by paths: what is reached from the entity of a question along edges that fit it."""

from __future__ import annotations

import time
from collections import defaultdict

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from decentrl.config import PredictionConfig
from decentrl.graph.adjacency import Ids
from decentrl.graph.messages import Hide, Hiding, Messages
from decentrl.graph.queries import Queries
from decentrl.graph.splits import Splits
from decentrl.nn.frontier import frontier_scores, frontier_slopes
from decentrl.nn.paths import PathNetwork
from decentrl.nn.running import eval_mode
from decentrl.scorers.base import Scorer, Stage
from decentrl.scorers.reasons import BEAM, Edge, Path, best_paths

CELLS = 2**23
"""Numbers in the state of all entities for a block of questions."""


class PathScorer(Scorer):
    """A :class:`~decentrl.nn.paths.PathNetwork` over the edges of a graph, or several.

    The log-probabilities of several networks (``model.members``) are averaged; they differ by how
    they begin, and by the order of what they learn from.

    It answers from the graph as it is, has no parameter of any entity, and no vector of one: an
    added triple counts at once, and entities that arrive are like all others.
    """

    def __init__(self, n_entities: int, n_relations: int, config: PredictionConfig) -> None:
        super().__init__(n_entities, n_relations, config)
        model = config.model
        made = (PathNetwork(model.dim, model.layers, 2 * n_relations) for _ in range(model.members))
        self.network, *more = made
        self.more = nn.ModuleList(more)

    def read(self, triples: Ids, trained_on: Ids, device: torch.device) -> Messages:
        return Messages.of_triples(triples, self.n_entities, self.n_relations, device)

    def objective(self, triples: Ids, view: Messages, valid: Ids) -> PathObjective:
        return PathObjective(self, triples, view, valid)

    def stages(self, triples: Ids, view: Messages, valid: Ids, share: float) -> list[Stage]:
        if not self.more:
            return super().stages(triples, view, valid, share)
        found = list[Stage]()
        for i, part in enumerate(self._members()):
            (stage,) = part.stages(triples, view, valid, share)
            # Far from the seeds that a user would give.
            found.append(stage._replace(name=f"{i + 1}", seed=stage.seed + i * 2**32))
        return found

    def _members(self) -> list[PathScorer]:
        """Each network as a scorer of its own."""
        config, found = self.config.with_setting("model.members=1"), list[PathScorer]()
        for network in (self.network, *self.more):
            found.append(PathScorer(self.n_entities, self.n_relations, config))
            found[-1].network = network
        return found

    def ground_of(self, view: Messages) -> Messages:
        return view

    def ground(self, splits: Splits, vectors: Tensor, device: torch.device) -> Messages:
        return self.read(splits.now, splits.train, device)

    def unknown(self, ground: Messages, splits: Splits) -> tuple[Tensor, Tensor]:
        """Those without an edge."""
        none = ground.groups.degrees() == 0
        return none, none

    @torch.no_grad()
    def scores(self, ground: Messages, entities: Tensor, relations: Tensor) -> Tensor:
        with eval_mode(self):
            size = self._block(ground)
            blocks = zip(torch.split(entities, size), torch.split(relations, size), strict=True)
            made = [self._averaged(ground, *block) for block in blocks]
        return torch.cat(made) if made else torch.zeros(0, ground.groups.n_rows)

    def _averaged(self, graph: Messages, entities: Tensor, relations: Tensor) -> Tensor:
        if not self.more:
            return self.propagated(graph, entities, relations)
        total = torch.zeros(len(entities), graph.groups.n_rows, device=entities.device)
        for network in (self.network, *self.more):
            total += self.propagated(graph, entities, relations, network).log_softmax(1)
        return total.div_(1 + len(self.more))

    def propagated(
        self,
        graph: Messages,
        entities: Tensor,
        relations: Tensor,
        network: PathNetwork | None = None,
    ) -> Tensor:
        """Scores of all entities, int64[b] each → [b, n]: along all edges, or by a frontier.

        Args:
            network: by default the first.
        """
        network = network or self.network
        if most := self.config.model.frontier:
            return frontier_scores(network, graph, entities, relations, most)
        scores: Tensor = network(graph, entities, relations)
        return scores

    @torch.no_grad()
    def relation_scores(self, ground: Messages, heads: Tensor, tails: Tensor) -> Tensor:
        """How likely each relation's question about the head has the tail as its answer."""
        n, found = self.n_relations, heads.new_zeros(len(heads), self.n_relations).float()
        every = torch.arange(n, device=heads.device)
        for i, (head, tail) in enumerate(zip(heads, tails, strict=True)):
            for block in torch.split(every, self._block(ground)):
                scores = self.scores(ground, head.expand(len(block)), block)
                found[i, block] = scores[:, tail] - scores.logsumexp(1)
        return found

    def reasons(
        self, ground: Messages, entity: int, relation: int, answer: int, top: int
    ) -> list[Path]:
        """The paths that an answer owes most to, without the triple that is asked for itself."""
        e, r, a = (np.array([i]) for i in (entity, relation, answer))
        graph = ground.keep(Hiding(ground, "triple").kept(e, r, a).to(self.device))
        shares: dict[tuple[Edge, ...], float] = defaultdict(float)
        with eval_mode(self):
            for network in (self.network, *self.more):
                for path in self._paths_of(network, graph, (entity, relation, answer)):
                    shares[path.edges] += path.share / (1 + len(self.more))
        best = sorted(shares, key=lambda edges: (-shares[edges], len(edges), edges))[:top]
        return [Path(edges, shares[edges]) for edges in best]

    def _paths_of(
        self, network: PathNetwork, graph: Messages, triple: tuple[int, int, int]
    ) -> list[Path]:
        """The paths that an answer owes something to in one network."""
        entity, relation, answer = triple
        head, kind = (torch.tensor([i], device=self.device) for i in (entity, relation))
        if not (most := self.config.model.frontier):
            slopes = network.slopes(graph, head, kind, answer)
            return best_paths(graph, slopes, entity, answer, BEAM)
        part, reached, slopes = frontier_slopes(network, graph, head, kind, answer, most)
        names = reached.tolist()
        if answer not in names:
            return []
        found = best_paths(part, slopes, names.index(entity), names.index(answer), BEAM)
        return [
            path._replace(edges=tuple((names[u], r, names[v]) for u, r, v in path.edges))
            for path in found
        ]

    def _block(self, ground: Messages) -> int:
        numbers: int = ground.groups.n_rows * self.config.model.dim
        return max(1, CELLS // max(1, numbers))


class PathObjective:
    """One answer of a question against all entities that are no other known answer of it.

    While a batch is learned, what joins its questions with their answers is hidden, and degrees
    are counted without it: a degree with a hidden edge in it would say where one is missing.

    Args:
        view: the edges of ``triples``, int64[n, 3].
        valid: held-out triples, by which ``auto`` chooses what to hide.
    """

    def __init__(self, model: PathScorer, triples: Ids, view: Messages, valid: Ids) -> None:
        self.model, self.view, self.config = model, view, model.config
        self.queries = Queries.of(triples, model.n_relations)
        how: Hide = self.config.model.hide
        if self.config.model.hide == "auto":
            how = what_to_hide(triples, valid)
        self.hiding = Hiding(view, how)
        sizes = self.queries.sizes
        self.entities = np.repeat(self.queries.entities, sizes)
        self.relations = np.repeat(self.queries.relations, sizes)
        self.unseen = view.groups.degrees() == 0

    def batches(self, rng: np.random.Generator) -> list[Ids]:
        """Places in ``queries.answers``: each is a triple in one of its two directions."""
        training, n = self.config.training, len(self.entities)
        most = -(-n // training.batch)
        steps = min(training.steps or most, most)
        order = rng.permutation(n)[: steps * training.batch]
        return [order[i : i + training.batch] for i in range(0, len(order), training.batch)]

    def seconds(self, epochs: int) -> float:
        """About how long so many epochs take, by two steps from which nothing is learned."""
        batches, rng = self.batches(np.random.default_rng(0)), np.random.default_rng(0)
        taken = 0.0
        for _ in range(2 if batches else 0):
            started = time.perf_counter()
            self.loss(batches[0], rng).backward()  # type: ignore[no-untyped-call]
            self.model.zero_grad(set_to_none=True)
            taken = time.perf_counter() - started
        return taken * len(batches) * epochs

    def loss(self, batch: Ids, rng: np.random.Generator) -> Tensor:
        entities, relations = self.entities[batch], self.relations[batch]
        answers, device = self.queries.answers[batch], self.model.device
        kept = self.hiding.kept(entities, relations, answers).to(device)
        heads, kinds = (torch.from_numpy(x).to(device) for x in (entities, relations))
        scores = self.model.propagated(self.view.keep(kept), heads, kinds)
        left_out = self.unseen.repeat(len(batch), 1)
        rows, known = self.queries.held(entities, relations)
        left_out[torch.from_numpy(rows), torch.from_numpy(known)] = True
        left_out[torch.arange(len(batch)), torch.from_numpy(answers)] = False
        right = torch.from_numpy(answers).to(device)
        return F.cross_entropy(scores.masked_fill(left_out, -torch.inf), right)


def what_to_hide(triples: Ids, valid: Ids) -> Hide:
    """Whether a batch must not see other relations between a question and its answer.

    Where those who made a dataset took care that no held-out triple joins two entities that a
    training triple joins, answers must be found without such an edge: ``pair``. Where held-out
    triples have them as often as training triples do, they may be used: ``triple``.
    """
    size = int(max(triples.max(initial=0), valid.max(initial=0))) + 1

    def pairs(some: Ids) -> Ids:
        ends = np.sort(some[:, [0, 2]], axis=1)
        return np.asarray(ends[:, 0] * size + ends[:, 1])

    known, places, counts = np.unique(pairs(triples), return_inverse=True, return_counts=True)
    if not len(valid) or not len(known):
        return "triple"
    joined = float((counts[places] > 1).mean())
    held_out = float(np.isin(pairs(valid), known).mean())
    return "pair" if held_out < joined / 2 else "triple"
