"""Additions over HTTP: with a token only, in all answers at once, and never lost."""

from __future__ import annotations

import shutil
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.serving import Service, served
from decentrl import Aligner
from tests.service.conftest import AUTHORISED, client_of

NEW = {
    "triples": [["Atlantide", "langue officielle", "anglais"], ["Atlantide", "monnaie", "euro"]],
    "side": "left",
    "names": [["Atlantide", "L'Atlantide", "fr"]],
}


def add(client: httpx.Client, body: Any = NEW, **headers: str) -> httpx.Response:
    return client.post("/v1/additions", json=body, headers=AUTHORISED | headers)


def additions(client: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/v1/additions").json()["additions"]
    return found


def is_added(client: httpx.Client, label: str) -> bool:
    answer = client.get("/v1/entity", params={"id": label})
    assert answer.status_code == 200, (answer.text, client.get("/ready").text)
    return bool(answer.json()["added"])


def test_an_addition_is_in_all_answers_and_can_be_taken_back(writer: httpx.Client) -> None:
    before = writer.get("/v1/run").json()["entities"]["left"]
    answer = add(writer)
    assert answer.status_code == 201, answer.text
    assert answer.json()["addition"]["entities"] == 1
    entity = writer.get("/v1/entity", params={"id": "Atlantide"}).json()
    assert entity["added"]
    assert entity["name"] == "L'Atlantide"
    assert len(entity["triples"]) == 2
    matches = writer.get("/v1/matches", params={"id": "Atlantide"}).json()
    assert matches["matches"]
    assert matches["known"] is None
    names = [x["id"] for x in writer.get("/v1/entities?q=atlantide").json()["entities"]]
    assert names == ["Atlantide"]
    assert writer.get("/v1/run").json()["entities"]["left"] == before + 1
    assert [x["source"] for x in additions(writer)] == ["http"]
    undone = writer.delete("/v1/additions/last", headers=AUTHORISED)
    assert undone.json()["addition"]["number"] == answer.json()["addition"]["number"]
    assert writer.get("/v1/entity", params={"id": "Atlantide"}).status_code == 404
    assert writer.get("/v1/matches", params={"id": "Atlantide"}).status_code == 404
    assert additions(writer) == []
    assert writer.delete("/v1/additions/last", headers=AUTHORISED).status_code == 422


def test_kept_matches_are_those_of_the_grown_run(writer: httpx.Client, own_run: Path) -> None:
    labels = ["Bermudes", "anglais", "Bahamas", "euro"]

    def matches() -> Any:
        return writer.post("/v1/matches", json={"entities": labels, "top": 3}).json()["results"]

    matches()
    add(writer)
    with Aligner.load(own_run, "cpu") as aligner:
        table = aligner.match(labels, top=3).to_pylist()
    ids = [match["id"] for one in matches() for match in one["matches"]]
    assert ids == [row["right"] for row in table]
    writer.delete("/v1/additions/last", headers=AUTHORISED)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": AUTHORISED["Authorization"] + "x"}, 401),
        ({"Authorization": AUTHORISED["Authorization"][:-1]}, 401),
        ({"Authorization": "Basic " + AUTHORISED["Authorization"][7:]}, 401),
    ],
)
def test_without_the_token_nothing_changes(
    writer: httpx.Client, headers: dict[str, str], status: int
) -> None:
    before = writer.get("/v1/run").json()["state"]
    assert writer.post("/v1/additions", json=NEW, headers=headers).status_code == status
    assert writer.delete("/v1/additions/last", headers=headers).status_code == status
    assert writer.get("/v1/run").json()["state"] == before


def test_a_service_without_write_changes_nothing(client: httpx.Client, world_run: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in world_run.rglob("*") if p.is_file()}
    for method in ("POST", "PUT", "PATCH", "DELETE", "TRACE", "CONNECT", "MKCOL", "GET", "HEAD"):
        for path in ("/v1/additions", "/v1/additions/last", "/v1/run", "/v1/entity", "/"):
            answer = client.request(method, path, json=NEW, headers=AUTHORISED)
            assert answer.status_code < 500
            assert method in ("GET", "HEAD") or answer.status_code in (403, 404, 405, 422)
    assert client.post("/v1/additions", json=NEW, headers=AUTHORISED).status_code == 403
    assert {p: p.stat().st_mtime_ns for p in world_run.rglob("*") if p.is_file()} == before


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"triples": []},
        {"triples": [["a", "b"]], "side": "left"},
        {"triples": [["a", "b", ""]], "side": "left"},
        {"triples": [["a", "b", 1]], "side": "left"},
        {"triples": [["a", "monnaie", "b"]], "side": "middle"},
        {"triples": [["a", "monnaie", "b"]] * 10_001, "side": "left"},
        {"triples": [["a", "monnaie", "x" * 5000]], "side": "left"},
        {"triples": "all", "side": "left"},
        [],
    ],
)
def test_bad_additions(writer: httpx.Client, body: Any) -> None:
    answer = add(writer, body)
    assert answer.status_code == 422
    assert answer.json()["error"]
    assert additions(writer) == []


def test_unknown_relations_are_counted(writer: httpx.Client) -> None:
    answer = add(writer, {"triples": [["a", "no such relation", "b"]], "side": "left"})
    assert answer.json()["addition"]["facts"]["ignored"] == 1
    writer.delete("/v1/additions/last", headers=AUTHORISED)


def test_what_other_processes_do_is_picked_up(world_run: Path, tmp_path: Path) -> None:
    run = tmp_path / "world"
    shutil.copytree(world_run, run)
    with served(run) as service, client_of(service) as client:
        assert client.get("/v1/entity", params={"id": "Atlantide"}).status_code == 404
        with Aligner.load(run, "cpu", durable=True) as aligner:
            aligner.add(NEW["triples"], side="left")
            assert is_added(client, "Atlantide")
            aligner.add([("Lémurie", "monnaie", "euro")], side="left")
            assert is_added(client, "Lémurie")
            aligner.undo()
            assert client.get("/v1/entity", params={"id": "Lémurie"}).status_code == 404
            matches = client.get("/v1/matches", params={"id": "Atlantide"}).json()["matches"]
            aligner.compact()
        state = client.get("/v1/run").json()["state"]
        for _ in range(200):  # it is loaded beside, while the old state answers
            again = client.get("/v1/matches", params={"id": "Atlantide"}).json()["matches"]
            assert [x["id"] for x in again] == [x["id"] for x in matches]
            if client.get("/v1/run").json()["state"] > state:
                break
        assert client.get("/v1/run").json()["state"] > state
        assert client.get("/v1/entity", params={"id": "Atlantide"}).status_code == 200


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_no_acknowledged_addition_is_lost(
    world_run: Path, tmp_path: Path, token_file: Path, how: signal.Signals
) -> None:
    run = tmp_path / "world"
    shutil.copytree(world_run, run)
    acknowledged: list[str] = []
    with served(run, options=("--write", "--token-file", str(token_file))) as service:
        enough, client = threading.Event(), client_of(service)

        def write() -> None:
            for i in range(1000):
                name = f"new {i}"
                body = {"triples": [[name, "monnaie", "euro"]], "side": "left", "source": name}
                try:
                    if add(client, body).status_code != 201:
                        return
                except httpx.HTTPError:
                    return
                acknowledged.append(name)
                if i >= 4:
                    enough.set()

        thread = threading.Thread(target=write)
        thread.start()
        assert enough.wait(60)
        code = service.stop(how)
        thread.join(30)
        client.close()
    assert code == (-9 if how == signal.SIGKILL else 0)
    with Aligner.load(run, "cpu") as aligner:
        there = {addition.source for addition in aligner.log()}
    assert set(acknowledged) <= there


def test_asking_goes_on_while_an_addition_is_made(writer: httpx.Client, writing: Service) -> None:
    many = [[f"new {i}", "monnaie", "euro"] for i in range(4000)]
    done = threading.Event()

    def write() -> None:
        with client_of(writing) as other:
            assert add(other, {"triples": many, "side": "left"}).status_code == 201
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    answers = 0
    while not done.is_set():
        assert writer.get("/v1/entity", params={"id": "Bermudes"}).status_code == 200
        answers += 1
    thread.join()
    assert answers > 5
    writer.delete("/v1/additions/last", headers=AUTHORISED)


def test_one_writer_at_a_time(writing: Service, own_run: Path, token_file: Path) -> None:
    options = ("--write", "--token-file", str(token_file))
    with pytest.raises(RuntimeError), served(own_run, options=options):
        pass
