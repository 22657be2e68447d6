"""The embedded dataset `world` is what its script builds, and is well formed."""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "src" / "decentrl" / "data" / "world"


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_world", ROOT / "tools" / "build_world.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = load_script()
needs_sources = pytest.mark.skipif(
    script.version_problem() is not None, reason=f"rebuilding {script.version_problem()}"
)


def rows(name: str) -> list[tuple[str, ...]]:
    text = gzip.decompress((FOLDER / f"{name}.tsv.gz").read_bytes()).decode("utf-8")
    assert text.endswith("\n")
    assert "\r" not in text
    return [tuple(line.split("\t")) for line in text[:-1].split("\n")]


def entities(side: int) -> set[str]:
    return {label for head, _, tail in rows(f"triples_{side}") for label in (head, tail)}


@needs_sources
def test_files_equal_a_rebuild(capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["--check"]) == 0, capsys.readouterr().err


@needs_sources
def test_check_names_the_file_that_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in FOLDER.glob("*.gz"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "sup_pairs.tsv.gz").write_bytes(script.pack([("a", "b")]))
    monkeypatch.setattr(script, "TARGET", tmp_path)
    assert script.main(["--check"]) == 1
    assert capsys.readouterr().err == "build_world: a rebuild differs in sup_pairs.tsv.gz\n"
    assert script.main([]) == 0
    assert script.main(["--check"]) == 0


@needs_sources
def test_every_entity_has_its_own_label() -> None:
    for side, (triples, labels) in enumerate(script.assemble()[:2], start=1):
        assert len(set(labels.values())) == len(labels)
        assert set(labels) == {key for head, _, tail in triples for key in (head, tail)}
        assert set(labels.values()) == entities(side)
        assert len(triples) == len(rows(f"triples_{side}"))


def test_another_version_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script, "PINNED", {"pytest": "0.0.1"})
    assert script.main(["--check"]) == 2
    assert "needs pytest==0.0.1" in capsys.readouterr().err


def test_an_absent_source_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "PINNED", {"no-such-package-at-all": "1"})
    assert script.version_problem().endswith("installed: (none)")


def test_shared_names_are_told_apart_by_kind_then_country_then_code() -> None:
    names = {
        ("city", "Luxembourg, 1"): "Luxembourg",
        ("country", "LU"): "Luxembourg",
        ("city", "Spain, 2"): "Valencia",
        ("city", "Venezuela, 3"): "Valencia",
        ("city", "China, 4"): "Suzhou",
        ("city", "China, 5"): "Suzhou",
    }
    assert script.unique_labels(names, 1) == {
        ("city", "Luxembourg, 1"): "Luxembourg (city)",
        ("country", "LU"): "Luxembourg",
        ("city", "Spain, 2"): "Valencia (Spain)",
        ("city", "Venezuela, 3"): "Valencia (Venezuela)",
        ("city", "China, 4"): "Suzhou (China, 4)",
        ("city", "China, 5"): "Suzhou (China, 5)",
    }


@pytest.mark.parametrize("side", [1, 2])
def test_triples_are_sorted_distinct_and_complete(side: int) -> None:
    triples = rows(f"triples_{side}")
    assert all(len(triple) == 3 and all(map(str.strip, triple)) for triple in triples)
    lines = ["\t".join(triple) for triple in triples]
    assert lines == sorted(set(lines))


def test_links_are_one_to_one_and_occur_in_the_graphs() -> None:
    train, test = rows("sup_pairs"), rows("ref_pairs")
    links = train + test
    assert all(len(link) == 2 for link in links)
    assert len(train) == round(0.3 * len(links))
    for side in (0, 1):
        ends = [link[side] for link in links]
        assert len(set(ends)) == len(ends)
        assert set(ends) <= entities(side + 1)


def test_some_facts_and_links() -> None:
    assert ("Suisse", "langue officielle régionale", "romanche") in rows("triples_1")
    assert ("Allemagne", "ancienne monnaie", "mark allemand") in rows("triples_1")
    assert ("Luxembourg", "has capital", "Luxembourg (city)") in rows("triples_2")
    links = rows("sup_pairs") + rows("ref_pairs")
    assert {
        ("Allemagne", "Germany"),
        ("franc suisse", "Swiss Franc"),
        ("gallois", "Welsh"),
        ("heure : Calcutta", "Asia/Kolkata"),
    } <= set(links)


def test_files_are_small_and_carry_no_name_or_time() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 1_000_000
    for path in FOLDER.glob("*.gz"):
        header = path.read_bytes()[:8]
        assert header[3] == 0, "flags: no name, no comment"
        assert header[4:8] == bytes(4), "time of the file"


def test_licences_are_named() -> None:
    text = (FOLDER / "LICENSES.md").read_text(encoding="utf-8")
    assert "UNICODE LICENSE V3" in text
    assert "https://www.geonames.org/" in text
    assert "CC BY 4.0" in text
