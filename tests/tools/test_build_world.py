"""The embedded dataset `world` is what its script builds, and is well formed."""

from __future__ import annotations

import datetime
import gzip
import importlib.util
import re
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


@pytest.mark.parametrize("side", [1, 2])
@pytest.mark.parametrize("what", ["names", "attributes"])
def test_facts_are_sorted_distinct_and_about_entities(what: str, side: int) -> None:
    facts = rows(f"{what}_{side}")
    assert all(len(fact) == 3 and all(map(str.strip, fact)) for fact in facts)
    lines = ["\t".join(fact) for fact in facts]
    # Names: all main ones, then the further ones.
    cut = next((i for i in range(1, len(lines)) if lines[i] < lines[i - 1]), len(lines))
    assert lines[:cut] == sorted(set(lines[:cut]))
    assert lines[cut:] == sorted(set(lines[cut:]))
    assert len(set(lines)) == len(lines)
    assert (cut == len(lines)) == (what == "attributes")
    assert {fact[0] for fact in facts} <= entities(side)


@pytest.mark.parametrize(("side", "language"), [(1, "fr"), (2, "en")])
def test_names_are_in_the_language_of_the_side(side: int, language: str) -> None:
    names = rows(f"names_{side}")
    assert {name[2] for name in names} == {language}
    main = {entity: name for entity, name, _ in reversed(names)}
    # A label is the name, but for what tells apart those that share one.
    assert all(entity.startswith(name) for entity, name in main.items())
    assert sum(entity == name for entity, name in main.items()) > 0.97 * len(main)
    further = [(entity, name) for entity, name, _ in names if name != main[entity]]
    assert len(further) == len(names) - len(main)
    assert all(entity.replace("_", " ").endswith(name) for entity, name in further)


def test_what_the_links_are_made_of_is_not_on_both_sides() -> None:
    named = {entity for entity, *_ in rows("names_1")}
    assert "heure : Calcutta" in named
    assert "heure : Paris" in entities(1) - named, "CLDR has no French city for this code"
    assert {x for x in entities(1) if x.startswith("langue ")} <= entities(1) - named
    assert {x for x in entities(2) if x.startswith("language ")}.isdisjoint(
        {entity for entity, *_ in rows("names_2")}
    )
    attributes = {attribute for _, attribute, _ in rows("attributes_1") + rows("attributes_2")}
    assert attributes == {
        "première utilisation",
        "dernière utilisation",
        "population",
        "area in km²",
    }


def test_values_of_attributes_are_dates_and_numbers() -> None:
    for _, attribute, value in rows("attributes_1"):
        assert attribute.endswith(" utilisation")
        assert datetime.date.fromisoformat(value).year >= 1600
    assert all(int(value) > 0 for *_, value in rows("attributes_2"))


def test_some_names_and_attributes() -> None:
    assert ("Allemagne", "Allemagne", "fr") in rows("names_1")
    assert ("heure : Calcutta", "Calcutta", "fr") in rows("names_1")
    assert ("Luxembourg (city)", "Luxembourg", "en") in rows("names_2")
    assert ("Asia/Kolkata", "Kolkata", "en") in rows("names_2")
    assert ("franc français", "première utilisation", "1959-01-01") in rows("attributes_1")
    assert ("Germany", "area in km²", "357021") in rows("attributes_2")


def test_equal_names_are_found_whatever_their_case_and_accents() -> None:
    left = {(("country", "PE"), "PÉROU", "fr"), (("country", "PE"), "Perú", "es")}
    right = {(("country", "PE"), "Peru", "en"), (("city", "Peru, 1"), "peru", "en")}
    assert script.equal_names(left, right) == {
        (("country", "PE"), ("country", "PE")),
        (("country", "PE"), ("city", "Peru, 1")),
    }


@needs_sources
def test_the_equal_names_that_are_counted_are_those_of_the_files(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert script.main(["--counts"]) == 0
    said = capsys.readouterr().out
    tables = [
        {(entity, script.fold(text)) for entity, text, _ in rows(f"names_{i}")} for i in (1, 2)
    ]
    texts = [
        {text for entity, text in tables[0] if entity == left} for left, _ in rows("ref_pairs")
    ]
    equal = sum(
        any((right, text) in tables[1] for text in found)
        for found, (_, right) in zip(texts, rows("ref_pairs"), strict=True)
    )
    assert re.search(rf"test links +654 all: .*, with aliases {equal}$", said, re.MULTILINE)


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
