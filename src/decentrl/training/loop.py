"""The training loop of every model: steps, validation, early stopping, checkpoints."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from decentrl.config import Steps
from decentrl.errors import DecentRLError
from decentrl.training.checkpoint import load_checkpoint, save_checkpoint

Row = dict[str, Any]
METRICS = "metrics.jsonl"


class Objective(Protocol):
    """A training objective: a model, its batches, its loss and its validation."""

    @property
    def model(self) -> nn.Module: ...

    def batches(self, rng: np.random.Generator) -> Iterable[Any]: ...

    def loss(self, batch: Any, rng: np.random.Generator) -> Tensor: ...

    def validate(self) -> dict[str, float] | None:
        """Metrics on held-out data, the first of which selects weights; None without data."""
        ...


def train(
    objective: Objective,
    config: Steps,
    seed: int,
    *,
    run: Path | None = None,
    resume: bool = False,
    on_epoch: Callable[[Row], None] | None = None,
    stage: str = "",
    before: Sequence[Row] = (),
    warm: bool = False,
) -> list[Row]:
    """Train in place and return one row an epoch; the best validated weights stay in the model.

    With ``run``, ``metrics.jsonl`` and a checkpoint are kept there; with ``resume`` the loop goes
    on from that checkpoint and ends where an uninterrupted run would have ended, bit for bit on
    a CPU. The caller seeds torch before it makes the model.

    Args:
        stage: name of this stage of a longer training; it is in the rows and has a checkpoint of
            its own.
        before: rows of earlier stages, which stay in ``metrics.jsonl``.
        warm: whether the model was trained before: begin with small steps.
    """
    model = objective.model
    optimizer = _optimizer(model, config)
    if warm and isinstance(optimizer, torch.optim.RMSprop):
        optimizer.register_step_pre_hook(_start_from_first_gradient)
    folder = None if run is None else run / "checkpoint" / stage
    rng = np.random.default_rng(seed)
    history: list[Row] = []
    best: dict[str, Tensor] = {}
    best_value, misses = -1.0, 0
    if folder is not None and resume:
        restored = load_checkpoint(folder, model, optimizer, rng)
        if restored is not None:
            best, progress = restored
            history, misses = progress["history"], progress["misses"]
            best_value = progress["best_value"]
    if run is not None:
        run.mkdir(parents=True, exist_ok=True)
        rows = (*before, *history)
        (run / METRICS).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    saved = time.monotonic()
    for epoch in range(len(history) + 1, config.epochs + 1):
        if config.patience and misses >= config.patience:
            break
        started = time.perf_counter()
        if config.schedule == "linear":
            for group in optimizer.param_groups:
                left = 1 - (epoch - 1) / config.epochs
                group["lr"] = config.learning_rate * group["share"] * left
        row: Row = {"stage": stage} if stage else {}
        row |= {"epoch": epoch, "loss": _one_epoch(objective, optimizer, rng, epoch)}
        if epoch % config.validate_every == 0 or epoch == config.epochs:
            measured = objective.validate()
            if measured:
                row |= {f"valid_{name}": value for name, value in measured.items()}
                value = next(iter(measured.values()))
                misses = 0 if value > best_value else misses + 1
                if value > best_value:
                    best_value = value
                    best = {name: t.clone() for name, t in model.state_dict().items()}
        row["seconds"] = time.perf_counter() - started
        history.append(row)
        if on_epoch is not None:
            on_epoch(row)
        if run is not None and folder is not None:
            with (run / METRICS).open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            if time.monotonic() - saved >= config.checkpoint_every or epoch == config.epochs:
                progress = {"history": history, "misses": misses, "best_value": best_value}
                save_checkpoint(folder, model, optimizer, rng, best, progress)
                saved = time.monotonic()
    if best:
        model.load_state_dict(best)
    return history


def _optimizer(model: nn.Module, config: Steps) -> torch.optim.Optimizer:
    rate = config.learning_rate
    groups: list[dict[str, Any]] = []
    for share, parameters in _by_share(model, config.encoder_rate):
        groups.append({"params": parameters, "lr": rate * share, "share": share})
    if config.optimizer == "rmsprop":
        return torch.optim.RMSprop(groups, lr=rate, alpha=0.9)
    if config.optimizer == "adagrad":
        return torch.optim.Adagrad(groups, lr=rate)
    return torch.optim.Adam(groups, lr=rate, fused=True)


def _by_share(model: nn.Module, share: float) -> Iterable[tuple[float, list[nn.Parameter]]]:
    """Parameters by share of the learning rate: ``share`` for the model's ``encoder_parts``."""
    parts: Sequence[nn.Module | nn.Parameter | None] = getattr(model, "encoder_parts", ())
    slow = {
        id(parameter)
        for part in parts
        if part is not None
        for parameter in ([part] if isinstance(part, nn.Parameter) else part.parameters())
    }
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if share == 1 or not slow:
        yield 1.0, learned
    else:
        yield 1.0, [parameter for parameter in learned if id(parameter) not in slow]
        yield share, [parameter for parameter in learned if id(parameter) in slow]


def _start_from_first_gradient(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """Start RMSprop's running mean of squared gradients from the first ones, not from 0.

    A mean that starts from 0 makes the first steps three times as long, which suits a model with
    random weights but undoes a part of what a trained one has learned.
    """
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            state = optimizer.state[parameter]
            if parameter.grad is not None and not state:
                state["step"] = torch.zeros(())
                state["square_avg"] = parameter.grad.square()


def _one_epoch(
    objective: Objective, optimizer: torch.optim.Optimizer, rng: np.random.Generator, epoch: int
) -> float:
    """Train on all batches once; returns the sum of their losses."""
    objective.model.train()
    losses: Tensor | float = 0.0  # read once an epoch, so that a GPU need not wait
    for batch in objective.batches(rng):
        loss = objective.loss(batch, rng)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses = losses + loss.detach().double()
    total = float(losses)
    if not np.isfinite(total):
        raise DecentRLError(
            f"the loss is {total} in epoch {epoch}; lower training.learning_rate and start again"
        )
    return total
