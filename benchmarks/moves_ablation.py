"""What moves owe to forecasts, to emptying machines, to learning options, to the network, and to placing that waits.

All on the same test sequences of one trace, load and price, in thousands of reward, paired with the row that each is
compared with. Values are learnt there from nothing, with the same sequences and seed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import tyro

from tvwrl import Scenario, open_trace
from tvwrl.agents import ValueSettings, learn_value
from tvwrl.envs import Problem
from tvwrl.experiments.statistics import paired_bootstrap
from tvwrl.experiments.tuned_moves import with_tuned_moves
from tvwrl.forecasting import make_forecaster, training_windows
from tvwrl.markdown import markdown_table
from tvwrl.schedulers import PLACING, ByMachineValue, MachineValue, Moving, Runner, Scheduler, make_scheduler

RULE = "greedy-evacuate"
LEARNT = ValueSettings(gammas=(0.9,), thresholds=(0.7, 1.0, 1.5))
WAITING = "expected-cost(opening=200)-backfill"
FORECASTERS = ("last-value", "normal-day", "yesterday")  # in place of the network
NETWORKS = ((4, 4), (16, 8), (128, 64))  # units of the hidden layers, in place of 64 and 32


def main(trace: str = "tianchi", load: float = 0.5, price: float = 1000.0, sequences: int = 60) -> None:
    """Print the table.

    Args:
        trace: name of a prepared trace.
        load: offered load.
        price: price of a move.
        sequences: test sequences.
    """
    problem = Problem.build(open_trace(trace), Scenario(moves_per_slot=2, load=load, K_m=price)).with_forecasts()
    found: dict[str, np.ndarray] = {}
    lines = []

    def play(label: str, scheduler: Scheduler, against: str = "", of: Problem = problem) -> None:
        runner = Runner(of.sequences("test", sequences, 1), of.machines, of.scenario)
        found[label] = of.rewards(runner, scheduler) / 1000
        gain = paired_bootstrap(found[label], found[against]) if against else None
        said = "" if gain is None else "{:+.0f} [{:+.0f}, {:+.0f}]".format(*gain)
        lines.append([label, f"{found[label].mean():.0f}", said, against])
        print(*lines[-1], sep=" | ", flush=True)

    play("no moves", make_scheduler(PLACING))
    (tuned,) = with_tuned_moves(problem, PLACING, [RULE])
    play("tuned rule", tuned, "no moves")
    play("rule as it is", make_scheduler(f"{PLACING} + {RULE}"), "tuned rule")
    (single,) = with_tuned_moves(problem, PLACING, ["greedy"])
    play("tuned rule without emptying", single, "tuned rule")
    for name in FORECASTERS:
        forecaster = make_forecaster(name, problem.scenario.peak_units, problem.scenario.step_seconds)
        other = replace(problem, forecaster=forecaster.fit(training_windows(problem.sampler)))
        play(f"no moves, forecasts of {name}", make_scheduler(PLACING), "no moves", other)
        (tuned,) = with_tuned_moves(other, PLACING, [RULE])
        play(f"tuned rule, forecasts of {name}", tuned, "tuned rule", other)

    def moving(value: MachineValue, places: str = PLACING, most: float = 4) -> Scheduler:
        return Moving(make_scheduler(places), ByMachineValue(value, most=most))

    value = learn_value([problem], LEARNT)
    play("learnt value", moving(value), "tuned rule")
    play("learnt value without emptying", moving(value, most=1), "learnt value")
    play("learnt value beside placing that waits", moving(value, WAITING), "learnt value")
    play("learnt value, one generation", moving(learn_value([problem], replace(LEARNT, generations=1))), "learnt value")
    play("together with placing that waits", moving(learn_value([problem], replace(LEARNT, places=WAITING)), WAITING),
         "learnt value beside placing that waits")  # fmt: skip
    for units in NETWORKS:
        other_value = learn_value([problem], replace(LEARNT, units=units))
        play(f"learnt value, units {units[0]} and {units[1]}", moving(other_value), "learnt value")
    print(markdown_table(["", "reward", "difference", "from"], lines))


if __name__ == "__main__":
    tyro.cli(main)
