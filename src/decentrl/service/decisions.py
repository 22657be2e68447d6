"""REST of the review: the queue of doubtful matches, decisions about them, and their export."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse, Response

from decentrl.service import examples
from decentrl.service.entities import shown
from decentrl.service.parameters import LIMITS, Language, Run, alignment, allowed, reply
from decentrl.service.rest import plain
from decentrl.service.served_run import ServedRun

router = APIRouter(tags=["review"])
FILES = {"links": "links.tsv", "sssom": "decisions.sssom.tsv"}


@router.get("/review", responses=examples.REVIEW)
async def review(
    run: Run,
    limit: Annotated[int, Query(ge=0, le=LIMITS.top)] = 20,
    offset: Annotated[int, Query(ge=0, le=10**9)] = 0,
    language: Language = "",
) -> JSONResponse:
    """The matches that are worth looking at, doubtful ones first, and how far a review is.

    What was accepted or rejected is not in it any more; skipped pairs come last.
    """
    alignment(run)

    def find() -> dict[str, Any]:
        queue = run.model.review_queue(limit, offset, language)
        items = [_item(run, item, language) for item in queue.items]
        return {"items": items, "progress": vars(queue.progress), "total": queue.total}

    return reply(plain(await run.ask(find)))


def _item(run: ServedRun, item: Any, language: str) -> dict[str, Any]:
    def called(side: str, label: str) -> dict[str, str]:
        graph = run.model.growing.sides[side]
        return {"id": label, "name": shown(graph, [graph.entities.id(label)], language)[0]}

    return {
        "left": called("left", item.left),
        "right": called("right", item.right),
        "confidence": item.confidence,
        "score": item.score,
        "alternatives": [
            {**called("right", x.right), "confidence": x.confidence, "score": x.score}
            for x in item.alternatives
        ],
        "decision": item.decision,
    }


class NewDecision(BaseModel):
    """What is decided about a match."""

    left: str = Field(min_length=1, max_length=LIMITS.text, examples=["Berlin"])
    right: str = Field(min_length=1, max_length=LIMITS.text, examples=["Berlin (DE)"])
    verdict: Literal["accept", "reject", "skip"]
    by: str = Field("", max_length=200, description="Who decides, for the log.")
    note: str = Field("", max_length=LIMITS.text)


def _said(decision: Any) -> dict[str, Any]:
    (left, right), *_ = decision.pairs
    return {
        "number": decision.number,
        "at": decision.time,
        "left": left,
        "right": right,
        "verdict": decision.verdict,
        "by": decision.by,
        "note": decision.note,
    }


@router.post("/decisions", status_code=201, dependencies=[Depends(allowed)],
             responses=examples.DECIDED)  # fmt: skip
async def decide(run: Run, new: NewDecision) -> JSONResponse:
    """Accept, reject or skip a match; it is kept in the run when this answers.

    Of decisions that contradict each other the later one counts; the log has both.
    """
    alignment(run)
    given = new.left, new.right, new.verdict
    found = await run.change(lambda model: _said(model.decide(*given, by=new.by, note=new.note)))
    return reply({"decision": found}, 201)


@router.delete("/decisions/last", dependencies=[Depends(allowed)], responses=examples.UNDONE)
async def undo(run: Run, by: Annotated[str, Query(max_length=200)] = "") -> JSONResponse:
    """Take back the last decision that stands; the log keeps both."""
    alignment(run)
    return reply({"undone": await run.change(lambda model: _said(model.undo_decision(by)))})


@router.get("/decisions", responses=examples.DECISIONS)
async def decisions(run: Run) -> JSONResponse:
    """Every decision, the oldest first; `current` are those that count now."""
    alignment(run)
    found = await run.ask(lambda: run.model.decisions().to_pylist())
    return reply(plain({"decisions": found}))


@router.get("/decisions/export", responses=examples.EXPORT)
async def export(run: Run, format: Literal["links", "sssom"] = "links") -> Response:
    """The decisions that count now: `links` are the accepted pairs as `--links` reads them, `sssom`
    has the rejected ones, too.
    """
    alignment(run)

    def write() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / FILES[format]
            run.model.export_decisions(file, format)
            return file.read_bytes()

    content = await run.ask(write)
    name = f'attachment; filename="{FILES[format]}"'
    kind = "text/tab-separated-values; charset=utf-8"
    return Response(content, media_type=kind, headers={"Content-Disposition": name})
