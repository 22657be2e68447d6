"""Align two graphs of the world, then export the vectors to NumPy, Parquet and Gensim.

python examples/export_vectors.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow.parquet as pq

from decentrl import Aligner, AlignmentTask, load_dataset
from decentrl.storage.export import Part, export_vectors


def main(folder: Path) -> None:
    """Train for a few seconds on two packaged graphs and export the vectors."""
    task = load_dataset("world")
    assert isinstance(task, AlignmentTask)
    aligner = Aligner.from_preset("tiny", "training.epochs=5").fit(task)
    left, right = list(task.left.entities), list(task.right.entities)
    sides = [
        Part(left, aligner.embed(left, "left"), "left"),
        Part(right, aligner.embed(right, "right"), "right"),
    ]

    # Both sides fit in one Parquet file; the other formats hold one side.
    done = export_vectors(sides, folder / "world.parquet", "parquet")
    print(f"world.parquet: {done.written} vectors, {done.without} entities have none")
    print(pq.read_schema(folder / "world.parquet").remove_metadata())

    export_vectors(sides[:1], folder / "left", "npy")
    matrix = np.load(folder / "left.npy", mmap_mode="r")
    labels = (folder / "left.labels.txt").read_text("utf-8").splitlines()
    near = np.argsort(-(matrix @ matrix[0]))[1:4]
    print(f"\nNumPy, {matrix.shape}: near to {labels[0]} are {[labels[i] for i in near]}")

    export_vectors(sides[:1], folder / "left.txt", "word2vec")
    try:
        from gensim.models import KeyedVectors
    except ImportError:
        print("\nleft.txt is for Gensim, which is not installed: pip install gensim")
        return
    words = KeyedVectors.load_word2vec_format(folder / "left.txt")
    found = words.most_similar(words.index_to_key[0], topn=3)
    print(f"Gensim: near to {labels[0]} are {[unquote(word) for word, _ in found]}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary))
