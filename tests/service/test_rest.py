"""Questions over HTTP: the same answers as in Python, and clear failures."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from decentrl import Aligner, Predictor


@pytest.fixture(scope="module")
def aligner(world_run: Path) -> Aligner:
    return Aligner.load(world_run, "cpu")


@pytest.fixture(scope="module")
def predictor(people_run: Path) -> Predictor:
    return Predictor.load(people_run, "cpu")


def found(client: httpx.Client, path: str, **parameters: Any) -> Any:
    answer = client.get(path, params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def people(people_run: Path, path: str) -> str:
    return f"/v1/runs/{people_run.name}/{path}"


def test_health_and_readiness(client: httpx.Client, world_run: Path) -> None:
    assert found(client, "/health") == {"status": "alive"}
    ready = found(client, "/ready")
    assert ready["ready"]
    assert world_run.name in ready["runs"]


def test_what_is_served(client: httpx.Client, aligner: Aligner, people_run: Path) -> None:
    run = found(client, "/v1/run")
    sides = aligner.growing.sides
    assert run["job"] == "alignment"
    assert run["entities"] == {side: len(graph.entities) for side, graph in sides.items()}
    assert run["relations"]["left"] == list(sides["left"].trained.relations)
    assert not run["writable"]
    assert run["results"]
    runs = found(client, "/v1/runs")["runs"]
    assert [x["job"] for x in runs] == ["alignment", "prediction"]
    other = found(client, people(people_run, "run"))
    assert other["job"] == "prediction"
    assert "all" in other["entities"]
    assert client.get("/v1/runs/none/run").status_code == 404


def test_entities_are_found_without_case_and_accents(client: httpx.Client) -> None:
    def names(q: str, side: str = "left") -> list[str]:
        entities = found(client, "/v1/entities", q=q, side=side)["entities"]
        return [x["name"] for x in entities]

    assert names("BERMUDES")[0] == "Bermudes"
    assert any("Égypte" in x for x in names("egypte"))
    assert all("heure" in x for x in names("heure ber"))
    assert names("no such thing at all") == []
    assert len(names("")) == 20
    top = found(client, "/v1/entities", q="", side="left")["entities"]
    degrees = [x["degree"] for x in top]
    assert degrees == sorted(degrees, reverse=True)


def test_an_entity_with_its_triples(client: httpx.Client, aligner: Aligner) -> None:
    entity = found(client, "/v1/entity", id="Bermudes", side="left")
    graph = aligner.growing.sides["left"]
    triples = graph.arrivals.about(graph.entities.id("Bermudes"))
    assert entity["degree"] == len(entity["triples"]) == len(triples)
    assert {x["direction"] for x in entity["triples"]} <= {"in", "out"}
    assert all("Bermudes" in (x["head"], x["tail"]) for x in entity["triples"])
    assert entity["names"]


def near(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Its matches, equal to those of the same question among many, a product of another shape
    that rounds the last bits otherwise."""
    return [
        {key: pytest.approx(x, abs=1e-5) if isinstance(x, float) else x for key, x in match.items()}
        for match in answer["matches"]
    ]


@pytest.mark.parametrize("side", ["left", "right"])
def test_matches_are_those_of_the_aligner(
    client: httpx.Client, aligner: Aligner, side: Any
) -> None:
    labels = list(aligner.growing.sides[side].entities)[5:400:40]
    other = "right" if side == "left" else "left"
    for top in (3, 12):
        table = aligner.match(labels, top=top, side=side).to_pylist()
        batch = client.post("/v1/matches", json={"entities": labels, "side": side, "top": top})
        for label, many in zip(labels, batch.json()["results"], strict=True):
            rows = [row for row in table if row[side] == label]
            one = found(client, "/v1/matches", id=label, side=side, top=top)
            assert many == {**one, "matches": near(one)}
            assert [x["id"] for x in one["matches"]] == [row[other] for row in rows]
            scores = [x["score"] for x in one["matches"]]
            assert scores == pytest.approx([row["score"] for row in rows], abs=1e-5)
            sure = rows[0]["confidence"]
            assert one["matches"][0]["confidence"] == (sure and pytest.approx(sure, abs=1e-4))


def test_the_counterpart_of_a_link_is_known(client: httpx.Client, aligner: Aligner) -> None:
    left, right = aligner.task.train[0]
    label = aligner.growing.sides["left"].entities[int(left)]
    one = found(client, "/v1/matches", id=label)
    assert one["known"]["id"] == aligner.growing.sides["right"].entities[int(right)]
    assert all(x["chosen"] == (x["id"] == one["known"]["id"]) for x in one["matches"])


def test_an_unsure_match_is_not_chosen(client: httpx.Client, aligner: Aligner) -> None:
    labels = list(aligner.growing.sides["left"].entities)[:200]
    batch = client.post("/v1/matches", json={"entities": labels}).json()["results"]
    for one in batch:
        if one["known"] is None and one["matches"]:
            first = one["matches"][0]
            assert first["chosen"] == (first["confidence"] >= one["none_below"])
            assert not any(x["chosen"] for x in one["matches"][1:])


def test_a_batch_says_what_is_unknown(client: httpx.Client) -> None:
    batch = client.post("/v1/matches", json={"entities": ["Bermudes", "nothing at all"]})
    first, second = batch.json()["results"]
    assert first["matches"]
    assert "unknown" in second["error"]


def test_unknown_entities_have_near_names(client: httpx.Client) -> None:
    for path in ("/v1/matches", "/v1/entity", "/v1/neighbours", "/v1/explain"):
        answer = client.get(path, params={"id": "Bermude", "side": "left"})
        assert answer.status_code == 404
        assert "Bermudes" in answer.json()["suggestions"]
    answer = client.get("/v1/entity", params={"id": "Bermuda", "side": "left"})
    assert "side=right" in answer.json()["remedy"]


def test_neighbours_and_explanations(client: httpx.Client, aligner: Aligner) -> None:
    near = found(client, "/v1/neighbours", id="Bermudes", top=3)["neighbours"]
    expected = aligner.neighbours("Bermudes", top=3).to_pylist()
    assert [x["id"] for x in near] == [x["entity"] for x in expected]
    reasons = found(client, "/v1/explain", id="Bermudes")["reasons"]
    assert sum(x["weight"] for x in reasons) == pytest.approx(1, abs=0.01)
    match = found(client, "/v1/explain/match", left="Bermudes", right="Bermuda")
    assert match["left"]["label"] == "Bermudes"
    assert match["words"]
    assert match["cosine"] == pytest.approx(aligner.explain("Bermudes", "Bermuda").cosine)


def test_predictions(client: httpx.Client, predictor: Predictor, people_run: Path) -> None:
    asked = {"head": "person 1", "relation": "lives in"}
    path = people(people_run, "predictions")
    answers = found(client, path, **asked, top=4)["answers"]
    expected = predictor.predict(**asked, top=4).to_pylist()
    assert [x["tail"] for x in answers] == [x["tail"] for x in expected]
    both = client.get(path, params={**asked, "tail": "city 1"})
    assert both.status_code == 422
    unknown = client.get(path, params={"head": "person 1", "relation": "livs in"})
    assert unknown.status_code == 404
    assert "lives in" in unknown.json()["remedy"]
    assert client.get("/v1/predictions", params=asked).status_code == 422
    assert client.get(people(people_run, "matches"), params={"id": "x"}).status_code == 422


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/v1/matches", {}),
        ("/v1/matches", {"id": ""}),
        ("/v1/matches", {"id": "Bermudes", "top": 0}),
        ("/v1/matches", {"id": "Bermudes", "top": 10**9}),
        ("/v1/matches", {"id": "Bermudes", "top": "many"}),
        ("/v1/matches", {"id": "Bermudes", "side": "middle"}),
        ("/v1/matches", {"id": "x" * 3000}),
        ("/v1/entities", {"limit": 10**6}),
        ("/v1/explain", {"id": "Bermudes", "moved": -1}),
    ],
)
def test_bad_questions(client: httpx.Client, path: str, parameters: dict[str, Any]) -> None:
    answer = client.get(path, params=parameters)
    assert answer.status_code == 422
    assert answer.json()["error"]


def test_openapi_has_examples_of_every_path(client: httpx.Client) -> None:
    about = found(client, "/openapi.json")
    v1 = {path: x for path, x in about["paths"].items() if path.startswith("/v1/")}
    assert len(v1) > 10
    for path, methods in v1.items():
        for method in methods.values():
            if path != "/v1/runs":
                answers = [x for x in method["responses"].values() if "example" in str(x)]
                assert answers, path


def test_metrics_count_requests(client: httpx.Client, world_run: Path) -> None:
    found(client, "/v1/run")
    text = client.get("/metrics").text
    line = r'decentrl_requests_total\{route="/v1/run",method="GET",status="200"\} (\d+)'
    before = int(re.findall(line, text)[0])
    found(client, "/v1/run")
    assert int(re.findall(line, client.get("/metrics").text)[0]) == before + 1
    assert f'decentrl_entities{{run="{world_run.name}"}}' in text
    for row in text.splitlines():
        assert row.startswith("# ") or re.fullmatch(r"[a-z_]+(\{.*\})? [0-9.e+-]+", row), row


def test_the_page_runs_nothing_of_others(client: httpx.Client) -> None:
    answer = client.get("/")
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "http://" not in answer.text.replace("http://www.w3.org", "")
