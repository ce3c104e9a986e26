"""`tvwrl.train`: a policy for a trace, and what became of the training."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvwrl.agents import PRESETS, TrainConfig, load_policy, preset_for
from tvwrl.checks import hint, one_of
from tvwrl.envs import Problem
from tvwrl.experiments import Evaluation, TrainingSettings, begin, compare_with_heuristics, pass_on_signal, take_up
from tvwrl.progress import Report, nothing, say
from tvwrl.runs import InFolder, folder_for
from tvwrl.schedulers import Scheduler
from tvwrl.simulation import Scenario
from tvwrl.types import InputError, Trace

if TYPE_CHECKING:
    import polars as pl

POLICY = "policy"  # the name of one that was trained without a folder


@dataclass(frozen=True, eq=False, repr=False)
class TrainingRun(InFolder):
    """A training run that has ended; printing it prints the table of the comparison. `write(folder)` copies its
    files (docs/reference/run-files.md) to a folder, which `tvwrl.load_policy` can load.

    Parameters
    ----------
    problem : Problem
        What it was trained on: trace, scenario, classes and forecaster.
    evaluation : Evaluation
        Its policy and the heuristics on test sequences.
    brought : str
        A sentence on what training brought.
    """

    problem: Problem
    evaluation: Evaluation
    brought: str

    @property
    def name(self) -> str:
        """The name of its policy, that of the folder."""
        return self.folder.resolve().name

    @cached_property
    def policy(self) -> Scheduler:
        """The policy that was best on validation sequences, as a scheduler."""
        return load_policy(self.folder)

    @property
    def progress(self) -> pl.DataFrame:
        """A row per iteration, 0 being the initial policy: reward and penalties of its training episodes, and where it
        was validated (else null) `eval_unplaced`, `eval_reward` and other means over validation sequences. Where
        workloads were left unplaced, only the first is there."""
        import polars as pl

        return pl.read_csv(self.folder / "progress.csv", infer_schema_length=None)

    @property
    def learning_curve(self) -> pl.DataFrame:
        """Mean reward on validation sequences (`reward`) by `iteration`, where the policy placed all workloads."""
        import polars as pl

        validated = self.progress.filter(pl.col("eval_reward").is_not_null())
        return validated.select("iteration", pl.col("eval_reward").alias("reward"))

    @property
    def rows(self) -> pl.DataFrame:
        """A row per scheduler and test sequence; see `Evaluation.rows`."""
        return self.evaluation.rows

    @property
    def plots(self) -> tuple[Path, ...]:
        """Files of the pictures, PNG: the learning curve, then those of the comparison."""
        return (self.folder / "learning.png", *self.evaluation.plots)

    def table(self) -> str:
        """Markdown of the comparison; see `Evaluation.table`."""
        return self.evaluation.table()

    def __str__(self) -> str:
        return "\n\n".join(filter(None, [str(self.evaluation), self.brought]))

    def _repr_html_(self) -> str:
        return f"{self.evaluation._repr_html_()}<p>{self.brought}</p>"  # in notebooks


def train(
    trace: Trace | str | Path = "google",
    preset: str | None = None,
    *,
    scenario: Scenario | None = None,
    slot_seconds: int | None = None,
    ec: str = TrainingSettings.ec,
    forecaster: str | Path | None = None,
    out: str | Path | None = None,
    resume: str | Path | None = None,
    deeprm: bool = True,
    report: Report | None = say,
    **changes: Any,
) -> TrainingRun:
    """Train a placement policy on a trace, then compare it with heuristics on unseen workloads.

    Parameters
    ----------
    trace : Trace | str | Path, default 'google'
        A trace, its name or path.
    preset : str, optional
        Defaults of the hyper-parameters: smoke (a trial, seconds), counterfactual (minutes; the default), medium, paper
        or deeprm (`tvwrl.agents.PRESETS`).
    scenario : Scenario, optional
        The environment, in place of the preset's.
    slot_seconds : int, optional
        Length of a slot of the trace, seconds, which a CSV lacks.
    ec : str, default 'aggregate'
        Equivalence classes: aggregate, dtw, temporal or none, or a file of fitted ones.
    forecaster : str | Path, optional
        A file of a fitted forecaster; default: fitted now, if the policy sees forecasts.
    out : str | Path, optional
        A new folder for the run; the policy is named after it. Default: a temporary folder, removed with the result;
        `TrainingRun.write` copies it. Only a run in a folder can be resumed.
    resume : str | Path, optional
        Continue the run in this folder to its original number of iterations; nothing else is given then but `report`.
    deeprm : bool, default True
        Whether to train DeepRM too, the paper's learnt baseline, for the comparison.
    report : Report | None, default say
        Called with a line of progress now and then; default: to stderr; None: silence.
    **changes : Any
        Any field of `tvwrl.TrainConfig` or `tvwrl.Scenario` that differs from the preset, such as iterations=10 or
        load=0.8.

    Returns
    -------
    TrainingRun
        The folder of the run, and how its best policy compares with heuristics.

    Raises
    ------
    InputError
        For an unknown trace, preset or field (with those that are near), values out of range, a folder that is not
        empty, and a training that diverges. Ctrl-C ends it after the iteration, with a checkpoint in `out`, and says
        how to continue.

    Examples
    --------
    >>> run = train("google", "smoke", load=0.8)  # doctest: +SKIP
    >>> print(run)  # doctest: +SKIP
    >>> tvwrl.evaluate({"mine": run, "spread": "spread"}, run.problem, loads=[0.3, 0.5])  # doctest: +SKIP
    """
    report = report or nothing
    if resume is not None:
        if changes or (trace, preset, scenario, slot_seconds, ec, forecaster, out, deeprm) != _ALONE:
            raise InputError("resume continues with the run's own settings: only report can be combined with it")
        folder, kept = Path(resume).expanduser(), None
        trainer = take_up(folder, report)
    else:
        config = config_from(preset, scenario, changes)
        if not isinstance(trace, Trace | str | Path):
            raise InputError(f"trace is {trace!r}: must be a Trace, a name or a path, as in 'google' or 'usage-folder'")
        folder, kept = folder_for(out, POLICY)
        settings = TrainingSettings(
            trace="" if isinstance(trace, Trace) else str(trace),
            slot_seconds=slot_seconds,
            ec=ec,
            forecaster=None if forecaster is None else Path(forecaster),
            deeprm=deeprm,
            out=folder,
            config=config,
        )
        trainer = begin(settings, report, trace if isinstance(trace, Trace) else None)
    try:
        pass_on_signal(trainer.run())
        evaluation, brought = compare_with_heuristics(trainer, report)
    except (KeyboardInterrupt, SystemExit):
        again = f"; continue with: tvwrl.train(resume={str(folder)!r})"
        resumable = kept is None and trainer.trace["argument"] is not None
        report(f"stopped after iteration {trainer.iteration}" + again * resumable)
        raise
    return TrainingRun(folder, kept, trainer.problem, replace(evaluation, _kept=kept), brought)


OWN = {"trace", "preset", "scenario", "slot_seconds", "ec", "forecaster", "out", "resume", "deeprm", "report"}
# What `train` is given beside `resume`: the defaults
_ALONE = ("google", None, None, None, TrainingSettings.ec, None, None, True)


def config_from(preset: str | None, scenario: Scenario | None, changes: dict[str, Any]) -> TrainConfig:
    """The hyper-parameters of a preset with changes, each a field of `TrainConfig` or of `Scenario`.

    Raises InputError for an unknown preset or field (with those that are near), a field of a scenario beside a
    scenario, and values out of range.
    """
    one_of(PRESETS, preset=preset)
    of_config = {one.name for one in fields(TrainConfig)} - {"scenario"}
    of_scenario = {one.name for one in fields(Scenario)}
    for name in changes:
        if name not in of_config | of_scenario:
            raise InputError(f"there is no option '{name}': {hint(name, sorted(of_config | of_scenario | OWN))}")
    if scenario is not None and (twice := sorted(of_scenario & set(changes))):
        raise InputError(f"{twice[0]} cannot be combined with scenario, which has it")
    config = preset_for(preset or "", str(changes.get("algo", "")), str(changes.get("policy", "")))
    seen = {name: value for name, value in changes.items() if name in of_scenario}
    rest: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in changes.items() if name in of_config
    }
    return replace(config, scenario=replace(scenario or config.scenario, **seen), **rest)
