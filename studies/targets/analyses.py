"""More unseen entities, entities of many and of few triples, and one layer at a time."""

from __future__ import annotations

from studies.layout import (
    DEGREE_NAMES,
    Figure,
    Metric,
    Panel,
    Row,
    Series,
    Table,
    Target,
)
from studies.scale import (
    ALINET,
    GAT,
    GCN,
    METRICS,
    PAPER,
    PROPAGATION,
    STRONG,
    Scale,
    numbers,
)
from studies.targets.alignment import PROTOCOL, at

SHARES = (0.2, 0.4, 0.6, 0.8)
LAYERS = ("input", "context", "layer 1", "layer 2", "layer 3", "layer 4", "concatenation")
PROPORTIONS = {PAPER.label: {0.2: ".565/.775/.643"}}


def proportions(scale: Scale) -> Target:
    dataset, pair = scale.pairs[0]
    rows = []
    for method in (PAPER, STRONG, ALINET, GAT, PROPAGATION):
        values = []
        for share in SHARES:
            given = PROPORTIONS.get(method.label, {}).get(share, "–/–/–")
            values += [
                scale.value("alignment", dataset, method, at(key), unseen=share, paper=number)
                for (_, key), number in zip(METRICS, numbers(given), strict=True)
            ]
        rows.append(Row(method.label, values))
    ticks = [f"{share:.0%}" for share in SHARES]
    panels = [
        Panel(
            name,
            ticks,
            [Series(row.label, row.values[i :: len(METRICS)]) for row in rows],
            "unseen test entities",
            f"{name}, CSLS",
        )
        for i, (name, _) in enumerate(METRICS)
    ]
    columns = [(f"{share:.0%} unseen", name) for share in SHARES for name, _ in METRICS]
    return Target(
        "proportions",
        f"More and more unseen entities, {pair}",
        "A larger and larger share of the test entities arrives after training, with all triples "
        f"about them. {PROTOCOL} CSLS. The paper states that decentRL's Hits@1 is 9.2 % "
        "above AliNet's at 20 % and 35.9 % above it at 80 %.",
        [Table("CSLS", columns, rows)],
        [Figure("lines", f"Unseen entities, {pair}", panels, "hollow: the paper")],
    )


def degree(scale: Scale) -> Target:
    dataset, pair = scale.pairs[0]
    rows = [
        Row(
            method.label,
            [
                scale.value("alignment", dataset, method,
                            Metric("mrr", (("name", name),), "degrees"))
                for name in DEGREE_NAMES
            ],
        )
        for method in (PAPER, STRONG, ALINET, GAT, GCN)
    ]  # fmt: skip
    panel = Panel(
        "",
        DEGREE_NAMES,
        [Series(row.label, row.values) for row in rows],
        "triples that an entity is in",
        "MRR, CSLS",
    )
    return Target(
        "degree",
        f"MRR by entity degree, {pair}",
        f"Left test entities by the number of triples they are in, closed world. {PROTOCOL} CSLS.",
        [Table("MRR, CSLS", [("degree", name) for name in DEGREE_NAMES], rows)],
        [Figure("lines", f"MRR by degree, {pair}", [panel])],
    )


def layers(scale: Scale) -> Target:
    rows = [
        Row(
            pair,
            [
                scale.value("alignment", dataset, PAPER,
                            Metric("hits@1", (("name", name),), "layers"))
                for name in LAYERS
            ],
        )
        for dataset, pair in scale.pairs
    ]  # fmt: skip
    panel = Panel("", LAYERS, [Series(row.label, row.values) for row in rows], y="Hits@1, CSLS")
    return Target(
        "layers",
        "Hits@1 by layer",
        "The preset `paper`, closed world: entities compared by their input embeddings, by the "
        "neighbour context g⁰, by one layer alone, and by the concatenation of layers 1 to 4 that "
        f"is their vector. {PROTOCOL} CSLS. The paper shows a figure without numbers.",
        [Table("Hits@1, CSLS", [("", name) for name in LAYERS], rows, "pair")],
        [Figure("bars", "Hits@1 by layer", [panel])],
    )
