"""Files of one's own, as they come: headers, columns, stray links, an open world."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decentrl.runs.run import read_settings
from decentrl.training import loop

Command = Callable[..., Any]
TRIPLES = [(f"e{i}", "r", f"e{(i + step) % 20}") for i in range(20) for step in (1, 2)]
LINKS = [(f"e{i}", f"e{i}") for i in range(20)]
FAST = ("--preset", "tiny", "--set", "training.epochs=2")


def written(file: Path, *rows: tuple[object, ...], mark: str = "\t") -> Path:
    file.write_text("".join(mark.join(map(str, row)) + "\n" for row in rows))
    return file


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """A graph with a header, the same as data frames are written, and links with a header."""
    numbered = [(i, *row) for i, row in enumerate(TRIPLES)]
    return {
        "left": written(tmp_path / "left.tsv", ("subject", "predicate", "object"), *TRIPLES),
        "index": written(tmp_path / "index.csv", ("", "one", "kind", "other"), *numbered, mark=","),
        "links": written(tmp_path / "links.csv", ("source", "target"), *LINKS, mark=","),
    }


def test_what_was_found_out_of_files_is_said_and_the_run_keeps_how_they_are_read(
    decentrl: Command, files: dict[str, Path], tmp_path: Path
) -> None:
    graphs = ("align", files["left"], files["left"], "--links", files["links"], *FAST, "-o")
    done = decentrl(*graphs, tmp_path / "auto")
    assert "20 + 20 entities, 40 + 40 triples, 18 training and 2 test links" in done.out
    notes = [line for line in done.err.splitlines() if line.startswith("note: ")]
    assert [Path(note.split(": ")[1]).name for note in notes] == ["left.tsv"] * 2 + ["links.csv"]
    done = decentrl(*graphs, tmp_path / "yes", "--header", "yes", "--columns", "3,2,1")
    assert (done.code, done.err) == (0, "")
    sources, _ = read_settings(tmp_path / "yes")
    assert (sources.header, sources.columns) == ("yes", "3,2,1")
    more = written(
        tmp_path / "more.csv", ("", "one", "kind", "other"), (0, "new", "r", "e1"), mark=";"
    )
    refused = decentrl("add", tmp_path / "yes", more, "--side", "left")
    assert refused.code == 2
    assert "--columns one,kind,other" in refused.err
    done = decentrl("add", tmp_path / "yes", more, "--side", "left", "--columns", "one,kind,other")
    assert "triples accepted: 1, new entities: 1" in done.out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "index.csv:1: 4 column(s), but 3 are needed (the first one looks like row numbers"),
        (("--header", "perhaps"), "no header 'perhaps'; there are: auto, yes, no"),
        (("--separator", "::"), "'::' separates no columns; give one character"),
        (("--columns", "one,kind,third"), "no column 'third' in the first line"),
        (("--dataset", "world", "--columns", "1,2,3"), "give either --dataset or files"),
    ],
)
def test_what_cannot_be_read_is_one_line_with_the_remedy(
    decentrl: Command, files: dict[str, Path], tmp_path: Path, options: tuple[str, ...], says: str
) -> None:
    done = decentrl("complete", files["index"], "-o", tmp_path / "run", *options)
    assert done.code == 2
    assert says in done.err
    assert done.err.count("\n") == 1 + done.err.count("note: ")


def test_the_columns_of_the_two_graphs_may_differ(
    decentrl: Command, files: dict[str, Path], tmp_path: Path
) -> None:
    graphs = ("align", files["left"], files["index"], "--links", files["links"], *FAST)
    where = ("--columns", "subject,predicate,object", "--right-columns", "one,kind,other")
    done = decentrl(*graphs, *where, "-o", tmp_path / "run")
    assert "left-index: 20 + 20 entities, 40 + 40 triples" in done.out


def test_how_files_are_read_is_not_about_datasets(decentrl: Command, tmp_path: Path) -> None:
    done = decentrl("align", "--dataset", "world", "--header", "no", "-o", tmp_path / "run")
    assert (done.code, done.err) == (2, "error: --header is about files; world comes as it is\n")


def test_stray_links_stop_nothing_if_that_is_wanted_and_odd_links_are_reported(
    decentrl: Command, files: dict[str, Path], tmp_path: Path
) -> None:
    rows = [*LINKS, ("e1", "nowhere"), LINKS[0], ("e3", "e4")]
    links = written(tmp_path / "stray.tsv", *rows)
    graphs = ("align", files["left"], files["left"], "--header", "auto", "--links", links, *FAST)
    refused = decentrl(*graphs, "-o", tmp_path / "run")
    assert refused.code == 2
    assert "stray.tsv:21: 'nowhere' is no entity of the right graph" in refused.err
    assert "--unknown-links skip" in refused.err
    done = decentrl(*graphs, "--unknown-links", "skip", "-o", tmp_path / "run")
    assert "stray.tsv: 1 of 23 links name unknown entities and are left out" in done.err
    assert "links: 1 duplicate dropped" in done.out
    assert "links: 1 left entity has several counterparts ('e3')" in done.out
    assert "links: 1 right entity has several counterparts ('e4')" in done.out
    refused = decentrl(*graphs, "--unknown-links", "drop", "-o", tmp_path / "other")
    assert "no choice for --unknown-links: 'drop'; there are: error, skip" in refused.err


def test_files_have_an_open_world_of_their_own(
    decentrl: Command, files: dict[str, Path], tmp_path: Path
) -> None:
    links = written(tmp_path / "links.tsv", *LINKS)
    graphs = ("align", files["left"], files["left"], "--links", links, "--holdout", "0.5", *FAST)
    done = decentrl(*graphs, "--open-world", "--json", "-o", tmp_path / "run")
    results = json.loads(done.out)
    assert results["open_world"]
    unknown = [row for row in results["results"] if row["subset"] == "unknown"]
    assert {row["n"] for row in unknown} == {2}  # a fifth of ten test links
    assert "triples arrive after training" in done.err
    alone = ("complete", files["left"], "--preset", "quick", "--set", "training.epochs=1")
    done = decentrl(*alone, "--open-world", "--json", "-o", tmp_path / "graph")
    assert json.loads(done.out)["open_world"]
    # The run knows it by itself.
    sources, _ = read_settings(tmp_path / "graph")
    assert (sources.open_world, sources.dataset) == (True, "")


def test_files_can_be_split_into_folders(
    decentrl: Command, files: dict[str, Path], tmp_path: Path
) -> None:
    done = decentrl("data", "split", files["left"], "-o", tmp_path / "one", "--share", "0.25")
    assert "5 of 20 entities are new" in done.out
    shown = json.loads(decentrl("data", "info", tmp_path / "one", "--open-world", "--json").out)
    assert shown["new_entities"] == 5
    both = ("data", "split", files["left"], files["left"], "--holdout", "0.5")
    done = decentrl(*both, "--links", files["links"], "-o", tmp_path / "two")
    assert "2 of 10 test links are new" in done.out
    shown = json.loads(decentrl("data", "info", tmp_path / "two", "--open-world", "--json").out)
    assert shown["open_world"]
    refused = decentrl(*both, "-o", tmp_path / "three")
    assert (refused.code, refused.err.count("--links")) == (2, 1)


def test_what_to_do_about_missing_benchmarks_can_be_done(
    decentrl: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DECENTRL_DATA", str(tmp_path))
    monkeypatch.delenv("DECENTRL_DATA_URL", raising=False)
    missing = decentrl("complete", "--dataset", "wn18", "-o", tmp_path / "run")
    assert "run: decentrl data fetch wn18 --base-url ADDRESS, with the address of a" in missing.err
    fetched = decentrl("data", "fetch", "wn18")
    assert "there is no public server of these files: give --base-url" in fetched.err


@pytest.mark.parametrize("checkpoint", [False, True])
def test_an_interruption_says_what_there_is_to_go_on_from(
    decentrl: Command,
    files: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    checkpoint: bool,
) -> None:
    run, original, epochs = tmp_path / "run", loop._one_epoch, [0]

    def one_epoch(*arguments: Any) -> float:
        epochs[0] += 1
        if epochs[0] == 2:
            raise KeyboardInterrupt
        return original(*arguments)

    often = ("--set", "training.checkpoint_every=0") if checkpoint else ()
    with monkeypatch.context() as patch:
        patch.setattr(loop, "_one_epoch", one_epoch)
        graphs = ("align", files["left"], files["left"], "--links", files["links"])
        done = decentrl(*graphs, *FAST, *often, "-o", run)
    assert done.code == 130
    said = "goes on from the last checkpoint" if checkpoint else "before the first checkpoint"
    assert said in done.err
    shown = decentrl("info", run)
    assert shown.code == 0
    assert f"{run}: alignment, begun and not finished" in shown.out
    assert f"left {files['left']}" in shown.out
    kept = "a checkpoint is there" if checkpoint else "no checkpoint yet"
    assert f"epochs done: 1; {kept}" in shown.out
    facts = json.loads(decentrl("info", run, "--json").out)
    assert (facts["finished"], facts["checkpoint"], facts["epochs"]) == (False, checkpoint, 1)
    assert facts["resume"] == f"decentrl align --resume -o {run}"
    assert decentrl("align", "--resume", "-o", run).code == 0
    # The report names what began the run.
    page = (run / "report.html").read_text("utf-8")
    assert "--preset tiny" in page
    assert "--resume" not in page


def test_an_interruption_before_training_leaves_nothing_to_go_on_with(
    decentrl: Command, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("decentrl.runs.run.read_task", interrupted)
    done = decentrl("align", files["left"], files["left"], *FAST, "-o", tmp_path / "run")
    assert done.code == 130
    assert done.err == "interrupted before the training; nothing of this run is kept\n"


def test_a_run_of_several_seeds_names_them(
    decentrl: Command, files: dict[str, Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    graphs = ("align", files["left"], files["left"], "--links", files["links"], *FAST)
    assert decentrl(*graphs, "--seeds", "2", "-o", run).code == 0
    for command in ("match", "evaluate", "log"):
        done = decentrl(command, run)
        assert done.code == 2
        assert f"a run of several seeds; give one of them: {run}/seed-0, {run}/seed-1" in done.err
    assert decentrl("info", run).code == 0
    (run / "results.json").unlink()
    (run / "seed-1" / "results.json").unlink()
    shown = decentrl("info", run).out
    assert "seeds begun: 2, finished: 1" in shown


def test_a_label_with_a_line_end_does_not_stop_an_export(
    decentrl: Command, files: dict[str, Path], tmp_path: Path
) -> None:
    odd = tmp_path / "odd.csv"
    odd.write_text("".join(f"{h},{r},{t}\n" for h, r, t in TRIPLES) + '"two\nlines",r,e1\n')
    run = tmp_path / "run"
    graphs = ("align", odd, files["left"], "--links", files["links"], *FAST, "-o", run)
    assert decentrl(*graphs).code == 0
    done = decentrl("match", run, "-o", tmp_path / "m.tsv")
    assert done.code == 0
    assert "1 row(s) with a tab or line end in a label" in done.err
    assert "two\\nlines\t" in (tmp_path / "m.tsv").read_text()
    done = decentrl("match", run)
    assert "two\\nlines\t" in done.out
    done = decentrl("export", run, "--side", "left", "-o", tmp_path / "v.npy")
    assert done.code == 0
    assert "two\\nlines" in (tmp_path / "v.labels.txt").read_text().splitlines()
