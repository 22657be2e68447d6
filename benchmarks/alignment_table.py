"""The alignment tables of research/results.md.

    DECENTRL_DATA=... python benchmarks/alignment_table.py --seeds 5 --jobs 5 [-o results/reproduce]
                      [--variants strong strong-self] [--pairs ja-en] [--first 5]
                      [--splits 1 2 3] [--print]

Trains every variant on every pair, closed and open world, and prints mean and standard deviation
of the test metrics as Markdown. Runs are kept as `python -m studies` keeps them, and one that has
left its file is not repeated, whichever of the two commands it was trained by; nothing is
trained from a tree with uncommitted changes.
One run of it is `decentrl align --dataset dbp15k/zh-en --preset paper --seed 0 [--open-world]`;
`strong-self` is `--preset strong --self-train`. `--splits` takes other choices of the entities that
arrive after training than the published one, of the same size: `decentrl data split --seed 1`; rows
of the open world are then means over all of them.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, stdev

from decentrl.errors import DecentRLError
from studies.execute import do_missing
from studies.run import PUBLISHED_SPLIT, Run
from studies.store import Result, Store

PAIRS = ("zh-en", "ja-en", "fr-en")
# Hits@1, Hits@10 and MRR on ZH-EN, JA-EN and FR-EN as published by others: structure only, left to
# right, test targets. decentRL: the paper; Dual-AMN (Mao et al., WWW 2021); LightEA (Mao et al.,
# EMNLP 2022). "self-trained" is with links found on the way.
PUBLISHED = {
    ("csls", False): {
        "decentRL": ".589/.819/.672 .596/.819/.678 .602/.842/.689",
        "Dual-AMN": ".731/.923/.799 .728/.928/.801 .756/.948/.827",
        "Dual-AMN, self-trained": ".808/.940/.857 .806/.944/.857 .840/.965/.888",
    },
    ("csls", True): {"decentRL": ".565/.775/.643 .583/.786/.659 .590/.814/.673"},
    ("sinkhorn", False): {
        "LightEA": ".756/.905/.811 .762/.919/.821 .807/.943/.857",
        "LightEA, self-trained": ".812/.915/.849 .821/.933/.864 .863/.959/.900",
    },
    ("sinkhorn", True): {},
}
VARIANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "paper": ("paper", ()),
    "paper-code": ("paper-code", ()),
    "propagate": ("propagate", ()),
    "strong-self": ("strong", ("self_training.rounds=3",)),
    "strong": ("strong", ()),
    "quick-self": ("quick", ("self_training.rounds=3",)),
}
NAMES = ("hits@1", "hits@10", "mrr")


@dataclass(frozen=True)
class Asked:
    """The runs of a row: their seeds, and the splits of those of the open world."""

    seeds: range
    splits: tuple[int, ...]

    def runs(self, variant: str, pair: str, open_world: bool) -> list[Run]:
        preset, settings = VARIANTS[variant]
        unseen, splits = (PUBLISHED_SPLIT, self.splits) if open_world else (0.0, (0,))
        return [
            Run("alignment", f"dbp15k/{pair}", preset, settings, unseen, seed, split=split)
            for seed in self.seeds for split in splits
        ]  # fmt: skip


def cell(results: list[Result], name: str, **where: str) -> tuple[float, float]:
    values = [
        row[name] for result in results for row in result["results"]
        if all(row[key] == value for key, value in where.items())
    ]  # fmt: skip
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def triple(results: list[Result], **where: str) -> str:
    return " / ".join("{:.3f} ± {:.3f}".format(*cell(results, name, **where)) for name in NAMES)


def lost(store: Store, variant: str, pair: str, asked: Asked, **at: str) -> str:
    runs = [asked.runs(variant, pair, world) for world in (False, True)]
    closed, opened = map(store.results, runs)
    if [len(closed), len(opened)] != [*map(len, runs)]:  # means over other seeds are not comparable
        return "–"
    known, unknown, later, before = (
        100 * cell(results, "hits@1", subset=subset, **at)[0]
        for results, subset in (
            (opened, "known"), (opened, "unknown"), (opened, "all"), (closed, "all")
        )
    )  # fmt: skip
    return f"{round(before - later, 1) + 0.0} / {round(known - unknown, 1) + 0.0}"


def tables(variants: list[str], pairs: list[str], store: Store, asked: Asked) -> None:
    line = f"| --- |{' --- |' * len(pairs)}"

    def row(variant: str, world: bool, **where: str) -> str:
        cells = []
        for pair in pairs:
            runs = asked.runs(variant, pair, world)
            results = store.results(runs)
            fewer = f" ({len(results)} of {len(runs)} runs)" if len(results) < len(runs) else ""
            cells.append(triple(results, **where) + fewer if results else "–")
        return " | ".join(cells)

    for matcher, world in PUBLISHED:
        name = {"csls": "CSLS", "sinkhorn": "Sinkhorn"}[matcher]
        print(f"\n**{'Open' if world else 'Closed'} world, {name}**, Hits@1 / Hits@10 / MRR\n")
        print(f"| | {' | '.join(pair.upper() for pair in pairs)} |\n{line}")
        for model, numbers in PUBLISHED[matcher, world].items():
            published = dict(zip(PAIRS, numbers.split(), strict=True))
            cells = [published[pair].replace("/", " / ") for pair in pairs]
            print(f"| {model}, published | {' | '.join(cells)} |")
        at = {"direction": "left-right", "candidates": "test", "matcher": matcher}
        for variant in variants:
            print(f"| `{variant}` | {row(variant, world, subset='all', **at)} |")
            for subset in ("known", "unknown") if world else ():
                numbers = row(variant, world, subset=subset, **at)
                print(f"| `{variant}`, {subset} entities | {numbers} |")
    print(
        "\n**What arriving later costs**, points of Hits@1: closed − open world / known − unknown\n"
    )
    print(f"| | matcher | split | {' | '.join(pair.upper() for pair in pairs)} |")
    print(f"| --- | --- {line}")
    every = {", ".join(map(str, asked.splits)): asked}
    if len(asked.splits) > 1:
        every = {f"{split}": replace(asked, splits=(split,)) for split in asked.splits} | every
    for variant in variants:
        for matcher in ("csls", "sinkhorn"):
            at = {"direction": "left-right", "candidates": "test", "matcher": matcher}
            for split, these in every.items():
                cells = [lost(store, variant, pair, these, **at) for pair in pairs]
                print(f"| `{variant}` | {matcher} | {split} | {' | '.join(cells)} |")
    for world in (False, True):
        print(
            f"\n**{'Open' if world else 'Closed'} world, other readings**, Hits@1 / Hits@10 / MRR\n"
        )
        print(f"| variant | direction | among | matcher | {' | '.join(p.upper() for p in pairs)} |")
        print(f"| --- | --- | --- {line}")
        for variant in variants:
            for among in ("test", "all"):
                for direction in ("left-right", "right-left"):
                    for matcher in ("cosine", "csls", "sinkhorn"):
                        where = {"direction": direction, "candidates": among, "matcher": matcher}
                        place = f"{direction.replace('-', ' → ')} | {among} | {matcher}"
                        numbers = row(variant, world, subset="all", **where)
                        print(f"| `{variant}` | {place} | {numbers} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--pairs", nargs="+", choices=PAIRS, default=list(PAIRS))
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--splits", type=int, nargs="+", default=[0], help="0: as published")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=Path("results/reproduce"))
    parser.add_argument("--print", action="store_true", help="only what is there: train nothing")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    asked = Asked(seeds, tuple(options.splits))
    store = Store(options.output)
    runs = [
        run
        for variant in options.variants for world in (False, True) for pair in options.pairs
        for run in asked.runs(variant, pair, world)
    ]  # fmt: skip
    failed = [] if options.print else do_missing(runs, store, options.jobs)
    tables(options.variants, options.pairs, store, asked)
    sys.exit(bool(failed))


if __name__ == "__main__":
    try:
        main()
    except DecentRLError as error:
        sys.exit(f"error: {error}")
