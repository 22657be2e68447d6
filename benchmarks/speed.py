"""How long a good alignment takes, and where the time goes.

    DECENTRL_DATA=... python benchmarks/speed.py [--device cpu] [--seeds 3] [--set KEY=VALUE ...]

Every seed runs in a process of its own: reading, training, and matching the test links with
Sinkhorn, measured after imports and, on a CUDA device, after a first small kernel; the whole
process's time, imports and all, stands beside it. Peak memory is the process's (CPU).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from statistics import fmean
from typing import Any


def one(options: argparse.Namespace) -> dict[str, Any]:
    """Reading, training and matching, once."""
    import torch

    import decentrl.training.fitting as fitting
    from decentrl import Aligner, AlignmentTask, load_dataset
    from decentrl.matching.evaluate import apply_matcher
    from decentrl.matching.metrics import summary
    from decentrl.matching.ranks import rank
    from decentrl.matching.similarity import Scores
    from decentrl.nn.propagation import SeedPropagation

    aligner = Aligner.from_preset(
        options.preset, *options.settings, seed=options.seed, device=options.device
    )
    cuda = aligner.device.type == "cuda"
    if cuda:
        warm = torch.ones(8, 8, device="cuda")
        (warm.to_sparse_csr() @ warm).sum().item()

    parts: dict[str, float] = {}

    def clock(name: str, work: Any) -> Any:
        def timed(*arguments: Any, **more: Any) -> Any:
            started = time.perf_counter()
            result = work(*arguments, **more)
            if cuda:
                torch.cuda.synchronize()
            parts[name] = parts.get(name, 0.0) + time.perf_counter() - started
            return result

        return timed

    fitting.train = clock("encoder steps", fitting.train)
    SeedPropagation.__init__ = clock("propagation", SeedPropagation.__init__)  # type: ignore[method-assign]
    SeedPropagation.features = clock("propagation", SeedPropagation.features)  # type: ignore[method-assign]

    started = time.perf_counter()
    task = clock("reading", load_dataset)(options.dataset)
    assert isinstance(task, AlignmentTask)
    clock("fit", aligner.fit)(task)

    def match() -> float:
        left, right = aligner._vectors["left"], aligner._vectors["right"]
        links = torch.from_numpy(task.test).to(left.device)
        cosine = Scores.cosine(left[links[:, 0]], right[links[:, 1]])
        scores = apply_matcher(cosine, "sinkhorn", aligner.config.matching)
        return summary(rank(scores, torch.arange(len(links), device=left.device)))["hits@1"]

    hits = clock("matching", match)()
    seconds = time.perf_counter() - started
    parts["graphs and the rest"] = parts.pop("fit") - parts["encoder steps"] - parts["propagation"]
    return {
        "hits@1": hits,
        "seconds": seconds,
        "parts": parts,
        "gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "device": torch.cuda.get_device_name() if cuda else "cpu",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", default="dbp15k/zh-en")
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--set", action="append", default=[], dest="settings")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.seed is not None:
        print(json.dumps(one(options)))
        return
    runs = []
    for seed in range(options.seeds):
        started = time.perf_counter()
        command = [sys.executable, __file__, *sys.argv[1:], "--seed", str(seed)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        runs.append({**json.loads(said), "process": time.perf_counter() - started})
        print(f"seed {seed}: Hits@1 {runs[-1]['hits@1']:.4f} in {runs[-1]['seconds']:.1f} s",
              file=sys.stderr, flush=True)  # fmt: skip
    total = fmean(run["seconds"] for run in runs)
    print(
        f"{options.dataset}, preset {options.preset} {' '.join(options.settings)}, "
        f"{runs[0]['device']}, mean of {len(runs)} seeds: Hits@1 (Sinkhorn, test targets) "
        f"{fmean(run['hits@1'] for run in runs):.4f} in {total:.1f} s "
        f"(slowest {max(run['seconds'] for run in runs):.1f} s; whole process "
        f"{fmean(run['process'] for run in runs):.1f} s), peak memory of the process "
        f"{max(run['gigabytes'] for run in runs):.2f} GB"
    )
    for name in runs[0]["parts"]:
        seconds = fmean(run["parts"][name] for run in runs)
        print(f"  {name:20} {seconds:6.2f} s  {seconds / total:4.0%}")


if __name__ == "__main__":
    main()
