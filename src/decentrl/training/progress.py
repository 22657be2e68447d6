"""A progress bar over the epochs of a training, in a terminal or in a notebook."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

Row = dict[str, Any]
Draw = Callable[[int, str], Any]


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
    progress: bool | None = None,
    on_epoch: Callable[[Row], None] | None = None,
) -> Iterator[Callable[[Row], None]]:
    """Draw a bar while the block runs; yields the function to call with the row of each epoch.

    Args:
        epochs: how many there will be, unless training stops early.
        progress: see :func:`should_show`.
        on_epoch: also called with each row.
    """
    done, last = 0, Row()
    if not should_show(progress):
        yield on_epoch or (lambda row: None)
        return
    with _bar(epochs) as draw:

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
    valid = [name for name in row if name.startswith("valid_")][:1]
    parts += [f"{name.replace('_', ' ')} {row[name]:.3f}" for name in valid]
    return "  ".join(parts)


@contextmanager
def _bar(epochs: int) -> Iterator[Draw]:
    """A bar in a terminal or in a notebook; yields what draws it: epochs done, and a note."""
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    if console.is_jupyter:
        yield _notebook_bar(epochs)
        return
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[note]}"),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=console) as bar:
        task = bar.add_task("training", total=epochs, note="")
        yield lambda done, note: bar.update(task, completed=done, note=note)


def _notebook_bar(epochs: int) -> Draw:
    """A bar of HTML that is updated in place: rich's own needs ipywidgets in a notebook."""
    ipython: Any = import_module("IPython.display")

    def page(done: int, note: str) -> Any:
        bar = f'<progress value="{done}" max="{epochs}"></progress>'
        return ipython.HTML(f"training {bar} {html.escape(f'{done}/{epochs}  {note}')}")

    handle = ipython.display(page(0, ""), display_id=True)
    return lambda done, note: handle.update(page(done, note))
