"""What is counted and written down of requests: metrics for Prometheus, and a line of JSON each."""

from __future__ import annotations

import json
import re
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from typing import Any, TextIO

from decentrl.service.guard import App, Message, Receive, Send

_RUN = re.compile(r"^.*/v1/runs/[^/]+/")
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
SHOWN = 300
"""Characters of a path that are written."""


class Telemetry:
    """Counts requests by their route and status, and how long they took."""

    def __init__(self, log: TextIO | None = sys.stderr) -> None:
        self._log = log
        self._counts: dict[tuple[str, str, int], int] = defaultdict(int)
        self._times: dict[str, list[float]] = {}

    def around(self, app: App) -> App:
        """The application, with every request counted and written down."""

        async def counted(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            started, status = time.perf_counter(), 500

            async def noted(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            try:
                await app(scope, receive, noted)
            finally:
                self._note(scope, status, time.perf_counter() - started)

        return counted

    def _note(self, scope: Mapping[str, Any], status: int, seconds: float) -> None:
        route = _RUN.sub("/v1/runs/{run}/", scope["path"]) if "route" in scope else "other"
        method = scope["method"] if scope["method"].isalpha() and len(scope["method"]) < 8 else "-"
        self._counts[route, method, status] += 1
        times = self._times.setdefault(route, [0.0] * (len(BUCKETS) + 2))
        for place, limit in enumerate(BUCKETS):
            times[place] += seconds <= limit
        times[-2] += seconds
        times[-1] += 1
        if self._log is not None:
            line = {
                "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "method": method,
                "path": str(scope["path"])[:SHOWN],
                "status": status,
                "ms": round(1000 * seconds, 2),
                "client": (scope.get("client") or ["", 0])[0],
            }
            self._log.write(json.dumps(line) + "\n")
            self._log.flush()

    def metrics(self, gauges: Mapping[str, Mapping[str, float]]) -> str:
        """Prometheus' text format; ``gauges`` has values by name and run."""
        lines = ["# TYPE decentrl_requests_total counter"]
        for (route, method, status), count in sorted(self._counts.items()):
            labels = f'route="{_escaped(route)}",method="{method}",status="{status}"'
            lines.append(f"decentrl_requests_total{{{labels}}} {count}")
        lines.append("# TYPE decentrl_request_seconds histogram")
        for route, times in sorted(self._times.items()):
            label, total = f'route="{_escaped(route)}"', int(times[-1])
            for limit, below in zip(BUCKETS, times, strict=False):
                lines.append(
                    f'decentrl_request_seconds_bucket{{{label},le="{limit}"}} {int(below)}'
                )
            lines.append(f'decentrl_request_seconds_bucket{{{label},le="+Inf"}} {total}')
            lines.append(f"decentrl_request_seconds_sum{{{label}}} {times[-2]:.6f}")
            lines.append(f"decentrl_request_seconds_count{{{label}}} {total}")
        for name, values in gauges.items():
            lines.append(f"# TYPE decentrl_{name} gauge")
            for run, value in values.items():
                lines.append(f'decentrl_{name}{{run="{_escaped(run)}"}} {value:g}')
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
