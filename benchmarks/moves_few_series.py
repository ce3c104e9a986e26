"""What learnt moves are worth where a cluster has few series: 30, 100 or 300 of a trace, judged on its test series.

Units, classes, forecasts, tuned rules and values come from the few series alone; the test sequences are cut from
series that are among none of them. `shipped` is the value that comes with the package, at the options that are best on
the few series; `continued` goes on from it (as `tvwrl train --moves` does), `fresh` begins with nothing. Judged on
tianchi and bitbrains, of which the shipped value has seen nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tyro

from tvwrl import Scenario, open_trace
from tvwrl.agents import ValueSettings, learn_value
from tvwrl.envs import Problem
from tvwrl.experiments.statistics import paired_bootstrap
from tvwrl.experiments.tuned_moves import with_tuned_moves
from tvwrl.markdown import markdown_table
from tvwrl.schedulers import PLACING, ByMachineValue, Moving, Runner, Scheduler, make_scheduler, shipped_value

RULES = ("greedy", "evacuate", "greedy-evacuate")
LEARNT = ValueSettings(gammas=(0.9,), thresholds=(0.7, 1.0, 1.5))


def main(
    traces: Sequence[str] = ("tianchi", "bitbrains"),
    counts: Sequence[int] = (30, 100, 300),
    draws: Sequence[int] = (0, 1),
    load: float = 0.5,
    price: float = 1000.0,
    sequences: int = 60,
) -> None:
    """Print a table, a row for each trace, count and draw of series.

    Args:
        traces: names of prepared traces.
        counts: series that the cluster has; those that the trace lacks are left out.
        draws: seeds of the choice of series, and of learning.
        load: offered load.
        price: price of a move.
        sequences: test sequences.
    """
    lines, scenario = [], Scenario(moves_per_slot=2, load=load, K_m=price)
    for name in traces:
        whole = Problem.build(open_trace(name), scenario)
        known = sorted({run.workload for split in ("train", "validation") for run in whole.sampler.runs[split]})
        for count in counts:
            if count > len(known):
                print(f"{name} has {len(known)} series that are not for testing: {count} are left out", flush=True)
                continue
            for draw in draws:
                chosen = np.random.default_rng([draw, count]).choice(known, count, replace=False)
                few = Problem.build(whole.trace.select(np.sort(chosen)), scenario).with_forecasts()
                line = [name, str(count), str(draw), *_played(few, whole, draw, sequences)]
                lines.append(line)
                print(*line, sep=" | ", flush=True)
    head = ["trace", "series", "draw", "no moves", "best tuned rule", "shipped", "continued", "fresh"]
    print(markdown_table(head, lines))


def _played(few: Problem, whole: Problem, seed: int, sequences: int) -> list[str]:
    """Mean rewards, thousands, of what was learnt from few series, on test sequences of the whole trace; the difference
    of each value from the best rule, with its paired interval."""
    judged = Problem.build(whole.trace, whole.scenario, few.classes, few.sampler.unit, few.forecaster)
    runner = Runner(judged.sequences("test", sequences, 1), judged.machines, judged.scenario)

    def rewards(scheduler: Scheduler) -> np.ndarray:
        return judged.rewards(runner, scheduler) / 1000

    settings = ValueSettings(**{**vars(LEARNT), "seed": seed})
    rules, (shipped,) = (with_tuned_moves(few, PLACING, names) for names in (RULES, ["machine-value"]))
    values = [learn_value([few], settings, start=start) for start in (shipped_value(), None)]
    still = rewards(make_scheduler(PLACING))
    best = max((rewards(rule) for rule in rules), key=lambda found: found.mean())
    cells = [f"{still.mean():.0f}", f"{best.mean():.0f}"]
    for scheduler in (shipped, *(Moving(make_scheduler(PLACING), ByMachineValue(value)) for value in values)):
        found = rewards(scheduler)
        gain, low, high = paired_bootstrap(found, best)
        cells.append(f"{found.mean():.0f} ({gain:+.0f} [{low:+.0f}, {high:+.0f}])")
    return cells


if __name__ == "__main__":
    tyro.cli(main)
