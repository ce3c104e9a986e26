"""The run-time classifier: its inputs by hand, what it learns, and its report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

from tvwrl.ec import Population
from tvwrl.ec.classifier import SEEN, WINDOWS, ClassifierReport, Interval, RuntimeClassifier, report_classifier
from tvwrl.forecasting.beginnings import PER_RESOURCE, prefix_features


def test_features_of_beginnings_by_hand() -> None:
    features = prefix_features(np.array([[[1.0], [3.0], [2.0]]]))
    assert features.shape == (1, 4, 1 + PER_RESOURCE)
    assert (features[0, 0] == 0).all()
    mean, std, least, most, change, slope, together, last, *recent = features[0, 3, 1:]
    assert (mean, least, most, last) == (2.0, 1.0, 3.0, 2.0)
    assert std == pytest.approx(np.sqrt(2 / 3))
    assert change == pytest.approx((2 + 1) / 2)
    assert slope == pytest.approx(0.5)  # least squares through (1, 1), (2, 3), (3, 2)
    assert together == pytest.approx(0.75)  # ((1 * 3 + 3 * 2) / 2 - 4) / (2 / 3)
    assert recent == [3.0, 1.0, 0.0, 0.0]


def test_features_say_nothing_of_the_future() -> None:
    rng = np.random.default_rng(0)
    demand = rng.integers(1, 7, (5, 30, 2)).astype(float)
    whole = prefix_features(demand)
    for seen in (0, 1, 2, 13, 30):
        assert np.allclose(prefix_features(demand[:, :seen])[:, -1], whole[:, seen])
    assert np.isfinite(whole).all()


def test_layers_are_those_of_scikit_learn() -> None:
    """Our forward pass, without scikit-learn, gives its probabilities."""
    rng = np.random.default_rng(1)
    inputs, labels = rng.normal(size=(300, 5)), rng.integers(1, 4, 300)
    for k in (3, 2):
        classifier = RuntimeClassifier(hidden=8, epochs=3)
        classifier.classes_ = np.arange(1, k + 1)
        labels = np.minimum(labels, k)
        classifier.layers_ = classifier._train(inputs, labels)
        peer = MLPClassifier((8, 8), batch_size=300, learning_rate_init=3e-3, max_iter=3, random_state=0)
        with pytest.warns(UserWarning, match="Maximum iterations"):
            peer.fit(inputs, labels)
        classifier.shift_, classifier.width_ = np.zeros(5), np.ones(5)
        ours = classifier.predict_proba(np.zeros((300, 0)), inputs)
        assert np.allclose(ours, peer.predict_proba(inputs))


def test_report(four_kinds: Population) -> None:
    labels, counted = np.repeat([1, 4, 2, 3], 8), []
    report = report_classifier(four_kinds, labels, splits=3, progress=lambda: counted.append(1))
    assert report is not None
    assert (report.workloads, report.splits, len(counted)) == (8, 3, 3)
    assert report.confusion.shape == (4, 4)
    assert report.confusion.sum() == 3 * 8 * 8 * len(report.seen) == sum(report.counts)
    assert report.accuracy[-1].mean > 0.9
    assert report.commonest == 0.25
    assert report.advantage.mean > 0.5
    assert report.recognisable
    assert 0 <= report.calibration_error <= 1
    again = report_classifier(four_kinds, labels, splits=3)
    assert again is not None
    assert again.to_dict() == report.to_dict() == ClassifierReport.from_dict(report.to_dict()).to_dict()
    # Labels that mean nothing cannot be learnt: far from sure, and no better than guessing.
    meaningless = report_classifier(four_kinds, np.random.default_rng(0).permutation(labels), splits=5)
    assert meaningless is not None
    assert not meaningless.recognisable
    assert report_classifier(four_kinds.select([0, 8]), np.array([1, 2])) is None


def test_one_of_a_class_of_two_is_held_out(four_kinds: Population) -> None:
    report = report_classifier(four_kinds.select([0, 1, 8, 9]), np.array([1, 1, 2, 2]), splits=2)
    assert report is not None
    assert report.workloads == 2


def test_whole_applications_are_held_out(four_kinds: Population) -> None:
    labels = np.repeat([1, 2, 3, 4], 8)
    # Two kinds in every application: kinds are recognised. An application of each kind: others tell nothing of it.
    mixed = report_classifier(replace(four_kinds, application=np.arange(32) % 16), labels, splits=3)
    alone = report_classifier(replace(four_kinds, application=labels), labels, splits=3)
    assert mixed is not None
    assert alone is not None
    assert mixed.recognisable
    assert mixed.accuracy[-1].mean > 0.9
    assert (alone.accuracy[-1].mean, alone.workloads, alone.recognisable) == (0, 8, False)
    assert report_classifier(replace(four_kinds, application=np.zeros(32, np.int64)), labels) is None
    uneven = np.r_[np.zeros(22, np.int64), np.arange(1, 11)]  # a large one, which some splits hold out
    many = report_classifier(replace(four_kinds, application=uneven), labels, splits=10)
    assert many is not None
    assert many.workloads == round(many.confusion.sum() / WINDOWS / len(SEEN) / 10)


def test_intervals_by_hand() -> None:
    # Mean 0.5, variance 0.02; corrected by 1/2 + 0.3 / 0.7; the quantile of Student's t with one degree of freedom.
    found = Interval.over_splits(np.array([0.4, 0.6, np.nan]), 10, 0.3)
    reach = 12.706204736 * np.sqrt((1 / 2 + 3 / 7) * 0.02)
    assert found == pytest.approx((0.5, 0.5 - reach, 0.5 + reach))
    assert Interval.over_splits(np.array([0.4]), 10)[0] == 0.4
    assert np.isnan(Interval.over_splits(np.array([0.4]), 10)[1])
    assert np.isnan(Interval.over_splits(np.array([np.nan]), 10)).all()
    assert Interval.over_splits(np.array([0.4, 0.4]), 12) == pytest.approx((0.4, 0.15, 0.65))  # 3 of 12 more, or less
    assert Interval.over_splits(np.array([0.4, 0.4]), 2) == pytest.approx((0.4, -0.6, 1.4))  # no more than everything
    assert Interval.from_list(found.to_list()) == found
