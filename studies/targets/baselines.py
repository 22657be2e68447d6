"""Each baseline beside the number its own paper, or a careful later one, has for it."""

from __future__ import annotations

from studies.layout import Row, Table, Target
from studies.run import PUBLISHED_SPLIT
from studies.scale import ALINET, GAT, GCN, PROPAGATION, ROTATE, TRANSE, Scale
from studies.targets.alignment import at
from studies.targets.prediction import COMPGCN, LAN, RGCN, TABLES, settings_of
from studies.targets.prediction import at as answer_at

ALIGNMENT = (
    (TRANSE, "csls", None), (ROTATE, "csls", 0.485), (GCN, "csls", 0.413), (GAT, "csls", 0.418),
    (ALINET, "csls", 0.539), (PROPAGATION, "sinkhorn", 0.754),
)  # fmt: skip
PREDICTION = {
    "TransE": 0.294, "DistMult": 0.343, "ComplEx": 0.348, "RotatE": 0.338, "TuckER": 0.358,
    "ConvE": 0.325, "R-GCN": 0.249, "CompGCN": 0.355,
}  # fmt: skip
COMPGCN_UNDER = (("DistMult", "distmult", 0.338), ("TransE", "transe", 0.337))


def baselines(scale: Scale) -> Target:
    dataset, pair = scale.pairs[0]
    aligned = [
        Row(
            f"{method.label} ({'Sinkhorn' if matcher == 'sinkhorn' else 'CSLS'})",
            [scale.value("alignment", dataset, method, at("hits@1", matcher), paper=reference)],
        )
        for method, matcher, reference in ALIGNMENT
    ]
    dataset, graph = scale.graphs[0]
    answered = [
        Row(
            method.label,
            [scale.value("prediction", dataset, method, answer_at("mrr"),
                         paper=PREDICTION[method.label])],
        )
        for method in (*TABLES, RGCN, COMPGCN)
    ]  # fmt: skip
    answered += [
        Row(
            f"CompGCN, as published under {label}",
            [scale.value("prediction", dataset, COMPGCN, answer_at("mrr"),
                         *settings_of(scale, COMPGCN, decoder), paper=reference)],
        )
        for label, decoder, reference in COMPGCN_UNDER
    ]  # fmt: skip
    arrived = Row(
        "LAN",
        [scale.value("prediction", dataset, LAN, answer_at("mrr"),
                     *settings_of(scale, LAN, "transe", PUBLISHED_SPLIT),
                     unseen=PUBLISHED_SPLIT, paper=0.164)],
    )  # fmt: skip
    return Target(
        "baselines",
        "Baselines and their references",
        "Is a rival as good here as it was elsewhere? In brackets what is published for it: by its "
        "authors or those of the paper, and for ComplEx and DistMult what they reach when trained "
        "well. GCN-Align's number is with attributes, ours is without. CompGCN's 0.355 is with "
        "ConvE, ours is under DistMult; the two rows after it compare like with like. What is done "
        "differently here is in [baselines.md](../baselines.md).",
        [
            Table("Entity alignment, closed world", [(pair, "Hits@1")], aligned),
            Table("Entity prediction, closed world", [(graph, "MRR")], answered),
            Table("Entity prediction, open world, TransE", [(graph, "MRR")], [arrived]),
        ],
    )
