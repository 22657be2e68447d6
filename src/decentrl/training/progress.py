"""A progress bar over the epochs of a training, in a terminal or in a notebook."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any

from decentrl.training.loop import Row

Draw = Callable[[int, str], Any]
"""Shows how many epochs are done, and a note."""


@contextmanager
def progress_bar(
    epochs: int,
    progress: bool | None = None,
    on_epoch: Callable[[Row], None] | None = None,
) -> Iterator[Callable[[Row], None]]:
    """Draw a bar while the block runs; yields the function to call with the row of each epoch.

    Args:
        epochs: how many there will be, unless training stops early.
        progress: whether to draw it; None means: in a terminal and in a notebook.
        on_epoch: also called with each row.
    """
    from rich.console import Console

    console = Console(stderr=True, markup=False, emoji=False, highlight=False)
    if progress is None:
        progress = console.is_terminal or console.is_jupyter
    done, last = 0, Row()
    with ExitStack() as stack:
        draw: Draw | None = None
        if progress:
            make = _notebook_bar if console.is_jupyter else _terminal_bar
            draw = make(epochs, console, stack)

        def call(row: Row) -> None:
            nonlocal done
            done = max(done + 1, row.get("epoch", 0))  # a run that is resumed does not begin at 1
            last.update(row)  # validation is not measured in every epoch
            if draw is not None:
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


def _terminal_bar(epochs: int, console: Any, stack: ExitStack) -> Draw:
    from rich import progress

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[note]}"),
        progress.TimeRemainingColumn(),
    )
    bar = stack.enter_context(progress.Progress(*columns, console=console))
    task = bar.add_task("training", total=epochs, note="")
    return lambda done, note: bar.update(task, completed=done, note=note)


def _notebook_bar(epochs: int, *_: Any) -> Draw:
    """A bar of HTML that is updated in place: rich's own needs ipywidgets in a notebook."""
    ipython: Any = import_module("IPython.display")

    def page(done: int, note: str) -> Any:
        bar = f'<progress value="{done}" max="{epochs}"></progress>'
        return ipython.HTML(f"training {bar} {html.escape(f'{done}/{epochs}  {note}')}")

    handle = ipython.display(page(0, ""), display_id=True)
    return lambda done, note: handle.update(page(done, note))
