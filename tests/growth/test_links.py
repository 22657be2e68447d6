"""Links that become known after training count at once, and are kept like any addition."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from decentrl import Aligner
from decentrl.errors import ConfigError, DecentRLWarning, UnknownLabelError
from decentrl.growth.settled import Settled

Link = tuple[str, str]
FEW = ("model.dim=8", "training.epochs=2", "training.valid=0.2")
R0, LEFT = "http://left.org/r0", "http://left.org/"
NEW = [("new", R0, f"{LEFT}3"), ("new", R0, f"{LEFT}5")]


@pytest.fixture(scope="module")
def trained(
    twins: dict[str, list[tuple[str, ...]]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of a run with few test links; nobody writes to it."""
    folder = tmp_path_factory.mktemp("links") / "run"
    aligner = Aligner.from_preset("tiny", *FEW, device="cpu")
    given = (twins[x] for x in ("left", "right", "links"))
    aligner.fit(*given, test_links=twins["test"][:5]).save(folder)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


def pairs(aligner: Aligner, **asked: Any) -> dict[str, str]:
    table = aligner.match(**asked).to_pylist()
    return {row["left"]: row["right"] for row in table if row["rank"] == 1}


def free(aligner: Aligner) -> list[Link]:
    """Left entities without a known link, each with a right one that is not its best."""
    found = pairs(aligner)
    tested = {aligner.task.left.entities[i] for i in aligner.task.test[:, 0]}
    rights = [row["right"] for row in aligner.match(side="right").to_pylist()]
    others = [right for right in dict.fromkeys(rights) if right not in found.values()]
    lefts = [left for left in found if left not in tested]
    return list(zip(lefts, others, strict=False))


def test_their_entities_are_taken_and_no_vector_changes(run: Path) -> None:
    aligner = Aligner.load(run, "cpu")
    vectors = [aligner.vectors(side).clone() for side in ("left", "right")]
    (left, right), *_ = free(aligner)
    assert left in pairs(aligner)
    addition = aligner.add(links=[(left, right)])
    assert (addition.side, addition.source, addition.facts["links"]) == ("", "links", 1)
    assert left not in pairs(aligner)
    assert right not in [row["right"] for row in aligner.match(top=50).to_pylist()]
    assert right not in {row["right"] for row in aligner.match(side="right").to_pylist()}
    assert aligner.match(left, top=50).to_pylist()  # who asks for it gets it, as in training
    for side, before in zip(("left", "right"), vectors, strict=True):
        assert torch.equal(aligner.vectors(side), before)


def test_a_link_of_a_newcomer_frees_others_from_it(run: Path) -> None:
    aligner = Aligner.load(run, "cpu")
    aligner.add(NEW, side="left")
    right = pairs(aligner)["new"]
    aligner.add(links=[("new", right)])
    assert right not in pairs(aligner).values()
    ends = aligner.task.left.entities.id("new"), aligner.task.right.entities.id(right)
    assert ends in set(map(tuple, aligner.task.train.tolist()))
    assert aligner.claimed() is not None
    assert aligner.claimed()["new"] == right  # type: ignore[index]


def test_a_sure_match_gives_way_to_a_known_link() -> None:
    kept = Settled(
        np.array([(4, 7), (1, 9), (2, 3)]), torch.tensor([0.4, 0.1, 0.2]), torch.ones(3), 5
    )
    left = kept.without(np.array([(4, 8), (6, 3)]))
    assert left.pairs.tolist() == [[1, 9]]
    assert left.scores.tolist() == pytest.approx([0.1])
    assert kept.without(np.array([(5, 5)])) is kept


def test_one_that_is_known_or_tested_on_is_left_out(run: Path) -> None:
    aligner = Aligner.load(run, "cpu")
    names = aligner.task.left.entities, aligner.task.right.entities
    known, tested = (
        [tuple(x[i] for x, i in zip(names, link, strict=True)) for link in links[:2].tolist()]
        for links in (aligner.task.train, aligner.task.test)
    )
    with pytest.warns(DecentRLWarning, match="2 links were left out: they are held out to test"):
        addition = aligner.add(links=[*known, *tested, *free(aligner)[:1]])
    assert addition.facts == {"links": 1, "known": 2, "tested": 2}
    again = aligner.add(links=known)
    assert again.facts == {"links": 0, "known": 2, "tested": 0}
    assert len(aligner.task.train) == len(aligner.learned.task.train) + 1


def test_they_survive_a_kill_and_reach_a_reader(run: Path) -> None:
    reader = Aligner.load(run, "cpu")
    link, other = free(reader)[:2]
    code = (
        "import os, signal, sys; from decentrl import Aligner\n"
        "aligner = Aligner.load(sys.argv[1], 'cpu', durable=True)\n"
        "aligner.add(links=[tuple(sys.argv[2:])]); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, str(run), *link], check=False)
    assert reader.sync() == 1
    assert link[0] not in pairs(reader)
    with Aligner.load(run, "cpu", durable=True) as writer:
        assert pairs(writer) == pairs(reader)
        writer.add(NEW, side="left")
        writer.add(links=[("new", other[1])])
    assert reader.sync() == 2
    assert [a.facts.get("links") for a in reader.log()] == [1, None, 1]
    assert "new" not in pairs(reader)


def test_undo_takes_them_back_and_compact_keeps_them(run: Path) -> None:
    with Aligner.load(run, "cpu", durable=True) as aligner:
        before, link = pairs(aligner), free(aligner)[0]
        aligner.add(links=[link])
        assert aligner.undo().facts["links"] == 1
        assert pairs(aligner) == before
        aligner.add(links=[link])
        aligner.add(NEW, side="left")
        vectors, added = aligner.vectors("left").clone(), pairs(aligner)
        aligner.compact()
        assert torch.equal(aligner.vectors("left"), vectors)
        assert pairs(aligner) == added
    again = Aligner.load(run, "cpu")
    assert pairs(again) == added
    assert len(again.learned.task.train) == len(again.task.train)
    ends = [x.entities[i] for x, i in zip((again.task.left, again.task.right),
                                          again.learned.task.train[-1], strict=True)]  # fmt: skip
    assert tuple(ends) == link


@pytest.mark.parametrize("way", ["refresh", "refit"])
def test_a_refresh_and_a_refit_learn_from_them(run: Path, way: str) -> None:
    aligner = Aligner.load(run, "cpu")
    link = free(aligner)[0]
    aligner.add(links=[link])
    if way == "refresh":
        aligner.refresh()
    else:
        aligner = aligner.refit(share=0.5)
    ends = aligner.task.left.entities.id(link[0]), aligner.task.right.entities.id(link[1])
    assert ends in set(map(tuple, aligner.learned.task.train.tolist()))


def test_links_alone_leave_the_world_closed(run: Path) -> None:
    aligner = Aligner.load(run, "cpu")
    before = aligner.evaluate().rows
    aligner.add(links=free(aligner)[:1])
    assert not aligner.task.open_world
    assert [row["subset"] for row in aligner.evaluate().rows] == [row["subset"] for row in before]


def test_what_cannot_be_is_said(run: Path) -> None:
    aligner = Aligner.load(run, "cpu")
    with pytest.raises(UnknownLabelError, match="stranger"):
        aligner.add(links=[("stranger", "another")])
    with pytest.raises(ConfigError, match="triples or links"):
        aligner.add(NEW, side="left", links=[("a", "b")])
    with pytest.raises(ConfigError, match="triples or links"):
        aligner.add()
    assert aligner.log() == []


# The command


def test_the_command_adds_triples_and_then_links(
    decentrl: Callable[..., Any], run: Path, tmp_path: Path
) -> None:
    triples, links = tmp_path / "tuesday.tsv", tmp_path / "known.tsv"
    triples.write_text("".join("\t".join(row) + "\n" for row in NEW), "utf-8")
    right = free(Aligner.load(run, "cpu"))[0][1]
    links.write_text(f"new\t{right}\n", "utf-8")
    done = decentrl("add", run, triples, "--side", "left", "--links", links)
    assert (done.code, done.err) == (0, "")
    assert "known.tsv: addition 2, links of both graphs\n  links accepted: 1\n" in done.out
    assert done.out.splitlines()[-1].startswith("  matches: 1 new, ")
    assert " entities  links  in the bundle" in decentrl("log", run).out
    assert json.loads(decentrl("log", run, "--json").out)[1]["links"] == 1
    assert decentrl("undo", run).out == "known.tsv: addition 2 taken back, links: 1\n"
    done = decentrl("add", run, "--links", links, "--json")
    assert json.loads(done.out)[0]["links"] == 1
    done = decentrl("add", run, "--links", links)
    assert "  links accepted: 0\n  links known already: 1\n" in done.out


def test_the_command_refuses_in_one_line(
    decentrl: Callable[..., Any], run: Path, people_run: Path, tmp_path: Path
) -> None:
    links = tmp_path / "known.tsv"
    links.write_text("stranger\tanother\n", "utf-8")
    for asked, says in (
        ((run, "--links", links), f"{links}:1: 'stranger' is no entity of the left graph"),
        ((run,), "give a file of triples"),
        ((run, "--links", links, "--side", "left"), "give a file of triples for the other options"),
        ((run, "--links", tmp_path / "absent.tsv"), f"{tmp_path / 'absent.tsv'}: "),
        ((people_run, "--links", links), "this run is about one graph; leave out --links"),
    ):
        done = decentrl("add", *asked)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"error: {says}"), done.err
        assert done.err.count("\n") == 1
    assert Aligner.load(run, "cpu").log() == []
