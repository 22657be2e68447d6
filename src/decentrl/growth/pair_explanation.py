"""Why two entities are a match, or are none: what an explanation holds, and how it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from decentrl.data.called import called, cut, printable

KNOWN = "known"
"""What explanations call a link that was given."""
STRUCTURE = "structure"
"""What they call the views that read no names, together."""
_VIEWS = {"links": "links around it"}
_OTHER = {"left": "right", "right": "left"}
_NAMES = 3  # of an entity that are shown
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
        return cut(self.name) or self.label


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
        first: the candidate that would be first; None if nothing known would be left to compare.
        margin: by how much the explained pair would be ahead of its best rival, below 0 behind;
            None without a rival.
    """

    kind: Literal["view", "neighbour"]
    what: str
    first: Called | None
    margin: float | None


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
        shares: of each view in the cosine; they sum to it, but for what a missing name counts as.
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
    words = _Words(found)
    lines = [
        *words.verdict(),
        *words.measures(),
        *words.neighbours(),
        *words.names(),
        *words.changes(),
    ]
    return [printable(line).replace("\n", r"\n") for line in lines]


class _Words:
    """The sentences of an explanation."""

    def __init__(self, found: PairExplanation) -> None:
        self._found = found
        # Entities of both sides may have the same name: then the side is said, too.
        called = {"left": {found.left.short}, "right": {found.right.short}}
        others = [("right", x) for x in (found.first, *(y.first for y in found.without)) if x]
        others += [(_OTHER[x.side], x.entity) for x in found.rivals]
        for side, entity in others:
            called[side].add(entity.short)
        self._ambiguous = called["left"] & called["right"]
        self._left = self._short("left", found.left)
        self._right = self._short("right", found.right)

    def _short(self, side: str, entity: Called) -> str:
        return f"{entity.short} ({side})" if entity.short in self._ambiguous else entity.short

    def _full(self, side: str, entity: Called) -> str:
        return f"{entity} ({side})" if entity.short in self._ambiguous else str(entity)

    def verdict(self) -> list[str]:
        """What is said about the pair."""
        found = self._found
        left, right = self._full("left", found.left), self._full("right", found.right)
        if found.link == KNOWN:
            said = f"{left} and {right} are the same: a known link says so."
        elif found.first is None:
            said = f"{left} and {right} are no match: there are no candidates."
        elif found.first == found.right:
            said = f"{right} is the best match of {left}"
            if found.confidence is not None:
                said += f", right with a probability of {found.confidence:.1%}"
            said += f"; it is {_WHY['found']}." if found.link else "."
        else:
            best = self._full("right", found.first)
            said = f"{right} is not the best match of {left}: that is {best}."
        linked = (self._left, found.left_linked), (self._right, found.right_linked)
        said_of = (f"  A known link says that {own} is {x}." for own, x in linked if x is not None)
        return [said, *said_of]

    def measures(self) -> list[str]:
        """Cosine, score and ranks."""
        found = self._found
        lines = [f"{_sum_of(found.cosine, found.shares).capitalize()}."]
        if found.score is None:
            text = f"{self._right} is no candidate for {self._left}, so the pair has no score."
            return [*lines, f"  {text}"]
        text = f"Score {found.score:.4f} ({found.matcher}): "
        text += f"{self._right} is number {found.rank:,} for {self._left}"
        if found.reverse_rank is not None:
            text += f", {self._left} number {found.reverse_rank:,} for {self._right}"
        return [*lines, f"  {text}."]

    def neighbours(self) -> list[str]:
        """The neighbours that both have."""
        found = self._found
        n = len(found.shared) + found.more
        if not n:
            return ["They share no neighbours that a link or a match joins."]
        lines = [f"Neighbours that both have: {n:,}{', the weightiest:' if found.more else '.'}"]
        for one in found.shared:
            why = _WHY.get(one.because, "each other's best match")
            why += "" if one.confidence is None else f", {one.confidence:.1%} sure"
            if one.left_weight is not None and one.right_weight is not None:
                why += f"; weights {one.left_weight:.1%} and {one.right_weight:.1%}"
            ends = f"{_arrows(found.left, one.left_relations)} {one.left.short}"
            ends += f" / {_arrows(found.right, one.right_relations)} {one.right.short}"
            lines.append(f"  {ends} ({why})")
        return lines

    def names(self) -> list[str]:
        """Both names, and what they have in common."""
        found = self._found
        if "names" not in found.shares:
            return []
        if not found.left_names or not found.right_names:
            lacking = self._right if found.left_names else self._left
            if found.shares["names"]:  # values of attributes are in the same view
                return [f"Names: {lacking} has none; their share is that of attributes."]
            return [f"Names say nothing: {lacking} has none."]
        shown = [
            ", ".join(map(cut, names[:_NAMES])) for names in (found.left_names, found.right_names)
        ]
        common = ", ".join(found.in_common)
        words = f"in common: {common}" if common else "no pieces of words in common"
        return [f"Names: {' / '.join(shown)}; {words}."]

    def changes(self) -> list[str]:
        """The rivals, and what would put another candidate first."""
        found, now = self._found, self._found.first == self._found.right
        lines = [f"  {self._rival(rival)}" for rival in found.rivals]
        changing = [x for x in found.without if (x.first == found.right) != now]
        for one in changing:
            then = "there would be nothing to compare"
            if one.first is not None:
                then = f"{self._short('right', one.first)} would be first"
            lines.append(f"  Without {self._left_out(one)}, {then}.")
        margins = {self._left_out(x): x.margin for x in found.without if x.margin is not None}
        if margins and not changing:
            what = (min if now else max)(margins, key=lambda x: margins[x])
            lines.append(
                f"  {self._right} would {'stay' if now else 'not become'} first without any view "
                f"or shared neighbour. What counts most is {what}: without, the margin would be "
                f"{margins[what]:.4f}."
            )
        return ["What would change the answer:", *lines] if lines else []

    def _rival(self, rival: Rival) -> str:
        own = self._left if rival.side == "left" else self._right
        text = f"The best other candidate for {own} is "
        text += self._full(_OTHER[rival.side], rival.entity)
        if rival.margin is not None:
            text += f", {abs(rival.margin):.4f} {'behind' if rival.margin >= 0 else 'ahead'}"
        return f"{text}: {_sum_of(rival.cosine, rival.shares)}."

    def _left_out(self, one: Without) -> str:
        if one.kind == "view":
            return f"the {_VIEWS.get(one.what, one.what)}"
        return f"the neighbour {one.what} of {self._left}"


def _sum_of(cosine: float, shares: Mapping[str, float]) -> str:
    """A cosine as the sum of its parts."""
    words = {view: f"{_VIEWS.get(view, view)} {share:.3f}" for view, share in shares.items()}
    others = [view for view in shares if view != "names"]
    if 1 < len(others) < len(shares):
        whole = sum(shares[view] for view in others)
        inner = ", ".join(words.pop(view) for view in others)
        words = {STRUCTURE: f"{STRUCTURE} {whole:.3f} ({inner})"} | words
    missing = cosine - sum(shares.values())
    if missing > 1e-4:
        words["missing"] = f"a missing name {missing:.3f}"
    return f"cosine {cosine:.3f}: {', '.join(words.values())}"


def _arrows(own: Called, relations: Sequence[Relation]) -> str:
    """An entity with its relations to a neighbour, as arrows."""
    arrows = (f"–{r.name}→" if r.role == "head" else f"←{r.name}–" for r in relations)
    return f"{own.short} {' '.join(arrows)}"
