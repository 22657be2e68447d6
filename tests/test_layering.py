"""Which room may import which: data flows one way, and inside a room there is no circle."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import decentrl

SOURCE = Path(decentrl.__file__).parent

EVERYWHERE = {"_version", "errors", "config"}
# What a room may import besides itself and EVERYWHERE.
MAY_IMPORT: dict[str, set[str]] = {
    "_version": set(),
    "errors": set(),
    "config": set(),
    "data": set(),
    "graph": set(),
    "nn": {"graph"},
    "matching": {"graph", "nn"},
    "views": {"graph", "nn"},
    "scorers": {"graph", "nn", "views", "matching"},
    "evaluation": {"graph", "nn", "matching", "scorers"},
    "training": {"graph", "nn", "views", "matching", "scorers", "evaluation"},
    "storage": {"data", "nn", "matching"},  # indexes score pairs as matching does
}
MAY_IMPORT["growth"] = set(MAY_IMPORT)
BELOW = set(MAY_IMPORT)
MAY_IMPORT["aligner"] = MAY_IMPORT["predictor"] = BELOW
MAY_IMPORT["runs"] = BELOW | {"aligner", "predictor"}
MAY_IMPORT["service"] = MAY_IMPORT["runs"] | {"runs"}
MAY_IMPORT["cli"] = MAY_IMPORT["service"] | {"service"}
MAY_IMPORT["__main__"] = {"cli"}


def room(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def module(file: Path) -> str:
    parts = ("decentrl", *file.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(file: Path) -> Iterator[tuple[str, int]]:
    """What a file imports of the package, wherever in the file, and the lines."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            if name.startswith("decentrl."):
                yield name, node.lineno


def files() -> list[Path]:
    # The package's own __init__ names what is public and imports it on first use.
    return [file for file in sorted(SOURCE.rglob("*.py")) if file != SOURCE / "__init__.py"]


def test_every_room_is_in_the_table() -> None:
    assert {room(file) for file in files()} == set(MAY_IMPORT)


def test_at_most_17_rooms() -> None:
    assert len(set(MAY_IMPORT) - {"_version", "__main__"}) <= 17


def test_rooms_import_only_what_the_table_allows() -> None:
    wrong = []
    for file in files():
        own = room(file)
        allowed = MAY_IMPORT[own] | EVERYWHERE | {own} if own not in EVERYWHERE else EVERYWHERE
        for name, line in imports(file):
            other = name.split(".")[1]
            if other not in allowed:
                wrong.append(f"{file.relative_to(SOURCE)}:{line} imports {other}")
    assert wrong == []


def test_no_circle_between_rooms() -> None:
    TopologicalSorter(MAY_IMPORT).prepare()


@pytest.mark.parametrize("name", sorted(MAY_IMPORT))
def test_no_circle_inside_a_room(name: str) -> None:
    modules = {module(file): file for file in files() if room(file) == name}
    graph: dict[str, set[str]] = {}
    for own, file in modules.items():
        found = graph.setdefault(own, set())
        for imported, _ in imports(file):
            target = imported if imported in modules else imported.rpartition(".")[0]
            if target in modules and target != own:
                found.add(target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as circle:
        pytest.fail(" → ".join(circle.args[1]))


def test_the_reading_of_imports_works(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text(
        "import decentrl.cli\nfrom decentrl import runs\n"
        "def f():\n    from decentrl.nn.dan import DAN\nimport torch\n"
    )
    assert list(imports(file)) == [
        ("decentrl.cli", 1),
        ("decentrl.runs", 2),
        ("decentrl.nn.dan.DAN", 4),
    ]
