"""The choice by evidence: the rule by hand, what is kept after an interruption, and clear kinds from end to end."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tvwrl.ec import EquivalenceClasses, Population, comparison
from tvwrl.ec.classifier import ClassifierReport, Interval
from tvwrl.ec.comparison import Candidate, _choose, compare
from tvwrl.ec.linear_gain import LinearGain
from tvwrl.ec.stability import Stability
from tvwrl.forecasting import ForecastSettings
from tvwrl.types import Int

QUICK = ForecastSettings(window=12, horizon=1, folds=2)


def candidate(
    name: str, ari: float = 0.9, low: float = 0.1, gain: float = 0.1, better: int = 0, last: float = 0.1
) -> Candidate:
    """A representation with an index, an interval of the advantage from `low`, a gain, and random divisions out of 99
    that gain more."""
    told = ClassifierReport([0], [Interval(0.5, 0.4, 0.6)], 0.3, Interval(low + 0.1, low, low + 0.2),
                            np.ones((2, 2), np.int64), [0.5], [0.5], [4], 4, 10)  # fmt: skip
    linear = LinearGain(0.5 + gain, 0.5, last, (0.0,) * (99 - better) + (1.0,) * better, 12, 1)
    return Candidate(EquivalenceClasses(name), {}, Stability((1.0, 1.0), (ari, ari)), told, linear)


def test_classes_help_only_with_all_of_the_evidence() -> None:
    assert candidate("dtw").objections(3) == []
    for least in (
        {"ari": 0.79},
        {"low": -0.01},
        {"low": 0.0},
        {"gain": 0.0},
        {"gain": -0.1},
        {"better": 1},  # p = 0.02, more than 0.05 / 3
        {"last": 0.6},
    ):
        assert len(candidate("dtw", **least).objections(3)) == 1, least
    assert candidate("dtw", better=1).objections(1) == []  # nothing else was tried
    [said] = candidate("dtw", better=1).objections(3)
    assert "(p = 0.020; at most 0.017 with 3 representations tried)" in said  # as in the table
    assert "(p = 0.100; at most 0.050 with 1 representation tried)" in candidate("dtw", better=9).objections(1)[0]
    assert len(candidate("dtw", ari=0.1, low=-0.5, gain=-1.0).objections(3)) == 3


def test_the_highest_gain_of_those_that_help() -> None:
    found = _choose(
        [candidate("aggregate", gain=0.1), candidate("dtw", gain=0.2), candidate("temporal", 0.5, gain=9)], None
    )
    assert found.chosen.name == "dtw"
    assert found.helps


def test_no_classes_is_an_answer_and_the_most_recognisable_stable_ones_are_shown() -> None:
    found = _choose(
        [candidate("aggregate", gain=-1), candidate("dtw", gain=-1, low=0.3), candidate("temporal", 0.5)], None
    )
    assert found.chosen.name == "dtw"
    assert not found.helps
    unstable = _choose([candidate("aggregate", 0.3), candidate("temporal", 0.6)], None)
    assert unstable.chosen.name == "temporal"
    assert "least unstable" in unstable.why
    unknown = _choose([candidate("aggregate", 0.9, low=-1), candidate("temporal", 0.95, low=-1)], None)
    assert unknown.chosen.name == "temporal"
    wanted = _choose([candidate("aggregate"), candidate("temporal", 0.5)], "temporal")
    assert (wanted.chosen.name, wanted.helps) == ("temporal", False)
    equal = _choose([candidate("temporal"), candidate("aggregate")], None)
    assert equal.chosen.name == "aggregate"  # the cheapest


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, and few of everything."""
    monkeypatch.setenv("TVWRL_CACHE", str(tmp_path / "kept"))
    monkeypatch.setattr(comparison, "report_classifier", partial(comparison.report_classifier, splits=2))


def test_what_was_measured_is_kept_when_interrupted(
    kept: None, four_kinds: Population, monkeypatch: pytest.MonkeyPatch
) -> None:
    makes = [partial(EquivalenceClasses, name, None, 2, None, (3, 4, 5)) for name in ("aggregate", "temporal")]
    clustered: list[str] = []
    usual = EquivalenceClasses.cluster
    with monkeypatch.context() as patch:
        patch.setattr(EquivalenceClasses, "cluster", _recording(usual, clustered, stop_at="temporal"))
        with pytest.raises(KeyboardInterrupt):
            compare(four_kinds, makes, QUICK)
    with monkeypatch.context() as patch:
        patch.setattr(EquivalenceClasses, "cluster", _recording(usual, clustered))
        found = compare(four_kinds, makes, QUICK)
    assert clustered == ["aggregate", "temporal", "temporal"]
    # What came from disk is what a call without it finds.
    monkeypatch.setenv("TVWRL_CACHE", "off")
    anew = compare(four_kinds, makes, QUICK)
    for one, other in zip(found.candidates, anew.candidates, strict=True):
        first, second = one.to_dict(), other.to_dict()
        assert first | {"seconds": 0} == second | {"seconds": 0}
        assert np.array_equal(one.classes.labels_, other.classes.labels_)
        assert np.array_equal(one.classes.predict(four_kinds.series), one.classes.labels_)
    assert found.chosen.name == anew.chosen.name


def test_lstnet_goes_on_with_the_class_at_which_it_was_interrupted(
    kept: None, four_kinds: Population, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tvwrl.ec import prediction_gain

    settings = replace(QUICK, steps=2, batch=8, min_class=2)
    makes = [partial(EquivalenceClasses, "aggregate", 4, 2)]
    trained: list[tuple[int, ...]] = []
    usual = prediction_gain.train_forecaster

    def train(windows: object, training: Int, settings: object, number: int) -> object:
        if len(trained) == stop_after:
            raise KeyboardInterrupt
        trained.append((number, *training))
        return usual(windows, training, settings, number)  # type: ignore[arg-type]

    def gains() -> list[dict[str, object] | None]:
        candidates = comparison.clustered(four_kinds, makes)
        chance = comparison.network_gains(four_kinds, candidates, settings)
        return [None if found is None else found.to_dict() for found in (candidates[0].gain, chance)]

    monkeypatch.setattr(prediction_gain, "train_forecaster", train)
    stop_after = 5  # two folds of all workloads, two of the first class, one of the second
    with pytest.raises(KeyboardInterrupt):
        gains()
    stop_after = -1
    found = gains()
    again = [models for models in trained if trained.count(models) > 1]
    assert again == [trained[4]] * 2  # the fold after which the second class was interrupted
    before = len(trained)
    assert gains() == found
    assert len(trained) == before
    monkeypatch.setenv("TVWRL_CACHE", "off")
    for one, other in zip(found, gains(), strict=True):
        assert one is not None
        assert other is not None
        assert one | {"seconds": 0, "agnostic_seconds": 0} == other | {"seconds": 0, "agnostic_seconds": 0}


def _recording(usual: object, names: list[str], stop_at: str = "") -> object:
    def cluster(self: EquivalenceClasses, *rest: object) -> None:
        names.append(self.representation)
        if self.representation == stop_at:
            raise KeyboardInterrupt
        usual(self, *rest)  # type: ignore[operator]

    return cluster


def test_clear_kinds_from_end_to_end(kept: None, four_kinds: Population) -> None:
    found = compare(four_kinds, [partial(EquivalenceClasses, "dtw", None, 3, None, (3, 4, 5))], QUICK)
    judged = found.chosen
    assert judged.classes.k == 4
    assert judged.stability is not None
    assert judged.stability.stable
    assert judged.recognition is not None
    assert judged.recognition.recognisable
    assert set(judged.seconds) == {"clustering", "stability", "recognition", "gain"}


def test_series_too_short_to_forecast_have_classes_all_the_same(kept: None, four_kinds: Population) -> None:
    short = replace(four_kinds, series=[one[:20] for one in four_kinds.series])
    found = compare(short, [partial(EquivalenceClasses, "aggregate", None, 2, None, (3, 4))], QUICK)
    assert found.chosen.linear is None
    assert not found.helps
    assert any("too short" in reason for reason in found.chosen.objections(1))
