"""Names that are empty, huge, backwards, or commands: every output holds them and stays whole."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pyoxigraph
import pytest

from decentrl.aligner import Aligner
from decentrl.data.called import LONGEST_NAME

Command = Callable[..., Any]
N = 24
BASES = {"left": "http://left.org/", "right": "http://right.org/"}
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
HTML = "<script>alert(1)</script><img src=x onerror=alert(1)>&amp;\"']]>-->"


class Kind(NamedTuple):
    """A name as it is given, what is left of it, and its language tag."""

    given: str
    kept: str
    tag: str = "en"


KINDS = {
    "empty": Kind(" ", ""),
    "invisible": Kind("\u200e\ufeff\u200d", ""),
    "1 MB long": Kind("x1 yé" * 200_000, "x1 yé" * 200),
    "right-to-left": Kind("مدينة \u202eabc\u202c \u2067שלום\u2069", "مدينة abc שלום"),
    "emoji": Kind("👩‍👩‍👧 🏳️‍🌈", "👩‍👩‍👧 🏳️‍🌈"),
    "NUL": Kind("a\0b \x1b[31mred\x1b]52;c;ZQ==\x07 \x9b2J", "a b [31mred ]52;c;ZQ== 2J"),
    "newline": Kind("one\ntwo\r\nthree\u2028four\tfive\x85six", "one two three four five six"),
    "wrong language tag": Kind("Tagged", "Tagged", "no tag!\x1b[31m"),
    "HTML": Kind(HTML, HTML),
    "formula": Kind("=1+1 [bold]x[/bold]", "=1+1 [bold]x[/bold]"),
    # All entities after these have this name; its lines come 10,000 times.
    "the same": Kind("twin", "twin"),
}
PLACES = {kind: place for place, kind in enumerate(KINDS)}


def kind_of(place: int) -> Kind:
    return [*KINDS.values()][min(place, len(KINDS) - 1)]


class Given(NamedTuple):
    """The files of both graphs, the options that give their names, and what entities are called."""

    files: list[Path]
    options: list[str | Path]
    labels: dict[str, list[str]]


def given(source: str, folder: Path) -> Given:
    """Two rings with bad names from a table, from an RDF file, or in identifiers."""
    files, options, labels = [], list[str | Path](), {}
    for side, base in BASES.items():
        ends = [quote(kind_of(i).given, safe="") if source == "ids" else "" for i in range(N)]
        labels[side] = [f"{base}{i}/{end}".rstrip("/") for i, end in enumerate(ends)]
        ring = [(labels[side][i], f"{base}r", labels[side][(i + 1) % N]) for i in range(N)]
        rows = [(labels[side][i], kind_of(i).given, kind_of(i).tag) for i in range(N)]
        rows += rows[-1:] * 10_000
        if source == "nt":
            lines = ["<{}> <{}> <{}> .\n".format(*row) for row in ring]
            lines += [f"<{label}> <{LABEL}> {literal(text)} .\n" for label, text, _ in rows]
        else:
            lines = ["\t".join(row) + "\n" for row in ring]
        files.append(folder / f"{side}.{'nt' if source == 'nt' else 'tsv'}")
        files[-1].write_text("".join(lines), "utf-8")
        if source == "csv":
            options += [f"--{side}-names", folder / f"{side}-names.csv"]
            with Path(options[-1]).open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows(rows)
    return Given(
        files, options if source == "csv" else ["--names", "ids"][: 2 * (source == "ids")], labels
    )


def literal(text: str) -> str:
    return str(pyoxigraph.Literal(text, language="zz-nonsense"))


class Answers(NamedTuple):
    """What all outputs of a run say of its left entities, in the order of the kinds."""

    run: Path
    labels: dict[str, list[str]]
    names: dict[str, list[str | None]]
    shown: dict[str, str]


@pytest.fixture(scope="module", params=["csv", "nt", "ids"])
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """A run of each source of names, and its outputs."""
    from typer.testing import CliRunner

    from decentrl.cli.commands import app

    folder = tmp_path_factory.mktemp(request.param)
    files, options, labels = given(request.param, folder)
    pairs = list(zip(labels["left"], labels["right"], strict=True))
    cut = len(KINDS)
    for name, some in (("links", pairs[cut:]), ("test", pairs[:cut])):
        (folder / name).with_suffix(".tsv").write_text("".join(f"{a}\t{b}\n" for a, b in some))
    run, shown = folder / "run", {}

    def say(what: str, *asked: object) -> str:
        done = CliRunner().invoke(app, [*map(str, asked)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        shown[what] = re.sub(r"\x1b\[([0-9;]*m|\?25[hl]|2K|1A)|\r", "", done.output)
        return done.stdout

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "600")
        links = ("--links", folder / "links.tsv", "--test-links", folder / "test.tsv")
        few = ("--preset", "tiny", "--set", "training.epochs=1", "--set", "names.weight=0.5")
        say("align", "align", *files, *options, *links, *few, "-o", run)
        some = labels["left"][:cut]
        names = {
            "json": [x["left_name"] for x in json.loads(say("json", "match", run, *some, "--json"))]
        }
        for ending in ("tsv", "parquet", "sssom.tsv", "rdf", "nt"):
            say(ending, "match", run, *some, "-o", folder / f"m.{ending}")
        names["parquet"] = pq.read_table(folder / "m.parquet")["left_name"].to_pylist()
        lines = (folder / "m.tsv").read_text("utf-8").split("\n")
        names["tsv"] = [x.split("\t")[5] for x in lines[1:-1]]
        whole = (folder / "m.sssom.tsv").read_text("utf-8").split("\n")
        body = io.StringIO("\n".join(x for x in whole if not x.startswith("#")))
        rows = csv.DictReader(body, delimiter="\t", strict=True)
        names["sssom"] = [x["subject_label"].removeprefix(" ") for x in rows]
        assert len(ElementTree.parse(folder / "m.rdf").findall(".//{*}Cell")) == cut
        assert len(list(pyoxigraph.parse(path=str(folder / "m.nt")))) == cut
        patch.setattr("typer.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
        say("table", "match", run, *some)
        for i, pair in enumerate(pairs[:cut]):
            say(f"explain {i}", "explain", run, *pair)
        say("neighbours", "neighbours", run, some[0], "--among", "right", "--top", N)
        say("info", "info", run)
        say("export", "export", run, "--side", "left", "-o", folder / "vectors.txt")
        more, said = folder / "more.tsv", folder / "more.csv"
        more.write_text(f"{BASES['left']}new\t{BASES['left']}r\t{some[0]}\n")
        with said.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows((f"{BASES['left']}new", *KINDS[x][::2]) for x in KINDS)
        say("add", "add", run, more, "--side", "left", "--names", said)
        say("added", "explain", run, f"{BASES['left']}new", labels["right"][0])
    return Answers(run, labels, names, shown)


@pytest.mark.parametrize("kind", KINDS)
def test_every_output_has_the_name(answers: Answers, kind: str) -> None:
    kept, place = KINDS[kind].kept, PLACES[kind]
    for output, names in answers.names.items():
        assert len(names) == len(KINDS)
        assert (names[place] or "") == kept, output
    label = answers.labels["left"][place]
    name = kept if len(kept) <= LONGEST_NAME else kept[: LONGEST_NAME - 1] + "…"
    table = [line for line in answers.shown["table"].splitlines() if line]
    if len(label) < 200:
        (row,) = (line for line in table if re.search(rf"{re.escape(label)}(>|\s)", line))
        assert row.strip().startswith(f"{name} <{label}>" if kept else label)
    said = answers.shown[f"explain {place}"]
    assert f"{name} <{label}>" in said if kept else label in said
    assert ("Names say nothing" in said) == (not kept)
    with Aligner.load(answers.run, device="cpu") as model:
        graph = model.growing.sides["left"]
        languages = {x for _, x in graph.names.of(graph.entities.id(label))}
    assert languages <= {"", "en", "zz-nonsense"}
    assert kind != "wrong language tag" or "en" not in languages


def test_nothing_printed_is_a_command(answers: Answers) -> None:
    for what, text in answers.shown.items():
        assert not commands(text), what
    assert "names: 9," in answers.shown["add"]


def commands(text: str) -> list[str]:
    """What a terminal obeys, or what turns text around."""
    return re.findall(r"[^\t\n -~\xa0-\u2027\u202f-\u2065\u206a-\U0010ffff]", text)


class _Page(HTMLParser):
    """The elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.attributes = set[str](), set[str]()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)


def test_pages_are_whole(answers: Answers) -> None:
    text = (answers.run / "report.html").read_text("utf-8")
    page = _Page(text)
    assert "bdi" in page.tags
    assert not page.tags & {"img", "script"}
    assert not any(x.startswith("on") for x in page.attributes)
    card = (answers.run / "bundle" / "README.md").read_text("utf-8")
    assert not commands(text + card)
    assert "script" not in card


@pytest.mark.parametrize("tag", ["no_tag", "muchtoolongtag", "", "\x1b[31m", "en-\u202e"])
def test_a_wrong_language_tag_in_rdf_is_one_line(
    decentrl: Command, tmp_path: Path, tag: str
) -> None:
    file = tmp_path / "bad.nt"
    file.write_text(f'<x:a> <x:r> <x:b> .\n<x:a> <{LABEL}> "x"@{tag} .\n', "utf-8")
    done = decentrl("align", file, file, "--preset", "tiny", "-o", tmp_path / "run")
    assert done.code == 2
    assert re.match(
        r"error: .*bad\.nt:2: this is not N-Triples \(.*\); correct the line\n$", done.err
    )
    assert not commands(done.err)
