"""A run's key changes with everything that its numbers depend on, and with nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from studies import run as module
from studies.run import Run, data_digest

RUN = Run("alignment", "dbp15k/zh-en", "paper", ("model.dim=64",))


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 1},
        {"unseen": 0.2},
        {"unseen": 0.2, "split": 1},
        {"alone": True},
        {"dataset": "dbp15k/ja-en"},
        {"settings": ("model.dim=128",)},
        {"preset": "paper-code"},
    ],
)
def test_the_key_tells_runs_apart(changed: dict[str, object]) -> None:
    other = replace(RUN, **changed)  # type: ignore[arg-type]
    assert other.key != RUN.key
    assert other.file != RUN.file


def test_the_version_makes_every_run_new(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = RUN, *(Run("prediction", "wn18", f"table-{x}") for x in ("transe", "complex"))
    before = [run.key for run in runs]
    monkeypatch.setattr(module, "RESULTS_VERSION", module.RESULTS_VERSION + 1)
    module._key.cache_clear()
    after = [run.key for run in runs]
    module._key.cache_clear()
    assert not set(before) & set(after)


def test_a_version_of_a_decoder_makes_its_runs_new_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def keys() -> list[str]:
        module._key.cache_clear()
        runs = (Run("prediction", "fb15k-237", f"table-{x}") for x in ("transe", "complex"))
        return [run.key for run in (*runs, RUN)]

    before = keys()
    monkeypatch.setitem(module.DECODER_VERSIONS, "transe", 99)
    after = keys()
    assert [x == y for x, y in zip(before, after, strict=True)] == [False, True, True]
    module._key.cache_clear()


def test_a_version_of_self_training_makes_its_runs_new_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    self_trained = replace(RUN, settings=("self_training.rounds=1",))

    def keys() -> list[str]:
        module._key.cache_clear()
        return [run.key for run in (self_trained, RUN, Run("prediction", "wn18", "strong"))]

    before = keys()
    monkeypatch.setattr(module, "SELF_TRAINING_VERSION", 99)
    after = keys()
    assert [x == y for x, y in zip(before, after, strict=True)] == [False, True, True]
    module._key.cache_clear()


def test_the_same_settings_said_otherwise_are_the_same_run() -> None:
    assert replace(RUN, settings=("model.dim=64", "model.layers=4")).key == RUN.key
    assert replace(RUN, settings=("model.dim=7", "model.dim=64")).key == RUN.key


def test_another_split_is_another_run_and_says_so() -> None:
    published = replace(RUN, unseen=0.2)
    others = [replace(published, split=split) for split in (1, 2)]
    assert len({run.key for run in (published, *others)}) == 3
    assert len({run.file for run in (published, *others)}) == 3
    assert published.published
    assert not any(run.published for run in others)
    assert "data split dbp15k/zh-en --share 0.2 --seed 2 -o SPLIT" in others[1].command


def test_data_has_a_digest_without_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECENTRL_DATA", "/nowhere")
    digests = {data_digest(name) for name in ("dbp15k/zh-en", "fb15k-237", "world", "wn18")}
    assert len(digests) == 4


def test_a_preset_that_is_not_there_is_not_possible() -> None:
    assert RUN.possible
    assert not replace(RUN, preset="of tomorrow").possible
    assert not replace(RUN, settings=("model.of_tomorrow=1",)).possible


def test_the_command_does_the_same_alone() -> None:
    assert replace(RUN, unseen=0.2, seed=3).command == (
        "decentrl align --dataset dbp15k/zh-en --open-world --preset paper "
        "--set model.dim=64 --seed 3 -o RUN"
    )
    gcn = Run("alignment", "world", "gcn").command
    assert gcn.startswith("DECENTRL_PLUGINS=studies.rivals decentrl align --dataset world ")
    split, _, train = replace(RUN, unseen=0.6).command.partition(" && ")
    assert split == "decentrl data split dbp15k/zh-en --share 0.6 -o SPLIT"
    assert "--dataset SPLIT --open-world" in train
