"""How good matches are among everything: precision, recall and F1 of what ``match`` claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from decentrl.data.knowledge_graph import row_keys
from decentrl.data.vocabulary import Ids
from decentrl.growth.alignment_state import new_ends
from decentrl.growth.growing import Growing
from decentrl.growth.potentials import Matching
from decentrl.growth.settled import Settled
from decentrl.matching.confidence import calibration
from decentrl.matching.matches import KEPT, Judge, Threshold, answer

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Claims:
    """The best match of every left entity without a known link, beside links that are true."""

    found: Ids  # int64[n, 2], left and right
    accepted: Mask  # bool[n], sure enough to be claimed
    confidence: Tensor  # float64[n], NaN where it was not learned
    right: Mask  # bool[n], a test link
    judged: Mask  # bool[n], of which one end or both are in a test link
    test: Ids  # int64[k, 2]

    def row(self, subset: str, claims: Mask, links: Mask) -> dict[str, Any]:
        """Metrics of some claims and of some links: what was found of the links, and how surely.

        ``hits@1`` and ``recall`` are shares of the links, of all best matches and of those that
        are claimed; ``precision`` is the share of the claims that is right.
        """
        claimed = self.accepted & claims
        hits, right = ((self.right & mask).sum() for mask in (claims, claimed))
        n, made, judged = int(links.sum()), int(claimed.sum()), int((claimed & self.judged).sum())
        return {
            "subset": subset,
            "n": n,
            "hits@1": int(hits) / max(1, n),
            "claimed": made,
            "judged": judged,
            "precision": int(right) / max(1, made),
            "recall": int(right) / max(1, n),
            "f1": 2 * int(right) / max(1, made + n),
        }

    def ends_new(self, growing: Growing) -> Mask:
        """Which matches have an end that came after training, bool[n]."""
        return new_ends(growing, self.found)

    def rows(self, growing: Growing) -> list[dict[str, Any]]:
        """Metrics of all, and apart of what has an end that came after training, if anything has.

        ``known`` is what has none, ``unknown`` what has one or two.
        """
        new, new_links = self.ends_new(growing), new_ends(growing, self.test)
        groups = {"all": (np.ones_like(new), np.ones_like(new_links))}
        if new_links.any():
            groups |= {"known": (~new, ~new_links), "unknown": (new, new_links)}
        return [self.row(subset, *masks) for subset, masks in groups.items()]

    def calibration(self) -> dict[str, float]:
        """How far confidence can be trusted, on the claims of entities in test links."""
        chosen = torch.from_numpy(self.judged) & ~self.confidence.isnan()
        if not chosen.any():
            return {}
        return calibration(self.confidence[chosen], torch.from_numpy(self.right)[chosen])


def find_claims(
    growing: Growing,
    matching: Matching,
    matcher: str,
    judge: Callable[[str, Ids, Ids], Judge | None],
    settled: Settled | None,
    test: Ids,
    precise: bool = False,
) -> Claims | None:
    """Match every left entity without a known link, and those of ``test``, int64[k, 2].

    Matches that are ``settled`` are as they were. Without a learned confidence every match is
    claimed. None if there is no link to check.

    Args:
        judge: from a side, ids of rows and ids of columns to what says how sure matches are.
        precise: claim newcomers only where that is rather right than wrong.
    """
    asked = test[growing.sides["left"].has_vector().numpy()[test[:, 0]], 0]
    if not len(asked):
        return None
    linked = asked[~matching.unlinked("left").numpy()[asked]]
    rows, columns, *pairs = matching.pairs_together("left", linked, matcher, KEPT)
    sure = judge("left", rows, columns)
    least: Threshold | None = None if sure is None else "precise" if precise else "fitted"
    answers = answer(*pairs, confidence=sure)
    claimed = rows[(answer(*pairs, confidence=sure, threshold=least).columns[:, 0] >= 0).numpy()]
    if settled is not None:
        listed = np.union1d(rows, settled.pairs[:, 0])
        answers = answers.spread(np.arange(len(rows)), np.isin(listed, rows))
        columns, answers = settled.put(0, listed, columns, answers)
        rows, claimed = listed, np.concatenate((claimed, settled.pairs[:, 0]))
    there = (answers.columns[:, 0] >= 0).numpy()
    found = np.stack((rows[there], columns[answers.columns[there, 0].numpy()]), axis=1)
    sizes = tuple(len(side.entities) for side in growing.sides.values())
    return Claims(
        found,
        accepted=np.isin(found[:, 0], claimed),
        confidence=answers.confidence[torch.from_numpy(there)].double(),
        right=np.isin(row_keys(found, sizes), row_keys(test, sizes)),
        judged=np.isin(found[:, 0], test[:, 0]) | np.isin(found[:, 1], test[:, 1]),
        test=test,
    )
