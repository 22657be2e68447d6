"""Tensors only: layers and losses that know nothing of files and labels.

``DAN`` and what it needs are meant for other people's models too (``examples/dan_layer.py``);
``DANConv`` is the same for PyTorch Geometric, ``decentrl.nn.pykeen`` for PyKEEN.
"""

from decentrl.graph.view import GraphView
from decentrl.nn.conv import DANConv
from decentrl.nn.dan import DAN
from decentrl.nn.distillation import SelfDistillation

__all__ = ["DAN", "DANConv", "GraphView", "SelfDistillation"]
