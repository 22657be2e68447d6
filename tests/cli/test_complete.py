"""``decentrl complete``: what it prints, what it leaves, what it refuses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decentrl import Predictor
from decentrl.config import PredictionConfig
from decentrl.runs.run import read_settings
from decentrl.training import loop

Command = Callable[..., Any]
QUICK = (
    "--preset", "paper", "--set", "model.dim=8", "--set", "training.epochs=2",
    "--set", "training.batch=64", "--device", "cpu",
)  # fmt: skip


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_json_is_the_results_and_nothing_else(
    decentrl: Command, people_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = decentrl("complete", people_file, *QUICK, "--json", "-o", run)
    assert done.code == 0, done.err
    assert json.loads(done.out) == json.loads((run / "results.json").read_bytes())
    assert "people: 47 entities, 5 relations, " in done.err
    assert "no --test: 14 triples (10%) were held out to test on; --holdout 0" in done.err


def test_people_get_a_table_a_baseline_examples_and_the_way_on(
    decentrl: Command, people_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = decentrl("complete", people_file, *QUICK, "-o", run)
    assert (done.code, done.err) == (0, "")
    results = json.loads((run / "results.json").read_bytes())
    for part in ("tail (h, r, ?)", "head (?, r, t)", "MRR", "Hits@3", "best answer", "truth"):
        assert part in done.out
    frequency, sure = results["frequency"], results["confidence"]
    said = f"answering by training frequency: MRR {frequency['mrr']:.3f}, Hits@1 "
    assert said + f"{100 * frequency['hits@1']:.1f}, " in done.out
    assert f"probabilities: {sure['mean']:.1%} expected and {sure['right']:.1%} right" in done.out
    assert f"calibration error {sure['ece']:.3f}\n" in done.out
    assert sum(line.startswith((" ✓", " ✗")) for line in done.out.splitlines()) == 10
    assert f"report   {run / 'report.html'}\n" in done.out
    assert done.out.splitlines()[-1].startswith(f"answers  decentrl predict {run} --head ")


def test_valid_and_test_files_are_taken(
    decentrl: Command, people: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    files = {}
    for name, rows in {"a": people[12:], "b": people[:5], "c": people[5:12]}.items():
        files[name] = tmp_path / f"{name}.csv"
        files[name].write_text("".join(",".join(row) + "\n" for row in rows), "utf-8")
    given = (files["a"], "--valid", files["b"], "--test", files["c"])
    done = decentrl("complete", *given, *QUICK, "--json", "-o", tmp_path / "run")
    assert json.loads(done.out)["results"][0]["n"] == 14
    assert "5 validation and 7 test triples" in done.err
    assert "held out" not in done.err


def test_a_dataset_in_the_open_world(decentrl: Command, tmp_path: Path) -> None:
    given = ("--dataset", "world/cldr", "--open-world", "--set", "training.batch=2048")
    done = decentrl("complete", *QUICK, *given, "--json", "-o", tmp_path / "run")
    results = json.loads(done.out)
    assert (results["dataset"], results["open_world"]) == ("world/cldr", True)
    cells = {row["name"]: row["n"] for row in results["results"] if row["group"] == "open world"}
    assert set(cells) >= {"known query, known answer", "new query, known answer"}
    assert sum(cells.values()) == results["results"][0]["n"]
    assert "arrive after training" in done.err
    shown = decentrl("evaluate", tmp_path / "run")
    assert "new query, known answer" in shown.out


FEW = ("--set", "training.epochs=1", "--set", "model.dim=8", "--device", "cpu")


@pytest.mark.parametrize(
    ("given", "small", "preset"),
    [
        ((), True, "paths"),
        (("--open-world",), True, "paths"),
        ((), False, "strong"),
        (("--open-world",), False, "paper"),
        # What is about answers by vectors, or by paths, has them.
        (("--decoder", "distmult"), True, "strong"),
        (("--set", "model.hide=triple"), False, "paths"),
    ],
)
def test_the_default_is_paths_where_the_graph_is_small(
    decentrl: Command, people_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    given: tuple[str, ...], small: bool, preset: str,
) -> None:  # fmt: skip
    if not small:
        monkeypatch.setattr("decentrl.runs.run.SMALL", 3)
    done = decentrl("complete", people_file, *given, *FEW, "-o", tmp_path / "run")
    assert done.code == 0, done.err
    config = read_settings(tmp_path / "run")[1]
    assert (config.preset, config.model.dim) == (preset, 8)
    if "--decoder" not in given and "--set" not in given:
        assert f"preset {preset}, for graphs " in " ".join(done.out.split())
    told = " ".join(decentrl("complete", "--help").out.replace("│", " ").split())
    assert "paths; above 20,000 triples strong, or paper with --open-world" in told


def test_settings_and_seed_reach_the_run(
    decentrl: Command, people_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    asked = ("--set", "decoder.name=transe", "--seed", "7", "--holdout", "0.3")
    assert decentrl("complete", people_file, *QUICK, *asked, "-o", run).code == 0
    sources, config = read_settings(run)
    assert (config.seed, config.decoder.name, config.model.dim) == (7, "transe", 8)
    assert (sources.triples, sources.holdout) == (str(people_file), 0.3)


def test_seeds_make_a_folder_each_and_a_mean(
    decentrl: Command, people_file: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    done = decentrl("complete", people_file, *QUICK, "--seeds", "2", "-o", run)
    assert done.code == 0, done.err
    assert "±" in done.out
    mean = json.loads((run / "results.json").read_bytes())
    parts = [json.loads((run / f"seed-{i}" / "results.json").read_bytes()) for i in (0, 1)]
    assert [part["seed"] for part in parts] == mean["seed"] == [0, 1]
    first, second = (part["results"][0] for part in parts)
    assert mean["results"][0]["mr"] == pytest.approx((first["mr"] + second["mr"]) / 2)
    assert decentrl("info", run).code == 0


def test_a_decoder_by_its_name(decentrl: Command, people_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = decentrl("complete", people_file, *QUICK, "--decoder", "distmult", "-o", run)
    assert done.code == 0
    config = read_settings(run)[1]
    assert isinstance(config, PredictionConfig)
    assert config.decoder.name == "distmult"
    same = Predictor.from_preset("paper", "model.dim=8", decoder="distmult").config
    assert (same.decoder.name, same.model.dim) == ("distmult", 8)
    wrong = decentrl("complete", people_file, "--decoder", "dismult", "-o", tmp_path / "other")
    assert (wrong.code, "decoder.name is 'dismult'; it can be: transe" in wrong.err) == (2, True)


def test_an_interrupted_run_goes_on(
    decentrl: Command, people_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = ("--set", "training.checkpoint_every=0", "--set", "training.epochs=3")
    original, calls = loop._one_epoch, []

    def one_epoch(*arguments: Any) -> float:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_one_epoch", one_epoch)
        done = decentrl("complete", people_file, *QUICK, *often, "-o", tmp_path / "run")
    assert done.code == 130
    assert done.err == "interrupted; `--resume` goes on from the last checkpoint\n"
    early = decentrl("evaluate", tmp_path / "run")
    assert "run: this run is not finished; go on with it by" in early.err
    wrong = decentrl("align", "--resume", "-o", tmp_path / "run")
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err.endswith("go on with this run by `decentrl complete --resume`\n")
    for other in (("--preset", "quick"), ("--seed", "7"), ("--decoder", "tucker")):
        refused = decentrl("complete", "--resume", *other, "-o", tmp_path / "run")
        assert refused.code == 2
        name = "decoder.name=tucker" if "--decoder" in other else " ".join(other)
        assert f"run was not begun with {name}; leave that out" in refused.err
    again = decentrl("complete", "--resume", "--preset", "paper", "--json", "--device", "cpu",
                     "-o", tmp_path / "run")  # fmt: skip
    whole = decentrl("complete", people_file, *QUICK, *often, "--json", "-o", tmp_path / "whole")
    assert json.loads(again.out)["results"] == json.loads(whole.out)["results"]
    done = decentrl("complete", "--resume", "--preset", "paper", "-o", tmp_path / "run")
    assert "this run is finished" in done.err


def test_overwrite_replaces_runs_and_bad_input_does_not_cost_them(
    decentrl: Command, people_file: Path, people_run: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(people_run, run)
    before = tree(run)
    for wrong in (
        ("absent.tsv",),
        (people_file, "--device", "abacus"),
        (people_file, "--holdout", "3"),
        (people_file, "--set", "model.dim=0"),
        (people_file, "--test", people_file),
    ):
        done = decentrl("complete", *QUICK, *wrong, "--overwrite", "-o", run)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert tree(run) == before
    assert "already exists" in decentrl("complete", people_file, *QUICK, "-o", run).err
    assert decentrl("complete", people_file, *QUICK, "--overwrite", "-o", run).code == 0
    assert read_settings(run)[1].model.dim == 8


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "give TRIPLES, or --dataset NAME"),
        (("a.tsv", "--dataset", "wn18"), "give either --dataset or files, not both"),
        (("--test", "t.tsv", "--dataset", "wn18"), "give either --dataset or files, not both"),
        (("--dataset", "world"), "world is two graphs, prediction needs one"),
        (("a.tsv", "--set", "matching.keep=3"), "no settings section 'matching'"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(
    decentrl: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = decentrl("complete", *options, *QUICK, "-o", "run")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"error: {says}")
    assert list(tmp_path.iterdir()) == []
