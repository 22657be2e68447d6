"""REST that changes a run: additions, and taking back the last one."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.responses import JSONResponse

from decentrl.errors import DecentRLWarning
from decentrl.service import examples
from decentrl.service.parameters import LIMITS, Run, allowed, reply
from decentrl.service.rest import plain

router = APIRouter()
Text = Annotated[str, Field(min_length=1, max_length=LIMITS.text)]


class NewTriples(BaseModel):
    """Triples to take in."""

    triples: list[tuple[Text, Text, Text]] = Field(
        min_length=1,
        max_length=LIMITS.triples,
        description="Head, relation and tail.",
        examples=[[["Atlantis", "borders", "Spain"]]],
    )
    side: str = Field("", max_length=10, description="`left` or `right`, of a run of two graphs.")
    names: list[tuple[Text, Text] | tuple[Text, Text, Annotated[str, Field(max_length=35)]]] = (
        Field(
            [],
            max_length=LIMITS.triples,
            description="Entity, name, and perhaps its language.",
            examples=[[["Atlantis", "Atlantís", "pt"]]],
        )
    )
    source: str = Field("http", max_length=200, description="Where they come from, for the log.")


@router.post("/additions", status_code=201, dependencies=[Depends(allowed)],
             responses=examples.ADDED)  # fmt: skip
async def add(run: Run, new: NewTriples) -> JSONResponse:
    """Take in new triples, with new entities, without training.

    They are on disk when this answers, and are in all answers from then on. Triples whose relation
    training has not seen are left out and counted (`facts.ignored`).
    """
    where = {"side": run.side(new.side)} if run.two_graphs else {}
    languages = [(*row, "")[:3] for row in new.names]

    def work(model: Any) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DecentRLWarning)
            found = model.add(new.triples, **where, names=languages or None, source=new.source)
        return asdict(found)

    return reply(plain({"addition": await run.change(work)}), 201)


@router.delete("/additions/last", dependencies=[Depends(allowed)], responses=examples.ADDED)
async def undo(run: Run) -> JSONResponse:
    """Take back the last addition, unless it is part of the bundle."""
    return reply(plain({"addition": await run.change(lambda model: asdict(model.undo()))}))


@router.get("/additions", responses=examples.LOG)
async def log(run: Run) -> JSONResponse:
    """What was added when, the oldest first."""
    found = await run.ask(lambda: [asdict(addition) for addition in run.model.log()])
    return reply(plain({"additions": found}))
