"""The application: all paths of the service over some runs."""

from __future__ import annotations

import sys
from typing import Any, TextIO

from fastapi import APIRouter, FastAPI
from starlette.responses import JSONResponse, PlainTextResponse

from decentrl._version import __version__
from decentrl.service import changes, decisions, failures, rest
from decentrl.service.guard import App, Guard
from decentrl.service.matches import KeptMatches
from decentrl.service.options import ServiceOptions
from decentrl.service.page_files import page_routes
from decentrl.service.reconcile import routes
from decentrl.service.served_run import ServedRun
from decentrl.service.telemetry import Telemetry

ABOUT = """Entities, matches and predictions of runs of decentRL.

All paths are about the first run that is served; the same paths under `/v1/runs/{run}/…` are
about another one, `/v1/runs` lists all. What changes a run needs the header
`Authorization: Bearer TOKEN`. Failures have the body `{error, remedy?, suggestions?}`."""


def make_app(
    runs: dict[str, ServedRun], options: ServiceOptions, log: TextIO | None = sys.stderr
) -> App:
    """The whole service as an ASGI application."""
    app = FastAPI(
        title="decentRL",
        version=__version__,
        description=ABOUT,
        docs_url=None,  # they would load scripts of other sites
        redoc_url=None,
        root_path=options.root_path,
    )
    app.state.runs, app.state.options = runs, options
    app.state.matches = {name: KeptMatches(run) for name, run in runs.items() if run.two_graphs}
    telemetry = Telemetry(log)
    failures.install(app)
    app.include_router(_service_routes(runs, app, telemetry))
    for router in (rest.router, changes.router, decisions.router):
        app.include_router(router, prefix="/v1")
        app.include_router(router, prefix="/v1/runs/{run}", include_in_schema=False)
    app.include_router(routes.router, prefix="/reconcile")
    app.include_router(routes.router, prefix="/v1/runs/{run}/reconcile", include_in_schema=False)
    app.router.routes.extend(page_routes())
    for run in runs.values():
        run.wake()
    return telemetry.around(Guard(app, options))


def _service_routes(runs: dict[str, ServedRun], app: FastAPI, telemetry: Telemetry) -> APIRouter:
    """What is about the service itself."""
    router = APIRouter()

    @router.get("/health")
    async def health() -> JSONResponse:
        """Whether the process is alive."""
        return JSONResponse({"status": "alive"})

    @router.get("/ready")
    async def ready() -> JSONResponse:
        """Whether questions are answered: 200, or 503 with what is wrong."""
        states: dict[str, Any] = {}
        for name, run in runs.items():
            kept = app.state.matches.get(name)
            states[name] = {"damage": run.damage, "waiting": run.waiting}
            if kept is not None:
                states[name]["matched"] = round(kept.share, 3)
        well = not any(run.damage for run in runs.values())
        return JSONResponse({"ready": well, "runs": states}, 200 if well else 503)

    @router.get("/metrics")
    async def metrics() -> PlainTextResponse:
        """Counts and times of requests, and sizes of runs, in Prometheus' text format."""
        gauges: dict[str, dict[str, float]] = {
            "entities": {}, "additions": {}, "waiting": {}, "state": {}, "matched": {},
        }  # fmt: skip
        for name, run in runs.items():
            growing, kept = run.model.growing, app.state.matches.get(name)
            gauges["entities"][name] = sum(len(x.entities) for x in growing.sides.values())
            gauges["additions"][name] = len(growing.additions) + len(growing.past)
            gauges["waiting"][name], gauges["state"][name] = run.waiting, run.version
            if kept is not None:
                gauges["matched"][name] = kept.share
        text = telemetry.metrics(gauges)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    @router.get("/v1/runs")
    async def get_runs() -> JSONResponse:
        """The runs that are served; the first is meant where a path names none."""
        found = [{"name": run.name, "job": run.job} for run in runs.values()]
        return JSONResponse({"runs": found})

    return router
