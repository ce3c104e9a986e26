"""Compiles kernels ahead of their first use, those that usual commands need: in an image, in CI, after an installation.

Each use below is real work on a small scale, since that is what tells which kernels are called and with which types.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tvwrl.checks import one_of, within
from tvwrl.parallel import run_calls
from tvwrl.progress import say
from tvwrl.simulation import Scenario

APPLICATIONS = "application,replicas,cpu,mem\na,5,2,4\nb,3,1,8\nc,8,4,4\n"


def _trace(folder: Path) -> str:
    """A small trace, which is prepared in a second."""
    from tvwrl.traces import synthetic_trace, write_trace

    path = folder / "trace"
    if not path.exists():
        write_trace(synthetic_trace("google", workloads=60, seed=0, days=4), path)
    return str(path)


def _forecaster(folder: Path, scenario: Scenario) -> Path:
    """A forecaster that has hardly learnt, which takes seconds less."""
    from tvwrl.forecasting import NetworkForecaster, training_windows, write_forecaster
    from tvwrl.traces import SequenceSampler, open_trace

    path = folder / "forecaster.json"
    if not path.exists():
        sampler = SequenceSampler(open_trace(_trace(folder)), scenario)
        write_forecaster(path, NetworkForecaster(epochs=1).fit(training_windows(sampler, 100)), sampler)
    return path


def _environment(folder: Path) -> None:
    import gymnasium as gym

    env = gym.make("tvwrl/Placement-v0")
    env.reset(seed=0)
    env.step(0)
    env.close()


def _evaluate(folder: Path) -> None:
    from tvwrl.experiments import ComparisonSettings, Environment, compare_schedulers

    few, out = Environment(workloads=20), folder / "evaluation"
    trace, forecaster = _trace(folder), _forecaster(folder, few)
    compare_schedulers(ComparisonSettings(out, trace=trace, forecaster=forecaster, sequences=2, environment=few))


def _move(folder: Path) -> None:
    from tvwrl.experiments import ComparisonSettings, Environment, compare_schedulers

    few, out = Environment(workloads=20, moves_per_slot=2), folder / "moves"
    rules = ("expected-cost + greedy-evacuate", "expected-cost + swap", "expected-cost + karpenter")
    trace, forecaster = _trace(folder), _forecaster(folder, few)
    settings = ComparisonSettings(
        out, schedulers=rules, trace=trace, forecaster=forecaster, sequences=1, environment=few
    )
    compare_schedulers(settings)


def _train(folder: Path) -> None:
    from tvwrl.agents import PRESETS
    from tvwrl.experiments import TrainingSettings, train

    for preset in ("counterfactual", "smoke"):
        config = PRESETS[preset]
        scenario = replace(config.scenario, workloads=20)
        few: dict[str, Any] = {
            "train_sequences": 4,
            "sequences_per_iteration": 4,
            "eval_sequences": 2,
            "comparison_sequences": 2,
        }
        config = replace(config, iterations=1, imitate=min(config.imitate, 2), scenario=scenario, **few)
        trace, forecaster = _trace(folder), _forecaster(folder, scenario)
        train(TrainingSettings(trace, forecaster=forecaster, out=folder / preset, config=config))


def _provision(folder: Path) -> None:
    from tvwrl.experiments import PlanningSettings, plan_machines

    instance = folder / "applications.csv"
    instance.write_text(APPLICATIONS)
    machine = ((16.0, 32.0),)
    plan_machines(PlanningSettings(str(instance), machine, seconds=0.1, out=folder / "best"))


def _place(folder: Path) -> None:
    from tvwrl.experiments import PlacementSettings, place

    planners = ("Aladdin+H.4", "best")
    place(PlacementSettings(planners=planners, seconds=0.1, machines=30, out=folder / "placement"))


USES: dict[str, Callable[[Path], None]] = {
    "environment": _environment,
    "evaluate": _evaluate,
    "train": _train,
    "move": _move,
    "provision": _provision,
    "place": _place,
}
# Uses of a chain come one after another in one process, those before with kernels for those after; chains run side by
# side, and `move` stands where there is time left
CHAINS = (("environment", "evaluate", "train"), ("provision", "place", "move"))


@dataclass(frozen=True)
class WarmUpOptions:
    """Compile the kernels that the usual commands need; otherwise they are compiled at their first use.

    The machine code is kept next to the package, or in NUMBA_CACHE_DIR, and every process uses it from then on.
    """

    processes: int | None = None
    """Processes that compile in parallel, 1 or 2; default: 2, or 1 on a single core."""


def warm_up(processes: int | None = None) -> None:
    """Compile the kernels that environments, training, evaluation, moves and planning need, and keep them on disk.

    `processes`: processes that compile side by side, 1 or 2; default: as many as there are cores

    Shows its progress on stderr. Raises InputError for other `processes`.
    """
    processes = min(os.cpu_count() or 1, len(CHAINS)) if processes is None else processes
    within(1, len(CHAINS), processes=processes)
    say(f"compiling what {', '.join(USES)} need: about a minute, or seconds if it is on disk")
    with tqdm(total=len(CHAINS), desc="compiling", unit=" groups of uses", leave=False, disable=None) as bar:
        for _ in run_calls(((use_kernels, chain) for chain in CHAINS), processes, None, processes=True):
            bar.update()  # never in this process, whose streams and environment stay as they are


def report_warm_up(options: WarmUpOptions) -> str:
    """What `tvwrl warm-up` does, and what it says at its end."""
    warm_up(options.processes)
    return "kernels are compiled and on disk"


def use_kernels(*uses: str) -> dict[str, str]:
    """Do the work of some of the `USES`, without a word, in a folder that is removed."""
    one_of(USES, **{f"use {number}": use for number, use in enumerate(uses, 1)})
    with (
        tempfile.TemporaryDirectory() as name,
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        os.environ["TVWRL_DATA"] = name  # no traces of this machine
        for use in uses:
            USES[use](Path(name))
    return {}
