"""Nearest neighbours: :class:`ExactIndex` looks at all, :class:`FaissIndex` where it is likely."""

from decentrl.storage.index.exact import ExactIndex, Vectors
from decentrl.storage.index.ivf import FaissIndex

__all__ = ["ExactIndex", "FaissIndex", "Vectors"]
