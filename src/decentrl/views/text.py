"""The view by names: entities are alike if their names share rare n-grams; nothing is trained.

The left graph's names are also translated, n-gram by n-gram, as the known links have taught: that
is how names in two languages meet. Where both sides share a language, they share n-grams anyway.

Values of attributes are added to names: those of pairs of attributes on which linked entities
agree. A value weighs the more the rarer it is and the more the entities agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from decentrl.config import Config
from decentrl.errors import InputError
from decentrl.graph.adjacency import Ids
from decentrl.graph.merged import MergedGraph
from decentrl.graph.paired import paired_attributes
from decentrl.graph.texts import N_BUCKETS, TextRows, Texts
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
from decentrl.views.part import Mask, Part

SHARED, OWN, COEFFICIENTS = "name_rarity", "left_rarity", "translations"
LINKED = ("name_rows", "name_buckets", "name_counts")
"""Names of memories: rarity on both sides and on the left, and the map with the names it reads."""
PAIRS, VALUES = "attribute_pairs", "value_rarity"
"""Names of memories: which attributes mean the same, and what their values weigh."""
_AT_ONCE = 2**15  # entities
LARGEST = 1e3
"""More than a rarity, 1 + log n, or a coefficient, 2 √n, can be."""


@dataclass(frozen=True, eq=False)
class NameStructure:
    """Names and values of both graphs' entities, and the rarity of n-grams among those in training.

    Attributes:
        seen: bool[n] of left and right, the entities known in training.
        shared, own: the rarity of n-grams in both graphs and in the left one.
        taught: what links have taught, by their bytes; it takes a while and is asked for again.
    """

    left: Texts
    right: Texts
    seen: tuple[Mask, Mask]
    shared: Tensor
    own: Tensor
    taught: dict[bytes, Tensor] = field(default_factory=dict)


def texts_of(graph: MergedGraph) -> tuple[Texts, Texts]:
    """Names and attributes of both graphs; an error unless both have the one or the other."""
    if graph.texts is None:
        raise InputError(
            "the settings weigh names, but not both graphs have some",
            remedy="give names of both, or --set names.weight=0",
        )
    return graph.texts


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
        left, right = texts_of(graph)
        seen = entities_of(trained_on.triples(), trained_on.n_entities)
        sides = seen[: graph.n_left], seen[graph.n_left :]
        known = left.names.only(sides[0]), right.names.only(sides[1])
        shared, own = shared_rarity(*known, N_BUCKETS), rarity(known[0], N_BUCKETS)
        return NameStructure(left, right, sides, shared.to(device), own.to(device))

    def encode(self, structure: NameStructure, links: Tensor, out: Tensor | None = None) -> Rows:
        rows = self.memory_of(structure, links)
        n_left, n_right = len(structure.left), len(structure.right)
        if out is None:
            out = structure.shared.new_empty(n_left + n_right, self.dim)
        for side, place in ((structure.left, out[:n_left]), (structure.right, out[n_left:])):
            for start in range(0, len(side), _AT_ONCE):
                some = side.take(np.arange(start, min(start + _AT_ONCE, len(side))))
                made = self._vectors(some, rows.shared, left=side is structure.left)
                place[start : start + _AT_ONCE] = made
        return Rows(out, rows.memory, rows.shared)

    def memory_of(self, structure: NameStructure, links: Tensor) -> Rows:
        """What newcomers read: the rarities, and what the links have taught."""
        shared = {SHARED: structure.shared, OWN: structure.own}
        ends = links.cpu().numpy() - np.array([0, len(structure.left)])
        shared |= value_weights(structure, ends)
        left, right = structure.left.names, structure.right.names
        named = left.named()[ends[:, 0]] & right.named()[ends[:, 1]]
        ends = ends[named]
        if len(ends) > MOST_LINKS:
            rng = np.random.default_rng(self.config.seed)
            ends = ends[np.sort(rng.permutation(len(ends))[:MOST_LINKS])]
        if self.translation and len(ends):
            linked = left.take(ends[:, 0])
            if (known := ends.tobytes()) not in structure.taught:
                rights = Weighted.of(right.take(ends[:, 1]), structure.shared)
                targets = name_vectors(rights, self.dim)
                learned = learn_translation(Weighted.of(linked, structure.own), targets)
                structure.taught[known] = learned
            shared[COEFFICIENTS] = structure.taught[known]
            arrays = linked.indptr, linked.buckets, linked.counts
            shared |= {
                name: torch.from_numpy(array) for name, array in zip(LINKED, arrays, strict=True)
            }
        return Rows(structure.shared.new_empty(0, 0), {}, shared)

    def _vectors(self, texts: Texts, shared: dict[str, Tensor], *, left: bool) -> Tensor:
        """Vectors of names and values, [n, dim], of length 1, or 0 without any."""
        names, lengths = self._names(texts.names, shared, left=left)
        if PAIRS not in shared:
            return names
        known = shared[PAIRS][:, 0 if left else 1].cpu().numpy()
        values = Weighted.of(texts.values.bucketed(known)[0], shared[VALUES])
        # Other random signs than those of n-grams: what is in a name is no value.
        made = name_vectors(replace(values, buckets=values.buckets + N_BUCKETS), self.dim)
        made.mul_(values.lengths[:, None])
        return F.normalize(made.addcmul_(names, lengths[:, None]), dim=-1)

    def _names(
        self, rows: TextRows, shared: dict[str, Tensor], *, left: bool
    ) -> tuple[Tensor, Tensor]:
        """Vectors of names, [n, dim], of length 1, or 0 without one; how much they say, [n]."""
        weighted = Weighted.of(rows, shared[SHARED])
        direct = name_vectors(weighted, self.dim)
        if not left or COEFFICIENTS not in shared:
            return direct, weighted.lengths
        device, share = direct.device, self.translation
        linked = Weighted.of(TextRows(*(shared[name].numpy() for name in LINKED)), shared[OWN])
        own = Weighted.of(rows, shared[OWN])
        mapped = translated(own, linked, shared[COEFFICIENTS].to(device))
        lengths = (1 - share) * weighted.lengths + share * own.lengths
        return F.normalize((1 - share) * direct + share * mapped, dim=-1), lengths

    def check(self, memory: Mapping[str, Tensor]) -> None:
        """A :class:`ValueError` unless what was stored is what :meth:`memory_of` makes.

        Args:
            memory: tensors by name.
        """
        wanted = {SHARED: (torch.float32, [N_BUCKETS]), OWN: (torch.float32, [N_BUCKETS])}
        taught = [name for name in (COEFFICIENTS, *LINKED) if name in memory]
        if taught:
            k, n = (memory[name].numel() if name in memory else 0 for name in LINKED[:2])
            wanted |= {
                COEFFICIENTS: (torch.float32, [k - 1, self.dim]),
                LINKED[0]: (torch.int64, [k]),
                LINKED[1]: (torch.int64, [n]),
                LINKED[2]: (torch.float32, [n]),
            }
        if PAIRS in memory:
            wanted[PAIRS] = torch.int64, [memory[PAIRS].numel() // 2, 2]
            wanted[VALUES] = torch.float32, [N_BUCKETS]
        for name, (dtype, shape) in wanted.items():
            if name not in memory or (memory[name].dtype, [*memory[name].shape]) != (dtype, shape):
                raise ValueError(f"memory: {name} is missing, or of another shape")
        for name in wanted.keys() - {*LINKED, PAIRS}:
            least = -LARGEST if name == COEFFICIENTS else 0
            if not bool(((memory[name] >= least) & (memory[name] < LARGEST)).all()):
                raise ValueError(f"memory: a number in {name} is out of range")
        if not taught:
            return
        rows, buckets, counts = (memory[name] for name in LINKED)
        ordered = bool((rows.diff() >= 0).all()) and rows[0] == 0 and rows[-1] == len(buckets)
        inside = bool(((buckets >= 0) & (buckets < N_BUCKETS)).all())
        inside = inside and bool(((counts >= 1) & counts.isfinite()).all())
        if not ordered or not inside:
            raise ValueError("memory: the names of the links are none")

    def newcomers(self, part: Part) -> Rows:
        n = len(part.hood.entities)
        if part.texts is None or not n:
            return Rows(torch.zeros(n, self.dim, device=part.device))
        shared = {
            name: tensor if name in LINKED else tensor.to(part.device)
            for name, tensor in part.shared.items()
            if name in (SHARED, OWN, COEFFICIENTS, *LINKED, PAIRS, VALUES)
        }
        return Rows(self._vectors(part.texts, shared, left=part.side != "right"))

    def attentions(self, part: Part, rows: Rows) -> list[Attention]:
        """None: a name is the entity's own."""
        return []


def value_weights(structure: NameStructure, links: Ids) -> dict[str, Tensor]:
    """Which attributes mean the same, and what their values weigh; nothing if none do.

    A value weighs what an n-gram would, times the agreement of its attributes.
    """
    values = structure.left.values, structure.right.values
    pairs, agreement = paired_attributes(*values, links)
    if not len(pairs):
        return {}
    known, sums, times = [], np.zeros(N_BUCKETS), np.zeros(N_BUCKETS)
    for side, seen, hashes in zip(values, structure.seen, pairs.T, strict=True):
        rows, places = side.bucketed(hashes)
        known.append(rows.only(seen))
        sums += np.bincount(rows.buckets, agreement[places], N_BUCKETS)
        times += np.bincount(rows.buckets, minlength=N_BUCKETS)
    weight = torch.from_numpy(sums / times.clip(min=1)).float()
    weight = (shared_rarity(known[0], known[1], N_BUCKETS) * weight).to(structure.shared.device)
    return {PAIRS: torch.from_numpy(pairs), VALUES: weight}
