"""``decentrl evaluate``: the bundle alone gives the results again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., Any]


@pytest.mark.parametrize("name", ["world_run", "open_run"])
def test_the_results_come_again_from_the_bundle(
    decentrl: Command, request: pytest.FixtureRequest, tmp_path: Path, name: str
) -> None:
    run: Path = request.getfixturevalue(name)
    bundle = tmp_path / "moved"
    shutil.copytree(run / "bundle", bundle)
    done = decentrl("evaluate", bundle, "--device", "cpu", "--json")
    found, before = json.loads(done.out), json.loads((run / "results.json").read_bytes())
    assert found["results"] == before["results"]
    shared = ("dataset", "open_world", "preset", "seed")
    assert [found[key] for key in shared] == [before[key] for key in shared]
    assert found["matches"] == before["matches"]
    assert list(found) == [*shared, "results", "matches"]
    assert done.err == ""


def test_people_get_the_table(decentrl: Command, open_run: Path) -> None:
    done = decentrl("evaluate", open_run)
    assert done.out.startswith("world, open world, preset tiny")
    for word in ("known", "unknown", "654", "130"):
        assert word in done.out


def test_other_links_may_be_given(decentrl: Command, world_run: Path, tmp_path: Path) -> None:
    links = tmp_path / "links.tsv"
    links.write_text("Albanie\tAlbania\nAfghanistan\tAfghanistan\n", "utf-8")
    done = decentrl("evaluate", world_run, "--links", links, "--json")
    assert {row["n"] for row in json.loads(done.out)["results"]} == {2}
    links.write_text("Albanie\tAtlantis\n", "utf-8")
    done = decentrl("evaluate", world_run, "--links", links)
    assert done.code == 2
    assert done.err.startswith(f"error: {links}:1: 'Atlantis' is no entity of the right graph; ")


@pytest.mark.parametrize("command", ["evaluate", "match"])
def test_a_damaged_bundle_is_one_line(
    decentrl: Command, world_run: Path, tmp_path: Path, command: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(world_run, run)
    file = run / "bundle" / "vectors.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    done = decentrl(command, run)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {file}: this file is not what the run wrote")
    assert done.err.count("\n") == 1
    done = decentrl(command, tmp_path / "absent")
    assert done.err == (
        f"error: {tmp_path / 'absent'}: no such run; give the folder that a run has written\n"
    )


# Prediction


def test_the_results_of_prediction_come_again_from_the_bundle(
    decentrl: Command, people_run: Path, tmp_path: Path
) -> None:
    shutil.copytree(people_run / "bundle", tmp_path / "moved")
    done = decentrl("evaluate", tmp_path / "moved", "--device", "cpu", "--json")
    found, before = json.loads(done.out), json.loads((people_run / "results.json").read_bytes())
    shared = ("dataset", "open_world", "task", "preset", "seed", "results", "frequency")
    assert found == {key: before[key] for key in shared}
    assert done.err == ""


def test_people_get_the_table_and_single_relations_if_they_like(
    decentrl: Command, people_run: Path
) -> None:
    done = decentrl("evaluate", people_run)
    assert done.out.startswith("people, closed world, preset paper")
    for words in (
        "tail (h, r, ?)",
        "head (?, r, t)",
        "N-1",
        "answering by training frequency: MRR",
    ):
        assert words in done.out
    assert "citizen of" not in done.out
    assert " citizen of " in decentrl("evaluate", people_run, "--relations").out


def test_other_triples_may_be_given(decentrl: Command, people_run: Path, tmp_path: Path) -> None:
    file = tmp_path / "some.tsv"
    file.write_text("person 1\tcitizen of\tcountry 1\n", "utf-8")
    done = decentrl("evaluate", people_run, "--triples", file, "--json")
    assert json.loads(done.out)["results"][0]["n"] == 2
    file.write_text("person 1\tcitizen of\tcountry 77\n", "utf-8")
    done = decentrl("evaluate", people_run, "--triples", file)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"error: {file}:1: 'country 77' is no known entity; did you mean ")


def test_options_of_the_other_job_are_refused(
    decentrl: Command, people_run: Path, world_run: Path
) -> None:
    done = decentrl("evaluate", people_run, "--links", "links.tsv")
    assert done.err == ("error: this run is about prediction; give --triples instead of --links\n")
    about = "error: this run is about alignment; "
    for options, remedy in (
        (("--triples", "t.tsv"), "give --links instead of --triples\n"),
        (("--relations",), "leave out --relations\n"),
    ):
        done = decentrl("evaluate", world_run, *options)
        assert (done.code, done.err) == (2, about + remedy)
