"""What prediction costs on FB15K-237: an epoch, the way to a validation MRR, ranking, memory.

    DECENTRL_DATA=... python benchmarks/prediction_speed.py [--preset strong] [--device cpu]
                      [--set training.epochs=15] [--aims 0.34 0.35] [--first 5] [--run RUN]

After every epoch, from --first on, a sample of the validation triples says whether an aim is
reached; that time counts. Times are those inside the process after imports and device start.
`--compare` does it all for one setting after the other, e.g. `training.batch=1024
training.batch=4096` or `model.hidden=0.0 model.hidden=0.5` (a batch's own edges seen or hidden).
With --run nothing is trained: the finished run's test triples are encoded and ranked.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import torch

from decentrl import load_dataset
from decentrl.data.graph_task import GraphTask
from decentrl.predictor import Predictor
from decentrl.runs.machine import peak_memory
from decentrl.training.loop import Row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="fb15k-237")
    parser.add_argument("--preset", default="strong")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", dest="settings", action="append", default=[])
    parser.add_argument("--aims", type=float, nargs="*", default=[0.34, 0.35])
    parser.add_argument("--first", type=int, default=1, metavar="EPOCH")
    parser.add_argument("--compare", nargs="+", metavar="SETTING", default=[])
    parser.add_argument("--run")
    options = parser.parse_args()
    if options.run:
        ask(Predictor.load(options.run, options.device))
        return
    task = load_dataset(options.dataset)
    assert isinstance(task, GraphTask)
    for extra in [[setting] for setting in options.compare] or [[]]:
        print(" ".join((options.preset, *options.settings, *extra)), flush=True)
        settings = [*options.settings, *extra]
        measure(task, options.preset, settings, options.device, options.aims, options.first)


def measure(
    task: GraphTask, preset: str, settings: list[str], device: str, aims: list[float], first: int
) -> None:
    predictor = Predictor.from_preset(preset, "training.validate_every=1", *settings, device=device)
    if predictor.device.type == "cuda":
        torch.zeros(1, device="cuda")
    spent, left, epochs = 0.0, list(aims), []

    def on_epoch(row: Row) -> None:
        nonlocal spent
        spent += row["seconds"]
        epochs.append(row["seconds"])
        if left and row["epoch"] >= first:
            mrr = row["valid_mrr"]  # the time of an epoch has its validation in it
            print(f"epoch {row['epoch']:3d}  {spent:7.2f} s  valid MRR {mrr:.4f}", flush=True)
            while left and mrr >= left[0]:
                print(f"valid MRR {left.pop(0)} after {spent:.1f} s of training", flush=True)

    predictor.fit(task, on_epoch=on_epoch)
    print(f"  an epoch           {median(epochs):8.2f} s (median of {len(epochs)})")
    print(f"  training           {spent:8.1f} s")
    ask(predictor)


def ask(predictor: Predictor) -> None:
    """Encode and rank the test triples."""
    task, config = predictor.task, predictor.config
    predictor._forget()
    started = time.perf_counter()
    predictor.vectors().sum().item()
    encoding = time.perf_counter() - started
    started = time.perf_counter()
    rows = predictor.evaluate().rows
    ranking = time.perf_counter() - started
    found = rows[0]
    print(
        f"{task.name}, {config.preset}, {predictor.vectors().shape[1]}-d, {predictor.device.type}: "
        f"MRR {found['mrr']:.4f} Hits@1 {found['hits@1']:.4f} Hits@10 {found['hits@10']:.4f}"
    )
    print(f"  encoding once      {encoding:8.2f} s")
    print(f"  ranking {2 * len(task.test):,} questions {ranking:6.2f} s")
    print(f"  peak memory        {peak_memory(predictor) / 2**30:8.2f} GB", flush=True)


if __name__ == "__main__":
    main()
