"""What an aligner and a predictor have in common: their graphs grow after training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from decentrl.bundle import Bundle, bundle_folder, bundle_id, write_bundle
from decentrl.device import cuda_devices
from decentrl.drift import Drift, measure_drift
from decentrl.errors import BundleError, ConfigError
from decentrl.explanation import Reason, explain
from decentrl.growing import Growing, NewTriples, Trained
from decentrl.induction import Induction
from decentrl.neighbours import Indexes, neighbours
from decentrl.store import Addition, Store

REFIT = 0.5
"""Share of the epochs of a training from scratch that a warm start takes."""
M = TypeVar("M", bound="GrowingModel")
STORE = "store"
"""The folder of a run that keeps what was added."""


class GrowingModel:
    """Takes in new triples and entities without training.

    What was trained never changes by it: vectors of trained entities stay as they are, bit for bit,
    until :meth:`refresh` or a new training.
    """

    device: torch.device
    _growing: Growing | None = None
    _run: Path | None = None
    _indexes: Indexes | None = None
    _unit = True  # vectors have length 1, or 0

    # What each of the two says for itself

    @property
    def task(self) -> Any:
        """What it learned from, with all that was added; an error if it has learned nothing."""
        raise NotImplementedError

    def _trained(self) -> Mapping[str, Trained]:
        """Its graphs as they were trained, by their side's name."""
        raise NotImplementedError

    def _induction(self) -> Induction:
        """What makes rows of new entities; fills in the memories of :meth:`_trained`."""
        raise NotImplementedError

    def _refreshed(self) -> Mapping[str, Tensor]:
        """The vectors that :meth:`refresh` would give, by side."""
        raise NotImplementedError

    def _settle(self, refresh: bool) -> None:
        """Make what there is now the state that was trained; encode it anew if asked."""
        raise NotImplementedError

    def _bundle(self) -> Bundle[Any, Any]:
        """Everything that was trained, with the memories, to be written."""
        raise NotImplementedError

    # Growing

    @property
    def growing(self) -> Growing:
        """The graphs as they are now, and what was added to them."""
        if self._growing is None:
            _ = self.task  # something must have been learned
            self._growing = Growing(self._trained(), self._quiet_induction)
        return self._growing

    def _quiet_induction(self) -> Induction:
        """Random numbers that a model starts with are overwritten; they are nobody's loss."""
        with torch.random.fork_rng(devices=cuda_devices(self.device)):
            return self._induction()

    def _add(
        self, side: str, triples: NewTriples, strict: bool, refresh: bool, source: str
    ) -> Addition:
        if not source:
            named = isinstance(triples, str | PathLike)
            source = Path(triples).name if named else "triples"  # type: ignore[arg-type]
        self._leave_store_to_others()
        addition = self.growing.add(side, triples, source, strict)
        if refresh:
            self.refresh()
        return addition

    def _leave_store_to_others(self) -> None:
        """A reader's changes are its own: from now on it does without the run's store."""
        if self._run is None:
            self.growing.leave_store()

    def undo(self) -> Addition:
        """Take back the last addition, unless it was compacted or refreshed."""
        self._leave_store_to_others()
        return self.growing.undo()

    def log(self) -> list[Addition]:
        """What was added when, the oldest first."""
        return self.growing.log()

    def sync(self) -> int:
        """Take in what another process has added to the run; how many additions that were."""
        return self.growing.sync()

    def refresh(self) -> None:
        """Encode the whole graph anew, with all that was added: every vector may change.

        Of a run that is open for adding, a new bundle is written.
        """
        self._fold(refresh=True)

    def compact(self) -> None:
        """Make all additions part of the bundle; vectors stay as they are."""
        self._fold(refresh=False)

    def _fold(self, refresh: bool) -> None:
        self._leave_store_to_others()
        growing = self.growing
        store, run = growing.store, self._run
        past = [] if store is not None else [replace(a, folded=True) for a in growing.log()]
        self._settle(refresh)
        self._growing = Growing(self._trained(), self._quiet_induction, None, past)
        if store is not None:
            assert run is not None
            before = {"base": bundle_id(run), "additions": store.last}
            write_bundle(replace(self._bundle(), grown_from=before), bundle_folder(run))
            store.fold(bundle_id(run))
            self._growing.store = store

    # Looking

    def _explain(self, side: str, label: str, moved: int) -> list[Reason]:
        graph = self.growing.sides[side]
        return explain(self.growing, side, graph.entities.id(label), moved)

    def _drift(self, calibration: dict[str, float]) -> Drift:
        return measure_drift(self.growing, self._refreshed(), calibration)

    # Asking

    @property
    def indexes(self) -> Indexes:
        """What searches the vectors."""
        if self._indexes is None:
            self._indexes = Indexes(self._unit)
        return self._indexes

    def _neighbours(self, entity: str, side: str, among: str, top: int, ann: bool) -> pa.Table:
        id = self.growing.sides[side].entities.id(entity)
        ids, cosines = neighbours(self.growing, self.indexes, id, side, among, top, ann)
        return pa.table(
            {
                "entity": pa.array(self.growing.sides[among].entities.take(ids), pa.string()),
                "rank": np.arange(1, len(ids) + 1, dtype=np.int32),
                "cosine": cosines.numpy(),
            }
        )

    # Opening a run

    @classmethod
    def _steady(cls: type[M], run: str | PathLike[str], load: Callable[[], M]) -> M:
        """Load a run; once more if it was compacted meanwhile."""
        for _ in range(3):
            before = bundle_id(run)
            try:
                return load()
            except BundleError:
                if bundle_id(run) == before:
                    raise
        return load()

    def _open(self, run: str | PathLike[str], bundle: Bundle[Any, Any], durable: bool) -> None:
        """See what was added to a run; with ``durable``, be the one who adds to it."""
        folder = bundle_folder(run)
        if folder == Path(run):
            if durable:
                raise ConfigError(f"{run}: this is a bundle; give the run that it belongs to")
            return
        assert bundle.id is not None
        place, origin = Path(run) / STORE, bundle.grown_from
        store = Store.open(place, bundle.id, write=durable, grown_from=origin)
        self._growing = Growing(self._trained(), self._quiet_induction, store)
        if durable:
            self._run = Path(run)
            if (
                not bundle.memory
                and not self._growing.changed
                and len(self._growing.model.widths) > 1
            ):
                # What new entities read is computed once, and part of the bundle from then on.
                self._fold(refresh=False)

    def close(self) -> None:
        """Let another process add to the run."""
        if self._growing is not None and self._growing.store is not None:
            self._growing.store.close()
            self._growing.store = None

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
