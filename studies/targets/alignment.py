"""Entity alignment: in the closed world, in the open one, and there by known and new entities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from studies.layout import Figure, Metric, Panel, Row, Series, Table, Target, Value
from studies.run import PUBLISHED_SPLIT
from studies.scale import (
    ALINET,
    CODE,
    GAT,
    GCN,
    METRICS,
    PAPER,
    PROPAGATION,
    ROTATE,
    SELF_TRAINED,
    STRONG,
    TRANSE,
    Method,
    Scale,
    numbers,
)

PROTOCOL = (
    "Left to right, the right sides of all test links as candidates, ties counted as the chance "
    "they are."
)
SINKHORN = (
    "Sinkhorn among test targets uses the fact that each of them has exactly one counterpart."
)
CLOSED = {
    "JAPE": ".412/.745/.490 .363/.685/.476 .324/.667/.430",
    "RotatE": ".485/.788/.589 .442/.761/.550 .345/.738/.476",
    "ConvE": ".169/.329/.224 .192/.343/.246 .240/.459/.316",
    "RSN": ".508/.745/.591 .507/.737/.590 .516/.768/.605",
    "GCN-Align": ".413/.744/.549 .399/.745/.546 .373/.745/.532",
    "GAT": ".418/.667/.508 .446/.695/.537 .442/.731/.546",
    "AliNet": ".539/.826/.628 .549/.831/.645 .552/.852/.657",
    "GCNFlood": ".349/.761/.490 .376/.770/.512 .349/.761/.490",
    "DvGNet": ".534/.844/.638 .538/.863/.651 .557/.881/.668",
    "decentRL": ".589/.819/.672 .596/.819/.678 .602/.842/.689",
}
OPEN = {"decentRL": ".565/.775/.643 .583/.786/.659 .590/.814/.673"}
CITED = tuple(Method(name) for name in ("JAPE", "ConvE", "RSN", "GCNFlood", "DvGNet"))
BASELINES = (TRANSE, ROTATE, GCN, GAT, ALINET, PROPAGATION)
RUN = (PAPER, CODE, STRONG, SELF_TRAINED, *BASELINES)
WITH_SINKHORN = (STRONG, SELF_TRAINED, PROPAGATION)


def at(name: str, matcher: str = "csls", subset: str = "all") -> Metric:
    """A metric of alignment under the paper's protocol."""
    where = {
        "direction": "left-right", "candidates": "test", "matcher": matcher, "subset": subset,
    }  # fmt: skip
    return Metric(name, tuple(where.items()))


def method_table(
    scale: Scale,
    title: str,
    methods: Sequence[Method],
    published: Mapping[str, str],
    unseen: float = 0.0,
    matcher: str = "csls",
) -> Table:
    """A row a method, three metrics a pair of graphs."""
    rows = []
    for method in methods:
        paper = numbers(published.get(method.label, "–/–/– –/–/– –/–/–"))
        if not method.preset and scale.quick:
            continue
        rows.append(
            Row(
                method.label,
                [
                    scale.value("alignment", dataset, method, at(key, matcher),
                                unseen=unseen, paper=paper[3 * i + j])
                    for i, (dataset, _) in enumerate(scale.pairs)
                    for j, (_, key) in enumerate(METRICS)
                ],
            )
        )  # fmt: skip
    columns = [(pair, metric) for _, pair in scale.pairs for metric, _ in METRICS]
    return Table(title, columns, rows)


def alignment(scale: Scale) -> Target:
    return Target(
        "alignment",
        "Entity alignment",
        f"Every entity is in the graph from the start. {PROTOCOL} The paper's rows use CSLS "
        "(k = 2); methods that choose Sinkhorn themselves have a table of their own. TransE is "
        "beside no number of the paper, whose JAPE also reads attributes, as its GCN-Align does; "
        "ours read triples alone. Seed propagation has wider relation views than the preset "
        f"`propagate` (`propagation.relation_dim=512`). {SINKHORN}",
        [
            method_table(scale, "CSLS", (*CITED, *RUN), CLOSED),
            method_table(scale, "Sinkhorn", WITH_SINKHORN, {}, matcher="sinkhorn"),
        ],
        [_bars(scale, "Hits@1 by method", 0.0)],
    )


def _bars(scale: Scale, title: str, unseen: float) -> Figure:
    methods = (PAPER, STRONG, ALINET, GAT, GCN, PROPAGATION)
    ticks = [pair for _, pair in scale.pairs]
    series = [
        Series(
            method.label,
            [
                scale.value("alignment", dataset, method, at("hits@1"), unseen=unseen)
                for dataset, _ in scale.pairs
            ],
        )
        for method in methods
    ]
    return Figure("bars", title, [Panel("", ticks, series, y="Hits@1, CSLS")])


def open_alignment(scale: Scale) -> Target:
    methods = (PAPER, STRONG, ALINET, GAT, GCN, PROPAGATION)

    def cells(dataset: str, method: Method, unseen: float) -> list[Value]:
        return [
            scale.value("alignment", dataset, method, at(key), unseen=unseen) for _, key in METRICS
        ]

    panels = [
        Panel(
            pair,
            [name for name, _ in METRICS],
            [
                Series(m.label, cells(dataset, m, PUBLISHED_SPLIT), cells(dataset, m, 0.0))
                for m in methods
            ],
            y="CSLS",
        )
        for dataset, pair in scale.pairs
    ]
    world = PUBLISHED_SPLIT
    return Target(
        "open-alignment",
        "Entity alignment in an open world",
        "A fifth of the test entities, and all triples about them, arrive after training. "
        f"{PROTOCOL} The paper gives numbers for decentRL alone; its figure compares "
        "AliNet and GAT. Seed propagation learns nothing, so it is as good as in the closed world: "
        f"when it is asked, all triples have arrived. {SINKHORN}",
        [
            method_table(scale, "CSLS", RUN, OPEN, world),
            method_table(scale, "Sinkhorn", WITH_SINKHORN, {}, world, "sinkhorn"),
        ],
        [
            Figure(
                "bars",
                "Open world; dotted: how far the closed world reaches",
                panels,
            )
        ],
    )


def known_unknown(scale: Scale) -> Target:
    published = {
        "AliNet": ".535/.813/.623 .439/.609/.539",
        "decentRL": ".580/.807/.660 .521/.679/.592",
    }
    dataset, pair = scale.pairs[0]
    subsets = ("known", "unknown")

    def table(title: str, methods: Sequence[Method], matcher: str) -> Table:
        rows = []
        for method in methods:
            given = published.get(method.label) if matcher == "csls" else None
            paper = numbers(given or "–/–/– –/–/–")
            values = [
                scale.value("alignment", dataset, method, at(key, matcher, subset),
                            unseen=PUBLISHED_SPLIT, paper=paper[3 * i + j])
                for i, subset in enumerate(subsets) for j, (_, key) in enumerate(METRICS)
            ]  # fmt: skip
            rows.append(Row(method.label, values))
        columns = [(f"{subset} entities", name) for subset in subsets for name, _ in METRICS]
        return Table(title, columns, rows)

    return Target(
        "known-unknown",
        f"Known and new entities, open world, {pair}",
        "The links of the open world apart: those between entities that training has seen, and "
        f"those between entities that came later. {PROTOCOL} {SINKHORN} In the authors' "
        "code the input part of a new entity's vector is 0, which brings new entities nearer to "
        "each other. That gains here, because both ends of a new link always arrive together, and "
        "costs where one end was there before.",
        [table("CSLS", RUN, "csls"), table("Sinkhorn", WITH_SINKHORN, "sinkhorn")],
    )
