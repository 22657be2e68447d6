"""``decentrl review``: the queue on a terminal, decisions one at a time, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decentrl.aligner import Aligner

Command = Callable[..., Any]


@pytest.fixture
def run(world_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(world_run, tmp_path / "run"))


@pytest.fixture(scope="module")
def items(world_run: Path) -> list[Any]:
    return list(Aligner.load(world_run, "cpu").review_queue(3).items)


def test_a_review_from_the_queue_to_a_new_run(
    decentrl: Command, run: Path, items: list[Any], tmp_path: Path
) -> None:
    shown = decentrl("review", run, "--top", 3)
    assert (shown.code, shown.err) == (0, "")
    assert all(item.left[:20] in shown.out for item in items)
    assert "0 decided: 0 accepted, 0 rejected, 0 skipped" in shown.out
    assert "expected precision: " in shown.out
    first, second, third = ((item.left, item.right) for item in items)
    told = decentrl("review", run, "--accept", *first, "--by", "Ada", "--note", "seen")
    assert (told.code, told.out) == (0, f"decision 1, accepted: {first[0]} – {first[1]}\n")
    made = json.loads(decentrl("review", run, "--reject", *second, "--json").out)
    assert (made["number"], made["verdict"], made["pairs"]) == (2, "reject", [list(second)])
    assert decentrl("review", run, "--skip", *third).code == 0
    assert "decision 3, taken back" in decentrl("review", run, "--undo").out
    log = json.loads(decentrl("review", run, "--log", "--json").out)
    assert [(x["verdict"], x["by"], x["current"]) for x in log] == [
        ("accept", "Ada", True), ("reject", "", True), ("skip", "", False), ("undo", "", False),
    ]  # fmt: skip
    queue = json.loads(decentrl("review", run, "--json", "--top", 100000).out)
    assert queue["progress"]["decided"] == 2
    assert first[0] not in [item["left"] for item in queue["items"]]
    matches = json.loads(decentrl("match", run, first[0], "--json").out)
    assert (matches[0]["right"], matches[0]["confidence"]) == (first[1], 1.0)

    links = tmp_path / "links.tsv"
    assert "1 accepted pairs" in decentrl("review", run, "--export", links).err
    assert links.read_text("utf-8") == "\t".join(first) + "\n"
    written = decentrl("review", run, "--export", tmp_path / "x.sssom.tsv")
    assert "2 decisions" in written.err
    assert decentrl("evaluate", run, "--links", links, "--json").code == 0

    new = tmp_path / "new"
    assert decentrl("refit", run, "-o", new, "--device", "cpu").code == 0
    learned = json.loads(decentrl("review", new, "--log", "--json").out)
    assert learned == log
    again = Aligner.load(new, "cpu")
    sides = again.task.left.entities, again.task.right.entities
    assert [sides[0].id(first[0]), sides[1].id(first[1])] in again.task.train.tolist()
    assert "a training has learned from it" in decentrl("review", new, "--undo").err


def test_an_empty_log(decentrl: Command, world_run: Path) -> None:
    assert decentrl("review", world_run, "--log").out == ""
    assert decentrl("review", world_run, "--log", "--json").out == "[]\n"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--accept", "a", "b", "--undo"], "one thing at a time: leave out --undo"),
        (["--accept", "a", "b", "--reject", "a", "b"], "leave out --reject"),
        (["--by", "Ada"], "--by and --note are about a decision"),
        (["--undo", "--note", "x"], "leave it out with --undo"),
        (["--export", "x.csv"], "cannot write .csv; use .tsv, .sssom.tsv"),
        (["--export", "no/x.tsv"], "no such folder"),
        (["--export", "x.tsv"], "there is no decision to write; accept a match first"),
        (["--accept", "Brasil", "Brazil"], "the label 'Brasil' is unknown; did you mean"),
        (["--accept", "Brazil", "Brésil"], "name the left entity first and the right one second"),
        (["--undo"], "there is no decision to take back; decide first"),
        (["--top", "0"], "Invalid value for '--top'"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    decentrl: Command, run: Path, asked: list[str], said: str
) -> None:
    done = decentrl("review", run, *asked)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err
    assert len(Aligner.load(run, "cpu").decisions()) == 0


def test_a_run_of_prediction_has_nothing_to_review(decentrl: Command, people_run: Path) -> None:
    for asked in ([], ["--accept", "a", "b"], ["--log"]):
        done = decentrl("review", people_run, *asked)
        assert (done.code, done.out) == (2, "")
        assert "about prediction; there are no matches to review" in done.err


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to stop being root")
def test_a_run_that_cannot_be_written_is_shown_but_takes_no_decision(
    decentrl: Command, run: Path, items: list[Any]
) -> None:
    for folder in (*run.parents, run):
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)
    run.chmod(0o555)
    os.seteuid(65534)
    try:
        shown = decentrl("review", run, "--top", 1)
        refused = decentrl("review", run, "--accept", items[0].left, items[0].right)
    finally:
        os.seteuid(0)
        run.chmod(0o755)
    assert shown.code == 0
    assert refused.code == 2
    assert "cannot be written" in refused.err
    assert refused.err.count("\n") == 1


def test_a_damaged_log_of_decisions_is_said(decentrl: Command, run: Path, items: list[Any]) -> None:
    assert decentrl("review", run, "--accept", items[0].left, items[0].right).code == 0
    file = run / "store" / "store.sqlite"
    data = file.read_bytes()
    place = data.index(b'"verdict": "accept"') + 13
    file.write_bytes(data[:place] + b"skip  " + data[place + 6 :])
    for asked in ([], ["--log"], ["--undo"]):
        done = decentrl("review", run, *asked)
        assert done.code == 2
        assert f"{file}: damaged (a checksum differs); copy the run again" in done.err
