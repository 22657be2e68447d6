"""The page a run leaves behind: what was found, how sure it is, and how to get it again.

One self-contained HTML file: inline style, inline SVG, no scripts, nothing fetched from anywhere.
Everything from outside passes through `_text`, and the page itself forbids loading anything.
"""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import Any
from urllib.parse import unquote

Row = Mapping[str, Any]
Point = tuple[float, float]

# The order of the values is the order of the table. The run's own matcher leads the page, as one
# chosen by its test result would flatter the headline.
_AXES = {
    "direction": {"left-right": "left to right", "right-left": "right to left"},
    "candidates": {"test": "among the test targets", "all": "among all targets"},
    "subset": {"all": "", "known": "known", "unknown": "unknown"},
    "matcher": {"csls": "CSLS", "cosine": "Cosine", "sinkhorn": "Sinkhorn"},
}
_COLUMNS = {f"hits@{k}": f"Hits<wbr>@{k}" for k in (1, 5, 10, 50)}
_COLUMNS |= {"mrr": "MRR", "mr": "Mean rank"}
_ANSWER_COLUMNS = {"mrr": "MRR"} | {f"hits@{k}": f"Hits<wbr>@{k}" for k in (1, 3, 10)}
_ANSWER_COLUMNS |= {"mr": "Mean rank"}
_QUESTIONS = {
    "all": ("all", "this model"),
    "tail": ("direction", "for the tail (h, r, ?)"),
    "head": ("direction", "for the head (?, r, t)"),
}
_HAVE = {"score": "score", "probability": "have"}
_WIDTH, _LEFT, _RIGHT, _TOP, _BOTTOM, _BINS = 340, 46, 328, 8, 196, 24  # charts, in pixels

# Okabe-Ito colours: blue, vermilion and green on light; sky blue, orange and green on dark.
_STYLE = """
:root{color-scheme:light dark;--page:#f5f6f8;--card:#fff;--ink:#1b2430;--soft:#566173;
--line:#dfe3ea;--track:#e9edf2;--good:#0072b2;--bad:#d55e00;--other:#009e73;--tint:#0072b21f}
@media screen and (prefers-color-scheme:dark){:root{--page:#12161c;--card:#1b2129;--ink:#e8ecf1;
--soft:#a3aebd;--line:#303946;--track:#2a323d;--good:#56b4e9;--bad:#e69f00;--tint:#56b4e938}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);line-height:1.5;
font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif}
main{max-width:70rem;margin:auto;padding:2.5rem 1.25rem 3rem}main>*{margin:0 0 1.25rem}
h1{font-size:clamp(1.5rem,4.5vw,2.25rem);line-height:1.2;margin:.1rem 0 .6rem}
h2{font-size:1.05rem;margin:0 0 .75rem}h1,td,th,code,bdi{overflow-wrap:anywhere}
p{margin:0 0 .6rem}.soft{color:var(--soft);font-size:.875rem;font-weight:400}
.lead{font-size:clamp(1.05rem,2.6vw,1.25rem);max-width:56rem}.lead b{white-space:nowrap}
.card{background:var(--card);border:1px solid var(--line);border-radius:.75rem;padding:1.25rem}
.row{display:grid;gap:1.25rem;grid-template-columns:repeat(auto-fit,minmax(min(100%,19rem),1fr))}
.tiles{display:grid;gap:1.25rem;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));margin:0}
.tiles dt{font-weight:600}.tiles dd{margin:0}.big{font-size:2.1rem;font-weight:700;line-height:1.25}
.meter{height:.4rem;border-radius:.2rem;margin:.3rem 0 .5rem!important;
background:linear-gradient(var(--good) 0 0) 0/var(--v) 100% no-repeat var(--track)}
table{border-collapse:collapse;width:100%;font-size:.925rem}.scroll{overflow-x:auto;margin-bottom:.8rem}
th,td{padding:.4rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
tbody:last-child tr:last-child>*{border-bottom:0}tbody th{font-weight:500}
thead th{color:var(--soft);font-size:.825rem;vertical-align:bottom}.metrics th{overflow-wrap:normal}
.num{text-align:right;font-variant-numeric:tabular-nums}td.num{white-space:nowrap}
th[scope=rowgroup]{font-weight:600;padding-top:1.1rem}
.metrics td:nth-child(2){background:linear-gradient(var(--tint) 0 0) 0/var(--v) 100% no-repeat}
.samples{table-layout:fixed}.samples .num{width:5.5rem}.facts th{color:var(--soft);width:40%}
pre{margin:1rem 0 0;padding:.75rem 1rem;background:var(--page);border-radius:.5rem;
white-space:pre-wrap;font-size:.85rem}figure{margin:0}figcaption{margin-top:.6rem}
svg{display:block;width:100%;max-width:27rem;height:auto;margin:0 auto}
svg text{font-size:13px;fill:var(--soft)}svg .strong{fill:var(--ink);font-weight:600}
.end{text-anchor:end}.mid{text-anchor:middle}.grid{stroke:var(--line)}.axis{stroke:var(--soft)}
.good{fill:var(--good);--c:var(--good)}.bad{fill:var(--bad);--c:var(--bad)}
.other{fill:var(--other);--c:var(--other)}.curve{fill:none;stroke:var(--c);stroke-width:2}
.track{fill:var(--track)}.key::before{content:"■";color:var(--c);margin-right:.4em}
@media(max-width:36rem){main{padding:1.25rem .75rem}.card{padding:.9rem}table{font-size:.82rem}
th,td{padding:.35rem .3rem}.samples .num{width:3.6rem}.big{font-size:1.75rem}}
@media print{:root{--page:#fff}body{print-color-adjust:exact;-webkit-print-color-adjust:exact}
main{padding:0}.card:not(.long),tr,tbody{break-inside:avoid}.row{grid-template-columns:1fr 1fr}}
"""
_READING = """<section class="card"><h2>How to read this page</h2>
<p>Every test entity ranks the candidates on the other side by score. Hits@k is the share whose true
counterpart is among the first k.</p>
<p>Metrics are tie-aware: a counterpart that shares its score with other candidates gets the mean of
the best and the worst rank it could have. So a model that scores all alike earns nothing.</p>
<p>Scores are comparable only within one matcher: a CSLS score of 0.5 and a cosine of 0.5 say
different things.</p></section>
"""

_PREDICTION_READING = """<section class="card"><h2>How to read this page</h2>
<p>Every test triple asks two questions: for its tail, and for its head. All entities are ranked as
answers; other answers that are known to be right do not count (filtered). Hits@k is the share of
test triples whose answer is among the first k.</p>
<p>Metrics are tie-aware: an answer that shares its score with others gets the mean of the best and
the worst rank it could have. So a model that scores all alike earns nothing.</p>
<p>1-1, 1-N, N-1 and N-N tell how many heads and tails a relation joins: a question with many right
answers is harder. Training frequency knows nothing but how often an entity answers a relation.</p>
</section>
"""


@dataclass(frozen=True)
class Report:
    """What the page shows; a part without data does not appear. Fractions, not per cent."""

    title: str
    facts: Sequence[tuple[str, str]]
    results: Sequence[Row]  # as in results.json
    history: Sequence[Row]  # an epoch each: epoch, loss, sometimes valid_hits@1
    scores: Mapping[str, Sequence[float]]  # of the best matches that are "right" and "wrong"
    by_degree: Sequence[Row]  # degree (a label such as "2-3"), n, hits@1
    samples: Sequence[Row]  # left, right, truth, score, correct
    command: str | None = None
    matcher: str = "csls"  # leads the page


def render_report(report: Report) -> str:
    """The whole page as one string; write it as UTF-8."""
    rows = sorted(report.results, key=_order)
    counted = [row for row in rows if row["n"]]
    head = min(counted, key=lambda row: row["matcher"] != report.matcher, default=None)
    charts = _training(report.history) + _histogram(report.scores) + _degrees(report.by_degree)
    footer = (_READING if rows else "") + _facts(report.facts, report.command)
    body = _header(report.title, rows, head) + (_tiles(rows, head) if head else "")
    body += _row(charts) + _metrics(rows) + _samples(report.samples) + _row(footer)
    return _page(f"{report.title} – alignment report", body)


@dataclass(frozen=True)
class PredictionReport:
    """The same for entity prediction."""

    title: str
    facts: Sequence[tuple[str, str]]
    results: Sequence[Row]  # as in results.json: group, name, n and metrics
    frequency: Row  # metrics of answering by training frequency
    confidence: Row  # ece, mean, right
    history: Sequence[Row]  # an epoch each: epoch, loss, sometimes valid_mrr
    probabilities: Mapping[str, Sequence[float | None]]  # of best answers, "right" and "wrong"
    samples: Sequence[Row]  # head, relation, tail, asked, truth, probability, correct
    command: str | None = None


def render_prediction_report(report: PredictionReport) -> str:
    """The whole page as one string; write it as UTF-8."""
    rows = list(report.results)
    head = next((row for row in rows if row["group"] == "all"), None)
    charts = _training(report.history, "valid_mrr", "Validation MRR")
    charts += _histogram(
        {k: [v for v in s if v is not None] for k, s in report.probabilities.items()},
        "How far to trust a probability",
        "probability",
    )
    charts += _categories([row for row in rows if row["group"] == "category"])
    body = _prediction_header(report.title, head, report.frequency)
    body += _prediction_tiles(rows, head, report.confidence) if head else ""
    body += _row(charts) + _questions(rows, report.frequency) + _answers(report.samples)
    body += _relations([row for row in rows if row["group"] == "relation"])
    body += _row((_PREDICTION_READING if rows else "") + _facts(report.facts, report.command))
    return _page(f"{report.title} – prediction report", body)


def _page(title: str, body: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_text(title)}</title><style>{_STYLE}</style></head>
<body><main>
{body}</main></body></html>
"""


def _text(value: object) -> str:
    """Escaped for text and attributes; what HTML or UTF-8 cannot carry becomes U+FFFD."""
    unfit = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
    return html.escape(re.sub(unfit, "\ufffd", str(value)))


def _label(value: object) -> str:
    """An entity as people say it: the decoded end of an IRI, with the full label in the title."""
    full = "–" if value is None else str(value)
    bare = full.strip("<> \t").rstrip("/#")
    short = full
    if "://" in bare or bare.lower().startswith("urn:"):
        end = re.split(r"[/#]" if "://" in bare else r"[/#:]", bare)[-1]
        short = unquote(end, errors="replace").strip() or full
    short = short if len(short) <= 90 else short[:89] + "…"
    return f'<bdi title="{_text(full)}">{_text(short)}</bdi>'


def _finite(value: Any) -> float | None:
    number = math.nan if value is None else float(value)
    return number if math.isfinite(number) else None


def _metric(row: Row, key: str, unit: str = "") -> str:
    value = _finite(row.get(key))
    if value is None:
        return "–"
    if key.startswith("hits@"):
        return f"{100 * value:.1f}{unit}"
    if key == "mr":
        return f"{value:,.1f}"
    return f"{value:.3f}" if value == 0 or abs(value) >= 0.001 else f"{value:.1e}"


def _bar(row: Row, key: str) -> str:
    return f'style="--v:{100 * (_finite(row.get(key)) or 0):.1f}%"'


def _share(fraction: float) -> str:
    """A percentage for a sentence; it says 0 or 100 only when it is."""
    if 0 < fraction < 0.01 or 0.99 < fraction < 1:
        return f"<b>{'less than 1' if fraction < 0.01 else 'more than 99'} %</b>"
    return f"<b>{100 * fraction:.0f} %</b>"


def _card(title: str, body: str, kind: str = "") -> str:
    return f'<section class="card{kind}"><h2>{title}</h2>\n{body}</section>\n'


def _row(cards: str) -> str:
    return f'<div class="row">{cards}</div>\n' if cards else ""


def _order(row: Row) -> tuple[int, ...]:
    axes = [(list(words), row[axis]) for axis, words in _AXES.items()]
    return tuple(order.index(v) if v in order else len(order) for order, v in axes)


def _word(row: Row, axis: str) -> str:
    return _text(_AXES[axis].get(row[axis], row[axis]))


def _sibling(rows: Sequence[Row], head: Row, axis: str, value: str) -> Row | None:
    """The row that differs from `head` on one axis only."""
    wanted = {name: head[name] for name in _AXES} | {axis: value}
    found = (row for row in rows if row["n"] and all(row[a] == v for a, v in wanted.items()))
    return None if head[axis] == value else next(found, None)


def _header(title: str, rows: Sequence[Row], head: Row | None) -> str:
    header = f'<div class="soft">Alignment report</div><h1 dir="auto">{_text(title)}</h1>'
    if head is not None:
        entities = f"{head['n']:,} {_word(head, 'subset')}".strip() + " test entities"
        first, ten = _share(head["hits@1"]), _share(head["hits@10"])
        setting = ", ".join(_word(head, axis) for axis in ("matcher", "direction", "candidates"))
        header += f'<p class="lead">Of {entities}, {first} find their counterpart first '
        header += f"and {ten} within the first ten ({setting})."
        if back := _sibling(rows, head, "direction", "right-left"):
            header += f" From right to left, {_share(back['hits@1'])} find it first."
        header += "</p>"
    return f"<header>{header}</header>\n"


def _tiles(rows: Sequence[Row], head: Row) -> str:
    tiles = [
        ("Hits@1", head, "hits@1", "the first suggestion is the counterpart"),
        ("Hits@10", head, "hits@10", "it is among the first ten"),
        ("MRR", head, "mrr", "mean of 1 / rank; 1 is perfect"),
        ("Mean rank", head, "mr", "1 is perfect"),
    ]
    for subset, seen in (("known", "seen in training"), ("unknown", "not seen in training")):
        if row := _sibling(rows, head, "subset", subset):
            tiles.append((f"Hits@1, {subset}", row, "hits@1", f"of the {row['n']:,} {seen}"))
    return _tile_row(tiles)


def _tile_row(tiles: Sequence[tuple[str, Row, str, str]]) -> str:
    body = ""
    for name, row, key, meaning in tiles:
        body += f'<div><dt>{name}</dt><dd class="big">{_metric(row, key, " %")}</dd>'
        meter = f'<dd class="meter" {_bar(row, key)} aria-hidden="true"></dd>'
        body += meter if key not in ("mr", "ece") else ""
        body += f'<dd class="soft">{meaning}</dd></div>'
    return f'<section class="card" aria-label="Summary"><dl class="tiles">{body}</dl></section>\n'


def _metrics(rows: Sequence[Row]) -> str:
    heads = "".join(f'<th scope="col" class="num">{name}</th>' for name in _COLUMNS.values())
    groups = groupby(rows, key=lambda row: (_order(row)[:3], row["n"]))
    table = (
        '<div class="scroll" role="region" tabindex="0" aria-label="All results">'
        f'<table class="metrics"><thead><tr><th scope="col">Matcher</th>{heads}</tr></thead>\n'
        f"{''.join(_metrics_group(list(group)) for _, group in groups)}</table></div>"
        '<p class="soft">Hits@k in per cent. Bold: the best matcher of its group.</p>'
    )
    return _card("All results", table, " long") if rows else ""


def _metrics_group(rows: list[Row]) -> str:
    direction, where = _word(rows[0], "direction"), _word(rows[0], "candidates")
    count = f'<span class="soft">{rows[0]["n"]:,} {_word(rows[0], "subset")} entities</span>'
    title = f"{direction[:1].upper()}{direction[1:]}, {where} {count}"
    lines = f'<tr><th scope="rowgroup" colspan="{len(_COLUMNS) + 1}">{title}</th></tr>\n'
    for row in rows:
        lines += f'<tr><th scope="row">{_word(row, "matcher")}</th>'
        for key in _COLUMNS:
            values = [v for v in (_finite(other.get(key)) for other in rows) if v is not None]
            best = (min if key == "mr" else max)(values, default=None)
            bold = len(set(values)) > 1 and _finite(row.get(key)) == best
            shown = f"<strong>{_metric(row, key)}</strong>" if bold else _metric(row, key)
            bar = _bar(row, key) if key == "hits@1" else ""
            lines += f'<td class="num" {bar}>{shown}</td>'
        lines += "</tr>\n"
    return f"<tbody>{lines}</tbody>"


def _chart(title: str, drawing: str, caption: str, words: str = "", height: float = 234) -> str:
    spoken = words or " ".join(re.sub(r"<[^>]*>", " ", caption).split())
    svg = f'<svg viewBox="0 0 {_WIDTH} {height:g}" role="img" aria-label="{title}. {spoken}">'
    svg += f"<title>{title}</title>{drawing}</svg>"
    return _card(title, f'<figure>{svg}<figcaption class="soft">{caption}</figcaption></figure>')


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


def _training(
    history: Sequence[Row], metric: str = "valid_hits@1", name: str = "Validation Hits@1"
) -> str:
    loss, valid = (
        [(float(row["epoch"]), v) for row in history if (v := _finite(row.get(key))) is not None]
        for key in ("loss", metric)
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
        percent = "hits" in metric
        drawing += _curve(valid, best, (start, stop, 134, _BOTTOM), "other", percent)
        shown = f"{100 * best[1]:.1f} %" if percent else f"{best[1]:.3f}"
        words = f"{name}, best {shown} at epoch {best[0]:g}"
        caption += f'<div class="key other">{words}</div>'
    return _chart("Training", drawing, caption)


def _histogram(
    scores: Mapping[str, Sequence[float]],
    title: str = "How far to trust a score",
    axis: str = "score",
) -> str:
    right, wrong = ([s for s in scores.get(k, ()) if math.isfinite(s)] for k in ("right", "wrong"))
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
        above = _share(sum(score >= middle for score in wrong) / len(wrong))
        caption += f"Half of the right {_HAVE[axis]} {middle:.3g} or more; {above} of the wrong do."
    return _chart(title, drawing, caption)


def _degrees(rows: Sequence[Row]) -> str:
    caption = "Degree: how many triples an entity stands in. Few triples leave little to go by."
    bars = [(str(row["degree"]), row) for row in rows]
    return _bars("Hits@1 by degree", "degree", "hits@1", bars, caption)


def _categories(rows: Sequence[Row]) -> str:
    caption = "By how many heads and tails the relation of a question joins on average."
    bars = [(str(row["name"]), row) for row in rows]
    return _bars("Hits@10 by category", "category", "hits@10", bars, caption)


def _bars(title: str, axis: str, key: str, rows: Sequence[tuple[str, Row]], caption: str) -> str:
    """A bar for each name and row, as long as the fraction ``key`` says."""
    if not rows:
        return ""
    left, right = 12 + 8 * max(len(axis), *(len(name) for name, _ in rows)), 196
    drawing = _put(left - 8, 14, axis, "end") + _put(left, 14, title.split()[0])
    pitch, spoken = min(max(170 / len(rows), 26), 36), []
    for i, (label, row) in enumerate(rows):
        y, name, n = 26 + pitch * i, _text(label), f"{row['n']:,}"
        spoken.append(f"{axis.capitalize()} {name}: {_metric(row, key, ' %')} of {n}")
        drawing += _box(left, y, right - left, 19, "track", spoken[-1])
        share = _finite(row[key]) or 0
        drawing += _box(left, y, (right - left) * share, 19, "good", spoken[-1])
        drawing += _put(left - 8, y + 14, name, "end strong")
        drawing += _put(right + 60, y + 14, _metric(row, key, " %"), "end strong")
        drawing += _put(_WIDTH - 2, y + 14, f"n = {n}", "end")
    return _chart(title, drawing, caption, "; ".join(spoken), y + 30)


def _prediction_header(title: str, head: Row | None, frequency: Row) -> str:
    header = f'<div class="soft">Prediction report</div><h1 dir="auto">{_text(title)}</h1>'
    if head is not None:
        first, ten = _share(head["hits@1"]), _share(head["hits@10"])
        header += f'<p class="lead">Of {head["n"]:,} questions, {first} are answered right at once '
        header += f"and {ten} within the first ten."
        if frequency:
            ten = _share(frequency["hits@10"])
            header += f" By training frequency alone, {ten} would be within the first ten."
        header += "</p>"
    return f"<header>{header}</header>\n"


def _prediction_tiles(rows: Sequence[Row], head: Row, confidence: Row) -> str:
    tiles = [
        ("MRR", head, "mrr", "mean of 1 / rank; 1 is perfect"),
        ("Hits@1", head, "hits@1", "the first answer is right"),
        ("Hits@10", head, "hits@10", "it is among the first ten"),
    ]
    for name, words in (
        ("new query, known answer", "MRR, new asks"),
        ("known query, new answer", "MRR, new answers"),
    ):
        row = next(
            (row for row in rows if row["name"] == name and row["group"] != "relation"), None
        )
        if row is not None:
            tiles.append((words, row, "mrr", f"of {row['n']:,} with an entity unseen in training"))
    if confidence:
        tiles.append(
            ("Calibration error", confidence, "ece", "0 is perfect: probabilities are true")
        )
    return _tile_row(tiles)


def _questions(rows: Sequence[Row], frequency: Row) -> str:
    """Metrics of all questions and of each group of them, but relations."""
    groups = groupby((r for r in rows if r["group"] != "relation"), key=lambda row: row["group"])
    body = ""
    for group, members in groups:
        title = {
            "all": "All questions",
            "direction": "By what is asked for",
            "category": "By category",
        }
        words = title.get(group, "By who arrived after training")
        head = f'<tr><th scope="rowgroup" colspan="{len(_ANSWER_COLUMNS) + 2}">{words}</th></tr>\n'
        lines = [_answer_line(_question(row), row) for row in members]
        if group == "all" and frequency:
            lines.append(_answer_line("training frequency", {**frequency, "n": None}))
        body += f"<tbody>{head}{''.join(lines)}</tbody>\n"
    note = '<p class="soft">Hits@k in per cent.</p>'
    return _card("All results", _answer_table("Questions", body) + note, " long") if rows else ""


def _question(row: Row) -> str:
    group, words = _QUESTIONS.get(row["name"], ("", row["name"]))
    return words if group == row["group"] else str(row["name"])


def _relations(rows: Sequence[Row]) -> str:
    ordered = sorted(rows, key=lambda row: (-row["n"], str(row["name"])))
    lines = [_answer_line(_label(row["name"]), row, safe=True) for row in ordered]
    table = _answer_table("Relation", f"<tbody>{''.join(lines)}</tbody>")
    return _card("Relation by relation", table, " long") if rows else ""


def _answer_table(first: str, body: str) -> str:
    names = ["n", *_ANSWER_COLUMNS.values()]
    heads = "".join(f'<th scope="col" class="num">{name}</th>' for name in names)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{first}">'
        f'<table class="answers"><thead><tr><th scope="col">{first}</th>{heads}</tr></thead>\n'
        f"{body}</table></div>"
    )


def _answer_line(name: str, row: Row, safe: bool = False) -> str:
    n = "" if row["n"] is None else f"{row['n']:,}"
    cells = "".join(f'<td class="num">{_metric(row, key)}</td>' for key in _ANSWER_COLUMNS)
    words = name if safe else _text(name)
    return f'<tr><th scope="row">{words}</th><td class="num">{n}</td>{cells}</tr>\n'


def _answers(samples: Sequence[Row]) -> str:
    """Some questions with the best answer, the asked part in the middle of the line."""
    lines = []
    for row in samples:
        given, answer = (
            row[x] for x in (("head", "tail"), ("tail", "head"))[row["asked"] == "head"]
        )
        parts = [_label(given), _label(row["relation"])]
        asked = "{0} – {1} → ?" if row["asked"] == "tail" else "? – {1} → {0}"
        truth = "✓" if row["correct"] else ", ".join(map(_label, row["truth"][:3]))
        cells = (asked.format(*parts), _label(answer), truth, _metric(row, "probability"))
        lines.append((bool(row["correct"]), cells))
    heads = ("Question", "Best answer", "Should be", "P(right)")
    return _card("A sample of the answers", _verdicts(heads, lines), " long") if samples else ""


def _samples(samples: Sequence[Row]) -> str:
    heads = ("Left", "Best match on the right", "Should be", "Score")
    lines = [
        (
            bool(row["correct"]),
            (
                _label(row["left"]),
                _label(row["right"]),
                "✓" if row["correct"] else _label(row.get("truth")),
                _metric(row, "score"),
            ),
        )
        for row in samples
    ]
    return _card("A sample of the matches", _verdicts(heads, lines), " long") if samples else ""


def _verdicts(heads: Sequence[str], lines: Sequence[tuple[bool, Sequence[str]]]) -> str:
    """A table of what is right, then of what is wrong; the last column is a number."""
    *names, number = heads
    body = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = f'<thead><tr>{body}<th scope="col" class="num">{number}</th></tr></thead>\n'
    for name, kind, correct in (("Right", "good", True), ("Wrong", "bad", False)):
        chosen = [cells for right, cells in lines if right is correct]
        title = f'<th scope="rowgroup" colspan="{len(heads)}" class="key {kind}">{name}</th>'
        body += f"<tbody><tr>{title}</tr>\n" if chosen else ""
        for first, *rest, last in chosen:
            body += f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{x}</td>" for x in rest)
            body += f'<td class="num">{last}</td></tr>\n'
        body += "</tbody>\n" if chosen else ""
    return f'<table class="samples">{body}</table>'


def _facts(facts: Sequence[tuple[str, str]], command: str | None) -> str:
    row = '<tr><th scope="row">{}</th><td dir="auto">{}</td></tr>\n'.format
    rows = "".join(row(_text(name), _text(value)) for name, value in facts)
    body = f'<table class="facts"><tbody>{rows}</tbody></table>' if rows else ""
    body += f"<pre><code>{_text(command)}</code></pre>" if command else ""
    return _card("This run", body) if body else ""
