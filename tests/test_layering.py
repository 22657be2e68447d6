"""Data flows one way, and the imports follow it: nothing imports what comes later."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import decentrl

SOURCE = Path(decentrl.__file__).parent

# A room may import itself and what stands before it.
ORDER = (
    "_version",
    "errors",
    "folders",
    "config",
    "device",
    "data",
    "graph",
    "nn",
    "matching",
    "training",
    "card",
    "report",
    "mapped",
    "bundle",
    "addition",
    "store",
    "index",
    "export",
    "induction",
    "growing",
    "neighbours",
    "asking",
    "explanation",
    "drift",
    "model",
    "alignment_state",
    "prediction_state",
    "aligner",
    "predictor",
    "sources",
    "reporting",
    "runs",
    "reproduce",
    "cli",
    "__main__",
)
USABLE_BY_ALL = {"_version", "errors", "config"}
# Ids, tensors and scores know nothing of labels and files.
NO_LABELS = ("graph", "nn", "matching", "training")


def room(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(file: Path) -> Iterator[tuple[str, int]]:
    """The rooms that a file imports, wherever in the file, and the lines."""
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            first, *rest = name.split(".")
            if first == "decentrl":
                yield rest[0], node.lineno


def files() -> list[Path]:
    # The package's own __init__ names what is public and imports it on first use.
    return [file for file in sorted(SOURCE.rglob("*.py")) if file != SOURCE / "__init__.py"]


def test_every_room_has_its_place() -> None:
    assert {room(file) for file in files()} == set(ORDER)


def test_no_import_goes_back() -> None:
    wrong = [
        f"{file.relative_to(SOURCE)}:{line} imports {other}"
        for file in files()
        for other, line in imported_rooms(file)
        if other not in ORDER or ORDER.index(other) > ORDER.index(room(file))
    ]
    assert wrong == []


def test_ids_and_tensors_know_no_labels() -> None:
    wrong = [
        f"{file.relative_to(SOURCE)}:{line} imports {other}"
        for file in files()
        if room(file) in NO_LABELS
        for other, line in imported_rooms(file)
        if other not in USABLE_BY_ALL | set(NO_LABELS)
    ]
    assert wrong == []


def test_the_settings_depend_on_nothing_else() -> None:
    for file in files():
        if room(file) in USABLE_BY_ALL:
            assert {other for other, _ in imported_rooms(file)} <= USABLE_BY_ALL


def test_the_reading_of_imports_works(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text(
        "import decentrl.cli\nfrom decentrl import runs\n"
        "def f():\n    from decentrl.nn.dan import DAN\nimport torch\n"
    )
    assert list(imported_rooms(file)) == [("cli", 1), ("runs", 2), ("nn", 4)]
