"""The same graphs in any format give the same ids, the same vectors, the same answers."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

Command = Callable[..., Any]
Rows = Sequence[tuple[str, ...]]
QUICK = (
    "--preset",
    "tiny",
    "--set",
    "model.dim=8",
    "--set",
    "training.epochs=2",
    "--device",
    "cpu",
)
SAME_AS = "http://www.w3.org/2002/07/owl#sameAs"
HEADERS = {2: ["left", "right"], 3: ["head", "relation", "tail"]}


def tsv(rows: Rows) -> bytes:
    return "".join("\t".join(row) + "\n" for row in rows).encode()


def csv_with_header(rows: Rows) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerows([HEADERS[len(rows[0])], *rows])
    return text.getvalue().encode()


def parquet(rows: Rows) -> bytes:
    columns = dict(zip(HEADERS[len(rows[0])], map(list, zip(*rows, strict=True)), strict=True))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


def statements(rows: Rows) -> list[tuple[str, ...]]:
    return [row if len(row) == 3 else (row[0], SAME_AS, row[1]) for row in rows]


def nt(rows: Rows) -> bytes:
    return "".join(f"<{s}> <{p}> <{o}> .\n" for s, p, o in statements(rows)).encode()


def ttl(rows: Rows) -> bytes:
    lines = ["@prefix l: <http://left.org/> .", "@prefix owl: <http://www.w3.org/2002/07/owl#> ."]
    for s, p, o in statements(rows):
        short = [f"l:{x[16:]}" if x.startswith("http://left.org/") else f"<{x}>" for x in (s, p, o)]
        lines.append(" ".join("owl:sameAs" if x == f"<{SAME_AS}>" else x for x in short) + " .")
    return "\n".join(lines).encode()


WRITERS = {"tsv": tsv, "csv": csv_with_header, "parquet": parquet, "nt": nt, "ttl": ttl}
KINDS = [*WRITERS, *(f"{kind}.gz" for kind in WRITERS if kind != "parquet")]


def write(twins: dict[str, Rows], folder: Path, kind: str) -> list[object]:
    """Arguments of `align` for the twins as files of one kind."""
    folder.mkdir(exist_ok=True)
    name = kind.removesuffix(".gz")
    for part, rows in twins.items():
        # The order of the lines must not matter either.
        content = WRITERS[name](rows if kind == "tsv" or part in ("links", "test") else rows[::-1])
        packed = gzip.compress(content) if kind.endswith(".gz") else content
        (folder / f"{part}.{kind}").write_bytes(packed)
    left, right, links, test = (folder / f"{part}.{kind}" for part in twins)
    return [left, right, "--links", links, "--test-links", test]


@pytest.fixture(scope="module")
def expected(
    twins: dict[str, Rows], tmp_path_factory: pytest.TempPathFactory
) -> tuple[list[dict[str, Any]], pa.Table]:
    from typer.testing import CliRunner

    from decentrl.cli.commands import app

    folder = tmp_path_factory.mktemp("tsv")
    asked = ["align", *write(twins, folder, "tsv"), *QUICK, "--json", "-o", folder / "run"]
    done = CliRunner().invoke(app, [str(part) for part in asked], catch_exceptions=False)
    return json.loads(done.stdout)["results"], pq.read_table(folder / "run" / "matches.parquet")


@pytest.mark.parametrize("kind", KINDS)
def test_every_format_gives_the_same_answers(
    decentrl: Command,
    twins: dict[str, Rows],
    expected: tuple[list[dict[str, Any]], pa.Table],
    tmp_path: Path,
    kind: str,
) -> None:
    files = write(twins, tmp_path / "files", kind)
    done = decentrl("align", *files, *QUICK, "--json", "-o", tmp_path / "run")
    assert done.code == 0, done.err
    assert json.loads(done.out)["results"] == expected[0]
    matches = pq.read_table(tmp_path / "run" / "matches.parquet")
    assert matches.equals(expected[1])
    assert all(label.startswith("http://left.org/") for label in matches["left"].to_pylist())


def test_formats_may_be_mixed_and_matches_feed_the_next_run(
    decentrl: Command,
    twins: dict[str, Rows],
    expected: tuple[list[dict[str, Any]], pa.Table],
    tmp_path: Path,
) -> None:
    for kind in ("ttl", "parquet", "csv.gz", "nt"):
        write(twins, tmp_path / "files", kind)
    files = [tmp_path / "files" / name for name in ("left.ttl", "right.parquet")]
    links = ["--links", tmp_path / "files/links.csv.gz", "--test-links", tmp_path / "files/test.nt"]
    done = decentrl("align", *files, *links, *QUICK, "--json", "-o", tmp_path / "run")
    assert json.loads(done.out)["results"] == expected[0]
    for name in ("more.nt", "more.tsv", "more.parquet", "more.sssom.tsv", "more.rdf"):
        assert decentrl("match", tmp_path / "run", "-o", tmp_path / name).code == 0
    for name in ("more.nt", "more.sssom.tsv"):
        links = ["--links", tmp_path / name]
        done = decentrl("align", *files, *links, *QUICK, "-o", tmp_path / f"next-{name}")
        assert done.code == 0, done.err


def test_the_format_can_be_named_where_the_extension_says_nothing(
    decentrl: Command,
    twins: dict[str, Rows],
    expected: tuple[list[dict[str, Any]], pa.Table],
    tmp_path: Path,
) -> None:
    for part in ("left", "right"):
        (tmp_path / f"{part}.dump").write_bytes(nt(twins[part]))
    for part in ("links", "test"):
        (tmp_path / f"{part}.tsv").write_bytes(tsv(twins[part]))
    done = decentrl(
        "align", tmp_path / "left.dump", tmp_path / "right.dump", "--format", "nt",
        "--links", tmp_path / "links.tsv", "--test-links", tmp_path / "test.tsv",
        *QUICK, "--json", "-o", tmp_path / "run",
    )  # fmt: skip
    assert json.loads(done.out)["results"] == expected[0]
