"""Examples of answers, for OpenAPI."""

from __future__ import annotations

from typing import Any

Responses = dict[int | str, dict[str, Any]]


def _example(value: Any, text: str = "The answer.") -> Responses:
    return {
        200: {"description": text, "content": {"application/json": {"example": value}}},
        404: {
            "description": "What no entity is called.",
            "content": {
                "application/json": {
                    "example": {
                        "error": "'Berln' is unknown in the left graph",
                        "remedy": "ask for a near name",
                        "suggestions": ["Berlin"],
                    }
                }
            },
        },
        422: {
            "description": "What cannot be asked like that.",
            "content": {"application/json": {"example": {"error": "top: Input should be less"}}},
        },
        503: {"description": "Too much is asked; `Retry-After` says when to ask again."},
    }


BERLIN = {"id": "Berlin", "side": "left", "name": "Berlin"}
BERLIN_DE = {"id": "Berlin (DE)", "side": "right", "name": "Berlin (DE)"}
TRIPLE = {
    "head": "Berlin",
    "relation": "in country",
    "tail": "Germany",
    "direction": "out",
    "head_name": "Berlin",
    "tail_name": "Germany",
    "added": False,
}
MATCH = {**BERLIN_DE, "rank": 1, "score": 0.92, "confidence": 0.97, "chosen": True}
MATCHED = {**BERLIN, "known": None, "matches": [MATCH], "none_below": 0.5}
ADDITION = {
    "number": 1,
    "time": "2026-01-31T12:00:00.000+00:00",
    "side": "left",
    "source": "http",
    "triples": 1,
    "entities": 1,
    "facts": {"ignored": 0},
    "folded": False,
}
RUN = _example(
    {
        "name": "world",
        "job": "alignment",
        "preset": "strong",
        "version": "1.0",
        "state": 0,
        "entities": {"left": 900, "right": 850},
        "relations": {"left": ["capital"], "right": ["capital of"]},
        "additions": 0,
        "writable": False,
        "threshold": 0.5,
        "results": [],
        "language": "",
    }
)
RELATIONS = _example({"side": "left", "relations": ["capital", "borders"]})
ENTITIES = _example({"entities": [{**BERLIN, "degree": 12, "added": False}]})
ENTITY = _example(
    {
        **BERLIN,
        "degree": 12,
        "added": False,
        "names": [{"text": "Berlin", "language": "de"}],
        "attributes": [{"attribute": "population", "value": "3700000", "kind": "integer"}],
        "triples": [TRIPLE],
        "more_triples": 0,
    }
)
MATCHES = _example(MATCHED)
MATCH_BATCH = _example({"results": [MATCHED]})
NEIGHBOURS = _example(
    {"neighbours": [{**BERLIN, "degree": 12, "added": False, "rank": 1, "cosine": 0.8}]}
)
EXPLAIN = _example(
    {
        "id": "Berlin",
        "side": "left",
        "reasons": [
            {
                "neighbour": "Germany",
                "relation": "in country",
                "role": "head",
                "weight": 0.4,
                "moves": 0.1,
                "arrived": False,
                "neighbour_name": "",
            }
        ],
    }
)
EXPLAIN_MATCH = _example(
    {
        "left": {"label": "Berlin", "name": ""},
        "right": {"label": "Berlin (DE)", "name": ""},
        "cosine": 0.9,
        "confidence": 0.97,
        "shares": {"neighbours": 0.5, "links": 0.4},
        "shared": [],
        "words": ["Berlin (DE) is the best match of Berlin, right with a probability of 97.0%."],
    }
)
EXPLAIN_ANSWER = _example(
    {
        "paths": [
            {
                "steps": [
                    {
                        "head": "Berlin",
                        "relation": "in country",
                        "tail": "Germany",
                        "forwards": True,
                        "head_name": "Berlin",
                        "tail_name": "Germany",
                    }
                ],
                "share": 0.6,
                "text": "Berlin –in country→ Germany",
            }
        ]
    }
)
PREDICTIONS = _example(
    {
        "answers": [
            {
                "head": "Germany",
                "relation": "capital",
                "tail": "Berlin",
                "rank": 1,
                "score": 9.1,
                "probability": 0.9,
                "known": False,
            }
        ]
    }
)
ADDED = _example({"addition": ADDITION})
LOG = _example({"additions": [ADDITION]})
PROGRESS = {
    "decided": 3,
    "accepted": 2,
    "rejected": 1,
    "skipped": 0,
    "remaining": 120,
    "estimated_precision": 0.93,
    "based_on": "2 accepted and 410 surer than 0.64",
}
REVIEW = _example(
    {
        "items": [
            {
                "left": {"id": "Berlin", "name": "Berlin"},
                "right": {"id": "Berlin (DE)", "name": "Berlin (DE)"},
                "confidence": 0.48,
                "score": 0.31,
                "alternatives": [{"id": "Bern", "name": "Bern", "confidence": None, "score": 0.2}],
                "decision": None,
            }
        ],
        "progress": PROGRESS,
        "total": 120,
    }
)
DECISION = {
    "number": 4,
    "at": "2026-01-31T12:00:00.000+00:00",
    "left": "Berlin",
    "right": "Berlin (DE)",
    "verdict": "accept",
    "by": "Ada",
    "note": "",
}
DECIDED = _example({"decision": DECISION})
UNDONE = _example({"undone": DECISION})
DECISIONS = _example({"decisions": [{**DECISION, "current": True}]})
EXPORT: Responses = {
    200: {
        "description": "A file.",
        "content": {"text/tab-separated-values": {"example": "Berlin\tBerlin (DE)\n"}},
    }
}
