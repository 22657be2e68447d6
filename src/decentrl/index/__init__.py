"""Nearest neighbours: :class:`ExactIndex` looks at all, :class:`FaissIndex` where it is likely."""

from decentrl.index.exact import ExactIndex, Rows, Vectors
from decentrl.index.ivf import FaissIndex

__all__ = ["ExactIndex", "FaissIndex", "Rows", "Vectors"]
