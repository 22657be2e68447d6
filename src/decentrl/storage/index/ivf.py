"""Nearest neighbours among so many vectors that not all can be looked at: FAISS, if installed."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from decentrl.errors import BundleError, MissingExtraError
from decentrl.storage.files import whole_files
from decentrl.storage.index.exact import BLOCK, ExactIndex, Found, Index, Vectors, better, nothing

TARGET_RECALL = 0.97
"""Share of its own vectors' 10 nearest that a built index finds, by the probes it chooses."""
ROUNDS = 6  # of k-means; more find little more in clear clusters
FORMAT = "decentrl-index 2"


class FaissIndex(Index):
    """Compares a query only with the candidates in the lists nearest to it (IVF of FAISS).

    What it finds has the same scores as from :class:`ExactIndex`; it may miss some. How many of
    the lists a search looks into, ``probes``, is chosen by :meth:`build` such that 97 % of the 10
    nearest neighbours of the vectors themselves are found. Other queries like them find 98 % among
    500,000 vectors in clear clusters, in about a millisecond. The less clear the clusters, and the
    more of them share a list, the more lists it looks into: in vectors without any clusters into
    all, and then :class:`ExactIndex` is faster (``benchmarks/nearest.py``).

    The lists are by ``query·candidate`` alone: a bias orders anew the ``4 · top + 64`` best.

    Args:
        vectors: float32[n, d]; their ids are 0..n-1.
        centres: float32[lists, d], of length 1. A vector is in the list of the nearest.
        lists: int32[m], the list of each of the first m vectors, and only these are put in;
            default: all vectors, into the nearest list.
        stamp: what the vectors are, in the caller's words; kept in the file, so that an index of
            other vectors is noticed.
    """

    def __init__(
        self, vectors: Vectors, centres: Tensor, lists: Tensor | None = None, stamp: str = ""
    ) -> None:
        faiss = _faiss()
        quantizer = faiss.IndexFlatIP(centres.shape[1])
        quantizer.add(_numpy(centres))
        self._index = faiss.IndexIVFFlat(
            quantizer, centres.shape[1], len(centres), faiss.METRIC_INNER_PRODUCT
        )
        self._index.set_direct_map_type(faiss.DirectMap.Hashtable)
        self._index.is_trained = True
        self._centres, self.stamp = centres, stamp
        self.probes = self.lists = len(centres)
        n = len(vectors) if lists is None else len(lists)
        self._lists = torch.empty(n, dtype=torch.int32) if lists is None else lists
        size = max(1, BLOCK // (4 * max(1, centres.shape[1])))
        for start in range(0, n, size):
            ids = torch.arange(start, min(start + size, n))
            some = slice(start, start + len(ids))
            block = vectors[some]
            if lists is None:
                self._lists[some] = _nearest(block, centres)
            self._put(ids, block, self._lists[some])

    @classmethod
    def build(cls, vectors: Vectors, stamp: str = "") -> FaissIndex:
        """An index with 4·√n lists, but 39 vectors to a list at least."""
        n = len(vectors)
        lists = max(1, min(int(4 * math.sqrt(n)), n // 39))
        chance = torch.Generator().manual_seed(0)
        sample = _sample(vectors, 48 * lists, chance)[0]
        self = cls(vectors, _centres(sample, lists, chance), stamp=stamp)
        if lists > 1:
            self._choose_probes(vectors, *_sample(vectors, 256, chance))
        return self

    def _choose_probes(self, vectors: Vectors, queries: Tensor, own: Tensor) -> None:
        """The fewest, doubling, that find enough of the neighbours of the queries float32[q, d].

        ``own``, int64[q], are the ids of the queries, which find themselves anyhow.
        """
        near = ExactIndex(vectors).search(queries, 11)[1]
        near = near.masked_fill(near == own[:, None], -1)
        self.probes, enough = 2, False
        while not enough and self.probes < self.lists:
            self.probes = min(2 * self.probes, self.lists)
            found = self.search(queries, 11)[1]
            hits = (near[:, :, None] == found[:, None, :]).any(2) & (near >= 0)
            enough = bool(hits.sum() >= TARGET_RECALL * (near >= 0).sum())

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, ids: Tensor, vectors: Tensor) -> None:
        """Add the vectors float32[k, d] of distinct ids int64[k]; those there are replaced."""
        self.remove(ids)
        if len(ids):
            self._put(ids, vectors, _nearest(vectors, self._centres))

    def remove(self, ids: Tensor) -> None:
        """Remove the ids int64[k], as far as they are there."""
        if len(ids) and len(self):
            self._index.remove_ids(_faiss().IDSelectorArray(ids.numpy()))

    def _put(self, ids: Tensor, vectors: Tensor, lists: Tensor) -> None:
        # FAISS reads these while they are named here; it keeps copies.
        arrays = [_numpy(tensor) for tensor in (vectors, ids, lists.long())]
        self._index.add_core(len(ids), *map(_faiss().swig_ptr, arrays))

    # Searching

    def _wanted(self, top: int) -> int:
        """How many candidates of a query FAISS is asked for."""
        return max(1, min(4 * top + 64, len(self)))

    def _queries_at_once(self, top: int) -> int:
        return max(1, BLOCK // (4 * self._centres.shape[1] * self._wanted(top)))

    def _search(
        self,
        queries: Tensor,
        top: int,
        scale: float,
        bias: Tensor | None,
        allowed: Tensor | None,
        products: Tensor | None,
    ) -> Found:
        """Of the nearest that FAISS finds, the best by their true scores."""
        faiss, queries = _faiss(), queries.cpu()
        options = {"nprobe": self.probes}
        if allowed is not None:
            bits = np.packbits(allowed.cpu().numpy(), bitorder="little")
            options["sel"] = faiss.IDSelectorBitmap(bits)
        asked = faiss.SearchParametersIVF(**options)
        # No more threads than queries: the others only wait, and on busy cores that takes long.
        threads = faiss.omp_get_max_threads()
        faiss.omp_set_num_threads(max(1, min(threads, len(queries))))
        try:
            near = self._index.search(_numpy(queries), self._wanted(top), params=asked)[1]
        finally:
            faiss.omp_set_num_threads(threads)
        near = torch.from_numpy(near).sort(dim=1).values  # of equal scores the lower id first
        rows, columns = (near >= 0).nonzero().T
        ids = near[rows, columns]
        best = nothing(queries, top)
        if not len(ids):
            return best
        held = torch.from_numpy(self._index.reconstruct_batch(ids.numpy()))
        bias = None if bias is None else bias.cpu()
        return better(best, queries, rows, held, torch.arange(len(held)), ids, scale, bias)

    # Keeping

    def save(self, path: Path) -> None:
        """Write centres and lists, as the index was made: a file whole or not at all.

        It does not hold the vectors. FAISS neither writes nor reads it: a crafted file could
        make FAISS write to other files.
        """
        from safetensors.torch import save

        about = {"format": FORMAT, "stamp": self.stamp, "probes": str(self.probes)}
        about["sha256"] = _checksum(about, self._centres, self._lists)
        with whole_files(path) as (part,):
            part.write_bytes(save({"centres": self._centres, "lists": self._lists}, about))

    @classmethod
    def load(cls, path: Path, vectors: Vectors, stamps: Sequence[str]) -> FaissIndex:
        """Read what :meth:`save` wrote of these vectors, or of the first of them.

        Any damage, and a stamp that is not among ``stamps``, is an error that names the file.
        """
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "pt") as file:
                about = file.metadata() or {}
                centres, lists = (file.get_tensor(name).clone() for name in ("centres", "lists"))
            checksum, probes = about.pop("sha256"), int(about["probes"])
            if (
                checksum != _checksum(about, centres, lists)
                or about["format"] != FORMAT
                or about["stamp"] not in stamps
                or (centres.dtype, lists.dtype) != (torch.float32, torch.int32)
                or (centres.shape[1:], lists.shape[1:]) != (vectors.shape[1:], ())
                or len(lists) > len(vectors)
                or not ((lists >= 0) & (lists < len(centres))).all()
                or not centres.isfinite().all()
                or not 1 <= probes <= len(centres)
            ):
                raise ValueError("it is no index of these vectors")
        except (OSError, SafetensorError, KeyError, TypeError, ValueError) as error:
            raise BundleError(f"{path}: cannot be used ({error}); build the index again") from error
        self = cls(vectors, centres, lists, about["stamp"])
        self.probes = probes
        return self


def _checksum(about: Mapping[str, str], *tensors: Tensor) -> str:
    """SHA-256 of what a file holds."""
    digest = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for tensor in tensors:
        digest.update(_numpy(tensor))
    return digest.hexdigest()


def _faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise MissingExtraError("an approximate index", "faiss-cpu", "ann") from None
    return faiss


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
    centres = centres.to(vectors.device)
    size = max(1, (8 << 20) // (4 * len(centres)))
    nearest = torch.empty(len(vectors), dtype=torch.int64, device=vectors.device)
    for start in range(0, len(vectors), size):
        some = slice(start, start + size)
        nearest[some] = torch.matmul(vectors[some], centres.t()).argmax(1)
    return nearest


def _sample(vectors: Vectors, size: int, chance: torch.Generator) -> tuple[Tensor, Tensor]:
    """At most so many of the vectors, float32[k, d] on the CPU, and their ids, ascending."""
    ids = torch.randperm(len(vectors), generator=chance)[:size].sort().values
    return vectors[ids].cpu(), ids
