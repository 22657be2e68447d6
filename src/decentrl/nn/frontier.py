"""Question-conditioned propagation that goes on from the most promising entities of a layer alone.

What A*Net (Zhu et al., 2023) and AdaProp (Zhang et al., 2023) do. The work follows the edges of
these entities, not those of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.graph.messages import Messages, stretches
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


@dataclass(frozen=True, eq=False)
class Read:
    """What a layer reads of one question: states along edges, and the sums that it makes."""

    sources: Tensor  # entities whose edges it follows, increasing: int64[k]
    sent: Tensor  # what goes along them, [k, width]
    w: Tensor  # by what of each relation, [n_relations, width]
    entities: Tensor  # those that are reached then: int64[m]
    a: Tensor  # [m, width]


def frontier_scores(
    network: PathNetwork, graph: Messages, heads: Tensor, relations: Tensor, most: int
) -> Tensor:
    """Scores of questions, int64[b] each → [b, n].

    Each layer follows the edges of the ``most`` entities of a question that what arrived has
    changed most. All others count as if nothing had: the state of an entity without an edge stands
    for them where a neighbour reads it, and gives the score of all that were not reached.
    """
    q = network.questions(relations)
    now = _propagated(network, graph, heads, q, most)
    scores = network.scores(now.rest[None], q)  # [b, 1]
    found = network.scores(now.x[None], q[now.questions])[:, 0]
    return scores.expand(-1, now.n).index_put((now.questions, now.entities), found)


@torch.enable_grad()
def frontier_slopes(
    network: PathNetwork, graph: Messages, head: Tensor, relation: Tensor, answer: int, most: int
) -> tuple[Messages, Tensor, list[tuple[Tensor, Tensor, Tensor]]]:
    """:meth:`PathNetwork.slopes` of one question, over what it reached alone.

    Returns:
        the edges among the entities that were reached, these (the answer may be none of them),
        increasing int64[m], and the slopes; in graph and slopes entities are places in these.
    """
    read: list[Read] = []
    q = network.questions(relation)
    now = _propagated(network, graph, head, q, most, read)
    score = network.scores(now.x[None], q[now.questions])[now.entities == answer].sum()
    slopes = torch.autograd.grad(score, [layer.a for layer in read], allow_unused=True)
    found = []
    for layer, slope in zip(read, slopes, strict=True):
        x, into = torch.zeros_like(now.x), torch.zeros_like(now.x)
        x[torch.searchsorted(now.entities, layer.sources)] = layer.sent
        if slope is not None:
            into[torch.searchsorted(now.entities, layer.entities)] = slope
        found.append((x.detach(), layer.w.detach(), into))
    return graph.among(now.entities), now.entities, found


def _propagated(
    network: PathNetwork,
    graph: Messages,
    heads: Tensor,
    q: Tensor,
    most: int,
    read: list[Read] | None = None,
) -> Reached:
    """What questions have reached after all layers; what each of them reads is added to a list."""
    now = _begun(graph, heads, q)
    for layer in network.layers:
        assert isinstance(layer, PathLayer)
        now = _step(layer, graph, q, heads, now, promising(now, most), read)
    return now


def _begun(graph: Messages, heads: Tensor, q: Tensor) -> Reached:
    """Where questions begin: q at their heads, 0 everywhere else."""
    n = graph.groups.n_rows
    codes = torch.arange(len(heads), device=heads.device) * n + heads
    return Reached(codes, q, torch.zeros_like(q), n)


@torch.no_grad()
def promising(now: Reached, most: int) -> Tensor:
    """Places of the states to go on from, at most so many of a question: increasing int64[k]."""
    questions = now.questions
    if len(questions) <= most:
        return torch.arange(len(questions), device=questions.device)
    changed = (now.x - now.rest[questions]).square().sum(1)
    best = changed.argsort(descending=True, stable=True)
    best = best[questions[best].argsort(stable=True)]  # by question, then the most changed first
    counts = torch.bincount(questions, minlength=len(now.rest))
    firsts = (counts.cumsum(0) - counts)[questions[best]]
    rank = torch.arange(len(best), device=best.device) - firsts
    return best[rank < most].sort().values


def _step(
    layer: PathLayer,
    graph: Messages,
    q: Tensor,
    heads: Tensor,
    now: Reached,
    chosen: Tensor,
    read: list[Read] | None,
) -> Reached:
    """The states of the next layer, where messages come from the ``chosen`` states alone.

    A message of an entity that was not chosen, or not reached, is that of the rest; so only what a
    chosen state differs by has to be sent along its edges.
    """
    b, width = q.shape
    w = layer.relations(q).view(-1, width)  # of each question every relation
    ends, kinds, sources = _edges_from(graph, now, chosen)
    codes = torch.unique(torch.cat((now.codes, ends)))
    rows = torch.searchsorted(codes, ends)
    order = torch.argsort((rows * len(w) + kinds) * len(chosen) + sources)
    sizes = len(codes), len(w), len(chosen)
    edges = Messages.of_edges(rows[order], kinds[order], sources[order], sizes)
    sent = now.x[chosen] - now.rest[now.questions[chosen]]
    a = relation_sum(sent, w, edges) + _from_the_rest(graph, codes, now, w)
    begin = torch.arange(b, device=q.device) * now.n + heads
    a = a.index_add(0, torch.searchsorted(codes, begin), q)
    if read is not None:
        read.append(Read(now.entities[chosen], sent, w, codes % now.n, a))
    starts, stops = _bounds(graph, codes % now.n)
    x = layer(now.at(codes)[:, None], a[:, None], (3.0 / (stops - starts + 1)).to(q.dtype))[:, 0]
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
    edges, places = stretches(*_bounds(graph, entities))
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
    groups, places = stretches(indptr[entities], indptr[entities + 1])
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


def _bounds(graph: Messages, entities: Tensor) -> tuple[Tensor, Tensor]:
    """Where the edges that end at entities begin and end: int64[m] each."""
    indptr, ends = graph.groups.indptr, graph.sources.indptr
    return ends[indptr[entities]], ends[indptr[entities + 1]]
