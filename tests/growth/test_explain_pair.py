"""Why two entities are a match: shares that sum to the cosine, neighbours, names, and sentences."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from decentrl.aligner import Aligner
from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.growth.explain_pair import in_both
from decentrl.growth.pair_explanation import Called, PairExplanation, Relation

N = 20
FEW = ("model.dim=8", "propagation.dim=16", "propagation.relation_dim=4", "training.epochs=2")
LINKS = [(f"l{i}", f"r{i}") for i in range(12)]


def graph(side: str, unnamed: int) -> KnowledgeGraph:
    rng = np.random.default_rng(0)
    triples = [(f"{side}{i}", "next", f"{side}{(i + 1) % N}") for i in range(N)]
    triples += [(f"{side}{a}", "near", f"{side}{b}") for a, b in rng.integers(0, N, (20, 2))]
    names = [(f"{side}{i}", f"Place {i * i * 7919}") for i in range(N) if i != unnamed]
    values = [(f"{side}{i}", "size", str(1000 + i * 37)) for i in range(N)]
    return KnowledgeGraph.read(triples).with_names(names).with_attributes(values)


@pytest.fixture(scope="module")
def aligner() -> Aligner:
    model = Aligner.from_preset("strong", *FEW, "names.weight=0.5", device="cpu")
    return model.fit(graph("l", 15), graph("r", 16), LINKS)


def test_shares_sum_to_the_cosine_and_ranks_are_those_of_match(aligner: Aligner) -> None:
    for row in aligner.match(top=N).to_pylist()[::7]:
        found = aligner.explain(row["left"], row["right"])
        assert found.cosine == pytest.approx(sum(found.shares.values()))
        assert set(found.shares) == {"encoder", "links", "names"}
        assert found.rank == row["rank"]
        assert found.score == pytest.approx(row["score"], abs=1e-5)
        assert (found.first == found.right) == (row["rank"] == 1)
        assert found.link == ""
        vectors = [
            aligner.growing.sides[side].take_vectors(
                aligner.growing.sides[side].entities.ids([row[side]])
            )[0]
            for side in ("left", "right")
        ]
        assert found.cosine == pytest.approx(float(vectors[0] @ vectors[1]), abs=1e-5)


def test_a_known_link_and_its_neighbours_are_said(aligner: Aligner) -> None:
    found = aligner.explain("l3", "r3", shown=2)
    assert (found.link, found.left_linked, found.right_linked) == ("known", None, None)
    said = f"{found.left} (left) and {found.right} (right) are the same: a known link says so."
    assert str(found).startswith(said)
    assert len(found.shared) == 2
    ends = {(x.left.label, x.right.label): x for x in aligner.explain("l3", "r3", shown=N).shared}
    assert ends["l4", "r4"].because == "known"
    assert Relation("next", "head") in ends["l4", "r4"].left_relations
    assert Relation("next", "tail") in ends["l2", "r2"].right_relations
    other = aligner.explain("l3", "r4")
    assert (other.left_linked, other.right_linked) == (found.right, Called("l4", "Place 126704"))
    assert "\n  A known link says that Place 71271 (left) is Place 71271 <r3>" in str(other)


def test_what_is_left_out_is_measured(aligner: Aligner) -> None:
    found = aligner.explain("l14", "r14")
    views = [x.what for x in found.without if x.kind == "view"]
    assert views == ["encoder", "links", "names", "structure"]
    assert [x.side for x in found.rivals] == ["left", "right"]
    for rival in found.rivals:
        assert rival.cosine == pytest.approx(sum(rival.shares.values()))
    assert "What would change the answer:" in str(found)


def test_names_say_what_they_have_in_common(aligner: Aligner) -> None:
    found = aligner.explain("l14", "r14")
    number = str(14 * 14 * 7919)
    assert found.left_names == found.right_names == (f"Place {number}",)
    assert set(found.in_common) == {"place", number}
    assert f"Names: Place {number} / Place {number}; in common: " in str(found)


def test_without_a_name_the_share_of_names_is_that_of_attributes(aligner: Aligner) -> None:
    found = aligner.explain("l15", "r15")
    assert found.left_names == ()
    assert found.shares["names"] > 0
    assert "Names: l15 has none; their share is that of attributes." in str(found)
    bare = replace(found, shares={**found.shares, "names": 0.0})
    assert "Names say nothing: l15 has none." in str(bare)
    assert "a missing name" in str(replace(bare, cosine=sum(bare.shares.values()) + 0.08))
    assert "a missing name" not in str(replace(bare, cosine=sum(bare.shares.values())))


def test_a_label_is_no_command_to_a_terminal_and_no_line(aligner: Aligner) -> None:
    found = aligner.explain("l14", "r14")
    evil = replace(found, left=Called("a\x1b[2J\n\u202eb", ""))
    assert str(evil).count("\n") == str(found).count("\n")
    assert "a\\x1b[2J\\n\\u202eb" in str(evil)
    assert str(PairExplanation(**vars(found))) == str(found)


def test_all_of_it_is_json(aligner: Aligner, tmp_path: Path) -> None:
    found = aligner.explain("l14", "r14").to_dict()
    assert found["left"] == {"label": "l14", "name": f"Place {14 * 14 * 7919}"}
    assert found["without"][0]["kind"] == "view"


@pytest.mark.parametrize(
    ("left", "right", "common"),
    [
        ([" new york "], [" york "], {" york "}),
        ([" a york "], [" a yorks "], {" york"}),
        ([" berlin "], [" merlot "], {"erl"}),
        ([" one "], [" six "], set()),
        ([], [" six "], set()),
    ],
)
def test_words_in_common_or_else_pieces(
    left: list[str], right: list[str], common: set[str]
) -> None:
    assert in_both(left, right) == common


@pytest.mark.parametrize("shared", ["", " same "])
def test_thousands_of_names_of_one_entity_take_no_minutes(shared: str) -> None:
    rng = np.random.default_rng(0)
    left, right = (
        [f" {''.join(word)} " for word in rng.choice(list("abcdefgh"), (6000, 9))] for _ in range(2)
    )
    start = time.perf_counter()
    found = in_both([*left, shared], [*right, shared])
    assert time.perf_counter() - start < 20
    assert found == {" same "} if shared else found
