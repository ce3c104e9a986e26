"""Backfilling: the first of the visible workloads that can be placed goes first."""

import numpy as np
import pytest

from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.head_of_queue import Backfill
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError, Machines

ONE = Machines.homogeneous(1, 8, ("cpu", "mem"))


def starts(scheduler, sequences, **changes):
    """When each workload starts."""
    return Runner(sequences, ONE, Scenario(**changes)).play(scheduler, 0).start.tolist()


@pytest.mark.parametrize(
    ("queue", "limit", "expected"),
    [(3, 1, [0, 4, 1, 2]), (3, None, [0, 4, 1, 1]), (1, None, [0, 3, 4, 4]), (2, None, [0, 4, 1, 1])],
)
def test_small_ones_overtake_a_head_that_does_not_fit(make_sequences, queue, limit, expected):
    # a leaves in slot 3, b needs the whole machine, c and d fit beside a; with two places, d is seen once c has left.
    rows = [(0, [[5, 5]] * 3), (1, [[8, 8]]), (1, [[1, 1]] * 3), (1, [[1, 1]] * 2)]
    sequences = make_sequences(rows)
    scheduler = Backfill(make_scheduler("best-fit-peak"))
    assert starts(scheduler, sequences, queue=queue, placements_per_slot=limit) == expected
    ahead = make_scheduler("best-fit-peak")
    assert starts(ahead, sequences, queue=queue, placements_per_slot=None) == [0, 3, 4, 4]


def test_it_is_named_after_what_it_knows():
    scheduler, inner = Backfill(make_scheduler("expected-cost")), make_scheduler("expected-cost")
    assert (scheduler.name, scheduler.knowledge) == ("expected-cost-backfill", inner.knowledge)
    assert scheduler.needs_forecasts


def test_every_rule_of_the_head_has_a_form_that_backfills():
    scheduler = make_scheduler("n-sigma(n=3)-backfill")
    assert isinstance(scheduler, Backfill)
    assert scheduler.name == "n-sigma(n=3)-backfill"
    assert make_scheduler("spread-backfill").knowledge == make_scheduler("spread").knowledge
    for name in ("tetris", "rollout(spread)", "spread-backfill"):
        with pytest.raises(InputError, match="already chooses from the whole queue"):
            make_scheduler(f"{name}-backfill")
    with pytest.raises(InputError, match="scheduler is 'spred'"):
        make_scheduler("spred-backfill")
    with pytest.raises(InputError, match=r"write n-sigma\(n=3\)-backfill"):
        make_scheduler("n-sigma-backfill(n=3)")


def test_where_all_fit_it_is_the_scheduler(problem, train):
    episodes = [
        Runner(train, Machines.homogeneous(40, 8, ("cpu", "mem")), problem.scenario).play(scheduler, 0)
        for scheduler in (make_scheduler("best-fit-peak"), Backfill(make_scheduler("best-fit-peak")))
    ]
    assert np.array_equal(episodes[0].start, episodes[1].start)
    assert np.array_equal(episodes[0].machine, episodes[1].machine)
