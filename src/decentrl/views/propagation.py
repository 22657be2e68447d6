"""The view by seed propagation: which links an entity meets on which paths; nothing is trained."""

from __future__ import annotations

import torch
from torch import Tensor

from decentrl.config import Config
from decentrl.graph.merged import MergedGraph
from decentrl.graph.relational import PropagationView
from decentrl.nn.propagation import GrownPropagation, SeedPropagation
from decentrl.views.base import Attention, Rows, View
from decentrl.views.part import Part

ENTITIES, RELATIONS, LINKS = "propagation", "relations", "links"
"""Names of memories: propagated seeds of entities and of relations, and the number of links."""


class SeedView(View):
    """Random vectors of the known links, carried along edges and relations."""

    called = "links"
    entity_tables = ()

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, settings = config, config.propagation
        self.dim = settings.relation_dim * settings.width
        self.memories = {ENTITIES: (settings.rounds + 1) * settings.dim}
        self.reach = settings.rounds + 1
        self._kept: tuple[PropagationView, Tensor, SeedPropagation] | None = None
        self._grown_cache: tuple[Tensor, GrownPropagation] | None = None

    def read(
        self, graph: MergedGraph, trained_on: MergedGraph, device: torch.device
    ) -> PropagationView:
        return PropagationView.build(graph.triples(), graph.n_entities, graph.n_relations, device)

    def propagate(self, structure: PropagationView, links: Tensor) -> SeedPropagation:
        """Seeds carried from all links over a graph."""
        kept, self._kept = self._kept, None  # used once, as it draws random numbers further on
        if kept is not None and kept[0] is structure and torch.equal(kept[1], links):
            return kept[2]
        settings = self.config.propagation
        return SeedPropagation(
            structure, links, dim=settings.dim, rounds=settings.rounds, seed=self.config.seed
        )

    def relation_features(self, structure: PropagationView, links: Tensor) -> Tensor:
        """What relations meet, [2 · n_relations, d]; the seeds are kept for the next question."""
        found = self.propagate(structure, links)
        self._kept = structure, links, found
        return found.relations

    def encode(self, structure: PropagationView, links: Tensor, out: Tensor | None = None) -> Rows:
        found, settings = self.propagate(structure, links), self.config.propagation
        vectors = found.features(settings.relation_dim, settings.width, out)
        return self._rows(vectors, found, links)

    def memory_of(self, structure: PropagationView, links: Tensor) -> Rows:
        """:meth:`encode` without the vectors, which take most of its time."""
        found = self.propagate(structure, links)
        return self._rows(found.entities[:, :0], found, links)

    def _rows(self, vectors: Tensor, found: SeedPropagation, links: Tensor) -> Rows:
        shared = {RELATIONS: found.relations, LINKS: torch.tensor([len(links)])}
        return Rows(vectors, {ENTITIES: found.entities}, shared)

    def _grown(self, part: Part) -> GrownPropagation:
        """Propagation of newcomers; its random numbers are drawn once."""
        relations = part.shared[RELATIONS]
        if self._grown_cache is None or self._grown_cache[0] is not relations:
            here, n_links = relations.to(part.device), int(part.shared[LINKS])
            settings, seed = self.config.propagation, self.config.seed
            self._grown_cache = relations, GrownPropagation(here, n_links, settings, seed)
        return self._grown_cache[1]

    def newcomers(self, part: Part) -> Rows:
        grown, view, relations = self._grown(part), part.propagation_view(), part.few_relations[1]
        entities = grown.entities(view, part.frozen(part.memory(ENTITIES), 1), relations)
        vectors, _ = grown.features(view, entities, part.new, relations)
        return Rows(vectors, {ENTITIES: entities})

    def attentions(self, part: Part, rows: Rows) -> list[Attention]:
        """Seeds are summed up, not attended to: an edge counts by how much it contributes."""
        view, relations = part.propagation_view(), part.few_relations[1]
        _, lengths = self._grown(part).features(view, rows.memory[ENTITIES], part.new, relations)
        edges = view.edges
        total = torch.zeros(len(part.new), device=part.device).index_add_(0, edges.rows, lengths)
        share = lengths / total.clamp(min=1e-12)[edges.rows]
        return [Attention(edges.rows, edges.columns, relations[view.directed_relations], share)]
