"""``decentrl add`` and what follows it: runs that grow, are asked, tidied up and trained again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from decentrl.aligner import Aligner
from decentrl.errors import BundleError
from decentrl.growth.drift import Drift
from decentrl.predictor import Predictor

Command = Callable[..., Any]
QUICK = ("--preset", "tiny", "--set", "training.epochs=4", "--set", "model.dim=8")
R0, R1 = "http://left.org/r0", "http://left.org/r1"
LEFT = "http://left.org/"
NEW = {
    "two_graphs": [("new", R0, f"{LEFT}3"), ("new", R1, f"{LEFT}5"), ("newer", R0, "new")],
    "one_graph": [
        ("new", "lives in", "city 0"),
        ("new", "knows", "person 1"),
        ("newer", "knows", "new"),
    ],
}
KINDS = list(NEW)


@pytest.fixture(scope="module")
def twin_run(twin_files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished alignment of the twins; nobody writes to it."""
    from typer.testing import CliRunner

    from decentrl.cli.commands import app

    folder = tmp_path_factory.mktemp("runs") / "twins"
    files = [twin_files["left"], twin_files["right"], "--links", twin_files["links"]]
    asked = ["align", *files, "--test-links", twin_files["test"], *QUICK, "--device", "cpu"]
    result = CliRunner().invoke(app, [*map(str, asked), "-o", str(folder)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder


class Case:
    """A run of one kind that may be written to, and a file of new triples."""

    def __init__(self, kind: str, run: Path, folder: Path) -> None:
        self.kind, self.run, self.folder = kind, run, folder
        self.aligned = kind == "two_graphs"
        self.side = ("--side", "left") if self.aligned else ()
        self.file = self.write("tuesday.tsv", NEW[kind])

    def write(self, name: str, rows: list[tuple[str, str, str]]) -> Path:
        file = self.folder / name
        file.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
        return file

    def load(self, **how: Any) -> Any:
        return (Aligner if self.aligned else Predictor).load(self.run, "cpu", **how)

    def triple(self, entity: str = "third", relation: str = "") -> tuple[str, str, str]:
        known, other = (R0, f"{LEFT}7") if self.aligned else ("knows", "person 2")
        return entity, relation or known, other


@pytest.fixture(params=KINDS)
def case(request: pytest.FixtureRequest, twin_run: Path, people_run: Path, tmp_path: Path) -> Case:
    source = twin_run if request.param == "two_graphs" else people_run
    return Case(request.param, Path(shutil.copytree(source, tmp_path / "run")), tmp_path)


@pytest.fixture
def aligned(twin_run: Path, tmp_path: Path) -> Case:
    return Case("two_graphs", Path(shutil.copytree(twin_run, tmp_path / "run")), tmp_path)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


def refused(done: Any, says: str) -> None:
    assert (done.code, done.out) == (2, ""), done
    assert done.err.startswith(f"error: {says}"), done.err
    assert done.err.count("\n") == 1


# Adding


def test_added_triples_are_there_for_the_next_command(decentrl: Command, case: Case) -> None:
    done = decentrl("add", case.run, case.file, *case.side)
    assert (done.code, done.err) == (0, "")
    place = ", left graph" if case.aligned else ""
    assert done.out == (
        f"tuesday.tsv: addition 1{place}\n"
        "  triples accepted: 3, new entities: 2\n"
        "  without a trained neighbour: 1; their vectors are made of relations and other new "
        "entities only\n" + "  matches: 0 new, 0 changed, 0 lost; 0 in all\n" * case.aligned
    )
    if case.aligned:
        assert decentrl("match", case.run, "new").out.startswith("new\thttp://right.org/e/")
    else:
        asked = ("--head", "new", "--relation", "citizen of")
        assert decentrl("predict", case.run, *asked).out.startswith("new\tcitizen of\t")


def test_each_file_is_one_addition(decentrl: Command, case: Case) -> None:
    second = case.write("wednesday.tsv", [NEW[case.kind][0], case.triple("third"),
                                          ("third", case.triple()[1], "new"),
                                          case.triple("x", "is unlike")])  # fmt: skip
    done = decentrl("add", case.run, case.file, second, *case.side, "--json")
    assert done.code == 0
    assert "triples accepted: 3" in done.err  # people may follow it
    first, other = json.loads(done.out)
    assert (first["number"], first["source"], first["triples"]) == (1, "tuesday.tsv", 3)
    assert (other["triples"], other["entities"], other["known"]) == (2, 1, 1)
    assert (other["ignored"], other["ignored_relations"]) == (1, {"is unlike": 1})
    assert other["recomputed"] >= 1
    assert (first["side"], first["folded"]) == ("left" if case.aligned else "", False)
    assert [a.number for a in case.load().log()] == [1, 2]


def test_what_was_left_out_is_told(decentrl: Command, case: Case) -> None:
    rows = [("a", f"strange {i}", "b") for i in range(7)]
    file = case.write("odd.tsv", [*rows, NEW[case.kind][0]])
    decentrl("add", case.run, case.file, *case.side)
    done = decentrl("add", case.run, file, *case.side)
    assert "accepted: 0, new entities: 0\n  triples known already: 1\n" in done.out
    assert "as training has not seen their relations: 7, of 'strange 0' (1), " in done.out
    assert "and others (2)" in done.out


def test_literals_are_names_and_attributes(decentrl: Command, aligned: Case) -> None:
    pytest.importorskip("pyoxigraph")
    file = aligned.folder / "new.nt"
    label = "http://www.w3.org/2000/01/rdf-schema#label"
    lines = [f"<{LEFT}3> <{R0}> <{LEFT}new> .", f'<{LEFT}new> <{R0}> "a word" .']
    lines += [f'<{LEFT}{x}> <{label}> "The {x}"@en .' for x in ("new", "3", "elsewhere")]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    done = decentrl("add", aligned.run, file, "--side", "left")
    assert "  names: 2, attribute values: 1\n" in done.out
    assert "  literals of what is in no triple, left out: 1\n" in done.out


def test_who_has_no_vector_is_named(decentrl: Command, people_file: Path, tmp_path: Path) -> None:
    """A table of embeddings knows nothing of an entity that it has no row for."""
    run = tmp_path / "run"
    settings = ("model.encoder=none", "model.dim=8", "decoder.dim=8")
    chosen = [x for one in (*settings, "training.epochs=1") for x in ("--set", one)]
    made = decentrl("complete", people_file, "--preset", "quick", *chosen, "-o", run)
    assert made.code == 0, made.err
    case = Case("one_graph", run, tmp_path)
    done = decentrl("add", run, case.file)
    said = "as a table holds what training has seen: 2 ('new', 'newer'); it will be learned by"
    assert f"{said} `decentrl refit`" in done.out
    output = tmp_path / "v.parquet"
    done = decentrl("export", run, "-o", output)
    assert done.err == f"{output}: 47 vectors, 2 entities without one left out\n"
    done = decentrl("explain", run, "new")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: this model reads no neighbours: a vector is the entity's")
    assert done.err.count("\n") == 1


def test_a_refresh_comes_once_and_after_all_files(decentrl: Command, case: Case) -> None:
    second = case.write("wednesday.tsv", [case.triple()])
    done = decentrl("add", case.run, case.file, second, *case.side, "--refresh")
    assert done.out.endswith(
        "\nevery vector was made anew; these additions are in the bundle now\n"
    )
    assert [a.folded for a in case.load().log()] == [True, True]
    assert case.load().drift().drift < 1e-5


BAD = {
    "malformed": (b"a\tr\tb\na b c\n", "bad.tsv:2: 1 column(s), but 3 are needed"),
    "empty": (b"", "bad.tsv: the file is empty"),
    "no text": (b"\xff\xfe\x00", "bad.tsv"),
    "a label missing": (b"a\tr\t\n", "bad.tsv:1: "),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_file_costs_nothing(
    decentrl: Command, case: Case, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, says = BAD[what]
    monkeypatch.chdir(case.folder)
    Path("bad.tsv").write_bytes(content)
    before = tree(case.run)
    refused(decentrl("add", case.run, "bad.tsv", *case.side), says)
    done = decentrl("add", case.run, case.file, "bad.tsv", *case.side)
    refused(done, says)
    assert done.err.endswith(" (nothing was added)\n")
    assert tree(case.run) == before


def test_strict_refuses_unknown_relations_with_their_line(decentrl: Command, case: Case) -> None:
    known = case.triple()[1]
    file = case.write("odd.tsv", [case.triple(), case.triple("x", f"{known}x")])
    done = decentrl("add", case.run, case.file, file, *case.side, "--strict")
    says = f"{file}:2: '{known}x' is no relation that training has seen; did you mean '{known}'"
    refused(done, says)
    assert done.err.endswith("(nothing was added)\n")
    assert case.load().log() == []
    assert decentrl("add", case.run, case.file, *case.side, "--strict").code == 0


def test_an_error_between_files_says_how_many_were_added(
    decentrl: Command, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    from decentrl.storage.additions import Store

    write, written = Store.add, []

    def full(store: Store, *arguments: Any) -> Any:
        if written:
            raise BundleError("store.sqlite: cannot be used (disk full)")
        written.append(write(store, *arguments))
        return written[0]

    monkeypatch.setattr(Store, "add", full)
    done = decentrl("add", case.run, case.file, case.file, case.file, *case.side)
    assert done.code == 2
    assert done.err.endswith("cannot be used (disk full) (1 of 3 files were added before)\n")
    assert done.err.count("\n") == 1
    assert len(case.load().log()) == 1


def test_the_side_is_needed_where_there_are_two(
    decentrl: Command, twin_run: Path, people_run: Path, tmp_path: Path
) -> None:
    file = tmp_path / "x.tsv"
    file.write_text("a\tr\tb\n")
    refused(
        decentrl("add", twin_run, file), "give the graph that the triples belong to: --side left"
    )
    done = decentrl("add", twin_run, file, "--side", "middle")
    refused(done, "no side 'middle'; there are: left, right")
    one = "this run is about one graph; leave out --"
    refused(decentrl("add", people_run, file, "--side", "left"), f"{one}side")
    refused(decentrl("explain", people_run, "x", "--side", "left"), f"{one}side")
    refused(decentrl("neighbours", people_run, "x", "--among", "left"), f"{one}among")
    refused(decentrl("export", people_run, "-o", "x.npy", "--side", "left"), f"{one}side")
    for command in (("explain", "x"), ("neighbours", "x"), ("export", "-o", "x.npy")):
        refused(decentrl(command[0], twin_run, *command[1:], "--side", "up"), "no side 'up'")
    assert not (twin_run / "store").exists()


def test_one_process_adds_at_a_time_and_others_read(decentrl: Command, case: Case) -> None:
    code = (
        "import sys; from decentrl import Aligner, Predictor; "
        "model = getattr(sys.modules['decentrl'], sys.argv[1]).load(sys.argv[2], durable=True); "
        "print('ready', flush=True); sys.stdin.read()"
    )
    kind = "Aligner" if case.aligned else "Predictor"
    with subprocess.Popen(
        [sys.executable, "-c", code, kind, str(case.run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        done = decentrl("add", case.run, case.file, *case.side)
        says = f"{case.run / 'store'}: another process is adding to this run; wait until it has"
        refused(done, says)
        assert decentrl("log", case.run).out == "nothing was added to this run\n"
        other.communicate("")
    assert decentrl("add", case.run, case.file, *case.side).code == 0


@contextmanager
def forbidden(folder: Path) -> Iterator[None]:
    """Nobody may write to a run, not even root."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_run_that_cannot_be_written_can_be_asked(decentrl: Command, case: Case) -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        run, file = Path(name) / "run", Path(name) / "new.tsv"
        shutil.copytree(case.run, run)
        shutil.copy(case.file, file)
        assert decentrl("add", run, file, *case.side).code == 0
        with forbidden(run):
            assert decentrl("log", run).code == 0
            assert decentrl("explain", run, "new").code == 0
            assert decentrl("neighbours", run, "new").code == 0
            done = decentrl("add", run, file, *case.side)
            refused(done, f"{run / 'store'}: cannot be written (Permission denied); copy the run")
            refused(decentrl("undo", run), f"{run / 'store'}: cannot be written")


def test_no_run_and_half_a_run_are_named(
    decentrl: Command, twin_run: Path, people_run: Path, tmp_path: Path
) -> None:
    file = tmp_path / "x.tsv"
    file.write_text("a\tr\tb\n")
    commands: list[tuple[Any, ...]] = [
        ("add", file), ("undo",), ("log",), ("compact",), ("explain", "x"), ("neighbours", "x"),
        ("drift",), ("refit", "-o", tmp_path / "new"), ("export", "-o", tmp_path / "x.npy"),
    ]  # fmt: skip
    for name, *rest in commands:
        refused(decentrl(name, tmp_path / "absent", *rest), f"{tmp_path / 'absent'}: no such run")
    assert not (tmp_path / "new").exists()
    # A bundle alone can be asked, but has no place for additions.
    done = decentrl("add", people_run / "bundle", file)
    refused(done, f"{people_run / 'bundle'}: this is a bundle; give the run that it belongs to")
    assert decentrl("explain", people_run / "bundle", "person 1").code == 0


# Looking back and tidying up


def test_undo_takes_back_the_last_addition(decentrl: Command, case: Case) -> None:
    refused(decentrl("undo", case.run), f"{case.run}: there is no addition to take back\n")
    before = tree(case.run)
    assert "bundle/bundle.json" in before
    second = case.write("wednesday.tsv", [case.triple()])
    decentrl("add", case.run, case.file, second, *case.side)
    done = decentrl("undo", case.run)
    assert done.out == "wednesday.tsv: addition 2 taken back, triples: 1, entities: 1\n"
    assert [a.number for a in case.load().log()] == [1]
    decentrl("compact", case.run)
    done = decentrl("undo", case.run)
    refused(done, f"{case.run}: there is no addition to take back; what is in the bundle stays\n")


def test_the_log_tells_of_every_addition(decentrl: Command, case: Case) -> None:
    assert decentrl("log", case.run).out == "nothing was added to this run\n"
    assert json.loads(decentrl("log", case.run, "--json").out) == []
    decentrl("add", case.run, case.file, *case.side)
    decentrl("compact", case.run)
    second = case.write("wednesday[1].tsv", [case.triple()])
    decentrl("add", case.run, second, *case.side)
    done = decentrl("log", case.run)
    first, last = [line.split() for line in done.out.splitlines() if "day" in line]
    side = ["left"] if case.aligned else []
    assert [first[0], *first[3:]] == ["1", *side, "tuesday.tsv", "3", "2", "yes"]
    assert [last[0], *last[3:]] == ["2", *side, "wednesday[1].tsv", "1", "1"]
    found = json.loads(decentrl("log", case.run, "--json").out)
    assert [(a["number"], a["folded"]) for a in found] == [(1, True), (2, False)]
    assert found[0]["without_trained_neighbour"] == 1


def test_compacting_changes_no_answer_and_refreshing_does(decentrl: Command, case: Case) -> None:
    assert decentrl("compact", case.run).out.startswith("nothing to compact")
    decentrl("add", case.run, case.file, *case.side)
    asked = ("neighbours", case.run, "new", "--json")
    before = decentrl(*asked).out
    done = decentrl("compact", case.run)
    assert done.out == "additions that are in the bundle now: 1 more; no vector has changed\n"
    assert decentrl(*asked).out == before
    done = decentrl("compact", case.run, "--refresh")
    assert done.out == "additions that are in the bundle now: 0 more; every vector was made anew\n"
    assert decentrl(*asked).out != before


def test_info_tells_how_much_was_added(decentrl: Command, case: Case) -> None:
    trained = json.loads(decentrl("info", case.run, "--json").out)
    assert "added since" not in decentrl("info", case.run).out
    decentrl("add", case.run, case.file, case.file, *case.side)
    done = decentrl("info", case.run)
    said = "- added since: 3 triples and 2 entities; additions: 2, 0 of them in the bundle\n"
    assert said in done.out
    found = json.loads(decentrl("info", case.run, "--json").out)
    assert found.pop("added") == {
        "additions": 2, "triples": 3, "entities": 2, "links": 0, "in_the_bundle": 0,
    }  # fmt: skip
    assert found == trained


# PotentialCache


def test_explain_is_what_the_library_says(decentrl: Command, case: Case) -> None:
    decentrl("add", case.run, case.file, *case.side)
    found = json.loads(decentrl("explain", case.run, "new", *case.side, "--json").out)
    reasons = case.load().explain("new", moved=10)
    assert [(x["neighbour"], x["relation"], x["role"]) for x in found] == [
        (x.neighbour, x.relation, x.role) for x in reasons[:10]
    ]
    assert all(x["arrived"] for x in found if x["relation"])
    done = decentrl("explain", case.run, "new", "--top", "1")
    assert (done.code, done.err) == (0, "")
    assert f"{reasons[0].weight:.1%}" in done.out
    assert "after training" in decentrl("explain", case.run, "new").out
    rest = sum(x.weight for x in reasons[1:])
    assert done.out.endswith(f"… and {len(reasons) - 1:,} more, {rest:.1%} together\n")


def test_neighbours_are_what_the_library_says(
    decentrl: Command, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    decentrl("add", case.run, case.file, *case.side)
    expected = case.load().neighbours("new", top=4).to_pylist()
    found = json.loads(decentrl("neighbours", case.run, "new", "--top", "4", "--json").out)
    assert found == expected
    assert len(found) == 4
    lines = decentrl("neighbours", case.run, "new", "--top", "4").out.splitlines()
    assert [line.split("\t")[:2] for line in lines] == [
        [row["entity"], str(row["rank"])] for row in expected
    ]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert f"{expected[0]['cosine']:.4f}" in decentrl("neighbours", case.run, "new").out


def test_neighbours_of_the_other_graph(decentrl: Command, twin_run: Path) -> None:
    asked = ("neighbours", twin_run, f"{LEFT}3", "--among", "right", "--json")
    found = json.loads(decentrl(*asked).out)
    assert all(row["entity"].startswith("http://right.org/e/") for row in found)
    aligner = Aligner.load(twin_run, "cpu")
    assert found == aligner.neighbours(f"{LEFT}3", among="right").to_pylist()
    back = decentrl("neighbours", twin_run, found[0]["entity"], "--side", "right", "--json")
    assert json.loads(back.out)[0]["entity"].startswith("http://right.org/e/")


def test_an_approximate_index_gives_near_answers(decentrl: Command, case: Case) -> None:
    pytest.importorskip("faiss")
    entity = f"{LEFT}3" if case.aligned else "person 1"
    exact, near = (
        {row["entity"] for row in json.loads(decentrl(*asked).out)}
        for asked in (
            ("neighbours", case.run, entity, "--json"),
            ("neighbours", case.run, entity, "--ann", "--json"),
        )
    )
    assert len(exact & near) >= 8
    if case.aligned:
        (row,) = json.loads(decentrl("match", case.run, entity, "--ann", "--json").out)
        assert row["left"] == entity
        assert row["right"] is not None


@pytest.mark.parametrize("command", ["explain", "neighbours"])
def test_an_unknown_entity_suggests_near_ones(
    decentrl: Command, twin_run: Path, people_run: Path, command: str
) -> None:
    done = decentrl(command, people_run, "persn 1")
    refused(done, "the label 'persn 1' is unknown; did you mean 'person 1'")
    done = decentrl(command, twin_run, f"{LEFT}3", "--side", "right")
    refused(done, f"the label '{LEFT}3' is unknown")


# Drift


def test_drift_tells_what_has_changed_and_what_to_do(decentrl: Command, case: Case) -> None:
    done = decentrl("drift", case.run)
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("nothing has arrived since training, so there is nothing to do\n")
    decentrl("add", case.run, case.file, *case.side)
    found = json.loads(decentrl("drift", case.run, "--json").out)
    assert (found["induced"], found["arrived"]) == (2, 3)
    said = decentrl("drift", case.run).out
    assert f"drift        {found['drift']:.4f}: " in said
    assert said.endswith(f"advice       {found['because']}\n")
    if found["calibration"]:
        assert f"error {found['calibration']['ece']:.3f}\n" in said


def test_drift_may_be_measured_on_other_data(
    decentrl: Command, twin_run: Path, people_run: Path, twin_files: dict[str, Path], tmp_path: Path
) -> None:
    links = json.loads(decentrl("drift", twin_run, "--links", twin_files["links"], "--json").out)
    assert links["calibration"] == Aligner.load(twin_run, "cpu").confidence(twin_files["links"])
    done = decentrl("drift", people_run, "--links", twin_files["links"])
    refused(done, "this run is about prediction; give --triples instead of --links")
    done = decentrl("drift", twin_run, "--triples", twin_files["left"])
    refused(done, "this run is about alignment; give --links instead of --triples")
    file = tmp_path / "links.tsv"
    file.write_text("who\twhat\n")
    refused(decentrl("drift", twin_run, "--links", file), f"{file}:1: 'who' is no entity of the le")
    file.write_text("person 1\tlives in\tcity 1\n")
    done = decentrl("drift", people_run, "--triples", file, "--json")
    assert json.loads(done.out)["calibration"]


def count_manifests(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every reading of a bundle's list of files from now on."""
    found, read = [], Path.read_bytes

    def counting(self: Path) -> bytes:
        if self.name == "bundle.json":
            found.append(self)
        return read(self)

    monkeypatch.setattr(Path, "read_bytes", counting)
    return found


def test_looking_at_the_log_reads_the_list_of_files_once(
    decentrl: Command, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    decentrl("add", case.run, case.file, *case.side)
    found = count_manifests(monkeypatch)
    for command in ("log", "info"):
        assert decentrl(command, case.run).code == 0
        assert len(found) == 1, command
        found.clear()


def test_adding_a_file_reads_the_list_of_files_once(
    decentrl: Command, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    decentrl("add", case.run, case.file, *case.side)  # the first may write a bundle
    decentrl("undo", case.run)
    found = count_manifests(monkeypatch)
    assert decentrl("add", case.run, case.file, *case.side).code == 0
    assert len(found) == 1


def test_a_bundle_that_a_killed_process_had_taken_away_is_put_back(
    decentrl: Command, case: Case
) -> None:
    """Between two renames, where a system cannot exchange folders."""
    for command in (("add", case.run, case.file, *case.side), ("compact", case.run)):
        before = tree(case.run / "bundle")
        (case.run / "bundle").rename(case.run / ".bundle.old-77")
        assert decentrl("log", case.run).code == 2  # a reader changes nothing
        done = decentrl(*command)
        assert (done.code, done.err) == (0, "")
        assert before.keys() <= tree(case.run / "bundle").keys()


def test_advice_follows_the_numbers() -> None:
    from decentrl.cli.grow import advice

    def of(**numbers: Any) -> str:
        still: dict[str, Any] = {
            "drift": 0.0, "entities": 100, "induced": 0, "triples": 100, "arrived": 0, "stale": 0,
            "expected": None, "calibration": {},
        }  # fmt: skip
        return advice(Drift(**still | numbers), Path("run"))[0]

    assert of() == "nothing"
    assert of(arrived=10, induced=3) == "nothing"
    assert of(arrived=10, drift=0.02) == "refresh"
    assert of(arrived=21, drift=0.02) == of(arrived=1, induced=30) == "refit"


# Training again


def test_a_refit_is_a_whole_run(decentrl: Command, case: Case) -> None:
    decentrl("add", case.run, case.file, *case.side)
    new, before = case.folder / "new", tree(case.run / "bundle")
    done = decentrl("refit", case.run, "-o", new, "--device", "cpu")
    assert done.code == 0, done.err
    assert f"50% of the epochs, from what {case.run} has learned" in done.out
    assert tree(case.run / "bundle") == before
    files = {path.name for path in new.iterdir()}
    answers = "matches.parquet" if case.aligned else "predictions.parquet"
    assert files == {
        "config.toml", "metrics.jsonl", "results.json", "report.html", "checkpoint", "bundle",
        answers,
    }  # fmt: skip
    lines = (new / "metrics.jsonl").read_text().splitlines()
    assert max(json.loads(line)["epoch"] for line in lines) == 2  # half of four
    origin = tomllib.loads((new / "config.toml").read_text("utf-8"))["run"]
    assert (origin["start"], origin["share"]) == (str(case.run), 0.5)
    assert "new" in (Aligner if case.aligned else Predictor).load(new, "cpu").growing.sides[
        "left" if case.aligned else ""
    ].entities  # fmt: skip
    assert json.loads(decentrl("drift", new, "--json").out)["arrived"] == 0
    assert json.loads(decentrl("info", new, "--json").out)["results"]
    refused(decentrl("refit", case.run, "-o", new), f"{new}: already exists; choose another -o")
    done = decentrl("refit", case.run, "-o", new, "--share", "1", "--overwrite", "--json")
    assert json.loads(done.out) == json.loads((new / "results.json").read_bytes())


def test_a_refit_goes_on_after_a_kill_and_ends_alike(decentrl: Command, case: Case) -> None:
    decentrl("add", case.run, case.file, *case.side)
    whole, killed = case.folder / "whole", case.folder / "killed"
    decentrl("refit", case.run, "-o", whole, "--share", "1", "--device", "cpu")
    shutil.copytree(whole, killed)
    # As if it had been killed while the results were written.
    (killed / "results.json").unlink()
    shutil.rmtree(killed / "bundle")
    done = decentrl("refit", "--resume", "-o", killed, "--device", "cpu")
    assert done.code == 0, done.err
    first, second = (
        json.loads((run / "results.json").read_bytes())["results"] for run in (whole, killed)
    )
    assert first == second
    refused(decentrl("refit", "--resume", "-o", killed), f"{killed}: this run is finished")
    (killed / "results.json").unlink()
    for command in ("align", "complete"):
        done = decentrl(command, "--resume", "-o", killed)
        refused(done, f"{killed}: go on with this run by `decentrl refit --resume`")
    # What was added meanwhile is not mixed in.
    second_file = case.write("wednesday.tsv", [case.triple()])
    decentrl("add", case.run, second_file, *case.side)
    done = decentrl("refit", "--resume", "-o", killed)
    refused(done, f"{killed}: the input has changed since this run began; start a new run")


def test_a_refit_learns_from_new_links(
    decentrl: Command, aligned: Case, twins: dict[str, list[tuple[str, ...]]]
) -> None:
    decentrl("add", aligned.run, aligned.file, "--side", "left")
    links = aligned.folder / "found.tsv"
    links.write_text("new\thttp://right.org/e/3\n")
    new = aligned.folder / "new"
    assert decentrl("refit", aligned.run, "-o", new, "--links", links).code == 0
    before, after = (len(Aligner.load(run, "cpu").task.train) for run in (aligned.run, new))
    assert after == before + 1


def test_a_refit_that_cannot_be_is_one_line(
    decentrl: Command, twin_run: Path, people_run: Path, tmp_path: Path
) -> None:
    new = tmp_path / "deep" / "new"
    refused(decentrl("refit", "-o", new), "give the RUN to train again, or --resume to go on")
    done = decentrl("refit", twin_run, "-o", new, "--share", "0")
    refused(done, "--share is 0.0; it must be above 0 and at most 1")
    done = decentrl("refit", people_run, "-o", new, "--links", "x.tsv")
    refused(done, "this run is about prediction; it has no links")
    done = decentrl("refit", twin_run, "-o", new, "--links", "absent.tsv")
    refused(done, "absent.tsv: there is no such file")
    for place in (twin_run, twin_run.parent):
        done = decentrl("refit", twin_run, "-o", place, "--overwrite")
        refused(done, f"{place}: would overwrite the run to start from; choose another -o")
    refused(decentrl("refit", "--resume", "-o", new), f"{new / 'config.toml'}: not found")
    done = decentrl("refit", "--resume", "-o", twin_run)
    refused(done, f"{twin_run}: go on with this run by `decentrl align --resume`")
    assert list(tmp_path.iterdir()) == []


# Export


def test_exported_vectors_are_the_run_s(decentrl: Command, case: Case) -> None:
    decentrl("add", case.run, case.file, *case.side)
    output, model = case.folder / "v.parquet", case.load()
    done = decentrl("export", case.run, "-o", output)
    sides = model.growing.sides
    count = sum(len(side.entities) for side in sides.values())
    assert (done.code, done.out, done.err) == (0, "", f"{output}: {count} vectors\n")
    table = pq.read_table(output)
    assert table.column_names == ["entity", *(["side"] if case.aligned else []), "vector"]
    rows = {(row.get("side", ""), row["entity"]): row["vector"] for row in table.to_pylist()}
    side = "left" if case.aligned else ""
    assert np.array_equal(np.float32(rows[side, "new"]), model.embed(["new"])[0])
    npy = case.folder / "v.npy"
    done = decentrl("export", case.run, "-o", npy, *case.side)
    labels = (case.folder / "v.labels.txt").read_text("utf-8").splitlines()
    assert np.array_equal(np.load(npy)[labels.index("new")], model.embed(["new"])[0])
    for name, more in (("v.txt", ()), ("v.vec", ()), ("words", ("--format", "word2vec"))):
        assert decentrl("export", case.run, "-o", case.folder / name, *case.side, *more).code == 0
        first = (case.folder / name).read_text("utf-8").splitlines()[0]
        assert first == f"{len(labels)} {model.embed(['new']).shape[1]}"


def test_an_export_may_be_narrower_and_a_folder(decentrl: Command, case: Case) -> None:
    from decentrl.storage.pretrained import load_pretrained

    folder = case.folder / "hub"
    done = decentrl("export", case.run, "-o", folder, "--format", "pretrained", "--dim", "5")
    model = case.load()
    assert (done.code, done.out) == (0, "")
    parts = load_pretrained(folder)
    assert [part.side or "" for part in parts] == list(model.growing.sides)
    for part, side in zip(parts, model.growing.sides.values(), strict=True):
        assert part.vectors.shape == (len(side.entities), 5)
    assert "SHA-256" in (folder / "README.md").read_text("utf-8")  # the card of the model
    again = decentrl("export", case.run, "-o", folder, "--format", "pretrained")
    refused(again, f"{folder}: there is something already")
    refused(decentrl("export", case.run, "-o", "x.parquet", "--dim", "99999"), "no 99999 of")


def test_an_export_that_cannot_be_is_one_line(
    decentrl: Command, twin_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for output, more, says in (
        ("v.csv", (), "v.csv: no format is known for .csv; use .parquet, .npy, .txt, .vec"),
        ("v", (), "v: no format is known for a name without an extension"),
        ("v.npy", ("--format", "hdf5"), "no format 'hdf5'; there are: npy, parquet, word2vec"),
        ("v.npy", (), "npy holds one graph; add --side left or --side right, or write parquet"),
        ("no/v.parquet", (), "no: no such folder; make it first"),
    ):
        refused(decentrl("export", twin_run, "-o", output, *more), says)
    assert list(tmp_path.iterdir()) == []


def claims(run: Path) -> dict[str, str]:
    aligner = Aligner.load(run, "cpu")
    least = "fitted" if aligner.learned.confidence else None
    table = aligner.match(assign="mutual", min_confidence=least).to_pylist()
    return {row["left"]: row["right"] for row in table if row["right"] is not None}


def test_an_addition_says_how_many_matches_are_new_changed_and_lost(
    decentrl: Command, twin_files: dict[str, Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    asked = ("align", twin_files["left"], twin_files["right"], "--links", twin_files["links"])
    assert decentrl(*asked, "--preset", "propagate", "--device", "cpu", "-o", run).code == 0
    file = tmp_path / "new.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in NEW["two_graphs"]), "utf-8")
    before = claims(run)
    done = decentrl("add", run, file, "--side", "left", "--device", "cpu")
    after = claims(run)
    both = set(before) & set(after)
    counts = (
        f"{len(set(after) - both):,} new, {sum(before[x] != after[x] for x in both):,} changed, "
        f"{len(set(before) - both):,} lost; {len(after):,} in all"
    )
    assert f"matches: {counts}" in done.out
    assert len(after) > 10
    assert set(after) & {"new", "newer"} or len(set(after) - both) == 0
    assert decentrl("undo", run).code == 0
    done = decentrl("add", run, file, "--side", "left", "--device", "cpu", "--json")
    (line,) = json.loads(done.out)
    found = line["matches"]
    assert found["all"] == len(after)
    assert found["new"] + len(both) == len(after)


def test_matches_of_what_came_since_an_addition_are_listed(
    decentrl: Command, twin_run: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(twin_run, tmp_path / "run"))
    for name, rows in (("one", NEW["two_graphs"]), ("two", [("third", R0, f"{LEFT}7")])):
        file = tmp_path / f"{name}.tsv"
        file.write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
        assert decentrl("add", run, file, "--side", "left", "--device", "cpu").code == 0

    def listed(number: int, *more: str) -> set[str]:
        rows = json.loads(decentrl("match", run, "--since", str(number), *more, "--json").out)
        return {row["left"] for row in rows}

    assert listed(0) == {"new", "newer", "third"}
    assert listed(1) == {"third"}
    assert listed(2) == set()
    assert listed(0, "--side", "right") == set()
    assert decentrl("match", run, "new", "--since", "1").code == 2
    assert decentrl("compact", run, "--device", "cpu").code == 0
    done = decentrl("match", run, "--since", "1")
    assert done.code == 2
    assert "not known apart" in done.err
