"""Datasets by name, and tasks of whatever ``fit`` takes: names, tasks, files, data in memory.

The dataset ``world`` is inside the package; the others lie under one root folder.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TypeVar

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.folders import is_dataset
from decentrl.data.graph_task import GraphTask
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.layouts import TRANSLATED, Task, find_file, read_folder
from decentrl.data.memory import Source
from decentrl.data.open_world import SHARE, split_alignment, split_graph
from decentrl.data.vocabulary import nearest
from decentrl.errors import InputError

AnyTask = TypeVar("AnyTask", AlignmentTask, GraphTask)
_WORLD = Path(__file__).parent / "world"
_WORLD_SHARE, _WORLD_SEED = SHARE, 0  # of its open-world split


@dataclass(frozen=True)
class DatasetInfo:
    """A dataset's name, job, folder and sizes, known without reading it."""

    name: str
    kind: str  # "alignment" or "prediction"
    folder: str  # below the root; "" if the dataset is inside the package
    entities: tuple[int, ...]  # how many each graph has
    open_world: bool

    @property
    def packaged(self) -> bool:
        return not self.folder

    def path(self) -> Path:
        return _WORLD if self.packaged else data_root() / self.folder

    def missing(self, open_world: bool = False, translated: bool = False) -> list[str]:
        """The names of the files that are not here: a half fetched dataset must not be read.

        Without its translated names it is whole, unless these are asked for.
        """
        if self.packaged:
            return []
        files = [x for x in checksums() if x.startswith(self.folder + "/")]
        names = [x[len(self.folder) + 1 :].removesuffix(".tsv.gz") for x in files]
        wanted = [x for x in names if open_world or not x.startswith("open/")]
        wanted = [x for x in wanted if translated or x != TRANSLATED]
        folder = self.path()
        return [x for x in wanted if not find_file(folder, x, x.replace("pairs", "ent_ids"))]

    def present(self) -> bool:
        return not self.missing()


_DATASETS = {
    info.name: info
    for info in (
        DatasetInfo("world", "alignment", "", (1859, 2292), True),
        DatasetInfo("world/cldr", "prediction", "", (1859,), True),
        DatasetInfo("world/geonames", "prediction", "", (2292,), True),
        DatasetInfo("dbp15k/zh-en", "alignment", "DBP15K/zh_en", (19388, 19572), True),
        DatasetInfo("dbp15k/ja-en", "alignment", "DBP15K/ja_en", (19814, 19780), True),
        DatasetInfo("dbp15k/fr-en", "alignment", "DBP15K/fr_en", (19661, 19993), True),
        DatasetInfo("contea/zh-en", "alignment", "ContEA/zh_en", (19388, 19572), False),
        DatasetInfo("fb15k-237", "prediction", "FB15K-237", (14541,), True),
        DatasetInfo("wn18rr", "prediction", "WN18RR", (40943,), False),
        DatasetInfo("fb15k", "prediction", "FB15K", (14951,), False),
        DatasetInfo("wn18", "prediction", "WN18", (40943,), False),
        DatasetInfo("fb15k-subject10", "prediction", "FB15K-subject10", (14295,), True),
        DatasetInfo("inductive/fb237-v1", "prediction", "inductive/fb237_v1", (1594,), False),
        DatasetInfo("inductive/wn18rr-v1", "prediction", "inductive/WN18RR_v1", (2746,), False),
    )
}


def data_root() -> Path:
    """The folder of the datasets: DECENTRL_DATA, else the user's cache."""
    if given := os.environ.get("DECENTRL_DATA"):
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "decentrl"


def checksums() -> dict[str, str]:
    """SHA-256 of each published file by its path below the root."""
    return {name: checksum for checksum, _, name in _published()}


def sizes() -> dict[str, int]:
    """Bytes of each published file by its path below the root."""
    return {name: int(size) for _, size, name in _published()}


def _published() -> list[list[str]]:
    text = Path(__file__).with_name("checksums.txt").read_text(encoding="utf-8")
    return [line.split(maxsplit=2) for line in text.splitlines() if line]


def list_datasets() -> list[DatasetInfo]:
    """All datasets that have a name, present or not."""
    return list(_DATASETS.values())


def is_named(name_or_folder: str) -> bool:
    """Whether this is a dataset's name, which wins over a folder of the same one."""
    return _normal(name_or_folder) in _DATASETS


def find_dataset(name: str) -> DatasetInfo:
    """The dataset of this name; an unknown name is an error that lists the nearest ones."""
    known = _DATASETS.get(_normal(name))
    if known is None:
        close = nearest(_normal(name), _DATASETS, n=5)
        meant = f"did you mean {', '.join(close)}? (see: decentrl data list)"
        raise InputError(
            f"there is no dataset or folder {name!r}",
            remedy=meant if close else f"there are: {', '.join(sorted(_DATASETS))}",
        )
    return known


def load_dataset(name_or_folder: str, open_world: bool = False, translated: bool = False) -> Task:
    """Read a dataset by name, or any folder of a known layout.

    A name wins over a folder in the current directory; write ``./world`` for the latter.

    Args:
        translated: with the translated names that DBP15K comes with, in place of others.
    """
    if not is_named(name_or_folder):
        folder = Path(name_or_folder)
        if folder.is_dir():
            return read_folder(folder, folder.resolve().name, open_world, translated)
        if folder.is_file():
            raise InputError(
                "this is a file, not the folder of a dataset",
                file=folder,
                remedy="give a folder, or the name of a dataset",
            )
    info = find_dataset(name_or_folder)
    if open_world and not info.open_world:
        raise InputError(
            f"{info.name} has no open-world split",
            remedy=f"make one with: decentrl data split {info.name} --share 0.2 --seed 0 -o FOLDER",
        )
    if missing := info.missing(open_world, translated):
        some = ", ".join(missing[:3]) + ", …" * (len(missing) > 3)
        raise InputError(
            f"files of {info.name} are missing ({some})",
            file=info.path(),
            remedy="set DECENTRL_DATA to the folder that holds "
            f"{info.folder.split('/')[0]}, or run: decentrl data fetch {info.name} "
            "--base-url ADDRESS, with the address of a copy",
        )
    if not info.packaged:
        return read_folder(info.path(), info.name, open_world, translated)
    task = read_folder(_WORLD, "world", translated=translated)
    assert isinstance(task, AlignmentTask)
    if info.name == "world":
        return split_alignment(task, _WORLD_SHARE, _WORLD_SEED) if open_world else task
    side = task.left if info.name == "world/cldr" else task.right
    graph = GraphTask.from_graph(info.name, side)
    return split_graph(graph, _WORLD_SHARE, _WORLD_SEED) if open_world else graph


def load_task(
    kind: type[AnyTask], name: str, open_world: bool = False, translated: bool = False
) -> AnyTask:
    """The dataset of a name or folder; one for the other job is an error."""
    task = load_dataset(name, open_world, translated)
    if not isinstance(task, kind):
        is_one = isinstance(task, GraphTask)
        problem = "one graph, alignment needs two" if is_one else "two graphs, prediction needs one"
        job = "alignment" if is_one else "prediction"
        raise InputError(
            f"{name} is {problem}", remedy=f"`decentrl data list` shows the datasets for {job}"
        )
    return task


def is_source(place: str | PathLike[str]) -> bool:
    """Whether this is a file of triples, or a folder of them that is not one of a dataset."""
    path = Path(place)
    if is_named(str(path)) or not path.is_dir():
        return path.is_file()
    return not is_dataset(path)


def as_alignment_task(
    left: AlignmentTask | KnowledgeGraph | Source,
    right: KnowledgeGraph | Source | None = None,
    links: Source | None = None,
    test_links: Source | None = None,
    valid_links: Source | None = None,
) -> AlignmentTask:
    """The task of two graphs and links, of a dataset (``left`` alone), or a ready one as it is."""
    if right is not None and not isinstance(left, AlignmentTask):
        return AlignmentTask.read(left, right, links, test_links, valid_links)
    alone = all(x is None for x in (right, links, test_links, valid_links))
    if isinstance(left, AlignmentTask) and alone:
        return left
    if isinstance(left, str | PathLike) and alone and not Path(left).is_file():
        return load_task(AlignmentTask, str(left))
    raise InputError(
        "alignment needs two graphs and links",
        remedy="give left, right and links, or a task or the name of a dataset alone",
    )


def as_graph_task(
    source: GraphTask | KnowledgeGraph | Source,
    valid: float | Source = 0.1,
    test: float | Source = 0.0,
    seed: int = 0,
) -> GraphTask:
    """The task of a graph, a file or a dataset, or a ready one as it is; see GraphTask.read."""
    if isinstance(source, GraphTask):
        return source
    if isinstance(source, str | PathLike) and not is_source(source):
        return load_task(GraphTask, str(source))
    return GraphTask.read(source, valid, test, seed=seed)


def _normal(name: str) -> str:
    return name.strip().lower().replace("_", "-")
