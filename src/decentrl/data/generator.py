"""Generated pairs of growing graphs, of any size, whose true links are known.

One hidden world of entities and triples is seen twice. Each side knows a part of the entities,
keeps a share of the triples between them, adds wrong ones, and calls all by its own identifiers.
All of it is arrays: a million entities take seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from decentrl.data.vocabulary import Ids

RELATIONS = 400
SHARED = 0.7
"""Of the entities of a side, those that the other side knows too."""
KEPT = 0.75
"""Of the triples of the world between entities of a side, those that the side has."""
WRONG = 0.05
"""Of the triples of a side, those that are not of the world."""
MERGED = 0.1
"""Of the relations, those that the right side does not tell from another."""
GROWTH = 0.05
"""New entities of a batch, for each entity of the beginning."""
LONGEST_NAME = 26
_NEAR = 0.8  # of the triples, those inside a community
_SKEW = 0.75  # popularity falls with rank ** -0.75: degrees have a tail of exponent 2.3
_TYPES = 40  # of communities; entities of one have the same usual relations
_COMMON = 0.4  # of the triples, those whose relation does not depend on the type


@dataclass(frozen=True)
class Shape:
    """What is asked for.

    Attributes:
        entities: of each side, in the beginning.
        triples: of each side for each entity, about.
        batches: how many times each side grows later.
    """

    entities: int
    triples: float = 6.0
    batches: int = 3
    seed: int = 0

    @property
    def arriving(self) -> int:
        """How many entities arrive on a side in a batch."""
        return max(1, round(GROWTH * self.entities))

    @property
    def all_entities(self) -> int:
        """Entities of a side in the end."""
        return self.entities + self.batches * self.arriving


@dataclass(frozen=True)
class Side:
    """One of the two graphs, in ids of its own, which say nothing about those of the other.

    Attributes:
        triples: int64[n, 3], distinct, in lexicographic order.
        arrived: for each triple the batch it comes in; 0 is the beginning.
        entities: for each entity the batch it comes in.
        names: for each entity its name, bytes; empty for some.
    """

    triples: Ids
    arrived: Ids
    entities: Ids
    names: npt.NDArray[np.bytes_]
    relations: int


@dataclass(frozen=True)
class World:
    """Both sides, and all true links in ids of the sides, int64[n, 2], in random order."""

    left: Side
    right: Side
    links: Ids


@dataclass(frozen=True)
class _Hidden:
    """What both sides see.

    Attributes:
        popularity: of each entity; these are sorted by community.
        community: first and last + 1 entity of the community that an entity is in, int64[n, 2].
    """

    popularity: npt.NDArray[np.float64]
    community: Ids
    types: Ids
    triples: Ids


def generate(shape: Shape) -> World:
    """The pair of a shape; the same shape always gives the same pair."""
    # One stream for each purpose: what one of them draws does not move the others.
    streams = [np.random.default_rng(x) for x in np.random.SeedSequence(shape.seed).spawn(6)]
    total = shape.all_entities
    both = round(SHARED * total)
    n = 2 * total - both
    hidden = _hidden(n, shape, streams[0])
    # In the order of a permutation: those of both sides, of the left alone, of the right alone.
    order = streams[1].permutation(n)
    members = np.sort(order[:total]), np.sort(np.concatenate((order[:both], order[total:])))
    age = streams[1].random(n)
    names = _names(n, streams[2])
    made = []
    for number, (own, rng) in enumerate(zip(members, streams[3:5], strict=True)):
        # Mostly at the same time on both sides, but one of them may be late.
        times = _arrivals(age[own] + 0.1 * rng.standard_normal(total), shape)
        called = _with_typos(names[own], rng) if number else names[own]
        called = np.where(rng.random(total) < 0.9, called, b"")
        made.append(_side(hidden, own, times, called, bool(number), shape, rng))
    place = np.full((2, n), -1)
    for number, (own, (_, ids)) in enumerate(zip(members, made, strict=True)):
        place[number, own] = ids
    links = place[:, (place >= 0).all(axis=0)].T
    return World(made[0][0], made[1][0], streams[5].permutation(links))


def _hidden(n: int, shape: Shape, rng: np.random.Generator) -> _Hidden:
    """Popular and rare entities in communities, and triples mostly inside these."""
    popularity = np.power(np.arange(10.0, n + 10.0), -_SKEW)
    rng.shuffle(popularity)
    # Sizes of communities between ten and a twentieth of all, few of them large.
    sizes = np.minimum(10 * (1 - rng.random(n // 10 + 1)) ** -0.9, max(10, n / 20)).astype(np.int64)
    ends = np.minimum(np.cumsum(sizes), n)
    ends = ends[: int(np.searchsorted(ends, n)) + 1]
    number = np.repeat(np.arange(len(ends)), np.diff(ends, prepend=0))
    community = np.stack((np.concatenate(([0], ends[:-1]))[number], ends[number]), axis=1)
    types = rng.integers(_TYPES, size=len(ends))[number]
    seen = (shape.all_entities / n) ** 2 * KEPT
    count = int(n * shape.triples * (1 - WRONG) * shape.all_entities / n / seen)
    heads = _popular(np.cumsum(popularity), rng.random(count))
    tails = _tails(heads, popularity, community, rng)
    return _Hidden(
        popularity, community, types, np.stack((heads, _relations(types[heads], rng), tails), 1)
    )


def _popular(total: npt.NDArray[np.float64], chance: npt.NDArray[np.float64]) -> Ids:
    """Entities drawn by popularity, whose running sum is ``total``, in ascending order."""
    chance.sort()  # neighbouring draws are near in memory, which is ten times faster
    found: Ids = np.searchsorted(total, chance * total[-1], side="right").astype(np.int64)
    return np.minimum(found, len(total) - 1)


def _tails(
    heads: Ids, popularity: npt.NDArray[np.float64], community: Ids, rng: np.random.Generator
) -> Ids:
    """For each head the other end of a triple; one without popularity is no tail."""
    total = np.concatenate(([0.0], np.cumsum(popularity)))
    first, last = total[community[heads, 0]], total[community[heads, 1]]
    far = (rng.random(len(heads)) >= _NEAR) | (last <= first)
    first, last = np.where(far, 0.0, first), np.where(far, total[-1], last)
    sought = first + rng.random(len(heads)) * (last - first)
    found: Ids = np.searchsorted(total, sought, side="right").astype(np.int64) - 1
    return np.minimum(found, len(popularity) - 1)


def _relations(types: Ids, rng: np.random.Generator) -> Ids:
    """Few relations make most triples, and each type of head has its own usual ones."""
    rank = np.floor(RELATIONS ** rng.random(len(types))).astype(np.int64) - 1
    shift = np.where(rng.random(len(types)) < _COMMON, 0, types * (RELATIONS // _TYPES))
    return (rank + shift) % RELATIONS


def _arrivals(age: npt.NDArray[np.float64], shape: Shape) -> Ids:
    """The batch that each entity of a side comes in."""
    times = np.zeros(len(age), np.int64)
    late = np.argsort(age, kind="stable")[shape.entities :]
    times[late] = np.repeat(np.arange(1, shape.batches + 1), shape.arriving)
    return times


def _side(
    hidden: _Hidden,
    own: Ids,
    times: Ids,
    names: npt.NDArray[np.bytes_],
    merges: bool,
    shape: Shape,
    rng: np.random.Generator,
) -> tuple[Side, Ids]:
    """One side, and the id there of each entity it knows, in the order of ``own``."""
    place = np.full(len(hidden.popularity), -1)
    place[own] = np.arange(len(own))
    ends = place[hidden.triples[:, [0, 2]]]
    kept = (ends >= 0).all(axis=1) & (rng.random(len(ends)) < KEPT)
    wrong = round(WRONG * shape.triples * len(own))
    popularity = hidden.popularity[own]
    triples = np.concatenate((
        np.stack((ends[kept, 0], hidden.triples[kept, 1], ends[kept, 1]), axis=1),
        np.stack((
            _popular(np.cumsum(popularity), rng.random(wrong)),
            rng.integers(RELATIONS, size=wrong),
            rng.integers(len(own), size=wrong),
        ), axis=1),
    ))  # fmt: skip
    triples = np.concatenate((triples, _first_triples(hidden, own, times, triples, rng)))
    relations = rng.permutation(RELATIONS)
    if merges:
        gone = relations[: round(MERGED * RELATIONS)]
        same = np.arange(RELATIONS)
        same[gone] = relations[-len(gone) :]
        triples[:, 1] = same[triples[:, 1]]
    ids = rng.permutation(len(own))
    triples = np.stack((ids[triples[:, 0]], relations[triples[:, 1]], ids[triples[:, 2]]), axis=1)
    keys = np.sort((triples[:, 0] * RELATIONS + triples[:, 1]) * len(own) + triples[:, 2])
    keys = keys[np.concatenate(([True], keys[1:] != keys[:-1]))]
    triples = np.stack(np.unravel_index(keys, (len(own), RELATIONS, len(own))), axis=1)
    arriving, called = np.empty_like(times), np.empty_like(names)
    arriving[ids], called[ids] = times, names
    arrived = arriving[triples[:, [0, 2]]].max(axis=1)
    return Side(triples.astype(np.int64), arrived, arriving, called, RELATIONS), ids


def _first_triples(
    hidden: _Hidden, own: Ids, times: Ids, triples: Ids, rng: np.random.Generator
) -> Ids:
    """A triple for each entity that would have none when it arrives."""
    both = triples[:, [0, 2]]
    last = times[both].max(axis=1)
    there = np.zeros(len(own), bool)
    for end in (0, 1):
        there[both[times[both[:, end]] == last, end]] = True
    lonely = np.flatnonzero(~there)
    popularity = np.zeros(len(hidden.popularity))
    popularity[own[times == 0]] = hidden.popularity[own[times == 0]]
    tails = _tails(own[lonely], popularity, hidden.community, rng)
    place = np.zeros(len(popularity), np.int64)
    place[own] = np.arange(len(own))
    return np.stack((lonely, _relations(hidden.types[own[lonely]], rng), place[tails]), axis=1)


_SYLLABLES = np.array(
    [
        [*f"{first}{vowel}{last}".encode().ljust(3, b"\0")]
        for first in "bdfgklmnprstvz"
        for vowel in "aeiou"
        for last in ("", "n", "r", "s")
    ],
    np.uint8,
)


def _names(n: int, rng: np.random.Generator) -> npt.NDArray[np.bytes_]:
    """Names of two words of two to four syllables; some are the names of several entities."""
    words = _SYLLABLES[rng.integers(len(_SYLLABLES), size=(max(100, n // 20), 4))]
    words[np.arange(4) >= rng.integers(2, 5, size=len(words))[:, None]] = 0
    words = words.reshape(len(words), -1)
    words[:, 0] -= 32  # a capital
    rank = (rng.random((n, 2)) ** 2 * len(words)).astype(np.int64)
    space = np.full((n, 1), ord(" "), np.uint8)
    return _packed(np.concatenate((words[rank[:, 0]], space, words[rank[:, 1]]), axis=1))


def _packed(letters: npt.NDArray[np.uint8]) -> npt.NDArray[np.bytes_]:
    """The rows of [n, k] without their zeros, as bytes of at most LONGEST_NAME."""
    order = np.argsort(letters == 0, axis=1, kind="stable")
    packed = np.take_along_axis(letters, order, axis=1)
    whole = np.zeros((len(letters), LONGEST_NAME), np.uint8)
    whole[:, : packed.shape[1]] = packed[:, :LONGEST_NAME]
    return whole.view(f"S{LONGEST_NAME}")[:, 0]


def _with_typos(names: npt.NDArray[np.bytes_], rng: np.random.Generator) -> npt.NDArray[np.bytes_]:
    """A third of the names with a letter changed, left out, or swapped with the next one."""
    n = len(names)
    letters = names.view(np.uint8).reshape(n, LONGEST_NAME).copy()
    lengths = np.count_nonzero(letters, axis=1)
    rows = np.flatnonzero(rng.random(n) < 1 / 3)
    at = 1 + (rng.random(len(rows)) * (lengths[rows] - 2)).astype(np.int64)
    what = rng.integers(3, size=len(rows))
    changed = what == 0
    letters[rows[changed], at[changed]] = rng.integers(97, 123, size=int(changed.sum()))
    gone = what == 1
    letters[rows[gone], at[gone]] = 0
    swapped, place = rows[what == 2], at[what == 2]
    letters[swapped, place], letters[swapped, place + 1] = (
        letters[swapped, place + 1],
        letters[swapped, place],
    )
    return _packed(letters)
