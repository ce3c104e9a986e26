"""Two simulated days of a cluster as monitoring saw them: one to learn from, one to test on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from tqdm import tqdm

from tvwrl.checks import at_least, within
from tvwrl.interference.observations import Observations
from tvwrl.interference.testbed.arrivals import read_hour, replay_hour
from tvwrl.interference.testbed.deployment import LEAST_SERVICES, Deployment, draw_deployment
from tvwrl.interference.testbed.instance_kernels import DEFAULT
from tvwrl.interference.testbed.laws import LAWS
from tvwrl.interference.testbed.responses import draw_response_model
from tvwrl.interference.testbed.simulation import PlacementRule, simulate
from tvwrl.interference.testbed.snapshots import Snapshots, take_snapshots

WARM_UP_SECONDS = 1800  # after which machines are as full as they stay


@dataclass(frozen=True)
class TwoDays:
    """A cluster under the default scheduler for two days. Raises InputError for values out of range."""

    seed: int = 0
    data: Path | None = None  # folder of recorded batch tasks; None: synthetic ones
    machines: int = 40
    services: int = 150
    hours: int = 24  # length of a day
    truth: bool = False  # schedulers know true categories instead of classified ones
    report_seconds: int = 300  # between two records of a service instance

    def __post_init__(self) -> None:
        at_least(1, machines=self.machines, hours=self.hours)
        at_least(LEAST_SERVICES, services=self.services)
        within(1, 3600 * self.hours, report_seconds=self.report_seconds)


def observe_days(days: TwoDays, law: str, stream: int) -> tuple[Observations, Observations]:
    """Records of the first and of the second day if response times follow `law`.

    The batch work is the same under all laws. `stream` >= 0: of the random numbers that draw services and noise.
    """
    deployment, seen = _simulate_days(days)
    rng = np.random.default_rng([days.seed, stream])
    both = draw_response_model(LAWS[law], deployment, seen, rng).observe(seen, rng)
    second = both.seconds >= 3600.0 * days.hours
    return both.only(~second), both.only(second)


@lru_cache(maxsize=1)
def _simulate_days(days: TwoDays) -> tuple[Deployment, Snapshots]:
    rng = np.random.default_rng(days.seed)
    seconds = 2 * 3600 * days.hours
    hour = read_hour(days.data, days.truth, rng)
    arrivals = replay_hour(hour, days.machines, seconds // 60, rng)
    deployment = draw_deployment(days.machines, days.services, arrivals, seconds, rng)
    with tqdm(total=seconds // 60, desc="simulating two days", unit="min", disable=None, leave=False) as bar:
        record = simulate(deployment, arrivals, PlacementRule(DEFAULT), rng, watch=lambda *_: bar.update())
    every = np.arange(min(WARM_UP_SECONDS, seconds // 4), seconds, days.report_seconds, dtype=np.float64)
    return deployment, take_snapshots(record, every)
