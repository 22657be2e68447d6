"""Links from SSSOM/TSV files of others."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.readers import read_table
from decentrl.data.sssom import read_sssom
from decentrl.data.table import LINK
from decentrl.errors import DecentRLWarning, InputError

EXAMPLE = """\
# curie_map:
#   HP: http://purl.obolibrary.org/obo/HP_
#   "MP": 'http://purl.obolibrary.org/obo/MP_'  # mouse
# mapping_set_id: https://w3id.org/sssom/commons/examples/x.sssom.tsv
subject_id\tsubject_label\tpredicate_id\tpredicate_modifier\tobject_id\tmapping_justification
HP:1\t"say ""a""
b"\tskos:exactMatch\t\tMP:1\tsemapv:ManualMappingCuration
HP:2\tx\towl:sameAs\t\tMP:2\tsemapv:ManualMappingCuration
HP:2\tx\tskos:exactMatch\t\tMP:2\tsemapv:LexicalMatching
HP:3\tx\tskos:broadMatch\t\tMP:3\tsemapv:ManualMappingCuration
HP:4\tx\tskos:exactMatch\tNot\tMP:4\tsemapv:ManualMappingCuration
HP:5\tx\tskos:exactMatch\t\tsssom:NoTermFound\tsemapv:ManualMappingCuration
http://x.org/6\tx\tskos:exactMatch\t\turn:decentrl:right:say%20%22x%22%09\tsemapv:Matching
"""
PAIRS = [
    ["http://purl.obolibrary.org/obo/HP_1", "http://purl.obolibrary.org/obo/MP_1"],
    ["http://purl.obolibrary.org/obo/HP_2", "http://purl.obolibrary.org/obo/MP_2"],
    ["http://x.org/6", 'say "x"\t'],
]


@pytest.mark.parametrize("name", ["x.sssom.tsv", "X.SSSOM.TSV", "x.sssom.tsv.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_exact_matches_are_links(tmp_path: Path, name: str, end: str) -> None:
    data = EXAMPLE.replace("\n", end).encode()
    file = tmp_path / name
    file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    with pytest.warns(DecentRLWarning, match=r": 2 mappings that are neither skos:exactMatch nor"):
        table = read_table(file, LINK)
    assert [list(x) for x in zip(*(c.to_pylist() for c in table.columns), strict=True)] == PAIRS
    assert [table.line_of(row) for row in range(3)] == [6, 8, 13]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("HP: http", "XX: http", r"x\.sssom\.tsv:6: the prefix of 'HP:1' is not in the curie_map"),
        ("object_id", "objekt", r"x\.sssom\.tsv:5: the columns subject_id, predicate_id"),
        ("HP:3\tx\t", "HP:3\t", r"x\.sssom\.tsv:10: 5 column\(s\), but the header has 6"),
        ("HP:3\t", "\t", r"x\.sssom\.tsv:10: an identifier is empty"),
        ('b"\t', 'b"x\t', r"x\.sssom\.tsv:\d: malformed TSV"),
        ("exactMatch", "closeMatch", r"no skos:exactMatch or owl:sameAs"),
        ("say", "\udcff", r"x\.sssom\.tsv:6: invalid UTF-8"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::decentrl.DecentRLWarning")
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "x.sssom.tsv"
    text = EXAMPLE.replace("owl:sameAs", "skos:exactMatch").replace(old, new)
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=message):
        read_table(file, LINK)


def test_it_is_no_graph(tmp_path: Path) -> None:
    file = tmp_path / "x.sssom.tsv"
    file.write_text(EXAMPLE)
    with pytest.raises(InputError, match="an SSSOM file holds links only"):
        read_table(file)


def test_uris_find_entities_that_are_iris_and_the_other_way_round(tmp_path: Path) -> None:
    file = tmp_path / "x.sssom.tsv"
    file.write_text(
        "#curie_map:\n#  z: http://z.org/\nsubject_id\tpredicate_id\tobject_id\n"
        "z:%E5%8C%97\tskos:exactMatch\tz:%C3%A9\nz:a\tskos:exactMatch\tz:b\n"
    )
    left = [("http://z.org/北", "r", "http://z.org/a")]
    right = [("http://z.org/%C3%A9", "r", "http://z.org/b")]
    task = AlignmentTask.read(left, right, file)
    assert {(task.left.entities[i], task.right.entities[j]) for i, j in task.train.tolist()} == {
        ("http://z.org/北", "http://z.org/%C3%A9"),
        ("http://z.org/a", "http://z.org/b"),
    }


@settings(max_examples=300, deadline=None)
@given(st.data())
@pytest.mark.filterwarnings("ignore::decentrl.DecentRLWarning")
def test_mutated_files_are_read_or_refused(data: st.DataObject) -> None:
    text = EXAMPLE.encode()
    for _ in range(data.draw(st.integers(1, 5))):
        i, j = (data.draw(st.integers(0, len(text))) for _ in range(2))
        odd = st.sampled_from([b"", b"\0", b"\r", b"\n", b"\t", b'"', b"#", b":", b"\xff", b"'"])
        text = text[:i] + data.draw(odd) + text[j if abs(j - i) < 20 else i :]
    try:
        table = read_sssom(text, Path("x.sssom.tsv"), LINK)
    except InputError:
        return
    assert len(table)
    assert all(label for column in table.columns for label in column.to_pylist())
