"""The reconciliation API: what its specification says, and entities that are in no graph."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from jsonschema.validators import validator_for
from referencing import Registry, Resource

from decentrl import Aligner

SPECIFICATION = Path(os.environ.get("DECENTRL_DATA", "")) / "reconciliation-api" / "0.2"


def check(name: str, value: Any) -> None:
    """That a value is what a schema of the specification says."""
    resources = []
    for file in (SPECIFICATION / "schemas").glob("*.json"):
        schema = json.loads(file.read_text("utf-8"))
        resource = Resource.from_contents(schema, default_specification=_DRAFT)
        resources += [(file.name, resource), (schema.get("$id", file.name), resource)]
        base = schema.get("$id", "").rpartition("/")[0]
        resources.append((f"{base}/{file.name}", resource))
    schema = json.loads((SPECIFICATION / "schemas" / f"{name}.json").read_text("utf-8"))
    schema.get("properties", {}).pop("authentication", None)  # it is defined elsewhere
    registry: Any = Registry().with_resources(resources)
    validator_for(schema, default=_validator())(schema, registry=registry).validate(value)


def _validator() -> Any:
    from jsonschema import Draft7Validator

    return Draft7Validator


def _draft() -> Any:
    from referencing.jsonschema import DRAFT7

    return DRAFT7


_DRAFT = _draft()


def ask(client: httpx.Client, queries: dict[str, Any], path: str = "/reconcile") -> Any:
    answer = client.post(path, data={"queries": json.dumps(queries)})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.data
def test_answers_are_what_the_schemas_say(client: httpx.Client, people_run: Path) -> None:
    query = {
        "q0": {"query": "Bermuda", "limit": 3, "type": "right"},
        "q1": {"query": "", "properties": [{"pid": "monnaie", "v": {"id": "euro"}}]},
    }
    extension = {"ids": ["Bermuda", "nothing"], "properties": [{"id": "speaks"}]}
    for path in ("/reconcile", f"/v1/runs/{people_run.name}/reconcile"):
        check("manifest", client.get(path).json())
        check("reconciliation-result-batch", ask(client, query, path))
        for kind in ("entities", "types", "properties"):
            name = {"entities": "entity", "types": "type", "properties": "property"}[kind]
            found = client.get(f"{path}/suggest/{name}", params={"prefix": ""}).json()
            assert found["result"]
            check(f"suggest-{kind}-response", found)
        proposal = client.get(f"{path}/properties", params={"type": "right", "limit": 5}).json()
        check("data-extension-property-proposal", proposal)
        extended = client.post(path, data={"extend": json.dumps(extension)}).json()
        check("data-extension-response", extended)


@pytest.mark.data
@pytest.mark.parametrize("valid", [True, False])
def test_the_queries_of_the_specification(client: httpx.Client, valid: bool) -> None:
    folder = SPECIFICATION / "examples" / "reconciliation-query-batch"
    files = sorted((folder / ("valid" if valid else "invalid")).glob("*.json"))
    assert files
    for file in files:
        answer = client.post("/reconcile", data={"queries": file.read_text("utf-8")})
        assert answer.status_code == (200 if valid else 422), (file.name, answer.text)
        if valid:
            assert set(answer.json()) == set(json.loads(file.read_text("utf-8")))
            check("reconciliation-result-batch", answer.json())


@pytest.mark.data
def test_the_extensions_of_the_specification(client: httpx.Client) -> None:
    folder = SPECIFICATION / "examples" / "data-extension-query" / "valid"
    for file in sorted(folder.glob("*.json")):
        asked = json.loads(file.read_text("utf-8"))
        answer = client.post("/reconcile", data={"extend": json.dumps(asked)})
        check("data-extension-response", answer.json())
        assert set(answer.json()["rows"]) == set(asked["ids"])


def test_an_exact_name_is_a_match(client: httpx.Client) -> None:
    found = ask(client, {"q": {"query": "Bermuda"}})["q"]["result"]
    assert found[0]["id"] == "Bermuda"
    assert found[0]["match"]
    called = ask(client, {"q": {"query": "bermuda"}})["q"]["result"]
    assert {x["id"] for x in called[:2]} == {"Bermuda", "Atlantic/Bermuda"}  # both are called so
    assert not any(x["match"] for x in called)
    # The name of a left entity means what a link says it is.
    found = ask(client, {"q": {"query": "Bermudes"}})["q"]["result"]
    assert found[0]["id"] == "Bermuda"
    left = ask(client, {"q": {"query": "Bermudes", "type": "left"}})["q"]["result"]
    assert left[0]["id"] == "Bermudes"
    assert left[0]["type"][0]["id"] == "left"
    none = {"query": "Bermuda", "type": "human", "type_strict": "all"}
    assert ask(client, {"q": none})["q"]["result"] == []


def test_properties_are_triples_of_an_entity_in_no_graph(
    client: httpx.Client, world_run: Path
) -> None:
    """The same candidates and confidence as if it had been added; and nothing was added."""
    aligner = Aligner.load(world_run, "cpu")
    graph = aligner.growing.sides["left"]
    taken = set(aligner.known_links()[:, 0].tolist())
    before = client.get("/v1/run").json()
    for label in ("Bermudes", "Bahamas", "Égypte"):
        id = graph.entities.id(label)
        rows = graph.arrivals.about(id).tolist()
        triples, properties = [], []
        for h, r, t in rows:
            relation, other = graph.trained.relations[r], graph.entities[t if h == id else h]
            pid = relation if h == id else f"^{relation}"
            properties.append({"pid": pid, "v": {"id": other, "name": "whatever"}})
            triples.append(("?new", relation, other) if h == id else (other, relation, "?new"))
        name = f"{label} la Neuve"
        query = {"query": name, "properties": properties, "limit": 4}
        found = ask(client, {"q": query})["q"]["result"]
        grown = Aligner.load(world_run, "cpu")
        grown.add(triples, side="left", names=[("?new", name)])
        expected = grown.match("?new", top=4).to_pylist()
        assert [x["id"] for x in found] == [row["right"] for row in expected]
        assert found[0]["score"] == pytest.approx(100 * expected[0]["confidence"], abs=0.01)
        features = {x["id"]: x["value"] for x in found[0]["features"]}
        assert features["confidence"] == pytest.approx(expected[0]["confidence"], abs=1e-5)
        assert {"cosine", "encoder", "score"} <= set(features)
        scores = [x["score"] for x in found]
        assert scores == sorted(scores, reverse=True)
        # Without a name it is compared with others by all but names, and by its neighbours.
        query["query"] = ""
        nameless = ask(client, {"q": query})["q"]["result"]
        features = [{y["id"]: y["value"] for y in x["features"]} for x in nameless]
        assert len(features) == 4
        for one, found_one in zip(features[1:], nameless[1:], strict=True):
            likeness = max(0.0, (one["cosine"] + one["neighbours"]) / 2)
            less = likeness - found_one["score"] / 50  # what surely matches another is less like it
            assert less == pytest.approx(0, abs=1e-5) or less == pytest.approx(0.25, abs=1e-5)
        scores = [x["score"] for x in nameless[1:]]
        assert sorted(scores, reverse=True) == scores
    assert client.get("/v1/run").json() == before
    assert taken


def test_neighbours_tell_what_has_no_name(client: httpx.Client, world_run: Path) -> None:
    """A newcomer with the neighbours of a test entity is found by what its neighbours match.

    The entity itself is there, too, and where it surely matches it takes its counterpart away.
    """
    aligner = Aligner.load(world_run, "cpu")
    left, right = aligner.growing.sides.values()
    settled = set(aligner.learned.settled.pairs[:, 1].tolist())
    queries, expected = {}, {}
    for own, other in aligner.task.test[:100].tolist():
        properties = [
            {
                "pid": left.trained.relations[r] if h == own else f"^{left.trained.relations[r]}",
                "v": {"id": left.entities[t if h == own else h]},
            }
            for h, r, t in left.arrivals.about(own).tolist()
            if other not in settled
        ]
        if len(properties) > 1 and len(queries) < 40:
            queries[str(own)] = {"query": "", "properties": properties}
            expected[str(own)] = right.entities[other]
    found = ask(client, queries)
    ranks = [
        next((i for i, x in enumerate(found[key]["result"]) if x["id"] == label), 5)
        for key, label in expected.items()
    ]
    assert len(ranks) >= 10
    assert np.mean([rank < 5 for rank in ranks]) >= 0.5, str(ranks)


def test_properties_of_the_target_describe_it_there(client: httpx.Client) -> None:
    properties = [{"pid": "speaks mostly", "v": "English"}, {"pid": "uses currency", "v": "euro"}]
    found = ask(client, {"q": {"query": "", "properties": properties}})["q"]["result"]
    assert found
    assert all(x["type"][0]["id"] == "right" and not x["match"] for x in found)
    unknown = [{"pid": "no such property", "v": ["x", 1, True]}]
    assert ask(client, {"q": {"query": "", "properties": unknown}})["q"]["result"] == []


@pytest.mark.filterwarnings("ignore::DeprecationWarning:reconciler")
def test_a_real_client_reads_the_answers(client: httpx.Client) -> None:
    """The package `reconciler`, which asks as OpenRefine does."""
    import pandas as pd
    import reconciler

    address = f"{client.base_url}reconcile"
    table = pd.DataFrame({"land": ["Bermuda", "Bahamas"], "geld": ["Bermudian Dollar", "x"]})
    found = reconciler.reconcile(
        table["land"],
        type_id="right",
        top_res=1,
        property_mapping={"uses currency": table["geld"]},
        reconciliation_endpoint=address,
    )
    assert found["id"].tolist() == ["Bermuda", "Bahamas"]
    assert found["score"].notna().all()


def test_rows_are_extended(client: httpx.Client) -> None:
    wanted = [{"id": "speaks", "settings": {"limit": "1"}}, {"id": "decentrl:name"},
              {"id": "^has capital"}, {"id": "none"}]  # fmt: skip
    asked = {"ids": ["Bermuda", "Hamilton (Bermuda)"], "properties": wanted}
    found = client.post("/reconcile", data={"extend": json.dumps(asked)}).json()["rows"]
    assert len(found["Bermuda"]["speaks"]) == 1
    assert found["Bermuda"]["decentrl:name"][0] == {"str": "Bermuda"}
    assert found["Hamilton (Bermuda)"]["^has capital"][0]["id"] == "Bermuda"
    assert found["Bermuda"]["none"] == []


def test_suggestions_previews_and_flyouts(client: httpx.Client) -> None:
    entities = client.get("/reconcile/suggest/entity", params={"prefix": "berm"}).json()["result"]
    assert {"Bermuda", "Bermudes"} <= {x["id"] for x in entities}
    names = client.get("/reconcile/suggest/property", params={"prefix": "monnaie"}).json()
    assert {"monnaie", "^monnaie"} <= {x["id"] for x in names["result"]}
    later = client.get("/reconcile/suggest/entity", params={"prefix": "a", "cursor": 12}).json()
    first = client.get("/reconcile/suggest/entity", params={"prefix": "a"}).json()
    assert first["result"][0] not in later["result"]
    page = client.get("/reconcile/preview", params={"id": "Bermuda"})
    assert "<h1>Bermuda</h1>" in page.text
    assert "frame-ancestors *" in page.headers["content-security-policy"]
    flyout = client.get("/reconcile/flyout/entity", params={"id": "Bermuda"}).json()
    assert flyout["id"] == "Bermuda"
    assert client.get("/reconcile/preview", params={"id": "no such"}).status_code == 404
