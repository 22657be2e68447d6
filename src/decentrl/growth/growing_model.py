"""What an aligner and a predictor have in common: their graphs grow after training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from decentrl.errors import BundleError, ConfigError, InputError
from decentrl.growth.drift import Drift, measure_drift
from decentrl.growth.explanation import Reason, explain
from decentrl.growth.growing_graph import Growing, NewTriples, Trained
from decentrl.growth.neighbours import Indexes, neighbours
from decentrl.growth.newcomers import Induction
from decentrl.nn.device import cuda_devices
from decentrl.storage.additions import FILE as STORE_FILE
from decentrl.storage.additions import Addition, Store
from decentrl.storage.bundle import Bundle, bundle_folder, bundle_id, recover_bundle, write_bundle

REFIT = 0.5
"""Share of the epochs of a training from scratch that a warm start takes."""
T = TypeVar("T")
STORE = "store"
"""The folder of a run that keeps what was added."""


class GrowingModel:
    """Takes in new triples and entities without training.

    What was trained never changes by it: vectors of trained entities stay as they are, bit for bit,
    until :meth:`refresh` or a new training.
    """

    device: torch.device
    _growing: Growing | None = None
    _run: Path | None = None  # open for adding
    _place: Path | None = None  # of a run that was loaded
    _quality: str = ""  # what its card says of that
    _made: tuple[tuple[Growing, int], Any] | None = None
    _indexes: Indexes | None = None
    _unit = True  # vectors have length 1, or 0

    # What each of the two says for itself

    @property
    def task(self) -> Any:
        """What it learned from, with all that was added; an error if it has learned nothing."""
        raise NotImplementedError

    @classmethod
    def _load(cls, run: str | PathLike[str], device: str, durable: bool) -> Self:
        """Read a run once; see :meth:`load`."""
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

    def _once(self, make: Callable[[], T]) -> T:
        """What is made of the graphs as they are now: once, until they change."""
        now = (self.growing, self.growing.version)
        if self._made is None or self._made[0] != now:
            self._made = now, make()
        made: T = self._made[1]
        return made

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
        self._own_changes()
        addition = self.growing.add(side, triples, source, strict)
        if refresh:
            self.refresh()
        return addition

    def _own_changes(self) -> None:
        """Before a change: of a run that is open for adding it is the run's, otherwise one's own.

        A reader that changes something does without the run's store from then on.
        """
        if self._run is None:
            self.growing.leave_store()
        elif self.growing.store is None:
            raise ConfigError(f"{self._run}: this run was closed; load it again to change it")

    def undo(self) -> Addition:
        """Take back the last addition, unless it was compacted or refreshed."""
        self._own_changes()
        return self.growing.undo()

    def log(self) -> list[Addition]:
        """What was added when, the oldest first."""
        return self.growing.log()

    def sync(self) -> int:
        """Take in what another process has added to the run; how many additions that were.

        If it was compacted meanwhile, or something was taken back, it is loaded again.
        """
        growing = self.growing
        try:
            return growing.sync()
        except BundleError:
            if self._run is not None or self._place is None:
                raise
            before = growing.last
            again = self.load(self._place, str(self.device))
            self.__dict__.update(again.__dict__)
            return sum(addition.number > before for addition in self.log())

    def refresh(self) -> None:
        """Encode the whole graph anew, with all that was added: every vector may change.

        Of a run that is open for adding, a new bundle is written.
        """
        self._fold(refresh=True)

    def compact(self) -> None:
        """Make all additions part of the bundle; vectors stay as they are."""
        self._fold(refresh=False)

    def _fold(self, refresh: bool) -> None:
        """All of it happens, or nothing."""
        self._own_changes()
        growing = self.growing
        store, run = growing.store, self._run
        past = [] if store is not None else [replace(a, folded=True) for a in growing.log()]
        before = dict(self.__dict__)
        try:
            self._settle(refresh)
            self._growing = Growing(self._trained(), self._quiet_induction, None, past)
            if store is not None:
                assert run is not None
                origin = {"base": bundle_id(run), "additions": store.last}
                write_bundle(replace(self._bundle(), grown_from=origin), bundle_folder(run))
                store.fold(bundle_id(run))
                self._growing.store = store
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            if store is not None and run is not None and bundle_id(run) != store.base:
                self.close()  # the new bundle is in place: who goes on must load it
            raise

    @contextmanager
    def _settled(self) -> Iterator[None]:
        """Meanwhile what there is now is the trained state, to be written elsewhere."""
        before = dict(self.__dict__)
        try:
            if self.growing.changed:
                self._settle(refresh=False)
                self._growing = None
            yield
        finally:
            self.__dict__.clear()
            self.__dict__.update(before)

    def _save(self, run: str | PathLike[str], card: str) -> None:
        """Write ``run/bundle``; the model itself stays as it is."""
        target = Path(run)
        if self._run is not None and target.resolve() == self._run.resolve():
            raise ConfigError(f"{run}: what is added is kept there already; compact() tidies it up")
        if (target / STORE / STORE_FILE).exists():
            raise InputError(
                "this run has additions, which belong to its own bundle",
                file=target,
                remedy="save to another folder",
            )
        with self._settled():
            write_bundle(replace(self._bundle(), card=card), target / "bundle")

    # Looking

    def _explain(self, side: str, label: str, moved: int) -> list[Reason]:
        graph = self.growing.sides[side]
        return explain(self.growing, side, graph.entities.id(label), moved)

    def _drift(self, calibration: dict[str, float]) -> Drift:
        return measure_drift(self.growing, self._refreshed(), calibration)

    # PotentialCache

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
    def load(cls, run: str | PathLike[str], device: str = "auto", *, durable: bool = False) -> Self:
        """Read what :meth:`save` wrote, and what was added since.

        Args:
            run: the folder of a run, or the bundle itself.
            durable: what :meth:`add` takes in is kept in the run before it returns. One process at
                a time can do so, others may load and ask meanwhile. Without it additions are in
                this process alone.
        """
        if durable:
            recover_bundle(Path(run))
        for _ in range(3):
            before = bundle_id(run)
            try:
                return cls._load(run, device, durable)
            except BundleError:
                if bundle_id(run) == before:  # else it was compacted meanwhile
                    raise
        return cls._load(run, device, durable)

    def _open(self, run: str | PathLike[str], bundle: Bundle[Any, Any], durable: bool) -> None:
        """See what was added to a run; with ``durable``, be the one who adds to it."""
        folder = bundle_folder(run)
        if folder == Path(run):
            if durable:
                raise ConfigError(f"{run}: this is a bundle; give the run that it belongs to")
            return
        assert bundle.id is not None
        self._place = Path(run)
        place, origin = self._place / STORE, bundle.grown_from
        store = Store.open(place, bundle.id, write=durable, grown_from=origin)
        try:
            if durable and bundle_id(run) != bundle.id:
                raise BundleError(f"{folder}: this bundle was replaced just now; load it again")
            self._growing = Growing(self._trained(), self._quiet_induction, store)
            if durable:
                self._run = self._place
                if not bundle.memory and not self._growing.changed and self._reads_memory():
                    # What new entities read is computed once, and part of the bundle from then on.
                    self._fold(refresh=False)
        except BaseException:
            store.close()
            raise

    def _reads_memory(self) -> bool:
        return len(self.growing.model.widths) > 1

    def close(self) -> None:
        """Let another process add to the run."""
        if self._growing is not None and self._growing.store is not None:
            self._growing.store.close()
            self._growing.store = None

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
