"""Character n-grams of names, as numbers: what the view of names reads.

A name is folded (lower case, no accents, compatibility forms) and cut into words; each word gives
its n-grams of 1 to 4 characters, the space before and after it counting as characters (a space
alone is none). An n-gram is a bucket of a hash, so that no list of n-grams has to be kept, and a
new one needs no new place.
"""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from decentrl.data.names import Names
from decentrl.data.vocabulary import Ids

LONGEST = 4
"""Characters of the longest n-grams."""
_AT_ONCE = 1_000_000  # characters whose n-grams are sorted together
_NO_WORD = re.compile(r"[\W_]+")
_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)

Counts = tuple[Ids, Ids, npt.NDArray[np.float32]]
"""Rows of entities: where each begins, int64[n + 1], the buckets of all, and how often each."""


def fold(text: str) -> str:
    """A name as its words in lower case without accents, single spaces around each.

    Without letters and digits, as of an emoji or ``!!!``, all that is no space counts as words.
    """
    text = unicodedata.normalize("NFKD", text).lower()
    if text.isascii():
        words = _NO_WORD.sub(" ", text)
    else:
        text = "".join(x for x in text if not unicodedata.combining(x))
        # Vowels of Indian scripts and of Thai are marks; re takes them for the ends of words.
        words = "".join(x if x.isalnum() or _is_vowel(x) else " " for x in text)
    parts = words.split() or text.split()
    return f" {' '.join(parts)} " if parts else ""


@cache
def _is_vowel(character: str) -> bool:
    """Whether a character is a mark that is a letter of its own (a sign of a style is none)."""
    kind = unicodedata.category(character)
    return kind in ("Mn", "Mc") and "VARIATION" not in unicodedata.name(character, "")


def ngram_counts(names: Names, n_entities: int, n_buckets: int) -> Counts:
    """The n-grams of each entity's names, and of these in Latin letters (extra ``text``).

    An entity without a name has none; several names of one entity count together. ``n_buckets`` is
    a power of 2.
    """
    indptr = np.zeros(n_entities + 1, np.int64)
    buckets, counts = [np.empty(0, np.int64)], [np.empty(0, np.float32)]
    texts, ids = names.texts, names.entities
    before = np.concatenate(([0], np.cumsum(np.asarray(pc.utf8_length(texts), np.int64))))
    start = 0
    open_keys, open_times = np.empty(0, np.int64), np.empty(0, np.int64)
    while start < len(ids):
        last = int(np.searchsorted(before, before[start] + _AT_ONCE, "right")) - 1
        stop = max(start + 1, last)
        folded = [fold(x) for x in texts[start:stop].to_pylist()]
        rows, cells = _hashed(*_with_latin(folded, ids[start:stop]), n_buckets)
        keys, times = np.unique(rows * n_buckets + cells, return_counts=True)
        keys, times = _added((open_keys, open_times), (keys, times))
        # An entity that has names in the next piece, too, is not finished.
        done = len(keys)
        if stop < len(ids) and ids[stop] == ids[stop - 1]:
            done = int(np.searchsorted(keys, ids[stop] * n_buckets))
        open_keys, open_times = keys[done:], times[done:]
        keys, times = keys[:done], times[:done]
        indptr[1:] += np.bincount(keys // n_buckets, minlength=n_entities)
        buckets.append((keys % n_buckets).astype(np.min_scalar_type(n_buckets)))
        counts.append(times.astype(np.float32))
        start = stop
    every = np.concatenate(buckets, dtype=np.int64)
    return indptr.cumsum(), every, np.concatenate(counts)


def _added(first: tuple[Ids, Ids], second: tuple[Ids, Ids]) -> tuple[Ids, Ids]:
    """Distinct keys, ascending, and how often each is there, in both together."""
    if not len(first[0]):
        return second
    keys, places = np.unique(np.concatenate((first[0], second[0])), return_inverse=True)
    times = np.zeros(len(keys), np.int64)
    np.add.at(times, places.reshape(-1), np.concatenate((first[1], second[1])))
    return keys, times


def folded(names: Iterable[str]) -> list[str]:
    """Names as they are compared: folded, and those in other scripts in Latin letters as well."""
    texts = [fold(name) for name in names]
    return _with_latin(texts, np.arange(len(texts)))[0]


def buckets_in(text: str, n_buckets: int) -> Ids:
    """The buckets of the n-grams in a folded name, or in a piece of one."""
    owner = np.zeros(len(text), np.int64)
    cells = [found for _, _, found in _windows(owner, text, n_buckets)]
    return np.unique(np.concatenate([np.empty(0, np.int64), *cells]))


def _with_latin(folded: list[str], ids: Ids) -> tuple[list[str], Ids]:
    """The names, and those in other scripts once more in Latin letters."""
    foreign = [i for i, x in enumerate(folded) if not x.isascii()]
    latin = _latin_letters() if foreign else None
    if latin is None:
        return folded, ids
    return [*folded, *(fold(latin(folded[i])) for i in foreign)], np.append(ids, ids[foreign])


@cache
def _latin_letters() -> Callable[[str], str] | None:
    """What writes a text in Latin letters; None, and one warning, without the extra ``text``."""
    try:
        from anyascii import anyascii
    except ImportError:
        warnings.warn(
            "names in other scripts are compared as they are, not in Latin letters as well; "
            "pip install 'decentrl[text]' for that",
            stacklevel=4,
        )
        return None
    return anyascii


def _hashed(texts: list[str], ids: Ids, n_buckets: int) -> tuple[Ids, Ids]:
    """The entity and the bucket of every n-gram of folded names."""
    owner = np.repeat(np.arange(len(texts)), [len(x) for x in texts])
    rows, cells = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for _, starts, found in _windows(owner, "".join(texts), n_buckets):
        rows.append(ids[owner[starts]])
        cells.append(found)
    return np.concatenate(rows), np.concatenate(cells)


def _windows(owner: Ids, text: str, n_buckets: int) -> Iterator[tuple[int, Ids, Ids]]:
    """The n-grams in folded names, one length after the other: it, where they begin, buckets.

    Args:
        owner: int64[k], which name each character of ``text``, all names in one, belongs to.
    """
    letters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    space = letters == ord(" ")
    code = np.zeros(len(letters), np.uint64)
    whole = np.ones(len(letters), bool)  # whether a window that begins here is inside one word
    for n in range(1, LONGEST + 1):
        if len(letters) < n:
            break
        size = len(letters) - n + 1
        code, whole = code[:size], whole[:size]
        if n > 2:
            whole = whole & ~space[n - 2 : n - 2 + size]
        whole = whole & (owner[:size] == owner[n - 1 :])
        code = _mixed(code * _FIRST + letters[n - 1 :].astype(np.uint64) + np.uint64(1))
        kept = whole & ~space[:size] if n == 1 else whole
        buckets = (code[kept] >> np.uint64(65 - n_buckets.bit_length())).astype(np.int64)
        yield n, np.flatnonzero(kept), buckets


def _mixed(code: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A hash of 64-bit numbers in which every bit depends on every other."""
    code = (code ^ (code >> np.uint64(30))) * _SECOND
    return code ^ (code >> np.uint64(31))
