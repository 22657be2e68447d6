"""Candidates for what has no name, in a run that compares names: by all but names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from decentrl.growth.explain_pair import NAMES
from decentrl.growth.neighbourhoods import Neighbourhoods
from decentrl.growth.strangers import Stranger
from decentrl.matching.potentials import OTHER
from decentrl.service.reconcile.candidate import Candidate
from decentrl.service.served_run import ServedRun

UNSURE = 0.5
"""The score of a candidate without a confidence is this part of its likeness, in hundredths."""
TAKEN = 0.25
"""By how much an entity that surely matches another one is less like a newcomer."""


class ByStructure:
    """Finds the entities of a graph that are most like some of the other one, names left out.

    What a matcher adds to the cosines of entities with names is too much for one without. So they
    are ranked by the mean of two cosines: of vectors, and of neighbourhoods
    (:mod:`decentrl.growth.neighbourhoods`), whose other entities may well have names.
    """

    def __init__(self, run: ServedRun) -> None:
        self._run = run

    def find(
        self,
        model: Any,
        target: str,
        strangers: Sequence[Stranger],
        firsts: Sequence[dict[str, Any]],
        ids: Sequence[int],
        top: int,
    ) -> list[list[Candidate]]:
        """The candidates of strangers, which arrived in ``model`` with ``ids``.

        The confidence of the matcher's own first counts if that is the first here, too.
        """
        compare = self._neighbourhoods(target, strangers)
        every = zip(strangers, firsts, ids, strict=True)
        return [
            _best(model, target, own, compare(stranger), first, top)
            for stranger, first, own in every
        ]

    def _neighbourhoods(
        self, target: str, strangers: Sequence[Stranger]
    ) -> Callable[[Stranger], Tensor]:
        """What compares a stranger's neighbours with those of all entities of the target."""
        model, source = self._run.model, OTHER[target]
        own, other = (model.growing.sides[side] for side in (source, target))

        def make() -> tuple[Neighbourhoods, dict[int, tuple[int, float]]]:
            links, settled = model.known_links(), model.learned.settled
            pairs = links if settled is None else np.concatenate((settled.pairs, links))
            sure = {
                a: (b, 1.0) for a, b in (links if source == "left" else links[:, ::-1]).tolist()
            }
            return Neighbourhoods(own, other, pairs if source == "left" else pairs[:, ::-1]), sure

        found, known = self._run.keep(f"neighbourhoods of {target}", make, version=True)
        near = {i for stranger in strangers for _, i, _ in stranger.triples}
        asked = [i for i in sorted(near) if i not in known]
        if asked:
            table = model.match(own.entities.take(asked), side=source)
            known.update(
                (i, (other.entities.id(row[target]), row["confidence"]))
                if row[target] is not None and row["confidence"] is not None
                else (i, (0, 0.0))
                for i, row in zip(asked, table, strict=True)
            )
        return lambda stranger: torch.from_numpy(found.compare(stranger.triples, known)).float()


def _best(
    model: Any, target: str, own: int, shared: Tensor, first: dict[str, Any], top: int
) -> list[Candidate]:
    """The candidates of one entity, whose neighbours are ``shared`` by the target's, float[n]."""
    sides, spans = model.growing.sides, model.learned.spans
    query = sides[OTHER[target]].take_vectors(np.array([own]))[0]
    vectors, views = sides[target].vectors, [name for name in spans if name != NAMES]
    shares = {name: (vectors[:, spans[name]] @ query[spans[name]]).cpu() for name in views}
    lengths = sum(vectors[:, spans[name]].square().sum(1).cpu() for name in views)
    length = sum(query[spans[name]].square().sum().cpu() for name in views)
    if not length:
        return []
    cosines = torch.stack(list(shares.values())).sum(0) / (lengths * length).sqrt().clamp(min=1e-12)
    free, unlinked = model.candidates(target), sides[target].has_vector().clone()
    unlinked[torch.from_numpy(model.known_links()[:, int(target == "right")])] = False
    likeness = (cosines + shared) / 2 - TAKEN * ~free
    likeness = likeness.masked_fill(~unlinked, -torch.inf)
    values, places = likeness.topk(min(top, int(unlinked.sum())))
    found = []
    for value, place in zip(values.tolist(), places.tolist(), strict=True):
        features = {
            "cosine": cosines[place].item(),
            "neighbours": shared[place].item(),
            **{name: share[place].item() for name, share in shares.items()},
        }
        found.append(Candidate(place, max(0.0, 100 * UNSURE * value), False, features))
    sure = first["confidence"]
    if found and sure is not None and first[target] == sides[target].entities[found[0].id]:
        least = model.thresholds()
        found[0].features["confidence"] = sure
        found[0].score = max(100 * sure, found[0].score)
        found[0].sure = least is not None and sure >= least[1]
    return found
