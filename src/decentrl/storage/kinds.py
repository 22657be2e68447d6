"""The two kinds of model, aligner and predictor: their names, settings, data and labels.

This table is the only place for what differs between them in a bundle. :mod:`decentrl.runs`
adds the models and what a run leaves of them, :mod:`decentrl.cli` how that is printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy.typing as npt

from decentrl.config import Config, PredictionConfig, Settings
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.vocabulary import Vocabulary

KindName = Literal["aligner", "predictor"]
AnyTask = AlignmentTask | GraphTask
Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Kind:
    """What one kind of model is called, which settings it has and what it learns from."""

    name: KindName  # that of its class, in small letters
    about: str
    command: str  # that trains one
    ask: str  # the command that asks one
    settings: type[Settings]
    task: type[AnyTask]
    graphs: tuple[str, ...]  # fields of the task, as are the next two
    arrays: tuple[str, ...]
    later: tuple[str, ...]  # arrays of an open world; those of two graphs are a pair
    quality: tuple[str, ...]  # columns of the table of quality on its card
    measured: str  # what that table is about
    example: str  # how it is asked

    @property
    def two_graphs(self) -> bool:
        """Whether its entities belong to a side, left or right."""
        return len(self.graphs) > 1

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the vocabularies: entities and relations of every graph."""
        parts = [f"{graph}." for graph in self.graphs] if self.two_graphs else [""]
        return tuple(f"{part}{name}" for part in parts for name in ("entities", "relations"))

    def task_graphs(self, task: AnyTask) -> dict[str, KnowledgeGraph]:
        """The graphs of a task, by name."""
        return {name: getattr(task, name) for name in self.graphs}

    def task_labels(self, task: AnyTask) -> dict[str, Vocabulary]:
        """The vocabularies of a task, by name."""
        graphs = self.task_graphs(task).values()
        words = [words for graph in graphs for words in (graph.entities, graph.relations)]
        return dict(zip(self.label_names, words, strict=True))

    def task_arrays(self, task: AnyTask) -> dict[str, npt.NDArray[Any]]:
        """All numbers of a task, by name; of a pair of arrays each by the name of its graph."""
        found = {graph: getattr(task, graph).triples for graph in self.graphs}
        for name in (*self.arrays, *self.later):
            value = getattr(task, name)
            if isinstance(value, tuple):
                pair = zip(self.graphs, value, strict=True)
                found |= {f"{name}.{graph}": array for graph, array in pair}
            elif value is not None:
                found[name] = value
        return found

    def make_task(
        self,
        name: str,
        labels: Mapping[str, Vocabulary],
        arrays: Arrays,
        described: Mapping[str, Mapping[str, Any]],
    ) -> AnyTask:
        """The task of these labels and arrays; the inverse of the two functions above.

        Args:
            described: names and attributes of each graph.
        """
        words = [labels[name] for name in self.label_names]
        graphs: list[Any] = [
            KnowledgeGraph(entities, relations, arrays[graph], **described[graph])
            for graph, entities, relations in zip(self.graphs, words[::2], words[1::2], strict=True)
        ]
        pairs = [[f"{field}.{graph}" for graph in self.graphs] for field in self.later]
        later: list[Any] = [
            tuple(arrays[part] for part in pair) if pair[0] in arrays else arrays.get(field)
            for field, pair in zip(self.later, pairs, strict=True)
        ]
        return self.task(name, *graphs, *(arrays[field] for field in self.arrays), *later)


KINDS: dict[str, Kind] = {
    "aligner": Kind(
        name="aligner",
        about="alignment",
        command="align",
        ask="match",
        settings=Config,
        task=AlignmentTask,
        graphs=("left", "right"),
        arrays=("train", "valid", "test"),
        later=("auxiliary", "unknown"),
        quality=("direction", "matcher", "candidates", "subset", "n", "hits@1", "hits@10", "mrr"),
        measured="links, tie-aware",
        example='Aligner.load("RUN").match(top=5)',
    ),
    "predictor": Kind(
        name="predictor",
        about="prediction",
        command="complete",
        ask="predict",
        settings=PredictionConfig,
        task=GraphTask,
        graphs=("graph",),
        arrays=("valid", "test"),
        later=("auxiliary", "new_entities"),
        quality=("name", "n", "mrr", "hits@1", "hits@3", "hits@10"),
        measured="triples, filtered, tie-aware",
        example='Predictor.load("RUN").predict(head="…", relation="…")',
    ),
}


def kind_for(thing: AnyTask | Settings) -> Kind:
    """The kind of model that has such settings, or learns from such a task."""
    return next(kind for kind in KINDS.values() if isinstance(thing, (kind.settings, kind.task)))


def kind_about(task: str | None) -> Kind:
    """The kind that results and settings name as their ``task``; those of alignment name none."""
    return KINDS["predictor" if task == "prediction" else "aligner"]
