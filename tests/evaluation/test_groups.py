"""Groups of ranked answers: each answer in one group of a kind, with the metrics of its own."""

from __future__ import annotations

import numpy as np
import torch

from decentrl.evaluation.groups import metrics_by_group
from decentrl.evaluation.metrics import ANSWERS, summary
from decentrl.evaluation.ranks import Ranks
from decentrl.graph.queries import Queries

R = 2
# By relation 0 everything is joined to 0; relation 1 joins one to one.
KNOWN = Queries.of(np.array([(1, 0, 0), (2, 0, 0), (3, 0, 0), (1, 1, 2), (2, 1, 3)]), R)
ASKED = Queries.of(np.array([(4, 0, 0), (3, 1, 4)]), R)
RANKS = Ranks(torch.tensor([0, 1, 2, 3]), torch.ones(4, dtype=torch.int64))


def test_every_answer_is_in_one_group_of_each_kind() -> None:
    rows = metrics_by_group(ASKED, RANKS, KNOWN, np.array([4]))
    counts = {(row["group"], row["name"]): row["n"] for row in rows}
    assert counts == {
        ("all", "all"): 4,
        ("direction", "tail"): 2,
        ("direction", "head"): 2,
        ("category", "N-1"): 2,
        ("category", "1-1"): 2,
        ("open world", "new query, known answer"): 2,
        ("open world", "known query, new answer"): 2,
        ("relation", 0): 2,
        ("relation", 1): 2,
    }
    assert rows[0] == {"group": "all", "name": "all", "n": 4} | summary(RANKS, ANSWERS)


def test_a_group_has_the_metrics_of_its_answers() -> None:
    rows = {row["name"]: row for row in metrics_by_group(ASKED, RANKS, KNOWN, None)}
    # The questions are (0, 2, ?), (3, 1, ?), (4, 0, ?) and (4, 3, ?).
    for name, chosen in {"tail": [1, 2], "head": [0, 3], 0: [0, 2], 1: [1, 3]}.items():
        expected = summary(RANKS[torch.tensor(chosen)], ANSWERS)
        assert {key: rows[name][key] for key in expected} == expected


def test_without_newcomers_there_are_no_cells() -> None:
    for new in (None, np.empty(0, np.int64)):
        rows = metrics_by_group(ASKED, RANKS, KNOWN, new)
        assert not any(row["group"] == "open world" for row in rows)
