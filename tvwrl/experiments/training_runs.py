"""Training runs in their folders: begin one, take one up again where it stopped, and end the process as it ended; and
DeepRM as a baseline beside an agent, which is trained on the way to the agent's comparison."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvwrl.agents import PRESETS, TrainConfig
from tvwrl.checks import at_least
from tvwrl.envs import Problem
from tvwrl.progress import Report, nothing, say
from tvwrl.runs import LAST, provenance, write_json
from tvwrl.schedulers import Scheduler
from tvwrl.simulation import Scenario
from tvwrl.traces import how_to_open, open_and_describe, trace_hash
from tvwrl.types import InputError, Trace

if TYPE_CHECKING:
    from tvwrl.agents import Checkpoint, Trainer

EXIT_CODES = {"stopped": 0, "SIGINT": 130, "SIGTERM": 143}  # what stopped a training -> exit code of the process


def check_resume(settings: Any) -> None:
    """Raise InputError if `resume` of a settings dataclass is combined with more than `stop_after`."""
    at_least(1, stop_after=settings.stop_after)
    if settings.resume and replace(settings, resume=None, stop_after=None) != type(settings)():
        raise InputError("--resume continues with the run's own settings: only --stop-after can be combined with it")


def new_trainer(
    problem: Problem,
    config: TrainConfig,
    folder: Path,
    identity: Mapping[str, Any],
    classes: str,
    report: Report,
    forecaster: Path | None = None,
    others: Sequence[Trace] | None = None,
) -> Trainer:
    """A trainer whose run folder holds run.json and something to resume; `classes`, `forecaster`: as asked for.

    `others`: the traces of `config.also`, if they are open
    """
    from tvwrl.agents import Trainer

    trainer = Trainer(problem, config, folder, dict(identity), report, others=others)
    try:
        trainer.save()
    except OSError:  # a full disk, say: nothing is left that would be in the way of the next attempt
        shutil.rmtree(folder, ignore_errors=True)
        raise
    facts = {
        "trace": {**identity, "workloads": len(problem.trace)},
        "ec": classes,
        "forecaster": forecaster,
        "notes": problem.sampler.notes,
        "config": trainer.config.to_dict(),
    }
    write_json(folder / "run.json", provenance() | facts)
    return trainer


def restored_trainer(saved: Checkpoint, trace: Trace, folder: Path, report: Report) -> Trainer:
    """The trainer of a run as its last checkpoint left it."""
    from tvwrl.agents import Trainer

    trainer = Trainer(saved.problem(trace), saved.config, folder, saved.trace, report)
    trainer.restore(saved)
    return trainer


def open_again(identity: Mapping[str, Any], report: Report = say) -> Trace:
    """The trace of a run by its `trace_identity`, described. Raises InputError if its content has changed."""
    trace = open_and_describe(*how_to_open(identity), report)
    if trace_hash(trace) != identity["hash"]:
        raise InputError(
            f"trace '{identity['argument']}' is not the one that the run started with (its content has changed)"
        )
    return trace


def pass_on_signal(ended: str) -> None:
    """Raise what a signal would have raised if the training had not saved its state first; "finished" passes."""
    if ended == "SIGTERM":
        raise SystemExit(EXIT_CODES[ended])
    if ended != "finished":
        raise KeyboardInterrupt


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
    own, problem = deeprm_config(trainer.config), trainer.problem
    plain = Problem.build(problem.trace, own.scenario, "none", problem.sampler.unit)
    identity = {field: value for field, value in trainer.trace.items() if field != "also"}
    new_trainer(plain, own, trainer.folder / DEEPRM, identity, "none", nothing)


def deeprm_beside(trainer: Trainer, report: Report) -> list[Scheduler]:
    """DeepRM for the comparison, trained to its end; none if its run was not begun.

    Raises KeyboardInterrupt or SystemExit where a signal stopped the training, which continues exactly.
    """
    from tvwrl.agents import Checkpoint, DeepRM, find_checkpoint

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
