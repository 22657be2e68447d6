"""What an aligner and a predictor have in common: their graphs grow after training."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from decentrl.config import must_grow, must_have_vectors
from decentrl.data.memory import Source
from decentrl.data.naming import entity_ids
from decentrl.data.results import ResultTable
from decentrl.errors import BundleError, ConfigError, InputError, warn_left_out
from decentrl.growth.arriving import called
from decentrl.growth.drift import Drift, measure_drift
from decentrl.growth.explanation import Reason, explain
from decentrl.growth.fitted_model import FittedModel, L
from decentrl.growth.growing import Growing
from decentrl.growth.learned import STORE
from decentrl.growth.neighbours import Indexes, neighbours_table
from decentrl.nn.running import pick_device
from decentrl.storage.addition import Addition
from decentrl.storage.bundle import bundle_folder, bundle_id, write_bundle
from decentrl.storage.store_file import FILE as STORE_FILE
from decentrl.training.loop import Row

REFIT = 0.5
"""Share of the epochs of a training from scratch that a warm start takes."""


class GrowingModel(FittedModel[L]):
    """Takes in new triples and entities without training, and keeps all it knows in a run.

    Vectors of trained entities stay as they are, bit for bit, until :meth:`refresh` or a new
    training. Where there are two graphs, ``side`` names one, ``left`` or ``right``; without it the
    left one is meant.

    Attributes:
        unit_vectors: whether all vectors have length 1 (or 0).
    """

    unit_vectors: ClassVar[bool]

    # Learning

    def refit(
        self,
        *,
        share: float = REFIT,
        links: Source | None = None,
        run: str | PathLike[str] | None = None,
        resume: bool = False,
        on_epoch: Callable[[Row], None] | None = None,
    ) -> Self:
        """Train again on all that is there now, starting from what was learned.

        Args:
            share: of the epochs that a training from scratch has.
            links: links of two graphs that have become known since.
            run, resume, on_epoch: as in :meth:`fit`.
        """
        again, task = type(self)(self.config, self.device), self.settled_task(links)
        return again.fit(task, run=run, resume=resume, on_epoch=on_epoch, start=self, share=share)

    def settled_task(self, links: Source | None = None) -> Any:
        """What :meth:`refit` learns from: all triples but those held out, and all known links."""
        return self.learned.settled_task(self.task, links)

    @property
    def indexes(self) -> Indexes:
        """What searches the vectors."""
        return self._once("indexes", lambda: Indexes(self.growing, self.unit_vectors), grows=True)

    # Growing

    def add(
        self,
        triples: Source,
        *,
        side: str | None = None,
        strict: bool = False,
        refresh: bool = False,
        source: str = "",
        names: Source | None = None,
    ) -> Addition:
        """Take in new triples of one graph, with new entities, without any training.

        New entities have vectors, and can be asked about and be answers, at once; those of trained
        ones stay. Triples whose relation training has not seen are left out and counted.

        Args:
            triples: (head, relation, tail) in labels, or a file of them.
            side: the graph they belong to, if there are two.
            strict: an unknown relation is an error.
            refresh: encode everything anew; see :meth:`refresh`.
            source: where they come from, for the log.
            names: of entities in the triples, as for :meth:`KnowledgeGraph.with_names`.
        """
        if side is None and len(self.growing.sides) > 1:
            raise ConfigError("give the graph that the triples belong to: side=left or side=right")
        side = self._side(side)
        self._prepare_change()
        source = source or called(triples, "triples")
        addition = self.growing.add(side, triples, source, strict, names)
        if left_out := addition.facts["ignored"]:
            unseen = ", ".join(addition.facts["ignored_relations"])
            warn_left_out(
                f"{left_out:,} triples were left out: training has not seen the relations {unseen}"
            )
        if refresh:
            self.refresh()
        return addition

    def _prepare_change(self) -> None:
        """Before a change: let go of a run that was opened for reading alone.

        What is changed from then on is in this process alone.
        """
        must_grow(self.config)
        self._leave_run()

    def _leave_run(self) -> None:
        growing = self.growing
        if not growing.durable:
            growing.leave_store()
        elif growing.store is None:
            raise ConfigError(f"{growing.place}: this run was closed; load it again to change it")

    def undo(self) -> Addition:
        """Take back the last addition, unless it was compacted or refreshed."""
        self._prepare_change()
        return self.growing.undo()

    def log(self) -> list[Addition]:
        """What was added when, the oldest first."""
        return self.growing.log()

    def refresh(self) -> None:
        """Encode the whole graph anew, with all that was added: every vector may change.

        Of a run that is open for adding, a new bundle is written.
        """
        self._prepare_change()
        self._fold(self.learned.refreshed(self.growing))

    def compact(self) -> None:
        """Make all additions part of the bundle; vectors stay as they are."""
        self._prepare_change()
        self._fold(self._settled())

    # Looking

    def vectors(self, side: str | None = None) -> Tensor:
        """Every entity's vector, [n, d]; 0 where nothing is known of one."""
        return self.growing.sides[self._side(side)].vectors

    def embed(self, labels: Sequence[str], side: str | None = None) -> npt.NDArray[np.float32]:
        """Vectors of the named entities, [n, d]."""
        must_have_vectors(self.config)
        graph = self.growing.sides[self._side(side)]
        ids = entity_ids(graph, labels, self.growing.sides)
        return np.asarray(graph.take_vectors(ids).cpu(), np.float32)

    def explain(
        self, entity: str, *, side: str | None = None, moved: int = 5, language: str = ""
    ) -> list[Reason]:
        """Which neighbours and relations an entity's vector is made of, the weightiest first.

        Args:
            moved: for so many neighbours, and the last one, how far the vector would move
                without them.
        """
        side = self._side(side)
        must_have_vectors(self.config)
        must_grow(self.config)
        (id,) = entity_ids(self.growing.sides[side], [entity], self.growing.sides)
        return explain(self.growing, side, int(id), moved, language)

    def drift(self, test: Source | None = None) -> Drift:
        """How far the graphs have grown away from what was trained.

        Args:
            test: links, or triples of a predictor, to tell by how calibrated its confidence still
                is; default: those to test on.
        """
        must_have_vectors(self.config)
        must_grow(self.config)
        refreshed = self.learned.grown(self.growing).encoded()[0]
        return measure_drift(self.growing, refreshed, self.confidence(test))

    @abstractmethod
    def confidence(self, test: Any = None, /) -> dict[str, float]:
        """How well confidences are calibrated on held-out data; empty if that was not learned."""

    def neighbours(
        self,
        entity: str,
        *,
        side: str | None = None,
        among: str | None = None,
        top: int = 10,
        ann: bool = False,
        language: str = "",
    ) -> ResultTable:
        """The entities nearest to one by cosine, of its own graph or of the other one.

        Args:
            among: where to look; default: ``side``, and then the entity itself is left out.
            ann: look in an approximate index (FAISS), built at the first such question.
            language: of the names that are shown.
        Returns:
            table with the columns entity, rank (1 is nearest), cosine and perhaps entity_name.
        """
        must_have_vectors(self.config)
        side = self._side(side)
        among, graphs = self._side(among or side), self.growing.sides
        (id,) = entity_ids(graphs[side], [entity], graphs)
        found = self.indexes.nearest(int(id), side, among, top, ann)
        return ResultTable(neighbours_table(graphs[among], *found, language))

    # Keeping it

    def _settled(self) -> L:
        """What was learned, with all that was added and found out since."""
        return self.learned.compacted(self.growing) if self.growing.additions else self.learned

    def _fold(self, learned: L) -> None:
        """Swap to a state that has all additions in it, in the run's files first."""
        run, store = self.growing.place, self.growing.store
        if store is None:
            past = [replace(a, folded=True) for a in self.growing.log()]
            self._swap(learned, past=past, place=run, decided=self.growing.decided)
            return
        assert run is not None
        origin = {"base": store.base, "additions": store.last}
        try:
            write_bundle(learned.to_bundle(), bundle_folder(run), origin)
            store.fold(bundle_id(run))
        except BaseException:
            if bundle_id(run) != store.base:
                self.close()  # the new bundle is in place: load it to go on
            raise
        self._swap(learned, place=run, durable=True, decided=self.growing.decided)
        self.growing.store = store

    def save(self, run: str | PathLike[str], results: Sequence[dict[str, Any]] = ()) -> None:
        """Write ``run/bundle``: weights, vectors, labels, graphs and what was held out, no pickle.

        The model itself stays as it is.
        """
        target, growing = Path(run), self.growing
        if growing.durable and growing.place and target.resolve() == growing.place.resolve():
            raise ConfigError(f"{run}: what is added is kept there already; compact() tidies it up")
        there = (target / STORE / STORE_FILE).exists()
        if there and not growing.decided.begins_with(target / STORE):
            raise InputError(
                "this run has additions or decisions, which belong to its own bundle",
                file=target,
                remedy="save to another folder",
            )
        write_bundle(self._settled().to_bundle(results), target / "bundle")
        growing.decided.save(target / STORE, bundle_id(target))

    def sync(self) -> int:
        """Take in what another process has added to the run; how many additions that were.

        If it was compacted meanwhile, or something was taken back, it is loaded again.
        """
        growing = self.growing
        try:
            return growing.sync()
        except BundleError:
            if growing.durable or growing.place is None:
                raise
            before = growing.last
            if growing.store is not None and bundle_id(growing.place) == growing.store.base:
                growing.read_again()  # something was taken back
                return sum(addition.number > before for addition, _ in growing.additions)
            self._growing, self._derived = self.load(growing.place, self.device).growing, {}
            return sum(addition.number > before for addition in self.growing.log())

    def reader(self) -> Self:
        """Another model over the same state, to be asked while this one adds to the run.

        Its :meth:`sync` takes in what was added; what was learned is in memory once.
        """
        growing = self.growing
        if growing.store is None:
            raise ConfigError("this model adds to no run; load one with durable=True")
        other = type(self)(self.config, self.device)
        other._growing = Growing(growing.learned, growing.store.reader(), place=growing.place)
        return other

    @classmethod
    def load(
        cls,
        run: str | PathLike[str],
        device: str | torch.device = "auto",
        *,
        durable: bool = False,
    ) -> Self:
        """Read what :meth:`save` wrote, and what was added since; nothing is written.

        Args:
            run: the folder of a run, or the bundle itself.
            durable: what :meth:`add` takes in is kept in the run before it returns. One process at
                a time can do so, others may load and ask meanwhile. Without it additions are in
                this process alone.
        """
        chosen = pick_device(device)
        growing = cls.learned_type.opened(run, cls.kind, chosen, durable)
        model = cls(growing.learned.config, chosen)
        model._growing = growing
        return model

    def close(self) -> None:
        """Let another process add to the run."""
        if self._growing is not None and self.growing.store is not None:
            self.growing.store.close()
            self.growing.store = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
