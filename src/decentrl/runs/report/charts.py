"""Charts as inline SVG."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

from decentrl.runs.report.page import Row, card, escaped, finite, metric, share

Point = tuple[float, float]
_HAVE = {"score": "score", "probability": "have"}
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM, _BINS = 340, 46, 328, 8, 196, 24  # charts, in pixels


def training_chart(history: Sequence[Row], measure: str, name: str) -> str:
    loss, valid = (
        [(float(row["epoch"]), v) for row in history if (v := finite(row.get(key))) is not None]
        for key in ("loss", measure)
    )
    if not loss and not valid:
        return ""
    epochs = [epoch for epoch, _ in loss + valid]
    start, stop = min(epochs), max(max(epochs), min(epochs) + 1)
    drawing, caption, middle = _x_axis(start, stop, "epoch", 1), "", 112 if valid else _BOTTOM
    if loss:
        drawing += _curve(loss, loss[-1], (start, stop, _TOP, middle), "good")
        caption = f'<div class="key good">Loss, {loss[-1][1]:.4g} at the end</div>'
    if valid:
        best = max(valid, key=lambda point: point[1])
        percent = "hits" in measure
        drawing += _curve(valid, best, (start, stop, 134, _BOTTOM), "other", percent)
        shown = f"{100 * best[1]:.1f} %" if percent else f"{best[1]:.3f}"
        words = f"{name}, best {shown} at epoch {best[0]:g}"
        caption += f'<div class="key other">{words}</div>'
    return _chart("Training", drawing, caption)


def histogram(scores: Mapping[str, Sequence[float | None]], axis: str) -> str:
    right, wrong = (
        [value for score in scores.get(key, ()) if (value := finite(score)) is not None]
        for key in ("right", "wrong")
    )
    if not right and not wrong:
        return ""
    low, high = min(right + wrong), max(right + wrong)
    low, high = (low, high) if high > low else (low - 0.05, high + 0.05)
    step, wide = (high - low) / _BINS, (_RIGHT - _LEFT) / _BINS
    up, down = (Counter(min(int((v - low) / step), _BINS - 1) for v in s) for s in (right, wrong))
    most, least = max(up.values(), default=0), max(down.values(), default=0)
    unit = (_BOTTOM - _TOP) / (most + least)
    zero, drawing = _TOP + unit * most, _x_axis(low, high, axis)
    for tick in _ticks(-least, most, 5, 1):
        if -least <= tick <= most:
            drawing += _level(zero - unit * tick, f"{abs(tick):,g}")
    for i in range(_BINS):
        x, span = _LEFT + wide * i, f"{low + step * i:.3g} to {low + step * (i + 1):.3g}"
        words = f"{span}: {up[i]} right, {down[i]} wrong"
        drawing += _box(x, zero - unit * up[i], wide - 1, unit * up[i], "good", words)
        drawing += _box(x, zero, wide - 1, unit * down[i], "bad", words)
    caption = f'<div class="key good">Right, upwards: {len(right):,}</div>'
    caption += f'<div class="key bad">Wrong, downwards: {len(wrong):,}</div>'
    if right and wrong:
        middle = median(right)
        above = share(sum(score >= middle for score in wrong) / len(wrong))
        caption += f"Half of the right {_HAVE[axis]} {middle:.3g} or more; {above} of the wrong do."
    return _chart(f"How far to trust a {axis}", drawing, caption)


def bar_chart(title: str, axis: str, key: str, rows: Sequence[Row], caption: str) -> str:
    """A bar for each row, as long as its fraction ``key``."""
    if not rows:
        return ""
    left, right = 12 + 8 * max(len(axis), *(len(str(row["name"])) for row in rows)), 196
    drawing = _put(left - 8, 14, axis, "end") + _put(left, 14, title.split()[0])
    pitch, spoken = min(max(170 / len(rows), 26), 36), []
    for i, row in enumerate(rows):
        y, name = 26 + pitch * i, escaped(row["name"])
        n, shown = metric(row, "n"), metric(row, key, " %")
        spoken.append(f"{axis.capitalize()} {name}: {shown} of {n}")
        drawing += _box(left, y, right - left, 19, "track", spoken[-1])
        length = (right - left) * (finite(row[key]) or 0)
        drawing += _box(left, y, length, 19, "good", spoken[-1])
        drawing += _put(left - 8, y + 14, name, "end strong")
        drawing += _put(right + 60, y + 14, shown, "end strong")
        drawing += _put(_WIDTH - 2, y + 14, f"n = {n}", "end")
    return _chart(title, drawing, caption, "; ".join(spoken), y + 30)


def _chart(title: str, drawing: str, caption: str, words: str = "", height: float = 234) -> str:
    spoken = words or " ".join(re.sub(r"<[^>]*>", " ", caption).split())
    svg = f'<svg viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="{title}. {spoken}">'
    svg += f"<title>{title}</title>{drawing}</svg>"
    return card(title, f'<figure>{svg}<figcaption class="soft">{caption}</figcaption></figure>')


def _put(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{words}</text>'


def _level(y: float, words: str, kind: str = "grid") -> str:
    line = f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_RIGHT}" y2="{y:.1f}" class="{kind}"/>'
    return line + _put(_LEFT - 6, y + 4, words, "end")


def _box(x: float, y: float, width: float, height: float, kind: str, words: str) -> str:
    size = f'width="{width:.1f}" height="{height:.1f}"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" {size} class="{kind}"><title>{words}</title></rect>'


def _ticks(low: float, high: float, count: int, least: float = 0.0) -> list[float]:
    """Round numbers, about `count` steps of at least `least`, that cover [low, high]."""
    raw = max((high - low) / count, least, 1e-9)
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * unit for factor in (1, 2, 5, 10) if factor * unit >= raw * 0.999)
    first, last = math.floor(low / step + 1e-6), math.ceil(high / step - 1e-6)
    return [step * i for i in range(first, max(last, first + 1) + 1)]


def _x_axis(low: float, high: float, name: str, least: float = 0.0) -> str:
    axis = _level(_BOTTOM, "", "axis") + _put((_LEFT + _RIGHT) / 2, _BOTTOM + 34, name, "mid")
    for tick in _ticks(low, high, 5, least):
        if low <= tick <= high:
            x = _LEFT + (_RIGHT - _LEFT) * (tick - low) / (high - low)
            axis += _put(x, _BOTTOM + 17, f"{tick:,.6g}", "mid")
    return axis


def _curve(
    points: list[Point], mark: Point, box: tuple[float, ...], kind: str, percent: bool = False
) -> str:
    """A line over box = (first epoch, last epoch, top, bottom) with one point marked."""
    start, stop, top, bottom = box
    values = [0.0, *(value for _, value in points)]
    ticks = _ticks(min(values), max(values), 4 if bottom - top > 80 else 2)

    def place(point: Point) -> Point:
        x = _LEFT + (_RIGHT - _LEFT) * (point[0] - start) / (stop - start)
        return x, bottom - (bottom - top) * (point[1] - ticks[0]) / (ticks[-1] - ticks[0])

    drawing = ""
    for tick in ticks:
        words = f"{100 * tick:.3g} %" if percent else f"{tick:.5g}"
        drawing += _level(place((start, tick))[1], words)
    path = " ".join("{:.1f},{:.1f}".format(*place(point)) for point in points)
    x, y = place(mark)
    drawing += f'<polyline points="{path}" class="curve {kind}"/>'
    return drawing + f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="{kind}"/>'
