"""Services for the tests: real processes, real HTTP."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from benchmarks.serving import Service, served
from tests.conftest import NO_BROWSER, QUICK
from tests.service import hostile

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.service.browsing import Watched

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


# For the explorer in a browser


def finished(folder: Path, *arguments: str) -> Path:
    """A run that a command has left."""
    from typer.testing import CliRunner

    from decentrl.cli.commands import app

    result = CliRunner().invoke(app, [*arguments, "-o", str(folder)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture(scope="session")
def towns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over two graphs with hostile labels; nobody writes to it."""
    folder = tmp_path_factory.mktemp("hostile")
    return finished(folder / "towns", "align", *hostile.write(folder), *QUICK)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A browser; without one the test is skipped."""
    pytest.importorskip("playwright", reason=NO_BROWSER)
    if shutil.which("chromium") is None:
        pytest.skip(NO_BROWSER)
    from playwright.sync_api import sync_playwright

    from tests.service.browsing import chromium_of

    with sync_playwright() as playwright:
        browser = chromium_of(playwright)
        yield browser
        browser.close()


@pytest.fixture
def seen(chromium: Browser, explored: Service) -> Iterator[Watched]:
    """Pages that are watched; whatever goes wrong on them fails the test in the end.

    A file of tests says with a fixture ``explored`` what service they are of.
    """
    from tests.service.browsing import Watched

    watched = Watched(chromium, explored)
    yield watched
    watched.close()
