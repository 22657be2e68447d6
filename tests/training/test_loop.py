"""The loop: when it stops, what it keeps, and that an interruption leaves no trace."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from decentrl.config import Steps
from decentrl.config.prediction import PathsTraining
from decentrl.errors import DecentRLError
from decentrl.training import loop
from decentrl.training.loop import METRICS, Row


class Counting(nn.Module):
    """A weight, and a buffer that counts the epochs so that validation can follow a script."""

    epochs: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))
        self.register_buffer("epochs", torch.zeros((), dtype=torch.int64))


class Half(Counting):
    """With a part that may learn more slowly."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = nn.Linear(1, 4, bias=False)

    @property
    def encoder_parts(self) -> list[nn.Module | None]:
        return [self.slow, None]


class Toy:
    """Steps that use both sources of chance; the validation of epoch i is ``script[i - 1]``."""

    def __init__(self, script: Sequence[float] = ()) -> None:
        torch.manual_seed(0)
        self.model = Counting()
        self.script = script
        self.validated: list[int] = []

    def batches(self, rng: np.random.Generator) -> Iterator[np.ndarray[Any, Any]]:
        self.model.epochs += 1
        yield from rng.permutation(6).reshape(3, 2)

    def loss(self, batch: np.ndarray[Any, Any], rng: np.random.Generator) -> Tensor:
        noise = torch.rand(4) * float(batch.sum()) + float(rng.random())
        return (self.model.weight * noise).square().sum()

    def validate(self) -> dict[str, float] | None:
        epoch = int(self.model.epochs)
        self.validated.append(epoch)
        return {"mrr": self.script[epoch - 1], "hits@1": 0.0} if self.script else None


def train(toy: Toy, settings: Steps, seed: int, **how: Any) -> list[Row]:
    return loop.train(toy, settings, seed, validate=toy.validate, **how)


class Killed(BaseException):
    """Not one of ours, as a kill is not."""


def kill_after(epoch: int) -> Any:
    def on_epoch(row: Row) -> None:
        if row["epoch"] > epoch:
            raise Killed

    return on_epoch


@dataclass(frozen=True)
class AllSteps(Steps):
    """Every training setting that some encoder has; for others they are constants."""

    batch: int = 0
    optimizer: Any = "adam"
    learning_rate: float = 2e-3
    validate_every: int = 1  # type: ignore[misc]
    patience: int = 3  # type: ignore[misc]
    schedule: str = "constant"  # type: ignore[misc]
    encoder_rate: float = 1.0  # type: ignore[misc]


def config(**changes: Any) -> AllSteps:
    return AllSteps(**{"epochs": 8, "checkpoint_every": 0.0, **changes})


def without_seconds(rows: Sequence[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def read_metrics(run: Path) -> list[Row]:
    return [json.loads(line) for line in (run / METRICS).read_text("utf-8").splitlines()]


def test_it_stops_after_so_many_validations_without_a_better_one_and_keeps_the_best() -> None:
    toy = Toy(script=[0.1, 0.5, 0.2, 0.5, 0.4, 0.9, 0.9, 0.9])
    history = train(toy, config(patience=3), seed=0)
    assert [row["epoch"] for row in history] == [1, 2, 3, 4, 5]
    assert int(toy.model.epochs) == 2  # an equal value is no better one
    assert [row["valid_mrr"] for row in history] == [0.1, 0.5, 0.2, 0.5, 0.4]


def test_without_patience_it_goes_to_the_end_and_still_keeps_the_best() -> None:
    toy = Toy(script=[0.9, *[0.1] * 7])
    assert len(train(toy, config(patience=0), seed=0)) == 8
    assert int(toy.model.epochs) == 1


def test_it_validates_now_and_then_and_at_the_end() -> None:
    toy = Toy(script=[0.1 * i for i in range(8)])
    history = train(toy, config(validate_every=3), seed=0)
    assert toy.validated == [3, 6, 8]
    assert [row["epoch"] for row in history if "valid_mrr" in row] == [3, 6, 8]


def test_without_held_out_data_the_last_weights_stay() -> None:
    toy = Toy()
    history = train(toy, config(patience=1), seed=0)
    assert (len(history), int(toy.model.epochs)) == (8, 8)
    assert not any("valid" in name for row in history for name in row)


@pytest.mark.parametrize("schedule", ["constant", "linear"])
@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "adagrad"])
@pytest.mark.parametrize("epoch", range(8))
def test_a_run_killed_in_any_epoch_and_resumed_equals_the_uninterrupted_one(
    tmp_path: Path, epoch: int, optimizer: str, schedule: str
) -> None:
    script = [0.3, 0.1, 0.2, 0.4, 0.1, 0.1, 0.3, 0.2]
    settings = config(optimizer=optimizer, schedule=schedule)
    whole = Toy(script)
    expected = train(whole, settings, seed=3, run=tmp_path / "whole")

    first = Toy(script)
    try:
        train(first, settings, seed=3, run=tmp_path / "run", on_epoch=kill_after(epoch))
    except Killed:
        assert epoch < len(expected)
    # What a kill in the middle of a line leaves.
    with (tmp_path / "run" / METRICS).open("a") as file:
        file.write('{"epoch": ')
    second = Toy(script)
    torch.rand(epoch)  # the state of torch's generator must come from the checkpoint
    if epoch == 0:
        torch.manual_seed(0)
        second = Toy(script)  # killed before the first checkpoint: a start from nothing
    found = train(second, settings, seed=3, run=tmp_path / "run", resume=True)

    assert without_seconds(found) == without_seconds(expected)
    assert torch.equal(second.model.weight, whole.model.weight)
    assert int(second.model.epochs) == int(whole.model.epochs) == 4
    assert without_seconds(read_metrics(tmp_path / "run")) == without_seconds(expected)


def test_resuming_a_run_that_ended_trains_no_more(tmp_path: Path) -> None:
    toy = Toy()
    history = train(toy, config(), seed=0, run=tmp_path)
    again = Toy()
    assert train(again, config(), seed=0, run=tmp_path, resume=True) == history
    assert torch.equal(again.model.weight, toy.model.weight)


def test_metrics_hold_a_line_an_epoch(tmp_path: Path) -> None:
    rows: list[Row] = []
    history = train(Toy(), config(), seed=0, run=tmp_path, on_epoch=rows.append)
    assert read_metrics(tmp_path) == history == rows
    assert all(row["seconds"] >= 0 for row in history)


def test_checkpoints_are_rare_but_the_last_epoch_has_one(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        train(
            Toy(), config(checkpoint_every=1e6), seed=0, run=tmp_path / "a", on_epoch=kill_after(6)
        )
    assert not (tmp_path / "a" / "checkpoint").exists()
    train(Toy(), config(checkpoint_every=1e6), seed=0, run=tmp_path / "b")
    assert [path.name for path in (tmp_path / "b" / "checkpoint").iterdir()] == [
        "checkpoint.safetensors"
    ]


def test_a_loss_that_is_no_number_ends_the_run_in_its_epoch() -> None:
    toy = Toy()
    original = toy.loss

    def loss(batch: np.ndarray[Any, Any], rng: np.random.Generator) -> Tensor:
        return original(batch, rng) * (float("nan") if toy.model.epochs == 3 else 1.0)

    toy.loss = loss  # type: ignore[method-assign]
    with pytest.raises(DecentRLError, match="loss is nan in epoch 3; lower training"):
        train(toy, config(), seed=0)


def test_the_seed_decides() -> None:
    def weight(seed: int) -> Tensor:
        toy = Toy()
        train(toy, config(), seed=seed)
        return toy.model.weight.detach()

    assert torch.equal(weight(1), weight(1))
    assert not torch.equal(weight(1), weight(2))


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "adagrad"])
def test_the_first_step_is_that_of_the_named_optimizer(optimizer: str) -> None:
    toy = Toy()
    before = toy.model.weight.detach().double()
    toy.batches = lambda _: [np.array([1, 2])]  # type: ignore[assignment, method-assign]
    toy.loss = lambda *_: toy.model.weight.square().sum()  # type: ignore[method-assign]
    train(toy, config(optimizer=optimizer, epochs=1, learning_rate=0.01), seed=0)
    slope = 2 * before
    # Adam's averages start unbiased, Adagrad has a sum; of RMSprop's, a tenth of the first square
    # counts.
    scale = (0.1 * slope.square()).sqrt() if optimizer == "rmsprop" else slope.abs()
    torch.testing.assert_close(
        toy.model.weight.detach().double(), before - 0.01 * slope / scale, rtol=1e-5, atol=1e-6
    )


def steps(settings: AllSteps) -> Tensor:
    """How far a weight of constant slope moves in each epoch of one step."""
    toy, places = Toy(), list[Tensor]()

    def batches(_: np.random.Generator) -> list[int]:
        places.append(toy.model.weight[0].detach().double().clone())
        return [0]

    toy.batches = batches  # type: ignore[assignment, method-assign]
    toy.loss = lambda *_: toy.model.weight.sum()  # type: ignore[method-assign]
    train(toy, settings, seed=0)
    return torch.stack([*places, toy.model.weight[0].detach().double()]).diff()


@pytest.mark.parametrize("optimizer", ["adam", "adagrad"])
def test_a_linear_schedule_lowers_the_rate_to_nothing_after_the_last_epoch(optimizer: str) -> None:
    flat = steps(config(epochs=5, optimizer=optimizer, learning_rate=0.1))
    found = steps(config(epochs=5, optimizer=optimizer, learning_rate=0.1, schedule="linear"))
    shares = torch.tensor([1.0, 0.8, 0.6, 0.4, 0.2], dtype=torch.float64)
    assert flat.abs().min() > 0.04
    torch.testing.assert_close(found, shares * flat, rtol=1e-4, atol=1e-6)


def test_steps_of_adam_stay_and_those_of_adagrad_shrink_with_all_that_was_before() -> None:
    settings = {"epochs": 6, "learning_rate": 0.1}
    every = torch.arange(1, 7, dtype=torch.float64)
    for optimizer, sizes in (("adam", every**0), ("adagrad", every**-0.5)):
        found = steps(config(optimizer=optimizer, **settings))
        torch.testing.assert_close(found, -0.1 * sizes, rtol=1e-4, atol=1e-6)


# Stages.


def test_rows_of_a_stage_carry_its_name_and_those_without_one_do_not() -> None:
    assert all(row["stage"] == "later" for row in train(Toy(), config(), seed=0, stage="later"))
    assert all("stage" not in row for row in train(Toy(), config(), seed=0))


def test_each_stage_has_a_checkpoint_of_its_own_and_leaves_the_rows_before(tmp_path: Path) -> None:
    toy = Toy()
    first = train(toy, config(epochs=2), seed=0, run=tmp_path)
    second = train(toy, config(epochs=3), seed=1, run=tmp_path, stage="later", before=first)
    assert [row["epoch"] for row in second] == [1, 2, 3]
    assert read_metrics(tmp_path) == first + second
    kept = {path.parent.relative_to(tmp_path) for path in tmp_path.rglob("*.safetensors")}
    assert kept == {Path("checkpoint"), Path("checkpoint/later")}


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
@pytest.mark.parametrize("killed", range(5))
def test_stages_killed_in_any_epoch_and_resumed_equal_uninterrupted_ones(
    tmp_path: Path, killed: int, optimizer: str
) -> None:
    def both(run: Path, resume: bool = False, kill_in: int = -1) -> tuple[Toy, list[Row]]:
        toy, seen, history = Toy(), [], list[Row]()

        def on_epoch(row: Row) -> None:
            if len(seen) == kill_in:
                raise Killed
            seen.append(row)

        for seed, (stage, epochs) in enumerate((("", 2), ("later", 3))):
            torch.manual_seed(seed)
            settings = config(epochs=epochs, optimizer=optimizer)
            history += train(
                toy, settings, seed, run=run, resume=resume, on_epoch=on_epoch, stage=stage,
                before=history,
            )  # fmt: skip
        return toy, history

    whole, expected = both(tmp_path / "whole")
    with pytest.raises(Killed):
        both(tmp_path / "run", kill_in=killed)
    assert without_seconds(read_metrics(tmp_path / "run")) == without_seconds(expected[:killed])
    toy, found = both(tmp_path / "run", resume=True)
    assert torch.equal(toy.model.weight, whole.model.weight)
    assert without_seconds(found) == without_seconds(expected)
    assert without_seconds(read_metrics(tmp_path / "run")) == without_seconds(expected)


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop", "adagrad"])
@pytest.mark.parametrize("schedule", ["constant", "linear"])
def test_an_encoder_may_learn_at_a_share_of_the_rate(optimizer: str, schedule: str) -> None:
    moved: dict[float, dict[str, Tensor]] = {}
    for share in (1.0, 0.01, 0.0):
        torch.manual_seed(0)
        toy = Toy()
        toy.model = model = Half()
        toy.loss = lambda *_, m=model: (m.weight + m.slow.weight[:, 0]).square().sum()  # type: ignore[method-assign]
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        settings = config(
            epochs=2, learning_rate=1e-3, encoder_rate=share, optimizer=optimizer, schedule=schedule
        )
        train(toy, settings, seed=0)
        moved[share] = {n: (t - before[n]).abs().double() for n, t in model.state_dict().items()}
    assert not moved[0.0]["slow.weight"].any()
    for share in (0.01, 0.0):
        torch.testing.assert_close(moved[share]["weight"], moved[1.0]["weight"], rtol=0.05, atol=0)
    torch.testing.assert_close(
        moved[0.01]["slow.weight"], 0.01 * moved[1.0]["slow.weight"], rtol=0.05, atol=1e-7
    )


# A rate for each step, and gradients of a bounded length


class Listed(Toy):
    """As many steps in every epoch, each of which leaves its rate and gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.rates: list[float] = []

    def batches(self, rng: np.random.Generator) -> Any:
        return list(rng.permutation(8).reshape(4, 2))


def test_the_rate_grows_and_then_falls_from_step_to_step(monkeypatch: pytest.MonkeyPatch) -> None:
    toy, lengths = Listed(), list[float]()
    config = PathsTraining(epochs=3, learning_rate=1.0)
    monkeypatch.setattr(PathsTraining, "warm_up", 3)
    original = torch.optim.AdamW.step

    def step(self: torch.optim.AdamW, *arguments: Any) -> Any:
        toy.rates.append(self.param_groups[0]["lr"])
        gradients = [p.grad for group in self.param_groups for p in group["params"]]
        lengths.append(max(float(gradient.norm()) for gradient in gradients))
        return original(self, *arguments)

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    loop.train(toy, config, 0)
    expected = [min(1, (k + 1) / 3) * (1 - k / 12) for k in range(12)]
    assert toy.rates == pytest.approx(expected)
    assert max(lengths) <= 1 + 1e-6
