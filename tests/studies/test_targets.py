"""Every table is whole, and what it asks for exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from decentrl.errors import ConfigError
from studies.claims import Claims
from studies.layout import Target
from studies.plan import Plan
from studies.scale import FULL, OURS, QUICK, SLOW, Scale, fewer_seeds, numbers
from studies.store import Store
from studies.targets import TARGETS, make_targets

NAMES = [
    "datasets", "alignment", "open-alignment", "known-unknown", "prediction", "open-prediction",
    "decoders", "ablation", "sizes", "proportions", "degree", "layers", "time", "baselines",
]  # fmt: skip


@pytest.fixture(params=[FULL, QUICK], ids=["full", "quick"], scope="module")
def scale(request: pytest.FixtureRequest) -> Scale:
    found = request.param
    assert isinstance(found, Scale)
    return found


def test_every_name_is_there() -> None:
    assert list(TARGETS) == NAMES
    assert [t.name for t in make_targets(["all"], QUICK)] == NAMES
    assert [t.name for t in make_targets(["time", "sizes", "time"], QUICK)] == ["time", "sizes"]
    with pytest.raises(ConfigError, match="no table or figure 'tables'; there are: datasets"):
        make_targets(["tables"], QUICK)
    with pytest.raises(ConfigError, match="no table or figure 'tables'"):
        make_targets(["all", "tables"], QUICK)


@pytest.mark.parametrize("name", NAMES)
def test_tables_are_whole(name: str, scale: Scale) -> None:
    target = TARGETS[name](scale)
    assert target.unavailable() == []
    assert target.runs()
    for table in target.tables:
        assert len({row.label for row in table.rows}) == len(table.rows)
        assert all(len(row.values) == len(table.columns) for row in table.rows)
    for figure in target.figures:
        for panel in figure.panels:
            assert all(len(series.values) == len(panel.ticks) for series in panel.series)


def test_quick_runs_are_small_need_no_files_and_cite_nobody() -> None:
    for target in make_targets(["all"], QUICK):
        for run in target.runs():
            assert run.dataset.startswith("world")
            assert run.seed == 0
        if target.name != "datasets":
            assert all(value.paper is None for value in target.values())


def test_seeds() -> None:
    runs = TARGETS["alignment"](FULL).runs()
    assert max(run.seed for run in runs if run.preset in OURS) == 4
    assert max(run.seed for run in runs if run.preset not in OURS) == 2
    fewer = TARGETS["alignment"](fewer_seeds(FULL, 2)).runs()
    assert {run.seed for run in fewer} == {0, 1}


def test_ours_come_first_and_slow_ones_last(tmp_path: Path) -> None:
    plan = Plan.of(make_targets(["all"], FULL), Store(tmp_path))
    shared = [run.preset for run in plan.missing if not run.alone and run.job != "data"]
    ours = [preset in OURS for preset in shared]
    slow = [preset in SLOW for preset in shared]
    assert ours == sorted(ours, reverse=True)
    assert slow == sorted(slow)
    assert any(ours)
    assert any(slow)
    assert [run.alone for run in plan.missing] == sorted(run.alone for run in plan.missing)


def test_claims_ask_for_planned_runs_alone(scale: Scale) -> None:
    planned = {run.key for target in make_targets(["all"], scale) for run in target.runs()}
    asked = []

    class Asked(Store):
        def results(self, runs):  # type: ignore[no-untyped-def]
            asked.extend(run.key for run in runs)
            return []

    claims = Claims(scale, Asked(Path("nowhere"))).all()
    assert {claim.verdict for claim in claims} == {"not yet measured"}
    assert asked
    assert set(asked) <= planned


def test_the_papers_numbers() -> None:
    """A few, by hand, of the tables where a slip would go unnoticed."""
    assert numbers(".589/.819 –/.5") == [0.589, 0.819, None, 0.5]
    assert _paper(TARGETS["alignment"](FULL), "decentRL", ("FR-EN", "MRR")) == 0.689
    assert _paper(TARGETS["alignment"](FULL), "AliNet", ("JA-EN", "Hits@1")) == 0.549
    assert _paper(TARGETS["prediction"](FULL), "decentRL", ("WN18RR", "Hits@1")) == 0.422
    assert _paper(TARGETS["prediction"](FULL), "ConvE", ("WN18", "MRR")) == 0.943
    assert _paper(TARGETS["decoders"](FULL), "CompGCN", ("DistMult", "MR")) == 200
    assert _paper(TARGETS["known-unknown"](FULL), "AliNet", ("unknown entities", "MRR")) == 0.539
    assert _paper(TARGETS["sizes"](FULL), "64", ("JA-EN", "Hits@10")) == 0.673
    assert _paper(TARGETS["time"](FULL), "256", ("AliNet", "in all, s")) == 1297.8


def _paper(target: Target, row: str, column: tuple[str, str]) -> float | None:
    table = target.tables[0]
    values = next(x.values for x in table.rows if x.label == row)
    return values[list(table.columns).index(column)].paper
