"""Services for the tests: real processes, real HTTP."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchmarks.serving import Service, served

TOKEN = "the-token-of-the-tests"
AUTHORISED = {"Authorization": f"Bearer {TOKEN}"}


def client_of(service: Service) -> httpx.Client:
    return httpx.Client(base_url=service.address, timeout=30, trust_env=False)


@pytest.fixture(scope="session")
def token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(f"{TOKEN}\n")
    return file


@pytest.fixture(scope="session")
def reading(world_run: Path, people_run: Path) -> Iterator[Service]:
    """A service that nothing can be changed in: of the world, and of people."""
    with served(world_run, people_run) as service:
        yield service


@pytest.fixture(scope="session")
def client(reading: Service) -> Iterator[httpx.Client]:
    with client_of(reading) as found:
        yield found


@pytest.fixture(scope="module")
def own_run(world_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the world that may be changed."""
    folder = tmp_path_factory.mktemp("own") / "world"
    shutil.copytree(world_run, folder)
    return folder


@pytest.fixture(scope="module")
def writing(own_run: Path, token_file: Path) -> Iterator[Service]:
    """A service that takes in additions."""
    with served(own_run, options=("--write", "--token-file", str(token_file))) as service:
        yield service


@pytest.fixture(scope="module")
def writer(writing: Service) -> Iterator[httpx.Client]:
    with client_of(writing) as found:
        yield found
