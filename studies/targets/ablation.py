"""What the parts of the method bring, and how wide its vectors must be."""

from __future__ import annotations

from studies.layout import Figure, Panel, Row, Series, Table, Target
from studies.run import PUBLISHED_SPLIT
from studies.scale import METRICS, PAPER, Method, Scale, numbers
from studies.targets.alignment import PROTOCOL, at, method_table

INFONCE = Method("with InfoNCE", "paper", ("distillation.variant=infonce",))
L2 = Method("with L2", "paper", ("distillation.variant=l2",))
SELF_ENTITY = Method("with self-entity", "paper", ("model.self_entity=true",))
NONE = Method("without distillation", "paper", ("distillation.variant=none",))
VARIANTS = (PAPER, INFONCE, L2, SELF_ENTITY, NONE)

CLOSED = {
    PAPER.label: ".589/.819/.672 .596/.819/.678 .602/.842/.689",
    INFONCE.label: ".579/.816/.665 .591/.816/.673 .593/.834/.682",
    L2.label: ".571/.802/.655 .589/.807/.669 .591/.831/.679",
    SELF_ENTITY.label: ".579/.812/.663 .589/.812/.671 .593/.836/.681",
}
OPEN = {
    PAPER.label: ".565/.775/.643 .583/.786/.659 .590/.814/.673",
    INFONCE.label: ".557/.775/.637 .574/.785/.652 .583/.811/.666",
    L2.label: ".552/.770/.632 .574/.782/.650 .581/.806/.664",
    SELF_ENTITY.label: ".551/.765/.629 .573/.776/.648 .578/.806/.662",
}
SIZES = {
    64: ".429/.644/.508 .474/.673/.547 .468/.704/.554",
    128: ".511/.726/.590 .541/.745/.617 .535/.773/.623",
    256: ".560/.785/.643 .578/.791/.657 .578/.817/.665",
    512: ".589/.819/.672 .596/.819/.678 .602/.842/.689",
}


def ablation(scale: Scale) -> Target:
    return Target(
        "ablation",
        "Ablation",
        "Self-distillation as in the paper (the teacher's gradient is detached), with the gradient "
        "(InfoNCE), as a distance (L2), and none at all; and with the entity itself among its "
        f"neighbours. {PROTOCOL} CSLS.",
        [
            method_table(scale, "Closed world", VARIANTS, CLOSED),
            method_table(scale, "Open world", VARIANTS, OPEN, PUBLISHED_SPLIT),
        ],
    )


def sized(scale: Scale, size: int) -> tuple[str, ...]:
    """The setting of a width; none for the preset's own, so that its runs are shared."""
    usual = 32 if scale.quick else 512
    return () if size == usual else (f"model.dim={size}",)


def sizes(scale: Scale) -> Target:
    rows, series = [], []
    for size in scale.sizes:
        paper = numbers(SIZES.get(size, "–/–/– –/–/– –/–/–"))
        values = [
            scale.value("alignment", dataset, PAPER, at(key), *sized(scale, size),
                        paper=paper[3 * i + j])
            for i, (dataset, _) in enumerate(scale.pairs) for j, (_, key) in enumerate(METRICS)
        ]  # fmt: skip
        rows.append(Row(str(size), values))
    for i, (_, pair) in enumerate(scale.pairs):
        series.append(Series(pair, [row.values[3 * i] for row in rows]))
    columns = [(pair, metric) for _, pair in scale.pairs for metric, _ in METRICS]
    ticks = [str(size) for size in scale.sizes]
    panel = Panel("", ticks, series, "width of the vectors", "Hits@1, CSLS")
    return Target(
        "sizes",
        "Embedding sizes",
        f"The preset `paper` with narrower vectors, closed world. {PROTOCOL} CSLS.",
        [Table("CSLS", columns, rows, "size")],
        [Figure("lines", "Hits@1 by embedding size", [panel], "dashed: the paper")],
    )
