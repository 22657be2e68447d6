"""The paper's claims, each confirmed, refuted or not yet measured, from the result files alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from studies.layout import DEGREE_NAMES, Metric
from studies.run import PUBLISHED_SPLIT
from studies.scale import ALINET, GAT, PAPER, Method, Scale
from studies.store import Stat, Store
from studies.targets.ablation import INFONCE, L2, NONE, SELF_ENTITY, sized
from studies.targets.alignment import at
from studies.targets.analyses import LAYERS, SHARES
from studies.targets.prediction import COMPGCN, DECODERS, LAN, settings_of
from studies.targets.prediction import at as answer_at
from studies.targets.timing import TIMED, WATCHED, reached
from studies.verdict import Claim, Comparison, difference, ratio


class Claims:
    """The claims of the paper, judged by the results in a store."""

    def __init__(self, scale: Scale, store: Store) -> None:
        self.scale, self.store = scale, store

    def all(self) -> list[Claim]:
        makers: Sequence[Callable[[], Claim]] = (
            self.open_world, self.drop, self.open_prediction, self.over_lan, self.distillation,
            self.detached, self.against_l2, self.self_entity, self.more_unseen, self.by_degree,
            self.more_degree, self.layers, self.parameters, self.convergence,
        )  # fmt: skip
        return [make() for make in makers]

    def _stat(
        self, method: Method, *more: str, metric: Metric | None = None, pair: str = "",
        unseen: float = 0.0, seeds: int = 0,
    ) -> Stat | None:  # fmt: skip
        dataset = pair or self.scale.pairs[0][0]
        chosen = metric or at("hits@1")
        return self.store.stat(
            self.scale.value(
                "alignment", dataset, method, chosen, *more, unseen=unseen, seeds=seeds
            )
        )

    def _ours_against(
        self, rivals: Sequence[Method], worlds: Sequence[float], metric: Metric | None = None
    ) -> list[Comparison]:
        names = {0.0: "closed", PUBLISHED_SPLIT: "open"}
        return [
            Comparison(
                f"{label} {names[world]}, {rival.label}",
                self._stat(PAPER, pair=pair, unseen=world, metric=metric),
                self._stat(rival, pair=pair, unseen=world, metric=metric),
            )
            for world in worlds
            for pair, label in self.scale.pairs
            for rival in rivals
        ]

    def open_world(self) -> Claim:
        return Claim(
            "decentralised beats centralised in the open world",
            "decentRL's Hits@1 is above AliNet's and GAT's when entities arrive after training.",
            self._ours_against((ALINET, GAT), (PUBLISHED_SPLIT,)),
        )

    def drop(self) -> Claim:
        evidence = []
        for pair, label in self.scale.pairs:
            ours, *others = (
                ratio(self._stat(m, pair=pair, unseen=PUBLISHED_SPLIT),
                            self._stat(m, pair=pair))
                for m in (PAPER, ALINET, GAT)
            )  # fmt: skip
            for rival, other in zip((ALINET, GAT), others, strict=True):
                evidence.append(Comparison(f"{label}, open ÷ closed, {rival.label}", ours, other))
        return Claim(
            "a smaller drop in the open world",
            "decentRL keeps more of its Hits@1 than AliNet and GAT do.",
            evidence,
        )

    def _predicted(self, rival: Method) -> list[Comparison]:
        dataset, label = self.scale.graphs[0]
        evidence = []
        for decoder in DECODERS:
            ours, other = (
                self.store.stat(
                    self.scale.value("prediction", dataset, method, answer_at("mrr"),
                                     *settings_of(self.scale, method, decoder, PUBLISHED_SPLIT),
                                     unseen=PUBLISHED_SPLIT)
                )
                for method in (PAPER, rival)
            )  # fmt: skip
            evidence.append(Comparison(f"{label} open, {decoder}, {rival.label}", ours, other))
        return evidence

    def open_prediction(self) -> Claim:
        return Claim(
            "decentralised beats centralised in open-world prediction",
            "decentRL's MRR is above CompGCN's under either decoder.",
            self._predicted(COMPGCN),
        )

    def over_lan(self) -> Claim:
        return Claim(
            "better than an aggregator made for new entities",
            "decentRL's MRR in the open world is above LAN's under either decoder.",
            self._predicted(LAN),
        )

    def distillation(self) -> Claim:
        return Claim(
            "self-distillation helps",
            "Hits@1 is higher with self-distillation than without.",
            self._ours_against((NONE,), (0.0, PUBLISHED_SPLIT)),
        )

    def detached(self) -> Claim:
        return Claim(
            "detached beats not detached",
            "Hits@1 is higher if the teacher's gradient is detached than with InfoNCE.",
            self._ours_against((INFONCE,), (0.0, PUBLISHED_SPLIT)),
        )

    def against_l2(self) -> Claim:
        return Claim(
            "distillation by contrast beats distance",
            "Hits@1 is higher with self-distillation than with L2.",
            self._ours_against((L2,), (0.0, PUBLISHED_SPLIT)),
        )

    def self_entity(self) -> Claim:
        return Claim(
            "the entity itself is better left out",
            "Hits@1 is higher without the entity among its own neighbours.",
            self._ours_against((SELF_ENTITY,), (0.0, PUBLISHED_SPLIT)),
        )

    def more_unseen(self) -> Claim:
        gains = [
            ratio(self._stat(PAPER, unseen=share), self._stat(ALINET, unseen=share))
            for share in SHARES
        ]
        return Claim(
            "the gain grows with the share of unseen entities",
            "decentRL's Hits@1 ÷ AliNet's grows from 20 to 80 % (the paper: 1.092 to 1.359).",
            [
                Comparison(f"{SHARES[i]:.0%} against {SHARES[i - 1]:.0%}", gains[i], gains[i - 1])
                for i in range(1, len(SHARES))
            ],
        )

    def _by_degree(self, method: Method) -> list[Stat | None]:
        metrics = (Metric("mrr", (("name", name),), "degrees") for name in DEGREE_NAMES)
        return [self._stat(method, metric=metric) for metric in metrics]

    def by_degree(self) -> Claim:
        ours = self._by_degree(PAPER)
        return Claim(
            "better at every degree",
            "decentRL's MRR is above AliNet's and GAT's at every degree of an entity.",
            [
                Comparison(f"degree {name}, {rival.label}", mine, other)
                for rival in (ALINET, GAT)
                for name, mine, other in zip(
                    DEGREE_NAMES, ours, self._by_degree(rival), strict=True
                )
            ],
        )

    def more_degree(self) -> Claim:
        ours, evidence = self._by_degree(PAPER), []
        for rival in (ALINET, GAT):
            pairs = zip(ours, self._by_degree(rival), strict=True)
            gains = [difference(mine, other) for mine, other in pairs]
            for i in range(1, len(gains) - 1):  # up to degree 20
                where = f"{rival.label}, degree {DEGREE_NAMES[i]} against {DEGREE_NAMES[i - 1]}"
                evidence.append(Comparison(where, gains[i], gains[i - 1]))
        return Claim(
            "the gain grows with the degree",
            "decentRL's MRR minus AliNet's or GAT's grows with the degree, up to 20.",
            evidence,
        )

    def layers(self) -> Claim:
        evidence = []
        for pair, label in self.scale.pairs:
            found = [
                self._stat(PAPER, pair=pair, metric=Metric("hits@1", (("name", x),), "layers"))
                for x in LAYERS
            ]
            for i in (2, 3, 4, 5, 6):  # the concatenation comes after the last layer
                where = f"{label}, {LAYERS[i]} against {LAYERS[i - 1]}"
                evidence.append(Comparison(where, found[i], found[i - 1]))
        return Claim(
            "deeper layers are better, and their concatenation is best",
            "Hits@1 grows from layer to layer and is highest for the concatenation.",
            evidence,
        )

    def parameters(self) -> Claim:
        small, *_, half, _full = self.scale.sizes
        evidence = [
            Comparison(
                f"{label}, {size} wide, {rival.label}",
                self._stat(PAPER, *sized(self.scale, size), pair=pair),
                self._stat(rival, pair=pair),
            )
            for pair, label in self.scale.pairs
            for size, rival in ((half, ALINET), (small, GAT))
        ]
        return Claim(
            "parameter efficiency",
            f"decentRL of width {half} is above AliNet of full width, and of width {small} above "
            "GAT of full width (Hits@1).",
            evidence,
        )

    def convergence(self) -> Claim:
        return Claim(
            "convergence in fewer epochs",
            "decentRL reaches a share of its best validation Hits@1 in fewer epochs than AliNet.",
            [
                Comparison(
                    f"{share} % of the best, {ALINET.label}",
                    self._stat(PAPER, *WATCHED, metric=reached(share), seeds=TIMED),
                    self._stat(ALINET, *WATCHED, metric=reached(share), seeds=TIMED),
                    lower=True,
                    digits=0,
                )
                for share in (90, 95, 99)
            ],
        )
