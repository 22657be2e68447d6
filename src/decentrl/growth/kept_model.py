"""A model and its run on disk: what it knows now, how that is kept, and how it is opened."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch

from decentrl.config import Settings, must_grow
from decentrl.errors import BundleError, ConfigError, InputError, NotFittedError
from decentrl.growth.growing_graph import Growing
from decentrl.growth.learned import Learned
from decentrl.nn.running import pick_device
from decentrl.storage.additions import FILE as STORE_FILE
from decentrl.storage.additions import Addition, Store
from decentrl.storage.bundle import (
    Manifest,
    bundle_folder,
    bundle_id,
    open_bundle,
    read_bundle,
    write_bundle,
)
from decentrl.storage.kinds import KindName

STORE = "store"
"""The folder of a run that keeps what was added."""
T = TypeVar("T")
L = TypeVar("L", bound=Learned)


class KeptModel(ABC, Generic[L]):
    """Holds what it knows as one object that is swapped whole, and reads and writes it.

    Attributes:
        kind: what a bundle of it is called.
        learned_type: the class of what it learns.
    """

    kind: ClassVar[KindName]
    learned_type: ClassVar[type[Learned]]

    def __init__(self, config: Settings, device: str | torch.device = "auto") -> None:
        self.config: Any = config
        self.device = pick_device(device)
        self._growing: Growing | None = None
        self._derived: dict[str, tuple[Any, Any]] = {}

    @property
    def growing(self) -> Growing:
        """All that it knows now: what was learned, and the graphs with what was added since.

        A fit, a refresh or a compaction makes another one, which takes its place.
        """
        if self._growing is None:
            raise NotFittedError(
                f"this {self.kind} has learned nothing yet; call fit or load first"
            )
        return self._growing

    @property
    def learned(self) -> L:
        """What training, or the last compaction, has left."""
        learned: L = self.growing.learned
        return learned

    @property
    def task(self) -> Any:
        """What it learned from, with all that was added."""
        return self._once("task", lambda: self.learned.grown_task(self.growing))

    def _swap(
        self, learned: L, store: Store | None = None, past: Sequence[Addition] = (), **place: Any
    ) -> None:
        """Let a new state take the place of the old one."""
        self._growing, self._derived = Growing(learned, store, past, **place), {}

    def _once(self, name: str, make: Callable[[], T], grows: bool = False) -> T:
        """Something made of the state: once, until it changes, or if it ``grows`` is replaced."""
        now = self.growing, None if grows else self.growing.version
        if name not in self._derived or self._derived[name][0] != now:
            self._derived[name] = now, make()
        made: T = self._derived[name][1]
        return made

    def __repr__(self) -> str:
        config = self.config
        about = f"{type(self).__name__}(preset={config.preset!r}, seed={config.seed}"
        if self._growing is None:
            return f"{about}, not fitted)"
        sizes = " + ".join(f"{len(side.entities):,}" for side in self.growing.sides.values())
        added = len(self.growing.log())
        return f"{about}, fitted on {self.task.name!r}: {sizes} entities" + (
            f", {added:,} additions)" if added else ")"
        )

    # Keeping it

    def _settled(self) -> L:
        """What was learned, with all that was added and found out since."""
        return self.learned.compacted(self.growing) if self.growing.additions else self.learned

    def _fold(self, learned: L) -> None:
        """Swap to a state that has all additions in it, in the run's files first."""
        run, store = self.growing.place, self.growing.store
        if store is None:
            past = [replace(a, folded=True) for a in self.growing.log()]
            self._swap(learned, past=past, place=run)
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
        self._swap(learned, place=run, durable=True)
        self.growing.store = store

    def save(self, run: str | PathLike[str], results: Sequence[dict[str, Any]] = ()) -> None:
        """Write ``run/bundle``: weights, vectors, labels, graphs and what was held out, no pickle.

        The model itself stays as it is.
        """
        target, growing = Path(run), self.growing
        if growing.durable and growing.place and target.resolve() == growing.place.resolve():
            raise ConfigError(f"{run}: what is added is kept there already; compact() tidies it up")
        if (target / STORE / STORE_FILE).exists():
            raise InputError(
                "this run has additions, which belong to its own bundle",
                file=target,
                remedy="save to another folder",
            )
        write_bundle(self._settled().to_bundle(results), target / "bundle")

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
            self._growing, self._derived = self.load(growing.place, self.device).growing, {}
            return sum(addition.number > before for addition in self.growing.log())

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
        bundle = read_bundle(opened, cls.kind)
        model = cls(bundle.config, device)
        if durable:
            must_grow(model.config)
        learned: Any = cls.learned_type.from_bundle(bundle, model.device)
        place = Path(opened)
        if opened.folder == place:
            if durable:
                raise ConfigError(f"{place}: this is a bundle; give the run that it belongs to")
            model._swap(learned)
            return model
        store = Store(place / STORE, opened.id, write=durable, grown_from=opened.origin)
        try:
            if durable and not opened.is_current():
                raise BundleError(
                    f"{opened.folder}: this bundle was replaced just now; load it again"
                )
            model._swap(learned, store, place=place, durable=durable)
        except BaseException:
            store.close()
            raise
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
