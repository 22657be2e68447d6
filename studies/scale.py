"""Which methods are compared, on which data, with how many seeds; in full or as a quick version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from decentrl.errors import ConfigError
from studies.layout import Metric, Value
from studies.run import KINDS, Job, Run

METRICS = (("Hits@1", "hits@1"), ("Hits@10", "hits@10"), ("MRR", "mrr"))
DIMENSION, EPOCHS = 32, 30  # at most, in a quick run


@dataclass(frozen=True)
class Method:
    """A row of a table; without a preset it is only cited."""

    label: str
    preset: str = ""
    settings: tuple[str, ...] = ()


PAPER = Method("decentRL", "paper")
CODE = Method("decentRL, authors' code", "paper-code")
STRONG = Method("decentRL, strong", "strong")
SELF_TRAINED = Method("decentRL, strong, self-trained", "strong", ("self_training.rounds=3",))
GCN, GAT = Method("GCN-Align", "gcn"), Method("GAT", "gat")
ALINET, ROTATE = Method("AliNet", "alinet"), Method("RotatE", "rotate")
TRANSE = Method("TransE", "transe")
# Wider than the preset, which is made for speed.
PROPAGATION = Method("seed propagation", "propagate", ("propagation.relation_dim=512",))

OURS = ("paper", "paper-code", "strong")
SLOW = ("alinet", "rotate", "rgcn", "compgcn", "lan", "table-tucker", "table-conve")


@dataclass(frozen=True)
class Scale:
    """The data and seeds of all targets.

    Attributes:
        pairs: alignment datasets and what tables call them.
        graphs: prediction datasets likewise; the first has an open world.
        seeds: of our alignment and of the paper's model in the open world, of alignment baselines,
            and of other predictions.
    """

    quick: bool
    pairs: Sequence[tuple[str, str]]
    graphs: Sequence[tuple[str, str]]
    seeds: tuple[int, int, int]
    sizes: tuple[int, ...]

    def run(
        self, job: Job, dataset: str, method: Method, *more: str, unseen: float = 0.0,
        alone: bool = False,
    ) -> Run | None:  # fmt: skip
        """The run of a method; None for one that is only cited."""
        if not method.preset:
            return None
        settings = (*method.settings, *more)
        if self.quick:
            settings = (*_small(job, method.preset), *settings)
        return Run(job, dataset, method.preset, settings, unseen, alone=alone)

    def value(
        self, job: Job, dataset: str, method: Method, metric: Metric, *more: str,
        unseen: float = 0.0, alone: bool = False, paper: float | None = None, seeds: int = 0,
    ) -> Value:  # fmt: skip
        """A cell; in a quick run without the paper's number, which is about other data."""
        run = self.run(job, dataset, method, *more, unseen=unseen, alone=alone)
        if job == "prediction":
            usual = self.seeds[0 if unseen and method == PAPER else 2]
        else:
            usual = self.seeds[0 if method.preset in OURS else 1]
        wanted = min(usual, seeds) if seeds else usual
        return Value(run, metric, wanted, None if self.quick else paper)


@lru_cache(None)
def _small(job: Job, preset: str) -> tuple[str, ...]:
    """The settings that make a preset small; none if there is no such preset."""
    try:
        config = KINDS[job].from_preset(preset)
    except ConfigError:
        return ()
    largest = {"model.dim": DIMENSION, "training.epochs": EPOCHS, "decoder.dim": 2 * DIMENSION}
    changed = []
    for setting, most in largest.items():  # not every encoder has all of them
        section, _, name = setting.partition(".")
        value = getattr(getattr(config, section, None), name, 0)
        if value:
            changed.append(f"{setting}={min(value, most)}")
    return tuple(changed)


FULL = Scale(
    quick=False,
    pairs=(("dbp15k/zh-en", "ZH-EN"), ("dbp15k/ja-en", "JA-EN"), ("dbp15k/fr-en", "FR-EN")),
    graphs=(
        ("fb15k-237", "FB15K-237"), ("wn18rr", "WN18RR"), ("fb15k", "FB15K"), ("wn18", "WN18"),
    ),
    seeds=(5, 3, 3),
    sizes=(64, 128, 256, 512),
)  # fmt: skip
QUICK = Scale(
    quick=True,
    pairs=(("world", "world"),),
    graphs=(("world/geonames", "world/geonames"),),
    seeds=(1, 1, 1),
    sizes=(8, 16, 32, 64),
)


def fewer_seeds(scale: Scale, most: int) -> Scale:
    """The same scale with at most so many seeds a run; 0 changes nothing."""
    if not most:
        return scale
    ours, baselines, prediction = (min(most, n) for n in scale.seeds)
    return replace(scale, seeds=(ours, baselines, prediction))


def numbers(text: str) -> list[float | None]:
    """``".589/.819/.672 –/.5/.6"`` as a flat list; a dash is no number."""
    return [None if x in ("-", "–") else float(x) for part in text.split() for x in part.split("/")]
