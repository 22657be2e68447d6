"""``decentrl data``, as a person and as a script use it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from decentrl.cli.data import app
from decentrl.errors import InputError

runner = CliRunner()


def run(*arguments: str) -> str:
    result = runner.invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_help_needs_neither_torch_nor_pyarrow() -> None:
    code = (
        "import sys, decentrl.cli.data as c; "
        "sys.exit(bool({'torch', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_list_says_what_is_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DECENTRL_DATA", str(tmp_path))
    rows = {row["name"]: row for row in json.loads(run("list", "--json"))}
    assert (rows["world"]["present"], rows["wn18"]["present"]) == (True, False)
    assert rows["fb15k-237"]["entities"] == [14541]
    assert all(len(row["entities"]) == 1 + (row["kind"] == "alignment") for row in rows.values())
    table = run("list")
    assert "dbp15k/zh-en" in table
    assert str(tmp_path) in table


def test_info_counts_the_two_graphs_of_world() -> None:
    facts = json.loads(run("info", "world", "--open-world", "--json"))
    assert facts["open_world"]
    assert facts["new_test_links"] == int(0.2 * facts["test_links"])
    assert facts["graphs"]["left"]["auxiliary_triples"] > 0
    assert facts["graphs"]["left"]["unseen_entities"] >= facts["new_test_links"]
    assert "training triples" in run("info", "world")
    assert "new entities" in run("info", "world/cldr", "--open-world")


def test_split_writes_a_folder_that_info_reads(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    said = run("split", "world", "--share", "0.3", "--seed", "4", "-o", out)
    facts = json.loads(run("info", out, "--open-world", "--json"))
    assert f"{facts['new_test_links']} of {facts['test_links']} test links are new" in said
    assert facts["new_test_links"] == int(0.3 * facts["test_links"])


def test_split_of_one_graph_makes_entities_new(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    assert "entities are new" in run("split", "world/geonames", "-o", out)
    assert json.loads(run("info", out, "--open-world", "--json"))["new_entities"] > 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["info", "worl"], "did you mean world"),
        (["split", "world", "--share", "2", "-o", "out"], "share 2.0 is impossible"),
        (["fetch", "wn18"], "DECENTRL_DATA_URL"),
    ],
)
def test_mistakes_are_raised_for_the_command_line_to_print(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: list[str], says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DECENTRL_DATA_URL", raising=False)
    monkeypatch.setenv("DECENTRL_DATA", str(tmp_path))
    with pytest.raises(InputError, match=says):
        run(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_fetching_world_downloads_nothing() -> None:
    assert run("fetch", "world").startswith("0 file(s) downloaded")


def test_make_writes_a_pair_that_info_reads(tmp_path: Path) -> None:
    out = str(tmp_path / "pair")
    said = run("make", "--entities", "100", "--batches", "1", "--seed", "5", "-o", out)
    assert f"decentrl align --dataset {out}" in said.replace("\n", "")
    facts = json.loads(run("info", out, "--json"))
    assert facts["graphs"]["left"]["entities"] == facts["graphs"]["right"]["entities"] == 100
    assert facts["graphs"]["left"]["names"] > 80
    assert facts["training_links"] > 0
    assert (tmp_path / "pair" / "batch1" / "new_triples_2.tsv").is_file()
