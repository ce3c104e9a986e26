"""How many times faster than real time 600 machines with 60 new batch instances a minute each are simulated. Limit: 30.

Made-up tasks, 150 services, one core; the predictor learns from the first ten minutes under the default scheduler.
"""

from __future__ import annotations

import time

import numpy as np

from tvwrl.interference import kernels
from tvwrl.interference.arrivals import RECORDED_AT, replayed, synthetic_hour
from tvwrl.interference.laws import LAWS
from tvwrl.interference.levels import Levels
from tvwrl.interference.predictor import LevelPredictor
from tvwrl.interference.services import draw_behaviour, observe
from tvwrl.interference.weights import row_weights, service_weights
from tvwrl.interference.world import Policy, draw_site, look, simulate
from tvwrl.interference.world_kernels import DEFAULT
from tvwrl.markdown import markdown_table

MACHINES, SERVICES, MINUTES = 600, 150, 10


def main() -> None:
    """Measure, print a table."""
    rng = np.random.default_rng(0)
    arrivals = replayed(synthetic_hour(rng), MACHINES, MINUTES, rng)
    site = draw_site(MACHINES, SERVICES, arrivals, 60 * MINUTES, rng)
    seen = look(simulate(site, arrivals, Policy(DEFAULT), rng, RECORDED_AT), 60.0 * np.arange(1, MINUTES))
    behaviour = draw_behaviour(LAWS["memory"], site, seen, rng)
    observations = observe(site, seen, behaviour.response_ms(site, seen, rng))
    trees = LevelPredictor().fit(observations, Levels.of(observations, skip_rare=True)).trees_
    weight = row_weights(site.service, service_weights("corr", observations))
    spread, risk = kernels.SPREAD, kernels.RISK_BALANCING
    policies = {
        "default": Policy(DEFAULT),
        "spread": Policy(spread),
        "spread + pism": Policy(spread, 10, trees, weight),
        "LoadVariationRiskBalancing + pism": Policy(risk, 10, trees, weight),
        "pism, every machine a candidate": Policy(kernels.RANDOM, MACHINES, trees, weight),
        "pism, and 5 moves a machine and minute": Policy(kernels.RANDOM, MACHINES, trees, weight, 5),
    }
    lines = []
    for name, policy in policies.items():
        simulate(site, arrivals.only(np.arange(50)), policy, rng, RECORDED_AT)  # compiles
        begun = time.process_time()
        simulate(site, arrivals, policy, rng, RECORDED_AT)
        spent = time.process_time() - begun
        lines.append([name, f"{60 * MINUTES / spent:,.0f}", f"{arrivals.instances.sum() / spent:,.0f}"])
    print(markdown_table(["scheduler", "times real time", "instances a second"], lines))


if __name__ == "__main__":
    main()
