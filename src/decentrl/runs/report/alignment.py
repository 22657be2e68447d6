"""The page of an alignment run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from decentrl.runs.report.charts import bar_chart, histogram, training_chart
from decentrl.runs.report.page import (
    Row,
    bar_style,
    card,
    escaped,
    facts_card,
    finite,
    label,
    metric,
    page,
    row_of,
    share,
    tiles_of,
    verdicts,
)

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
_READING = """<section class="card"><h2>How to read this page</h2>
<p>Every test entity ranks the candidates on the other side by score. Hits@k is the share whose true
counterpart is among the first k.</p>
<p>Metrics are tie-aware: a counterpart that shares its score with other candidates gets the mean of
the best and the worst rank it could have. So a model that scores all alike earns nothing.</p>
<p>Scores are comparable only within one matcher: a CSLS score of 0.5 and a cosine of 0.5 say
different things.</p></section>
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
    charts = training_chart(report.history) + histogram(report.scores) + _degrees(report.by_degree)
    footer = (_READING if rows else "") + facts_card(report.facts, report.command)
    body = _header(report.title, rows, head) + (_tiles(rows, head) if head else "")
    body += row_of(charts) + _metrics(rows) + _samples(report.samples) + row_of(footer)
    return page(f"{report.title} – alignment report", body)


def _order(row: Row) -> tuple[int, ...]:
    axes = [(list(words), row[axis]) for axis, words in _AXES.items()]
    return tuple(order.index(v) if v in order else len(order) for order, v in axes)


def _word(row: Row, axis: str) -> str:
    return escaped(_AXES[axis].get(row[axis], row[axis]))


def _sibling(rows: Sequence[Row], head: Row, axis: str, value: str) -> Row | None:
    """The row that differs from `head` on one axis only."""
    wanted = {name: head[name] for name in _AXES} | {axis: value}
    found = (row for row in rows if row["n"] and all(row[a] == v for a, v in wanted.items()))
    return None if head[axis] == value else next(found, None)


def _header(title: str, rows: Sequence[Row], head: Row | None) -> str:
    header = f'<div class="soft">Alignment report</div><h1 dir="auto">{escaped(title)}</h1>'
    if head is not None:
        entities = f"{head['n']:,} {_word(head, 'subset')}".strip() + " test entities"
        first, ten = share(head["hits@1"]), share(head["hits@10"])
        setting = ", ".join(_word(head, axis) for axis in ("matcher", "direction", "candidates"))
        header += f'<p class="lead">Of {entities}, {first} find their counterpart first '
        header += f"and {ten} within the first ten ({setting})."
        if back := _sibling(rows, head, "direction", "right-left"):
            header += f" From right to left, {share(back['hits@1'])} find it first."
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
    return tiles_of(tiles)


def _metrics(rows: Sequence[Row]) -> str:
    heads = "".join(f'<th scope="col" class="num">{name}</th>' for name in _COLUMNS.values())
    groups = groupby(rows, key=lambda row: (_order(row)[:3], row["n"]))
    table = (
        '<div class="scroll" role="region" tabindex="0" aria-label="All results">'
        f'<table class="metrics"><thead><tr><th scope="col">Matcher</th>{heads}</tr></thead>\n'
        f"{''.join(_metrics_group(list(group)) for _, group in groups)}</table></div>"
        '<p class="soft">Hits@k in per cent. Bold: the best matcher of its group.</p>'
    )
    return card("All results", table, " long") if rows else ""


def _metrics_group(rows: list[Row]) -> str:
    direction, where = _word(rows[0], "direction"), _word(rows[0], "candidates")
    count = f'<span class="soft">{rows[0]["n"]:,} {_word(rows[0], "subset")} entities</span>'
    title = f"{direction[:1].upper()}{direction[1:]}, {where} {count}"
    lines = f'<tr><th scope="rowgroup" colspan="{len(_COLUMNS) + 1}">{title}</th></tr>\n'
    for row in rows:
        lines += f'<tr><th scope="row">{_word(row, "matcher")}</th>'
        for key in _COLUMNS:
            values = [v for v in (finite(other.get(key)) for other in rows) if v is not None]
            best = (min if key == "mr" else max)(values, default=None)
            bold = len(set(values)) > 1 and finite(row.get(key)) == best
            shown = f"<strong>{metric(row, key)}</strong>" if bold else metric(row, key)
            bar = bar_style(row, key) if key == "hits@1" else ""
            lines += f'<td class="num" {bar}>{shown}</td>'
        lines += "</tr>\n"
    return f"<tbody>{lines}</tbody>"


def _degrees(rows: Sequence[Row]) -> str:
    caption = "Degree: how many triples an entity stands in. Few triples leave little to go by."
    bars = [(str(row["degree"]), row) for row in rows]
    return bar_chart("Hits@1 by degree", "degree", "hits@1", bars, caption)


def _samples(samples: Sequence[Row]) -> str:
    heads = ("Left", "Best match on the right", "Should be", "Score")
    lines = [
        (
            bool(row["correct"]),
            (
                label(row["left"]),
                label(row["right"]),
                "✓" if row["correct"] else label(row.get("truth")),
                metric(row, "score"),
            ),
        )
        for row in samples
    ]
    return card("A sample of the matches", verdicts(heads, lines), " long") if samples else ""
