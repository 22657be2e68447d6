"""A growing graph: train on Monday, add on Tuesday, match, explain, compact, train again.

python examples/growing_world.py days

leaves Monday's and Tuesday's files in the folder ``days``, and the runs ``days/run``, ``days/new``.
docs/growing.md does the same with commands.
"""

from __future__ import annotations

import sys
from pathlib import Path

from decentrl import Aligner, AlignmentTask, KnowledgeGraph, load_dataset

TUESDAY = (
    "Angola", "Bolivie", "Brésil", "Bulgarie", "Canada", "Estonie", "Irak", "Jamaïque", "Liban",
    "Mongolie", "Mozambique", "Namibie", "Népal", "Pakistan", "Portugal", "Pérou",
)  # fmt: skip
"""Countries that are not in Monday's graph."""


def write_days(folder: Path) -> None:
    """Write ``world``, the dataset inside the package, as files of two days."""
    task = load_dataset("world")
    assert isinstance(task, AlignmentTask)
    later, earlier = [], []
    for row in rows(task.left):
        (later if {row[0], row[2]} & set(TUESDAY) else earlier).append(row)
    known = {end for head, _, tail in earlier for end in (head, tail)}
    names = task.left.entities, task.right.entities
    train, test = (
        [(names[0][a], names[1][b]) for a, b in links.tolist()] for links in (task.train, task.test)
    )
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in {
        "monday": earlier,
        "tuesday": later,
        "right": rows(task.right),
        "links": [pair for pair in train if pair[0] in known],
        "test": [pair for pair in test if pair[0] in known],
        "tuesday-links": [pair for pair in test if pair[0] not in known],
    }.items():
        text = "".join("\t".join(line) + "\n" for line in lines)
        (folder / f"{name}.tsv").write_text(text, "utf-8")


def rows(graph: KnowledgeGraph) -> list[tuple[str, str, str]]:
    """The triples of a graph, as labels."""
    entities, relations = graph.entities, graph.relations
    return [(entities[h], relations[r], entities[t]) for h, r, t in graph.triples.tolist()]


def main(folder: Path, *settings: str) -> None:
    """Train, add, match, explain, compact and train again."""
    write_days(folder)
    monday, tuesday, right, links, test = (
        folder / f"{name}.tsv" for name in ("monday", "tuesday", "right", "links", "test")
    )
    # Monday: train, and keep the run.
    aligner = Aligner.from_preset("quick", *settings).fit(monday, right, links, test_links=test)
    aligner.save(folder / "run")

    # Tuesday: add, and match at once. What was added is on the disk when `add` returns.
    with Aligner.load(folder / "run", durable=True) as aligner:
        addition = aligner.add(tuesday, side="left")
        print(f"{addition.triples} triples and {addition.entities} entities came on Tuesday")
        show(aligner, folder)
        print("\nPortugal is made of")
        for reason in aligner.explain("Portugal")[:3]:
            print(f"  {reason.weight:.0%} {reason.relation}: {reason.neighbour}")
        near = aligner.neighbours("Portugal", top=3)["entity"].to_pylist()
        print(f"and near to {', '.join(near)}")

        # Later: tidy up, see how far it has grown, and train again from what was learned.
        aligner.compact()
        drift = aligner.drift()
        print(f"\n{drift.induced} of {drift.entities} entities came after training")
        again = aligner.refit()
    again.save(folder / "new")
    print("trained again:")
    show(again, folder)


def show(aligner: Aligner, folder: Path) -> None:
    """Print how many of the new countries are matched with their counterpart."""
    lines = (folder / "tuesday-links.tsv").read_text("utf-8").splitlines()
    truth = dict(line.split("\t") for line in lines)
    found = {row["left"]: row["right"] for row in aligner.match(TUESDAY).to_pylist()}
    right = sum(found[name] == truth[name] for name in TUESDAY)
    print(f"{right} of {len(TUESDAY)} new countries are found in the other graph")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "days"))
