"""Why an answer is likely: the paths that lead to it, in words."""

from __future__ import annotations

from dataclasses import dataclass

from decentrl.data.knowledge_graph import KnowledgeGraph
from decentrl.data.questions import identified
from decentrl.errors import ConfigError
from decentrl.scorers.completion import Completion
from decentrl.scorers.reasons import Path


@dataclass(frozen=True)
class Step:
    """A triple on a path; ``forwards`` if the path goes from its head to its tail."""

    head: str
    relation: str
    tail: str
    forwards: bool


@dataclass(frozen=True)
class PathReason:
    """A path from the head of a triple to its tail.

    Attributes:
        share: of what all paths that were found give to the score.
        text: the path in words, ``Berlin –capital of→ Germany –member of→ EU``; entities by their
            names, where they have some.
    """

    steps: tuple[Step, ...]
    share: float
    text: str

    def __str__(self) -> str:
        return f"{self.share:.0%} {self.text}"


def explain_triple(
    graph: KnowledgeGraph, completion: Completion, triple: tuple[str, str, str], top: int
) -> list[Path]:
    """The paths that the tail of a triple owes most to, as the answer of (head, relation, ?)."""
    head, _, tail = identified(graph, triple)
    assert head is not None
    assert tail is not None
    (h, t), (r,) = graph.entities.ids([head, tail]), graph.relations.ids([triple[1]])
    model = completion.model
    found = model.reasons(completion.ground, int(h), int(r), int(t), top)
    if found is None:
        raise ConfigError(
            f"{model.config.model.encoder} answers by vectors, not by paths; explain an entity, "
            "or train with the preset paths"
        )
    return found


def in_words(graph: KnowledgeGraph, paths: list[Path], language: str = "") -> list[PathReason]:
    """Paths of ids with their labels and names."""
    found, n = [], len(graph.relations)
    for path in paths:
        steps, text = list[Step](), ""
        for u, directed, v in path.edges:
            relation, forwards = graph.relations[directed % n], directed < n
            text = text or _called(graph, u, language)
            ends = (u, v) if forwards else (v, u)
            head, tail = (graph.entities[i] for i in ends)
            steps.append(Step(head, relation, tail, forwards))
            arrow = f"–{relation}→" if forwards else f"←{relation}–"
            text += f" {arrow} {_called(graph, v, language)}"
        found.append(PathReason(tuple(steps), path.share, text))
    return found


def _called(graph: KnowledgeGraph, entity: int, language: str) -> str:
    (name,) = graph.names.shown([entity], language)
    return name or graph.entities[entity]
