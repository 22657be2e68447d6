"""What pages are made of: escaped text, numbers, cards, tables and the style.

Everything from outside passes through `escaped`, and the page itself forbids loading anything.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import unquote

from decentrl.data.called import UNFIT

Row = Mapping[str, Any]
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
h2{font-size:1.05rem;margin:0 0 .75rem}h3{font-size:.95rem;margin:1.1rem 0 .4rem}
.words{font-size:.925rem}.words p{margin:0 0 .3rem}.words ul{margin:0 0 .5rem;padding-left:1.2rem}
h1,td,th,code,bdi{overflow-wrap:anywhere}
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


def page(title: str, body: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escaped(title)}</title><style>{_STYLE}</style></head>
<body><main>
{body}</main></body></html>
"""


def escaped(value: object) -> str:
    """Escaped for text and attributes; what a page or UTF-8 cannot carry becomes U+FFFD."""
    return html.escape(re.sub(rf"[{UNFIT}\ud800-\udfff]", "\ufffd", str(value)))


def label(value: object, name: str | None = None) -> str:
    """A short name of an entity, with the full label in the title.

    Without a name it is the decoded end of an IRI.
    """
    full = "–" if value is None else str(value)
    bare = full.strip("<> \t").rstrip("/#")
    short = full
    if "://" in bare or bare.lower().startswith("urn:"):
        end = re.split(r"[/#]" if "://" in bare else r"[/#:]", bare)[-1]
        short = unquote(end, errors="replace").strip() or full
    short = name or short
    short = short if len(short) <= 90 else short[:89] + "…"
    return f'<bdi title="{escaped(full)}">{escaped(short)}</bdi>'


def finite(value: Any) -> float | None:
    number = math.nan if value is None else float(value)
    return number if math.isfinite(number) else None


def metric(row: Row, key: str, unit: str = "") -> str:
    if key == "n":
        return "" if row[key] is None else f"{row[key]:,}"
    value = finite(row.get(key))
    if value is None:
        return "–"
    if key.startswith("hits@"):
        return f"{100 * value:.1f}{unit}"
    if key == "mr":
        return f"{value:,.1f}"
    return f"{value:.3f}" if value == 0 or abs(value) >= 0.001 else f"{value:.1e}"


def bar_style(row: Row, key: str) -> str:
    return f'style="--v:{100 * (finite(row.get(key)) or 0):.1f}%"'


def share(fraction: float) -> str:
    """A percentage for a sentence; 0 and 100 only if they are exact."""
    if 0 < fraction < 0.01 or 0.99 < fraction < 1:
        return f"<b>{'less than 1' if fraction < 0.01 else 'more than 99'} %</b>"
    return f"<b>{100 * fraction:.0f} %</b>"


def card(title: str, body: str, kind: str = "") -> str:
    return f'<section class="card{kind}"><h2>{title}</h2>\n{body}</section>\n'


def row_of(cards: str) -> str:
    return f'<div class="row">{cards}</div>\n' if cards else ""


def header(job: str, title: str, summary: str) -> str:
    lead = f'<p class="lead">{summary}</p>' if summary else ""
    name = f'<div class="soft">{job} report</div><h1 dir="auto">{escaped(title)}</h1>'
    return f"<header>{name}{lead}</header>\n"


def explanations(title: str, explained: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Texts under headings; lines that begin with a space are items of a list."""
    body = ""
    for heading, lines in explained:
        body += f"<h3>{escaped(heading)}</h3>"
        for listed, some in groupby(lines, lambda line: line.startswith(" ")):
            texts = [f'<bdi dir="auto">{escaped(line.strip())}</bdi>' for line in some]
            if listed:
                body += "<ul>" + "".join(f"<li>{text}</li>" for text in texts) + "</ul>"
            else:
                body += "".join(f"<p>{text}</p>" for text in texts)
    return card(title, body, " long words") if body else ""


def metric_table(
    title: str,
    first: str,
    columns: Mapping[str, str],
    groups: Sequence[tuple[str, Sequence[tuple[str, Row]]]],
    note: str = "",
    compare: bool = False,
) -> str:
    """A card with a table of metrics.

    Args:
        first: the heading of the column of names.
        columns: the heading of each metric.
        groups: their titles, and the names and metrics of their rows.
        compare: rows of a group are rivals, the best is bold.
    """
    if not groups:
        return ""
    heads = "".join(f'<th scope="col" class="num">{name}</th>' for name in columns.values())
    body = f'<thead><tr><th scope="col">{first}</th>{heads}</tr></thead>\n'
    for heading, rows in groups:
        rivals = [row for _, row in rows] if compare else []
        span = f'<tr><th scope="rowgroup" colspan="{len(columns) + 1}">{heading}</th></tr>\n'
        body += f"<tbody>{span if heading else ''}"
        for name, row in rows:
            cells = "".join(_cell(row, key, rivals) for key in columns)
            body += f'<tr><th scope="row">{name}</th>{cells}</tr>\n'
        body += "</tbody>\n"
    kind = "metrics" if compare else "answers"
    region = f'<div class="scroll" role="region" tabindex="0" aria-label="{title}">'
    body = f'{region}<table class="{kind}">{body}</table></div>'
    return card(title, body + (f'<p class="soft">{note}</p>' if note else ""), " long")


def _cell(row: Row, key: str, rivals: Sequence[Row]) -> str:
    values = {v for v in (finite(rival.get(key)) for rival in rivals) if v is not None}
    best = (min if key == "mr" else max)(values, default=None)
    shown = metric(row, key)
    if len(values) > 1 and finite(row.get(key)) == best:
        shown = f"<strong>{shown}</strong>"
    bar = f" {bar_style(row, key)}" if rivals and key == "hits@1" else ""
    return f'<td class="num"{bar}>{shown}</td>'


def tiles_of(tiles: Sequence[tuple[str, Row, str, str]]) -> str:
    body = ""
    for name, row, key, meaning in tiles:
        body += f'<div><dt>{name}</dt><dd class="big">{metric(row, key, " %")}</dd>'
        meter = f'<dd class="meter" {bar_style(row, key)} aria-hidden="true"></dd>'
        body += meter if key not in ("mr", "ece") else ""
        body += f'<dd class="soft">{meaning}</dd></div>'
    return f'<section class="card" aria-label="Summary"><dl class="tiles">{body}</dl></section>\n'


def verdicts(title: str, heads: Sequence[str], lines: Sequence[tuple[bool, Sequence[str]]]) -> str:
    """A card with what is right, then what is wrong; the last column is a number."""
    if not lines:
        return ""
    *names, number = heads
    body = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = f'<thead><tr>{body}<th scope="col" class="num">{number}</th></tr></thead>\n'
    for name, kind, correct in (("Right", "good", True), ("Wrong", "bad", False)):
        chosen = [cells for right, cells in lines if right is correct]
        group = f'<th scope="rowgroup" colspan="{len(heads)}" class="key {kind}">{name}</th>'
        body += f"<tbody><tr>{group}</tr>\n" if chosen else ""
        for first, *rest, last in chosen:
            body += f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{x}</td>" for x in rest)
            body += f'<td class="num">{last}</td></tr>\n'
        body += "</tbody>\n" if chosen else ""
    return card(title, f'<table class="samples">{body}</table>', " long")


def facts_card(facts: Sequence[tuple[str, str]], command: str | None) -> str:
    row = '<tr><th scope="row">{}</th><td dir="auto">{}</td></tr>\n'.format
    rows = "".join(row(escaped(name), escaped(value)) for name, value in facts)
    body = f'<table class="facts"><tbody>{rows}</tbody></table>' if rows else ""
    body += f"<pre><code>{escaped(command)}</code></pre>" if command else ""
    return card("This run", body) if body else ""
