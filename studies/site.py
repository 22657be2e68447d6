"""The pages of results: one per target, from the result files alone."""

from __future__ import annotations

from collections.abc import Container, Sequence
from pathlib import Path
from statistics import fmean

from decentrl.errors import MissingExtraError
from studies.claims import Claims
from studies.figures import draw
from studies.layout import Target
from studies.plan import Plan
from studies.scale import DIMENSION, EPOCHS, Scale
from studies.store import Store
from studies.tables import LEGEND, UNCOMMITTED_NOTE, comma_separated, has_uncommitted, markdown
from studies.targets import TARGETS, make_targets

MADE = "*Made by `python -m studies` from the result files; do not edit.*\n"


def write_site(folder: Path, targets: Sequence[Target], scale: Scale, store: Store) -> list[str]:
    """Write the pages of the targets and claims and an index; return what could not be made."""
    folder.mkdir(parents=True, exist_ok=True)
    problems = []
    for target in targets:
        try:
            pictures = _draw(folder, target, store)
        except MissingExtraError as error:
            pictures, problems = [], [str(error)]
        write(folder / f"{target.name}.md", page(target, scale, store, pictures))
        tables = [comma_separated(table, store) for table in target.tables]
        rest = [text.split("\n", 1)[1] for text in tables[1:]]
        write(folder / f"{target.name}.csv", "".join([tables[0], *rest]))
    write(folder / "claims.md", claims_page(scale, store))
    there = {path.stem for path in folder.glob("*.md")}
    write(folder / "index.md", index(scale, store, there))
    return problems


def page(target: Target, scale: Scale, store: Store, pictures: Sequence[str]) -> str:
    parts = [f"# {target.title}\n", MADE, _small(scale), target.about + "\n"]
    for name, figure in zip(pictures, target.figures, strict=False):
        parts.append(f"![{figure.title}]({name}.svg)\n")
    marked = any(has_uncommitted(table, store) for table in target.tables)
    parts.append(LEGEND + f" {UNCOMMITTED_NOTE}" * marked + "\n")
    for table in target.tables:
        parts += [f"## {table.title}\n", markdown(table, store)]
    parts += ["## How it was made\n", _how(target, scale, store)]
    parts.append(f"The same cells as [CSV]({target.name}.csv). [All results](index.md).\n")
    return "\n".join(part for part in parts if part)


def _draw(folder: Path, target: Target, store: Store) -> list[str]:
    names = []
    for i, figure in enumerate(target.figures):
        name = target.name + (f"-{i + 1}" if i else "")
        if draw(figure, store, folder / name):
            names.append(name)
    return names


def _small(scale: Scale) -> str:
    if not scale.quick:
        return ""
    return (
        "**A quick version:** one seed on the small dataset that is inside the package, at most "
        f"{DIMENSION} dimensions and {EPOCHS} epochs (where sizes are compared, other "
        "dimensions). It shows that everything works, not how good anything is, and no number of "
        "the paper is comparable.\n"
    )


def _how(target: Target, scale: Scale, store: Store) -> str:
    plan = Plan.of([target], store)
    results = store.results(plan.done)
    quick = " --quick" if scale.quick else ""
    lines = [f"- command: `python -m studies {target.name}{quick}`"]
    lines.append(f"- runs: {len(plan.done)} done, {len(plan.missing)} not run")
    if plan.unavailable:
        lines.append(f"- presets that are not there: {', '.join(plan.unavailable)}")
    if results:
        times = [result["seconds"]["whole"] for result in results]
        shared = max(result["at_once"] for result in results)
        lines.append(
            f"- time: {sum(times):,.0f} s in all, {fmean(times):,.1f} s a run"
            + (f", up to {shared} at once on one device" if shared > 1 else "")
        )
        devices = sorted({result["device"] for result in results})
        lines.append(f"- hardware: {', '.join(devices)}")
        commits = sorted({result["commit"] or "unknown" for result in results})
        lines.append(f"- commit: {', '.join(commits)}")
        torch = sorted({result["versions"]["torch"] for result in results})
        lines.append(f"- torch: {', '.join(torch)}")
        lines.append(f"- one of the runs on its own: `{results[0]['command']}`")
    return "\n".join(lines) + "\n"


def claims_page(scale: Scale, store: Store) -> str:
    lines = [
        "# The paper's claims\n", MADE, _small(scale),
        "A comparison speaks for a claim (✓) or against it (✗) if the difference is larger than "
        "its standard error, and for neither (≈) otherwise; with one seed there is no such error, "
        "and any difference counts. A claim is confirmed if all comparisons speak for it, refuted "
        "if some speak against it and none for it, and partly confirmed if some speak for it and "
        f"others do not. {UNCOMMITTED_NOTE}\n",
        "| claim | verdict | statement |", "| --- | --- | --- |",
    ]  # fmt: skip
    claims = Claims(scale, store).all()
    lines += [f"| {claim.name} | **{claim.verdict}** | {claim.statement} |" for claim in claims]
    lines.append("")
    for claim in claims:
        lines += [f"## {claim.name}\n", f"{claim.statement} **{claim.verdict.capitalize()}.**\n"]
        lines += [f"- {comparison}" for comparison in claim.evidence] + [""]
    return "\n".join(line for line in lines if line is not None) + "\n[All results](index.md).\n"


def index(scale: Scale, store: Store, there: Container[str]) -> str:
    """The index page: all targets, with links to the pages that exist."""
    lines = ["# Results\n", MADE, _small(scale)]
    lines += ["| page | runs done | not run |", "| --- | ---: | ---: |"]
    for target in make_targets(list(TARGETS), scale):
        plan = Plan.of([target], store)
        name = f"[{target.title}]({target.name}.md)" if target.name in there else target.title
        lines.append(f"| {name} | {len(plan.done)} | {len(plan.missing)} |")
    lines.append("\n[The paper's claims, one by one](claims.md)\n")
    return "\n".join(lines)


def write(path: Path, text: str) -> None:
    """Write a file atomically."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(text, "utf-8")
    temporary.replace(path)
