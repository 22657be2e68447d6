"""What is in the datasets, in the closed and in the open world."""

from __future__ import annotations

from studies.layout import Metric, Row, Table, Target, Value
from studies.run import PUBLISHED_SPLIT, Run
from studies.scale import Scale

COLUMNS = (
    ("closed", "triples"), ("open", "triples"), ("open", "arriving"), ("", "entities"),
    ("", "relations"), ("links", "train"), ("links", "test"), ("triples", "test"),
)  # fmt: skip
PAPER = {
    ("ZH-EN", "left"): (70414, 53428, 16986, 19388, 1701, 4500, 10500, None),
    ("ZH-EN", "right"): (95142, 72261, 22881, 19572, 1323, 4500, 10500, None),
    ("JA-EN", "left"): (77214, 57585, 19629, 19814, 1299, 4500, 10500, None),
    ("JA-EN", "right"): (93484, 69479, 24005, 19780, 1153, 4500, 10500, None),
    ("FR-EN", "left"): (105998, 79266, 26732, 19661, 903, 4500, 10500, None),
    ("FR-EN", "right"): (115722, 87030, 28692, 19993, 1208, 4500, 10500, None),
    ("FB15K-237", "graph"): (272115, 170463, 101652, 14541, 237, None, None, 20466),
}


def datasets(scale: Scale) -> Target:
    rows = [_row(scale, *pair, side) for pair in scale.pairs for side in ("left", "right")]
    rows += [_row(scale, *graph, "graph") for graph in scale.graphs]
    return Target(
        "datasets",
        "The datasets",
        "Triples to train on in the closed and in the open world, triples that arrive with the new "
        "entities, entities and relations of each graph, and links or triples to learn from and to "
        "test on. Nothing is trained for this table.",
        [Table("What is in the datasets", COLUMNS, rows, "graph")],
    )


def _row(scale: Scale, dataset: str, name: str, side: str) -> Row:
    closed = Run("data", dataset)
    first = scale.graphs[0][0]
    opened = Run("data", dataset, unseen=PUBLISHED_SPLIT)
    later = opened if side != "graph" or dataset == first else None

    def cell(run: Run | None, key: str, row: str = side) -> Value:
        return Value(run, Metric(key, (("name", row),), digits=0))

    alignment = side != "graph"
    cells = [
        cell(closed, "triples"), cell(later, "triples"), cell(later, "auxiliary"),
        cell(closed, "entities"), cell(closed, "relations"),
        cell(closed if alignment else None, "train", "task"),
        cell(closed if alignment else None, "test", "task"),
        cell(None if alignment else closed, "test", "task"),
    ]  # fmt: skip
    paper = PAPER.get((name, side), (None,) * len(COLUMNS))
    values = [Value(x.run, x.metric, 1, number) for x, number in zip(cells, paper, strict=True)]
    return Row(name if side == "graph" else f"{name}, {side}", values)
