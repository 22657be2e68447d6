"""A million entities: how long a large bundle takes to open, and a question to be answered.

    python benchmarks/million.py [-o FOLDER]

Builds the bundle of an aligner of two graphs with 500,000 entities, 2,000,000 triples and vectors
of 256 dimensions each in FOLDER (default: a temporary one); one that is there already is used
again. Nothing is trained. A left entity's vector is one of 20,000 random centres plus noise of half
its length (cosines within a cluster are about 0.8); its counterpart on the right is the same vector
plus noise of half its length again (0.9). A quarter of the entities are in known links. The matcher
is CSLS; the potentials of the full problem, which would take days, are random (-0.85 ± 0.02), and
so is what the confidence was learned from.

Prints how long the bundle takes to open, with the files in the page cache; the first question,
which reads and verifies the vectors, and with FAISS builds two indexes; and 50 more. A question is
the best 10 matches of one entity without a known link. Recall is the share of the exact answer's
first, and of its first ten, that FAISS finds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import normalize

from decentrl.aligner import Aligner
from decentrl.config import Config
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.vocabulary import Vocabulary
from decentrl.matching.confidence import fit_confidence
from decentrl.storage.bundle import Bundle, read_bundle, write_bundle

RELATIONS = 200
QUESTIONS = 50


def build(folder: Path, entities: int, triples: int, dim: int) -> None:
    """Write a bundle without training."""
    rng = np.random.default_rng(0)
    chance = torch.Generator().manual_seed(0)
    graphs = {}
    for side in ("left", "right"):
        names = Vocabulary(f"{side}/entity-{i:06}" for i in range(entities))
        relations = Vocabulary(f"{side}/relation-{i:03}" for i in range(RELATIONS))
        ends = rng.integers(entities, size=(triples, 2))
        kinds = rng.integers(RELATIONS, size=triples)
        rows = np.stack((ends[:, 0], kinds, ends[:, 1]), axis=1)
        empty = KnowledgeGraph(names, relations, rows[:0])
        graphs[side] = empty.with_triples(rows)

    def noisy(vectors: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(vectors.shape, generator=chance)
        return normalize(vectors.add_(noise, alpha=0.5 * dim**-0.5))

    centres = normalize(torch.randn(max(1, entities // 25), dim, generator=chance))
    left = noisy(centres[torch.randint(len(centres), (entities,), generator=chance)])
    links = np.stack((rng.permutation(entities), rng.permutation(entities)), axis=1)
    right = torch.empty_like(left)
    right[torch.from_numpy(links[:, 1])] = noisy(left[torch.from_numpy(links[:, 0])])

    train, valid, test = np.split(links[: entities // 2], [entities // 5, entities // 4])
    task = AlignmentTask("million", graphs["left"], graphs["right"], train, valid, test)
    evidence = torch.randn(1000, 4, dtype=torch.float64, generator=chance)
    matching = {
        "found": torch.empty((0, 2), dtype=torch.int64),
        **fit_confidence(evidence, evidence.sum(1) > 0).to_tensors(),
    }
    known = np.concatenate((train, valid))
    for name, linked in (("own", known[:, 0]), ("other", known[:, 1])):
        potential = torch.randn(entities, generator=chance).mul_(0.02).sub_(0.85)
        potential[torch.from_numpy(linked)] = torch.nan
        matching[f"potential.left.{name}"] = potential
    # Vectors of propagation have 16 numbers for each coordinate of a relation.
    changes = ["matching.matcher=csls", "propagation.relation_dim=16"]
    config = Config.from_preset("propagate", changes)
    vectors = {"left": left, "right": right}
    write_bundle(Bundle(config, task, {}, vectors, "Random vectors.\n", matching), folder)


def time_open(folder: Path, repeats: int = 5) -> list[float]:
    """Seconds of each opening."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        read_bundle(folder)
        seconds.append(time.perf_counter() - started)
    return seconds


def time_questions(aligner: Aligner, ann: bool) -> list[list[str]]:
    """Print how long questions take; what each was answered."""
    rng = np.random.default_rng(1)
    free = rng.choice(aligner.task.test[:, 0], QUESTIONS + 1, replace=False)
    first, *others = aligner.task.left.entities.take(free)
    answers, seconds = [], []
    started = time.perf_counter()
    aligner.match([first], top=10, ann=ann)
    cold = time.perf_counter() - started
    for label in others:
        started = time.perf_counter()
        table = aligner.match([label], top=10, ann=ann)
        seconds.append(time.perf_counter() - started)
        answers.append(table["right"].to_pylist())
    slow = statistics.quantiles(seconds, n=20)[-1]
    print(
        f"match, {'FAISS' if ann else 'exact'}: median {1000 * statistics.median(seconds):.1f} ms, "
        f"p95 {1000 * slow:.1f} ms, first {cold:.2f} s",
        flush=True,
    )
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--entities", type=int, default=500_000, help="of each side")
    parser.add_argument("--triples", type=int, default=2_000_000, help="of each side")
    parser.add_argument("--dim", type=int, default=256)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        run = options.output or Path(temporary)
        folder = run / "bundle"
        if not folder.exists():
            started = time.perf_counter()
            build(folder, options.entities, options.triples, options.dim)
            print(f"built in {time.perf_counter() - started:.1f} s")
        size = sum(file.stat().st_size for file in folder.iterdir())
        print(f"bundle: {size / 1e9:.2f} GB")
        first, *_ = seconds = time_open(folder)
        print(f"open: median {statistics.median(seconds):.3f} s, first {first:.3f} s", flush=True)
        aligner = Aligner.load(run, device="cpu")
        exact, found = (time_questions(aligner, ann) for ann in (False, True))
        pairs = list(zip(exact, found, strict=True))
        at_1 = np.mean([a[0] == b[0] for a, b in pairs])
        at_10 = np.mean([len({*a} & {*b}) / len(a) for a, b in pairs])
        print(f"FAISS against exact: recall@1 {at_1:.3f}, recall@10 {at_10:.3f}")
        aligner = Aligner.load(run, device="cpu")
        time_questions(aligner, True)


if __name__ == "__main__":
    main()
