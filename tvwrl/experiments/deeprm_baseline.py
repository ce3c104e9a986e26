"""DeepRM as a baseline beside an agent: its configuration, and its training on the way to the agent's comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tvwrl.agents import PRESETS, TrainConfig
from tvwrl.envs import Problem
from tvwrl.progress import Report, nothing
from tvwrl.runs import LAST
from tvwrl.schedulers import Scheduler
from tvwrl.simulation import Scenario

if TYPE_CHECKING:
    from tvwrl.agents import Trainer

DEEPRM = "deeprm"  # the scheduler's name, and that of the folder in the agent's run
# fmt: off
OF_THE_AGENT = ("seed", "train_loads", "device", "threads")
AT_MOST = ("train_sequences", "sequences_per_iteration", "eval_sequences")  # of DeepRM's own, and the agent's
SEEN = (  # what an agent observes, may do, and how long its episodes are: DeepRM has its own environment
    "observe_request", "observe_demand", "observe_forecast", "observe_peak", "hold_action", "choose_from_queue",
    "max_slots",
)
# fmt: on
MOST, EACH = 100, 5  # updates of DeepRM: at most, which take half a minute, and for each of the agent's


def deeprm_scenario(scenario: Scenario, changes: Mapping[str, Any] | None = None) -> Scenario:
    """The scenario of an agent as DeepRM plays it: its own environment on the same machines and arrivals.

    `changes`: fields that differ, whatever DeepRM has
    """
    own = {name: getattr(PRESETS[DEEPRM].scenario, name) for name in SEEN}
    return replace(scenario, **own | dict(changes or {}))


def deeprm_config(config: TrainConfig) -> TrainConfig:
    """How DeepRM is trained beside an agent: by its own preset, but with no more data than the agent.

    >>> deeprm_config(PRESETS["counterfactual"]).iterations, deeprm_config(PRESETS["smoke"]).iterations
    (100, 30)
    """
    own = PRESETS[DEEPRM]
    changes: dict[str, Any] = {name: getattr(config, name) for name in OF_THE_AGENT}
    changes |= {name: min(getattr(own, name), getattr(config, name)) for name in AT_MOST}
    changes["iterations"] = min(MOST, EACH * config.iterations)
    return replace(own, scenario=deeprm_scenario(config.scenario), **changes)


def begin_deeprm(trainer: Trainer) -> None:
    """Begin DeepRM's run, before its first iteration, in `deeprm/` of the agent's new folder.

    That it is there says that the comparison has DeepRM, also after the agent's run was interrupted and continues.
    """
    from tvwrl.experiments.training_runs import new_trainer

    own, problem = deeprm_config(trainer.config), trainer.problem
    plain = Problem.build(problem.trace, own.scenario, "none", problem.sampler.unit)
    identity = {field: value for field, value in trainer.trace.items() if field != "also"}
    new_trainer(plain, own, trainer.folder / DEEPRM, identity, "none", nothing)


def deeprm_beside(trainer: Trainer, report: Report) -> list[Scheduler]:
    """DeepRM for the comparison, trained to its end; none if its run was not begun.

    Raises KeyboardInterrupt or SystemExit where a signal stopped the training, which continues exactly.
    """
    from tvwrl.agents import Checkpoint, DeepRM, find_checkpoint
    from tvwrl.experiments.training_runs import pass_on_signal, restored_trainer

    folder = trainer.folder / DEEPRM
    if not (folder / LAST).exists():
        return []
    saved = Checkpoint.load(folder / LAST)
    if saved.iteration < saved.config.iterations:
        report(f"training DeepRM for the comparison, {saved.config.iterations} iterations")
        tell: Report = nothing if report is nothing else lambda text: report(f"DeepRM: {text}")
        pass_on_signal(restored_trainer(saved, trainer.problem.trace, folder, tell).run())
    best = Checkpoint.load(find_checkpoint(folder))
    return [DeepRM(DEEPRM, best, trainer.config.device)]
