"""Two graphs and the links between them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from decentrl.data.headers import Reading, as_reading
from decentrl.data.knowledge_graph import DisjointSets, KnowledgeGraph, as_graph, hash_arrays
from decentrl.data.links import UnknownLinks, known_links
from decentrl.data.memory import Source as Source
from decentrl.data.readers import read_table, source_name
from decentrl.data.table import LINK, Columns
from decentrl.data.vocabulary import Ids
from decentrl.errors import InputError

NO_LINKS = np.empty((0, 2), np.int64)


@dataclass(frozen=True, eq=False)
class AlignmentTask:
    """Two graphs and links int64[n, 2]: (id in the left graph, id in the right graph).

    The graphs hold the training triples; their vocabularies hold all entities and relations.
    In an open world ``auxiliary`` are the triples of left and right, int64[n, 3], that arrive after
    training, and ``unknown``, bool[len(test)], marks the test links whose entities are new.
    ``repeated`` links were given more than once, and read once. ``rejected`` pairs are no links,
    and training never takes them for some; they are not part of a bundle.
    """

    name: str
    left: KnowledgeGraph
    right: KnowledgeGraph
    train: Ids
    valid: Ids
    test: Ids
    auxiliary: tuple[Ids, Ids] | None = None
    unknown: npt.NDArray[np.bool_] | None = None
    repeated: int = 0
    rejected: Ids = field(default_factory=NO_LINKS.copy)

    def __repr__(self) -> str:
        links = f"{len(self.train)} links, {len(self.valid)} to validate, {len(self.test)} to test"
        return f"AlignmentTask({self.name!r}, {self.left}, {self.right}, {links})"

    @property
    def open_world(self) -> bool:
        return self.auxiliary is not None

    def hold_out(self, share: float, seed: int, into: Literal["valid", "test"]) -> AlignmentTask:
        """Move a random ``share`` of the training links, at least one, behind valid or test."""
        check_share(share)
        n = len(self.train)
        if n < 2:
            raise InputError(
                f"{n} training link(s) are too few to hold some out", remedy="give more links"
            )
        size = min(max(1, round(share * n)), n - 1)
        moved = np.sort(np.random.default_rng(seed).permutation(n)[:size])
        held = self.train[moved]
        rest = np.delete(self.train, moved, axis=0)
        if into == "valid":
            return replace(self, train=rest, valid=np.concatenate([self.valid, held]))
        unknown = self.unknown
        if unknown is not None:
            unknown = np.concatenate([unknown, np.zeros(size, bool)])
        return replace(self, train=rest, test=np.concatenate([self.test, held]), unknown=unknown)

    def content_hash(self) -> str:
        """SHA-256 over graphs, links and, in an open world, what arrives later."""
        graphs = self.left.content_hash() + self.right.content_hash()
        unknown = None if self.unknown is None else self.unknown.astype(np.int64)
        parts = (self.train, self.valid, self.test, *(self.auxiliary or ()), unknown)
        parts += (self.rejected,) if len(self.rejected) else ()
        return hash_arrays(graphs, parts)

    @property
    def link_columns(self) -> Columns:
        """What the columns of links may hold, for :func:`decentrl.data.table.row_ids`."""
        left, right = self.left.entities, self.right.entities
        return (left, "entity of the left graph"), (right, "entity of the right graph")

    def without_links(self) -> AlignmentTask:
        """The same task with no link known; those to test on stay."""
        return replace(self, train=NO_LINKS, valid=NO_LINKS)

    def read_links(self, source: Source) -> Ids:
        """Other links between the same graphs, int64[n, 2]."""
        table = known_links(read_table(source, LINK), self.link_columns)
        return DisjointSets("link", self.link_columns).add(table, "test")

    @classmethod
    def read(
        cls,
        left: KnowledgeGraph | Source,
        right: KnowledgeGraph | Source,
        links: Source | None = None,
        test_links: Source | None = None,
        valid_links: Source | None = None,
        format: str | Reading | None = None,
        *,
        right_format: str | Reading | None = None,
        unknown_links: UnknownLinks = "error",
    ) -> AlignmentTask:
        """Read two graphs and their links, from files or memory.

        Links are two columns of a TSV, CSV or Parquet file, owl:sameAs statements of an RDF file,
        rows (left, right), an array or a data frame. ``format`` overrides the extensions of the
        graphs' files; as a :class:`~decentrl.data.headers.Reading` it says more of how they are
        read, of which ``header`` is about the links, too. ``right_format`` is that of the right
        graph where it is another one. With ``unknown_links="skip"`` links that name unknown
        entities are left out, with a warning; else they are an error.
        """
        name = f"{source_name(left, 'left')}-{source_name(right, 'right')}"
        graphs = as_graph(left, format), as_graph(right, right_format or format)
        task = cls(name, *graphs, train=NO_LINKS, valid=NO_LINKS, test=NO_LINKS)
        sets = DisjointSets("link", task.link_columns)
        how = Reading(header=as_reading(format).header)
        rows, repeated = dict[str, Ids](), 0
        # Training links are read first: a test link that repeats one is the test file's fault.
        given = {"training": links, "validation": valid_links, "test": test_links}
        for what, source in given.items():
            if source is not None:
                table = read_table(source, LINK, how)
                table = known_links(table, task.link_columns, unknown_links, how.header)
                rows[what] = sets.add(table, what)
                repeated += len(table) - len(rows[what])
        train, valid, test = (rows.get(what, NO_LINKS) for what in given)
        return replace(task, train=train, valid=valid, test=test, repeated=repeated)


def check_share(share: float) -> None:
    """A share that is not between 0 and 1 is an error."""
    if not 0 < share < 1:
        raise InputError(f"the share {share} is impossible", remedy="give one between 0 and 1")
