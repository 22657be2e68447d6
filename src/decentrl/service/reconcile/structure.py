"""Candidates for what has no name, in a run that compares names: by all but names."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from decentrl.growth.explain_pair import NAMES
from decentrl.service.reconcile.candidate import Candidate

UNSURE = 0.5
"""The part of its cosine, in hundredths, that is the score of a candidate without a confidence."""


def by_structure(
    model: Any, source: str, own: int, target: str, first: dict[str, Any], top: int
) -> list[Candidate]:
    """The entities of the target that are most like one of the source, names left out.

    What a matcher adds to the cosines of entities with names is too much for one without. The
    confidence of the matcher's own ``first`` counts if that is the first here, too.
    """
    sides, spans = model.growing.sides, model.learned.spans
    query = sides[source].take_vectors(np.array([own]))[0]
    vectors, views = sides[target].vectors, [name for name in spans if name != NAMES]
    shares = {name: (vectors[:, spans[name]] @ query[spans[name]]).cpu() for name in views}
    lengths = sum(vectors[:, spans[name]].square().sum(1).cpu() for name in views)
    length = sum(query[spans[name]].square().sum().cpu() for name in views)
    if not length:
        return []
    cosines = torch.stack(list(shares.values())).sum(0) / (lengths * length).sqrt().clamp(min=1e-12)
    allowed = model.candidates(target)
    cosines = cosines.masked_fill(~allowed, -torch.inf)
    values, places = cosines.topk(min(top, int(allowed.sum())))
    found = []
    for value, place in zip(values.tolist(), places.tolist(), strict=True):
        features = {
            "cosine": value,
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
