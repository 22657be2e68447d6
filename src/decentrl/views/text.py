"""The view by names: entities are alike if their names share rare n-grams; nothing is trained.

The left graph's names are also translated, n-gram by n-gram, as the known links have taught: that
is how names in two languages meet. Where both sides share a language, they share n-grams anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.config import Config
from decentrl.errors import InputError
from decentrl.graph.merged import MergedGraph
from decentrl.graph.texts import N_BUCKETS, TextRows
from decentrl.graph.view import entities_of
from decentrl.nn.text import (
    MOST_LINKS,
    Weighted,
    learn_translation,
    name_vectors,
    rarity,
    shared_rarity,
    translated,
)
from decentrl.views.base import Attention, Rows, View
from decentrl.views.part import Part

SHARED, OWN, COEFFICIENTS = "name_rarity", "left_rarity", "translations"
LINKED = ("name_rows", "name_buckets", "name_counts")
"""Names of memories: rarity on both sides and on the left, and the map with the names it reads."""


@dataclass(frozen=True, eq=False)
class NameStructure:
    """The n-grams of both graphs' entities, and their rarity among those known in training."""

    left: TextRows
    right: TextRows
    shared: Tensor
    own: Tensor


class NameView(View):
    """Names as vectors: direct and, on the left side, translated, added up with a weight."""

    called = "names"
    entity_tables = ()

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, self.dim = config, config.names.width
        self.translation = config.names.translation

    def read(
        self, graph: MergedGraph, trained_on: MergedGraph, device: torch.device
    ) -> NameStructure:
        if graph.texts is None:
            raise InputError(
                "the settings weigh names, but the graphs have none",
                remedy="give names, or --set names.weight=0",
            )
        left, right = graph.texts
        seen = entities_of(trained_on.triples(), trained_on.n_entities)
        known = left.only(seen[: graph.n_left]), right.only(seen[graph.n_left :])
        shared, own = shared_rarity(*known, N_BUCKETS), rarity(known[0], N_BUCKETS)
        return NameStructure(left, right, shared.to(device), own.to(device))

    def encode(self, structure: NameStructure, links: Tensor, out: Tensor | None = None) -> Rows:
        rows = self.memory_of(structure, links)
        n_left, n = len(structure.left), len(structure.left) + len(structure.right)
        if out is None:
            out = structure.shared.new_empty(n, self.dim)
        shared = rows.shared
        out[:n_left] = self._vectors(structure.left, shared, left=True)
        out[n_left:] = self._vectors(structure.right, shared, left=False)
        return Rows(out, rows.memory, shared)

    def memory_of(self, structure: NameStructure, links: Tensor) -> Rows:
        """What newcomers read: the rarities, and what the links have taught."""
        shared = {SHARED: structure.shared, OWN: structure.own}
        ends = links.cpu().numpy() - np.array([0, len(structure.left)])
        named = structure.left.named()[ends[:, 0]] & structure.right.named()[ends[:, 1]]
        ends = ends[named]
        if len(ends) > MOST_LINKS:
            rng = np.random.default_rng(self.config.seed)
            ends = ends[np.sort(rng.permutation(len(ends))[:MOST_LINKS])]
        if self.translation and len(ends):
            linked = structure.left.take(ends[:, 0])
            rights = Weighted.of(structure.right.take(ends[:, 1]), structure.shared)
            targets = name_vectors(rights, self.dim)
            shared[COEFFICIENTS] = learn_translation(Weighted.of(linked, structure.own), targets)
            arrays = linked.indptr, linked.buckets, linked.counts
            shared |= {
                name: torch.from_numpy(array) for name, array in zip(LINKED, arrays, strict=True)
            }
        return Rows(structure.shared.new_empty(0, 0), {}, shared)

    def _vectors(self, rows: TextRows, shared: dict[str, Tensor], *, left: bool) -> Tensor:
        """Vectors of names, [n, dim], of length 1, or 0 without a name."""
        direct = name_vectors(Weighted.of(rows, shared[SHARED]), self.dim)
        if not left or COEFFICIENTS not in shared:
            return direct
        device = direct.device
        linked = Weighted.of(TextRows(*(shared[name].numpy() for name in LINKED)), shared[OWN])
        mapped = translated(Weighted.of(rows, shared[OWN]), linked, shared[COEFFICIENTS].to(device))
        return F.normalize((1 - self.translation) * direct + self.translation * mapped, dim=-1)

    def check(self, memory: Mapping[str, Tensor]) -> None:
        """A :class:`ValueError` unless what was stored is what :meth:`memory_of` makes.

        Args:
            memory: tensors by name.
        """
        wanted = {SHARED: (torch.float32, [N_BUCKETS]), OWN: (torch.float32, [N_BUCKETS])}
        if COEFFICIENTS in memory:
            k, n = (memory[name].shape[0] for name in (COEFFICIENTS, LINKED[1]))
            wanted |= {
                COEFFICIENTS: (torch.float32, [k, self.dim]),
                LINKED[0]: (torch.int64, [k + 1]),
                LINKED[1]: (torch.int64, [n]),
                LINKED[2]: (torch.float32, [n]),
            }
        for name, (dtype, shape) in wanted.items():
            if name not in memory or (memory[name].dtype, [*memory[name].shape]) != (dtype, shape):
                raise ValueError(f"memory: {name} is missing, or of another shape")
        if COEFFICIENTS not in memory:
            return
        rows, buckets, counts = (memory[name] for name in LINKED)
        ordered = bool((rows.diff() >= 0).all()) and rows[0] == 0 and rows[-1] == len(buckets)
        inside = bool(((buckets >= 0) & (buckets < N_BUCKETS)).all() and (counts >= 1).all())
        if not ordered or not inside:
            raise ValueError("memory: the names of the links are none")

    def newcomers(self, part: Part) -> Rows:
        n = len(part.hood.entities)
        if part.texts is None or not n:
            return Rows(torch.zeros(n, self.dim, device=part.device))
        shared = {
            name: tensor if name in LINKED else tensor.to(part.device)
            for name, tensor in part.shared.items()
            if name in (SHARED, OWN, COEFFICIENTS, *LINKED)
        }
        return Rows(self._vectors(part.texts, shared, left=part.side != "right"))

    def attentions(self, part: Part, rows: Rows) -> list[Attention]:
        """None: a name is the entity's own."""
        return []
