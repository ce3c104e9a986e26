"""Two simulated days of a cluster under each law, as monitoring saw them: one to learn from, one to be judged by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import numpy as np
from tqdm import tqdm

from tvwrl.bench.pism_worlds import read_hour
from tvwrl.interference.arrivals import RECORDED_AT, replayed
from tvwrl.interference.laws import LAWS
from tvwrl.interference.observations import Observations
from tvwrl.interference.services import draw_behaviour, observe
from tvwrl.interference.world import Policy, draw_site, look, simulate
from tvwrl.interference.world_kernels import DEFAULT

WARM_UP_SECONDS = 1800  # until machines are as full as they stay


class Days(Protocol):
    """What has to be known of the simulation; `PredictionSettings` is one."""

    @property
    def laws(self) -> tuple[str, ...]: ...
    @property
    def data(self) -> Path | None: ...
    @property
    def machines(self) -> int: ...
    @property
    def services(self) -> int: ...
    @property
    def truth(self) -> bool: ...
    @property
    def hours(self) -> int: ...
    @property
    def report_seconds(self) -> int: ...


def two_days(settings: Days, seed: int) -> Iterator[tuple[str, Observations, Observations]]:
    """Law, records of the first `hours`, records of the next, under the default scheduler, which knows no levels.

    All laws of a seed see the same batch work at the same places.
    """
    rng = np.random.default_rng(seed)
    seconds = 2 * 3600 * settings.hours
    hour = read_hour("" if settings.data is None else str(settings.data), settings.truth, rng)
    arrivals = replayed(hour, settings.machines, seconds // 60, rng)
    site = draw_site(settings.machines, settings.services, arrivals, seconds, rng)
    with tqdm(total=seconds // 60, desc="simulating two days", unit="min", disable=None, leave=False) as bar:
        record = simulate(site, arrivals, Policy(DEFAULT), rng, RECORDED_AT, watch=lambda *_: bar.update())
    every = np.arange(min(WARM_UP_SECONDS, seconds // 4), seconds, settings.report_seconds, dtype=np.float64)
    seen = look(record, every)
    half = int(np.searchsorted(every, seconds / 2))
    for number, law in enumerate(settings.laws):
        chance = np.random.default_rng([seed, number])
        behaviour = draw_behaviour(LAWS[law], site, seen, chance)
        response_ms = behaviour.response_ms(site, seen, chance)
        train, test = (observe(site, seen, response_ms, times) for times in (slice(0, half), slice(half, None)))
        yield law, train, test
