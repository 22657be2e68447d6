"""``decentrl predict``: answers for people, pipes and files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from decentrl.predictor import Predictor

Command = Callable[..., Any]
KNOWS = ("--head", "person 1", "--relation", "knows")


@pytest.fixture(scope="module")
def predictor(people_run: Path) -> Predictor:
    return Predictor.load(people_run, "cpu")


@pytest.mark.parametrize(
    "question",
    [
        {"head": "person 1", "relation": "knows"},
        {"relation": "lives in", "tail": "city 2"},
        {"head": "person 1", "tail": "person 4"},
    ],
)
@pytest.mark.parametrize("known", [False, True])
def test_json_is_what_the_library_says(
    decentrl: Command,
    people_run: Path,
    predictor: Predictor,
    question: dict[str, str],
    known: bool,
) -> None:
    asked = [x for name, label in question.items() for x in (f"--{name}", label)]
    more = ["--known"] if known else []
    done = decentrl("predict", people_run, *asked, *more, "--top", "4", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out) == predictor.predict(**question, top=4, known=known).to_pylist()


def test_pipes_get_a_line_an_answer(
    decentrl: Command, people_run: Path, predictor: Predictor
) -> None:
    done = decentrl("predict", people_run, *KNOWS)
    rows = [line.split("\t") for line in done.out.splitlines()]
    table = predictor.predict(head="person 1", relation="knows").to_pylist()
    assert len(rows) == len(table) == 10
    for row, expected in zip(rows, table, strict=True):
        assert row[:4] == ["person 1", "knows", expected["tail"], str(expected["rank"])]
        assert float(row[4]) == pytest.approx(expected["score"], abs=1e-6)
        assert float(row[5]) == pytest.approx(expected["probability"], abs=1e-6)
        assert row[6] == "false"


def test_people_see_a_table(
    decentrl: Command, people_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    done = decentrl("predict", people_run, *KNOWS)
    assert "probability" in done.out
    assert "known" not in done.out
    done = decentrl("predict", people_run, *KNOWS, "--known", "--top", "99")
    assert " yes " in done.out
    many = [f"person {i}\tknows\t?" for i in range(9)]
    file = tmp_path / "many.tsv"
    file.write_text("\n".join(many) + "\n", "utf-8")
    done = decentrl("predict", people_run, "--batch", file)
    assert "… and 40 more: write them with -o answers.tsv" in done.out


QUESTIONS = "person 1\tknows\t\n?\tlives in\tcity 2\r\nperson 1\t\tperson 4\n\n"


@pytest.mark.parametrize("name", ["a.tsv", "a.parquet"])
def test_many_questions_become_one_file(
    decentrl: Command, people_run: Path, predictor: Predictor, tmp_path: Path, name: str
) -> None:
    batch = tmp_path / "questions.tsv"
    batch.write_bytes(QUESTIONS.encode())
    output = tmp_path / name
    done = decentrl("predict", people_run, "--batch", batch, "--top", "3", "-o", output)
    assert (done.code, done.out) == (0, "")
    assert done.err == f"{output}: 9 answers to 3 questions\n"
    asked = [("person 1", "knows", None), (None, "lives in", "city 2"), ("person 1", None, "person 4")]  # fmt: skip  # noqa: E501
    table = predictor.predict_all(asked, top=3)
    if name == "a.parquet":
        assert table.equals(pq.read_table(output))
    else:
        lines = output.read_text("utf-8").splitlines()
        assert lines[0] == "head\trelation\ttail\trank\tscore\tprobability\tknown"
        assert [line.split("\t")[:3] for line in lines[1:]] == [
            [row["head"], row["relation"], row["tail"]] for row in table.to_pylist()
        ]
    assert {path.name for path in tmp_path.iterdir()} == {"questions.tsv", name}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("person 1\tknows\n", "q.tsv:1: 2 column(s), but 3 are needed; give head, relation"),
        ("person 1\tknows\tperson 2\n", "q.tsv:1: exactly one part of a question is asked for"),
        ("person 1\tknows\t?\n?\t?\tx\n", "q.tsv:2: exactly one part of a question is asked for"),
        ("person 1\tknows\t\npersn 1\tknows\t\n", "q.tsv:2: 'persn 1' is no known entity; did you"),
        ("person 1\tknow\t?\n", "q.tsv:1: 'know' is no known relation; did you mean 'knows'"),
        ("", "q.tsv: the file is empty"),
    ],
)
def test_a_bad_file_of_questions_is_told_with_its_line(
    decentrl: Command,
    people_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    content: str,
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.tsv").write_text(content, "utf-8")
    done = decentrl("predict", people_run, "--batch", "q.tsv", "-o", "a.tsv")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"error: {says}")
    assert not Path("a.tsv").exists()


TWO = "give two of --head, --relation and --tail; the third is asked for"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], TWO),
        (["--head", "person 1"], TWO),
        ([*KNOWS, "--tail", "person 2"], TWO),
        ([*KNOWS, "--batch", "q.tsv"], "give either --batch or parts of one triple, not both"),
        (["--head", "persn 1", "--relation", "knows"], "the label 'persn 1' is unknown; did you"),
        ([*KNOWS, "-o", "a.nt"], "a.nt: cannot write .nt; use .tsv, .parquet"),
        ([*KNOWS, "-o", "absent/a.tsv"], "absent: no such folder; make it first"),
        (["--batch", "absent.tsv"], "absent.tsv: there is no such file"),
        (["--batch", "a.csv"], "a.csv: questions must be tab-separated; give a .tsv file"),
    ],
)
def test_mistakes_are_one_line_and_no_file(
    decentrl: Command,
    people_run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = decentrl("predict", people_run, *options)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"error: {says}")
    assert list(tmp_path.iterdir()) == []


def test_a_run_of_the_other_job_is_told(
    decentrl: Command, people_run: Path, world_run: Path
) -> None:
    done = decentrl("predict", world_run, *KNOWS)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"error: {world_run / 'bundle'}: this run is about alignment; ask it with "
        "`decentrl match`, or load it with Aligner.load\n"
    )
    done = decentrl("match", people_run)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"error: {people_run / 'bundle'}: this run is about prediction; ask it with "
        "`decentrl predict`, or load it with Predictor.load\n"
    )
    absent = decentrl("predict", people_run / "absent", *KNOWS)
    assert "no such run; give the folder that a run has written" in absent.err
