"""The training loop of every model: steps, validation, early stopping, checkpoints."""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from decentrl.config import Steps
from decentrl.errors import DivergedError, writing
from decentrl.nn.running import all_finite
from decentrl.training.checkpoint import Optimizer, load_checkpoint, save_checkpoint
from decentrl.training.rmsprop import RMSprop
from decentrl.views.base import Objective

logger = logging.getLogger(__name__)
Row = dict[str, Any]
METRICS = "metrics.jsonl"


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

    def compare(self, measured: dict[str, float] | None, model: nn.Module) -> Row:
        """Keep the weights if the first metric is better than ever before; else count a miss."""
        if not measured:
            return {}
        self.misses += 1
        if not np.isfinite(list(measured.values())).all():
            raise DivergedError("the trained vectors are not finite")
        value = next(iter(measured.values()))
        if value > self.best_value:
            self.best_value, self.misses = value, 0
            self.best = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        return {f"valid_{name}": value for name, value in measured.items()}


def train(
    objective: Objective,
    config: Steps,
    seed: int,
    *,
    validate: Callable[[], dict[str, float] | None] = lambda: None,
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
        validate: metrics on held-out data, the first of which selects weights; None without data.
        stage: name of a part of a longer training, in the rows and in the checkpoint's path.
        before: rows of earlier stages, which stay in ``metrics.jsonl``.
        warm: whether the model was trained before: begin with small steps.
    """
    model, rng = objective.model, np.random.default_rng(seed)
    optimizer = _optimizer(model, config, warm)
    progress, folder = _Progress(), None
    if run is not None:
        folder = run / "checkpoint" / stage
        if not resume and not before:
            shutil.rmtree(run / "checkpoint", ignore_errors=True)
        elif resume and (restored := load_checkpoint(folder, model, optimizer, rng)):
            progress = _Progress(**restored)
        run.mkdir(parents=True, exist_ok=True)
        _write(run, (*before, *progress.history), "w")

    saved = time.monotonic()
    for epoch in range(len(progress.history) + 1, config.epochs + 1):
        if config.patience and progress.misses >= config.patience:
            break
        started, last = time.perf_counter(), epoch == config.epochs
        row: Row = {"stage": stage} if stage else {}
        row |= {"epoch": epoch, "loss": _one_epoch(objective, optimizer, config, rng, epoch)}
        if last or epoch % config.validate_every == 0:
            row |= progress.compare(validate(), model)
        row["seconds"] = time.perf_counter() - started
        progress.history.append(row)
        logger.info("%s", row)
        if on_epoch is not None:
            on_epoch(row)
        if run is not None and folder is not None:
            _write(run, [row], "a")
            if last or time.monotonic() - saved >= config.checkpoint_every:
                save_checkpoint(folder, model, optimizer, rng, **vars(progress))
                saved = time.monotonic()
    if progress.best:
        model.load_state_dict(progress.best)
    return progress.history


def _write(run: Path, rows: Sequence[Row], mode: str) -> None:
    path = run / METRICS
    with writing(path), path.open(mode, encoding="utf-8") as file:
        file.writelines(json.dumps(row, allow_nan=False) + "\n" for row in rows)


def _optimizer(model: nn.Module, config: Steps, warm: bool) -> Optimizer:
    """The optimizer; the model's ``encoder_parts`` learn at a share of the rate."""
    rate, share = config.learning_rate, config.encoder_rate
    name: str = config.optimizer
    parts: Sequence[nn.Module | None] = getattr(model, "encoder_parts", ()) if share != 1 else ()
    slow = {parameter for part in parts if part is not None for parameter in part.parameters()}
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups = [{"params": [p for p in learned if p not in slow], "lr": rate, "share": 1.0}]
    if slow:
        some = [parameter for parameter in learned if parameter in slow]
        groups.append({"params": some, "lr": rate * share, "share": share})
    if name == "adagrad":
        return torch.optim.Adagrad(groups, lr=rate)
    if name == "adamw":
        return torch.optim.AdamW(groups, lr=rate, fused=True)
    if name == "adam":
        return torch.optim.Adam(groups, lr=rate, fused=True)
    return RMSprop(groups, warm=warm)


def _one_epoch(
    objective: Objective,
    optimizer: Optimizer,
    config: Steps,
    rng: np.random.Generator,
    epoch: int,
) -> float:
    """Train on all batches once; returns the sum of their losses."""
    if config.schedule == "linear":
        for group in optimizer.param_groups:
            group["lr"] = config.learning_rate * group["share"] * (1 - (epoch - 1) / config.epochs)
    objective.model.train()
    losses: Tensor | float = 0.0  # read once an epoch, so that a GPU need not wait
    batches = objective.batches(rng)
    for place, batch in enumerate(batches):
        if config.schedule == "steps":
            assert isinstance(batches, Sized)
            _set_rate(optimizer, config, (epoch - 1) * len(batches) + place, len(batches))
        loss = objective.loss(batch, rng)
        loss.backward()  # type: ignore[no-untyped-call]
        if config.clip:
            nn.utils.clip_grad_norm_(objective.model.parameters(), config.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses = losses + loss.detach().double()
    total = float(losses)
    if not np.isfinite(total):
        raise DivergedError(f"the loss is {total} in epoch {epoch}")
    # The last step of an epoch is in no loss yet, but in what a checkpoint would keep.
    if not all(map(all_finite, objective.model.parameters())):
        raise DivergedError(f"the weights are not finite after epoch {epoch}")
    return total


def _set_rate(optimizer: Optimizer, config: Steps, done: int, epoch: int) -> None:
    """A learning rate that grows through the warm-up and then falls from step to step, to 0.

    Args:
        done: steps taken before this one.
        epoch: steps an epoch.
    """
    total = epoch * config.epochs
    rate = min(1.0, (done + 1) / max(1, min(config.warm_up, total // 2))) * (1 - done / total)
    for group in optimizer.param_groups:
        group["lr"] = config.learning_rate * rate
