"""Classes by level and variability: order, what labels may depend on, and the round trip."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tvwrl.ec import LevelVariabilityClasses
from tvwrl.envs.problem import Problem
from tvwrl.types import InputError

# Four kinds, five of each: low, high, middle, and middle on average but going up and down; lengths differ.
KINDS = ([1.0, 1.0], [6.0, 6.0], [3.0, 3.0], [3.5, 3.5])


def four_kinds() -> tuple[list[np.ndarray], np.ndarray]:
    """Demand and requests of twenty workloads, kind after kind; requests are the level plus one."""
    demand = []
    for kind, level in enumerate(KINDS):
        for i in range(5):
            slots = np.tile(level, (10 + 2 * i, 1)) + 0.01 * i
            if kind == 3:
                slots[::2] += 2.0
                slots[1::2] -= 2.0
            demand.append(slots)
    return demand, np.array([d.mean(axis=0) + 1 for d in demand])


@pytest.fixture(scope="module")
def fitted() -> LevelVariabilityClasses:
    return LevelVariabilityClasses(4).fit(*four_kinds())


def padded(demand: list[np.ndarray], slots: int) -> tuple[np.ndarray, np.ndarray]:
    """(1, N, slots, D) demand and (1, N) lengths."""
    table = np.zeros((1, len(demand), slots, 2))
    for i, own in enumerate(demand):
        table[0, i, : len(own)] = own
    return table, np.array([[len(own) for own in demand]])


def test_labels_are_ordered_by_level(fitted: LevelVariabilityClasses) -> None:
    # Low 1, high 4; the varying ones have the higher mean of the two in the middle.
    assert fitted.labels_.tolist() == [1] * 5 + [4] * 5 + [2] * 5 + [3] * 5
    assert fitted.k == 4
    assert fitted.predict(four_kinds()[0]).tolist() == fitted.labels_.tolist()
    # By hand: steady 5.5 is nearest to high; 3.2 going up and down by 2 to the varying ones.
    steady, varying = np.full((6, 2), 5.5), np.full((6, 2), 3.2)
    varying[::2] += 2
    varying[1::2] -= 2
    assert fitted.predict([steady, varying]).tolist() == [4, 3]


def test_order_of_the_workloads_does_not_change_the_meaning_of_labels() -> None:
    demand, request = four_kinds()
    order = np.random.default_rng(0).permutation(20)
    shuffled = LevelVariabilityClasses(4, random_state=3).fit([demand[i] for i in order], request[order])
    assert shuffled.labels_.tolist() == [([1] * 5 + [4] * 5 + [2] * 5 + [3] * 5)[i] for i in order]


def test_units_do_not_matter() -> None:
    demand, request = four_kinds()
    scale = np.array([1.0, 250.0])  # as in sklearn's KMeans on raw values, mem would otherwise decide alone
    scaled = LevelVariabilityClasses(4).fit([d * scale for d in demand], request * scale)
    assert scaled.labels_.tolist() == LevelVariabilityClasses(4).fit(demand, request).labels_.tolist()


def test_classes_of_a_population_are_ordered_by_level(problem: Problem) -> None:
    classes = problem.classes
    level = (classes.centres_ * classes.scale_[1] + classes.scale_[0])[:, :2].sum(axis=1)
    assert classes.k == 6
    assert (np.diff(level) > 0).all()
    assert set(classes.labels_) == {1, 2, 3, 4, 5, 6}


def test_labels_of_the_table_are_predictions_from_what_was_seen(fitted: LevelVariabilityClasses) -> None:
    demand, request = four_kinds()
    table, length = padded(demand, 20)
    label = fitted.label_table(table, length, request[None])
    assert label.shape == (1, 20, 21)
    assert label.dtype == np.uint8
    for i, own in enumerate(demand):
        expected = [fitted.predict([own[:seen]])[0] for seen in range(1, len(own) + 1)]
        assert label[0, i, 1 : len(own) + 1].tolist() == expected
    # One slot says nothing about variability: a varying workload begins at 5.5, near the high ones.
    assert label[0, 15, [1, 2]].tolist() == [4, 3]


def test_the_future_changes_no_label_before(fitted: LevelVariabilityClasses) -> None:
    demand, request = four_kinds()
    table, length = padded(demand, 20)
    before = fitted.label_table(table, length, request[None])
    for seen in (0, 1, 4, 9):
        other = table.copy()
        other[:, :, seen:] = 6.0 - other[:, :, seen:]
        other_length = np.full_like(length, 20)
        after = fitted.label_table(other, other_length, request[None])
        assert np.array_equal(after[:, :, : seen + 1], before[:, :, : seen + 1])
        assert not np.array_equal(after, before)


def test_prediction_every_few_slots_keeps_the_last_label(fitted: LevelVariabilityClasses) -> None:
    demand, request = four_kinds()
    table, length = padded(demand, 18)
    every = fitted.label_table(table, length, request[None])
    rarely = LevelVariabilityClasses.from_dict({**fitted.to_dict(), "relabel_every": 4})
    label = rarely.label_table(table, length, request[None])
    for seen in range(1, 19):
        # Predicted after 1, 5, 9, ... slots.
        assert np.array_equal(label[:, :, seen], every[:, :, seen - (seen - 1) % 4])
    assert np.array_equal(label[:, :, 0], every[:, :, 0])
    assert not np.array_equal(label, every)


def test_waiting_workloads_are_labelled_by_their_request(fitted: LevelVariabilityClasses) -> None:
    nan = np.nan
    # Mean requests of the classes are 2, 4, 4.5 and 7 (plus 0.02).
    request = np.array([[1.5, 2.1], [9.0, 9.0], [4.1, 3.9], [nan, 6.5], [nan, nan]])
    # What is not declared does not count; nothing declared at all is the largest class, here the first of equals.
    assert fitted.predict_metadata(request).tolist() == [1, 4, 2, 4, 1]
    table, length = padded([np.full((3, 2), 6.0)] * 5, 3)
    assert fitted.label_table(table, length, request[None])[0, :, 0].tolist() == [1, 4, 2, 4, 1]


def test_unknown_requests_get_the_largest_class() -> None:
    demand, _ = four_kinds()
    demand = [*demand, *[d + 0.05 for d in demand[5:10]]]  # more high ones than others
    nothing = np.full((25, 2), np.nan)
    classes = LevelVariabilityClasses(4).fit(demand, nothing)
    assert classes.labels_.tolist()[5:10] == [4] * 5
    # Requests were never known, so even a declared one tells nothing.
    assert classes.predict_metadata(np.array([[1.0, 1.0], [np.nan, 2.0]])).tolist() == [4, 4]


def test_a_class_without_requests_is_not_chosen_by_one() -> None:
    demand, request = four_kinds()
    request[10:15] = np.nan  # those of the second class
    classes = LevelVariabilityClasses(4).fit(demand, request)
    assert classes.predict_metadata(np.array([[4.0, 4.0]])).tolist() == [3]


def test_round_trip(fitted: LevelVariabilityClasses, problem: Problem) -> None:
    demand, request = four_kinds()
    request[10:15] = np.nan  # a class whose requests are unknown
    for classes in (fitted, problem.classes, LevelVariabilityClasses(4).fit(demand, request)):
        copy = LevelVariabilityClasses.from_dict(json.loads(json.dumps(classes.to_dict())))
        assert json.dumps(copy.to_dict()) == json.dumps(classes.to_dict())
        rng = np.random.default_rng(0)
        table, length = rng.uniform(0, 6, (2, 30, 8, 2)), rng.integers(1, 9, (2, 30))
        asked = np.where(rng.random((2, 30, 2)) < 0.3, np.nan, rng.uniform(0, 9, (2, 30, 2)))
        labels = [one.label_table(table, length, asked) for one in (classes, copy)]
        assert np.array_equal(*labels)
        assert len(np.unique(labels[0])) > 2
        assert copy.k == classes.k


def test_the_same_random_state_gives_the_same_classes() -> None:
    rng = np.random.default_rng(0)
    demand = [rng.uniform(0, 6, (12, 2)) for _ in range(60)]
    first, again = (LevelVariabilityClasses(5, random_state=1).fit(demand, np.zeros((60, 2))) for _ in range(2))
    assert np.array_equal(first.labels_, again.labels_)
    assert np.array_equal(first.centres_, again.centres_)


@pytest.mark.filterwarnings("error")
def test_fewer_kinds_than_classes() -> None:
    demand = [np.full((4, 2), level) for level in (5.0, 1.0, 5.0, 1.0, 5.0)]
    classes = LevelVariabilityClasses(6).fit(demand, np.array([[5.0, 5.0], [1, 1]] * 2 + [[5, 5]]))
    assert classes.k == 2
    assert classes.labels_.tolist() == [2, 1, 2, 1, 2]
    assert classes.largest_ == 2
    # Equal workloads of unequal lengths, whose means differ by rounding at most, are one kind too.
    tenths = [np.full((slots, 2), level) for slots in (3, 6, 7, 10) for level in (0.1, 0.7)]
    classes = LevelVariabilityClasses(6).fit(tenths, np.full((8, 2), np.nan))
    assert (classes.k, classes.labels_.tolist()) == (2, [1, 2] * 4)
    one = LevelVariabilityClasses(6).fit([np.full((4, 2), 3.0)], np.full((1, 2), np.nan))
    assert (one.k, one.labels_.tolist()) == (1, [1])
    assert one.predict([np.full((2, 2), 6.0)]).tolist() == [1]


def test_no_workloads_is_an_error() -> None:
    with pytest.raises(InputError, match="the set of training workloads is empty"):
        LevelVariabilityClasses().fit([], np.zeros((0, 2)))
