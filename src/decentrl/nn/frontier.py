"""Question-conditioned propagation that goes on from the most promising entities of a layer alone.

What A*Net (Zhu et al., 2023) and AdaProp (Zhang et al., 2023) do. The work follows the edges of
these entities, not those of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.graph.messages import Messages
from decentrl.nn.paths import PathLayer, PathNetwork
from decentrl.nn.relation_sum import relation_sum


@dataclass(frozen=True, eq=False)
class Reached:
    """What some questions have reached after some layers; all other entities are alike.

    Attributes:
        codes: question · n + entity, increasing: int64[m].
        x: their states, [m, width].
        rest: the state of all entities that a question has not reached, [b, width].
        n: number of entities.
    """

    codes: Tensor
    x: Tensor
    rest: Tensor
    n: int

    @property
    def questions(self) -> Tensor:
        return self.codes // self.n

    @property
    def entities(self) -> Tensor:
        return self.codes % self.n

    def at(self, codes: Tensor) -> Tensor:
        """States of other codes, of which these are some: [len(codes), width]."""
        places = torch.searchsorted(codes, self.codes)
        return self.rest[codes // self.n].index_copy(0, places, self.x)


def frontier_scores(
    network: PathNetwork, graph: Messages, heads: Tensor, relations: Tensor, most: int
) -> Tensor:
    """Scores of questions, int64[b] each → [b, n].

    Each layer follows the edges of the ``most`` entities of a question whose states score best as
    answers. An entity that was not reached has the state of one without an edge, which is where its
    neighbours read it, too; it has the score that this state gives.
    """
    q = network.questions(relations)
    now = _begun(graph, heads, q)
    for layer in network.layers:
        assert isinstance(layer, PathLayer)
        now = _step(layer, graph, q, heads, now, promising(network, q, now, most))
    scores = network.scores(now.rest[None], q)  # [b, 1]
    found = network.scores(now.x[None], q[now.questions])[:, 0]
    return scores.expand(-1, now.n).index_put((now.questions, now.entities), found)


def _begun(graph: Messages, heads: Tensor, q: Tensor) -> Reached:
    """Where questions begin: q at their heads, 0 everywhere else."""
    n = graph.groups.n_rows
    codes = torch.arange(len(heads), device=heads.device) * n + heads
    return Reached(codes, q, torch.zeros_like(q), n)


@torch.no_grad()
def promising(network: PathNetwork, q: Tensor, now: Reached, most: int) -> Tensor:
    """Places of the states to go on from, at most so many of a question: increasing int64[k]."""
    questions = now.questions
    if len(questions) <= most:
        return torch.arange(len(questions), device=questions.device)
    scores = network.scores(now.x[None], q[questions])[:, 0]
    best = scores.argsort(descending=True, stable=True)
    best = best[questions[best].argsort(stable=True)]  # by question, then by score
    counts = torch.bincount(questions, minlength=len(q))
    rank = (
        torch.arange(len(best), device=best.device) - (counts.cumsum(0) - counts)[questions[best]]
    )
    return best[rank < most].sort().values


def _step(
    layer: PathLayer, graph: Messages, q: Tensor, heads: Tensor, now: Reached, chosen: Tensor
) -> Reached:
    """The states of the next layer, where messages come from the ``chosen`` states alone.

    A message of an entity that was not chosen, or not reached, is that of the rest; so only what a
    chosen state differs by has to be sent along its edges.
    """
    b, width = q.shape
    n_relations = graph.groups.n_columns
    w = layer.relations(q).view(b * n_relations, width)
    ends, kinds, sources = _edges_from(graph, now, chosen)
    begin = torch.arange(b, device=q.device) * now.n + heads
    codes = torch.unique(torch.cat((now.codes, ends)))
    rows = torch.searchsorted(codes, ends)
    order = torch.argsort((rows * len(w) + kinds) * len(chosen) + sources)
    sizes = len(codes), len(w), len(chosen)
    edges = Messages.of_edges(rows[order], kinds[order], sources[order], sizes)
    sent = now.x[chosen] - now.rest[now.questions[chosen]]
    a = relation_sum(sent, w, edges)
    a = a + _from_the_rest(graph, codes, now, w)
    a = a.index_add(0, torch.searchsorted(codes, begin), q)
    degrees = _degrees(graph, codes % now.n)
    x = layer(now.at(codes)[:, None], a[:, None], (3.0 / (degrees + 1)).to(q.dtype))[:, 0]
    nothing = torch.zeros_like(now.rest)[:, None]
    rest = layer(now.rest[:, None], nothing, q.new_ones(b))[:, 0]
    return Reached(codes, x, rest, now.n)


def _edges_from(graph: Messages, now: Reached, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The edges that begin at chosen states.

    Returns:
        of each edge the code where it ends, question · n_relations + relation, and the place of
        its beginning in ``chosen``: int64[e] each.
    """
    assert graph.back is not None  # every edge is there in both directions
    questions, entities = now.questions[chosen], now.entities[chosen]
    bounds = graph.sources.indptr[graph.groups.indptr]
    edges, places = _stretches(bounds[entities], bounds[entities + 1])
    kinds = graph.back[graph.groups.columns[graph.sources.rows[edges]]]
    ends = graph.sources.columns[edges]
    own = questions[places]
    return own * now.n + ends, own * graph.groups.n_columns + kinds, places


def _from_the_rest(graph: Messages, codes: Tensor, now: Reached, w: Tensor) -> Tensor:
    """What entities would get if all their neighbours had the state of the rest: [m, width].

    It takes their relations and how many edges each has, not the edges.
    """
    questions, entities = codes // now.n, codes % now.n
    indptr = graph.groups.indptr
    groups, places = _stretches(indptr[entities], indptr[entities + 1])
    counts = graph.sources.indptr[groups + 1] - graph.sources.indptr[groups]
    n_relations = graph.groups.n_columns
    kinds = questions[places] * n_relations + graph.groups.columns[groups]
    sizes = indptr[entities + 1] - indptr[entities]
    ends = torch.cat((sizes.new_zeros(1), sizes.cumsum(0)))
    by_relation = w * now.rest.repeat_interleave(n_relations, 0)
    return F.embedding_bag(
        kinds, by_relation, ends, mode="sum", include_last_offset=True,
        per_sample_weights=counts.to(w.dtype),
    )  # fmt: skip


def _degrees(graph: Messages, entities: Tensor) -> Tensor:
    indptr, ends = graph.groups.indptr, graph.sources.indptr
    return ends[indptr[entities + 1]] - ends[indptr[entities]]


def _stretches(starts: Tensor, stops: Tensor) -> tuple[Tensor, Tensor]:
    """All numbers of some stretches start … stop - 1, and of each the stretch that it is of."""
    sizes = stops - starts
    places = torch.repeat_interleave(sizes)
    firsts = starts - (sizes.cumsum(0) - sizes)
    return torch.arange(len(places), device=places.device) + firsts[places], places
