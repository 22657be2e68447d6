"""The run folder: what is in it, how it is resumed, what is never lost."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from decentrl.aligner import Aligner
from decentrl.config import Config, PredictionConfig
from decentrl.config.settings import section_names
from decentrl.errors import BundleError, DecentRLError, DivergedError, InputError
from decentrl.predictor import Predictor
from decentrl.runs.folder import making
from decentrl.runs.report.collect import make_report, pick_samples
from decentrl.runs.run import average, make_run, read_settings, write_report
from decentrl.runs.sources import GraphSources, Grown, Sources, whole_paths
from decentrl.training.loop import Row

QUICK = ("model.dim=8", "training.epochs=2")


@pytest.fixture
def sources(twin_files: dict[str, Path]) -> Sources:
    left, right, links = (str(twin_files[name]) for name in ("left", "right", "links"))
    return Sources(left=left, right=right, links=links, test_links=str(twin_files["test"]))


def config(*settings: str, seed: int = 0) -> Config:
    return Config.from_preset("tiny", (*QUICK, *settings), seed)


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


# What is in it


def test_a_run_leaves_these_files_and_no_other(world_run: Path) -> None:
    assert names(world_run) == {
        "config.toml",
        "metrics.jsonl",
        "results.json",
        "matches.parquet",
        "report.html",
        "checkpoint/checkpoint.safetensors",
        "bundle/README.md",
        "bundle/attributes.parquet",
        "bundle/bundle.json",
        "bundle/config.toml",
        "bundle/graphs.safetensors",
        "bundle/labels.parquet",
        "bundle/matching.safetensors",
        "bundle/memory.safetensors",
        "bundle/names.parquet",
        "bundle/vectors.safetensors",
        "bundle/weights.safetensors",
    }


METRICS = ["hits@1", "hits@5", "hits@10", "hits@50", "mr", "mrr"]


def check_results(results: dict[str, Any]) -> None:
    """As documented, key for key and in this order."""
    assert list(results) == [
        "dataset", "open_world", "preset", "seed", "device", "seconds", "peak_memory_bytes",
        "results", "matches", "apart", "self_training", "confidence", "sha256",
    ]  # fmt: skip
    for row in results["matches"]:
        shares = ["hits@1", "precision", "recall", "f1"]
        assert sorted(row) == sorted(["matcher", "subset", "n", "claimed", "judged", *shares])
        assert row["subset"] in ("all", "known", "unknown")
        assert all(0 <= row[name] <= 1 for name in shares)
    assert list(results["seconds"]) == ["read", "train", "match"]
    assert all(value >= 0 for value in results["seconds"].values())
    assert isinstance(results["peak_memory_bytes"], int)
    assert results["peak_memory_bytes"] > 2**20
    for row in results["results"]:
        place = ["direction", "matcher", "candidates", "subset", "n"]
        assert sorted(row) == sorted([*place, *METRICS])
        assert row["direction"] in ("left-right", "right-left")
        assert row["matcher"] in ("cosine", "csls", "sinkhorn")
        assert row["candidates"] in ("test", "all")
        assert row["subset"] in ("all", "known", "unknown")
        assert all(0 <= row[name] <= 1 for name in METRICS if name != "mr")  # fractions
        assert row["mr"] >= 1
        assert row["hits@1"] <= row["hits@5"] <= row["hits@10"] <= row["hits@50"]
    assert list(results["self_training"]) == ["rounds", "validation"]
    for row in results["self_training"]["validation"]:
        assert list(row) == ["hits@1", "hits@10", "mrr"]
        assert all(0 <= value <= 1 for value in row.values())
    assert list(results["confidence"]) == ["ece", "mean", "right", "threshold"]
    assert all(0 <= value <= 1 for value in results["confidence"].values())


def test_results_have_the_documented_keys(world_run: Path, open_run: Path) -> None:
    closed, opened = (json.loads((run / "results.json").read_bytes()) for run in (world_run, open_run))  # fmt: skip  # noqa: E501
    check_results(closed)
    check_results(opened)
    assert (closed["dataset"], closed["open_world"], closed["preset"]) == ("world", False, "tiny")
    assert (closed["seed"], closed["device"], opened["open_world"]) == (0, "cpu", True)
    assert len(closed["results"]) == 2 * 3 * 2
    assert len(opened["results"]) == 3 * 2 * 3 * 2
    assert {row["subset"] for row in closed["results"]} == {"all"}
    # Without self-training there is one round to tell of, the one without it.
    assert closed["self_training"]["rounds"] == 0
    assert len(closed["self_training"]["validation"]) == 1


def test_without_validation_links_results_have_no_rounds_and_no_confidence(
    tmp_path: Path, sources: Sources
) -> None:
    _, results = make_run(sources, config("training.valid=0"), tmp_path / "run", device="cpu")
    assert results["self_training"] == {"rounds": 0, "validation": []}
    assert results["confidence"] == {}
    assert results == json.loads((tmp_path / "run" / "results.json").read_bytes())


def test_self_training_is_told_round_by_round(tmp_path: Path, sources: Sources) -> None:
    settings = ("self_training.rounds=2", "self_training.epochs=1", "training.refit=true")
    aligner, results = make_run(sources, config(*settings), tmp_path / "run", device="cpu")
    told = results["self_training"]
    assert len(told["validation"]) == 3
    values = [row["mrr"] for row in told["validation"]]
    assert told["rounds"] == aligner.chosen_rounds
    assert told["rounds"] >= values.index(max(values))
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    stages = [(row.get("stage", ""), row["epoch"]) for row in rows]
    refit = [("refit-0", 1), ("refit-0", 2), ("refit-1", 1), ("refit-2", 1)]
    assert stages == [
        *[("", 1), ("", 2), ("train-1", 1), ("train-2", 1)],
        *refit[: 2 + told["rounds"]],
    ]
    # Every part has a checkpoint of its own.
    kept = {str(f.parent.relative_to(tmp_path / "run")) for f in tmp_path.rglob("checkpoint.safe*")}
    assert kept == {f"checkpoint/{stage}".rstrip("/") for stage, _ in stages}


def test_settings_are_all_written_down(world_run: Path) -> None:
    values = tomllib.loads((world_run / "config.toml").read_text("utf-8"))
    assert set(values) == {"preset", "seed", "run", *section_names(Config)}
    assert values["run"]["dataset"] == "world"
    assert set(asdict(Sources())) | {"data_sha256", "decentrl", "command"} == set(values["run"])
    origin, found = read_settings(world_run)
    assert found == Config.from_preset("tiny", ["training.epochs=3"])
    assert origin == Sources(dataset="world")


@pytest.mark.parametrize(
    "odd", [Sources(left='a "b"\\c\td', right="é 東京", links="'", holdout=0.25, format="nt")]
)
def test_settings_come_back_whatever_a_file_is_called(
    tmp_path: Path, odd: Sources, twin_files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sources, "read", lambda self, seed: read_twins(twin_files))
    make_run(odd, config(seed=5), tmp_path / "run", device="cpu")
    assert read_settings(tmp_path / "run") == (whole_paths(odd), config(seed=5))


def read_twins(twin_files: dict[str, Path]) -> Any:
    from decentrl.data.alignment_task import AlignmentTask

    return AlignmentTask.read(*(twin_files[name] for name in ("left", "right", "links", "test")))


def test_metrics_have_a_line_an_epoch(world_run: Path) -> None:
    rows = [json.loads(line) for line in (world_run / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    assert all({"epoch", "loss", "seconds"} <= set(row) for row in rows)
    assert {"valid_hits@1", "valid_hits@10", "valid_mrr"} <= set(rows[-1])


def test_matches_are_a_parquet_table_of_what_is_not_linked(world_run: Path) -> None:
    table = pq.read_table(world_run / "matches.parquet")
    names = ["left_name", "right_name"]
    assert table.schema.names == ["left", "right", "rank", "score", "confidence", *names]
    assert table.num_rows == 1859 - 280
    assert set(table["rank"].to_pylist()) == {1}


def test_the_report_shows_this_run(world_run: Path) -> None:
    page = (world_run / "report.html").read_text("utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert "1,859 entities" in page
    assert "<svg" in page


# Where a task comes from


def test_without_test_links_some_links_are_held_out(sources: Sources) -> None:
    given = sources.read(0)
    assert (len(given.train), len(given.test)) == (25, 15)
    held = replace(sources, test_links="", holdout=0.2)
    task = held.read(0)
    assert (len(task.train), len(task.test)) == (20, 5)
    assert task.test.tolist() != held.read(1).test.tolist()
    assert len(replace(held, holdout=0.0).read(0).test) == 0


def test_one_graph_cannot_be_aligned() -> None:
    with pytest.raises(InputError, match=r"world/cldr is one graph, alignment needs two; .*list"):
        Sources(dataset="world/cldr").read(0)


# What is there already, and what goes wrong


def test_two_runs_are_never_mixed(tmp_path: Path, sources: Sources) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="run: already exists; choose another -o, or add --resume"):
        make_run(sources, config(), folder, device="cpu")
    assert names(folder) == {"thesis.tex"}
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="already exists"):
        make_run(sources, config(), file, device="cpu")
    with pytest.raises(InputError, match=r"cannot make this folder \(Not a directory\)"):
        make_run(sources, config(), file / "run", device="cpu")


def test_an_empty_folder_may_be_used(tmp_path: Path, sources: Sources) -> None:
    make_run(sources, config(), tmp_path, device="cpu")
    assert (tmp_path / "results.json").exists()


def test_what_cannot_be_learned_leaves_nothing(tmp_path: Path, sources: Sources) -> None:
    for bad in ("training.valid=1.5", "training.learning_rate=1e30"):
        with pytest.raises(DecentRLError):
            make_run(sources, config(bad), tmp_path / "deep" / "in" / "run", device="cpu")
        assert list(tmp_path.iterdir()) == []
    (tmp_path / "mine").mkdir()
    with pytest.raises(DecentRLError):
        make_run(sources, config("training.valid=1.5"), tmp_path / "mine", device="cpu")
    assert [path.name for path in tmp_path.rglob("*")] == ["mine"]


def diverge(*_: Any, **__: Any) -> Any:
    raise DivergedError("the scores are not finite")


@pytest.mark.parametrize("place", ["fit", "evaluate", "match", "save"])
@pytest.mark.parametrize("replaces", [False, True])
def test_nothing_is_left_of_a_training_that_diverges(
    tmp_path: Path, sources: Sources, world_run: Path, monkeypatch: pytest.MonkeyPatch,
    place: str, replaces: bool,
) -> None:  # fmt: skip
    """Whenever it is noticed; its checkpoint would only diverge again."""
    run = tmp_path / "run"
    if replaces:
        shutil.copytree(world_run, run)
    before = names(run) if replaces else None
    fit = Aligner.fit

    def fit_and_diverge(self: Aligner, *arguments: Any, **more: Any) -> None:
        fit(self, *arguments, **more)
        diverge()

    monkeypatch.setattr(Aligner, place, fit_and_diverge if place == "fit" else diverge)
    often = config("training.checkpoint_every=0")
    with pytest.raises(DivergedError):
        make_run(sources, often, run, device="cpu", overwrite=replaces)
    assert (names(run) if replaces else list(tmp_path.iterdir())) == (before or [])


@pytest.mark.parametrize("replaces", [False, True])
def test_nothing_is_left_of_a_training_that_diverges_once_resumed(
    tmp_path: Path, sources: Sources, world_run: Path, monkeypatch: pytest.MonkeyPatch,
    replaces: bool,
) -> None:  # fmt: skip
    run = tmp_path / "run"
    if replaces:
        shutil.copytree(world_run, run)
    before = names(run) if replaces else None
    start_and_kill(sources, run, overwrite=replaces)
    assert (run / "checkpoint").exists()
    monkeypatch.setattr(Aligner, "match", diverge)
    often = config("training.checkpoint_every=0")
    with pytest.raises(DivergedError):
        make_run(sources, often, run, device="cpu", resume=True)
    assert names(run) == (before or names(tmp_path / "absent"))


class Killed(BaseException):
    """Not one of ours, as a kill is not."""


def start_and_kill(sources: Sources, folder: Path, *settings: str, overwrite: bool = False) -> None:
    def on_epoch(row: Row) -> None:
        if row["epoch"] == 2:
            raise Killed

    used = config("training.checkpoint_every=0", *settings)
    with pytest.raises(Killed):
        make_run(sources, used, folder, device="cpu", on_epoch=on_epoch, overwrite=overwrite)


def test_a_run_is_not_resumed_over_other_data(
    tmp_path: Path, sources: Sources, twin_files: dict[str, Path]
) -> None:
    links = tmp_path / "links.tsv"
    shutil.copy(twin_files["links"], links)
    changed = replace(sources, links=str(links))
    start_and_kill(changed, tmp_path / "run")
    before = names(tmp_path / "run")
    lines = links.read_text().splitlines(True)
    links.write_text("".join(lines[:-1]))
    origin, used = read_settings(tmp_path / "run")
    with pytest.raises(InputError, match="the input has changed since this run began; start a new"):
        make_run(origin, used, tmp_path / "run", device="cpu", resume=True)
    assert names(tmp_path / "run") == before
    links.write_text("".join(lines))
    make_run(origin, used, tmp_path / "run", device="cpu", resume=True)


def test_a_damaged_checkpoint_is_named_and_costs_nothing(tmp_path: Path, sources: Sources) -> None:
    start_and_kill(sources, tmp_path / "run")
    file = tmp_path / "run" / "checkpoint" / "checkpoint.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[:-100])
    origin, used = read_settings(tmp_path / "run")
    with pytest.raises(BundleError, match=r"checkpoint\.safetensors: .*damaged.*delete it"):
        make_run(origin, used, tmp_path / "run", device="cpu", resume=True)
    assert (tmp_path / "run" / "config.toml").exists()
    file.unlink()
    make_run(origin, used, tmp_path / "run", device="cpu", resume=True)


BROKEN = {
    "no settings": None,
    "empty": b"",
    "no TOML": b"= =",
    "no UTF-8": b"\xff\xfe",
    "without its origin": b'preset = "tiny"\nseed = 0\n',
    "of another tool": b"[run]\nspeed = 3\n",
    "with an impossible value": b"DIM",
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_a_folder_that_is_no_run_cannot_be_resumed(
    tmp_path: Path, world_run: Path, content: bytes | None
) -> None:
    if content == b"DIM":
        content = (world_run / "config.toml").read_bytes().replace(b"dim = 32", b"dim = -1")
    if content is not None:
        (tmp_path / "config.toml").write_bytes(content)
    with pytest.raises(BundleError, match=r"config\.toml: ") as caught:
        read_settings(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "content", [None, b"[params]\ntitle = 'my site'\n", b"", b"\xff", b"run = 3"]
)
def test_only_runs_are_replaced(tmp_path: Path, content: bytes | None) -> None:
    site = tmp_path / "site"
    (site / "seed-0").mkdir(parents=True)
    (site / "seed-0" / "plan.txt").write_text("to grow")
    if content is not None:
        (site / "config.toml").write_bytes(content)
    before = names(site)
    with (
        pytest.raises(InputError, match="site: is not a run, so it is not overwritten; choose"),
        making(site, overwrite=True),
    ):
        raise AssertionError
    assert names(site) == before


def test_runs_of_seeds_are_replaced_if_nothing_else_is_there(
    tmp_path: Path, world_run: Path
) -> None:
    shutil.copytree(world_run, tmp_path / "many" / "seed-0")
    (tmp_path / "many" / "notes.txt").write_text("dear", "utf-8")
    many = tmp_path / "many"
    with pytest.raises(InputError, match="many: is not a run"), making(many, overwrite=True):
        raise AssertionError
    assert sorted(path.name for path in many.iterdir()) == ["notes.txt", "seed-0"]
    (tmp_path / "many" / "notes.txt").unlink()
    shutil.copytree(world_run, tmp_path / "one")
    for name in ("one", "many", "absent"):
        with making(tmp_path / name, overwrite=True):
            left = {path.name for path in (tmp_path / name).iterdir()}
            assert left == ({"before-overwrite"} if name != "absent" else set())
        assert [*tmp_path.glob(f"{name}/*")] == []


@pytest.mark.parametrize(
    ("error", "begun", "kept"),
    [
        (ValueError, True, True),
        (InputError, False, True),
        (KeyboardInterrupt, True, True),  # beside the other one, which can be resumed
        (KeyboardInterrupt, False, True),
    ],
)
def test_an_old_run_is_kept_until_there_is_another(
    tmp_path: Path, world_run: Path, error: type[BaseException], begun: bool, kept: bool
) -> None:
    run = tmp_path / "run"
    shutil.copytree(world_run, run)
    before = names(run)

    def fail() -> None:
        if begun:
            (run / "config.toml").write_text("new", "utf-8")
        raise error("no")

    with pytest.raises(error), making(run, overwrite=True):
        fail()
    if begun and error is KeyboardInterrupt:
        assert names(run / "before-overwrite") == before
        assert {path.name for path in run.iterdir()} == {"before-overwrite", "config.toml"}
    else:
        assert (names(run) == before) == kept
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_nobody_else_trains_a_run_meanwhile(
    decentrl: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, told = tmp_path / "run", []
    original = Aligner.fit

    def fit(self: Aligner, *arguments: Any, **more: Any) -> Aligner:
        resume = [sys.executable, "-m", "decentrl", "align", "--resume", "-o", str(run)]
        told.append(subprocess.run(resume, capture_output=True, text=True, check=False))
        return original(self, *arguments, **more)

    monkeypatch.setattr(Aligner, "fit", fit)
    quick = ("--preset", "tiny", "--set", "training.epochs=1", "--device", "cpu")
    assert decentrl("align", "--dataset", "world", *quick, "-o", run).code == 0
    (second,) = told
    assert second.returncode == 2
    assert "run: another process is training this run; wait until it has" in second.stderr


def test_a_link_to_a_run_is_not_replaced(tmp_path: Path, world_run: Path) -> None:
    (tmp_path / "run").symlink_to(world_run)
    with pytest.raises(InputError, match="run: is a link; give the folder"):
        making(tmp_path / "run", overwrite=True).__enter__()


# Several seeds


def test_seeds_are_averaged(world_run: Path) -> None:
    first = json.loads((world_run / "results.json").read_bytes())
    second = json.loads((world_run / "results.json").read_bytes())
    second |= {"seed": 1, "peak_memory_bytes": first["peak_memory_bytes"] + 8}
    second["seconds"]["train"] = first["seconds"]["train"] + 2
    for row in second["results"]:
        row["mr"] += 2
    mean = average([first, second])
    assert mean["seed"] == [0, 1]
    assert mean["seconds"]["train"] == pytest.approx(first["seconds"]["train"] + 1, abs=2e-3)
    assert mean["peak_memory_bytes"] == first["peak_memory_bytes"] + 8
    for before, row in zip(first["results"], mean["results"], strict=True):
        assert row["mr"] == pytest.approx(before["mr"] + 1)
        assert row["mr_std"] == pytest.approx(2**0.5)
        assert (row["mrr"], row["mrr_std"]) == (pytest.approx(before["mrr"]), pytest.approx(0))
        assert {f"{name}_std" for name in METRICS} | set(before) == set(row)
        assert row["n"] == before["n"]
    assert mean["self_training"]["rounds"] == [0, 0]
    (before,), (row,) = (run["self_training"]["validation"] for run in (first, mean))
    assert row == pytest.approx(before)
    assert mean["confidence"] == pytest.approx(first["confidence"])
    second["confidence"] = {name: value / 2 for name, value in first["confidence"].items()}
    assert average([first, second])["confidence"] == pytest.approx(
        {name: 0.75 * value for name, value in first["confidence"].items()}
    )
    unsaid = [{**run, "confidence": {}} for run in (first, second)]
    assert average(unsaid)["confidence"] == {}
    alone = average([first])
    assert all(row["hits@1_std"] == 0 for row in alone["results"])


@pytest.mark.parametrize("size", [0, 1, 5, 12, 13, 100, 654])
def test_samples_are_spread_over_all(size: int) -> None:
    rows = [{"place": i} for i in range(size)]
    places = [row["place"] for row in pick_samples(rows, 12)]
    assert len(places) == min(size, 12)
    assert places == sorted(set(places))
    if size >= 100:
        assert places[0] < size / 6
        assert places[-1] > size * 5 / 6


def test_the_report_counts_the_epochs_of_all_stages_in_one_row(
    sources: Sources, tmp_path: Path
) -> None:
    settings = config("training.refit=true", "training.valid=0.4")
    aligner, results = make_run(sources, settings, tmp_path / "run", device="cpu")
    report = make_report(aligner, results, [], None)
    assert [row["epoch"] for row in aligner.history] == [1, 2, 1, 2]
    assert [row["epoch"] for row in report.history] == [1, 2, 3, 4]
    assert report.matcher == aligner.config.matching.matcher


# One graph


def graph_config(*settings: str, seed: int = 0) -> PredictionConfig:
    small = ("model.dim=8", "training.epochs=3", "training.validate_every=1", "training.batch=64")
    return PredictionConfig.from_preset("paper", (*small, *settings), seed)


@pytest.fixture
def one(people_file: Path) -> GraphSources:
    return GraphSources(triples=str(people_file))


def test_a_run_of_prediction_leaves_these_files_and_no_other(
    people_run: Path, world_run: Path
) -> None:
    named = {"bundle/names.parquet", "bundle/attributes.parquet"}  # this graph has neither
    shared = names(world_run) - named - {"matches.parquet"}
    assert names(people_run) == shared | {"predictions.parquet"}


def test_results_of_prediction_have_the_documented_keys(people_run: Path) -> None:
    results = json.loads((people_run / "results.json").read_bytes())
    assert list(results) == [
        "dataset", "open_world", "task", "preset", "seed", "device", "seconds",
        "peak_memory_bytes", "results", "frequency", "confidence", "sha256",
    ]  # fmt: skip
    assert (results["dataset"], results["task"], results["preset"]) == (
        "people", "prediction", "paper",
    )  # fmt: skip
    assert list(results["seconds"]) == ["read", "train", "evaluate"]
    predictor = Predictor.load(people_run, "cpu")
    assert results["results"] == predictor.evaluate().rows
    assert results["frequency"] == predictor.frequency()
    assert results["confidence"] == predictor.confidence()
    for row in results["results"]:
        assert list(row) == ["group", "name", "n", "mrr", "hits@1", "hits@3", "hits@10", "mr"]


def test_predictions_are_a_parquet_table_of_the_test_questions(people_run: Path) -> None:
    table = pq.read_table(people_run / "predictions.parquet")
    assert Predictor.load(people_run, "cpu").test_predictions().equals(table)
    assert table.num_rows > 0


def test_metrics_and_settings_of_prediction(people_run: Path, people_file: Path) -> None:
    rows = [json.loads(line) for line in (people_run / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
    assert {"valid_mrr", "valid_hits@1", "valid_hits@10"} <= set(rows[-1])
    sources, used = read_settings(people_run)
    assert sources == GraphSources(triples=str(people_file))
    assert used == Predictor.load(people_run, "cpu").config


def test_held_out_shares_of_one_file(one: GraphSources, people: list[Any]) -> None:
    task = one.read(0)
    n = len(people)
    assert (len(task.test), len(task.valid)) == (round(0.1 * n), round(0.1 * n))
    assert len(replace(one, holdout=0.2).read(0).test) == round(0.2 * n)
    assert len(replace(one, holdout=0.0).read(0).test) == 0
    assert len(one.read(0, 0.3).valid) == round(0.3 * n)
    assert one.read(1).test.tolist() != task.test.tolist()
    assert task.name == "people"


def test_files_of_their_own_are_taken_as_they_are(
    people: list[tuple[str, str, str]], tmp_path: Path
) -> None:
    parts = {"train": people[20:], "valid": people[:10], "test": people[10:20]}
    parts["test"] = [*parts["test"], ("person 0", "met", "a stranger")]
    files = {}
    for name, rows in parts.items():
        files[name] = tmp_path / f"{name}.tsv"
        files[name].write_text("".join("\t".join(row) + "\n" for row in rows), "utf-8")
    given = GraphSources(
        triples=str(files["train"]), valid=str(files["valid"]), test=str(files["test"])
    )
    task = given.read(0)
    assert (len(task.graph.triples), len(task.valid), len(task.test)) == (len(people) - 20, 10, 11)
    assert "a stranger" in task.graph.entities
    half = replace(given, valid="").read(0)
    assert half.test.shape == (11, 3)
    assert len(half.valid) == round(0.1 * (len(people) - 20))
    half = replace(given, test="").read(0)
    assert half.valid.shape == (10, 3)
    assert len(half.test) == round(0.1 * (len(people) - 20))
    files["test"].write_text("\t".join(people[0]) + "\n", "utf-8")
    with pytest.raises(InputError, match=r"test\.tsv:1: this test triple is also a validation tri"):
        given.read(0)


def test_two_graphs_cannot_be_completed() -> None:
    with pytest.raises(InputError, match=r"world is two graphs, prediction needs one; .*list"):
        GraphSources(dataset="world").read(0)


def test_without_test_triples_a_run_is_still_whole(one: GraphSources, tmp_path: Path) -> None:
    run = tmp_path / "run"
    _, results = make_run(replace(one, holdout=0.0), graph_config(), run, device="cpu")
    assert (results["results"], results["frequency"], results["confidence"]) == ([], {}, {})
    assert pq.read_table(run / "predictions.parquet").num_rows == 0
    assert (run / "report.html").exists()


def test_prediction_goes_on_after_a_kill_and_ends_alike(one: GraphSources, tmp_path: Path) -> None:
    def on_epoch(row: Row) -> None:
        if row["epoch"] == 2:
            raise Killed

    used = graph_config("training.checkpoint_every=0")
    with pytest.raises(Killed):
        make_run(one, used, tmp_path / "run", device="cpu", on_epoch=on_epoch)
    origin, again = read_settings(tmp_path / "run")
    assert (origin, again) == (one, used)
    resumed = make_run(origin, again, tmp_path / "run", device="cpu", resume=True)
    whole = make_run(one, used, tmp_path / "whole", device="cpu")
    assert resumed[1]["results"] == whole[1]["results"]
    assert resumed[0].vectors().equal(whole[0].vectors())
    assert [row["loss"] for row in resumed[0].history] == [row["loss"] for row in whole[0].history]


def test_a_graph_that_cannot_be_learned_leaves_nothing(one: GraphSources, tmp_path: Path) -> None:
    for bad in (replace(one, holdout=1.5), replace(one, triples="absent.tsv")):
        with pytest.raises(InputError):
            make_run(bad, graph_config(), tmp_path / "deep" / "run", device="cpu")
    with pytest.raises(DecentRLError):
        make_run(one, graph_config("training.learning_rate=1e30"), tmp_path / "run", device="cpu")
    assert list(tmp_path.iterdir()) == []


def test_seeds_that_test_other_relations_are_averaged(people_run: Path) -> None:
    first = json.loads((people_run / "results.json").read_bytes())
    second = json.loads((people_run / "results.json").read_bytes()) | {"seed": 1}
    gone = next(row for row in first["results"] if row["group"] == "relation")
    second["results"] = [row for row in second["results"] if row != gone]
    second["results"].append({**gone, "name": "only here"})
    second["results"].insert(3, {**gone, "group": "category", "name": "9-9"})
    for row in second["results"]:
        row["mrr"] += 0.5
    second["frequency"] = {name: value + 1 for name, value in first["frequency"].items()}
    mean = average([first, second])
    found = {(row["group"], row["name"]): row for row in mean["results"]}
    assert len(found) == len(mean["results"]) == len(first["results"]) + 2
    before = first["results"][0]
    assert found["all", "all"]["mrr"] == pytest.approx(before["mrr"] + 0.25)
    assert found["all", "all"]["mrr_std"] == pytest.approx(0.5 / 2**0.5)
    assert found["relation", gone["name"]]["mrr"] == pytest.approx(gone["mrr"])
    assert found["relation", "only here"]["mrr"] == pytest.approx(gone["mrr"] + 0.5)
    groups = [row["group"] for row in mean["results"]]
    assert [g for i, g in enumerate(groups) if g not in groups[:i]] == [
        "all", "direction", "category", "relation",
    ]  # fmt: skip
    assert groups == sorted(groups, key=["all", "direction", "category", "relation"].index)
    assert mean["frequency"]["mrr"] == pytest.approx(first["frequency"]["mrr"] + 0.5)
    assert "self_training" not in mean


# Training again


@pytest.mark.parametrize("job", ["align", "complete"])
def test_a_refit_killed_between_epochs_goes_on_and_ends_alike(
    job: str, sources: Sources, one: GraphSources, tmp_path: Path
) -> None:
    few = ("training.epochs=4", "training.checkpoint_every=0")
    first, used, new = (
        (sources, config(*few), ("new", "http://left.org/r0", "http://left.org/3"))
        if job == "align"
        else (one, graph_config(*few), ("new", "knows", "person 1"))
    )
    trained, _ = make_run(first, used, tmp_path / "run", device="cpu")
    with type(trained).load(tmp_path / "run", "cpu", durable=True) as model:
        model.add([new], **({"side": "left"} if job == "align" else {}))
    grown = Grown(str(tmp_path / "run"), share=1.0)

    def on_epoch(row: Row) -> None:
        if row["epoch"] == 2:
            raise Killed

    with pytest.raises(Killed):
        make_run(grown, used, tmp_path / "killed", device="cpu", on_epoch=on_epoch)
    origin, again = read_settings(tmp_path / "killed")
    assert (origin, again) == (grown, used)
    resumed, results = make_run(origin, again, tmp_path / "killed", device="cpu", resume=True)
    whole, expected = make_run(grown, used, tmp_path / "whole", device="cpu")
    assert results["results"] == expected["results"]
    for name, side in whole.growing.sides.items():
        assert "new" in side.entities or name == "right"
        assert side.vectors.equal(resumed.growing.sides[name].vectors)


def test_a_report_is_written_without_a_run(world_run: Path, tmp_path: Path) -> None:
    aligner = Aligner.load(world_run)
    found = write_report(aligner, tmp_path / "page.html")
    there = json.loads((world_run / "results.json").read_text("utf-8"))
    assert found["results"] == there["results"]
    page = (tmp_path / "page.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert aligner.task.name in page
