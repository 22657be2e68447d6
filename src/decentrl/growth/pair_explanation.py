"""Why two entities are a match, or are none: what an explanation holds, and how it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from decentrl.data.called import called

KNOWN = "known"
"""What explanations call a link that was given."""
STRUCTURE = "structure"
"""What they call the views that read no names, together."""
_WORDS = {"links": "links around it"}
_WHY = {KNOWN: "a known link", "found": "a link that self-training found"}


@dataclass(frozen=True)
class Called:
    """An entity: its identifier, and its name, "" where it has none."""

    label: str
    name: str = ""

    def __str__(self) -> str:
        return str(called({"x": self.label, "x_name": self.name}, "x"))

    @property
    def short(self) -> str:
        """Its name, or else the identifier."""
        return self.name or self.label


@dataclass(frozen=True)
class Relation:
    """A relation between an entity and its neighbour; the role is the entity's."""

    name: str
    role: Literal["head", "tail"]


@dataclass(frozen=True)
class SharedNeighbour:
    """A neighbour of the left entity and one of the right entity that are the same, or seem to be.

    Attributes:
        left_relations, right_relations: between each entity and its neighbour.
        because: ``known`` (a known link), ``found`` (a link that self-training found), or
            ``match`` (each other's best match).
        confidence: of that match; None for links, and where none was learned.
        left_weight, right_weight: the neighbour's weight in the vector of each entity, as
            :class:`~decentrl.growth.explanation.Reason` has it; None for a model that reads no
            neighbours.
    """

    left: Called
    right: Called
    left_relations: tuple[Relation, ...]
    right_relations: tuple[Relation, ...]
    because: Literal["known", "found", "match"]
    confidence: float | None
    left_weight: float | None
    right_weight: float | None


@dataclass(frozen=True)
class Rival:
    """The best other candidate of one of the two entities.

    Attributes:
        side: of the entity whose candidate it is.
        margin: by how much the score of the explained pair is higher; None if it has no score.
        shares: as :attr:`PairExplanation.shares`, of the pair with the rival.
    """

    entity: Called
    side: Literal["left", "right"]
    score: float
    margin: float | None
    cosine: float
    shares: Mapping[str, float]


@dataclass(frozen=True)
class Without:
    """What the left entity's candidates would be like if something was left out.

    Attributes:
        kind: ``view`` or ``neighbour``.
        what: the view, or the left entity's neighbour.
        first: the candidate that would be first.
        margin: by how much the explained pair would be ahead of its best rival, below 0 behind.
    """

    kind: Literal["view", "neighbour"]
    what: str
    first: Called
    margin: float


@dataclass(frozen=True)
class PairExplanation:
    """Why a left and a right entity are a match, or are none; :func:`print` shows it in words.

    Attributes:
        link: ``known``, ``found`` by self-training, or "".
        left_linked, right_linked: what a known link says each is, if it is not the other one.
        score: by ``matcher``; None if the right entity is no candidate of the left one.
        rank: of the right entity among the candidates of the left one.
        reverse_rank: of the left entity among the candidates of the right one.
        confidence: how likely the match is right; None where it was not learned, or if the right
            entity is not the first.
        shares: of each view in the cosine; they sum to it.
        shared: the weightiest neighbours that both have.
        more: how many shared neighbours are left out.
        left_names, right_names: all names of each.
        in_common: words, or else pieces of words, that both have in their names, the rarest first.
        first: the best candidate of the left entity; None if it has none.
        rivals: the best other candidates, of the left entity and of the right one.
        without: views and shared neighbours left out, one at a time.
    """

    left: Called
    right: Called
    link: Literal["known", "found", ""]
    left_linked: Called | None
    right_linked: Called | None
    matcher: str
    score: float | None
    cosine: float
    rank: int | None
    reverse_rank: int | None
    confidence: float | None
    shares: Mapping[str, float]
    shared: tuple[SharedNeighbour, ...]
    more: int
    left_names: tuple[str, ...]
    right_names: tuple[str, ...]
    in_common: tuple[str, ...]
    first: Called | None
    rivals: tuple[Rival, ...]
    without: tuple[Without, ...]

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON takes it."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(in_words(self))


def in_words(found: PairExplanation) -> list[str]:
    """An explanation as lines; those that belong to the line above begin with two spaces."""
    return [
        *_verdict(found),
        *_measures(found),
        *_neighbours(found),
        *_names(found),
        *_changes(found),
    ]


def _verdict(found: PairExplanation) -> list[str]:
    left, right = found.left.short, found.right.short
    if found.link == KNOWN:
        said = f"{found.left} and {found.right} are the same: a known link says so."
    elif found.rank == 1:
        said = f"{found.right} is the best match of {found.left}"
        if found.confidence is not None:
            said += f", right with a probability of {found.confidence:.1%}"
        said += f"; self-training took it for {_WHY['found']}." if found.link else "."
    elif found.first is None:
        said = f"{found.left} and {found.right} are no match: there are no candidates."
    else:
        said = f"{found.right} is not the best match of {found.left}: that is {found.first}."
    lines = [said]
    for own, linked in ((left, found.left_linked), (right, found.right_linked)):
        if linked is not None:
            lines.append(f"  A known link says that {own} is {linked}.")
    return lines


def _measures(found: PairExplanation) -> list[str]:
    left, right = found.left.short, found.right.short
    lines = [f"Alike by {_sum_of(found.cosine, found.shares)}."]
    if found.score is None:
        return [*lines, f"  {right} is no candidate of {left}, so the pair has no score."]
    rank = f"  Score ({found.matcher}) {found.score:.4f}: {right} is number {found.rank} for {left}"
    if found.reverse_rank is not None:
        rank += f", {left} number {found.reverse_rank} for {right}"
    return [*lines, f"{rank}."]


def _sum_of(cosine: float, shares: Mapping[str, float]) -> str:
    """A cosine as the sum of its parts."""
    words = [f"{_WORDS.get(view, view)} {share:.3f}" for view, share in shares.items()]
    others = {view: share for view, share in shares.items() if view != "names"}
    if len(others) > 1:
        inner = f"{STRUCTURE} {sum(others.values()):.3f} ({' + '.join(words[: len(others)])})"
        words = [inner, *words[len(others) :]]
    return f"{cosine:.3f} (cosine) = {' + '.join(words)}"


def _neighbours(found: PairExplanation) -> list[str]:
    if not found.shared:
        return ["They share no neighbours that a link or a match joins."]
    n = len(found.shared) + found.more
    lines = [f"Neighbours that both have: {n:,}{', the weightiest:' if found.more else '.'}"]
    for one in found.shared:
        why = _WHY.get(one.because, "each other's best match")
        why += "" if one.confidence is None else f", {one.confidence:.1%} sure"
        ends = f"{_edges(found.left, one.left_relations)} {one.left.short}"
        ends += f"  =  {_edges(found.right, one.right_relations)} {one.right.short}"
        if one.left_weight is not None and one.right_weight is not None:
            why += f"; weight {one.left_weight:.1%} and {one.right_weight:.1%}"
        lines.append(f"  {ends}  ({why})")
    return lines


def _edges(own: Called, relations: Sequence[Relation]) -> str:
    """An entity with its relations to a neighbour, as arrows."""
    arrows = (f"–{r.name}→" if r.role == "head" else f"←{r.name}–" for r in relations)
    return f"{own.short} {' '.join(arrows)}"


def _names(found: PairExplanation) -> list[str]:
    if "names" not in found.shares:
        return []
    if not found.left_names or not found.right_names:
        lacking = found.right if found.left_names else found.left
        return [f"{lacking.label} has no name, so names say nothing."]
    names = " / ".join(", ".join(names[:3]) for names in (found.left_names, found.right_names))
    common = ", ".join(f"“{piece.strip()}”" for piece in found.in_common)
    nothing = "nothing in common; what names say comes from the known links, as a translation"
    return [f"Names: {names}: {'in common ' + common if common else nothing}."]


def _changes(found: PairExplanation) -> list[str]:
    lines = [f"  {_rival(found, rival)}" for rival in found.rivals]
    now = found.rank == 1
    changing = [x for x in found.without if (x.first == found.right) != now]
    for one in changing:
        other = f"{one.first.short} would be first"
        lines.append(f"  Without {_left_out(found, one)}, {other}.")
    if found.without and not changing:
        word = "stay" if now else "not become"
        least = (min if now else max)(found.without, key=lambda one: one.margin)
        lines.append(
            f"  Without any one view or shared neighbour {found.right.short} would {word} first; "
            f"it matters most to leave out {_left_out(found, least)} "
            f"(margin {least.margin:+.4f})."
        )
    return ["What would change the answer:", *lines] if lines else []


def _rival(found: PairExplanation, rival: Rival) -> str:
    own = (found.left if rival.side == "left" else found.right).short
    text = f"The best other candidate for {own} is {rival.entity}"
    if rival.margin is not None:
        text += f", {abs(rival.margin):.4f} {'behind' if rival.margin >= 0 else 'ahead'}"
    return f"{text}: {_sum_of(rival.cosine, rival.shares)}."


def _left_out(found: PairExplanation, one: Without) -> str:
    if one.kind == "view":
        return f"the {_WORDS.get(one.what, one.what)}"
    return f"the neighbour {one.what} of {found.left.short}"
