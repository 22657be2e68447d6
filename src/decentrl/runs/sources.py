"""Where a run's task comes from, written down so that it can be resumed from its folder alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from decentrl.aligner import Aligner
from decentrl.config import PredictionConfig, Settings
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.registry import load_dataset
from decentrl.errors import ConfigError, InputError
from decentrl.growth.growing_model import REFIT
from decentrl.predictor import Predictor
from decentrl.storage.bundle import kind_of

AnyTask = AlignmentTask | GraphTask
Model = Aligner | Predictor


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
    format: str = ""
    holdout: float = 0.1

    def read(self, seed: int) -> AlignmentTask:
        """The task; without test links the share ``holdout`` of the links becomes some."""
        if self.dataset:
            task = load_dataset(self.dataset, self.open_world)
            if not isinstance(task, AlignmentTask):
                raise InputError(
                    f"{self.dataset} is one graph, alignment needs two",
                    remedy="`decentrl data list` shows the datasets for alignment",
                )
            return task
        task = AlignmentTask.read(
            self.left,
            self.right,
            self.links,
            self.test_links or None,
            self.valid_links or None,
            self.format or None,
        )
        if self.holdout and not len(task.test):
            task = task.hold_out(self.holdout, seed, into="test")
        return task


@dataclass(frozen=True)
class GraphSources:
    """One graph."""

    dataset: str = ""
    open_world: bool = False
    triples: str = ""
    valid: str = ""
    test: str = ""
    format: str = ""
    holdout: float = 0.1

    def read(self, seed: int, valid: float = 0.1) -> GraphTask:
        """The task; without files of their own, shares of the triples become valid and test."""
        if self.dataset:
            task = load_dataset(self.dataset, self.open_world)
            if not isinstance(task, GraphTask):
                raise InputError(
                    f"{self.dataset} is two graphs, prediction needs one",
                    remedy="`decentrl data list` shows the datasets for prediction",
                )
            return task
        return GraphTask.read(
            self.triples,
            self.valid or None,
            self.test or None,
            self.format or None,
            valid_share=valid,
            test_share=self.holdout,
            seed=seed,
        )


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

    def read(self, device: str) -> tuple[Model, AnyTask]:
        """What was learned, and what there is to learn now."""
        if kind_of(self.start) == "predictor":
            if self.links:
                raise ConfigError("this run is about prediction; it has no links")
            predictor = Predictor.load(self.start, device)
            return predictor, predictor.settled_task()
        aligner = Aligner.load(self.start, device)
        return aligner, aligner.settled_task(self.links or None)


AnySources = Sources | GraphSources | Grown


def read_task(
    sources: AnySources, config: Settings, device: str = "cpu"
) -> tuple[AnyTask, dict[str, Any]]:
    """What a run with these settings learns from, and what it starts from, for ``fit``."""
    if isinstance(sources, Grown):
        start, task = sources.read(device)
        return task, {"start": start, "share": sources.share}
    if isinstance(sources, GraphSources):
        assert isinstance(config, PredictionConfig)
        return sources.read(config.seed, config.training.valid), {}
    return sources.read(config.seed), {}
