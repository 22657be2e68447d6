"""Figures: bars and lines in colours that colour-blind people can distinguish, as SVG and PNG.

The same results give the same files, byte for byte, with the same matplotlib.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import Any

from decentrl.errors import MissingExtraError
from studies.layout import Figure, Panel, Series, Value
from studies.store import Stat, Store

# Okabe and Ito's colours; ours come first, and lines differ by their markers too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999",
           "#F0E442", "#7F3C8D")  # fmt: skip
MARKERS = "osD^vPX*<>"
# Methods that are on several pages look the same on all of them.
USUAL = ("decentRL", "decentRL, strong", "AliNet", "GAT", "GCN-Align", "seed propagation")
LIGHT = ("#E69F00", "#56B4E9", "#F0E442", "#CC79A7", "#999999")  # to be written on in black
WIDEST = 11.0  # inches; panels that need more stand in several rows
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "decentrl",
    "svg.fonttype": "path",
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#DDDDDD",
    "axes.titlesize": 12,
    "legend.frameon": False,
}


def draw(figure: Figure, store: Store, path: Path) -> bool:
    """Write ``path`` with .svg and .png for an extension; False if there is nothing to draw."""
    shown = [(panel, _known(panel, store)) for panel in figure.panels]
    shown = [(panel, series) for panel, series in shown if series]
    if not shown:
        return False
    try:
        import matplotlib
    except ImportError as error:
        raise MissingExtraError("drawing figures", "matplotlib", "plot") from error
    matplotlib.use("agg")
    from matplotlib import pyplot

    labels = list(dict.fromkeys(s.label for panel in figure.panels for s in panel.series))
    looks = _looks(labels)
    with pyplot.rc_context(STYLE):
        widest = max(_room(figure, panel, series) for panel, series in shown)
        rows = ceil(len(shown) / max(1, int(WIDEST // widest)))
        columns = ceil(len(shown) / rows)
        width = min(WIDEST, max(6.4, 1.5 + columns * widest))
        page, grid = pyplot.subplots(
            rows, columns, figsize=(width, 4.4 if rows == 1 else 3.1 * rows),
            squeeze=False, layout="constrained",
        )  # fmt: skip
        for axes in grid.ravel()[len(shown) :]:
            axes.remove()
        all_axes = grid.ravel()[: len(shown)]
        for axes, (panel, series) in zip(all_axes, shown, strict=True):
            (_bars if figure.kind == "bars" else _lines)(axes, panel, series, store, looks)
            axes.set_title(panel.title)
            axes.set_xlabel(panel.x)
            axes.set_ylabel(panel.y)
        handles: dict[str, Any] = {}
        for axes in all_axes:
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        cited = any(v.paper is not None for _, shown_series in shown
                    for s in shown_series for v in s.values)  # fmt: skip
        note = f" ({figure.note})" if figure.note and cited else ""
        page.suptitle(figure.title + note, fontsize=13)
        page.legend(
            handles.values(),
            handles.keys(),
            loc="outside lower center",
            ncols=min(len(handles), int(width / 2)),
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        page.savefig(path.with_suffix(".svg"), metadata={"Date": None, "Creator": None})
        page.savefig(path.with_suffix(".png"), dpi=130, metadata={"Software": None})
        pyplot.close(page)
    return True


Shown = Sequence[Series]
Looks = dict[str, tuple[str, str]]


def _looks(labels: Sequence[str]) -> Looks:
    """A colour and a marker for each, different from all others up to ten."""
    usual = {name: USUAL.index(name) for name in labels if name in USUAL}
    free = [i for i in range(len(COLOURS)) if i not in usual.values()]
    others = [name for name in labels if name not in usual]
    places = usual | {name: free[i % len(free)] for i, name in enumerate(others)}
    return {name: (COLOURS[places[name]], MARKERS[places[name]]) for name in labels}


def _known(panel: Panel, store: Store) -> list[Series]:
    """The series of which something was run."""
    return [s for s in panel.series if any(store.stat(value) for value in s.values)]


def _room(figure: Figure, panel: Panel, series: Shown) -> float:
    """Inches that a panel needs from left to right."""
    if figure.kind == "lines":
        return 3.1
    words = 0.1 * max(map(len, panel.ticks)) + 0.15
    return 0.6 + len(panel.ticks) * max(words, 0.25 * len(series) + 0.45)


def _bars(axes: Any, panel: Panel, shown: Shown, store: Store, looks: Looks) -> None:
    wide = min(0.84 / len(shown), 0.28)  # one alone is no wall
    few = len(shown) * len(panel.ticks) <= 14
    stats = [store.stat(v) for s in shown for v in (*s.values, *s.above)]
    highest = max(stat.mean for stat in stats if stat is not None)
    for i, series in enumerate(shown):
        colour = looks[series.label][0]
        for j, value in enumerate(series.values):
            stat = store.stat(value)
            place = j + (i - (len(shown) - 1) / 2) * wide
            above = store.stat(series.above[j]) if series.above else None
            if above is not None:
                axes.bar(
                    place, above.mean, 0.9 * wide, facecolor="none", edgecolor=colour,
                    linestyle=":", linewidth=1.4,
                )  # fmt: skip
            if stat is None:
                continue
            label = series.label if j == _first(series, store) else None
            axes.bar(place, stat.mean, 0.9 * wide, color=colour, label=label)
            if stat.spread:
                axes.errorbar(place, stat.mean, stat.spread, color="#333333", linewidth=1)
            inside = above is not None and stat.mean > 0.2 * highest
            top = stat if inside or above is None or above.mean < stat.mean else above
            ink = ("black" if colour in LIGHT else "white") if inside else ""
            _say(axes, place, value, stat, top, ink, few)
    axes.set_xticks(range(len(panel.ticks)), panel.ticks)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.5, len(panel.ticks) - 0.5)
    axes.margins(y=0.16)


def _say(
    axes: Any, place: float, value: Value, stat: Stat, top: Stat, inside: str, few: bool
) -> None:
    """The number above its bar and the dotted one, or inside it in that colour; lying where there
    are many."""
    text = f"{stat.mean:.{value.metric.digits}f}".removeprefix("0")
    height = stat.mean - stat.spread if inside else top.mean + top.spread
    look: dict[str, Any] = {"va": "top", "color": inside} if inside else {"va": "bottom"}
    axes.annotate(
        text, (place, height), ha="center", fontsize=9 if few else 8, rotation=0 if few else 90,
        xytext=(0, -3 if inside else 3), textcoords="offset points", **look,
    )  # fmt: skip


def _first(series: Series, store: Store) -> int:
    return next(i for i, value in enumerate(series.values) if store.stat(value))


def _lines(axes: Any, panel: Panel, shown: Shown, store: Store, looks: Looks) -> None:
    for series in shown:
        colour, marker = looks[series.label]
        known = [(j, s) for j, v in enumerate(series.values) if (s := store.stat(v)) is not None]
        axes.errorbar(
            [j for j, _ in known], [s.mean for _, s in known], [s.spread for _, s in known],
            color=colour, marker=marker, linewidth=2, markersize=7, capsize=3, label=series.label,
        )  # fmt: skip
        cited = [(j, v.paper) for j, v in enumerate(series.values) if v.paper is not None]
        if cited:
            axes.plot(
                [j for j, _ in cited], [number for _, number in cited],
                color=colour, marker=marker, markersize=5, linestyle="--", linewidth=1.2,
                markerfacecolor="white",
            )  # fmt: skip
    axes.set_xticks(range(len(panel.ticks)), panel.ticks)
    axes.margins(y=0.12)
    if panel.log:
        from matplotlib import ticker

        axes.set_yscale("log")
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())
