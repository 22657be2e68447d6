"""The page of a prediction run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from decentrl.runs.report.charts import bar_chart, histogram, training_chart
from decentrl.runs.report.page import (
    Row,
    card,
    escaped,
    facts_card,
    label,
    metric,
    page,
    row_of,
    share,
    tiles_of,
    verdicts,
)

_COLUMNS = {"mrr": "MRR"} | {f"hits@{k}": f"Hits<wbr>@{k}" for k in (1, 3, 10)}
_COLUMNS |= {"mr": "Mean rank"}
_QUESTIONS = {
    "all": ("all", "this model"),
    "tail": ("direction", "for the tail (h, r, ?)"),
    "head": ("direction", "for the head (?, r, t)"),
}
_READING = """<section class="card"><h2>How to read this page</h2>
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
    body = _header(report.title, head, report.frequency)
    body += _tiles(rows, head, report.confidence) if head else ""
    body += row_of(charts) + _questions(rows, report.frequency) + _answers(report.samples)
    body += _relations([row for row in rows if row["group"] == "relation"])
    body += row_of((_READING if rows else "") + facts_card(report.facts, report.command))
    return page(f"{report.title} – prediction report", body)


def _header(title: str, head: Row | None, frequency: Row) -> str:
    header = f'<div class="soft">Prediction report</div><h1 dir="auto">{escaped(title)}</h1>'
    if head is not None:
        first, ten = share(head["hits@1"]), share(head["hits@10"])
        header += f'<p class="lead">Of {head["n"]:,} questions, {first} are answered right at once '
        header += f"and {ten} within the first ten."
        if frequency:
            ten = share(frequency["hits@10"])
            header += f" By training frequency alone, {ten} would be within the first ten."
        header += "</p>"
    return f"<header>{header}</header>\n"


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
        words = title.get(group, "By who arrived after training")
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
    names = ["n", *_COLUMNS.values()]
    heads = "".join(f'<th scope="col" class="num">{name}</th>' for name in names)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{first}">'
        f'<table class="answers"><thead><tr><th scope="col">{first}</th>{heads}</tr></thead>\n'
        f"{body}</table></div>"
    )


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
