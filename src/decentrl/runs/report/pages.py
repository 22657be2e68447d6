"""The report pages of the two jobs."""

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
    header,
    label,
    metric,
    metric_table,
    page,
    row_of,
    share,
    tiles_of,
    verdicts,
)

# Alignment

# The order of the values is the order of the table. The run's own matcher leads the page, as one
# chosen by its test result would flatter the headline.
_AXES = {
    "direction": {"left-right": "left to right", "right-left": "right to left"},
    "candidates": {"test": "among the test targets", "all": "among all targets"},
    "subset": {"all": "", "known": "known", "unknown": "unknown"},
    "matcher": {"csls": "CSLS", "cosine": "Cosine", "sinkhorn": "Sinkhorn"},
}
_LINK_COLUMNS = {f"hits@{k}": f"Hits<wbr>@{k}" for k in (1, 5, 10, 50)}
_LINK_COLUMNS |= {"mrr": "MRR", "mr": "Mean rank"}
_READING_LINKS = """<section class="card"><h2>How to read this page</h2>
<p>Every test entity ranks the candidates on the other side by score. Hits@k is the share whose true
counterpart is among the first k.</p>
<p>Metrics are tie-aware: a counterpart that shares its score with other candidates gets the mean of
the best and the worst rank it could have. So a model that scores all alike earns nothing.</p>
<p>Scores are comparable only within one matcher: a CSLS score of 0.5 and a cosine of 0.5 mean
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
    footer = (_READING_LINKS if rows else "") + facts_card(report.facts, report.command)
    body = header("Alignment", report.title, _link_summary(rows, head))
    body += _link_tiles(rows, head) if head else ""
    body += row_of(charts) + _metrics(rows) + _matches(report.samples) + row_of(footer)
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


def _link_summary(rows: Sequence[Row], head: Row | None) -> str:
    if head is None:
        return ""
    entities = f"{head['n']:,} {_word(head, 'subset')}".strip() + " test entities"
    first, ten = share(head["hits@1"]), share(head["hits@10"])
    setting = ", ".join(_word(head, axis) for axis in ("matcher", "direction", "candidates"))
    text = f"Of {entities}, {first} find their counterpart first and {ten} within the first ten "
    text += f"({setting})."
    if back := _sibling(rows, head, "direction", "right-left"):
        text += f" From right to left, {share(back['hits@1'])} find it first."
    return text


def _link_tiles(rows: Sequence[Row], head: Row) -> str:
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
    groups = groupby(rows, key=lambda row: (_order(row)[:3], row["n"]))
    lines = "".join(_metrics_group(list(group)) for _, group in groups)
    table = metric_table("metrics", "All results", ("Matcher", *_LINK_COLUMNS.values()), lines)
    table += '<p class="soft">Hits@k in per cent. Bold: the best matcher of its group.</p>'
    return card("All results", table, " long") if rows else ""


def _metrics_group(rows: list[Row]) -> str:
    direction, where = _word(rows[0], "direction"), _word(rows[0], "candidates")
    count = f'<span class="soft">{rows[0]["n"]:,} {_word(rows[0], "subset")} entities</span>'
    title = f"{direction[:1].upper()}{direction[1:]}, {where} {count}"
    lines = f'<tr><th scope="rowgroup" colspan="{len(_LINK_COLUMNS) + 1}">{title}</th></tr>\n'
    for row in rows:
        lines += f'<tr><th scope="row">{_word(row, "matcher")}</th>'
        for key in _LINK_COLUMNS:
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


def _matches(samples: Sequence[Row]) -> str:
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


# Prediction

_COLUMNS = {"mrr": "MRR"} | {f"hits@{k}": f"Hits<wbr>@{k}" for k in (1, 3, 10)}
_COLUMNS |= {"mr": "Mean rank"}
_QUESTIONS = {
    "all": ("all", "this model"),
    "tail": ("direction", "for the tail (h, r, ?)"),
    "head": ("direction", "for the head (?, r, t)"),
}
_READING_TRIPLES = """<section class="card"><h2>How to read this page</h2>
<p>Every test triple asks two questions: for its tail, and for its head. All entities are ranked as
answers; other answers that are known to be right do not count (filtered). Hits@k is the share of
test triples whose answer is among the first k.</p>
<p>Metrics are tie-aware: an answer that shares its score with others gets the mean of the best and
the worst rank it could have. So a model that scores all alike earns nothing.</p>
<p>1-1, 1-N, N-1 and N-N are how many heads and tails a relation joins: a question with many right
answers is harder. Training frequency knows nothing but how often an entity answers a relation.</p>
</section>
"""


@dataclass(frozen=True)
class PredictionReport:
    """What the page shows; a part without data does not appear. Fractions, not per cent."""

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
    charts = training_chart(report.history, "valid_mrr", "Validation MRR")
    charts += histogram(
        {k: [v for v in s if v is not None] for k, s in report.probabilities.items()},
        "How far to trust a probability",
        "probability",
    )
    charts += _categories([row for row in rows if row["group"] == "category"])
    body = header("Prediction", report.title, _summary(head, report.frequency))
    body += _tiles(rows, head, report.confidence) if head else ""
    body += row_of(charts) + _questions(rows, report.frequency) + _answers(report.samples)
    body += _relations([row for row in rows if row["group"] == "relation"])
    body += row_of((_READING_TRIPLES if rows else "") + facts_card(report.facts, report.command))
    return page(f"{report.title} – prediction report", body)


def _summary(head: Row | None, frequency: Row) -> str:
    if head is None:
        return ""
    first, ten = share(head["hits@1"]), share(head["hits@10"])
    text = f"Of {head['n']:,} questions, {first} are answered right at once and {ten} within the "
    text += "first ten."
    if frequency:
        ten = share(frequency["hits@10"])
        text += f" By training frequency alone, {ten} would be within the first ten."
    return text


def _tiles(rows: Sequence[Row], head: Row, confidence: Row) -> str:
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
    return tiles_of(tiles)


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
        words = title.get(group, "By what arrived after training")
        head = f'<tr><th scope="rowgroup" colspan="{len(_COLUMNS) + 2}">{words}</th></tr>\n'
        lines = [_line(_question(row), row) for row in members]
        if group == "all" and frequency:
            lines.append(_line("training frequency", {**frequency, "n": None}))
        body += f"<tbody>{head}{''.join(lines)}</tbody>\n"
    note = '<p class="soft">Hits@k in per cent.</p>'
    return card("All results", _table("Questions", body) + note, " long") if rows else ""


def _question(row: Row) -> str:
    group, words = _QUESTIONS.get(row["name"], ("", row["name"]))
    return words if group == row["group"] else str(row["name"])


def _categories(rows: Sequence[Row]) -> str:
    caption = "By how many heads and tails the relation of a question joins on average."
    bars = [(str(row["name"]), row) for row in rows]
    return bar_chart("Hits@10 by category", "category", "hits@10", bars, caption)


def _relations(rows: Sequence[Row]) -> str:
    ordered = sorted(rows, key=lambda row: (-row["n"], str(row["name"])))
    lines = [_line(label(row["name"]), row, safe=True) for row in ordered]
    table = _table("Relation", f"<tbody>{''.join(lines)}</tbody>")
    return card("Relation by relation", table, " long") if rows else ""


def _table(first: str, body: str) -> str:
    return metric_table("answers", first, (first, "n", *_COLUMNS.values()), body)


def _line(name: str, row: Row, safe: bool = False) -> str:
    n = "" if row["n"] is None else f"{row['n']:,}"
    cells = "".join(f'<td class="num">{metric(row, key)}</td>' for key in _COLUMNS)
    words = name if safe else escaped(name)
    return f'<tr><th scope="row">{words}</th><td class="num">{n}</td>{cells}</tr>\n'


def _answers(samples: Sequence[Row]) -> str:
    """Some questions with the best answer, the asked part in the middle of the line."""
    lines = []
    for row in samples:
        given, answer = (
            row[x] for x in (("head", "tail"), ("tail", "head"))[row["asked"] == "head"]
        )
        parts = [label(given), label(row["relation"])]
        asked = "{0} – {1} → ?" if row["asked"] == "tail" else "? – {1} → {0}"
        truth = "✓" if row["correct"] else ", ".join(map(label, row["truth"][:3]))
        cells = (asked.format(*parts), label(answer), truth, metric(row, "probability"))
        lines.append((bool(row["correct"]), cells))
    heads = ("Question", "Best answer", "Should be", "P(right)")
    return card("A sample of the answers", verdicts(heads, lines), " long") if samples else ""
