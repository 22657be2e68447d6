"""Vectors of fewer numbers, with products as near as possible to those of all numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from decentrl.errors import InputError
from decentrl.storage.export import Part, matrices


def narrowed(parts: Sequence[Part], dim: int) -> list[Part]:
    """The same entities with vectors of ``dim`` numbers.

    They are projected onto the ``dim`` principal axes of the vectors of all parts together, about
    the origin (no mean is taken away), which among all such projections keeps the vectors, and so
    their products, the nearest in least squares. Lengths shrink by what is lost, so compare them
    by the cosine.
    """
    width = int(parts[0].vectors.shape[1])
    if not 1 <= dim <= width:
        raise InputError(f"no {dim} of {width} numbers", remedy=f"give 1 to {width}")
    axes = _axes(parts, width)[:, :dim].astype(np.float32)
    return [
        replace(part, vectors=np.concatenate([some @ axes for some in matrices(part)]))
        for part in parts
    ]


def _axes(parts: Sequence[Part], width: int) -> npt.NDArray[np.float64]:
    """The principal axes of all vectors, the first of which keeps the most: [width, width].

    Where there are fewer vectors than numbers, axes in which nothing lies are zeros.
    """
    if (count := sum(len(part.vectors) for part in parts)) < width:
        whole = np.concatenate([some for part in parts for some in matrices(part)])
        axes = np.zeros((width, width))
        axes[:, :count] = np.linalg.svd(whole.astype(np.float64), full_matrices=False)[2].T
        return axes
    moments = np.zeros((width, width))
    for part in parts:
        for some in matrices(part):
            moments += some.T @ some
    found: npt.NDArray[np.float64] = np.linalg.eigh(moments)[1][:, ::-1]
    return found
