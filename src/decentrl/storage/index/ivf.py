"""Nearest neighbours among so many vectors that not all can be looked at: FAISS, if installed."""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from torch import Tensor

from decentrl.errors import BundleError, ConfigError, InputError, MissingExtraError
from decentrl.storage.index.exact import (
    BLOCK,
    ExactIndex,
    Vectors,
    check,
    merge,
    nothing,
    pair_scores,
    rows_of,
)

TARGET_RECALL = 0.97
"""Share of its own vectors' 10 nearest that a built index finds, by the probes it chooses."""
ROUNDS = 6  # of k-means; more find little more in clear clusters
FORMAT, VERSION = "decentrl-index", 1


class FaissIndex:
    """Compares a query only with the candidates in the lists nearest to it (IVF of FAISS).

    What it finds has the same scores as from :class:`ExactIndex`; it may miss some. How many of
    the lists a search looks into, ``probes``, is chosen by :meth:`build` such that 97 % of the 10
    nearest neighbours of the vectors themselves are found; ``recall`` is what was measured.
    Other queries like them find 98 % among 500,000 vectors in clear clusters, in about a
    millisecond. The less clear the clusters, and the more of them share a list, the more lists it
    looks into: in vectors without any clusters into all, and then :class:`ExactIndex` is faster
    (``benchmarks/nearest.py``).

    The lists are by ``query·candidate`` alone: a bias orders anew the ``4 · top + 64`` best.

    Attributes:
        stamp: what the index was built of, in the caller's words; kept with it, so that the
            caller notices an index of other vectors.
    """

    def __init__(self, index: Any, probes: int, recall: float, stamp: str) -> None:
        self._index = index
        self._centres = torch.from_numpy(index.quantizer.reconstruct_n(0, index.nlist))
        self.probes, self.recall, self.stamp = probes, recall, stamp

    @classmethod
    def build(
        cls, vectors: Vectors, *, lists: int | None = None, seed: int = 0, stamp: str = ""
    ) -> FaissIndex:
        """An index of the vectors float32[n, d]; their ids are 0..n-1.

        Args:
            lists: how many; default: 4·√n, but 39 vectors to a list at least.
            seed: chooses the sample that the lists are learned from.
        """
        faiss = _faiss()
        n, dim = vectors.shape
        if lists is None:
            lists = max(1, min(int(4 * math.sqrt(n)), n // 39))
        if not 1 <= lists <= max(1, n):
            raise ConfigError(f"{lists} lists for {n} vectors; use 1 to {max(1, n)}")
        chance = torch.Generator().manual_seed(seed)
        quantizer = faiss.IndexFlatIP(dim)
        quantizer.add(_numpy(_centres(_sample(vectors, 48 * lists, chance)[0], lists, chance)))
        index = faiss.IndexIVFFlat(quantizer, dim, lists, faiss.METRIC_INNER_PRODUCT)
        index.set_direct_map_type(faiss.DirectMap.Hashtable)
        index.is_trained = True
        self = cls(index, lists, 1.0, stamp)
        for start, block in _blocks(vectors):
            self.add(torch.arange(start, start + len(block)), block)
        if lists > 1:
            self._choose_probes(vectors, *_sample(vectors, 256, chance))
        return self

    def _choose_probes(self, vectors: Vectors, queries: Tensor, own: Tensor) -> None:
        """The fewest, doubling, that find enough of the neighbours of the queries float32[q, d].

        ``own``, int64[q], are the ids of the queries, which find themselves anyhow.
        """
        near = ExactIndex(vectors).search(queries, 11)[1]
        near = near.masked_fill(near == own[:, None], -1)
        for probes in (2**i for i in range(2, 64)):
            self.probes = min(probes, self._index.nlist)
            found = self.search(queries, 11)[1]
            hits = (near[:, :, None] == found[:, None, :]).any(2) & (near >= 0)
            self.recall = (hits.sum() / (near >= 0).sum().clamp(min=1)).item()
            if self.recall >= TARGET_RECALL or probes >= self._index.nlist:
                return

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def lists(self) -> int:
        return int(self._index.nlist)

    def add(self, ids: Tensor, vectors: Tensor) -> None:
        """Add the vectors float32[k, d] of ids int64[k]; those already there are replaced."""
        different = len(set(ids.tolist()))
        if not different == len(ids) == len(vectors):
            raise InputError(
                f"{different} different ids for {len(vectors)} vectors",
                remedy="give each vector an id of its own",
            )
        self.remove(ids)
        if len(ids):
            lists = _nearest(vectors, self._centres.to(vectors.device))
            # FAISS reads these while they are named here; it keeps copies.
            arrays = [_numpy(tensor) for tensor in (vectors, ids, lists)]
            self._index.add_core(len(ids), *map(_faiss().swig_ptr, arrays))

    def remove(self, ids: Tensor) -> int:
        """Remove the ids int64[k]; returns how many of them were there."""
        if not len(ids) or not len(self):
            return 0
        gone = _faiss().IDSelectorArray(ids.cpu().numpy())
        return int(self._index.remove_ids(gone))

    def search(
        self,
        queries: Tensor,
        top: int,
        *,
        scale: float = 1.0,
        bias: Tensor | None = None,
        allowed: Tensor | None = None,
        probes: int | None = None,
    ) -> tuple[Tensor, Tensor]:
        """See :class:`decentrl.matching.point.Search`.

        Args:
            probes: how many lists to look into; default: ``self.probes``.
        """
        dim = self._index.d
        check(queries, dim, top, scale)
        faiss = _faiss()
        options = {"nprobe": min(probes or self.probes, self.lists)}
        if allowed is not None:
            bits = _packed(allowed)
            options["sel"] = faiss.IDSelectorBitmap(bits)
        asked = faiss.SearchParametersIVF(**options)
        wanted = max(1, min(4 * top + 64, len(self)))
        scores, ids = nothing(len(queries), top, torch.device("cpu"))
        size = max(1, BLOCK // (4 * dim * wanted))
        with _threads(len(queries)):
            for start in range(0, len(queries), size):
                some = slice(start, start + size)
                found = self._search(queries[some].cpu(), top, wanted, asked, scale, bias)
                scores[some], ids[some] = found
        return scores, ids

    def _search(
        self, queries: Tensor, top: int, wanted: int, asked: Any, scale: float, bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Of the ``wanted`` nearest that FAISS finds, asked so, the best by their true scores."""
        near = torch.from_numpy(self._index.search(_numpy(queries), wanted, params=asked)[1])
        near = near.sort(dim=1).values  # of equal scores the lower id first
        rows, columns = (near >= 0).nonzero().T
        candidates = near[rows, columns]
        best = nothing(len(queries), top, queries.device)
        if not len(candidates):
            return best
        held = torch.from_numpy(self._index.reconstruct_batch(candidates.numpy()))
        sums = pair_scores(queries, rows, held, torch.arange(len(held)), scale)
        if bias is not None:
            sums += bias.cpu()[candidates]
        return merge(best, rows, sums.float(), candidates)

    # Keeping

    def save(self, path: str | PathLike[str]) -> None:
        """Write one file, whole or not at all: what FAISS writes, the stamp, and a checksum."""
        path = Path(path)
        about = {"format": FORMAT, "version": VERSION, "stamp": self.stamp}
        about |= {"probes": self.probes, "recall": self.recall}
        tail = json.dumps(about).encode()
        # Two processes that build it at once must not write into one file.
        temporary = path.with_name(f"{path.name}.part-{os.getpid()}")
        try:
            _faiss().write_index(self._index, str(temporary))
            with temporary.open("r+b") as file:
                file.seek(0, os.SEEK_END)
                file.write(tail + struct.pack("<I", len(tail)))
                file.flush()
                file.write(_digest(file, file.tell()))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: str | PathLike[str]) -> FaissIndex:
        """Read what :meth:`save` wrote; any damage is an error that names the file."""
        faiss, path = _faiss(), Path(path)
        if not path.is_file():
            raise BundleError(f"{path}: no such index; build it first")
        with path.open("rb") as file:
            end = path.stat().st_size - 32
            if end < 4 or _digest(file, end) != file.read(32):
                raise BundleError(f"{path}: damaged (its checksum differs); build the index again")
            file.seek(end - 4)
            (size,) = struct.unpack("<I", file.read(4))
            file.seek(max(0, end - 4 - size))
            try:
                about = dict(json.loads(file.read(size)))
            except ValueError:
                about = {}
        if about.get("format") != FORMAT or about.get("version") != VERSION:
            raise BundleError(
                f"{path}: not an index of the format {FORMAT} {VERSION}; build the index again"
            )
        try:
            index = faiss.read_index(str(path))
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            raise BundleError(f"{path}: cannot be read ({reason}); build it again") from error
        return cls(index, about["probes"], about["recall"], about["stamp"])


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise MissingExtraError("an approximate index", "faiss-cpu", "ann") from None
    return faiss


@contextmanager
def _threads(queries: int) -> Iterator[None]:
    """No more threads than queries: the others only wait, and on busy cores that takes long."""
    faiss = _faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(max(1, min(before, queries)))
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _numpy(vectors: Tensor) -> Any:
    return vectors.detach().cpu().contiguous().numpy()


def _centres(sample: Tensor, lists: int, chance: torch.Generator) -> Tensor:
    """float32[lists, d], of length 1, by k-means on the sample float32[k, d].

    Not by FAISS itself, whose matrix products take four times as long as PyTorch's.
    """
    centres = sample.new_zeros(lists, sample.shape[1])
    if lists == 1:  # nothing to learn, and maybe nothing to learn it from
        return centres
    centres[:] = sample[torch.randperm(len(sample), generator=chance)[:lists]]
    for _ in range(ROUNDS):
        which = _nearest(sample, centres)
        sums = torch.zeros_like(centres).index_add_(0, which, sample)
        empty = which.bincount(minlength=lists) == 0
        sums[empty] = sample[torch.randint(len(sample), (int(empty.sum()),), generator=chance)]
        centres = torch.nn.functional.normalize(sums)
    return centres


def _nearest(vectors: Tensor, centres: Tensor) -> Tensor:
    """int64[n], the centre of the highest cosine for each of the vectors float32[n, d]."""
    size = max(1, (8 << 20) // (4 * len(centres)))
    nearest = torch.empty(len(vectors), dtype=torch.int64, device=vectors.device)
    for start in range(0, len(vectors), size):
        some = slice(start, start + size)
        nearest[some] = torch.matmul(vectors[some], centres.t()).argmax(1)
    return nearest


def _packed(allowed: Tensor) -> Any:
    return np.packbits(allowed.cpu().numpy(), bitorder="little")


def _blocks(vectors: Vectors) -> Iterator[tuple[int, Tensor]]:
    """The vectors in blocks, each with its first id."""
    n, dim = vectors.shape
    size = max(1, BLOCK // (4 * max(1, dim)))
    for start in range(0, n, size):
        yield start, rows_of(vectors, slice(start, min(start + size, n)))


def _sample(vectors: Vectors, size: int, chance: torch.Generator) -> tuple[Tensor, Tensor]:
    """At most so many of the vectors, float32[k, d] on the CPU, and their ids, ascending."""
    ids = torch.randperm(len(vectors), generator=chance)[:size].sort().values
    sample = torch.empty(len(ids), vectors.shape[1])
    for start, block in _blocks(vectors):
        inside = (ids >= start) & (ids < start + len(block))
        sample[inside] = block[(ids[inside] - start).to(block.device)].cpu()
    return sample, ids


def _digest(file: IO[bytes], end: int) -> bytes:
    """SHA-256 of the file up to ``end``, where it is left."""
    file.seek(0)
    digest = hashlib.sha256()
    while block := file.read(min(1 << 20, end - file.tell())):
        digest.update(block)
    return digest.digest()
