"""The report page of a run, of an alignment or of a prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from decentrl.config import FEW_LINKS
from decentrl.data.called import NAME
from decentrl.runs.report.charts import bar_chart, histogram, training_chart
from decentrl.runs.report.page import (
    Row,
    card,
    escaped,
    explanations,
    facts_card,
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


@dataclass(frozen=True)
class Report:
    """What the page shows; a part without data does not appear. Fractions, not per cent."""

    job: Literal["alignment", "prediction"]
    title: str
    facts: Sequence[tuple[str, str]]
    results: Sequence[Row]  # as in results.json
    history: Sequence[Row]  # an epoch each: epoch, loss, sometimes valid_hits@1 or valid_mrr
    scores: Mapping[str, Sequence[float | None]]  # of best answers, "right" and "wrong"
    groups: Sequence[Row]  # a bar each: name, n and hits@1 or hits@10
    samples: Sequence[Row]  # as in test_matches() or test_predictions()
    command: str | None = None
    matcher: str = "csls"  # of an alignment: leads the page
    frequency: Row | None = None  # of a prediction: metrics of answering by training frequency
    confidence: Row | None = None  # ece, mean, right
    explained: Sequence[tuple[str, Sequence[str]]] = ()  # headings, lines
    matches: Sequence[Row] = ()  # of an alignment: what match gives among everything


def render_report(report: Report) -> str:
    """The whole page as one string; write it as UTF-8."""
    body = (_alignment if report.job == "alignment" else _prediction)(report)
    reading = card("How to read this page", _READING[report.job] + _TIES) if report.results else ""
    body += row_of(reading + facts_card(report.facts, report.command))
    return page(f"{report.title} – {report.job} report", body)


_READING = {
    "alignment": """<p>Every test entity ranks the candidates on the other side by score. Hits@k is
the share whose true counterpart is among the first k.</p>
<p>Matches among everything are what <code>match</code> gives: all entities without a known link
take part, on both sides, and those less sure than the fitted threshold have none. Precision is the
share of these matches that is right; a match with no end in a test link counts as wrong. Recall is
the share of the test links that is found, F1 the harmonic mean of the two.</p>
<p>Among the test targets, as the field reports it, each candidate is the counterpart of exactly one
test entity; real graphs do not promise that.</p>
<p>Scores are comparable only within one matcher: a CSLS score of 0.5 and a cosine of 0.5 mean
different things.</p>""",
    "prediction": """<p>Every test triple asks two questions: for its tail, and for its head. All
entities are ranked as answers; other answers that are known to be right do not count (filtered).
Hits@k is the share of test triples whose answer is among the first k.</p>
<p>1-1, 1-N, N-1 and N-N are how many heads and tails a relation joins: a question with many right
answers is harder. Training frequency knows nothing but how often an entity answers a relation.</p>
""",
}
_TIES = """<p>Metrics are tie-aware: what shares its score with others gets the mean of the best and
the worst rank it could have. So a model that scores all alike earns nothing.</p>"""

# Alignment

# The order of the values is the order of the table. The run's own matcher leads the page, as one
# chosen by its test result would flatter the headline.
_AXES = {
    "direction": {"left-right": "left to right", "right-left": "right to left"},
    "candidates": {"test": "among the test targets", "all": "among all targets"},
    "subset": {"all": "", "known": "known", "unknown": "unknown"},
    "matcher": {"csls": "CSLS", "cosine": "Cosine", "sinkhorn": "Sinkhorn", "blend": "Blend"},
}
_CLAIM_COLUMNS = {"n": "Links", "hits@1": "Hits<wbr>@1", "precision": "Precision"}
_CLAIM_COLUMNS |= {"recall": "Recall", "f1": "F1"}
_CLAIMED = {
    "all": "all", "known": "between entities seen in training", "unknown": "with a newer end"
}  # fmt: skip
_LINK_COLUMNS = {f"hits@{k}": f"Hits<wbr>@{k}" for k in (1, 5, 10, 50)}
_LINK_COLUMNS |= {"mrr": "MRR", "mr": "Mean rank"}


def _alignment(report: Report) -> str:
    rows = sorted(report.results, key=_order)
    counted = [row for row in rows if row["n"]]
    head = min(counted, key=lambda row: row["matcher"] != report.matcher, default=None)
    body = header("Alignment", report.title, _link_summary(report.matches, rows, head))
    body += tiles_of(_link_tiles(report, rows, head)) if head else ""
    claims = [("", [(_CLAIMED[row["subset"]], row) for row in report.matches])]
    if report.matches:
        body += metric_table("Matches among everything", "Matches", _CLAIM_COLUMNS, claims)
    body += row_of(
        training_chart(report.history, "valid_hits@1", "Validation Hits@1")
        + histogram(report.scores, "score")
        + bar_chart(
            "Hits@1 by degree", "degree", "hits@1", report.groups,
            "Degree: how many triples an entity stands in. Few triples leave little to go by.",
        )
    )  # fmt: skip
    groups = [
        (_group_title(group[0]), [(_word(row, "matcher"), row) for row in group])
        for group in (list(g) for _, g in groupby(rows, lambda row: (_order(row)[:3], row["n"])))
    ]
    note = "Hits@k in per cent. Bold: the best matcher of its group."
    body += metric_table(
        "As the field reports it", "Matcher", _LINK_COLUMNS, groups, note, compare=True
    )
    heads = ("Left", "Best match on the right", "Should be", "Score")
    lines = []
    for row in report.samples:
        left, right, truth = (
            label(row[name], row.get(f"{name}{NAME}")) for name in ("left", "right", "truth")
        )
        cells = (left, right, "✓" if row["correct"] else truth, metric(row, "score"))
        lines.append((bool(row["correct"]), cells))
    body += verdicts("A sample of the matches", heads, lines)
    return body + explanations("Matches explained", report.explained)


def _order(row: Row) -> tuple[int, ...]:
    axes = [(list(words), row[axis]) for axis, words in _AXES.items()]
    return tuple(order.index(v) if v in order else len(order) for order, v in axes)


def _word(row: Row, axis: str) -> str:
    return escaped(_AXES[axis].get(row[axis], row[axis]))


def _group_title(row: Row) -> str:
    direction, where = _word(row, "direction"), _word(row, "candidates")
    count = f'<span class="soft">{row["n"]:,} {_word(row, "subset")} entities</span>'
    return f"{direction[:1].upper()}{direction[1:]}, {where} {count}"


def _sibling(rows: Sequence[Row], head: Row, axis: str, value: str) -> Row | None:
    """The row that differs from `head` on one axis only."""
    wanted = {name: head[name] for name in _AXES} | {axis: value}
    found = (row for row in rows if row["n"] and all(row[a] == v for a, v in wanted.items()))
    return None if head[axis] == value else next(found, None)


def _link_summary(matches: Sequence[Row], rows: Sequence[Row], head: Row | None) -> str:
    text = ""
    if matches:
        first = matches[0]
        text += f"Of {first['claimed']:,} matches among everything, {share(first['precision'])} are"
        text += f" right, and {share(first['recall'])} of {first['n']:,} test links are found. "
        if first["n"] < FEW_LINKS:
            text += f"Only {first['n']} links are tested: these numbers say little. "
    if head is None:
        return text
    entities = f"{head['n']:,} {_word(head, 'subset')}".strip() + " test entities"
    one, ten = share(head["hits@1"]), share(head["hits@10"])
    setting = ", ".join(_word(head, axis) for axis in ("matcher", "direction", "candidates"))
    text += f"Of {entities}, {one} find their counterpart first and {ten} within the first ten "
    text += f"({setting})."
    if back := _sibling(rows, head, "direction", "right-left"):
        text += f" From right to left, {share(back['hits@1'])} find it first."
    return text


def _link_tiles(report: Report, rows: Sequence[Row], head: Row) -> list[tuple[str, Row, str, str]]:
    tiles = [("F1", row, "f1", "of matches among everything") for row in report.matches[:1]] + [
        ("Hits@1", head, "hits@1", "the first suggestion is the counterpart"),
        ("Hits@10", head, "hits@10", "it is among the first ten"),
        ("MRR", head, "mrr", "mean of 1 / rank; 1 is perfect"),
        ("Mean rank", head, "mr", "1 is perfect"),
    ]
    for subset, seen in (("known", "seen in training"), ("unknown", "not seen in training")):
        if row := _sibling(rows, head, "subset", subset):
            tiles.append((f"Hits@1, {subset}", row, "hits@1", f"of the {row['n']:,} {seen}"))
    if sure := report.confidence:
        said = f"confidence expects {share(sure['mean'])} right, {share(sure['right'])} are"
        tiles.append(("Calibration error", sure, "ece", said))
    return tiles


# Prediction

_COLUMNS = {"n": "n", "mrr": "MRR"} | {f"hits@{k}": f"Hits<wbr>@{k}" for k in (1, 3, 10)}
_COLUMNS |= {"mr": "Mean rank"}
_QUESTIONS = {
    "all": "this model",
    "tail": "for the tail (h, r, ?)",
    "head": "for the head (?, r, t)",
}
_GROUPS = {
    "all": "All questions",
    "direction": "By what is asked for",
    "category": "By category",
    "open world": "By what arrived after training",
    "another graph": "Another graph with the same relations",
}


def _prediction(report: Report) -> str:
    rows = [row for row in report.results if row["group"] != "relation"]
    relations = [row for row in report.results if row["group"] == "relation"]
    head = next((row for row in rows if row["group"] == "all"), None)
    body = header("Prediction", report.title, _summary(head, report.frequency) if head else "")
    body += tiles_of(_tiles(rows, head, report.confidence)) if head else ""
    body += row_of(
        training_chart(report.history, "valid_mrr", "Validation MRR")
        + histogram(report.scores, "probability")
        + bar_chart(
            "Hits@10 by category", "category", "hits@10", report.groups,
            "By how many heads and tails the relation of a question joins on average.",
        )
    )  # fmt: skip
    groups = []
    for group, members in groupby(rows, lambda row: str(row["group"])):
        lines = [(escaped(_QUESTIONS.get(row["name"], row["name"])), row) for row in members]
        if group == "all" and report.frequency:
            lines.append(("training frequency", {**report.frequency, "n": None}))
        groups.append((_GROUPS[group], lines))
    body += metric_table("All results", "Questions", _COLUMNS, groups, "Hits@k in per cent.")
    samples = [(bool(row["correct"]), _sample(row)) for row in report.samples]
    heads = ("Question", "Best answer", "Should be", "P(right)")
    body += verdicts("A sample of the answers", heads, samples)
    relations.sort(key=lambda row: (-row["n"], str(row["name"])))
    body += explanations("Answers explained", report.explained)
    named = [("", [(label(row["name"]), row) for row in relations])] if relations else []
    return body + metric_table("Relation by relation", "Relation", _COLUMNS, named)


def _summary(head: Row, frequency: Row | None) -> str:
    first, ten = share(head["hits@1"]), share(head["hits@10"])
    text = f"Of {head['n']:,} questions, {first} are answered right at once and {ten} within the "
    text += "first ten."
    if frequency:
        ten = share(frequency["hits@10"])
        text += f" By training frequency alone, {ten} would be within the first ten."
    return text


def _tiles(
    rows: Sequence[Row], head: Row, confidence: Row | None
) -> list[tuple[str, Row, str, str]]:
    tiles = [
        ("MRR", head, "mrr", "mean of 1 / rank; 1 is perfect"),
        ("Hits@1", head, "hits@1", "the first answer is right"),
        ("Hits@10", head, "hits@10", "it is among the first ten"),
    ]
    named = {row["name"]: row for row in rows}
    for name, words in (
        ("new query, known answer", "MRR, new asks"),
        ("known query, new answer", "MRR, new answers"),
    ):
        if row := named.get(name):
            tiles.append((words, row, "mrr", f"of {row['n']:,} with an entity unseen in training"))
    if confidence:
        tiles.append(
            ("Calibration error", confidence, "ece", "0 is perfect: probabilities are true")
        )
    return tiles


def _sample(row: Row) -> tuple[str, ...]:
    """A question with the best answer."""
    ends = tuple(label(row[name], row.get(f"{name}{NAME}")) for name in ("head", "tail"))
    given, answer = ends if row["asked"] == "tail" else ends[::-1]
    asked = "{0} – {1} → ?" if row["asked"] == "tail" else "? – {1} → {0}"
    names = row.get(f"truth{NAME}") or [None] * len(row["truth"])
    truth = "✓" if row["correct"] else ", ".join(map(label, row["truth"][:3], names))
    return asked.format(given, label(row["relation"])), answer, truth, metric(row, "probability")
