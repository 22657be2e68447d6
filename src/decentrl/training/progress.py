"""A progress bar over the epochs of a training, in a terminal or in a notebook."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any

Row = dict[str, Any]


def should_show(progress: bool | None) -> bool:
    """Whether to draw a bar; None means: in a terminal and in a notebook."""
    if progress is not None:
        return progress
    from rich.console import Console

    console = Console(stderr=True)
    return console.is_terminal or console.is_jupyter


@contextmanager
def progress_bar(
    epochs: int,
    label: str = "training",
    progress: bool | None = None,
    on_epoch: Callable[[Row], None] | None = None,
) -> Iterator[Callable[[Row], None]]:
    """Draw a bar while the block runs; yields the function to call with the row of each epoch.

    Args:
        epochs: how many there will be, unless training stops early.
        label: stands before the bar.
        progress: see :func:`should_show`.
        on_epoch: also called with each row.
    """
    bar = _drawn(epochs, label) if should_show(progress) else nullcontext(lambda done, note: None)
    with bar as draw:
        done, last = 0, Row()

        def call(row: Row) -> None:
            nonlocal done
            done = max(done + 1, row.get("epoch", 0))  # a run that is resumed does not begin at 1
            last.update(row)  # validation is not measured in every epoch
            draw(done, describe(last))
            if on_epoch is not None:
                on_epoch(row)

        yield call


def describe(row: Row) -> str:
    """Loss and validation metric of an epoch, where it has them."""
    parts = [f"loss {row['loss']:,.4g}"] if "loss" in row else []
    valid = next((name for name in row if name.startswith("valid_")), None)
    if valid is not None:
        parts.append(f"{valid.replace('_', ' ')} {row[valid]:.3f}")
    return "  ".join(parts)


Draw = Callable[[int, str], None]


@contextmanager
def _drawn(epochs: int, label: str) -> Iterator[Draw]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    if console.is_jupyter:
        yield _notebook_bar(epochs, label)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task(label, total=epochs, note="")
        yield lambda done, note: bar.update(task, completed=done, note=note)


def _notebook_bar(epochs: int, label: str) -> Draw:
    """A bar of HTML that is updated in place: rich's own needs ipywidgets in a notebook."""
    ipython: Any = import_module("IPython.display")

    def page(done: int, note: str) -> Any:
        text = html.escape(f"{done}/{epochs}  {note}")
        bar = f'<progress value="{done}" max="{epochs}"></progress>'
        return ipython.HTML(f"{html.escape(label)} {bar} {text}")

    handle = ipython.display(page(0, ""), display_id=True)
    return lambda done, note: handle.update(page(done, note))
