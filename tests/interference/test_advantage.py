"""What PISM can gain: less interference than by CPU use alone under the memory law, and none under the control."""

import numpy as np
import pytest

from tvwrl.interference import kernels
from tvwrl.interference.arrivals import Arrivals, replayed
from tvwrl.interference.laws import LAWS, intensities
from tvwrl.interference.levels import Levels
from tvwrl.interference.predictor import LevelPredictor
from tvwrl.interference.services import draw_behaviour, observe
from tvwrl.interference.weights import row_weights, service_weights
from tvwrl.interference.world import Policy, draw_site, look, simulate
from tvwrl.interference.world_kernels import DEFAULT

MACHINES, SERVICES, MINUTES, PER_MINUTE, CANDIDATES = 16, 30, 60, 8.0, 10
SEEDS = range(3)
COMPUTE, HOLD = (2 * 5 + 0) * 4 + 2, (0 * 5 + 4) * 4 + 2  # categories: much CPU and little memory, and the reverse


def hour_of(rng):
    """Tasks of two kinds: what they use of the CPU tells the wrong way how hard they press on memory."""
    holds = rng.random(2000) < 0.5
    memory = np.where(holds, 2.0, 0.05) * np.exp(0.3 * rng.normal(size=2000))
    category = np.where(holds, HOLD, COMPUTE)
    return Arrivals(
        second=np.sort(rng.integers(0, 3600, 2000)),
        instances=rng.integers(1, 6, 2000),
        cpu=np.where(holds, 0.4, 1.6),
        memory=memory,
        makespan=rng.integers(60, 240, 2000),
        category=category,
        seen=category,
        intensity=intensities(memory, rng),
    )


def slowdowns(seed, law):
    """Mean slowdown of services, by what decides between the ten machines drawn: PISM, CPU in use, chance."""
    rng = np.random.default_rng(seed)
    hour = hour_of(rng)
    first, second = (replayed(hour, MACHINES, MINUTES, rng, PER_MINUTE) for _ in range(2))
    site = draw_site(MACHINES, SERVICES, first, 60 * MINUTES, rng)
    every = np.arange(600.0, 60.0 * MINUTES, 60.0)
    seen = look(simulate(site, first, Policy(DEFAULT), rng, 8.0), every)
    behaviour = draw_behaviour(LAWS[law], site, seen, rng)
    known = observe(site, seen, behaviour.response_ms(site, seen, rng), slice(None, None, 2))
    trees = LevelPredictor().fit(known, Levels.of(known, 10, skip_rare=True)).trees_
    weight = row_weights(site.service, service_weights("corr", known))
    ways = {"pism": (CANDIDATES, trees, weight), "utilisation": (CANDIDATES, kernels.UTILISATION_ALONE), "chance": (1,)}
    found = {}
    for name, way in ways.items():
        policy = Policy(kernels.RANDOM, *way)
        after = look(simulate(site, second, policy, np.random.default_rng(seed + 100), 8.0), every)
        slow = behaviour.slowdown(after)[:, site.machine] * behaviour.sensitivity[site.service]
        found[name] = float(1.0 + slow.mean())
    return found


@pytest.fixture(scope="module")
def found():
    """By law and seed; `pytest -s` prints them."""
    made = {law: [slowdowns(seed, law) for seed in SEEDS] for law in ("memory", "control")}
    for law, rows in made.items():
        for name in rows[0]:
            print(f"{law}, {name}: {', '.join(f'{row[name]:.3f}' for row in rows)}")
    return made


def test_under_the_control_law_pism_has_no_advantage_over_utilisation_alone(found):
    for one in found["control"]:
        assert one["utilisation"] < one["chance"]
        assert one["pism"] >= one["utilisation"]


def test_under_the_memory_law_it_has_one(found):
    for one in found["memory"]:
        assert one["pism"] < one["chance"]
        assert one["pism"] - 1 < 0.99 * (one["utilisation"] - 1)
