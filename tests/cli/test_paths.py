"""Answers by paths on the command line: training, asking, growing, other graphs, reasons."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]
QUICK = (
    "--preset", "paths", "--set", "model.dim=16", "--set", "model.layers=3",
    "--set", "training.epochs=8", "--set", "training.steps=20", "--device", "cpu",
)  # fmt: skip
OTHER = "Ann\tknows\tBob\nBob\tknows\tCleo\nAnn\tlives in\tRome\nCleo\tlives in\tRome\n"


@pytest.fixture(scope="module")
def trained(people_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from decentrl.cli import main

    run = tmp_path_factory.mktemp("paths") / "run"
    words = ["decentrl", "complete", str(people_file), *QUICK, "-o", str(run)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", words)
        with pytest.raises(SystemExit) as ended:
            main()
    assert not ended.value.code
    return run


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """One to change."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def other(tmp_path: Path) -> Path:
    file = tmp_path / "other.tsv"
    file.write_text(OTHER, "utf-8")
    return file


def refused(done: Any, says: str) -> None:
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.strip().splitlines()
    assert re.search(says, line), line


def test_what_is_added_is_asked_about_at_once(decentrl: Command, run: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.tsv"
    new.write_text("newcomer\tlives in\tcity 3\nperson 5\tknows\tnewcomer\n", "utf-8")
    done = decentrl("add", run, new)
    assert done.code == 0, done.err
    assert "triples accepted: 2, new entities: 1" in done.out
    assert "vector" not in done.out
    asked = ("predict", run, "--head", "newcomer", "--relation", "knows", "--top", "2", "--json")
    assert len(json.loads(decentrl(*asked).out)) == 2
    assert decentrl("compact", run).code == 0
    assert len(json.loads(decentrl(*asked).out)) == 2
    assert decentrl("evaluate", run).code == 0


def test_a_triple_is_explained_by_paths(
    decentrl: Command, trained: Path, people: list[tuple[str, str, str]]
) -> None:
    some = 0
    for head, relation, tail in people[:60:5]:
        triple = ("--head", head, "--relation", relation, "--tail", tail)
        done = decentrl("explain", trained, *triple)
        assert done.code == 0, done.err
        found = json.loads(decentrl("explain", trained, *triple, "--top", "3", "--json").out)
        assert len(found) <= 3
        lines = [line.split("  ", 1)[1] for line in done.out.splitlines() if "%" in line]
        assert lines[: len(found)] == [row["text"] for row in found]
        assert found or done.out == "no path that was found gives anything to this answer\n"
        some += len(found)
    assert some > 3
    assert "Answers explained" in (trained / "report.html").read_text("utf-8")


def test_another_graph_is_asked_and_evaluated(
    decentrl: Command, trained: Path, other: Path, tmp_path: Path
) -> None:
    asked = ("--head", "Ann", "--relation", "knows", "--json")
    answers = json.loads(decentrl("predict", trained, "--graph", other, *asked).out)
    assert {row["tail"] for row in answers} <= {"Bob", "Cleo", "Rome", "Ann"}
    test = tmp_path / "test.tsv"
    test.write_text("Cleo\tknows\tAnn\n", "utf-8")
    how = ("--graph", other, "--test", test, "--among", "new", "--negatives", "2", "--json")
    found = json.loads(decentrl("evaluate", trained, *how).out)
    assert found["results"][0]["n"] == 2
    assert found["results"][0]["mr"] <= 3


def test_what_cannot_be_asked_is_one_line(
    decentrl: Command, trained: Path, people_run: Path, other: Path
) -> None:
    other.write_text(OTHER + "Ann\towns\tBob\n", "utf-8")
    refused(decentrl("predict", trained, "--graph", other, "--head", "Ann", "--relation", "knows"),
            "training has not seen these relations of other: 'owns'")  # fmt: skip
    refused(decentrl("evaluate", trained, "--test", other), "--test is about another graph")
    refused(decentrl("evaluate", trained, "--among", "old"), "no among 'old'; there are: all")
    refused(decentrl("explain", trained, "person 1"), "paths makes no vectors of entities")
    refused(decentrl("explain", trained), "give an ENTITY, or --head, --relation and --tail")
    refused(decentrl("explain", trained, "--head", "person 1"), "give either an ENTITY, or --head")
    refused(decentrl("neighbours", trained, "person 1"), "paths makes no vectors of entities")
    refused(decentrl("export", trained, "-o", "x.npy"), "paths makes no vectors of entities")
    refused(decentrl("drift", trained), "paths makes no vectors of entities")
    triple = ("--head", "person 1", "--relation", "knows", "--tail", "person 4")
    refused(decentrl("explain", people_run, *triple), "by vectors, not by paths")


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("model.layers=0", "model.layers is 0; it must be at least 1"),
        ("model.frontier=-1", "model.frontier is -1; it must be at least 0"),
        ("model.hide=all", "model.hide is 'all'; it can be: auto, pair, triple"),
        ("decoder.name=distmult", "decoder.name does not apply to the encoder paths"),
        ("training.learning_rate=nan", "must be a finite number"),
    ],
)
def test_settings_that_cannot_be_are_one_line(
    decentrl: Command, people_file: Path, tmp_path: Path, setting: str, says: str
) -> None:
    done = decentrl("complete", people_file, *QUICK, "--set", setting, "-o", tmp_path / "run")
    refused(done, says)
    assert not (tmp_path / "run").exists()


def test_a_training_that_diverges_leaves_nothing(
    decentrl: Command, people_file: Path, tmp_path: Path
) -> None:
    huge = ("--set", "training.learning_rate=1e30")
    done = decentrl("complete", people_file, *QUICK, *huge, "-o", tmp_path / "run")
    assert done.code == 2
    assert "not finite" in done.err or "the loss is" in done.err
    assert not (tmp_path / "run").exists()
