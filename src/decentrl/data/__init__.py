"""Labels and files: readers, writers, vocabularies, graphs, tasks and datasets.

The public names are imported on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from decentrl.data.alignment_task import AlignmentTask as AlignmentTask
    from decentrl.data.graph_task import GraphTask as GraphTask
    from decentrl.data.knowledge_graph import KnowledgeGraph as KnowledgeGraph
    from decentrl.data.knowledge_graph import ReadCounts as ReadCounts
    from decentrl.data.registry import data_root as data_root
    from decentrl.data.registry import list_datasets as list_datasets
    from decentrl.data.registry import load_dataset as load_dataset
    from decentrl.data.vocabulary import Vocabulary as Vocabulary

_HOMES = {
    "AlignmentTask": "alignment_task",
    "GraphTask": "graph_task",
    "KnowledgeGraph": "knowledge_graph",
    "ReadCounts": "knowledge_graph",
    "Vocabulary": "vocabulary",
    "data_root": "registry",
    "list_datasets": "registry",
    "load_dataset": "registry",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
