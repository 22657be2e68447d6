"""Files of questions; the command line has the rest of what can be wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from decentrl.data.knowledge_graph import NO_TRIPLES, KnowledgeGraph
from decentrl.data.questions import read_questions
from decentrl.data.vocabulary import Vocabulary
from decentrl.errors import InputError

GRAPH = KnowledgeGraph(Vocabulary(["a", "b\u2028c", "NA"]), Vocabulary(["r"]), NO_TRIPLES)
GRAPH = GRAPH.with_names([("a", "Same"), ("NA", "Same"), ("NA", "Namibia")])


def test_one_part_of_each_row_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "q.tsv"
    file.write_bytes("\ufeffa\tr\t?\r\n\tr\tb\u2028c\nNA\t\ta\n\n".encode())
    assert read_questions(file, GRAPH) == [
        ("a", "r", None),
        (None, "r", "b\u2028c"),
        ("NA", None, "a"),
    ]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"a\tr\t?\n\xff\tr\t?\n", r"q.tsv:2: invalid UTF-8 \(byte 0xff\); save the file as UTF-8"),
        (b"a\tr\t?\n\na\tr\t?\n", r"q.tsv:2: 1 column\(s\), but 3 are needed"),
        (b"r\tr\t?\n", "q.tsv:1: 'r' is no known entity"),
        (b"a\ta\t?\n", "q.tsv:1: 'a' is no known relation"),
        (b"?\tr\tr\n", "q.tsv:1: 'r' is no known entity"),
        (b"?\tr\tNamibya\n", "q.tsv:1: 'Namibya' is no known entity; did you mean 'Namibia'?"),
        (b"?\tr\tsame\n", "q.tsv:1: 2 entities are called 'same'; give an .*: 'a', 'NA'$"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "q.tsv"
    file.write_bytes(content)
    with pytest.raises(InputError, match=says) as caught:
        read_questions(file, GRAPH)
    assert "\n" not in str(caught.value)
