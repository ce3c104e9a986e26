"""Do classes help? Agents and a rule that forecasts, with no classes, random, predicted and true ones.

The paper's central claim is that they do. Everything but the labels is the same, test sequences included, so what they
change is a paired difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tvwrl.agents import PRESETS, TrainConfig
from tvwrl.checks import at_least, different, one_of
from tvwrl.ec import DEFAULT_CLASSES, Classes
from tvwrl.envs import Problem
from tvwrl.experiments import (
    NO_ESTIMATE,
    TEST_SEED,
    Cell,
    Column,
    Estimate,
    Report,
    Rows,
    RowsCell,
    cells_of,
    check_seeds,
    crossed_estimate,
    estimates_by_column,
    fitted,
    opened,
    read_cell_rows,
    read_columns,
    trained_column,
)
from tvwrl.forecasting import Beginnings, NetworkForecaster, training_windows
from tvwrl.markdown import markdown_table
from tvwrl.schedulers import Runner, make_scheduler
from tvwrl.simulation import Scenario
from tvwrl.traces import describe_source
from tvwrl.types import Float32

if TYPE_CHECKING:
    import polars as pl

NONE = "no classes"
ARMS = (NONE, "random", "predicted", "true")
HISTORY = Scenario(observe_request=False)  # an agent that sees the load so far and classes, as the paper's
LEARNERS = {  # what the agents learn by; ppo is the best of those that see no more
    "reinforce": replace(PRESETS["paper"], scenario=HISTORY),
    "ppo": replace(PRESETS["medium"], scenario=HISTORY),
}
RULE = "expected-cost"


@dataclass(eq=False)
class ClassAwareForecaster(NetworkForecaster):
    """The usual forecaster, whose networks also see the label that a workload has at that time.

    Parameters
    ----------
    classes : Classes
        What labels workloads.
    """

    classes: Classes | None = None

    def inputs(self, beginnings: Beginnings) -> Float32:
        """(m, k + I) the label as k numbers, one of which is 1, before what the networks see anyhow.

        Parameters
        ----------
        beginnings : Beginnings
            m beginnings.
        """
        usual = super().inputs(beginnings)
        if self.classes is None:
            return usual
        used, row = np.unique(beginnings.row, return_inverse=True)
        table = self.classes.label_table(beginnings.windows[used][None])[0]
        label = table[row, np.minimum(beginnings.seen, table.shape[1] - 1)]
        seen: Float32 = np.concatenate([np.eye(self.classes.k + 1, dtype=np.float32)[label][:, 1:], usual], axis=1)
        return seen


@dataclass(frozen=True)
class ForecastCell(RowsCell):
    """The rule that forecasts, with forecasts that know a workload's class, on the test sequences."""

    trace: str  # what to open
    labels: str  # what `fitted` knows
    arm: str
    seed: int
    scenario: Scenario
    sequences: int

    @property
    def name(self) -> str:
        """Of the rule, the trace, the labels and the seed."""
        return f"{Path(self.trace).name}-{RULE}-{self.arm.replace(' ', '-')}-seed{self.seed}"

    def request(self) -> dict[str, Any]:
        """The trace by its content."""
        return super().request() | {"trace": opened(self.trace)[1]}

    def measure(self) -> Rows:
        """Fit the forecaster, and play the rule on every test sequence."""
        labels = fitted(self.trace, self.labels, self.scenario)
        problem = Problem.build(opened(self.trace)[0], self.scenario, labels)
        sizes = self.scenario.peak_units, self.scenario.step_seconds
        forecaster = ClassAwareForecaster(
            *sizes, random_state=self.seed, classes=None if self.arm == NONE else labels
        ).fit(training_windows(problem.sampler))
        problem = replace(problem, forecaster=forecaster)
        drawn = problem.sequences("test", self.sequences, TEST_SEED)
        rewards = problem.rewards(Runner(drawn, problem.machines, problem.scenario), make_scheduler(RULE))
        who = {"group": self.trace, "column": f"{RULE}, {self.arm}", "seed": self.seed}
        return [who | {"sequence": i, "reward": float(reward)} for i, reward in enumerate(rewards)]


@dataclass(frozen=True)
class ClassesStudy:
    """Train agents and fit forecasters with no classes, random, predicted and true ones, and compare them on the same
    test sequences; resumable."""

    traces: tuple[str, ...] = ("google2011", "google2019", "bitbrains")
    """Names or folders of traces."""
    representation: Literal["aggregate", "temporal", "dtw"] = DEFAULT_CLASSES
    """Representation of the classes; the silhouette chooses how many."""
    learners: tuple[str, ...] = tuple(LEARNERS)
    """Agents to train: reinforce (the paper's), ppo; --learners "" trains none, for forecasts alone."""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Seeds of trainings and forecasters, and of what is dealt out at random."""
    load: float = 0.5
    """Offered load."""
    iterations: int | None = None
    """Updates of an agent's policy; default: its preset's (reinforce: the paper's 2,000, hours)."""
    sequences: int = 30
    """Test sequences."""
    forecasts: bool = True
    """Fit forecasters too, for the rule expected-cost."""

    partial = True

    def cells(self, figure: str) -> list[Cell]:
        """Forecasts first, which are quick, then agents, all seed by seed."""
        check_seeds(self.seeds)
        different(traces=[Path(trace).name for trace in self.traces])
        if self.learners or not self.forecasts:
            different(learners=self.learners)
        one_of(LEARNERS, learners=self.learners)
        at_least(1, iterations=self.iterations, sequences=self.sequences)
        return [*self._forecasts(), *cells_of(self._columns())]

    def report(self, figure: str, out: Path, cells: Sequence[Cell]) -> Report:
        """A table per trace of rewards, and of what each kind of label changes."""
        import polars as pl

        done = {cell.name for cell in cells}
        columns = [column for column in self._columns() if column.cell.name in done]
        own = [cell for cell in cells if isinstance(cell, ForecastCell)]
        parts = [read_columns(out, columns)] if columns else []
        parts += [pl.DataFrame(read_cell_rows(out, own))] if own else []
        rows = pl.concat(parts, how="diagonal_relaxed")
        groups = {trace: rows.filter(group=trace) for trace in rows["group"].unique(maintain_order=True)}
        sources = [describe_source(opened(trace)[0], trace) for trace in self.traces]
        tables = [f"## {trace}\n\n{table(own)}" for trace, own in groups.items()]
        text = "\n\n".join([f"# {TITLE}", *sources, self._how(), *tables, verdict(list(groups.values()))])
        kept = [name for name in ("group", "column", "seed", "sequence", "reward") if name in rows.columns]
        return Report(text, rows.select(kept).to_dicts(), facts={"sources": sources})

    def _how(self) -> str:
        updates = ", ".join(f"{name} {self._config(name, 0).iterations}" for name in self.learners)
        seeds = ", ".join(map(str, self.seeds))
        return (
            f"Load {self.load:g}, {self.sequences} test sequences, seeds {seeds}; updates of the policy: {updates}. "
            f"Classes by {self.representation}, as many as the silhouette chooses. {NOTE}"
        )

    def _config(self, learner: str, seed: int) -> TrainConfig:
        base = LEARNERS[learner]
        iterations = base.iterations if self.iterations is None else self.iterations
        done: dict[str, Any] = {"iterations": iterations, "eval_every": min(base.eval_every, iterations), "seed": seed}
        return replace(base, scenario=replace(base.scenario, load=self.load), **done)

    def _labels(self, arm: str, seed: int) -> str:
        """Of an arm, as `fitted` knows them."""
        told = {
            NONE: "one label",
            "random": f"random{seed} {self.representation}",
            "true": f"true {self.representation}",
        }
        return told.get(arm, self.representation)

    def _forecasts(self) -> list[ForecastCell]:
        scenario = replace(HISTORY, load=self.load)
        return [
            ForecastCell(trace, self._labels(arm, seed), arm, seed, scenario, self.sequences)
            for seed in self.seeds
            for trace in self.traces
            for arm in ARMS
            if self.forecasts
        ]

    def _columns(self) -> list[Column]:
        columns = []
        for seed in self.seeds:
            for trace in self.traces:
                for learner in self.learners:
                    config = self._config(learner, seed)
                    for arm in ARMS:
                        name = f"{Path(trace).name}-{learner}-{arm.replace(' ', '-')}-seed{seed}"
                        who, labels = f"{learner}, {arm}", self._labels(arm, seed)
                        columns.append(trained_column(name, trace, who, trace, config, labels, self.sequences))
        return columns


TITLE = "Do classes help? Agents and forecasts with no classes, random, predicted and true ones"
NOTE = (
    "No classes: every workload has the same label. Random: each workload keeps a label that was dealt out. Predicted: "
    "by the run-time classifier, anew in every slot. True: the class of the workload's whole series, known from the "
    "start, which nobody can know. The agents see the load so far and the labels; the rule expected-cost forecasts by "
    "networks that see the label beside requests and usage so far. Rewards in thousands, higher is better; differences "
    "to no classes are paired over seeds and sequences, with 95 % intervals."
)


def change(rows: pl.DataFrame, name: str) -> Estimate:
    """What a column's labels change against no classes, over the seeds that both have; `rows` of one trace."""
    plain = f"{name.rpartition(', ')[0]}, {NONE}"
    of_both = rows.filter(column=name).join(rows.filter(column=plain), on=["seed", "sequence"], suffix="_plain")
    if not len(of_both):
        return NO_ESTIMATE
    of_both = of_both.sort("seed", "sequence")
    more = (of_both["reward"] - of_both["reward_plain"]).to_numpy().astype(np.float64)
    return crossed_estimate(more.reshape(of_both["seed"].n_unique(), -1))


def table(rows: pl.DataFrame) -> str:
    """A row per scheduler and labels of one trace: the reward, and what it is more than with no classes."""
    body = []
    for name, found in next(iter(estimates_by_column(rows, "reward").values())).items():
        who, _, arm = name.rpartition(", ")
        seeds = rows.filter(column=name)["seed"].n_unique()
        more = "" if arm == NONE else _thousands(change(rows, name), "+")
        body.append([who, arm, str(seeds), _thousands(found), more])
    return markdown_table(["scheduler", "labels", "seeds", "reward", "more than with no classes"], body)


def verdict(groups: Sequence[pl.DataFrame]) -> str:
    """How often labels of each kind help, and hurt, beyond what chance explains; `groups` are rows by trace."""
    lines = []
    for arm in ARMS[1:]:
        found = [change(rows, name) for rows in groups for name in rows["column"].unique() if name.endswith(f", {arm}")]
        found = [one for one in found if np.isfinite(one.mean)]
        better = sum(one.excludes_zero and one.mean > 0 for one in found)
        worse = sum(one.excludes_zero and one.mean < 0 for one in found)
        lines.append(
            f"- {arm}: of {len(found)} comparisons, {better} significantly better, {worse} significantly worse"
        )
    mind = (
        "Significant: the 95 % interval leaves out 0. Nothing corrects for the number of comparisons, so about one in "
        "20 is significant by chance."
    )
    return "## What labels change against no classes\n\n" + "\n".join(lines) + f"\n\n{mind}"


def _thousands(found: Estimate, sign: str = "") -> str:
    low, high = (value / 1000 for value in found.interval)
    shown = "-" if np.isnan(found.mean) else f"{found.mean / 1000:{sign}.1f}"
    return shown if np.isnan(low) else f"{shown} [{low:{sign}.1f}, {high:{sign}.1f}]"
