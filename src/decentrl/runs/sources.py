"""Where the data of a run come from, written down so that its folder alone can resume it."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

from decentrl.aligner import Aligner
from decentrl.config import PredictionConfig, Settings
from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.graph_task import GraphTask
from decentrl.data.registry import load_dataset
from decentrl.errors import ConfigError, InputError
from decentrl.growth.growing_model import REFIT
from decentrl.predictor import Predictor
from decentrl.storage.bundle import open_bundle
from decentrl.storage.kinds import KINDS, AnyTask, KindName

Model = Aligner | Predictor
MODELS: dict[str, type[Model]] = {"aligner": Aligner, "predictor": Predictor}


def load_model(run: str | PathLike[str], device: str, durable: bool = False) -> Any:
    """The aligner or predictor of a run; ``run`` may be an opened bundle, to read it once."""
    opened = open_bundle(run)
    return MODELS[opened.kind.name].load(opened, device, durable=durable)


def _read_dataset(name: str, open_world: bool, wanted: KindName) -> Any:
    """The task of a dataset; an error if it is one for the other kind of model."""
    task, kind = load_dataset(name, open_world), KINDS[wanted]
    if not isinstance(task, kind.task):
        found, needed = ("one graph", "two") if kind.two_graphs else ("two graphs", "one")
        raise InputError(
            f"{name} is {found}, {kind.about} needs {needed}",
            remedy=f"`decentrl data list` shows the datasets for {kind.about}",
        )
    return task


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
            dataset: AlignmentTask = _read_dataset(self.dataset, self.open_world, "aligner")
            return dataset
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
            dataset: GraphTask = _read_dataset(self.dataset, self.open_world, "predictor")
            return dataset
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
        opened = open_bundle(self.start)
        if self.links and not opened.kind.two_graphs:
            raise ConfigError("this run is about prediction; it has no links")
        model = load_model(opened, device)
        return model, model.settled_task(*([self.links] if self.links else []))


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
