"""The container files, as far as they can be tried without an engine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from tests.conftest import Outcome

ROOT = Path(__file__).parents[1]
DOCKERFILE = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text("utf-8"))
INSTRUCTIONS = [line.split(maxsplit=1) for line in DOCKERFILE.splitlines() if line[:1].isupper()]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))


def of(kind: str) -> list[str]:
    """The arguments of the instructions of a kind."""
    return [rest for name, rest in INSTRUCTIONS if name == kind]


def test_every_image_is_pinned() -> None:
    assert of("FROM")
    for image in of("FROM"):
        assert re.match(r"python:3\.11\.\d+-slim-\w+( AS \w+)?$", image)


def test_nothing_runs_as_root() -> None:
    order = [name for name, _ in INSTRUCTIONS]
    assert int(of("USER")[-1]) >= 1000
    after = order[order.index("USER") :]
    assert "ENTRYPOINT" in after
    assert "CMD" in after
    for service in COMPOSE["services"].values():
        assert "user" not in service
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]


def test_what_is_copied_is_there_and_not_ignored() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}
    copied = [word for line in of("COPY") if "--from" not in line for word in line.split()[:-1]]
    assert set(copied) == kept
    for name in copied:
        assert (ROOT / name).exists()


def test_packages_are_pinned_and_extras_exist() -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    install = next(line for line in of("RUN") if "pip install" in line)
    assert "-c constraints.txt" in install
    wanted = re.search(r"'\.\[([\w,]+)\]'", install)
    assert wanted
    assert set(wanted[1].split(",")) <= set(extras["optional-dependencies"])


def test_commands_and_options_exist(decentrl: Callable[..., Outcome]) -> None:
    services = COMPOSE["services"].values()
    commands = [json.loads(of("CMD")[-1]), *(x["command"] for x in services if "command" in x)]
    assert len(commands) == 2
    for command, *arguments in commands:
        known = decentrl(command, "--help").out
        for option in (x for x in arguments if x.startswith("--")):
            assert option in known
        assert arguments[0] in of("RUN")[-1]  # the run that the image has made
    align = of("RUN")[-1].split()
    assert align[:2] == ["decentrl", "align"]
    assert all(x in decentrl("align", "--help").out for x in align if x.startswith("--"))


@pytest.mark.parametrize("status", [200, 503])
def test_the_health_check_says_whether_the_service_answers(status: int) -> None:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    python, *rest = json.loads(of("HEALTHCHECK")[-1].partition("CMD ")[2])
    assert python == "python"
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        rest[-1] = rest[-1].replace(":8080", f":{server.server_port}")
        done = subprocess.run([sys.executable, *rest], capture_output=True, check=False)
        server.shutdown()
    assert (done.returncode == 0) is (status == 200)


def test_ports_of_the_host_are_local() -> None:
    exposed = of("EXPOSE")[-1]
    for service in COMPOSE["services"].values():
        for port in service["ports"]:
            assert re.fullmatch(rf"127\.0\.0\.1:\d+:{exposed}", port)
