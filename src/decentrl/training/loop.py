"""The training loop of every model: steps, validation, early stopping, checkpoints."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from decentrl.config import Steps
from decentrl.errors import DecentRLError
from decentrl.training.checkpoint import load_checkpoint, save_checkpoint

logger = logging.getLogger(__name__)
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


@dataclass(eq=False)
class _Progress:
    """State of a training besides weights, optimizer and random states; all but ``best`` is JSON.

    Attributes:
        misses: number of validations since the best one.
        best: weights of the best validation.
    """

    history: list[Row] = field(default_factory=list)
    misses: int = 0
    best_value: float = -1.0
    best: dict[str, Tensor] = field(default_factory=dict)

    def compare(self, value: float, model: nn.Module) -> None:
        """Keep the weights if this validation is better than all before; else count a miss."""
        self.misses += 1
        if value > self.best_value:
            self.best_value, self.misses = value, 0
            self.best = {name: tensor.clone() for name, tensor in model.state_dict().items()}


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
    progress = _Progress()
    if folder is not None and resume:
        restored = load_checkpoint(folder, model, optimizer, rng)
        if restored is not None:
            progress = _Progress(best=restored[0], **restored[1])
    if run is not None:
        run.mkdir(parents=True, exist_ok=True)
        rows = (*before, *progress.history)
        (run / METRICS).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    saved = time.monotonic()
    for epoch in range(len(progress.history) + 1, config.epochs + 1):
        if config.patience and progress.misses >= config.patience:
            break
        started = time.perf_counter()
        _schedule_rate(optimizer, config, epoch)
        row: Row = {"stage": stage} if stage else {}
        row |= {"epoch": epoch, "loss": _one_epoch(objective, optimizer, rng, epoch)}
        if epoch % config.validate_every == 0 or epoch == config.epochs:
            measured = objective.validate()
            if measured:
                row |= {f"valid_{name}": value for name, value in measured.items()}
                progress.compare(next(iter(measured.values())), model)
        row["seconds"] = time.perf_counter() - started
        progress.history.append(row)
        logger.info("%s", row)
        if on_epoch is not None:
            on_epoch(row)
        if run is not None and folder is not None:
            with (run / METRICS).open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            if time.monotonic() - saved >= config.checkpoint_every or epoch == config.epochs:
                facts = {k: value for k, value in vars(progress).items() if k != "best"}
                save_checkpoint(folder, model, optimizer, rng, progress.best, facts)
                saved = time.monotonic()
    if progress.best:
        model.load_state_dict(progress.best)
    return progress.history


def _schedule_rate(optimizer: torch.optim.Optimizer, config: Steps, epoch: int) -> None:
    """Set the learning rates of an epoch: constant, or falling linearly."""
    if config.schedule == "linear":
        for group in optimizer.param_groups:
            left = 1 - (epoch - 1) / config.epochs
            group["lr"] = config.learning_rate * group["share"] * left


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
