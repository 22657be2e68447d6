"""What an aligner can do about its doubtful matches: say which they are, and take decisions."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Literal

import pyarrow as pa

from decentrl.data.alignment_task import AlignmentTask
from decentrl.data.memory import Source
from decentrl.data.naming import add_names, entity_ids
from decentrl.data.results import ResultTable
from decentrl.errors import ConfigError, InputError, UnknownLabelError
from decentrl.growth.alignment_state import SIDES
from decentrl.growth.decided import current
from decentrl.growth.matching_model import MatchingModel
from decentrl.growth.review import Review, ReviewQueue
from decentrl.storage.decision import VERDICTS, Decision, Pair, Verdict
from decentrl.storage.files import whole_files
from decentrl.storage.interchange import write_sssom

MANUAL = "semapv:ManualMappingCuration"


class ReviewingModel(MatchingModel):
    """The part of :class:`~decentrl.aligner.Aligner` for looking matches through."""

    def decide(
        self, left: str, right: str, verdict: Verdict, by: str = "", note: str = ""
    ) -> Decision:
        """Say that two entities are a match, or are none; see :meth:`decide_all`.

        >>> aligner.decide("Berlin", "Berlin (DE)", "accept", by="Ada")

        Args:
            left, right: identifiers or names.
            verdict: ``accept``, ``reject`` or ``skip``, which leaves it open.
            by, note: who says so, and why, for the log.
        """
        return self.decide_all([(left, right)], verdict, by, note)

    def decide_all(
        self, pairs: Sequence[Pair], verdict: Verdict, by: str = "", note: str = ""
    ) -> Decision:
        """Decide the same about several pairs of a left and a right entity, in one step.

        It counts at once. What is accepted is matched with confidence 1, and its entities are no
        candidates for others; what is rejected is no candidate any more. A known link can be
        rejected, too. Of decisions that contradict each other the later one counts, also of those
        that accept different counterparts of one entity; in one step an entity may have several.
        :meth:`refit` learns from all.

        Of a run that is open for adding, decisions are kept in the run before this returns.
        """
        if verdict not in VERDICTS:
            raise ConfigError(f"no verdict {verdict!r}; there are: {', '.join(VERDICTS)}")
        if not len(pairs):
            raise InputError("there is no pair to decide on", remedy="give one")
        graphs, called = self.growing.sides, dict(zip(SIDES, zip(*pairs, strict=True), strict=True))
        try:
            left, right = (
                graphs[side].entities.take(entity_ids(graphs[side], called[side], graphs))
                for side in SIDES
            )
        except UnknownLabelError as error:
            if not (error.remedy or "").startswith("it is in the"):
                raise
            remedy = "name the left entity first and the right one second"
            raise UnknownLabelError(error.problem, remedy=remedy) from None
        chosen = list(dict.fromkeys(zip(left, right, strict=True)))
        self._leave_run()
        growing = self.growing
        decision = growing.decided.write(growing.store, verdict, chosen, by, note)
        growing.version += 1
        return decision

    def undo_decision(self, by: str = "") -> Decision:
        """Take back the last decision that stands; the log keeps both."""
        self._leave_run()
        growing = self.growing
        decision = growing.decided.undo(growing.store, by)
        growing.version += 1
        return decision

    def decisions(self) -> ResultTable:
        """Every decision, the oldest first: number, left, right, verdict, by, note, at, current.

        One that takes back another has the verdict ``undo``. ``current`` are those that count.
        """
        return self.growing.decided.table()

    def export_decisions(
        self, file: str | PathLike[str], format: Literal["links", "sssom"] = "links"
    ) -> int:
        """Write the decisions that count now; returns how many pairs that are.

        Args:
            file: appears whole or not at all.
            format: ``links`` are the accepted pairs in two columns, as ``--links`` reads them;
                ``sssom`` has rejected ones, too (``predicate_modifier`` Not), and who has decided.
        """
        if format not in ("links", "sssom"):
            raise ConfigError(f"no format {format!r} of decisions; there are: links, sssom")
        rows = [
            {"left": left, "right": right, "by": x.by, "rejected": x.verdict == "reject"}
            for (left, right), x in current(self.growing.decided.log).items()
            if x.verdict == "accept" or (format == "sssom" and x.verdict == "reject")
        ]
        if not rows:
            raise InputError("there is no decision to write", remedy="accept a match first")
        table = pa.Table.from_pylist(rows)
        if format == "sssom":
            write_sssom(add_names(table, self.growing.sides), file, justification=MANUAL)
            return len(rows)
        with whole_files(Path(file)) as (part,):
            lines = map(_line, *(table[side].to_pylist() for side in SIDES))
            part.write_text("".join(lines), "utf-8", newline="\n")
        return len(rows)

    def review_queue(self, limit: int = 20, offset: int = 0, language: str = "") -> ReviewQueue:
        """The matches that are worth looking at, doubtful ones beside other doubtful ones first.

        Each entity of the left graph that no link has taken is in it once, with its best match that
        was not rejected. What was decided is not in it any more; skipped pairs come last.

        Args:
            limit, offset: how many items, after how many.
            language: of the names that are shown.
        """
        if limit < 0 or offset < 0:
            raise ConfigError(f"limit {limit} and offset {offset} must not be negative")
        return self._review.queue(limit, offset, language)

    def settled_task(self, links: Source | None = None) -> AlignmentTask:
        """What :meth:`refit` learns from: all triples but those held out, links, and decisions."""
        return self.learned.settled_task(self.growing.decided.learned_by(self.task), links)

    @property
    def _review(self) -> Review:
        def make() -> Review:
            return Review(
                self.growing,
                self._undecided,
                self.config.matching,
                self._judge,
                self._decided,
                self._settled_now,
            )

        return self._once("review", make)


def _line(left: str, right: str) -> str:
    """A line of a file of links."""
    for label in (left, right):
        if any(c in label for c in "\t\n\r"):
            raise InputError(
                f"the label {label!r} contains a tab or a line end, which links cannot hold",
                remedy="write SSSOM",
            )
    return f"{left}\t{right}\n"
