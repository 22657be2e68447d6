"""What an aligner and a predictor have in common: their graphs grow after training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch
from torch import Tensor

from decentrl.config import Settings, must_grow
from decentrl.data.results import ResultTable
from decentrl.errors import (
    BundleError,
    ConfigError,
    InputError,
    NotFittedError,
    warn_left_out,
)
from decentrl.growth.drift import Drift, measure_drift
from decentrl.growth.explanation import Reason, explain
from decentrl.growth.growing_graph import Growing, NewTriples, Trained
from decentrl.growth.neighbours import Indexes, neighbours
from decentrl.growth.newcomers import Newcomers
from decentrl.nn.device import pick_device
from decentrl.storage.additions import FILE as STORE_FILE
from decentrl.storage.additions import Addition, Store
from decentrl.storage.bundle import (
    Bundle,
    Manifest,
    bundle_folder,
    bundle_id,
    open_bundle,
    read_bundle,
    write_bundle,
)
from decentrl.storage.kinds import KindName

REFIT = 0.5
"""Share of the epochs of a training from scratch that a warm start takes."""
STORE = "store"
"""The folder of a run that keeps what was added."""
T = TypeVar("T")


class Learned(Protocol):
    """What a model has learned: an object that never changes.

    Each method that takes ``growing`` makes something new of it and of what was added.
    """

    @property
    def config(self) -> Any: ...

    @property
    def task(self) -> Any: ...

    def sides(self) -> dict[str, Trained]: ...

    def newcomers(self) -> Newcomers: ...

    def grown_task(self, growing: Growing) -> Any: ...

    def compacted(self, growing: Growing) -> Any: ...

    def refreshed(self, growing: Growing) -> Any: ...

    def refreshed_vectors(self, growing: Growing) -> Mapping[str, Tensor]: ...

    def to_bundle(self, results: Sequence[dict[str, Any]] = ()) -> Bundle[Any, Any]: ...


L = TypeVar("L", bound=Learned)


@dataclass(frozen=True, eq=False)
class State(Generic[L]):
    """All that a model knows at one time; a change makes another one, which takes its place.

    Attributes:
        learned: what training, or the last compaction, has left.
        growing: the graphs with what was added since. Additions are appended to it, and it is
            made again from the others when one is taken back or fails.
        place: the run it was loaded from.
        durable: whether additions are kept there.
    """

    learned: L
    growing: Growing
    place: Path | None = None
    durable: bool = False


class GrowingModel(ABC, Generic[L]):
    """Takes in new triples and entities without training.

    Vectors of trained entities stay as they are, bit for bit, until :meth:`refresh` or a new
    training.

    Attributes:
        kind: what a bundle of it is called.
    """

    kind: ClassVar[KindName]
    device: torch.device

    def __init__(self, config: Settings, device: str | torch.device = "auto") -> None:
        self.config: Any = config
        self.device = pick_device(device)
        self._state: State[L] | None = None
        self._derived: dict[str, tuple[Any, Any]] = {}
        self._indexes: Indexes | None = None

    @classmethod
    @abstractmethod
    def _learned_from(cls, bundle: Bundle[Any, Any], device: torch.device) -> L:
        """What a bundle holds."""

    # The state

    @property
    def state(self) -> State[L]:
        """What it knows now; an error if it has learned nothing."""
        if self._state is None:
            raise NotFittedError(
                f"this {type(self).__name__.lower()} has learned nothing yet; "
                "call fit or load first"
            )
        return self._state

    @property
    def learned(self) -> L:
        """What training, or the last compaction, has left."""
        return self.state.learned

    @property
    def growing(self) -> Growing:
        """The graphs as they are now, and what was added to them."""
        return self.state.growing

    @property
    def fitted(self) -> bool:
        """Whether it has learned something."""
        return self._state is not None

    @property
    def task(self) -> Any:
        """What it learned from, with all that was added."""
        return self._once("task", lambda: self.learned.grown_task(self.growing))

    def _swap(self, learned: L, past: Sequence[Addition] = (), **place: Any) -> None:
        """Let a new state take the place of the old one."""
        growing = Growing(learned.sides(), learned.newcomers, None, list(past))
        self._state = State(learned, growing, **place)
        self._derived = {}

    def _once(self, name: str, make: Callable[[], T]) -> T:
        """Something made of the state as it is now: once, until it changes."""
        now = self.state, self.growing.version
        if name not in self._derived or self._derived[name][0] != now:
            self._derived[name] = now, make()
        made: T = self._derived[name][1]
        return made

    def __repr__(self) -> str:
        config = self.config
        about = f"{type(self).__name__}(preset={config.preset!r}, seed={config.seed}"
        if self._state is None:
            return f"{about}, not fitted)"
        sizes = " + ".join(f"{len(side.entities):,}" for side in self.growing.sides.values())
        added = len(self.growing.log())
        return f"{about}, fitted on {self.task.name!r}: {sizes} entities" + (
            f", {added:,} additions)" if added else ")"
        )

    # Growing

    def _add(
        self, side: str, triples: NewTriples, strict: bool, refresh: bool, source: str
    ) -> Addition:
        if not source:
            named = isinstance(triples, str | PathLike)
            source = Path(triples).name if named else "triples"  # type: ignore[arg-type]
        self._prepare_change()
        addition = self.growing.add(side, triples, source, strict)
        if left_out := addition.facts["ignored"]:
            names = ", ".join(addition.facts["ignored_relations"])
            warn_left_out(
                f"{left_out:,} triples were left out: training has not seen the relations {names}"
            )
        if refresh:
            self.refresh()
        return addition

    def _prepare_change(self) -> None:
        """Before a change: let go of a run that was opened for reading alone.

        What is changed from then on is in this process alone.
        """
        must_grow(self.config)
        state = self.state
        if not state.durable:
            state.growing.leave_store()
        elif state.growing.store is None:
            raise ConfigError(f"{state.place}: this run was closed; load it again to change it")

    def undo(self) -> Addition:
        """Take back the last addition, unless it was compacted or refreshed."""
        self._prepare_change()
        return self.growing.undo()

    def log(self) -> list[Addition]:
        """What was added when, the oldest first."""
        return self.growing.log()

    def sync(self) -> int:
        """Take in what another process has added to the run; how many additions that were.

        If it was compacted meanwhile, or something was taken back, it is loaded again.
        """
        state = self.state
        try:
            return state.growing.sync()
        except BundleError:
            if state.durable or state.place is None:
                raise
            before = state.growing.last
            again = self.load(state.place, self.device)
            self._state, self._derived, self._indexes = again._state, {}, None
            return sum(addition.number > before for addition in self.log())

    def refresh(self) -> None:
        """Encode the whole graph anew, with all that was added: every vector may change.

        Of a run that is open for adding, a new bundle is written.
        """
        self._prepare_change()
        self._fold(self.learned.refreshed(self.growing))

    def compact(self) -> None:
        """Make all additions part of the bundle; vectors stay as they are."""
        self._prepare_change()
        self._fold(self._compacted())

    def _compacted(self) -> L:
        """What was learned, with all that was added."""
        compacted: L = self.learned.compacted(self.growing)
        return compacted

    def _fold(self, learned: L) -> None:
        """Swap to a state that has all additions in it, in the run's files first."""
        state, store = self.state, self.growing.store
        if store is None:
            past = [replace(a, folded=True) for a in self.growing.log()]
            self._swap(learned, past, place=state.place)
            return
        assert state.place is not None
        run = state.place
        origin = {"base": store.base, "additions": store.last}
        try:
            write_bundle(replace(learned.to_bundle(), grown_from=origin), bundle_folder(run))
            store.fold(bundle_id(run))
        except BaseException:
            if bundle_id(run) != store.base:
                self.close()  # the new bundle is in place: load it to go on
            raise
        self._swap(learned, place=run, durable=True)
        self.growing.store = store

    def _save(self, run: str | PathLike[str], results: Sequence[dict[str, Any]]) -> None:
        """Write ``run/bundle``; the model itself stays as it is."""
        target, state = Path(run), self.state
        if state.durable and state.place and target.resolve() == state.place.resolve():
            raise ConfigError(f"{run}: what is added is kept there already; compact() tidies it up")
        if (target / STORE / STORE_FILE).exists():
            raise InputError(
                "this run has additions, which belong to its own bundle",
                file=target,
                remedy="save to another folder",
            )
        learned = self._compacted() if state.growing.changed else self._to_save()
        write_bundle(learned.to_bundle(results), target / "bundle")

    def _to_save(self) -> L:
        """What was learned, with what was found out since that is worth keeping."""
        return self.learned

    # Looking

    def _vectors_of(self, labels: Sequence[str], side: str) -> npt.NDArray[np.float32]:
        graph = self.growing.sides[side]
        vectors: npt.NDArray[np.float32] = (
            graph.take_vectors(graph.entities.ids(labels)).cpu().numpy()
        )
        return vectors

    def _explain(self, side: str, label: str, moved: int) -> list[Reason]:
        must_grow(self.config)
        graph = self.growing.sides[side]
        return explain(self.growing, side, graph.entities.id(label), moved)

    def _drift(self, calibration: dict[str, float]) -> Drift:
        must_grow(self.config)
        vectors = self.learned.refreshed_vectors(self.growing)
        return measure_drift(self.growing, vectors, calibration)

    @property
    def indexes(self) -> Indexes:
        """What searches the vectors."""
        if self._indexes is None:
            self._indexes = Indexes(self.unit_vectors)
        return self._indexes

    unit_vectors: ClassVar[bool] = True

    def _neighbours(self, entity: str, side: str, among: str, top: int, ann: bool) -> ResultTable:
        id = self.growing.sides[side].entities.id(entity)
        ids, cosines = neighbours(self.growing, self.indexes, id, side, among, top, ann)
        labels = self.growing.sides[among].entities.take(ids)
        columns = {
            "entity": pa.array(labels, pa.string()),
            "rank": np.arange(1, len(ids) + 1, dtype=np.int32),
            "cosine": cosines.numpy(),
        }
        return ResultTable(pa.table(columns))

    # Opening a run

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
        opened = open_bundle(run, write=durable)
        for _ in range(3):
            try:
                return cls._load(opened, device, durable)
            except BundleError:
                if opened.is_current():
                    raise
                opened = open_bundle(Path(opened), write=durable)  # compacted meanwhile
        return cls._load(opened, device, durable)

    @classmethod
    def _load(cls, opened: Manifest, device: str | torch.device, durable: bool) -> Self:
        bundle: Bundle[Any, Any] = read_bundle(opened, cls.kind)
        model = cls(bundle.config, device)
        if durable:
            must_grow(model.config)
        learned = cls._learned_from(bundle, model.device)
        place = Path(opened)
        if opened.folder == place:
            if durable:
                raise ConfigError(f"{place}: this is a bundle; give the run that it belongs to")
            model._swap(learned)
            return model
        assert bundle.id is not None
        store = Store(place / STORE, bundle.id, write=durable, grown_from=bundle.grown_from)
        try:
            if durable and not opened.is_current():
                raise BundleError(
                    f"{opened.folder}: this bundle was replaced just now; load it again"
                )
            growing = Growing(learned.sides(), learned.newcomers, store)
            model._state = State(learned, growing, place, durable)
        except BaseException:
            store.close()
            raise
        return model

    def close(self) -> None:
        """Let another process add to the run."""
        if self._state is not None and self.growing.store is not None:
            self.growing.store.close()
            self.growing.store = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
