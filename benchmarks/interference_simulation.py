"""How many times faster than real time 600 machines with 60 new batch instances a minute each are simulated. Limit: 30.

Synthetic tasks, 150 services, one core; the predictor learns from the first ten minutes under the default scheduler.
"""

from __future__ import annotations

import numpy as np
from timing import measure

from tvwrl.interference import placement_kernels as kernels
from tvwrl.interference.observations import Levels
from tvwrl.interference.predictor import LevelPredictor
from tvwrl.interference.score import service_weights
from tvwrl.interference.testbed.arrivals import replay_hour, synthetic_hour
from tvwrl.interference.testbed.deployment import draw_deployment
from tvwrl.interference.testbed.instance_kernels import DEFAULT
from tvwrl.interference.testbed.laws import LAWS, draw_response_model
from tvwrl.interference.testbed.simulation import PlacementRule, simulate, take_snapshots
from tvwrl.markdown import markdown_table

MACHINES, SERVICES, MINUTES = 600, 150, 10


def main() -> None:
    """Measure, print a table."""
    rng = np.random.default_rng(0)
    arrivals = replay_hour(synthetic_hour(rng), MACHINES, MINUTES, rng)
    deployment = draw_deployment(MACHINES, SERVICES, arrivals, 60 * MINUTES, rng)
    record = simulate(deployment, arrivals, PlacementRule(DEFAULT), rng)
    seen = take_snapshots(record, 60.0 * np.arange(1, MINUTES))
    observations = draw_response_model(LAWS["memory"], deployment, seen, rng).observe(seen, rng)
    trees = LevelPredictor().fit(observations, Levels.of(observations, skip_rare=True)).trees_
    weight = service_weights("corr", observations)[deployment.service]
    spread, risk = kernels.SPREAD, kernels.RISK_BALANCING
    policies = {
        "default": PlacementRule(DEFAULT),
        "spread": PlacementRule(spread),
        "spread + pism": PlacementRule(spread, 10, trees, weight),
        "LoadVariationRiskBalancing + pism": PlacementRule(risk, 10, trees, weight),
        "pism, every machine a candidate": PlacementRule(kernels.RANDOM, MACHINES, trees, weight),
        "pism, and 5 moves a machine and minute": PlacementRule(kernels.RANDOM, MACHINES, trees, weight, 5),
    }
    lines = []
    for name, policy in policies.items():
        simulate(deployment, arrivals.only(np.arange(50)), policy, rng)  # compiles
        spent = measure(simulate, deployment, arrivals, policy, rng).cpu
        lines.append([name, f"{60 * MINUTES / spent:,.0f}", f"{arrivals.instances.sum() / spent:,.0f}"])
    print(markdown_table(["scheduler", "times real time", "instances a second"], lines))


if __name__ == "__main__":
    main()
