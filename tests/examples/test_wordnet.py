"""The example writes N-Triples that another reader understands, and counts equal labels rightly."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

EXAMPLE = Path(__file__).parents[2] / "examples" / "wordnet.py"
example = runpy.run_path(str(EXAMPLE))
BASE = "https://wordnet.example/"
LICENCE = "  1 This is no WordNet, only its format.  \n"

# In the format of WordNet's database: offset, file, kind, words with ids, pointers, definition.
OLD = {
    "noun": """\
00000100 03 n 01 thing 0 002 ~ 00000200 n 0000 + 00000100 v 0101 | what there is
00000200 03 n 02 red_ball 0 orb 1 002 @ 00000100 n 0000 #p 00000300 n 0000 | round; "the \\ ball"
00000300 03 n 01 box 0 001 %p 00000200 n 0000 | a first box
00000400 03 n 01 box 1 001 @ 00000100 n 0000 | a second box
00000500 03 n 01 gone 0 000 | only here
00000600 03 n 01 part 0 001 @ 00000100 n 0000 | will be divided
""",
    "verb": """\
00000100 29 v 01 be 0 001 + 00000100 n 0101 01 + 08 00 | to be there
""",
    "adj": """\
00000100 00 a 01 round(p) 0 002 & 00000200 a 0000 & 00000200 a 0101 | like a ball
00000200 00 s 0a a 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 i 0 j(a) 0 000 | ten words
""",
    "adv": "",
}
NEW = {
    "noun": """\
00001100 03 n 01 thing 0 002 ~ 00001200 n 0000 + 00001100 v 0101 | what there is
00001200 03 n 02 orb 1 red_ball 0 002 @ 00001100 n 0000 #p 00001300 n 0000 | round; "the \\ ball"
00001300 03 n 01 box 0 000 | a first box, said otherwise
00001400 03 n 01 box 1 001 @ 00001100 n 0000 | a second box
00001600 03 n 01 part 0 001 @ 00001100 n 0000 | one half
00001700 03 n 01 piece 0 001 @ 00001100 n 0000 | the other half
""",
    "verb": OLD["verb"],
    "adj": OLD["adj"],
    "adv": "",
}
SENSES = {
    "be%2:29:00::": (100, 100),
    "box%1:03:00::": (300, 1300),
    "box%1:03:01::": (400, 1400),
    "gone%1:03:00::": (500, None),
    "j%5:00:00:round:00": (200, 200),
    "orb%1:03:01::": (200, 1200),
    "part%1:03:00::": (600, 1600),
    "piece%1:03:00::": (600, 1700),
    "red_ball%1:03:00::": (200, 1200),
    "round%3:00:00::": (100, 100),
    "thing%1:03:00::": (100, 1100),
}  # the offsets in OLD and in NEW


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    for release, (name, data) in enumerate((("old", OLD), ("new", NEW))):
        folder = tmp_path / name
        folder.mkdir()
        for part, text in data.items():
            (folder / f"data.{part}").write_text(LICENCE + text, "utf-8")
        senses = ((key, offsets[release]) for key, offsets in SENSES.items())
        text = "".join(f"{key} {offset:08} 1 0\n" for key, offset in senses if offset is not None)
        (folder / "index.sense").write_text(text, "utf-8")
    return [tmp_path / "old", tmp_path / "new"]


def read(file: Path) -> set[tuple[str, str, str]]:
    """The statements by an independent reader, with short names; of literals, text and language."""

    def short(term: object) -> str:
        if isinstance(term, ox.Literal):
            return f"{term.value}@{term.language}"
        return str(term.value).removeprefix(BASE).rpartition("#")[2]  # type: ignore[attr-defined]

    triples = ox.parse(file.read_bytes(), ox.RdfFormat.N_TRIPLES)
    return {(short(x.subject), short(x.predicate), short(x.object)) for x in triples}


def test_a_release_is_written_as_labels_definitions_and_relations(
    folders: list[Path], tmp_path: Path
) -> None:
    example["main"](folders, tmp_path / "out", ["noun", "verb", "adj", "adv"])
    found = read(tmp_path / "out" / "3.0.nt")
    assert {x for x in found if x[0] == "3.0/n00000200"} == {
        ("3.0/n00000200", "label", "red ball@en"),
        ("3.0/n00000200", "altLabel", "orb@en"),
        ("3.0/n00000200", "definition", 'round; "the \\ ball"@en'),
        ("3.0/n00000200", "schema/hypernym", "3.0/n00000100"),
        ("3.0/n00000200", "schema/partHolonym", "3.0/n00000300"),
    }
    relations = {x for x in found if x[1].startswith("schema/")}
    assert {x for x in relations if x[0] != "3.0/n00000200"} == {
        ("3.0/n00000100", "schema/derivation", "3.0/v00000100"),
        ("3.0/n00000400", "schema/hypernym", "3.0/n00000100"),
        ("3.0/n00000600", "schema/hypernym", "3.0/n00000100"),
        ("3.0/v00000100", "schema/derivation", "3.0/n00000100"),
        ("3.0/a00000100", "schema/similar", "3.0/a00000200"),
    }
    labels = {x[2] for x in found if x[0] == "3.0/a00000200" and "abel" in x[1]}
    assert labels == {f"{letter}@en" for letter in "abcdefghij"}
    assert ("3.0/a00000100", "label", "round@en") in found
    assert not [x for x in found if "gone@en" in x], "it has no relation"


def test_links_are_the_unambiguous_ones_and_equal_labels_are_counted(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example["main"](folders, tmp_path / "out", ["noun"])
    links = (tmp_path / "out" / "links.tsv").read_text("utf-8").splitlines()
    numbers = (100, 200, 300, 400)
    assert links == [f"{BASE}3.0/n{n:08}\t{BASE}3.1/n{1000 + n:08}" for n in numbers]
    assert not any("v000" in term for x in read(tmp_path / "out" / "3.0.nt") for term in x)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "3.0: 5 synsets, 4 relations, 6 labels; left out, without a relation: 1"
    assert said[2] == "links: 4; 1 more synsets of 3.0 share senses, ambiguously"
    # First labels: thing is right, each box one half, the ball is called otherwise.
    assert said[4].startswith("  the first label: Hits@1 0.5000, precision 0.6667 on 3 with an")
    assert said[5].startswith("  all labels: Hits@1 0.7500, precision 0.7500 on 4 with an equal")
    assert said[5].endswith("(2 with exactly one)")
    assert said[6].startswith(
        "  all labels and the definition: Hits@1 0.7500, precision 1.0000 on 3"
    )


@given(st.lists(st.text(), min_size=1, unique=True), st.text())
def test_any_text_survives(words: list[str], gloss: str) -> None:
    synset = example["Synset"](tuple(words), (), gloss)
    lines = list(example["statements"]("3.0", {("n", "00000001"): synset}))
    found = list(ox.parse("".join(lines).encode(), ox.RdfFormat.N_TRIPLES))
    assert [x.object.value for x in found] == [*words, gloss]
    assert all("\n" not in line[:-1] for line in lines)


def test_a_folder_without_the_files_is_one_line(tmp_path: Path) -> None:
    command = [
        sys.executable,
        str(EXAMPLE),
        str(tmp_path),
        str(tmp_path),
        "-o",
        str(tmp_path / "o"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"{tmp_path / 'data.noun'} is missing: give the folder that holds WordNet's database files"
    ]
