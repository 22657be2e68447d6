"""Vectors as a folder like those of Hugging Face: a card, a configuration, safetensors.

``README.md`` is the card, ``config.json`` says what is in the folder, ``model.safetensors`` has a
matrix for each graph, and ``labels.json`` the labels of its rows. No client of a hub is needed;
that of Hugging Face uploads the folder as it is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from decentrl._version import __version__
from decentrl.data.scratch import scratch_folder
from decentrl.errors import InputError
from decentrl.storage.export import Exported, Part, blocks
from decentrl.storage.files import replace_folder

KIND = "decentrl-vectors"
ONE = "entities"
"""What the matrix of a single graph is called; of two they are called left and right."""
CONFIG, MATRICES, LABELS, CARD = "config.json", "model.safetensors", "labels.json", "README.md"
_REMEDY = "give a folder of `decentrl export --format pretrained`"
_HEAD = """---
library_name: decentrl
tags:
- knowledge-graph
- entity-embeddings
---

Vectors of {counts}, {dim} numbers each:

```python
from decentrl.storage.pretrained import load_pretrained

{names} = load_pretrained("{folder}")
{first}.labels, {first}.vectors
```

"""


def save_pretrained(parts: Sequence[Part], folder: str | PathLike[str], card: str = "") -> Exported:
    """Write vectors to a new folder; it appears whole or not at all.

    Entities without a vector (only zeros) are left out.

    Args:
        parts: one, or the two sides of an alignment.
        card: Markdown on the model, below what is said of the vectors.
    """
    from safetensors.numpy import save_file

    target = Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError("there is something already", file=target, remedy="name a new folder")
    if not target.parent.is_dir():
        raise InputError("no such folder", file=target.parent, remedy="make it first")
    dim = int(parts[0].vectors.shape[1])
    labels: dict[str, list[str]] = {}
    tensors: dict[str, Any] = {}
    for part in parts:
        name, found = part.side or ONE, list(blocks([part]))
        labels[name] = [label for _, some, _ in found for label in some]
        tensors[name] = np.concatenate([np.zeros((0, dim), np.float32), *(x[2] for x in found)])
    counts = ", ".join(f"{len(x):,} {name}" for name, x in labels.items())
    names = ", ".join(labels) if len(labels) > 1 else f"({next(iter(labels))},)"
    head = _HEAD.format(
        counts=counts, dim=dim, names=names, folder=target.name, first=next(iter(labels))
    )
    sizes = {name: len(some) for name, some in labels.items()}
    config = {"model_type": KIND, "decentrl": __version__, "dim": dim, "entities": sizes}
    with scratch_folder(target) as part_folder:
        save_file(tensors, part_folder / MATRICES)
        (part_folder / MATRICES).chmod(part_folder.stat().st_mode & 0o666)
        for name, value in ((CONFIG, config), (LABELS, labels)):
            (part_folder / name).write_text(json.dumps(value, ensure_ascii=False) + "\n", "utf-8")
        (part_folder / CARD).write_text(head + card, "utf-8")
        replace_folder(part_folder, target)
    written = sum(sizes.values())
    entities = sum(len(part.vectors) for part in parts)
    return Exported((target,), written, entities - written)


def load_pretrained(folder: str | PathLike[str]) -> list[Part]:
    """The parts of a folder that :func:`save_pretrained` wrote, with vectors as NumPy arrays."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    place = Path(folder)
    try:
        config = json.loads((place / CONFIG).read_bytes())
        if not isinstance(config, dict) or config.get("model_type") != KIND:
            raise InputError(f"its model_type is not {KIND}", file=place / CONFIG, remedy=_REMEDY)
        labels = json.loads((place / LABELS).read_bytes())
        tensors = load_file(place / MATRICES)
        fits = isinstance(labels, dict) and labels.keys() == tensors.keys() and bool(labels)
        if not fits or any(
            not isinstance(labels[x], list) or len(labels[x]) != len(y) or y.ndim != 2
            for x, y in tensors.items()
        ):
            raise ValueError(f"{LABELS} and {MATRICES} do not fit each other")
    except FileNotFoundError as error:
        raise InputError("there is no such file", file=error.filename, remedy=_REMEDY) from None
    except (OSError, ValueError, RecursionError, SafetensorError) as error:
        why = " ".join(str(error).split())
        problem = f"cannot be read ({why})"
        raise InputError(problem, file=place, remedy="export or copy it again") from None
    order = sorted(labels)  # left before right
    return [Part(labels[x], tensors[x], None if x == ONE else x) for x in order]
