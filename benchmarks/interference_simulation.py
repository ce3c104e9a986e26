"""How many times faster than real time 600 machines with 60 new batch instances a minute each are simulated. Limit: 30.

Made-up tasks, 150 services, one core; the predictor learns from the first ten minutes under the default scheduler.
"""

from __future__ import annotations

import numpy as np
from timing import measure

from tvwrl.interference import placement_kernels as kernels
from tvwrl.interference.levels import Levels
from tvwrl.interference.predictor import LevelPredictor
from tvwrl.interference.testbed.arrivals import RECORDED_AT, replay_hour, synthetic_hour
from tvwrl.interference.testbed.clock_kernels import DEFAULT
from tvwrl.interference.testbed.deployment import draw_deployment
from tvwrl.interference.testbed.laws import LAWS
from tvwrl.interference.testbed.responses import draw_response_model, observe
from tvwrl.interference.testbed.simulation import PlacementRule, simulate
from tvwrl.interference.testbed.snapshots import take_snapshots
from tvwrl.interference.weights import row_weights, service_weights
from tvwrl.markdown import markdown_table

MACHINES, SERVICES, MINUTES = 600, 150, 10


def main() -> None:
    """Measure, print a table."""
    rng = np.random.default_rng(0)
    arrivals = replay_hour(synthetic_hour(rng), MACHINES, MINUTES, rng)
    deployment = draw_deployment(MACHINES, SERVICES, arrivals, 60 * MINUTES, rng)
    seen = take_snapshots(
        simulate(deployment, arrivals, PlacementRule(DEFAULT), rng, RECORDED_AT), 60.0 * np.arange(1, MINUTES)
    )
    response_model = draw_response_model(LAWS["memory"], deployment, seen, rng)
    observations = observe(deployment, seen, response_model.response_ms(deployment, seen, rng))
    trees = LevelPredictor().fit(observations, Levels.of(observations, skip_rare=True)).trees_
    weight = row_weights(deployment.service, service_weights("corr", observations))
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
        simulate(deployment, arrivals.only(np.arange(50)), policy, rng, RECORDED_AT)  # compiles
        spent = measure(simulate, deployment, arrivals, policy, rng, RECORDED_AT).cpu
        lines.append([name, f"{60 * MINUTES / spent:,.0f}", f"{arrivals.instances.sum() / spent:,.0f}"])
    print(markdown_table(["scheduler", "times real time", "instances a second"], lines))


if __name__ == "__main__":
    main()
