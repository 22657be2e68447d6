"""Two graphs and the links between them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from decentrl.data.knowledge_graph import KnowledgeGraph, first_occurrences, row_keys
from decentrl.data.readers import read_table
from decentrl.data.table import LINK, Table, encode, stem, unknown_label
from decentrl.data.vocabulary import Ids, Vocabulary
from decentrl.errors import InputError

Source = str | PathLike[str] | KnowledgeGraph


@dataclass(frozen=True, eq=False)
class AlignmentTask:
    """Two graphs and links int64[n, 2]: (id in the left graph, id in the right graph).

    The graphs hold the training triples; their vocabularies hold all entities and relations.
    In an open world ``auxiliary`` are the triples of left and right, int64[n, 3], that arrive after
    training, and ``unknown``, bool[len(test)], marks the test links whose entities are new.
    """

    name: str
    left: KnowledgeGraph
    right: KnowledgeGraph
    train: Ids
    valid: Ids
    test: Ids
    auxiliary: tuple[Ids, Ids] | None = None
    unknown: npt.NDArray[np.bool_] | None = None

    @property
    def open_world(self) -> bool:
        return self.auxiliary is not None

    def hold_out(self, share: float, seed: int, into: Literal["valid", "test"]) -> AlignmentTask:
        """Move a random ``share`` of the training links, at least one, behind valid or test."""
        if not 0 < share < 1:
            raise InputError(f"the share {share} is impossible", remedy="give one between 0 and 1")
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
        digest = hashlib.sha256((self.left.content_hash() + self.right.content_hash()).encode())
        parts = [self.train, self.valid, self.test, *(self.auxiliary or ())]
        if self.unknown is not None:
            parts.append(self.unknown.astype(np.int64))
        for part in parts:
            digest.update(np.array([len(part)], "<i8").tobytes())
            digest.update(np.ascontiguousarray(part, "<i8").tobytes())
        return digest.hexdigest()

    def read_links(self, file: str | PathLike[str]) -> Ids:
        """Other links between the same graphs, int64[n, 2]."""
        return LinkSets(self.left.entities, self.right.entities).add(read_table(file, LINK), "test")

    @classmethod
    def read(
        cls,
        left: Source,
        right: Source,
        links: str | PathLike[str],
        test_links: str | PathLike[str] | None = None,
        valid_links: str | PathLike[str] | None = None,
        format: str | None = None,
        links_format: str | None = None,
    ) -> AlignmentTask:
        """Read two graphs and their links.

        Links are two columns of a TSV, CSV or Parquet file, or owl:sameAs statements of an RDF
        file. ``format`` and ``links_format`` override the extensions.
        """
        graphs = [_graph(source, format) for source in (left, right)]
        sets = LinkSets(graphs[0].entities, graphs[1].entities)
        # Training links are read first: a test link that repeats one is the test file's fault.
        parts = [
            _no_links() if file is None else sets.add(read_table(file, LINK, links_format), what)
            for what, file in (
                ("training", links),
                ("validation", valid_links),
                ("test", test_links),
            )
        ]
        name = f"{_name(left, 'left')}-{_name(right, 'right')}"
        return cls(name, graphs[0], graphs[1], parts[0], parts[1], parts[2])


class LinkSets:
    """Reads the links of two graphs, set by set, and sees to it that no two sets share a link.

    ``left`` and ``right`` are the names that the links use for the entities of the two graphs.
    """

    def __init__(self, left: Vocabulary, right: Vocabulary) -> None:
        self._vocabularies = (left, right)
        self._sizes = (len(left), len(right))
        self._seen: list[tuple[str, Ids]] = []

    def add(self, table: Table, what: str) -> Ids:
        """The links of a table, int64[n, 2], in its order, without repetitions."""
        pairs = self.encode(table)
        keys = row_keys(pairs, self._sizes)
        for other, seen in self._seen:
            shared = np.isin(keys, seen)
            if shared.any():
                row = int(np.argmax(shared))
                raise InputError(
                    f"this {what} link is also a {other} link",
                    file=table.file,
                    line=table.line_of(row),
                    remedy="remove it from one of the two files",
                )
        self._seen.append((what, keys))
        return pairs[first_occurrences(pairs, self._sizes)]

    def encode(self, table: Table) -> Ids:
        """The rows of a table as pairs of ids, int64[n, 2]."""
        vocabularies = self._vocabularies
        columns = []
        for column, vocabulary in enumerate(vocabularies):
            labels, codes = encode(table.columns[column])
            columns.append(vocabulary.find_all(labels.to_pylist())[codes])
        pairs = np.stack(columns, axis=1)
        bad = (pairs < 0).any(axis=1)
        if bad.any():
            row = int(np.argmax(bad))
            first, second = table.row(row)
            swapped = first in vocabularies[1] and second in vocabularies[0]
            side = int(pairs[row, 0] >= 0)
            raise unknown_label(
                table,
                row,
                side,
                vocabularies[side],
                f"entity of the {('left', 'right')[side]} graph",
                "the two columns are swapped: write left, then right" if swapped else None,
            )
        return pairs


def _graph(source: Source, format: str | None) -> KnowledgeGraph:
    return source if isinstance(source, KnowledgeGraph) else KnowledgeGraph.read(source, format)


def _name(source: Source, otherwise: str) -> str:
    return otherwise if isinstance(source, KnowledgeGraph) else stem(Path(source))


def _no_links() -> Ids:
    return np.empty((0, 2), np.int64)
