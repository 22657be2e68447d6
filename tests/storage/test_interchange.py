"""Matches as SSSOM/TSV and in the Alignment format, read by readers that are not ours."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyoxigraph
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from decentrl import ConfigError, InputError, ResultTable, write_alignment, write_sssom
from decentrl._version import __version__
from decentrl.data.iris import iri_of, label_of, uri_of
from decentrl.data.readers import read_table
from decentrl.data.table import LINK

ALIGN = "http://knowledgeweb.semanticweb.org/heterogeneity/alignment#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
BUILT_IN = {"skos", "semapv", "sssom"}

Row = tuple[str | None, str | None, str | None, str | None, float | None]


def table(rows: list[Row]) -> ResultTable:
    columns = list(zip(*rows, strict=True)) or [()] * 5
    types = [pa.string()] * 4 + [pa.float32()]
    names = ["left", "right", "left_name", "right_name", "confidence"]
    return ResultTable(pa.table([pa.array(*x) for x in zip(columns, types, strict=True)], names))


def sssom(file: Path) -> tuple[dict[str, Any], list[dict[str, str]]]:
    """The metadata by a YAML reader, the rows by a CSV reader that minds the quotes of RFC 4180."""
    with file.open(encoding="utf-8", newline="") as stream:
        lines = stream.read().split("\n")
    top = [line for line in lines if line.startswith("#")]
    assert lines[: len(top)] == top
    body = csv.DictReader(io.StringIO("\n".join(lines[len(top) :])), delimiter="\t", strict=True)
    return yaml.safe_load("\n".join(line[1:] for line in top)), list(body)


EXAMPLE: list[Row] = [
    ("http://zh.x.org/北京", "http://x.org/r/Beijing", '北京 "Peking"', "Beijing", 0.75),
    ("http://x.org/r/AC/DC", "http://x.org/r/Category:Foo", "=1+1", None, 1.0),
    ("urn:isbn:0-486", "Q 42", None, "a\tb\nc", None),
    ("Nice & Place", None, "NA", None, 0.25),
    (None, "'Nobody' | <x>", None, None, 0.5),
]


def test_sssom_holds_matches_and_who_has_none(tmp_path: Path) -> None:
    file = tmp_path / "m.sssom.tsv"
    write_sssom(table(EXAMPLE), file)
    metadata, rows = sssom(file)
    assert set(metadata.pop("curie_map")) == BUILT_IN | {
        *("decentrl", "left", "right", "ns1", "ns2", "ns3", "ns4", "ns5")
    }
    assert metadata == {
        "mapping_set_id": "urn:uuid:c0bd745f-c33b-5db7-9180-dd51cf82a98d",
        "license": "https://w3id.org/sssom/license/unspecified",
        "subject_source": "decentrl:left",
        "object_source": "decentrl:right",
        "mapping_tool_version": __version__,
    }
    assert {(x["predicate_id"], x["mapping_tool"]) for x in rows} == {
        ("skos:exactMatch", "decentRL")
    }
    assert {x["mapping_justification"] for x in rows} == {"semapv:StructuralMatching"}
    shown = ("subject_id", "subject_label", "object_id", "object_label", "confidence")
    assert [tuple(row[name] for name in shown) for row in rows] == [
        ("ns4:%E5%8C%97%E4%BA%AC", '北京 "Peking"', "ns1:Beijing", "Beijing", "0.750000"),
        ("ns2:DC", " =1+1", "ns3:Foo", "", "1.000000"),
        ("ns5:0-486", "", "right:Q%2042", "a b c", ""),
        ("left:Nice%20%26%20Place", "NA", "sssom:NoTermFound", "", ""),
        ("sssom:NoTermFound", "", "right:%27Nobody%27%20%7C%20%3Cx%3E", "'Nobody' | <x>", ""),
    ]


def test_the_same_matches_give_the_same_bytes_and_others_another_id(tmp_path: Path) -> None:
    files = [tmp_path / f"{i}.sssom.tsv" for i in range(3)]
    for file, rows in zip(files, (EXAMPLE, EXAMPLE, EXAMPLE[1:]), strict=True):
        write_sssom(table(rows), file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert sssom(files[0])[0]["mapping_set_id"] != sssom(files[2])[0]["mapping_set_id"]


def test_columns_that_would_be_empty_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "m.sssom.tsv"
    found = pa.table({"left": ["http://x/a"], "right": ["http://x/b"]})
    write_sssom(found, file, justification="semapv:CompositeMatching")
    (row,) = sssom(file)[1]
    assert row == {
        "subject_id": "ns1:a",
        "predicate_id": "skos:exactMatch",
        "object_id": "ns1:b",
        "mapping_justification": "semapv:CompositeMatching",
        "mapping_tool": "decentRL",
    }


LABELS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    st.text("ab/#:?é%41=+ \t\n\r\0\"'<>&|\x85\u2028\U0001f600", min_size=1),
    st.text("ab/:#é", min_size=1).map("http://".__add__),
)
NAMES = st.none() | LABELS
ROWS = st.tuples(LABELS, LABELS | st.none(), NAMES, NAMES, st.none() | st.floats(0, 1, width=32))


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(ROWS, max_size=30))
def test_hostile_labels_come_back_from_sssom(tmp_path: Path, rows: list[Row]) -> None:
    file = tmp_path / "m.sssom.tsv"
    write_sssom(table(rows), file)
    metadata, found = sssom(file)
    assert file.read_bytes().count(b"\n") == file.read_text("utf-8").count("\n")
    assert len(found) == len(rows)
    for row, (left, right, *_, sure) in zip(found, rows, strict=True):
        ends = [row["subject_id"].split(":", 1), row["object_id"].split(":", 1)]
        iris = [metadata["curie_map"][prefix] + local for prefix, local in ends]
        no_term = "https://w3id.org/sssom/NoTermFound"
        assert iris[0] == uri_of(iri_of(left or "", "left"))
        assert iris[1] == (uri_of(iri_of(right, "right")) if right else no_term)
        known = sure is not None and right is not None
        assert row.get("confidence", "") == (f"{sure:.6f}" if known else "")
        labels = row.get("subject_label", "") + row.get("object_label", "")
        assert not any(c < " " or "\x7f" <= c <= "\x9f" for c in labels)
        assert not labels.startswith(("=", "+", "-", "@"))
    pairs = {(left, right) for left, right, *_ in rows if right is not None}
    if pairs:
        back = zip(*(x.to_pylist() for x in read_table(file, LINK).columns), strict=True)
        want = {tuple(label_of(uri_of(iri_of(x, ""))) if x else x for x in p) for p in pairs}
        assert len(set(back)) == len(want)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(ROWS, max_size=30))
def test_hostile_labels_come_back_from_the_alignment_format(
    tmp_path: Path, rows: list[Row]
) -> None:
    file = tmp_path / "m.rdf"
    write_alignment(table(rows), file)
    pairs = [(left, right, sure) for left, right, _, _, sure in rows if right is not None]
    cells = ElementTree.parse(file).getroot().findall(f".//{{{ALIGN}}}map/{{{ALIGN}}}Cell")
    found = []
    for cell in cells:
        assert cell.findtext(f"{{{ALIGN}}}relation") == "="
        ends = [
            label_of(cell.find(f"{{{ALIGN}}}entity{i}").attrib[f"{{{RDF}}}resource"])  # type: ignore[union-attr]
            for i in (1, 2)
        ]
        measure = cell.findtext(f"{{{ALIGN}}}measure")
        found.append((*ends, None if measure is None else float(measure)))
    assert [x[:2] for x in found] == [x[:2] for x in pairs]
    assert [x[2] for x in found] == [None if x[2] is None else round(x[2], 6) for x in pairs]
    graph = list(pyoxigraph.parse(path=str(file), format=pyoxigraph.RdfFormat.RDF_XML))
    entities = [x for x in graph if x.predicate.value.startswith(f"{ALIGN}entity")]
    assert len(entities) == 2 * len(pairs)
    assert {label_of(x.object.value) for x in entities} == {x for p in pairs for x in p[:2]}


def test_the_alignment_says_whether_an_entity_is_in_two_cells(tmp_path: Path) -> None:
    for rows, kind in ((EXAMPLE, "??"), ([("a", "b", None, None, None)] * 2, "**"), ([], "??")):
        write_alignment(table(rows), tmp_path / "m.rdf")  # type: ignore[arg-type]
        root = ElementTree.parse(tmp_path / "m.rdf").getroot()
        said = {name: root.findtext(f".//{{{ALIGN}}}{name}") for name in ("xml", "level", "type")}
        assert said == {"xml": "yes", "level": "0", "type": kind}


@pytest.mark.parametrize("write", [write_sssom, write_alignment])
def test_what_is_no_table_of_best_matches_is_refused(tmp_path: Path, write: Any) -> None:
    file = tmp_path / "m"
    file.write_text("old")
    pair = {"left": ["a", "a"], "right": ["b", "c"]}
    for columns, error, message in (
        (pair | {"rank": [1, 2]}, ConfigError, "best alone; match with top=1"),
        (pair | {"confidence": [0.5, 1.5]}, InputError, "a confidence is not between 0 and 1"),
        (pair | {"confidence": [float("nan"), 0.5]}, InputError, "a confidence is not between"),
        ({"left": ["a"]}, InputError, "there is no column 'right'"),
    ):
        with pytest.raises(error, match=message):
            write(pa.table(columns), file)
    assert (file.read_text(), list(tmp_path.iterdir())) == ("old", [file])


CHECK = """
import json, logging, sys, warnings
warnings.simplefilter("ignore")
from sssom.parsers import parse_alignment_xml, parse_sssom_table, to_mapping_set_document
from sssom.validators import validate

said = []

class Kept(logging.Handler):
    def emit(self, record):
        said.append(record.getMessage())

logging.getLogger().addHandler(Kept())
parsed = parse_sssom_table(sys.argv[1])
mappings = to_mapping_set_document(parsed).mapping_set.mappings
reports = validate(parsed, fail_on_error=False).values()
errors = [str(x) for report in reports for x in report.results]
iri = parsed.converter.expand
rows = [
    [iri(str(x.subject_id)), str(x.predicate_id), iri(str(x.object_id)), x.confidence]
    for x in mappings
]
cells = parse_alignment_xml(sys.argv[2], prefix_map=parsed.converter).df
print(json.dumps([rows, errors, said, sorted(zip(cells.subject_id, cells.object_id))]))
"""


SSSOM = Path(__file__).parents[2] / ".venv-sssom/bin/python"


# Not installed beside the tests: it brings 90 packages that nothing else needs.
@pytest.mark.skipif(not SSSOM.exists(), reason="sssom is not installed: make sssom")
def test_the_reference_implementation_finds_nothing_wrong(tmp_path: Path) -> None:
    files = tmp_path / "m.sssom.tsv", tmp_path / "m.rdf"
    rows = [
        *EXAMPLE,
        *((f'x{i}\0\n"=', f"http://é.org/{c}", c, c, (1 + i) / 64) for i, c in enumerate("äb")),
    ]
    write_sssom(table(rows), files[0])
    write_alignment(
        table([x for x in rows if x[0] and x[0].isascii() and x[1] and x[1].isascii()]), files[1]
    )
    done = subprocess.run([SSSOM, "-c", CHECK, *files], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    mappings, errors, said, cells = json.loads(done.stdout)
    assert (errors, said) == ([], [])

    def uri(label: str | None, side: str) -> str:
        return uri_of(iri_of(label, side)) if label else "https://w3id.org/sssom/NoTermFound"

    assert sorted(mappings, key=str) == sorted(
        (
            [
                uri(left, "left"),
                "skos:exactMatch",
                uri(right, "right"),
                sure if left and right else None,
            ]
            for left, right, _, _, sure in rows
        ),
        key=str,
    )
    assert len(cells) == 2


@pytest.mark.skipif(find_spec("rdflib") is None, reason="the package rdflib is not installed")
def test_rdflib_reads_the_alignment_as_pyoxigraph_does(tmp_path: Path) -> None:
    file = tmp_path / "m.rdf"
    write_alignment(table(EXAMPLE), file)
    code = "import sys, rdflib; print(len(rdflib.Graph().parse(sys.argv[1], format='xml')))"
    done = subprocess.run(
        [sys.executable, "-c", code, file], capture_output=True, text=True, check=True
    )
    graph = pyoxigraph.parse(path=str(file), format=pyoxigraph.RdfFormat.RDF_XML)
    assert int(done.stdout) == len(list(graph))
