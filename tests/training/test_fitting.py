"""Passes and rounds: what is trained on which links, what is chosen, and what a kill leaves."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from decentrl.config import Config
from decentrl.errors import InputError
from decentrl.evaluation.ranks import Ranks
from decentrl.graph.adjacency import Ids
from decentrl.graph.merged import MergedGraph
from decentrl.training import fitting
from decentrl.training.fitting import Fitted, Pass, TrainingContext, fit_alignment, planned_epochs
from decentrl.training.loop import METRICS, Row
from decentrl.views.reflection import ReflectionView
from studies import rivals  # noqa: F401  registers encoders from outside

SIZE, SEEN, R = 24, 20, 2  # entities a side; those from SEEN on have no triple at first
OFFSET = np.array([0, SIZE])
LINKS = np.stack((np.arange(8), np.arange(8)), axis=1)
VALID = np.stack((np.arange(8, 12), np.arange(8, 12)), axis=1) + OFFSET
NONE = VALID[:0]
CPU = torch.device("cpu")


def twin_graphs(links: Ids = LINKS) -> MergedGraph:
    """One random graph told twice, the second time with gaps."""
    rng = np.random.default_rng(3)
    ring = np.array([(i, i % R, (i + 1) % SEEN) for i in range(SEEN)])
    more = np.stack([rng.integers(0, size, 30) for size in (SEEN, R, SEEN)], axis=1)
    triples = np.unique(np.concatenate((ring, more)), axis=0)
    fewer = np.delete(triples, np.s_[::7], axis=0)
    assert set(fewer[:, [0, 2]].reshape(-1)) == set(range(SEEN))
    return MergedGraph.merge(triples, fewer, links, (SIZE, SIZE), (R, R))


def later(known: MergedGraph) -> MergedGraph:
    """Two entities more on either side; the last two have no triple still."""
    new = np.array([(20, 0, 3), (9, 1, 20), (21, 0, 20), (21, 1, 5)])
    return known.grown(new, new + np.array([SIZE, R, SIZE]))


SMALL = {
    "reflection": (
        "strong",
        ("model.dim=8", "loss.entities=16", "training.batch=4", "training.epochs=3"),
    ),
    "dan": ("tiny", ("model.dim=8", "training.patience=0", "training.epochs=3")),
    "none": ("propagate", ()),
}
encoders = pytest.mark.parametrize("encoder", list(SMALL))


def configured(*settings: str, encoder: str = "reflection", rounds: int = 0) -> Config:
    preset, small = SMALL[encoder]
    always = (
        "propagation.dim=16",
        "propagation.relation_dim=4",
        "self_training.epochs=2",
        "self_training.mass=0.05",
        f"self_training.rounds={rounds}",
    )
    trained = () if encoder == "none" else ("training.checkpoint_every=0",)
    return Config.from_preset(preset, (*small, *always, *trained, *settings))


def context_of(
    config: Config, links: Ids = LINKS, *, opened: bool = False, **how: Any
) -> TrainingContext:
    known = twin_graphs(links)
    return TrainingContext(known, later(known) if opened else known, config, CPU, **how)


def fit(config: Config, valid: Ids = NONE, links: Ids = LINKS, **how: Any) -> Fitted:
    return fit_alignment(context_of(config, links, **how), valid)


def stages(history: Sequence[Row]) -> list[str]:
    return [row.get("stage", "") for row in history]


def same_bits(one: Fitted, other: Fitted) -> bool:
    assert one.weights.keys() == other.weights.keys()
    pairs = [
        (one.vectors, other.vectors),
        *((one.weights[n], other.weights[n]) for n in one.weights),
    ]
    same = all(torch.equal(a, b) for a, b in pairs)
    return same and np.array_equal(one.found, other.found)


class Scripted:
    """Choice of a round that follows a script, and remembers each round's vectors and found links.

    Validation between epochs is as it was.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *mrr: float) -> None:
        self.mrr, self.vectors, self.found = list(mrr), list[Tensor](), [NONE]
        self.between_epochs = False
        start, validate, measure = Pass.self_training_round, Pass.validate, fitting.held_out_ranks

        def held_out_ranks(vectors: Tensor, *rest: Any) -> Ranks:
            """As if there were a thousand links, found at once or hardly at all, and each round
            missed a hundred others than the one before."""
            if self.between_epochs:
                return measure(vectors, *rest)
            number = len(self.vectors)
            self.vectors.append(vectors.clone())
            lost = torch.arange(1000) >= 1000 * self.mrr[number]
            return Ranks(10**6 * lost.roll(100 * number), torch.ones(1000, dtype=torch.int64))

        def self_training_round(training: Pass) -> None:
            start(training)
            self.found.append(training.found)

        def validated(training: Pass) -> dict[str, float] | None:
            self.between_epochs = True
            try:
                return validate(training)
            finally:
                self.between_epochs = False

        monkeypatch.setattr(Pass, "validate", validated)
        monkeypatch.setattr(fitting, "held_out_ranks", held_out_ranks)
        monkeypatch.setattr(Pass, "self_training_round", self_training_round)


# Without validation links.


@encoders
@pytest.mark.parametrize("rounds", [0, 2])
def test_without_validation_links_there_is_one_pass_with_all_its_rounds(
    encoder: str, rounds: int
) -> None:
    config = configured("training.refit=true", encoder=encoder, rounds=rounds)
    fitted = fit(config)
    assert (fitted.chosen, fitted.rounds, fitted.confidence) == (rounds, [], None)
    expected = [""] * 3 + ["train-1"] * 2 + ["train-2"] * 2
    expected = [] if encoder == "none" else expected[: 3 + 2 * rounds]
    assert stages(fitted.history) == expected
    assert planned_epochs(config, validated=False) == len(expected)
    assert (len(fitted.found) > 0) == (rounds > 0)


def test_links_that_say_nothing_about_these_graphs_are_refused() -> None:
    links = np.array([(SEEN, SEEN), (SEEN + 1, 0), (0, SEEN + 1)])
    with pytest.raises(InputError, match="no training link joins two entities that have triples"):
        fit(configured(), links=links)


# With validation links.


@encoders
@pytest.mark.parametrize("rounds", [0, 2])
def test_every_round_is_measured_and_a_good_one_chosen(encoder: str, rounds: int) -> None:
    fitted = fit(configured("training.refit=false", encoder=encoder, rounds=rounds), VALID)
    assert [list(row) for row in fitted.rounds] == [["hits@1", "hits@10", "mrr"]] * (rounds + 1)
    mrr = [row["mrr"] for row in fitted.rounds]
    assert fitted.chosen >= mrr.index(max(mrr))
    assert mrr[fitted.chosen] >= mrr[0]
    assert fitted.confidence is not None
    assert 0 <= fitted.confidence.threshold <= 1


@pytest.mark.parametrize(
    ("mrr", "chosen"),
    [
        ((0.5, 0.4, 0.3), 0),
        ((0.3, 0.5, 0.4), 1),
        ((0.3, 0.4, 0.5), 2),
        ((0.4, 0.4, 0.4), 2),
        ((0.3, 0.5, 0.499), 2),  # that much is luck
        ((0.5, 0.499, 0.499), 0),  # but never worse than without self-training
    ],
)
def test_without_a_second_pass_the_chosen_round_is_what_stays(
    monkeypatch: pytest.MonkeyPatch, mrr: tuple[float, ...], chosen: int
) -> None:
    script = Scripted(monkeypatch, *mrr)
    config = configured("training.refit=false", rounds=2)
    fitted = fit(config, VALID)
    assert fitted.chosen == chosen  # of equally good rounds the last
    assert [row["mrr"] for row in fitted.rounds] == pytest.approx(list(mrr), abs=1e-5)
    assert torch.equal(fitted.vectors, script.vectors[chosen])
    assert not any(torch.equal(fitted.vectors, script.vectors[k]) for k in {0, 1, 2} - {chosen})
    assert np.array_equal(fitted.found, script.found[chosen])
    assert len(fitted.history) == planned_epochs(config, validated=True) == 3 + 2 + 2


def test_the_weights_that_stay_are_those_of_the_chosen_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Scripted(monkeypatch, 0.3, 0.5, 0.4)
    fitted = fit(configured("training.refit=false", rounds=2), VALID)
    once = fit(configured(rounds=1))  # held out, a link is as good as none
    graph = twin_graphs()
    model = ReflectionView(configured(), graph.n_entities, graph.n_relations)
    model.load_state_dict(fitted.weights)
    encoded = model.encode(graph.relational_view(), torch.from_numpy(graph.links)).vectors
    share = (1 - configured().propagation.weight) ** 0.5
    torch.testing.assert_close(fitted.vectors[:, : encoded.shape[1]], share * encoded)
    assert same_bits(fitted, once)


@pytest.mark.parametrize("chosen", [0, 1, 2])
def test_a_second_pass_has_as_many_rounds_as_were_chosen(
    monkeypatch: pytest.MonkeyPatch, chosen: int
) -> None:
    Scripted(monkeypatch, *np.eye(3)[chosen])
    config = configured("training.refit=true", rounds=2)
    fitted = fit(config, VALID)
    first = [""] * 3 + ["train-1"] * 2 + ["train-2"] * 2
    second = ["refit-0"] * 3 + ["refit-1"] * 2 + ["refit-2"] * 2
    assert stages(fitted.history) == first + second[: 3 + 2 * chosen]
    assert planned_epochs(config, validated=True) == len(first) + len(second)  # at most


@pytest.mark.parametrize(
    ("encoder", "settings"),
    [
        ("reflection", ()),
        # With less mass it finds all the other links by itself, then both passes know the same.
        ("none", ("self_training.mass=0.95",)),
        ("dan", ()),
    ],
    ids=["reflection", "none", "dan"],
)
def test_a_second_pass_is_a_training_on_all_links_from_the_start(
    monkeypatch: pytest.MonkeyPatch, encoder: str, settings: tuple[str, ...]
) -> None:
    Scripted(monkeypatch, 0.1, 0.2)
    config = configured("training.refit=true", *settings, encoder=encoder, rounds=1)
    fitted = fit(config, VALID)
    all_links = np.concatenate((LINKS, VALID - OFFSET))
    assert same_bits(fitted, fit(config, links=all_links))
    first = fit(config, links=LINKS)
    assert not torch.equal(fitted.vectors, first.vectors)
    trained = [
        name for name in first.weights if not torch.equal(first.weights[name], fitted.weights[name])
    ]
    assert (len(trained) > 0) == (encoder != "none")


def test_confidence_is_learned_from_the_first_pass_which_has_not_seen_the_links() -> None:
    once, twice = (fit(configured(f"training.refit={on}"), VALID) for on in ("false", "true"))
    assert once.confidence is not None
    assert twice.confidence is not None
    first, second = once.confidence.to_tensors(), twice.confidence.to_tensors()
    assert all(torch.equal(first[name], second[name]) for name in first)


# Validation between epochs.


SMALL_RIVALS = {
    name: (name, ("model.dim=8", "training.epochs=3"))
    for name in ("gcn", "gat", "alinet", "rotate")
}
SMALL |= SMALL_RIVALS


@pytest.mark.parametrize("encoder", ["dan", *SMALL_RIVALS])
def test_without_held_out_links_there_is_nothing_to_validate(encoder: str) -> None:
    steps = Pass(context_of(configured(encoder=encoder)), LINKS + OFFSET, NONE)
    assert steps.validate() is None


def test_what_never_stops_early_validates_nothing_between_epochs() -> None:
    assert Pass(context_of(configured()), LINKS + OFFSET, VALID).validate() is None
    assert not any("valid_mrr" in row for row in fit(configured(), VALID).history)


@pytest.mark.parametrize("encoder", ["dan", *SMALL_RIVALS])
def test_validation_ranks_among_what_no_training_link_has_taken(encoder: str) -> None:
    links = np.concatenate((LINKS, [(12, SEEN)]))  # nothing is learned from the last one
    config = configured("matching.matcher=cosine", encoder=encoder)
    steps = Pass(context_of(config, links), links + OFFSET, VALID)
    torch.manual_seed(0)
    views = steps.views
    assert views.encoder is not None
    views.encoder.train()
    found = steps.validate()
    assert views.encoder.training
    assert found is not None
    assert list(found) == ["hits@1", "hits@10", "mrr"]

    structure, all_links = steps.structures["known"].of(views.encoder), steps.all_links()
    vectors = views.encoder.encode(structure, all_links).vectors.double().numpy()
    taken = set(links[:, 1] + SIZE)
    candidates = [i for i in range(SIZE, SIZE + SEEN) if i not in taken]
    ranks = []
    for left, right in VALID:
        scores = {i: vectors[left] @ vectors[i] for i in candidates}
        assert sum(abs(s - scores[right]) <= 1e-6 for s in scores.values()) == 1
        ranks.append(sum(s > scores[right] + 1e-6 for s in scores.values()))
    assert found["hits@1"] == pytest.approx(np.mean([rank < 1 for rank in ranks]))
    assert found["hits@10"] == pytest.approx(np.mean([rank < 10 for rank in ranks]))
    assert found["mrr"] == pytest.approx(np.mean([1 / (rank + 1) for rank in ranks]))


def test_held_out_links_are_found_by_equal_vectors_and_not_by_random_ones() -> None:
    known = twin_graphs()
    known = replace(known, right=known.left + np.array([SIZE, R, SIZE]))
    context = TrainingContext(known, known, configured(encoder="gcn"), CPU)
    steps = Pass(context, LINKS + OFFSET, VALID)
    torch.manual_seed(0)
    random = steps.validate()
    assert random is not None
    assert random["mrr"] < 0.9
    weights = steps.weights()
    weights["entities"][SIZE:] = weights["entities"][:SIZE]
    assert steps.validate() == {"hits@1": 1, "hits@10": 1, "mrr": 1}


@pytest.mark.parametrize("encoder", ["dan", *SMALL_RIVALS])
def test_rows_of_epochs_hold_what_was_validated(encoder: str) -> None:
    settings = ("training.validate_every=2", "training.patience=0")
    fitted = fit(configured(*settings, encoder=encoder), VALID)
    assert ["valid_mrr" in row for row in fitted.history] == [False, True, True]


# Propagation alone.


def test_propagation_alone_trains_nothing() -> None:
    fitted = fit(configured(encoder="none"), VALID)
    assert fitted.weights == {}
    assert fitted.history == []
    assert planned_epochs(configured(encoder="none", rounds=3), validated=True) == 0
    lengths = fitted.vectors.norm(dim=1)
    expected = torch.tensor([float(i % SIZE < SEEN) for i in range(2 * SIZE)])
    torch.testing.assert_close(lengths, expected)
    cosine = fitted.vectors[12:SEEN] @ fitted.vectors[SIZE + 12 : SIZE + SEEN].T
    assert cosine.diag().mean() > cosine.mean() + 0.1  # twins that no link names


def test_found_links_send_out_seeds_of_their_own() -> None:
    once, again = (fit(configured(encoder="none", rounds=rounds)) for rounds in (0, 1))
    assert len(again.found)
    assert not torch.equal(once.vectors, again.vectors)


# Found links.


@pytest.mark.parametrize("encoder", ["reflection", "none"])
@pytest.mark.parametrize("opened", [False, True], ids=["closed", "open"])
@pytest.mark.parametrize("valid", [NONE, VALID], ids=["no-valid", "valid"])
def test_found_links_join_entities_that_have_triples_but_no_known_link(
    monkeypatch: pytest.MonkeyPatch, encoder: str, opened: bool, valid: Ids
) -> None:
    script = Scripted(monkeypatch, 0.1, 0.2, 0.3)
    config = configured("self_training.mass=0", encoder=encoder, rounds=2)
    fit(config, valid, opened=opened)
    rounds = script.found[1:]
    assert len(rounds) == (4 if len(valid) else 2)
    refit = np.concatenate((LINKS + OFFSET, valid))
    for links, known in zip(rounds, [LINKS + OFFSET] * 2 + [refit] * 2, strict=False):
        assert len(links)
        assert not np.isin(links, known).any()
        assert (links[:, 0] < SEEN).all()
        assert (links[:, 1] >= SIZE).all()
        assert (links[:, 1] < SIZE + SEEN).all()


def test_a_round_learns_from_the_found_links_too(monkeypatch: pytest.MonkeyPatch) -> None:
    learned, original = list[Any](), fitting.train

    def train(objective: Any, *rest: Any, **how: Any) -> list[Row]:
        learned.append(objective.links.tolist())
        return original(objective, *rest, **how)

    monkeypatch.setattr(fitting, "train", train)
    steps = Pass(context_of(configured("training.batch=1", rounds=1)), LINKS + OFFSET, NONE)
    steps.start()
    before = steps.state()[1]
    steps.self_training_round()
    assert len(steps.found)
    assert learned[-1] == [*(LINKS + OFFSET).tolist(), *steps.found.tolist()]
    entities = steps.weights()["encoder.entities"]
    assert not torch.equal(entities, before["encoder.entities"])


# What vectors are.


@encoders
def test_one_seed_gives_the_same_bits_and_another_gives_others(encoder: str) -> None:
    config = configured("training.refit=true", encoder=encoder, rounds=1)
    first = fit(config, VALID)
    torch.rand(5)  # what was drawn before does not matter
    again, other = fit(config, VALID), fit(replace(config, seed=1), VALID)
    assert same_bits(first, again)
    assert first.rounds == again.rounds
    assert not torch.equal(first.vectors, other.vectors)


# The open world.


@encoders
def test_who_arrives_later_has_a_vector_at_once_and_was_no_part_of_training(encoder: str) -> None:
    config = configured("training.refit=true", encoder=encoder, rounds=1)
    before, after = (fit(config, VALID, opened=opened) for opened in (False, True))
    assert after.vectors.isfinite().all()
    new = [SEEN, SEEN + 1, SIZE + SEEN, SIZE + SEEN + 1]
    assert not before.vectors[new].any()
    torch.testing.assert_close(after.vectors[new].norm(dim=1), torch.ones(4))
    without = [SEEN + 2, SEEN + 3, SIZE + SEEN + 2, SIZE + SEEN + 3]
    assert not after.vectors[without].any()
    assert before.rounds == after.rounds
    assert np.array_equal(before.found, after.found)
    assert all(torch.equal(before.weights[name], after.weights[name]) for name in before.weights)


def test_twins_that_arrive_later_are_each_others_nearest_of_those_that_arrive() -> None:
    fitted = fit(configured(encoder="none"), opened=True)
    cosine = fitted.vectors[[SEEN, SEEN + 1]] @ fitted.vectors[[SIZE + SEEN, SIZE + SEEN + 1]].T
    assert cosine.argmax(1).tolist() == [0, 1]


# Interruptions.


class Killed(BaseException):
    """Not one of ours, as a kill is not."""


class KillIn:
    """Ends a training in so many epochs, counted over all its stages."""

    def __init__(self, epochs: int) -> None:
        self.left = epochs

    def __call__(self, row: Row) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1


RESUMED = ("training.refit=true", "training.epochs=2", "self_training.epochs=1")
STAGES = ["", "", "train-1", "refit-0", "refit-0", "refit-1"]


def without_seconds(rows: Sequence[Row]) -> list[Row]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def read_metrics(run: Path) -> list[Row]:
    return [json.loads(line) for line in (run / METRICS).read_text("utf-8").splitlines()]


@pytest.fixture(scope="module", params=["reflection", "dan"])
def whole(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Config, Fitted, Path]:
    """A run that nobody interrupted; nobody writes to it."""
    with pytest.MonkeyPatch.context() as patch:
        Scripted(patch, 0.1, 0.2)
        config = configured(*RESUMED, encoder=request.param, rounds=1)
        run = tmp_path_factory.mktemp("whole")
        with torch.random.fork_rng(devices=[]):
            return config, fit(config, VALID, run=run), run


def test_each_stage_has_a_checkpoint_and_all_rows_are_kept(
    whole: tuple[Config, Fitted, Path],
) -> None:
    _, fitted, run = whole
    assert stages(fitted.history) == STAGES
    assert read_metrics(run) == fitted.history
    folders = {path.parent.relative_to(run) for path in run.rglob("checkpoint.safetensors")}
    assert folders == {Path("checkpoint") / stage for stage in STAGES}


@pytest.mark.parametrize("epoch", range(len(STAGES)))
def test_a_run_killed_in_any_epoch_and_resumed_equals_the_uninterrupted_one(
    whole: tuple[Config, Fitted, Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    epoch: int,
) -> None:
    config, expected, _ = whole
    Scripted(monkeypatch, 0.1, 0.2, 0.1, 0.2)
    with pytest.raises(Killed):
        fit(config, VALID, run=tmp_path, on_epoch=KillIn(epoch))
    assert stages(read_metrics(tmp_path)) == STAGES[:epoch]
    with (tmp_path / METRICS).open("a") as file:  # what a kill in the middle of a line leaves
        file.write('{"epoch": ')
    torch.rand(epoch)
    Scripted(monkeypatch, 0.1, 0.2)
    trained: list[Row] = []
    found = fit(config, VALID, run=tmp_path, resume=True, on_epoch=trained.append)
    assert same_bits(found, expected)
    assert stages(trained) == STAGES[epoch:]  # nothing is done again
    assert without_seconds(found.history) == without_seconds(expected.history)
    assert without_seconds(read_metrics(tmp_path)) == without_seconds(expected.history)


@pytest.mark.parametrize("lost", ["train-1", "refit-0", "refit-1"])
def test_a_stage_whose_checkpoint_is_lost_is_trained_again(
    whole: tuple[Config, Fitted, Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    lost: str,
) -> None:
    config, expected, run = whole
    shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoint" / lost)
    Scripted(monkeypatch, 0.1, 0.2)
    trained: list[Row] = []
    found = fit(config, VALID, run=tmp_path / "run", resume=True, on_epoch=trained.append)
    assert stages(trained) == [stage for stage in STAGES if stage == lost]
    assert same_bits(found, expected)
    assert without_seconds(read_metrics(tmp_path / "run")) == without_seconds(expected.history)


def test_resuming_a_run_that_ended_trains_no_more(
    whole: tuple[Config, Fitted, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config, expected, run = whole
    shutil.copytree(run, tmp_path / "run")
    Scripted(monkeypatch, 0.1, 0.2)
    found = fit(config, VALID, run=tmp_path / "run", resume=True, on_epoch=KillIn(0))
    assert same_bits(found, expected)
    assert found.history == expected.history
