"""One training with one seed, and the name of the file that its result is kept in."""

from __future__ import annotations

import hashlib
import json
import shlex
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from typing import Any, Literal

from decentrl.config import Config, PredictionConfig, Settings
from decentrl.config.settings import MORE_PRESETS, section_names
from decentrl.errors import ConfigError
from studies import rivals  # noqa: F401  registers the baselines, in worker processes too

RESULTS_VERSION = 1
"""Bumped by hand when code, or the default of a setting, changes so that a number may change: then
no run counts as done any more."""
DECODER_VERSIONS = {"transe": 2, "rotate": 2, "conve": 2}
"""The same for runs under one decoder. 2: entities without a vector are ranked last."""
SELF_TRAINING_VERSION = 3
"""The same for self-trained runs. 3: vectors could show whether an entity has a counterpart."""

PUBLISHED_SPLIT = 0.2
"""The share of unseen entities in the published open-world splits; they are those of seed 0."""

Job = Literal["alignment", "prediction", "data"]
KINDS: dict[str, type[Settings]] = {"alignment": Config, "prediction": PredictionConfig}


@dataclass(frozen=True)
class Run:
    """What is done once.

    Attributes:
        job: what is trained; ``data`` trains nothing and counts what is in a dataset.
        unseen: share of the test entities that arrive after training; 0 is the closed world.
        split: seed of the choice of those that arrive; 0 with ``PUBLISHED_SPLIT`` is as published.
        alone: nothing else runs at the same time, because its time is of interest.
    """

    job: Job
    dataset: str
    preset: str = ""
    settings: tuple[str, ...] = ()
    unseen: float = 0.0
    seed: int = 0
    alone: bool = False
    split: int = 0

    def config(self) -> Settings:
        return _config(self.job, self.preset, self.settings, self.seed)

    @property
    def possible(self) -> bool:
        """Whether its preset is there, and takes its settings."""
        return self.job == "data" or _possible(self.job, self.preset, self.settings)

    @property
    def published(self) -> bool:
        """Whether its data are read as others have split them."""
        return self.unseen == 0.0 or (self.unseen == PUBLISHED_SPLIT and not self.split)

    @property
    def key(self) -> str:
        """Changes with anything that its numbers come from."""
        return _key(self)

    @property
    def version(self) -> int:
        """Of the code that its numbers come from."""
        own = None if self.job == "data" else self.config()
        if isinstance(own, PredictionConfig):
            return RESULTS_VERSION + DECODER_VERSIONS.get(own.decoder.name, 1) - 1
        if isinstance(own, Config) and own.self_training.rounds:
            return RESULTS_VERSION + SELF_TRAINING_VERSION - 1
        return RESULTS_VERSION

    @property
    def name(self) -> str:
        """For people, and for the name of its file."""
        world = f"unseen{100 * self.unseen:.0f}" if self.unseen else "closed"
        world += f"-split{self.split}" if self.split else ""
        if self.job == "data":
            return f"{_slug(self.dataset)}-{world}-data"
        changed = "-".join(_slug(x.partition(".")[2].replace("=", "")) for x in self.settings)
        parts = (_slug(self.dataset), world, self.preset, changed[:40], f"seed{self.seed}")
        return "-".join(part for part in parts if part)

    @property
    def file(self) -> str:
        return f"{self.name}-{self.key[:8]}.json"

    @property
    def command(self) -> str:
        """What does the same on its own."""
        words = ["decentrl"]
        if self.job == "data":
            words += ["data", "info", self.dataset]
            return shlex.join(words + ["--open-world"] * bool(self.unseen))
        dataset, before = self.dataset, ""
        if not self.published:
            split = ["decentrl", "data", "split", dataset, "--share", f"{self.unseen:g}"]
            split += ["--seed", str(self.split)] if self.split else []
            before, dataset = shlex.join([*split, "-o", "SPLIT"]) + " && ", "SPLIT"
        words += ["align" if self.job == "alignment" else "complete", "--dataset", dataset]
        words += ["--open-world"] * bool(self.unseen) + ["--preset", self.preset]
        words += [word for setting in self.settings for word in ("--set", setting)]
        if self.preset in MORE_PRESETS[KINDS[self.job].folder]:
            before += "DECENTRL_PLUGINS=studies.rivals "
        return before + shlex.join([*words, "--seed", str(self.seed), "-o", "RUN"])

    def changed(self) -> dict[str, Any]:
        """The encoder and decoder, and the settings that differ from their defaults.

        So one more setting changes no key.
        """
        if self.job == "data":
            return {}
        config = self.config()
        found: dict[str, Any] = {}
        for section in section_names(type(config)):
            values = getattr(config, section)
            if values is None:
                continue
            if key := config.choices.get(section):
                found[f"{section}.{key}"] = getattr(values, key)
            found |= {
                f"{section}.{field.name}": getattr(values, field.name)
                for field in fields(values)
                if getattr(values, field.name) != field.default
            }
        return found


@lru_cache(None)
def _config(job: str, preset: str, settings: tuple[str, ...], seed: int) -> Settings:
    return KINDS[job].from_preset(preset, settings, seed)


@lru_cache(None)
def _possible(job: str, preset: str, settings: tuple[str, ...]) -> bool:
    try:
        _config(job, preset, settings, 0)
    except ConfigError:
        return False
    return True


@lru_cache(None)
def _key(run: Run) -> str:
    facts = asdict(run) | {"preset": "", "settings": run.changed()}
    if not run.split:  # so that keys are as they were before it could be chosen
        del facts["split"]
    facts |= {"data": data_digest(run.dataset), "version": run.version}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@lru_cache(None)
def data_digest(dataset: str) -> str:
    """Of the files of a dataset as they were published, so it is known without them."""
    from decentrl.data.layouts import TRANSLATED
    from decentrl.data.registry import checksums, find_dataset

    info = find_dataset(dataset)
    if info.packaged:
        files = sorted(path for path in info.path().iterdir() if path.suffix != ".py")
        sums = {x.name: hashlib.sha256(x.read_bytes()).hexdigest() for x in files if x.is_file()}
    else:
        sums = {x: y for x, y in checksums().items() if x.startswith(info.folder + "/")}
        sums = {x: y for x, y in sums.items() if TRANSLATED not in x}  # names, which no run reads
    return hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()


def _slug(text: str) -> str:
    kept = (c if c.isalnum() or c in ".-" else "-" for c in text.lower())
    return "".join(kept).removeprefix("dbp15k-")
