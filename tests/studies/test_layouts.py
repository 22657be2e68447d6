"""Tables, figures, claims and pages from made-up results."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from studies.claims import Claims
from studies.figures import COLOURS, _looks, draw
from studies.layout import Metric, Row, Table, Value
from studies.run import Run
from studies.scale import ALINET, FULL, GAT, PAPER
from studies.site import write_site
from studies.store import Stat, Store
from studies.tables import by_group, comma_separated, markdown, terminal
from studies.targets import TARGETS, make_targets
from studies.verdict import Claim, Comparison, ratio

Keep = Callable[..., None]
OURS = Run("alignment", "dbp15k/zh-en", "paper")
RIVAL = Run("alignment", "dbp15k/zh-en", "gat")
HITS = Metric("hits@1", (("matcher", "csls"),))


def table() -> Table:
    rank = Metric("mr", (("matcher", "csls"),), lower=True, digits=0)
    rows = [
        Row("ours", [Value(OURS, HITS, 3, 0.589), Value(OURS, rank, 3, 1)]),
        Row("rival", [Value(RIVAL, HITS, 3, 0.418), Value(RIVAL, rank, 3)]),
        Row("cited", [Value(None, HITS, 1, 0.324), Value(None, rank)]),
    ]
    return Table("T", [("ZH-EN", "Hits@1"), ("ZH-EN", "MR")], rows)


def test_markdown_says_ours_the_papers_and_the_difference(store: Store, keep: Keep) -> None:
    keep(OURS, [0.6, 0.62, 0.64])
    assert markdown(table(), store).splitlines()[2:] == [
        "| ours | 0.620 ± 0.020<br>▲ +0.031 (0.589) | 1 ± 0<br>= (1) |",
        "| rival | not run<br>(0.418) | not run |",
        "| cited | (0.324) |  |",
    ]
    keep(RIVAL, [0.4])
    lines = markdown(table(), store).splitlines()
    assert "**0.620 ± 0.020**" in lines[2]
    assert "0.400<br>▼ -0.018 (0.418)" in lines[3]


def test_less_is_better_where_it_is(store: Store, keep: Keep) -> None:
    rank = Metric("mr", (("matcher", "csls"),), lower=True, digits=0)
    keep(OURS, [150.0])
    keep(RIVAL, [200.0])
    rows = [Row("ours", [Value(OURS, rank, 1, 159)]), Row("rival", [Value(RIVAL, rank, 1, 151)])]
    lines = markdown(Table("T", [("", "MR")], rows), store).splitlines()
    assert lines[2] == "| ours | **150**<br>▲ -9 (159) |"
    assert lines[3] == "| rival | 200<br>▼ +49 (151) |"


def test_results_of_an_uncommitted_tree_are_marked(
    store: Store, keep: Keep, tmp_path: Path
) -> None:
    keep(OURS, [0.6, 0.62])
    keep(RIVAL, [0.4])
    assert "†" not in markdown(table(), store)
    keep_uncommitted(store, OURS)
    lines = markdown(table(), store).splitlines()
    assert lines[2].startswith("| ours | **0.610 ± 0.014 †**<br>▲ +0.021 (0.589) |")
    assert "†" not in lines[3]
    rows = list(csv.DictReader(io.StringIO(comma_separated(table(), store))))
    assert [row["uncommitted"] for row in rows] == ["1", "1", "0", "0", "", ""]
    stats = [store.stat(Value(run, HITS, 2)) for run in (OURS, RIVAL)]
    assert str(Comparison("here", *stats)).endswith("✓ †")
    assert ratio(*stats) is not None
    write_site(tmp_path, make_targets(["alignment", "time"], FULL), FULL, store)
    assert "† made from an uncommitted tree." in (tmp_path / "alignment.md").read_text("utf-8")
    assert "†" not in (tmp_path / "time.md").read_text("utf-8")


def keep_uncommitted(store: Store, run: Run) -> None:
    """Change the result of the first seed, as in files from before such trees were refused."""
    path = store.folder / run.file
    text = path.read_text("utf-8").replace('"abc1234"', '"abc1234+"')
    path.write_text(text, "utf-8")
    store.reload(run)


def test_only_what_is_better_is_bold(store: Store, keep: Keep) -> None:
    keep(OURS, [0.6])
    keep(RIVAL, [0.4])
    counted = Metric("hits@1", (("matcher", "csls"),), judged=False)
    for metric, bold in ((HITS, 1), (counted, 0)):
        rows = [Row(run.preset, [Value(run, metric)]) for run in (OURS, RIVAL)]
        text = markdown(Table("T", [("", "n")], rows), store)
        assert text.count("**") == 2 * bold


def test_csv_has_a_line_a_cell(store: Store, keep: Keep) -> None:
    keep(OURS, [0.6, 0.64])
    rows = list(csv.DictReader(io.StringIO(comma_separated(table(), store))))
    assert len(rows) == 6
    assert rows[0] | {"mean": "0.62", "seeds": "2", "paper": "0.589", "preset": "paper"} == rows[0]
    assert float(rows[0]["difference"]) == pytest.approx(0.031)
    assert (rows[2]["mean"], rows[2]["seeds"]) == ("", "0")
    nothing = Table("T", [("", "n")], [Row("ours", [Value(OURS, HITS, 3, 0.0)])])
    (row,) = csv.DictReader(io.StringIO(comma_separated(nothing, store)))
    assert (row["paper"], row["difference"]) == ("0", "0.62")


def test_colours_on_a_terminal(store: Store, keep: Keep) -> None:
    keep(OURS, [0.6])
    keep(RIVAL, [0.4])
    console = Console(force_terminal=True, color_system="standard", width=120)
    with console.capture() as captured:
        console.print(terminal(table(), store, "T"))
    text = captured.get()
    assert "\x1b[32m▲ +0.011" in text
    assert "\x1b[31m▼ -0.018" in text
    whole = TARGETS["alignment"](FULL).tables[0]
    parts = by_group(whole)
    assert [part.columns[0][0] for part in parts] == ["ZH-EN", "JA-EN", "FR-EN"]
    assert parts[1].rows[0].values == whole.rows[0].values[3:6]


@pytest.mark.parametrize("name", ["open-alignment", "layers", "time"])
def test_figures_are_the_same_for_the_same_results(
    name: str, store: Store, keep: Keep, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    target = TARGETS[name](FULL)
    figure = target.figures[0]
    assert not draw(figure, store, tmp_path / "nothing")
    assert not (tmp_path / "nothing.svg").exists()
    parts = {"time": [{"train_seconds": 9.0}]}
    names = ("1–2", "3–4", "layer 1", "concatenation")
    parts |= {part: [{"name": x, "mrr": 0.5, "hits@1": 0.4} for x in names]
              for part in ("degrees", "layers")}  # fmt: skip
    for value in target.values()[::2]:
        if value.run is not None and value.run.job != "data":
            keep(value.run, [0.5, 0.6], **parts)
    for place in ("a", "b"):
        assert draw(figure, store, tmp_path / place)
    first, second = ((tmp_path / f"{x}.svg").read_bytes() for x in "ab")
    assert first == second
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert COLOURS[0].lower() in first.decode().lower()


def test_a_comparison_holds_beyond_chance() -> None:
    sure, unsure = Stat(0.60, 0.01, 4), Stat(0.596, 0.01, 4)
    assert Comparison("", sure, Stat(0.58, 0.01, 4)).sign == 1
    assert Comparison("", Stat(0.58, 0.01, 4), sure).sign == -1
    assert Comparison("", sure, unsure).sign == 0  # 0.004 is within 0.007
    assert Comparison("", Stat(10, 0, 1), Stat(20, 0, 1), lower=True).sign == 1
    assert Comparison("", None, sure).sign is None
    assert str(Comparison("here", sure, unsure)) == "here: 0.600 against 0.596 ≈"
    assert ratio(Stat(0.6, 0, 3), Stat(0.5, 0, 3)) == Stat(pytest.approx(1.2), 0, 1)


def test_verdicts() -> None:
    yes, no = (Comparison("", Stat(x, 0, 1), Stat(0.5, 0, 1)) for x in (0.6, 0.4))
    unknown, same = Comparison("", None, None), Comparison("", Stat(0.5, 1, 2), Stat(0.6, 1, 2))
    assert Claim("", "", [yes, yes]).verdict == "confirmed"
    assert Claim("", "", [no]).verdict == "refuted"
    assert Claim("", "", [no, same]).verdict == "refuted"
    assert Claim("", "", [same]).verdict == "no clear difference"
    assert Claim("", "", [yes, no, same]).verdict == (
        "partly confirmed: 1 of 3 comparisons for it, 1 against"
    )
    assert Claim("", "", [yes, unknown]).verdict == "confirmed, 1 comparison not yet measured"
    assert Claim("", "", [yes, unknown, unknown]).verdict == (
        "confirmed, 2 comparisons not yet measured"
    )
    assert Claim("", "", [unknown]).verdict == "not yet measured"


def test_claims_are_judged_by_the_results(store: Store, keep: Keep) -> None:
    for dataset, _ in FULL.pairs:
        for method, value in ((PAPER, 0.6), (ALINET, 0.5), (GAT, 0.7)):
            run = FULL.run("alignment", dataset, method, unseen=0.2)
            assert run is not None
            keep(run, [value, value + 0.01])
    found = {claim.name: claim.verdict for claim in Claims(FULL, store).all()}
    assert found.pop("decentralised beats centralised in the open world") == (
        "partly confirmed: 3 of 6 comparisons for it, 3 against"
    )
    assert set(found.values()) == {"not yet measured"}


def test_the_site_is_made_from_result_files_alone(
    store: Store, keep: Keep, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DECENTRL_DATA", "/nowhere")
    keep(OURS, [0.6, 0.61])
    targets = make_targets(["alignment", "time"], FULL)
    folders = [tmp_path / x for x in ("a", "b")]
    for folder in folders:
        write_site(folder, targets, FULL, Store(store.folder))
    pages = [{p.name: p.read_bytes() for p in sorted(x.iterdir())} for x in folders]
    assert pages[0] == pages[1]
    assert {"index.md", "claims.md", "alignment.md", "alignment.csv", "time.md"} <= set(pages[0])
    text = pages[0]["alignment.md"].decode()
    assert "0.605 ± 0.007" in text
    assert "(0.589)" in text
    assert "not run" in text
    assert "- hardware: an abacus" in text
    assert "- commit: abc1234" in text
    assert "2 done, 112 not run" in text


def test_the_index_leads_to_the_pages_that_are_there(
    store: Store, keep: Keep, tmp_path: Path
) -> None:
    keep(OURS, [0.6])  # a run of ablation too
    for name in ("alignment", "time"):
        write_site(tmp_path, make_targets([name], FULL), FULL, store)
    text = (tmp_path / "index.md").read_text("utf-8")
    assert "[Entity alignment](alignment.md)" in text
    assert "[Training time, ZH-EN](time.md)" in text
    assert "| Ablation | 1 |" in text


def test_a_method_looks_the_same_on_every_page_and_like_no_other_on_its_own() -> None:
    few = _looks(["seed propagation", "decentRL"])
    many = _looks(["A", "decentRL", "B", "GAT", "seed propagation", "C", "D", "E", "F", "G"])
    for name in few:
        assert many[name] == few[name]
    assert len({colour for colour, _ in many.values()}) == len(many)
    assert len({marker for _, marker in many.values()}) == len(many)
