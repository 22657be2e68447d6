"""Ways to see an entity: each makes vectors from a graph, also of entities that come later."""

from decentrl.views.base import Attention as Attention
from decentrl.views.base import LinkObjective as LinkObjective
from decentrl.views.base import Objective as Objective
from decentrl.views.base import Rows as Rows
from decentrl.views.base import TrainingData as TrainingData
from decentrl.views.base import View as View
from decentrl.views.part import Part as Part
from decentrl.views.registry import make_view as make_view
from decentrl.views.registry import register_view as register_view
