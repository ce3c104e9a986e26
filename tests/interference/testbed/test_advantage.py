"""What PISM can gain: less interference than by CPU use alone under the memory law, and none under the control."""

import numpy as np
import pytest

from tvwrl.interference import placement_kernels as kernels
from tvwrl.interference.observations import Levels
from tvwrl.interference.predictor import LevelPredictor
from tvwrl.interference.score import service_weights
from tvwrl.interference.score_kernels import UTILISATION_ALONE
from tvwrl.interference.testbed.arrivals import Arrivals, replay_hour
from tvwrl.interference.testbed.deployment import draw_deployment
from tvwrl.interference.testbed.instance_kernels import DEFAULT
from tvwrl.interference.testbed.laws import LAWS, draw_response_model, intensities
from tvwrl.interference.testbed.simulation import PlacementRule, simulate, take_snapshots

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
        assumed=category,
        intensity=intensities(memory, rng),
    )


def slowdowns(seed, law):
    """Mean slowdown of services, by what decides between the ten machines drawn: PISM, CPU in use, chance."""
    rng = np.random.default_rng(seed)
    hour = hour_of(rng)
    first, second = (replay_hour(hour, MACHINES, MINUTES, rng, PER_MINUTE) for _ in range(2))
    deployment = draw_deployment(MACHINES, SERVICES, first, 60 * MINUTES, rng)
    every = np.arange(600.0, 60.0 * MINUTES, 60.0)
    seen = take_snapshots(simulate(deployment, first, PlacementRule(DEFAULT), rng), every)
    response_model = draw_response_model(LAWS[law], deployment, seen, rng)
    known = response_model.observe(seen, rng, 2)
    trees = LevelPredictor().fit(known, Levels.of(known, 10, skip_rare=True)).trees_
    weight = service_weights("corr", known)[deployment.service]
    ways = {"pism": (CANDIDATES, trees, weight), "utilisation": (CANDIDATES, UTILISATION_ALONE), "chance": (1,)}
    found = {}
    for name, way in ways.items():
        policy = PlacementRule(kernels.RANDOM, *way)
        after = take_snapshots(simulate(deployment, second, policy, np.random.default_rng(seed + 100)), every)
        slow = response_model.slowdown(after)[:, deployment.machine] * response_model.sensitivity[deployment.service]
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
