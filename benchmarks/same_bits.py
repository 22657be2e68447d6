"""Whether a training on two threads has the same bits in every process.

    DECENTRL_DATA=... python benchmarks/same_bits.py [--runs 6] [--set training.epochs=5]

Trains `--preset quick` on DBP15K ZH-EN in fresh processes, one after the other, and prints a hash
of the vectors and weights of each; other work on the machine makes the test harder. The same on
small data is tests/training/test_same_bits.py.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys

import torch

from decentrl import Aligner


def train(changes: list[str]) -> str:
    aligner = Aligner.from_preset("quick", *changes, device="cpu")
    aligner.fit("dbp15k/zh-en", progress=False)
    tensors = [aligner.vectors("left"), aligner.vectors("right"), *aligner.learned.weights.values()]
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().contiguous().numpy())
    return digest.hexdigest()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--set", action="append", default=[], dest="changes")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        torch.set_num_threads(2)
        print(train(given.changes))
        sys.exit()
    again = [sys.executable, __file__, "--one", *(f"--set={change}" for change in given.changes)]
    for _ in range(given.runs):
        print(subprocess.run(again, capture_output=True, text=True, check=True).stdout, end="")
