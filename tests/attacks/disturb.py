"""Runs commands on a full disk, or sends them signals, and looks at what they leave behind.

A script of its own, because it forks. Usage:

    python disturb.py full|signals FOLDER TRIALS RUN TRIPLES.tsv

The commands work on copies of RUN in FOLDER; each is first run undisturbed. ``full``: from one
operation on, no file can be opened for writing, renamed, made or synced (ENOSPC), or no file grows
beyond so many bytes (RLIMIT_FSIZE, which the libraries see that write by themselves). ``signals``:
SIGINT, SIGTERM, SIGHUP or SIGPIPE at a random moment. Whatever happens, the run must be as before
or as after one of the additions of the command, an output file as before or as after, and the exit
code must fit. The JSON on stdout has counts, and what was wrong.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import sys
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow.parquet  # noqa: F401 (imported once, before the forks)
import torch
from child import SIGNALS, Disturb, Ended, count_operations, forked, full_from, limited

import decentrl.cli.course
import decentrl.runs.run  # noqa: F401 (imported once, before the forks)
from decentrl.aligner import Aligner
from decentrl.errors import DecentRLError

ADDED = ("one.tsv", "two.tsv", "three.tsv")
CHANCE = random.Random(os.environ["DECENTRL_SEED"])
ALIGN = ["align", "--preset", "tiny", "--device", "cpu", "-o", "new"]
for setting in ("model.dim=8", "training.epochs=3", "training.checkpoint_every=0"):
    ALIGN += ["--set", setting]


@dataclass
class Job:
    """A command, and what undisturbed runs of it leave."""

    name: str
    arguments: list[str]
    outputs: tuple[str, ...] = ()
    adds: bool = False
    trains: bool = False
    reads: bool = False  # and writes nothing, so it succeeds on a full disk


# Most that read ask a run without a store: so the output file is the first that is written.
JOBS = [
    Job("add", ["add", "run", *ADDED, "--side", "left"], adds=True),
    Job("add --refresh", ["add", "run", *ADDED, "--side", "left", "--refresh"], adds=True),
    Job("undo", ["undo", "run"]),
    Job("compact", ["compact", "run"]),
    Job("compact --refresh", ["compact", "run", "--refresh"]),
    *(
        Job(f"export {name}", ["export", "plain", "-o", name, *side], outputs)
        for name, side, outputs in (
            ("out.parquet", [], ("out.parquet",)),
            ("out.npy", ["--side", "left"], ("out.labels.txt", "out.npy")),
            ("out.vec", ["--side", "right"], ("out.vec",)),
        )
    ),
    *(
        Job(f"match -o out.{end}", ["match", "plain", "-o", f"out.{end}"], (f"out.{end}",))
        for end in ("tsv", "parquet", "nt", "sssom.tsv", "rdf")
    ),
    Job(
        "predict --batch -o",
        ["predict", "asked", "--batch", "questions.tsv", "-o", "out.tsv"],
        ("out.tsv",),
    ),
    Job("match of a store", ["match", "run"], reads=True),
    Job("match -o of a store", ["match", "run", "-o", "out.tsv"], ("out.tsv",)),
    Job("export of a store", ["export", "run", "-o", "out.parquet"], ("out.parquet",)),
    Job("align", [*ALIGN, "left.tsv", "right.tsv", "--links", "links.tsv"], trains=True),
]


class Bench:
    """A folder in which commands run on copies of one run, and what they may leave."""

    def __init__(self, folder: Path, run: Path, triples: Path) -> None:
        self.source, self.place = folder / "source", folder / "place"
        self.source.mkdir()
        for name in ("run", "plain"):  # with additions, and without a store
            shutil.copytree(run, self.source / name)
        lines = triples.read_text("utf-8").splitlines(keepends=True)
        for i, name in enumerate(("zero.tsv", *ADDED)):
            (self.source / name).write_text("".join(lines[i::4]), "utf-8")
        for name in ("left.tsv", "right.tsv", "links.tsv"):
            shutil.copy(triples.with_name(name), self.source / name)
        known = (self.source / "left.tsv").read_text("utf-8").splitlines()
        questions = ("\t".join((*line.split("\t")[:2], "?\n")) for line in known)
        (self.source / "questions.tsv").write_text("".join(questions), "utf-8")
        self.fresh(self.source)
        self.run(["add", "run", "zero.tsv", "--side", "left"])
        quick = ["--preset", "quick", "--set", "training.epochs=1", "--set", "model.dim=8"]
        self.run(["complete", "left.tsv", *quick, "--device", "cpu", "-o", "asked"])
        shutil.rmtree(self.source)
        shutil.copytree(self.place, self.source)
        self.before = self.state()
        self.expected: dict[str, tuple[set[str], dict[str, str], set[str], float, int, int]] = {}
        self.answers: dict[str, str] = {}  # what those that only read print
        self.known = {path.name for path in folder.iterdir()}

    def fresh(self, source: Path | None = None) -> None:
        os.chdir("/")
        shutil.rmtree(self.place, ignore_errors=True)
        shutil.copytree(source or self.source, self.place)
        os.chdir(self.place)

    def run(self, arguments: list[str], prepare: Disturb = lambda: None) -> Ended:
        ended = forked(arguments, prepare)
        assert ended.code == 0, ended
        return ended

    def state(self, run: str = "run") -> str:
        """The additions and all vectors of a run, in short."""
        aligner = Aligner.load(run, device="cpu")
        whole = hashlib.sha256()
        for side, grown in sorted(aligner.growing.sides.items()):
            rows = dict(zip(grown.entities, grown.vectors.tolist(), strict=True))
            whole.update(json.dumps([side, rows], sort_keys=True).encode())
        sources = [addition.source for addition in aligner.log()]
        return json.dumps([sources, whole.hexdigest()])

    def files(self) -> set[str]:
        return {str(path.relative_to(self.place)) for path in self.place.rglob("*")}

    def outputs(self, job: Job) -> dict[str, str]:
        """The contents of its output files, in short; "" where there is none."""
        paths = {name: self.place / name for name in job.outputs}
        return {
            name: hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
            for name, path in paths.items()
        }

    def learn(self, job: Job) -> None:
        """Run a command undisturbed: after each of its additions, then all of it."""
        states = {self.before}
        if job.adds:
            for count in range(1, len(ADDED) + 1):
                self.fresh()
                self.run(["add", "run", *ADDED[:count], "--side", "left"])
                states.add(self.state())
        self.fresh()
        # Files are compared, so their modification times are the only trace of what was written.
        untouched = {name: (self.place / name).stat().st_mtime_ns for name in self.files()}
        counted = os.memfd_create("count")
        ended = self.run(job.arguments, lambda: count_operations(self.place, counted))
        operations = os.fstat(counted).st_size
        os.close(counted)
        sizes = [
            path.stat().st_size
            for path in self.place.rglob("*")
            if untouched.get(str(path.relative_to(self.place))) != path.stat().st_mtime_ns
        ]
        states.add(self.state())
        self.answers[job.name] = ended.out
        if job.trains:
            self.trained = self.state("new")
        self.expected[job.name] = (
            states, self.outputs(job), self.files(), ended.seconds, operations,
            max(sizes, default=1000),
        )  # fmt: skip


class Report:
    """Counts what was wrong after disturbed commands."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.found = dict.fromkeys(
            ("trials", "lost", "silent", "tracebacks", "hangs", "outside"), 0
        )
        self.wrong: list[str] = []
        self.codes: dict[str, int] = {}

    def blame(self, kind: str, what: str) -> None:
        self.found[kind] += 1
        self.wrong.append(f"{kind}: {what}")

    def look(self, job: Job, ended: Ended, how: str, codes: set[int | None]) -> None:
        """Compare what is there now with what may be there."""
        bench, about = self.bench, f"{job.name}, {how}: {ended}"
        states, outputs, files, *_ = bench.expected[job.name]
        self.found["trials"] += 1
        self.codes[str(ended.code)] = self.codes.get(str(ended.code), 0) + 1
        if ended.code is None:
            self.blame("hangs", about)
        elif ended.code not in codes:
            self.blame("silent", f"exit code; {about}")
        if "Traceback" in ended.err:
            self.blame("tracebacks", about)
        if ended.code == 2 and (ended.err.count("\n") != 1 or not ended.err.startswith("error: ")):
            self.blame("silent", f"not one line of error; {about}")
        if ended.code == 2 and not any(name in ended.err for name in ("run", "new", "out.")):
            self.blame("silent", f"no file is named; {about}")
        try:
            now = bench.state()
        except DecentRLError as error:
            self.blame("silent", f"unreadable ({error}); {about}")
            return
        there = [name for name in json.loads(now)[0] if name in ADDED]
        acknowledged = [name for name in ADDED if f"{name}: addition" in ended.out]
        if job.reads and ended.code == 0 and ended.out != bench.answers[job.name]:
            self.blame("silent", f"another answer; {about}")
        if job.adds and ended.code == 0:
            acknowledged = list(ADDED)
        if missing := len(acknowledged) - len(there):
            # One that was written but not acknowledged may be there.
            if missing > 0:
                self.blame("lost", f"there: {there}; {about}")
            elif missing < -1:
                self.blame("silent", f"there: {there}; {about}")
        if now not in states:
            self.blame("silent", f"other vectors or additions; {about}")
        for name, content in bench.outputs(job).items():
            partner = name == job.outputs[-1] and len(job.outputs) > 1
            if content != outputs[name] and (ended.code == 0 or (content and not partner)):
                self.blame("silent", f"{name} is half or missing; {about}")
        new = {name for name in bench.files() if Path(name).name != "wal-index"} - files
        stray = {name for name in new if not name.endswith(("-wal", "-shm", "-journal"))}
        if ended.code is not None and ended.code < 0:  # killed: a temporary file may be left
            stray = {x for x in stray if not any(".part" in y for y in Path(x).parts)}
        if stray and not job.trains:
            self.blame("silent", f"left behind: {sorted(stray)}; {about}")
        if job.trains:
            self.resume(ended, files, about)
        if {path.name for path in bench.place.parent.iterdir()} - bench.known:
            self.blame("outside", about)

    def resume(self, ended: Ended, files: set[str], about: str) -> None:
        """A training that was disturbed goes on, and ends as the undisturbed one."""
        done, began = Path("new/results.json").exists(), Path("new/config.toml").exists()
        if ended.code == 0 and not done:
            self.blame("silent", f"no results; {about}")
        if not done:
            again = ["align", "--resume", "-o", "new"] if began else JOBS[-1].arguments
            ended = forked(again, lambda: None)
        if ended.code == 0 and self.bench.state("new") != self.bench.trained:
            self.blame("silent", f"other vectors; {about}")
        elif self.bench.files() != files:
            self.blame("silent", f"other files {self.bench.files() ^ files}; {about}")
        elif not done and ended.code:
            self.blame("silent", f"not resumed: {ended}; {about}")

    def result(self) -> dict[str, Any]:
        return {**self.found, "codes": self.codes, "wrong": self.wrong}


def full_disk(bench: Bench, trials: int) -> Report:
    report, queues = Report(bench), []
    for job in JOBS:
        *_, operations, size = bench.expected[job.name]
        numbers = CHANCE.sample(range(1, operations + 1), operations)
        numbers = range(1, 13) if job.reads else numbers  # of those without an operation
        # Small sizes more often than large ones: there are many small files.
        queues.append(
            [
                (job, *point)
                for number in numbers
                for again in (False, True)
                for point in ((round(size ** CHANCE.uniform(0.2, 1)), None), (number, again))
            ]
        )
    # All jobs in turn, so that each has its share of few trials.
    points = [point for turn in zip_longest(*queues) for point in turn if point]
    for job, number, again in points[:trials]:
        bench.fresh()
        sized = again is None
        how = f"at most {number} bytes" if sized else f"operation {number}" + " on" * again
        disturb = limited(number) if sized else full_from(bench.place, number, again)
        report.look(job, forked(job.arguments, disturb), how, {0} if job.reads else {0, 2})
    return report


def signals(bench: Bench, trials: int) -> Report:
    report = Report(bench)
    for trial in range(trials):
        job, number = JOBS[trial % len(JOBS)], SIGNALS[trial % len(SIGNALS)]
        seconds = bench.expected[job.name][3]
        bench.fresh()
        after = CHANCE.uniform(0.005, seconds)
        codes = {0, {signal.SIGINT: 130, signal.SIGPIPE: 0}.get(number, -number)}
        ended = forked(job.arguments, lambda: None, (number, after))
        report.look(job, ended, f"{number.name} after {after:.3f} s", codes)
    return report


def main(attack: str, folder: Path, trials: int, run: Path, triples: Path) -> dict[str, Any]:
    torch.set_num_threads(1)
    torch.optim.Adam([torch.zeros(1)])  # this imports half of torch: once, not in every child
    bench = Bench(folder, run, triples)
    for job in JOBS:
        bench.learn(job)
    return {"full": full_disk, "signals": signals}[attack](bench, trials).result()


if __name__ == "__main__":
    what, folder, trials, run, triples = sys.argv[1:]
    print(json.dumps(main(what, Path(folder), int(trials), Path(run), Path(triples))))
