"""Values of attributes, as numbers: what the view of names reads besides names.

A value has several *forms*, each a hash, and two values are alike if they share some: texts share
words, neighbouring words and the whole, dates their day, month and year, numbers how large they
are, rounded more and less. Which attributes of two graphs mean the same is not decided here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from hashlib import blake2b
from itertools import pairwise

import numpy as np

from decentrl.data.attributes import Attributes
from decentrl.data.ngrams import fold
from decentrl.data.vocabulary import Ids

STEPS = 0.02, 0.2
"""Numbers share a form if they differ by less than half of such a step of their logarithm."""
_AT_ONCE = 50_000  # values whose forms are sorted together
_DATE = re.compile(r"([+-]?\d{4,6})(?:-(\d\d)(?!:))?(?:-(\d\d)(?!:))?")


def value_forms(attributes: Attributes, n_entities: int) -> tuple[Ids, Ids, Ids]:
    """The forms of each entity's values: where each entity begins, whose attribute, and the form.

    Returns:
        int64[n_entities + 1], then for every form of every value, distinct for an entity, the hash
        of the attribute's label and that of the form.
    """
    labels = attributes.attributes.dictionary_encode()
    hashes = np.array([_hashed(x) for x in labels.dictionary.to_pylist()], np.int64)
    owners = hashes[np.asarray(labels.indices)]
    found = [np.empty((0, 3), np.int64)]
    start, ids = 0, attributes.entities
    while start < len(ids):
        # All values of an entity are in one piece.
        last = min(start + _AT_ONCE, len(ids)) - 1
        stop = int(np.searchsorted(ids, ids[last], "right"))
        rows = slice(start, stop)
        values, kinds = (x[rows].to_pylist() for x in (attributes.values, attributes.kinds))
        forms = [[_hashed(x) for x in forms_of(*pair)] for pair in zip(values, kinds, strict=True)]
        sizes = [len(x) for x in forms]
        columns = np.repeat(ids[rows], sizes), np.repeat(owners[rows], sizes)
        codes = np.array([code for some in forms for code in some], np.int64)
        found.append(_distinct(np.stack((*columns, codes), axis=1)))
        start = stop
    entities, names, codes = np.concatenate(found).T
    indptr = np.searchsorted(entities, np.arange(n_entities + 1)).astype(np.int64)
    return indptr, names.copy(), codes.copy()


def forms_of(value: str, kind: str) -> Iterator[str]:
    """What a value has in common with values like it."""
    if kind == "number":
        yield from _of_number(float(value))
    elif kind == "boolean":
        yield f"boolean {value.lower() in ('true', '1')}"
    elif kind == "date" and (match := _DATE.match(value)):
        year, month, day = match.groups()
        yield from _of_number(float(year))  # other graphs have the year alone, as a number
        if month:
            yield f"date {int(year)}-{month}"
        if day:
            yield f"date {int(year)}-{month}-{day}"
    else:
        words = fold(value).split()
        yield from words
        yield from (f"{a} {b}" for a, b in pairwise(words))
        # The whole has no spaces: 978-3-16 is 978316.
        yield f"text {''.join(words) or value}"


def _of_number(number: float) -> Iterator[str]:
    yield f"number {number + 0.0:.12g}"  # -0 is 0
    if number and math.isfinite(number):
        size, sign = math.log(abs(number)), math.copysign(1, number)
        for step in STEPS:
            # Two grids, half a step apart, so that no border lies between two near numbers.
            for grid, shift in enumerate((0, 0.5)):
                yield f"size {step} {grid} {sign:.0f} {math.floor(size / step + shift)}"


def _hashed(text: str) -> int:
    """63 bits."""
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _distinct(rows: Ids) -> Ids:
    """The distinct rows, in order."""
    rows = rows[np.lexsort(rows.T[::-1])]
    kept = np.ones(len(rows), bool)
    kept[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    return rows[kept]
