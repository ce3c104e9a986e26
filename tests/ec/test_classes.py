"""Equivalence classes: what labels mean and may depend on, files, and answers to odd populations."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from tvwrl.ec import (
    DEFAULT_CLASSES,
    REPRESENTATIONS,
    EquivalenceClasses,
    GivenLabels,
    OwnLabels,
    Population,
    classes_from,
    population_of,
)
from tvwrl.ec.classifier import RuntimeClassifier
from tvwrl.envs.problem import Problem
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import SequenceSampler, open_trace, synthetic_trace
from tvwrl.traces.splits import UNSEEN
from tvwrl.traces.windows import Windows
from tvwrl.types import InputError, Trace


@pytest.fixture(scope="module")
def fitted(four_kinds: Population) -> EquivalenceClasses:
    return EquivalenceClasses("temporal", 4, 10).fit(four_kinds, examples=4000)


BY_WORKLOAD = ("workload_id", "application", "arrival", "priority", "scheduling_class", "request")


def windows(population: Population, slots: int = 60) -> Windows:
    """One sequence (1, n) of the first slots of each workload, in whole units."""
    demand = np.array([np.clip(np.round(one[:slots]), 1, 6) for one in population.series])
    count = len(population)
    facts = np.full(count, slots), population.metadata, np.zeros(count), np.full(count, UNSEEN), np.arange(count)
    return Windows(demand, *facts).reshape(1, count)


def test_labels_rise_with_the_level(fitted: EquivalenceClasses, four_kinds: Population) -> None:
    # Kinds come as low, high, daily, restless; their means are 1, 5.5, 2.5 and 3.5.
    assert fitted.labels_.tolist() == [1] * 8 + [4] * 8 + [2] * 8 + [3] * 8
    assert fitted.k == 4
    assert fitted.labels_[fitted.medoids_].tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_members_are_predicted_into_their_own_class(name: str, four_kinds: Population) -> None:
    classes = EquivalenceClasses(name, 4, 10)
    classes.cluster(four_kinds)
    same = classes.predict(four_kinds.series) == classes.labels_
    assert same.mean() >= 0.9  # K-Medoids and K-Means keep everybody at the nearest centre, up to ties
    order = np.random.default_rng(0).permutation(len(four_kinds))
    shuffled = EquivalenceClasses(name, 4, 10)
    shuffled.cluster(four_kinds.select(order))
    assert (shuffled.labels_ == classes.labels_[order]).mean() >= 0.9


def test_the_classifier_learns_the_classes(fitted: EquivalenceClasses, four_kinds: Population) -> None:
    shown = windows(four_kinds)
    label = fitted.label_table(shown)
    assert (label.shape, label.dtype) == ((1, 32, 61), np.uint8)
    assert (label[0, :, 0] == fitted.labels_).mean() > 0.9  # requests tell the level
    assert (label[0, :, 60] == fitted.labels_).mean() > 0.9
    nothing = replace(shown, metadata=np.full_like(shown.metadata, np.nan))
    assert len(set(fitted.label_table(nothing)[0, :, 0].tolist())) == 1
    assert np.array_equal(fitted.label_table(shown[0]), label[0])  # with any leading axes


def test_the_future_changes_no_label_before(fitted: EquivalenceClasses, four_kinds: Population) -> None:
    shown = windows(four_kinds)
    before = fitted.label_table(shown)
    for seen in (0, 1, 7, 30):
        other = shown.demand.copy()
        other[:, :, seen:] = 7 - other[:, :, seen:]
        after = fitted.label_table(replace(shown, demand=other))
        assert np.array_equal(after[:, :, : seen + 1], before[:, :, : seen + 1])
        assert not np.array_equal(after, before)


# ---- folds


def test_a_classifier_per_fold_never_saw_it(monkeypatch: pytest.MonkeyPatch, four_kinds: Population) -> None:
    taught = []
    fit = RuntimeClassifier.fit

    def recorded(self: RuntimeClassifier, series: list[np.ndarray], *others: np.ndarray) -> RuntimeClassifier:
        taught.append((series, others[1]))
        return fit(self, series, *others)

    monkeypatch.setattr(RuntimeClassifier, "fit", recorded)
    classes = EquivalenceClasses("temporal", 4, 10).fit(four_kinds, examples=200)
    assert list(classes.fold_classifiers_) == [0, 1, 2]
    assert len(taught) == 4
    assert len(taught[0][0]) == 32
    for fold, (series, labels) in enumerate(taught[1:]):
        rest = np.flatnonzero(four_kinds.fold != fold)
        assert [id(one) for one in series] == [id(four_kinds.series[i]) for i in rest]
        assert np.array_equal(labels, classes.labels_[rest])  # clustered anew, the same four kinds have the same names


def test_a_fold_leaves_no_trace_in_its_classifier(fitted: EquivalenceClasses, four_kinds: Population) -> None:
    rng = np.random.default_rng(5)
    changed = [
        one + rng.uniform(0, 0.4, one.shape) if fold == 1 else one
        for one, fold in zip(four_kinds.series, four_kinds.fold, strict=True)
    ]
    metadata = np.where(four_kinds.fold[:, None] == 1, np.nan, four_kinds.metadata)
    other = EquivalenceClasses("temporal", 4, 10).fit(
        replace(four_kinds, series=changed, metadata=metadata), examples=4000
    )
    same = [other.classifier_for(fold).to_dict() == fitted.classifier_for(fold).to_dict() for fold in (0, 1, 2, UNSEEN)]
    assert same == [False, True, False, False]


def test_a_window_is_labelled_by_the_classifier_that_never_saw_its_fold(
    fitted: EquivalenceClasses, four_kinds: Population
) -> None:
    rng = np.random.default_rng(0)
    shown = windows(four_kinds, 18)
    shown = replace(shown, demand=rng.integers(1, 7, shown.demand.shape).astype(float))
    fold = rng.integers(UNSEEN, 3, (1, 32))
    mixed = fitted.label_table(replace(shown, fold=fold))
    each = {f: fitted.label_table(replace(shown, fold=np.full((1, 32), f))) for f in (UNSEEN, 0, 1, 2)}
    for f, alone in each.items():
        assert np.array_equal(mixed[fold == f], alone[fold == f])
    assert len({labels.tobytes() for labels in each.values()}) == 4


def test_a_class_that_only_one_fold_has(four_kinds: Population) -> None:
    fold = np.repeat([2, UNSEEN, UNSEEN, UNSEEN], 8)  # all of the kind with the lowest demand
    classes = EquivalenceClasses("temporal", 4, 10).fit(replace(four_kinds, fold=fold), examples=2000)
    assert list(classes.fold_classifiers_) == [2]
    label = classes.label_table(replace(windows(four_kinds), fold=np.full((1, 32), 2)))[0, 8:, 60]
    assert (label == classes.labels_[8:]).mean() > 0.6  # one of the other kinds is divided in its place


def test_without_folds_there_is_one_classifier(four_kinds: Population) -> None:
    classes = EquivalenceClasses("temporal", 4, 4).fit(replace(four_kinds, fold=np.full(32, UNSEEN)), examples=200)
    assert classes.fold_classifiers_ == {}
    shown = windows(four_kinds)
    of_a_fold = classes.label_table(replace(shown, fold=shown.fold + 1))
    assert np.array_equal(of_a_fold, classes.label_table(shown))


# ---- when labels are predicted


def test_prediction_every_few_slots_keeps_the_last_label(fitted: EquivalenceClasses, four_kinds: Population) -> None:
    shown = windows(four_kinds, 18)
    demand = np.random.default_rng(0).integers(1, 7, shown.demand.shape).astype(float)
    shown = replace(shown, demand=demand, metadata=np.full_like(shown.metadata, np.nan))
    every, rarely = fitted.label_table(shown), fitted.label_table(shown, 4)
    for seen in range(1, 19):  # predicted after 1, 5, 9, ... slots
        assert np.array_equal(rarely[:, :, seen], every[:, :, seen - (seen - 1) % 4])
    assert np.array_equal(rarely[:, :, 0], every[:, :, 0])
    assert not np.array_equal(rarely, every)


def test_a_workload_is_labelled_as_long_as_it_runs(fitted: EquivalenceClasses, four_kinds: Population) -> None:
    length = np.tile([5, 20, 1, 12], 8)[None]
    label = fitted.label_table(replace(windows(four_kinds, 20), length=length), 3)
    runs = np.arange(21) <= length[0, :, None]
    assert (label[0][runs] >= 1).all()
    assert (label <= fitted.k).all()


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_round_trip(name: str, four_kinds: Population, tmp_path: Path) -> None:
    shown = windows(four_kinds)
    classes = EquivalenceClasses(name, 3, 4).fit(four_kinds, examples=600)
    classes.save(tmp_path / "classes.json")
    copy = EquivalenceClasses.load(tmp_path / "classes.json")
    assert json.dumps(copy.to_dict()) == json.dumps(classes.to_dict())
    assert np.array_equal(copy.label_table(shown), classes.label_table(shown))
    assert np.array_equal(copy.predict(four_kinds.series), classes.predict(four_kinds.series))


def test_the_same_random_state_gives_the_same_classes(four_kinds: Population) -> None:
    made = [EquivalenceClasses("temporal", 4, 2).fit(four_kinds, examples=400) for _ in range(2)]
    assert json.dumps(made[0].to_dict()) == json.dumps(made[1].to_dict())


def test_classes_take_any_seed(four_kinds: Population) -> None:
    classes = EquivalenceClasses("temporal", 4, 2, random_state=5_000_000_000)
    classes.cluster(four_kinds)
    assert classes.k == 4


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_odd_populations(name: str, make_population: Callable[..., Population]) -> None:
    flat = [np.full((60, 2), level) for level in (2.0, 1.0, 2.0, 1.0, 2.0)]
    with pytest.warns(UserWarning, match="6 classes were requested, but only 2 of 5 workloads are distinct"):
        classes = EquivalenceClasses(name, 6, 2).fit(make_population(flat), examples=200)
    assert (classes.k, classes.labels_.tolist()) == (2, [2, 1, 2, 1, 2])
    with pytest.warns(UserWarning, match="only 1 of 1 workloads are distinct"):
        one = EquivalenceClasses(name, 6, 2).fit(make_population(flat[:1]), examples=200)
    assert (one.k, one.labels_.tolist()) == (1, [1])
    assert one.predict([np.full((9, 2), 5.0)]).tolist() == [1]
    assert (one.label_table(windows(make_population(flat[:1]), 10)) == 1).all()
    zero = make_population([np.zeros((60, 2)), *flat[:3], np.ones((60, 2)) * np.arange(60)[:, None] / 10])
    everything = EquivalenceClasses(name, 2, 4).fit(zero, examples=200)
    assert set(everything.labels_) == {1, 2}
    alone = EquivalenceClasses(name, 1).fit(zero, examples=200)
    assert set(alone.labels_) == {1}
    with pytest.raises(InputError, match="ask for fewer classes"):
        EquivalenceClasses(name).fit(make_population(flat))
    gap = np.ones((60, 2))
    gap[7, 1] = np.nan
    with pytest.raises(InputError, match=r"workload 1.*7"):
        EquivalenceClasses(name, 2).fit(make_population([np.ones((60, 2)), gap]))


def test_series_shorter_than_the_longest_lag(make_population: Callable[..., Population]) -> None:
    rng = np.random.default_rng(0)
    short = make_population([rng.uniform(0, 6, (length, 2)) for length in (1, 2, 3, 5, 8, 20, 30, 47)])
    classes = EquivalenceClasses("temporal", 3, 4).fit(short, examples=400)
    assert len(classes.labels_) == 8
    assert np.isfinite(classes.representation_.scaled_).all()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no classes file .*make one with tvwrl classes"),
        ("{", "not JSON"),
        ("[1]", "not a classes file of format 2"),
        ('{"format": 7}', r"format 2 \(format: 7\); make it again with"),
        ('{"format": 2, "asked": {}}', "damaged: KeyError 'k'"),
    ],
)
def test_files_that_are_none(content: str | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "classes.json").write_text(content)
    with pytest.raises(InputError, match=message):
        EquivalenceClasses.load(tmp_path / "classes.json")


def test_classes_of_another_trace(fitted: EquivalenceClasses, google: Trace) -> None:
    with pytest.raises(InputError, match=r"made with resources \['cpu', 'mem'\], but here it is \['cpu', 'gpu'\]"):
        fitted.check_fits(replace(google, resources=("cpu", "gpu")), Scenario())
    with pytest.raises(InputError, match="made with step_seconds 1800, but here it is 300"):
        fitted.check_fits(google, Scenario(step_seconds=300))
    fitted.check_fits(google, Scenario())
    for made, scenario, warning in (
        ({"trace": "home", "hash": "1"}, Scenario(), r"made of another trace \('home'\)"),
        ({"of": "all"}, Scenario(), "of all workloads, those of the test sequences too"),
        ({}, Scenario(peak_units=3), "made with peak_units 6, but here it is 3"),
        ({}, Scenario(quantise=False), "made with quantised True, but here it is False"),
    ):
        other = EquivalenceClasses.from_dict(fitted.to_dict())
        other.fitted_on_ = fitted.fitted_on_ | made
        with pytest.warns(UserWarning, match=warning):
            other.check_fits(google, scenario)
    other.fitted_on_ = fitted.fitted_on_ | {"split": "workloads"}
    with pytest.raises(InputError, match="made with split workloads, but here it is time"):
        other.check_fits(google, Scenario(split="time"))


def test_damaged_content_is_refused(fitted: EquivalenceClasses, tmp_path: Path) -> None:
    good = fitted.to_dict()
    weights = good["classifier"]["layers"]
    for damaged in (
        good | {"k": 2},
        good | {"fitted": good["fitted"] | {"centres": good["fitted"]["centres"][:3]}},
        good | {"fitted_on": {}},
        {name: value for name, value in good.items() if name != "fold_classifiers"},
        good | {"fold_classifiers": {"7": good["classifier"]}},
        good | {"fold_classifiers": {"0": good["classifier"] | {"layers": weights[:2]}}},
        good | {"fold_classifiers": [good["classifier"]]},
        good | {"classifier": good["classifier"] | {"layers": weights[:2]}},
        good | {"classifier": good["classifier"] | {"shift": [0.0]}},
        good | {"classifier": good["classifier"] | {"width": [float("nan")] * len(good["classifier"]["width"])}},
    ):
        (tmp_path / "classes.json").write_text(json.dumps(damaged))
        with pytest.raises(InputError, match="is damaged"):
            EquivalenceClasses.load(tmp_path / "classes.json")


def test_parameters_are_those_of_an_estimator() -> None:
    copy = clone(EquivalenceClasses("dtw", 4, radius=3, random_state=5_000_000_000))
    assert (copy.representation, copy.n_classes, copy.radius) == ("dtw", 4, 3)
    assert clone(RuntimeClassifier(hidden=8)).hidden == 8


def test_without_rounding_the_classifier_learns_fractions(four_kinds: Population) -> None:
    exact = EquivalenceClasses("temporal", 4, 4).fit(replace(four_kinds, quantised=False), examples=2000)
    assert exact.classifier_.shown(np.array([[0.2, 7.0]])).tolist() == [[0.2, 6.0]]
    demand = np.array([np.minimum(one[:60], 6) for one in four_kinds.series])[None]
    label = exact.label_table(replace(windows(four_kinds), demand=demand))
    assert (label[0, :, 60] == exact.labels_).mean() > 0.9


def test_own_labels(four_kinds: Population) -> None:
    own = OwnLabels(5)
    label = own.label_table(windows(four_kinds).reshape(4, 8))
    assert label.shape == (4, 8, 61)
    assert label[0, :7, 3].tolist() == [1, 2, 3, 4, 5, 1, 2]
    assert (label == label[:, :, :1]).all()
    assert classes_from(own.to_dict()).k == 5


def test_given_labels_are_those_of_the_workload(four_kinds: Population) -> None:
    given = GivenLabels(np.array([2, 1, 3]))
    shown = replace(windows(four_kinds, 5)[0][:4].reshape(2, 2), series=np.array([[0, 1], [2, 0]]))
    label = given.label_table(shown)
    assert label.shape == (2, 2, 6)
    assert label[:, :, 3].tolist() == [[2, 1], [3, 2]]
    assert (label == label[:, :, :1]).all()
    assert classes_from(given.to_dict()).label_table(shown).tolist() == label.tolist()


def test_classes_of_a_problem(problem: Problem) -> None:
    assert problem.classes.representation == DEFAULT_CLASSES
    assert problem.classes.n_classes is None  # as many as the silhouette chooses
    assert 3 <= problem.classes.k <= 15
    population = population_of(problem.sampler)
    workloads = {run.workload for run in problem.sampler.runs["train"]}
    assert set(population.workload_id) == set(problem.trace.workload_id[sorted(workloads)])
    # By hand: the first training series in half-hours of units.
    first = population.series[0]
    whole = problem.trace.series(list(problem.trace.workload_id).index(population.workload_id[0]))
    assert first[0] == pytest.approx(whole[:6].mean(axis=0) / problem.sampler.unit)
    assert population.slots_per_day == 48


def test_none_and_other_representations(problem: Problem) -> None:
    assert isinstance(Problem.build(problem.trace, problem.scenario, "none").classes, OwnLabels)
    made = Problem.build(problem.trace, replace(problem.scenario, classes=5), "temporal").classes
    assert isinstance(made, EquivalenceClasses)
    assert (made.representation, made.k) == ("temporal", 5)


def test_applications_are_the_same_in_another_order() -> None:
    trace = open_trace("synthetic:google(workloads=40,replicas=4)")
    name = dict(zip(trace.workload_id, trace.application, strict=True))
    again = np.argsort(trace.workload_id)[::-1]
    parts = [np.arange(trace.offsets[i], trace.offsets[i + 1]) for i in again]
    rows = np.concatenate(parts)
    other = replace(
        trace,
        offsets=np.concatenate([[0], np.cumsum([len(part) for part in parts])]),
        slot=trace.slot[rows],
        usage=trace.usage[rows],
        **{f: getattr(trace, f)[again] for f in BY_WORKLOAD},
    )
    one, two = (population_of(SequenceSampler(each, Scenario())) for each in (trace, other))
    assert one.workload_id.tolist() == two.workload_id.tolist()
    assert one.application is not None
    assert two.application is not None
    assert one.application.tolist() == two.application.tolist()
    owner = [name[workload] for workload in one.workload_id]
    assert len({*zip(owner, one.application.tolist(), strict=True)}) == len(set(owner)) == one.application.max() + 1


def test_a_series_under_two_names_is_one_application() -> None:
    trace = synthetic_trace("google", workloads=40, days=3)
    assert population_of(SequenceSampler(trace, Scenario())).application is None
    usage = trace.usage.copy()
    length = int(trace.offsets[1])
    usage[length:] = np.tile(usage[:length], (39, 1))  # all the same
    usage[20 * length :] += 0.01  # half of them another
    usage[39 * length :] = 0.2  # one is constant
    twice = population_of(SequenceSampler(replace(trace, usage=usage), Scenario()))
    assert twice.application is not None
    place = {name: i for i, name in enumerate(trace.workload_id)}
    kind = [0 if place[name] < 20 else 2 if place[name] == 39 else 1 for name in twice.workload_id]
    assert len({*zip(kind, twice.application.tolist(), strict=True)}) == len(set(kind))
