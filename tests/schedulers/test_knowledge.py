"""A declared request is what a cluster has, a true lifetime peak a piece of the future: tables tell them apart."""

from dataclasses import replace

import pytest

from tvwrl.agents.deeprm import DeepRM
from tvwrl.forecasting import NetworkForecaster
from tvwrl.schedulers import GROUPS, KNOWLEDGE
from tvwrl.schedulers.knowledge import (
    CURRENT_LOAD,
    FORECASTS,
    FORECASTS_AND_PAST,
    FORECASTS_AND_PEAKS,
    FUTURE,
    PEAKS,
    REQUESTS,
    knowing_no_more,
    knowledge_of,
    known_by,
    together,
)
from tvwrl.simulation.scenario import Scenario

HISTORY = CURRENT_LOAD.group


def test_peaks_and_forecasts_do_not_include_each_other():
    assert knowing_no_more(HISTORY) == (HISTORY,)
    assert knowing_no_more(REQUESTS.group) == (HISTORY, REQUESTS.group)
    assert knowing_no_more(PEAKS.group) == (HISTORY, REQUESTS.group, PEAKS.group)
    assert knowing_no_more(FORECASTS.group) == (HISTORY, REQUESTS.group, FORECASTS.group)
    past = FORECASTS_AND_PAST.group
    assert knowing_no_more(past) == (HISTORY, REQUESTS.group, FORECASTS.group, past)
    both = FORECASTS_AND_PEAKS.group
    assert knowing_no_more(both) == (HISTORY, REQUESTS.group, PEAKS.group, FORECASTS.group, both)
    assert knowing_no_more(FUTURE.group) == GROUPS


@pytest.mark.parametrize("known", GROUPS)
def test_what_is_known_to_those_who_know_no_more_is_known(known):
    """The relation holds for itself and through a third."""
    below = knowing_no_more(known)
    assert known in below
    assert all(set(knowing_no_more(other)) <= set(below) for other in below)


def test_true_peaks_are_not_shown_as_requests():
    of_peaks = {name for name, knows in KNOWLEDGE.items() if knows.group == PEAKS.group}
    assert of_peaks >= {"best-fit-peak", "first-fit-peak", "worst-fit-peak", "tetris", "lrasched-peak"}
    assert KNOWLEDGE["lrasched-request"].group == REQUESTS.group
    assert DeepRM.knowledge.group == PEAKS.group
    assert "privilege" in PEAKS.group


@pytest.mark.parametrize(
    ("shown", "like"),
    [
        ({}, CURRENT_LOAD),
        ({"observe_request": True}, REQUESTS),
        ({"observe_peak": True}, PEAKS),
        ({"observe_request": True, "observe_peak": True}, PEAKS),
        ({"observe_forecast": True}, FORECASTS),
        ({"observe_request": True, "observe_forecast": True}, FORECASTS),
        ({"observe_forecast": True, "observe_peak": True}, FORECASTS_AND_PEAKS),
    ],
)
def test_agents_are_grouped_by_what_they_are_shown(shown, like):
    assert knowledge_of(replace(Scenario(observe_request=False), **shown)).group == like.group


def test_forecasts_from_earlier_usage_are_a_group_of_their_own():
    """Only where the forecaster looks at it; whether the scenario would tell it does not matter."""
    told = Scenario(own_past=True, observe_forecast=True)
    plain, looking = NetworkForecaster(), NetworkForecaster()
    looking.informed_ = NetworkForecaster(past=True)
    assert known_by(looking, FORECASTS).group == knowledge_of(told, looking).group == FORECASTS_AND_PAST.group
    assert known_by(looking, known_by(looking, FORECASTS_AND_PEAKS)) == known_by(looking, FORECASTS_AND_PEAKS)
    assert known_by(plain, FORECASTS) == known_by(None, FORECASTS) == FORECASTS
    assert known_by(looking, PEAKS) == PEAKS
    assert knowledge_of(told, plain).group == knowledge_of(told).group == FORECASTS.group


@pytest.mark.parametrize("forecasts", [FORECASTS, FORECASTS_AND_PAST])
def test_peaks_beside_forecasts_of_any_kind_are_a_privilege(forecasts):
    assert together(forecasts, PEAKS).group == together(PEAKS, forecasts).group == FORECASTS_AND_PEAKS.group
    assert together(forecasts, CURRENT_LOAD).group == forecasts.group
