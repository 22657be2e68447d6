"""Where the data of a run come from, written down so that its folder alone can resume it."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, replace
from os import PathLike
from typing import Any

from decentrl.aligner import Aligner
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.headers import Reading
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.links import UnknownLinks
from decentrl.data.names import names_from_ids
from decentrl.data.open_world import SHARE, split_alignment, split_graph
from decentrl.data.registry import is_named, load_task
from decentrl.errors import ConfigError, InputError
from decentrl.growth.growing_model import REFIT
from decentrl.predictor import Predictor
from decentrl.storage.bundle import open_bundle
from decentrl.storage.kinds import AnyTask

IDS, TRANSLATED, BOTH = "ids", "translated", "ids+translated"
"""Values of ``--names``; the last two are about datasets with translated names."""
NONE = "none"
NAME_WORDS = (IDS, NONE, TRANSLATED, BOTH)
"""What may stand where a file of names may: from identifiers, no names, those of DBP15K."""
HOW = ("format", "header", "columns", "separator", "unknown_links", "right_columns")
"""Those of the sources that say how files are read."""
MODELS: dict[str, Any] = {"aligner": Aligner, "predictor": Predictor}


def load_model(run: str | PathLike[str], device: str, durable: bool = False) -> Any:
    """The aligner or predictor of a run; ``run`` may be an opened bundle, to read it once."""
    opened = open_bundle(run)
    return MODELS[opened.kind.name].load(opened, device, durable=durable)


@dataclass(frozen=True)
class Sources:
    """Two graphs and links."""

    dataset: str = ""
    open_world: bool = False
    left: str = ""
    right: str = ""
    links: str = ""
    test_links: str = ""
    valid_links: str = ""
    names: str = ""
    left_names: str = ""
    right_names: str = ""
    left_attributes: str = ""
    right_attributes: str = ""
    unknown_links: UnknownLinks = "error"
    right_columns: str = ""
    format: str = ""
    header: str = "auto"
    columns: str = ""
    separator: str = ""
    holdout: float = 0.1

    def read(self, seed: int) -> AlignmentTask:
        """The task; without test links the share ``holdout`` of the links becomes some."""
        task = self._read(seed)
        names = {TRANSLATED: "", BOTH: ""}.get(self.names, self.names)
        left = _described(task.left, self.left_names or names, self.left_attributes)
        right = _described(task.right, self.right_names or names, self.right_attributes)
        return replace(task, left=left, right=right)

    def _read(self, seed: int) -> AlignmentTask:
        """The task with the names that come with it."""
        if self.dataset:
            translated = self.names in (TRANSLATED, BOTH)
            task = load_task(AlignmentTask, self.dataset, self.open_world, translated)
            if self.names == BOTH:
                left, right = (
                    replace(graph, names=names_from_ids(graph.entities).concat(graph.names))
                    for graph in (task.left, task.right)
                )
                task = replace(task, left=left, right=right)
            return task.without_links() if self.links == NONE else task
        links = None if self.links == NONE else self.links or None
        chosen = Reading.of(columns=self.right_columns).columns
        task = AlignmentTask.read(
            self.left,
            self.right,
            links,
            self.test_links or None,
            self.valid_links or None,
            _reading(self),
            right_format=replace(_reading(self), columns=chosen) if chosen else None,
            unknown_links=self.unknown_links,
        )
        if self.holdout and links and not len(task.test):
            task = task.hold_out(self.holdout, seed, into="test")
        return split_alignment(task, SHARE, seed) if self.open_world else task


@dataclass(frozen=True)
class GraphSources:
    """One graph."""

    dataset: str = ""
    open_world: bool = False
    triples: str = ""
    valid: str = ""
    test: str = ""
    names: str = ""
    format: str = ""
    header: str = "auto"
    columns: str = ""
    separator: str = ""
    holdout: float = 0.1

    def read(self, seed: int, valid: float = 0.1) -> GraphTask:
        """The task; without files of their own, shares of the triples become valid and test."""
        if self.dataset:
            task = load_task(GraphTask, self.dataset, self.open_world)
        else:
            held_out = self.valid or valid, self.test or self.holdout
            task = GraphTask.read(self.triples, *held_out, _reading(self), seed=seed)
            task = split_graph(task, SHARE, seed) if self.open_world else task
        return replace(task, graph=_described(task.graph, self.names, ""))


def _reading(sources: Sources | GraphSources) -> Reading:
    """How its files are read."""
    return Reading.of(sources.format, sources.header, sources.columns, sources.separator)


def _described(graph: KnowledgeGraph, names: str, attributes: str) -> KnowledgeGraph:
    """The graph with other names and attributes, if any are given."""
    graph = graph.with_names(names) if names else graph
    return graph.with_attributes(attributes) if attributes else graph


@dataclass(frozen=True)
class Grown:
    """A run with all that was added to it, to be trained again from what it has learned.

    Args:
        start: its folder.
        links: file of links that have become known since, of an aligner.
        share: of the epochs of a training from scratch.
    """

    start: str
    links: str = ""
    share: float = REFIT


AnySources = Sources | GraphSources | Grown


def whole_paths(sources: AnySources) -> AnySources:
    """The same files by names that mean them in any working folder."""
    found: dict[str, Any] = {}
    for name, value in asdict(sources).items():
        apart = name in HOW or (name == "dataset" and is_named(value))
        apart |= name.endswith("names") and value in NAME_WORDS
        apart |= name == "links" and value == NONE
        if isinstance(value, str) and value and not apart:
            found[name] = whole_path(value)
    return replace(sources, **found)


def whole_path(path: str | PathLike[str]) -> str:
    """The whole path; Arrow and the settings of a run can only hold UTF-8."""
    whole = os.path.abspath(path)
    try:
        whole.encode()
    except UnicodeEncodeError:
        raise InputError("the name is not UTF-8", file=path, remedy="rename it") from None
    return whole


def read_task(
    sources: AnySources, config: Any, device: str = "cpu"
) -> tuple[AnyTask, dict[str, Any]]:
    """What a run with these settings learns from, and what it starts from, for ``fit``."""
    if isinstance(sources, Sources):
        return sources.read(config.seed), {}
    if isinstance(sources, GraphSources):
        return sources.read(config.seed, config.training.valid), {}
    opened = open_bundle(sources.start)
    if sources.links and not opened.kind.two_graphs:
        raise ConfigError("this run is about prediction; it has no links")
    start = load_model(opened, device)
    task = start.settled_task(*([sources.links] if sources.links else []))
    return task, {"start": start, "share": sources.share}
