"""Entity representations for open-world knowledge graphs.

Public names are imported on first use, so that ``import decentrl`` and ``decentrl --help``
do not wait for torch. Messages go to the logger ``decentrl``, which is quiet by default.
"""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from decentrl._version import __version__ as __version__

if TYPE_CHECKING:
    from decentrl.aligner import Aligner as Aligner
    from decentrl.config import Config as Config
    from decentrl.config import PredictionConfig as PredictionConfig
    from decentrl.data.alignment_task import AlignmentTask as AlignmentTask
    from decentrl.data.graph_task import GraphTask as GraphTask
    from decentrl.data.knowledge_graph import KnowledgeGraph as KnowledgeGraph
    from decentrl.data.registry import load_dataset as load_dataset
    from decentrl.data.results import Evaluation as Evaluation
    from decentrl.data.results import ResultTable as ResultTable
    from decentrl.errors import BundleError as BundleError
    from decentrl.errors import ConfigError as ConfigError
    from decentrl.errors import DecentRLError as DecentRLError
    from decentrl.errors import DecentRLWarning as DecentRLWarning
    from decentrl.errors import DivergedError as DivergedError
    from decentrl.errors import FormatWarning as FormatWarning
    from decentrl.errors import InputError as InputError
    from decentrl.errors import MissingExtraError as MissingExtraError
    from decentrl.errors import NotFittedError as NotFittedError
    from decentrl.errors import UnknownLabelError as UnknownLabelError
    from decentrl.predictor import Predictor as Predictor
    from decentrl.runs.run import write_report as write_report
    from decentrl.storage.interchange import write_alignment as write_alignment
    from decentrl.storage.interchange import write_sssom as write_sssom

_ERRORS = (
    "BundleError ConfigError DecentRLError DecentRLWarning DivergedError InputError "
    "MissingExtraError NotFittedError FormatWarning UnknownLabelError"
)
_HOMES = {
    "Aligner": "decentrl.aligner",
    "AlignmentTask": "decentrl.data.alignment_task",
    "Config": "decentrl.config",
    "Evaluation": "decentrl.data.results",
    "GraphTask": "decentrl.data.graph_task",
    "KnowledgeGraph": "decentrl.data.knowledge_graph",
    "PredictionConfig": "decentrl.config",
    "Predictor": "decentrl.predictor",
    "ResultTable": "decentrl.data.results",
    "load_dataset": "decentrl.data.registry",
    "write_alignment": "decentrl.storage.interchange",
    "write_report": "decentrl.runs.run",
    "write_sssom": "decentrl.storage.interchange",
} | dict.fromkeys(_ERRORS.split(), "decentrl.errors")

__all__ = sorted([*_HOMES, "__version__"])

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'decentrl' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
