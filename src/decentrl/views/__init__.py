"""Ways to see an entity: each makes vectors from a graph, also of entities that come later."""

from decentrl.views.base import Attention, LinkObjective, Objective, Rows, TrainingData, View
from decentrl.views.part import Part
from decentrl.views.registry import make_view, register_view

__all__ = [
    "Attention",
    "LinkObjective",
    "Objective",
    "Part",
    "Rows",
    "TrainingData",
    "View",
    "make_view",
    "register_view",
]
