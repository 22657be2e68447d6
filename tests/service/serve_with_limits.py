"""``decentrl serve`` with other limits and a token, given as JSON: ``LIMITS RUN... --port 0``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from decentrl.service.options import Limits, ServiceOptions
from decentrl.service.server import serve

limits, *runs, _, port = sys.argv[1:]
given = json.loads(limits)
token = given.pop("token", None)
serve(
    [Path(run) for run in runs],
    ServiceOptions(port=int(port), token=token, limits=Limits(**given)),
    lambda address, names: print(f"serving {', '.join(names)} at {address} ", flush=True),
)
