"""``decentrl align``: what it prints, what it leaves, what it refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from decentrl.cli.console import plain_console
from decentrl.runs.run import read_settings
from decentrl.training import loop

Command = Callable[..., Any]
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


@pytest.fixture
def files(twin_files: dict[str, Path]) -> tuple[object, ...]:
    return (twin_files["left"], twin_files["right"], "--links", twin_files["links"])


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_json_is_the_results_and_nothing_else(
    decentrl: Command, files: tuple[object, ...], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = decentrl("align", *files, *QUICK, "--json", "-o", run)
    assert done.code == 0
    assert json.loads(done.out) == json.loads((run / "results.json").read_bytes())
    assert "40 + 40 entities" in done.err
    results = json.loads(done.out)
    assert (results["dataset"], results["preset"], results["seed"]) == ("left-right", "tiny", 0)
    assert results["open_world"] is False


def test_people_get_a_table_examples_and_the_way_on(
    decentrl: Command, files: tuple[object, ...], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = decentrl("align", *files, *QUICK, "-o", run)
    assert (done.code, done.err) == (0, "")
    for part in ("left → right", "right → left", "csls", "Hits@1", "MRR", "best match", "truth"):
        assert part in done.out
    assert f"report   {run / 'report.html'}\n" in done.out
    assert done.out.endswith(f"matches  decentrl match {run} --top 5\n")
    assert (run / "report.html").exists()


def test_brackets_in_names_are_names(
    decentrl: Command, twin_files: dict[str, Path], tmp_path: Path
) -> None:
    left = tmp_path / "[red]a[b].tsv"
    shutil.copy(twin_files["left"], left)
    run = tmp_path / "run[bold]"
    done = decentrl(
        "align", left, twin_files["right"], "--links", twin_files["links"], *QUICK, "-o", run
    )
    assert done.code == 0
    assert done.out.startswith("[red]a[b]-right: 40 + 40 entities")
    assert f"decentrl match {run} " in done.out


def test_links_held_out_are_announced(
    decentrl: Command,
    files: tuple[object, ...],
    twin_files: dict[str, Path],
    tmp_path: Path,
) -> None:
    done = decentrl("align", *files, *QUICK, "--holdout", "0.2", "--json", "-o", tmp_path / "a")
    assert "no --test-links: 5 links (20%) were held out to test on; --holdout 0" in done.err
    assert {row["n"] for row in json.loads(done.out)["results"]} == {5}
    with_test = (*files, "--test-links", twin_files["test"])
    done = decentrl("align", *with_test, *QUICK, "--json", "-o", tmp_path / "b")
    assert "held out" not in done.err
    assert {row["n"] for row in json.loads(done.out)["results"]} == {15}


def test_without_anything_held_out_there_are_matches_but_no_results(
    decentrl: Command, files: tuple[object, ...], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = decentrl("align", *files, *QUICK, "--holdout", "0", "-o", run)
    assert done.code == 0
    assert "held out" not in done.out
    assert json.loads((run / "results.json").read_bytes())["results"] == []
    assert (run / "matches.parquet").exists()
    assert (run / "report.html").exists()
    assert decentrl("info", run).code == 0


def test_settings_and_seed_reach_the_run(
    decentrl: Command, files: tuple[object, ...], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    asked = ("--set", "matching.matcher=cosine", "--set", "loss.negatives=2", "--seed", "7")
    assert decentrl("align", *files, *QUICK, *asked, "-o", run).code == 0
    sources, config = read_settings(run)
    assert (config.preset, config.seed, config.model.dim) == ("tiny", 7, 8)
    assert (config.matching.matcher, config.loss.negatives) == ("cosine", 2)
    assert (sources.left, sources.links) == (str(files[0]), str(files[3]))


def test_the_open_world_is_part_of_the_answer(decentrl: Command, tmp_path: Path) -> None:
    done = decentrl(
        "align", "--dataset", "world", "--open-world", *QUICK, "--json", "-o", tmp_path / "run"
    )
    results = json.loads(done.out)
    assert results["open_world"] is True
    numbers = {row["subset"]: row["n"] for row in results["results"]}
    assert numbers == {"all": 654, "known": 524, "unknown": 130}


# What validation links choose


SELF = ("--self-train", "--set", "self_training.epochs=1")


def test_self_training_prints_its_rounds(
    decentrl: Command, files: tuple[object, ...], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = decentrl("align", *files, *QUICK, *SELF, "-o", run)
    assert (done.code, done.err) == (0, "")
    results = json.loads((run / "results.json").read_bytes())
    told = results["self_training"]
    assert len(told["validation"]) == 1 + 3
    tried = " ".join(f"{row['hits@1']:.3f}" for row in told["validation"])
    said = f"self-training: {told['rounds']} rounds (validation Hits@1 {tried})\n"
    assert said in done.out
    sure = results["confidence"]
    said = f"confidence: {sure['mean']:.1%} expected and {sure['right']:.1%} right among "
    assert (
        said + f"matches of entities in test links, calibration error {sure['ece']:.3f}\n"
        in done.out
    )
    assert read_settings(run)[1].self_training.rounds == 3


def test_without_self_training_there_are_no_rounds_to_print(
    decentrl: Command, files: tuple[object, ...], tmp_path: Path
) -> None:
    done = decentrl("align", *files, *QUICK, "-o", tmp_path / "run")
    assert "self-training" not in done.out
    assert "confidence: " in done.out
    none = decentrl("align", *files, *QUICK, "--set", "training.valid=0", "-o", tmp_path / "none")
    assert "self-training" not in none.out
    assert "confidence" not in none.out


def test_self_train_is_short_for_a_setting_which_may_still_be_set(
    decentrl: Command, files: tuple[object, ...], tmp_path: Path
) -> None:
    asked = ("--set", "self_training.rounds=1", *SELF)
    done = decentrl("align", *files, *QUICK, *asked, "--json", "-o", tmp_path / "run")
    assert len(json.loads(done.out)["self_training"]["validation"]) == 1 + 1


def test_several_seeds_tell_what_each_chose_and_the_mean_of_what_they_tried(
    decentrl: Command, files: tuple[object, ...], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = decentrl("align", *files, *QUICK, *SELF, "--seeds", "2", "--json", "-o", run)
    mean = json.loads(done.out)
    parts = [json.loads((run / f"seed-{i}" / "results.json").read_bytes()) for i in (0, 1)]
    told = [part["self_training"] for part in parts]
    assert mean["self_training"]["rounds"] == [each["rounds"] for each in told]
    tried = zip(*(each["validation"] for each in told), strict=True)
    for row, (first, second) in zip(mean["self_training"]["validation"], tried, strict=True):
        assert row == pytest.approx({name: (first[name] + second[name]) / 2 for name in first})
    for name, value in mean["confidence"].items():
        assert value == pytest.approx(sum(part["confidence"][name] for part in parts) / 2)
    shown = decentrl("align", *files, *QUICK, *SELF, "--seeds", "2", "-o", tmp_path / "shown")
    assert shown.code == 0
    rounds = ", ".join(map(str, mean["self_training"]["rounds"]))
    assert f"self-training: {rounds} rounds (validation Hits@1 " in shown.out


def test_an_unnamed_preset_is_the_strong_one(
    decentrl: Command, files: tuple[object, ...], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    small = ("--set", "model.dim=16", "--set", "training.epochs=2", "--device", "cpu")
    done = decentrl("align", *files, *small, "--json", "-o", run)
    assert json.loads(done.out)["preset"] == "strong"
    assert read_settings(run)[1].model.encoder == "reflection"


@pytest.mark.parametrize("preset", ["quick", "propagate"])
def test_the_other_presets_run_too(
    decentrl: Command, twin_files: dict[str, Path], tmp_path: Path, preset: str
) -> None:
    left, right, links, test = (twin_files[name] for name in ("left", "right", "links", "test"))
    asked = ("--links", links, "--test-links", test, "--preset", preset, "--device", "cpu")
    done = decentrl("align", left, right, *asked, "--json", "-o", tmp_path / "run")
    assert done.code == 0, done.err
    results = json.loads(done.out)
    assert results["preset"] == preset
    assert all(row["hits@1"] > 0.5 for row in results["results"] if row["matcher"] == "sinkhorn")
    assert decentrl("info", tmp_path / "run").code == 0
    assert (tmp_path / "run" / "metrics.jsonl").exists() == (preset == "quick")
    # `quick` holds nothing out.
    assert bool(results["confidence"]) == (preset == "propagate")


# Several seeds


def test_seeds_make_a_folder_each_and_a_mean(
    decentrl: Command, files: tuple[object, ...], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = decentrl("align", *files, *QUICK, "--seeds", "2", "--json", "-o", run)
    mean = json.loads(done.out)
    assert mean == json.loads((run / "results.json").read_bytes())
    parts = [json.loads((run / f"seed-{i}" / "results.json").read_bytes()) for i in (0, 1)]
    assert [part["seed"] for part in parts] == mean["seed"] == [0, 1]
    assert sorted(path.name for path in run.iterdir()) == ["results.json", "seed-0", "seed-1"]
    for row, first, second in zip(mean["results"], *(p["results"] for p in parts), strict=True):
        assert row["mr"] == pytest.approx((first["mr"] + second["mr"]) / 2)
        assert row["mr_std"] == pytest.approx(abs(first["mr"] - second["mr"]) / 2**0.5)
        assert {"hits@1_std", "hits@5_std", "hits@10_std", "hits@50_std", "mrr_std"} <= set(row)
    weights = [load_file(run / f"seed-{i}/bundle/weights.safetensors") for i in (0, 1)]
    assert not torch.equal(weights[0]["entities"], weights[1]["entities"])
    assert decentrl("info", run).code == 0
    alone = decentrl("align", *files, *QUICK, "--seed", "1", "--json", "-o", tmp_path / "one")
    assert json.loads(alone.out)["results"] == parts[1]["results"]


def test_after_seeds_the_way_on_leads_to_a_run(
    decentrl: Command, files: tuple[object, ...], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = decentrl("align", *files, *QUICK, "--seeds", "2", "-o", run)
    assert "±" in done.out
    command = done.out.splitlines()[-1].split("decentrl ", 1)[1].split()
    assert decentrl(*command).code == 0


def test_seeds_do_not_go_into_a_run_that_is_there(
    decentrl: Command, files: tuple[object, ...], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert decentrl("align", *files, *QUICK, "-o", run).code == 0
    before = tree(run)
    done = decentrl("align", *files, *QUICK, "--seeds", "2", "-o", run)
    assert (done.code, done.err[:7]) == (2, "error: ")
    assert "already exists" in done.err
    assert tree(run) == before


# Going on


def interrupt_at(monkeypatch: pytest.MonkeyPatch, place: int) -> None:
    """Ctrl-C in the ``place``-th epoch of this command, over all its seeds."""
    original, calls = loop._one_epoch, []

    def one_epoch(*arguments: Any) -> float:
        calls.append(1)
        if len(calls) == place:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(loop, "_one_epoch", one_epoch)


def test_labels_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    plain_console().print("urn:dog:9 of 7 [bold]", markup=False)
    assert capsys.readouterr().out == "urn:dog:9 of 7 [bold]\n"


def test_what_cannot_be_written_is_one_line(
    decentrl: Command, world_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "m.tsv")

    monkeypatch.setattr("decentrl.cli.console.write_table", full)
    done = decentrl("match", world_run, "-o", "m.tsv", "--device", "cpu")
    assert (done.code, done.err) == (2, "error: m.tsv: No space left on device\n")


def test_an_interrupt_says_how_to_go_on(
    decentrl: Command, files: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = ("--set", "training.checkpoint_every=0")
    with monkeypatch.context() as patch:
        interrupt_at(patch, 2)
        done = decentrl("align", *files, *QUICK, *often, "-o", tmp_path / "run")
    assert done.code == 130
    assert done.err == "interrupted; `--resume` goes on from the last checkpoint\n"
    assert not (tmp_path / "run" / "results.json").exists()
    other = ("--resume", "--set", "training.epochs=7", "-o", tmp_path / "run")
    refused = decentrl("align", *files, *QUICK, *often, *other)
    assert refused.code == 2
    assert "run was not begun with training.epochs=7; leave that out" in refused.err
    # The folder alone says how: no file, preset or seed has to be given again (but may be).
    again = decentrl(
        "align", "--resume", *often, "--json", "--device", "cpu", "-o", tmp_path / "run"
    )
    whole = decentrl("align", *files, *QUICK, *often, "--json", "-o", tmp_path / "whole")
    assert again.code == 0
    assert json.loads(again.out)["results"] == json.loads(whole.out)["results"]


@pytest.mark.parametrize("place", [1, 2, 3, 4])
def test_several_seeds_go_on_where_they_were(
    decentrl: Command,
    files: tuple[object, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: int,
) -> None:
    run, often = tmp_path / "run", ("--set", "training.checkpoint_every=0", "--seeds", "2")
    with monkeypatch.context() as patch:
        interrupt_at(patch, place)
        assert decentrl("align", *files, *QUICK, *often, "-o", run).code == 130
    # A kill before the settings of a seed are whole.
    if not (run / "seed-1").exists():
        (run / "seed-1").mkdir()
        (run / "seed-1" / "config.toml.part").write_text("preset = ")
    again = decentrl("align", "--resume", "--seeds", "2", "--json", "--device", "cpu", "-o", run)
    whole = decentrl("align", *files, *QUICK, *often, "--json", "-o", tmp_path / "whole")
    assert again.code == 0, again.err
    assert json.loads(again.out)["results"] == json.loads(whole.out)["results"]
    assert read_settings(run / "seed-1")[1].preset == "tiny"


def test_a_finished_run_is_not_resumed(decentrl: Command, world_run: Path) -> None:
    before = tree(world_run)
    done = decentrl("align", "--resume", "-o", world_run)
    assert done.code == 2
    assert done.err == f"error: {world_run}: this run is finished; `decentrl info` shows it\n"
    assert tree(world_run) == before


# Overwriting


def test_overwrite_replaces_a_run_whole(
    decentrl: Command, files: tuple[object, ...], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    assert decentrl("align", *files, *QUICK, "--seeds", "2", "-o", run).code == 0
    assert decentrl("align", *files, *QUICK, "--overwrite", "-o", run).code == 0
    assert not (run / "seed-0").exists()
    (run / "note.txt").write_text("of the old run")
    assert decentrl("align", *files, *QUICK, "--seed", "3", "--overwrite", "-o", run).code == 0
    assert not (run / "note.txt").exists()
    assert read_settings(run)[1].seed == 3
    assert decentrl("align", *files, *QUICK, "--overwrite", "-o", tmp_path / "new").code == 0


def test_overwrite_replaces_nothing_but_runs(
    decentrl: Command, files: tuple[object, ...], tmp_path: Path
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "config.toml").write_text("title = 'my site'\n")
    done = decentrl("align", *files, *QUICK, "--overwrite", "-o", site)
    assert (done.code, done.out) == (2, "")
    assert "is not a run, so it is not overwritten" in done.err
    assert tree(site) == {"config.toml": b"title = 'my site'\n"}


@pytest.mark.parametrize(
    "wrong",
    [
        ("--links", "absent.tsv"),
        ("--device", "cuda"),
        ("--device", "abacus"),
        ("--holdout", "3"),
        ("--set", "model.dim=0"),
    ],
)
def test_bad_input_does_not_cost_the_old_run(
    decentrl: Command,
    twin_files: dict[str, Path],
    tmp_path: Path,
    world_run: Path,
    monkeypatch: pytest.MonkeyPatch,
    wrong: tuple[str, str],
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    run = tmp_path / "run"
    shutil.copytree(world_run, run)
    before = tree(run)
    files = (twin_files["left"], twin_files["right"], "--links", twin_files["links"])
    done = decentrl("align", *files, *QUICK, *wrong, "--overwrite", "-o", run)
    assert done.code == 2
    assert tree(run) == before
