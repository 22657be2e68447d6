"""The baselines of the paper, registered as encoders from outside the package.

``DECENTRL_PLUGINS=studies.rivals`` makes them known to ``decentrl``, ``import studies.rivals`` to
Python. None of them makes vectors of entities that come after training.
"""

from studies.rivals.alinet import AliNet
from studies.rivals.compgcn import CompGCN
from studies.rivals.dgcn import DGCN
from studies.rivals.gat import GAT
from studies.rivals.gcn import GCNAlign
from studies.rivals.lan import LAN
from studies.rivals.rgcn import RGCN
from studies.rivals.translational import TranslationalModel
from studies.rivals.wgcn import WGCN

__all__ = [
    "DGCN",
    "GAT",
    "LAN",
    "RGCN",
    "WGCN",
    "AliNet",
    "CompGCN",
    "GCNAlign",
    "TranslationalModel",
]
