"""How long training takes, and after how many epochs most of it is learned."""

from __future__ import annotations

from studies.layout import Figure, Metric, Panel, Row, Series, Table, Target
from studies.scale import ALINET, GAT, PAPER, Scale

EPOCH = Metric("epoch_seconds", part="time", lower=True)
TOTAL = Metric("train_seconds", part="time", lower=True, digits=1)
EPOCHS = Metric("epochs", part="time", digits=0, judged=False)
WATCHED = ("training.valid=0.1", "training.validate_every=2", "training.patience=0")
TIMED = 3  # seeds
PUBLISHED = {  # on a V100: seconds an epoch and in all, decentRL and AliNet
    64: (1.6, 137.7, 1.2, 1317.6),
    128: (2.0, 138.2, 1.4, 1301.2),
    256: (2.2, 161.4, 1.8, 1297.8),
    512: (2.4, 236.3, 2.4, 1346.5),
}


def reached(share: int) -> Metric:
    """Epochs until validation Hits@1 had this share, in per cent, of its best value."""
    return Metric(f"epochs_{share}", part="convergence", lower=True, digits=0)


def time(scale: Scale) -> Target:
    dataset, pair = scale.pairs[0]
    methods, measured = (PAPER, ALINET), (("an epoch", EPOCH), ("in all", TOTAL))
    rows = []
    for size in scale.sizes:
        paper = PUBLISHED.get(size, (None,) * 4)
        rows.append(
            Row(
                str(size),
                [
                    scale.value("alignment", dataset, method, metric, f"model.dim={size}",
                                alone=True, seeds=TIMED, paper=paper[2 * i + j])
                    for i, method in enumerate(methods)
                    for j, (_, metric) in enumerate(measured)
                ],
            )
        )  # fmt: skip
    columns = [(method.label, f"{name}, s") for method in methods for name, _ in measured]
    watched = [
        Row(
            method.label,
            [
                scale.value("alignment", dataset, method, metric, *WATCHED, seeds=TIMED)
                for metric in (reached(90), reached(95), reached(99), EPOCHS)
            ],
        )
        for method in (PAPER, ALINET, GAT)
    ]
    ticks = [str(size) for size in scale.sizes]
    series = [
        Series(method.label, [row.values[2 * i + 1] for row in rows])
        for i, method in enumerate(methods)
    ]
    panel = Panel("", ticks, series, "width of the vectors", "training, seconds", log=True)
    return Target(
        "time",
        f"Training time, {pair}",
        "Seconds of training by the width of the vectors, with nothing else on the device. The "
        "paper's are from a V100, with 55 epochs for decentRL and 280 for AliNet on average. "
        "The second table holds a tenth of the training links out, looks every second epoch, never "
        "stops early, and counts epochs until validation Hits@1 first reached a share of its best.",
        [
            Table("Seconds", columns, rows, "size"),
            Table(
                "Epochs until a share of the best validation Hits@1",
                [("reached", "90 %"), ("reached", "95 %"), ("reached", "99 %"), ("", "trained")],
                watched,
            ),
        ],
        [Figure("lines", f"Training time, {pair}", [panel], "dashed: the paper, on a V100")],
    )
