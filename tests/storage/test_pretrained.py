"""Vectors in a folder like those of Hugging Face are read back as the same bits."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from decentrl.errors import InputError
from decentrl.storage.export import Part
from decentrl.storage.narrow import narrowed
from decentrl.storage.pretrained import load_pretrained, save_pretrained


def random(n: int, dim: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, dim)).astype(np.float32)


@given(
    labels=st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True, max_size=5),
    two=st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_what_was_saved_is_loaded(
    labels: list[str], two: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("p") / "vectors"
    sides = [
        Part(labels, torch.from_numpy(random(len(labels))), side)
        for side in (("left", "right") if two else (None,))
    ]
    assert save_pretrained(sides, folder, "# the card\n").written == len(labels) * len(sides)
    found = load_pretrained(folder)
    assert [x.side for x in found] == [x.side for x in sides]
    for one, other in zip(found, sides, strict=True):
        assert list(one.labels) == labels
        assert np.array_equal(one.vectors, other.vectors.numpy())


def test_the_folder_has_what_a_hub_shows(tmp_path: Path) -> None:
    save_pretrained([Part(["a", "b\n"], random(2))], tmp_path / "x", "# My card\n")
    assert sorted(x.name for x in (tmp_path / "x").iterdir()) == [
        "README.md", "config.json", "labels.json", "model.safetensors",
    ]  # fmt: skip
    card = (tmp_path / "x/README.md").read_text()
    assert card.startswith("---\nlibrary_name: decentrl\ntags:\n")
    assert "Vectors of 2 entities, 6 numbers each" in card
    assert card.endswith("# My card\n")
    config = json.loads((tmp_path / "x/config.json").read_text())
    assert (config["dim"], config["entities"]) == (6, {"entities": 2})
    assert np.array_equal(load_file(tmp_path / "x/model.safetensors")["entities"], random(2))
    code = card.split("```python\n")[1].split("```")[0].replace('"x"', f"'{tmp_path}/x'")
    found: dict[str, Part] = {}
    exec(code, found)  # the lines on the card do what they say
    assert list(found["entities"].labels) == ["a", "b\n"]


def test_what_is_there_already_stays(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("x")
    for place in (tmp_path / "mine", tmp_path / "mine/file"):
        with pytest.raises(InputError, match="something already; name a new folder"):
            save_pretrained([Part(["a"], random(1))], place)
    with pytest.raises(InputError, match="make it first"):
        save_pretrained([Part(["a"], random(1))], tmp_path / "none" / "x")
    assert (tmp_path / "mine" / "file").read_text() == "x"
    assert sorted(x.name for x in tmp_path.iterdir()) == ["mine"]


@pytest.mark.parametrize(
    ("file", "content", "says"),
    [
        ("config.json", b"{}", "its model_type is not decentrl-vectors"),
        ("config.json", b"[" * 100_000, "cannot be read"),
        ("config.json", b"\xff", "cannot be read"),
        ("labels.json", b'{"entities": ["a"]}', "do not fit each other"),
        ("labels.json", b"[]", "do not fit each other"),
        ("model.safetensors", b"x", "cannot be read"),
        ("labels.json", None, "there is no such file"),
    ],
)
def test_a_damaged_folder_is_one_line(
    tmp_path: Path, file: str, content: bytes | None, says: str
) -> None:
    folder = tmp_path / "x"
    save_pretrained([Part(["a", "b"], random(2))], folder)
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_bytes(content)
    with pytest.raises(InputError, match=says) as error:
        load_pretrained(folder)
    assert "\n" not in str(error.value)


def test_entities_without_a_vector_are_left_out(tmp_path: Path) -> None:
    vectors = random(3)
    vectors[1] = 0
    done = save_pretrained([Part(["a", "b", "c"], vectors)], tmp_path / "x")
    assert (done.written, done.without) == (2, 1)
    assert list(load_pretrained(tmp_path / "x")[0].labels) == ["a", "c"]


def test_narrower_vectors_are_the_nearest_of_that_width() -> None:
    """Products are the same where vectors lie in so many dimensions; zeros stay zeros."""
    basis, n = random(4, 20, 1), 50
    vectors = random(n, 4, 2) @ basis
    vectors[7] = 0
    parts = [Part(["x"] * 30, vectors[:30], "left"), Part(["x"] * 20, vectors[30:], "right")]
    left, right = narrowed(parts, 4)
    assert left.vectors.shape == (30, 4)
    assert not left.vectors[7].any()
    expected = vectors[:30] @ vectors[30:].T
    assert np.allclose(left.vectors @ right.vectors.T, expected, atol=1e-3)
    # Against what singular values say is the least that must be lost.
    noisy = random(n, 20, 3)
    (found,) = narrowed([Part(["x"] * n, noisy)], 5)
    lost = (noisy**2).sum() - (np.asarray(found.vectors) ** 2).sum()
    assert np.isclose(lost, (np.linalg.svd(noisy)[1][5:] ** 2).sum(), rtol=1e-4)


@pytest.mark.parametrize("dim", [1, 3, 5, 8, 20])
def test_fewer_vectors_than_numbers(dim: int) -> None:
    """As many axes as vectors keep every product; more are zeros."""
    vectors = random(5, 20, 4)
    (found,) = narrowed([Part(["x"] * 5, vectors)], dim)
    made = np.asarray(found.vectors)
    assert made.shape == (5, dim)
    lost = (vectors**2).sum() - (made**2).sum()
    assert np.isclose(lost, (np.linalg.svd(vectors)[1][dim:] ** 2).sum(), rtol=1e-4, atol=1e-3)


def test_a_width_that_cannot_be_is_an_error() -> None:
    for dim in (0, 7):
        with pytest.raises(InputError, match="give 1 to 6"):
            narrowed([Part(["a"], random(1))], dim)
