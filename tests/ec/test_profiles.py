"""What classes look like over a day: hours, quartiles, shares and names by hand; tables that people read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tvwrl.ec import Population
from tvwrl.ec.classifier import Interval
from tvwrl.ec.profiles import describe, profiles, size
from tvwrl.ec.report import confusion_table, percent, points

Make = Callable[..., Population]


def test_hours_and_quartiles_by_hand(make_population: Make) -> None:
    # Slots of 12 hours: hours 0 and 12. The third begins at noon, and repeats the second.
    series = [np.array([[1.0, 2], [3, 2]]), np.array([[2.0, 2], [4, 2]]), np.array([[4.0, 2], [2, 2], [4, 2]])]
    population = replace(
        make_population(series), step_seconds=12 * 3600, unit=np.array([0.1, 0.2]), begin=np.array([0, 86_400, 43_200])
    )
    (found,) = profiles(population, np.ones(3, np.int64), {"cpu": 64.0, "mem": 256.0})
    assert found.by_hour[0, 0] == pytest.approx([0.15, 0.2, 0.2])  # of 0.1, 0.2, 0.2
    assert found.by_hour[12, 0] == pytest.approx([0.35, 0.4, 0.4])  # of 0.3, 0.4 and the mean of 0.4, 0.4
    assert found.by_hour[12, 1] == pytest.approx([0.4, 0.4, 0.4])
    assert np.isnan(found.by_hour[1:12]).all()
    assert found.busiest == 12
    assert found.rhythm == pytest.approx((0.4 - 0.2) / 0.3)
    assert found.level == pytest.approx([0.3, 0.4])
    assert found.name == (
        "varying, strong daily rhythm, busiest at hour 12, CPU 30 % (19 cores) and memory 40 % of a machine"
    )
    assert found.to_dict()["quartiles_by_hour"][1] == [[None] * 3] * 2


def test_words() -> None:
    assert describe(1.2, 0.3, 5) == "bursty, slight daily rhythm, busiest at hour 5"
    assert describe(0.24, 0.19, 5) == "steady, the same at all hours"


def test_units_where_a_machine_is_unknown(make_population: Make) -> None:
    population = make_population([np.ones((4, 2))])
    assert size(population, np.array([1.0, 2.5]), None) == "CPU 1 and memory 2.5 units"
    known = replace(population, unit=np.array([0.1, 0.1]))
    assert size(known, np.array([0.034, 0.5]), "the largest machine") == "CPU 3.4 % and memory 50 % of a machine"


def test_nothing_used_is_steady(make_population: Make) -> None:
    (found,) = profiles(make_population([np.zeros((4, 2))]), np.array([1]))
    assert found.name.startswith("steady, the same at all hours")
    assert (found.variation, found.rhythm) == (0, 0)


def test_a_confusion_table_has_counts_and_shares_by_row() -> None:
    text = confusion_table(np.array([[3, 1], [0, 0]]), ["1: small", "2: large"])
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    assert rows[0] == ["true class", "answer 1", "answer 2"]
    assert rows[2] == ["1: small", "3 (75%)", "1 (25%)"]
    assert rows[3] == ["2: large", "-", "-"]


def test_intervals_in_words() -> None:
    assert points(Interval(0.19, 0.081, 0.3)) == "+19 [+8, +30]"
    assert points(Interval(np.nan, np.nan, np.nan)) == "-"
    assert percent(Interval(0.95, 0.88, 1.02)) == "95 [88, 100]"
    assert percent(Interval(0.95, np.nan, np.nan)) == "95"
