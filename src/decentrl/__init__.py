"""Entity representations for open-world knowledge graphs.

Public names are imported on first use, so that ``import decentrl`` and ``decentrl --help``
do not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from decentrl._version import __version__

if TYPE_CHECKING:
    from decentrl.aligner import Aligner
    from decentrl.config import Config, PredictionConfig
    from decentrl.data.alignment_task import AlignmentTask
    from decentrl.data.graph_task import GraphTask
    from decentrl.data.knowledge_graph import KnowledgeGraph
    from decentrl.data.registry import load_dataset
    from decentrl.predictor import Predictor

_HOMES = {
    "Aligner": "decentrl.aligner",
    "AlignmentTask": "decentrl.data.alignment_task",
    "Config": "decentrl.config",
    "GraphTask": "decentrl.data.graph_task",
    "KnowledgeGraph": "decentrl.data.knowledge_graph",
    "PredictionConfig": "decentrl.config",
    "Predictor": "decentrl.predictor",
    "load_dataset": "decentrl.data.registry",
}

__all__ = [
    "Aligner",
    "AlignmentTask",
    "Config",
    "GraphTask",
    "KnowledgeGraph",
    "PredictionConfig",
    "Predictor",
    "__version__",
    "load_dataset",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'decentrl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
