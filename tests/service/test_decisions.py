"""The review over HTTP: a queue, decisions that are kept and count, and their export."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from decentrl import Aligner
from tests.service.conftest import AUTHORISED


def review(client: httpx.Client, **parameters: Any) -> Any:
    answer = client.get("/v1/review", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def decide(client: httpx.Client, item: Any, verdict: str) -> httpx.Response:
    body = {"left": item["left"]["id"], "right": item["right"]["id"], "verdict": verdict}
    return client.post("/v1/decisions", json={**body, "by": "Ada"}, headers=AUTHORISED)


def test_the_queue_is_that_of_the_aligner(client: httpx.Client, world_run: Path) -> None:
    found = review(client, limit=5)
    queue = Aligner.load(world_run, "cpu").review_queue(5)
    pairs = [(x["left"]["id"], x["right"]["id"]) for x in found["items"]]
    assert pairs == [(x.left, x.right) for x in queue.items]
    assert found["total"] == queue.total
    assert found["progress"] == vars(queue.progress)
    assert all(x["left"]["name"] and "alternatives" in x for x in found["items"])
    second = review(client, limit=2, offset=3)["items"]
    assert second == found["items"][3:5]


def test_decisions_are_kept_and_count(writer: httpx.Client, own_run: Path) -> None:
    first, second, third = review(writer, limit=3)["items"]
    for item, verdict in ((first, "accept"), (second, "reject"), (third, "skip")):
        answer = decide(writer, item, verdict)
        assert answer.status_code == 201, answer.text
        assert answer.json()["decision"]["verdict"] == verdict
    progress = review(writer)["progress"]
    counts = {name: progress[name] for name in ("accepted", "rejected", "skipped", "decided")}
    assert counts == {"accepted": 1, "rejected": 1, "skipped": 1, "decided": 3}
    match = writer.get("/v1/matches", params={"id": first["left"]["id"]}).json()
    assert match["known"]["id"] == first["right"]["id"]
    assert match["matches"][0]["confidence"] == 1
    other = writer.get("/v1/matches", params={"id": second["left"]["id"], "top": 20}).json()
    assert second["right"]["id"] not in [x["id"] for x in other["matches"]]
    log = writer.get("/v1/decisions").json()["decisions"]
    assert [x["verdict"] for x in log] == ["accept", "reject", "skip"]
    assert {x["by"] for x in log} == {"Ada"}
    links = writer.get("/v1/decisions/export", params={"format": "links"})
    assert links.text == f"{first['left']['id']}\t{first['right']['id']}\n"
    assert "attachment" in links.headers["content-disposition"]
    sssom = writer.get("/v1/decisions/export", params={"format": "sssom"}).text
    assert "Not" in sssom
    for verdict in ("skip", "reject", "accept"):
        undone = writer.delete("/v1/decisions/last", headers=AUTHORISED).json()["undone"]
        assert undone["verdict"] == verdict
    assert undone["left"] == first["left"]["id"]
    assert writer.get("/v1/matches", params={"id": undone["left"]}).json()["known"] is None
    with Aligner.load(own_run, "cpu") as aligner:
        assert len(aligner.decisions()) == 6  # both are logged


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"left": "Bermudes", "right": "Bermuda", "verdict": "perhaps"}, 422),
        ({"left": "Bermudes", "verdict": "accept"}, 422),
        ({"left": "no such", "right": "Bermuda", "verdict": "accept"}, 404),
    ],
)
def test_bad_decisions(writer: httpx.Client, body: Any, status: int) -> None:
    answer = writer.post("/v1/decisions", json=body, headers=AUTHORISED)
    assert answer.status_code == status
    assert answer.json()["error"]


def test_decisions_need_the_token(
    client: httpx.Client, writer: httpx.Client, people_run: Path
) -> None:
    body = {"left": "Bermudes", "right": "Bermuda", "verdict": "accept"}
    assert writer.post("/v1/decisions", json=body).status_code == 401
    assert writer.delete("/v1/decisions/last").status_code == 401
    assert client.post("/v1/decisions", json=body, headers=AUTHORISED).status_code == 403
    assert client.get(f"/v1/runs/{people_run.name}/review").status_code == 422
    assert writer.get("/v1/decisions/export").status_code == 422  # there is none
