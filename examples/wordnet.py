"""Two releases of WordNet as N-Triples, the links between them, and what equal labels alone find.

python examples/wordnet.py FOLDER_OF_3.0 FOLDER_OF_3.1 -o wordnet --pos noun

reads the database files (data.noun and so on, index.sense) of WordNet 3.0 and 3.1, and writes
``3.0.nt``, ``3.1.nt`` and ``links.tsv``. docs/tutorial-wordnet.md says where the files come from.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

NAMES = "3.0", "3.1"
PARTS = "noun", "verb", "adj", "adv"
SENSE_TYPES = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}  # 5: a satellite, in data.adj
RELATIONS = {
    "!": "antonym", "@": "hypernym", "@i": "instanceHypernym", "#m": "memberHolonym",
    "#s": "substanceHolonym", "#p": "partHolonym", "=": "attribute", "+": "derivation",
    ";c": "topic", ";r": "region", ";u": "usage", "*": "entails", ">": "causes", "^": "also",
    "$": "verbGroup", "&": "similar", "<": "participle", "\\": "pertainym",
}  # fmt: skip
"""The pointers that are written. The others (~, ~i, %m, -c …) are the inverses of these."""
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
ALTERNATIVE = "http://www.w3.org/2004/02/skos/core#altLabel"
GLOSS = "http://www.w3.org/2004/02/skos/core#definition"
BASE = "https://wordnet.example/"
ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r"})

Key = tuple[str, str]  # part of speech (n, v, a or r) and offset: a synset of one release


@dataclass(frozen=True)
class Synset:
    """One line of a data file: words that mean the same, pointers to others, and a definition."""

    words: tuple[str, ...]
    pointers: tuple[tuple[str, Key], ...]
    gloss: str


Release = dict[Key, Synset]


def parse(line: str) -> tuple[Key, Synset]:
    """A synset of a line; the format is described in the manual page wndb(5WN)."""
    fields, _, gloss = line.partition(" | ")
    offset, _, kind, count, *rest = fields.split()
    end = 2 * int(count, 16)
    # A word has underscores for spaces, and an adjective may have a marker: "afloat(p)".
    words = tuple(word.partition("(")[0].replace("_", " ") for word in rest[:end:2])
    pointers = rest[end + 1 : end + 1 + 4 * int(rest[end])]
    targets = zip(pointers[2::4], pointers[1::4], strict=True)
    part = "a" if kind == "s" else kind
    return (part, offset), Synset(
        words, tuple(zip(pointers[::4], targets, strict=True)), gloss.strip()
    )


def lines(file: Path) -> Iterator[str]:
    """The lines of a database file, without those of its licence, which begin with a space."""
    if not file.is_file():
        raise SystemExit(f"{file} is missing: give the folder that holds WordNet's database files")
    with file.open(encoding="utf-8") as stream:
        yield from (line for line in stream if line[0] != " ")


def read_release(folder: Path, parts: Sequence[str]) -> tuple[Release, int]:
    """The synsets of the parts of speech that have relations among each other; how many do not."""
    found = dict(parse(line) for part in parts for line in lines(folder / f"data.{part}"))
    graph = {}
    for key, synset in found.items():
        # Pointers from several words of one synset to the same other one are one relation.
        pointers = [
            x for x in dict.fromkeys(synset.pointers) if x[0] in RELATIONS and x[1] in found
        ]
        graph[key] = replace(synset, pointers=tuple(pointers))
    targets = {target for synset in graph.values() for _, target in synset.pointers}
    related = {key: graph[key] for key in graph if graph[key].pointers or key in targets}
    return related, len(found) - len(related)


def read_senses(folder: Path, synsets: Release) -> dict[str, Key]:
    """The synset of each sense key; keys, unlike offsets, stay the same in later releases."""
    senses = {}
    for line in lines(folder / "index.sense"):
        key, offset = line.split()[:2]
        synset = SENSE_TYPES[key.rpartition("%")[2][0]], offset
        if synset in synsets:
            senses[key] = synset
    return senses


def iri(release: str, key: Key) -> str:
    return f"{BASE}{release}/{key[0]}{key[1]}"


def statements(release: str, synsets: Release) -> Iterator[str]:
    """The lines of an N-Triples file: labels, definitions and relations."""
    for key, synset in synsets.items():
        subject = f"<{iri(release, key)}>"
        for i, word in enumerate(synset.words):
            text = word.translate(ESCAPES)
            yield f'{subject} <{ALTERNATIVE if i else LABEL}> "{text}"@en .\n'
        yield f'{subject} <{GLOSS}> "{synset.gloss.translate(ESCAPES)}"@en .\n'
        for symbol, target in synset.pointers:
            relation = f"<{BASE}schema/{RELATIONS[symbol]}>"
            yield f"{subject} {relation} <{iri(release, target)}> .\n"


def same_senses(left: dict[str, Key], right: dict[str, Key]) -> tuple[dict[Key, Key], int]:
    """Links between synsets that share sense keys with each other alone; how many others do."""
    forward, backward = defaultdict(set), defaultdict(set)
    for sense in left.keys() & right.keys():
        forward[left[sense]].add(right[sense])
        backward[right[sense]].add(left[sense])
    links = {
        key: next(iter(others))
        for key, others in forward.items()
        if len(others) == 1 and all(len(backward[other]) == 1 for other in others)
    }
    return dict(sorted(links.items())), len(forward) - len(links)


def print_equality(
    what: str, of: Callable[[Synset], Hashable], pairs: list[tuple[Synset, Synset]], right: Release
) -> None:
    """Print how good equality is as an alignment: of t equal synsets each counts as 1/t."""
    equal = Counter(map(of, right.values()))
    found = [(of(one), of(other)) for one, other in pairs if equal[of(one)]]
    hits = sum(1 / equal[one] for one, other in found if one == other)
    unique = sum(equal[one] == 1 for one, _ in found)
    print(
        f"  {what}: Hits@1 {hits / max(1, len(pairs)):.4f}, precision "
        f"{hits / max(1, len(found)):.4f} on {len(found)} with an equal one "
        f"({unique} with exactly one)"
    )


def print_sizes(name: str, synsets: Release, alone: int) -> None:
    triples, labels = (
        sum(len(part) for part in column)
        for column in zip(*((x.pointers, x.words) for x in synsets.values()), strict=True)
    )
    print(
        f"{name}: {len(synsets)} synsets, {triples} relations, {labels} labels; "
        f"left out, without a relation: {alone}"
    )


def main(folders: list[Path], target: Path, parts: Sequence[str]) -> None:
    """Write both releases and the links, and print their sizes and the baselines."""
    target.mkdir(parents=True, exist_ok=True)
    releases, senses = [], []
    for name, folder in zip(NAMES, folders, strict=True):
        synsets, alone = read_release(folder, parts)
        releases.append(synsets)
        senses.append(read_senses(folder, synsets))
        text = "".join(statements(name, synsets))
        (target / f"{name}.nt").write_text(text, encoding="utf-8", newline="\n")
        print_sizes(name, synsets, alone)
    links, others = same_senses(*senses)
    rows = (f"{iri(NAMES[0], a)}\t{iri(NAMES[1], b)}\n" for a, b in links.items())
    (target / "links.tsv").write_text("".join(rows), encoding="utf-8", newline="\n")
    print(f"links: {len(links)}; {others} more synsets of {NAMES[0]} share senses, ambiguously")
    print("what is found by equality alone:")
    left, right = releases
    pairs = [(left[a], right[b]) for a, b in links.items()]
    print_equality("the first label", lambda synset: synset.words[0], pairs, right)
    print_equality("all labels", lambda synset: frozenset(synset.words), pairs, right)
    print_equality(
        "all labels and the definition",
        lambda synset: (frozenset(synset.words), synset.gloss),
        pairs,
        right,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs=2, type=Path, metavar="FOLDER", help="of 3.0, of 3.1")
    parser.add_argument("-o", "--output", type=Path, default=Path("wordnet"), help="a folder")
    parser.add_argument("--pos", nargs="+", choices=PARTS, default=PARTS, help="parts of speech")
    options = parser.parse_args()
    main(options.folders, options.output, options.pos)
