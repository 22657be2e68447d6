"""Links that name unknown entities are all listed at once, or left out and counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.links import several
from decentrl.errors import ConfigError, FormatWarning, UnknownLabelError

LEFT = [(f"a{i}", "r", f"a{(i + 1) % 9}") for i in range(9)]
RIGHT = [(f"b{i}", "r", f"b{(i + 1) % 9}") for i in range(9)]
GOOD = [(f"a{i}", f"b{i}") for i in range(9)]
STRAY = [("a0", "x1"), *GOOD[:3], ("x2", "b1"), *GOOD[3:], *[(f"y{i}", "b2") for i in range(4)]]


def task(links: object, **how: str) -> AlignmentTask:
    return AlignmentTask.read(LEFT, RIGHT, links, **how)  # type: ignore[arg-type]


def written(file: Path, rows: list[tuple[str, ...]]) -> Path:
    file.write_text("".join("\t".join(row) + "\n" for row in rows))
    return file


def test_the_error_counts_all_of_them_and_lists_the_first_five(tmp_path: Path) -> None:
    file = written(tmp_path / "links.tsv", STRAY)
    with pytest.raises(UnknownLabelError) as caught:
        task(file)
    message = str(caught.value)
    assert message.startswith(f"{file}:1: 'x1' is no entity of the right graph; ")
    assert "6 links are such: 'a0' – 'x1' (line 1), 'x2' – 'b1' (line 5), 'y0' – " in message
    assert message.endswith("'y2' – 'b2' (line 14), …; --unknown-links skip leaves them out)")
    with pytest.raises(UnknownLabelError, match=r"^row 0 of the links.*'y0' – 'b2' \(row 11\)"):
        task(STRAY)


def test_skipped_ones_are_counted_and_the_rest_is_as_it_was(tmp_path: Path) -> None:
    file = written(tmp_path / "links.tsv", STRAY)
    with pytest.warns(FormatWarning, match="6 of 15 links name unknown .*: 'a0' – 'x1' .line 1"):
        found = task(file, unknown_links="skip")
    assert found.train.tolist() == task(GOOD).train.tolist()


def test_a_later_error_still_names_its_line(tmp_path: Path) -> None:
    test = written(tmp_path / "test.tsv", [("q", "b0"), ("a8", "b7"), ("a1", "b1")])
    with (
        pytest.warns(FormatWarning),
        pytest.raises(ValueError, match=r"test\.tsv:3: this test link is also a training link"),
    ):
        AlignmentTask.read(LEFT, RIGHT, GOOD[:3], test, unknown_links="skip")


def test_all_unknown_is_an_error() -> None:
    with (
        pytest.warns(FormatWarning),
        pytest.raises(UnknownLabelError, match="no link is between entities of both graphs"),
    ):
        task([("x", "b1"), ("y", "b2")], unknown_links="skip")


def test_a_first_line_that_alone_names_nothing_is_a_header(tmp_path: Path) -> None:
    file = written(tmp_path / "links.tsv", [("ours", "theirs"), *GOOD])
    with pytest.warns(FormatWarning, match=r"\('ours', 'theirs'\) names no entity of either"):
        assert len(task(file).train) == len(GOOD)
    for bad in ([("ours", "b1"), *GOOD], [("ours", "theirs"), *GOOD, ("q", "z")]):
        with pytest.raises(UnknownLabelError, match=r"links\.tsv:1: 'ours'"):
            task(written(file, bad))


def test_repeated_links_are_counted() -> None:
    assert task([*GOOD, *GOOD[:2]]).repeated == 2
    assert task(GOOD).repeated == 0


def test_entities_with_several_counterparts_are_counted() -> None:
    links = task([*GOOD, ("a1", "b5"), ("a7", "b2")]).train
    assert several(links, [f"a{i}" for i in range(9)]) == (2, "a1")
    assert several(task(GOOD).train, []) == (0, "")


def test_there_is_no_third_choice() -> None:
    with pytest.raises(ConfigError, match="there are: error, skip"):
        task(GOOD, unknown_links="drop")
