"""A run that is served: a model that is asked, and one that takes in what is new.

What is asked is never changed while it answers. Additions are made by another model over the same
learned state, which alone writes to the run; the asked one takes them in from the run's files, as
it does what other processes add. So asking goes on while an addition is made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from decentrl.config import must_grow
from decentrl.errors import BundleError, DecentRLError, InputError
from decentrl.growth.strangers import prepare
from decentrl.runs.sources import load_model
from decentrl.service.asking import Worker
from decentrl.service.failures import RequestError
from decentrl.service.options import Limits
from decentrl.storage.bundle import MANIFEST, bundle_folder

T = TypeVar("T")
FileStamp = tuple[int, int, int] | None
Stamp = tuple[FileStamp, Hashable]


class ServedRun:
    """A run and what answers questions about it.

    Args:
        folder: of the run.
        write: whether it may be changed.
        device: as for :meth:`GrowingModel.load`.

    Attributes:
        name: what the run is called in paths.
        version: changes whenever answers may.
    """

    def __init__(
        self,
        folder: Path,
        *,
        write: bool = False,
        device: str = "cpu",
        limits: Limits | None = None,
    ) -> None:
        self.folder, self.name, self.limits = folder, folder.resolve().name, limits or Limits()
        self._manifest = bundle_folder(folder) / MANIFEST
        self._device, bundle = device, _stamp_of(self._manifest)
        self.model: Any = load_model(folder, device, durable=write)
        self.writer: Any = None
        if write:
            self.writer, self.model = self.model, self.model.reader()
        self._stamp: Stamp = bundle, None  # so that the first question looks what there is
        self.two_graphs = len(self.model.growing.sides) > 1
        self.version = 0
        self._kept: dict[str, tuple[Any, Any]] = {}
        self._loading: threading.Thread | None = None
        self._loaded: Any = None
        self.idle: Callable[[], float | None] = lambda: None
        self.damage = ""
        self._unprepared = {"asked", "writes"} if write else set()
        limit = self.limits
        self._asker = Worker(f"ask {self.name}", limit.waiting, limit.seconds, self._asked_idle)
        change = f"change {self.name}", limit.waiting, 2 * limit.seconds
        self._changer = Worker(*change, self._changed_idle)

    @property
    def job(self) -> str:
        """What the run is for."""
        return "alignment" if self.two_graphs else "prediction"

    @property
    def writable(self) -> bool:
        return self.writer is not None

    @property
    def waiting(self) -> int:
        """Questions and changes that wait."""
        return len(self._asker) + len(self._changer)

    def side(self, side: str | None) -> str:
        """The name of a graph; of two the left one if none is given."""
        sides = self.model.growing.sides
        if not side:
            return str(next(iter(sides)))
        if side not in sides:
            problem = f"no side {side!r}"
            names = " or ".join(filter(None, sides))
            raise RequestError(
                422, problem, f"give {names}" if names else "leave it out: one graph"
            )
        return side

    # Asking

    async def ask(self, question: Callable[[], T]) -> T:
        """What a question finds, asked in the thread that has the model."""

        def asked() -> T:
            self.refresh()
            return question()

        return await self._asker.do(asked)

    async def ask_together(self, kind: Any, item: Any, question: Callable[[Any], Any]) -> Any:
        """The same of questions that are answered with others of their kind."""

        def asked(items: Any) -> Any:
            self.refresh()
            return question(items)

        return await self._asker.together(kind, item, asked)

    def _asked_idle(self) -> float | None:
        """What the asking thread does while nothing is asked."""
        if "asked" in self._unprepared:
            self._unprepared.discard("asked")
            for graph in self.model.growing.sides.values():
                graph.make_room()
        return self.idle()

    def _changed_idle(self) -> None:
        """The same of the thread that writes: the first addition shall not take long."""
        if "writes" in self._unprepared:
            self._unprepared.discard("writes")
            with suppress(DecentRLError):  # what takes in nothing says so when it is asked to
                must_grow(self.writer.config)
                prepare(self.writer)

    def wake(self) -> None:
        """Let what is done while nothing is asked go on."""
        self._asker.wake()

    @property
    def current(self) -> bool:
        """Whether the model has taken in all there is in the run."""
        return self._loaded is None and (self._stamp == self._stamp_now() or self._is_loading)

    @property
    def _is_loading(self) -> bool:
        return self._loading is not None and self._loading.is_alive()

    def keep(self, name: str, make: Callable[[], T], version: bool = False) -> T:
        """Something made of the model's state: once, until that is replaced, or the ``version``."""
        now = self.model.growing, self.version if version else None
        found = self._kept.get(name)
        if found is None or found[0] != now:
            found = self._kept[name] = now, make()
        made: T = found[1]
        return made

    # Taking in what is new, in the asking thread

    def refresh(self) -> None:
        """Take in what has changed in the run; quick where nothing has."""
        if self._loaded is not None:
            self._swap()
        now = self._stamp_now()
        if now == self._stamp or self._is_loading:
            return
        if now[0] != self._stamp[0]:  # another bundle: compacted, or trained again
            self._load_aside()
            return
        try:
            before = self.model.growing, self.model.growing.version
            self.model.sync()
            if before != (self.model.growing, self.model.growing.version):
                self._changed()
            self._stamp, self.damage = now, ""
        except BundleError as error:
            self.damage = str(error)  # the old state answers, and the next question tries again

    def _load_aside(self) -> None:
        """Load the run in a thread of its own; the old state answers meanwhile."""
        bundle = _stamp_of(self._manifest)
        self._stamp = bundle, self._stamp[1]

        def load() -> None:
            try:
                self._loaded = load_model(self.folder, self._device), (bundle, None)
            except (DecentRLError, OSError) as error:
                self.damage = str(error)

        self._loading = threading.Thread(target=load, name=f"load {self.name}", daemon=True)
        self._loading.start()

    def _swap(self) -> None:
        """Let a state that was loaded take the place of the old one."""
        old, (self.model, self._stamp) = self.model, self._loaded
        self._loaded, self.damage = None, ""
        self._changed()
        old.close()

    def _changed(self) -> None:
        self.version += 1

    def _stamp_now(self) -> Stamp:
        """What changes whenever something was added to the run, or its bundle replaced."""
        store = self.model.growing.store
        return _stamp_of(self._manifest), None if store is None else store.stamp()

    # Changing

    async def change(self, work: Callable[[Any], T]) -> T:
        """What ``work`` does with the model that writes; it is on disk when this returns."""
        if self.writer is None:
            raise RequestError(403, "this service is read-only", "start it with --write")
        found = await self._changer.do(lambda: work(self.writer))
        self.wake()
        return found

    def close(self) -> None:
        """Finish what waits, and let other processes add to the run."""
        self._asker.stop()
        self._changer.stop()
        for model in filter(None, (self.writer, self.model)):
            model.close()


def _stamp_of(path: Path) -> FileStamp:
    with suppress(OSError):
        about = path.stat()
        return about.st_ino, about.st_size, about.st_mtime_ns
    return None


def open_runs(folders: list[Path], *, write: bool, limits: Limits) -> dict[str, ServedRun]:
    """Runs by their names, which must differ."""
    found: dict[str, ServedRun] = {}
    names = [folder.resolve().name for folder in folders]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"two runs are called {name!r}", remedy="rename the folder of one")
    try:
        for folder in folders:
            run = ServedRun(folder, write=write, limits=limits)
            found[run.name] = run
    except BaseException:
        for run in found.values():
            run.close()
        raise
    return found
