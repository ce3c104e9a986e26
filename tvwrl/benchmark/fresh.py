"""Run the entries of a submission again, on the task's sequences and on fresh ones that are drawn at the time.

The task's test sequences are public. An entry that was fitted to them, or that carries them, does better there than on
sequences drawn in the same way that nobody has seen. On `google` these come from new synthetic populations; a recorded
trace has no others, so there the same workloads arrive at other times, in other mixes and from other slots on.

On both its cost is divided by that of `best-fit-peak` on the same sequence, since some sequences are harder than
others. Logarithms of these ratios are compared, so that twice and half the cost weigh alike.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tvwrl.benchmark.entries import Entry, Setting, entry_of
from tvwrl.benchmark.submission import Submission
from tvwrl.benchmark.tasks import EMBEDDED, Task, check_drawn, forecaster_of, problem_of
from tvwrl.envs import Problem
from tvwrl.experiments import Rows, incomplete_by
from tvwrl.progress import say
from tvwrl.schedulers import Knowledge, Runner, Scheduler, make_scheduler
from tvwrl.traces import synthetic_trace
from tvwrl.types import Float, InputError, SequenceSet

if TYPE_CHECKING:
    import polars as pl

REFERENCE = "best-fit-peak"
USUAL = "spread"  # how much its ratios differ between draws bounds how much an entry's may, in the interval
MOST_VARIED = 2.0  # times as much: an entry could hide in an interval that it widens itself, by playing badly at times
POPULATIONS = 20  # fresh ones, of as many workloads as the task's; each gives at least one sequence
WORKLOADS = 400
LEVEL, REFUSED_AT = 0.95, 0.999  # of the interval that is shown, and of the one that a submission may be refused by


class Difference(NamedTuple):
    """A difference of means, and half of its interval at a level of confidence; NaN with fewer than two draws."""

    value: float
    deviation: float  # standard deviation of the value
    freedom: float  # degrees of freedom of Student's t

    def half(self, level: float) -> float:
        """Half of the interval at that level.

        >>> round(Difference(1.0, 0.5, 9.0).half(0.95), 2)
        1.13
        """
        from scipy import stats

        if np.isnan(self.deviation):
            return float("nan")
        return float(self.deviation * stats.t.ppf(0.5 + level / 2, max(self.freedom, 1.0)))

    def percent(self, level: float) -> str:
        """Of logarithms: how much more the one is than the other, and the interval at that level.

        >>> Difference(0.1, float("nan"), 1.0).percent(0.95)
        '+10.5 %'
        """
        value, half = self.value, self.half(level)
        more, low, high = (f"{100 * np.expm1(one):+.1f}" for one in (value, value - half, value + half))
        return f"{more} %" + ("" if np.isnan(half) else f" [{low}, {high}]")

    @property
    def beyond_chance(self) -> bool:
        """Whether it is above 0, at the level that a submission may be refused by."""
        return bool(self.value - self.half(REFUSED_AT) > 0)

    @property
    def differs(self) -> bool:
        """Whether it is above or below 0, at that level."""
        return bool(abs(self.value) - self.half(REFUSED_AT) > 0)


@dataclass(frozen=True)
class Checked:
    """An entry that was run again."""

    name: str
    knowledge: Knowledge  # what it could see
    submitted: float  # mean reward, as replayed
    rows: Rows  # scores on the task's sequences, measured here
    fresh: float  # mean reward on fresh sequences
    ratio: tuple[float, float]  # its cost by `REFERENCE`'s, geometric mean: on the task's sequences, on fresh ones
    dearer: Difference  # of the logarithms of these ratios: how much dearer it is on fresh sequences
    lost: Difference  # of the logarithms of its cost on the task's sequences: here over submitted

    @property
    def again(self) -> float:
        """Mean reward on the task's sequences, measured here."""
        return float(np.mean([row["reward"] for row in self.rows]))

    @property
    def counted(self) -> Rows:
        """The rows with which an entry is ranked: where it is dearer on fresh sequences, its rewards are as much lower.

        So what an entry gains by knowing public sequences is taken away, even where chance could explain it.
        """
        factor = max(1.0, float(np.exp(self.dearer.value)))
        return [row | {"reward": factor * row["reward"]} for row in self.rows]

    @property
    def refusal(self) -> str | None:
        """Why the submission is refused, or None."""
        if self.lost.differs:
            return (
                f"entry '{self.name}' was submitted with a mean reward of {self.submitted:,.0f} and has "
                f"{self.again:,.0f} when it is run: its cost differs by {self.lost.percent(REFUSED_AT)}, more than "
                f"chance explains at {100 * REFUSED_AT:g} %; it is not what was submitted"
            )
        if self.dearer.beyond_chance:
            public, fresh = self.ratio
            return (
                f"entry '{self.name}' costs {public:.2f} times as much as {REFERENCE} on the task's public sequences, "
                f"{fresh:.2f} times as much on fresh ones: {self.dearer.percent(REFUSED_AT)} dearer is more than "
                f"chance explains, at {100 * REFUSED_AT:g} %; it seems to be fitted to the public sequences"
            )
        return None


class Draw(NamedTuple):
    """Sequences to play on."""

    problem: Problem
    sequences: SequenceSet


def run_entries(
    folder: str | Path, about: Submission, replayed: pl.DataFrame, seed: int, only: str | None = None
) -> list[Checked]:
    """Run the entries of the submission in `folder` again, each in a process of its own; `only`: that one alone.

    `replayed`: the rows of `check_submission`
    `seed`: of the fresh sequences

    Raises InputError if an entry has no file to run, cannot be loaded, raises an error, exceeds the task's time limit,
    or leaves workloads unplaced.
    """
    import polars as pl

    found, task = [], about.task
    for name in about.knowledge if only is None else (only,):
        if name not in about.files:
            raise InputError(
                f"{folder}: entry '{name}' has no file that can be run: compare and submit it again as a Python file "
                "that defines 'entry', or as an ONNX file (docs/how-to/enter-the-benchmark.md)"
            )
        say(f"running entry '{name}' on the {task.sequences} sequences of {task.name}, then on fresh ones")
        setting = Setting.of_submission(task)
        own = replayed.filter(pl.col("scheduler") == name).sort("sequence")["reward"].to_numpy()
        with closing(entry_of(name, about.files[name], setting, about.observe.get(name))) as entry:
            found.append(_checked(entry, task, own, seed))
    return found


def _checked(entry: Entry, task: Task, submitted: Float, seed: int) -> Checked:
    """One entry, run on the task's sequences and on fresh ones."""
    problem = entry.problem or problem_of(task)
    if entry.scheduler.needs_forecasts:
        problem = replace(problem, forecaster=problem.forecaster or forecaster_of(task))
    public = [Draw(problem, problem.sequences(task.split, task.sequences, task.seed))]
    check_drawn(task, problem, public[0].sequences)
    fresh = fresh_draws(task, problem, seed)
    rows, beside = _rewards(entry.scheduler, public, task, "the task's"), _rewards(REFERENCE, public, task, "")
    new, beside_new = _rewards(entry.scheduler, fresh, task, "the fresh"), _rewards(REFERENCE, fresh, task, "")
    usual = [np.array([row["reward"] for row in one]) for one in _rewards(USUAL, fresh, task, "")]
    rewards = [np.array([row["reward"] for row in one]) for one in rows]
    new_rewards = [np.array([row["reward"] for row in one]) for one in new]
    public_logs, fresh_logs = _log_ratios(rewards, beside), _log_ratios(new_rewards, beside_new)
    return Checked(
        entry.scheduler.name,
        entry.scheduler.knowledge,
        float(submitted.mean()),
        rows[0],
        float(np.concatenate(new_rewards).mean()),
        (float(np.exp(_mean(public_logs))), float(np.exp(_mean(fresh_logs)))),
        difference(public_logs, fresh_logs, _log_ratios(usual, beside_new)),
        paired(np.log(rewards[0] / submitted)),
    )


def fresh_draws(task: Task, problem: Problem, seed: int) -> list[Draw]:
    """As many test sequences as the task has, at least `POPULATIONS`, in the units and with the classes of `problem`.

    On the embedded population, from that many new ones; on a recorded trace, of its own test workloads.
    """
    seeds, total = np.random.SeedSequence(seed).generate_state(POPULATIONS), max(task.sequences, POPULATIONS)
    if task.trace != EMBEDDED:
        return [Draw(problem, problem.sequences(task.split, total, int(seeds[0])))]
    draws = []
    for own, part in zip(seeds.tolist(), np.array_split(np.arange(total), POPULATIONS), strict=True):
        trace = synthetic_trace(EMBEDDED, workloads=WORKLOADS, seed=own)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what a population cannot give
            unit, forecaster = problem.sampler.unit, problem.forecaster
            other = Problem.build(trace, problem.scenario, problem.classes, unit, forecaster)
            draws.append(Draw(other, other.sequences(task.split, len(part), own)))
    return draws


def _rewards(scheduler: Scheduler | str, draws: Sequence[Draw], task: Task, which: str) -> list[Rows]:
    """The referee's scores of a scheduler by draw. Raises InputError for what it does not place."""
    import polars as pl

    player, played = make_scheduler(scheduler) if isinstance(scheduler, str) else scheduler, list[Rows]()
    for problem, sequences in draws:
        runner = Runner(sequences, problem.machines, problem.scenario, task.seed)
        played.append(scores(player, problem, runner, len(sequences), warm=not played))
    every = pl.DataFrame([row for rows in played for row in rows]).with_columns(scheduler=pl.lit("it"))
    for what in incomplete_by(every, ["scheduler"]).values():
        raise InputError(f"'{player.name}', on {which} sequences: {what}: a reward needs a complete schedule")
    return played


def scores(scheduler: Scheduler, problem: Problem, runner: Runner, count: int, warm: bool = True) -> Rows:
    """The referee's scores (`tvwrl.metrics.score_episode`) on the first `count` sequences of a runner.

    `warm`: play one before that does not count: it compiles and loads code, which is no part of decision times
    """
    if warm:
        runner.play(scheduler, 0)
    return [problem.score(runner.play(scheduler, sequence)) for sequence in range(count)]


def _log_ratios(rewards: Sequence[Float], beside: Sequence[Rows]) -> list[Float]:
    """By draw (n,): logarithm of the cost on each sequence by that of `REFERENCE`. A cost is minus a reward."""
    reference = [np.array([row["reward"] for row in rows]) for rows in beside]
    return [np.log(own / other) for own, other in zip(rewards, reference, strict=True)]


def _mean(logs: Sequence[Float]) -> float:
    return float(np.mean([part.mean() for part in logs]))


def difference(public: Sequence[Float], fresh: Sequence[Float], usual: Sequence[Float]) -> Difference:
    """Logarithms of ratios on fresh sequences, less those on public ones, which are one draw.

    Of several fresh draws, public sequences are one more: the interval is Student's for a further value beside theirs,
    so it holds how much populations differ. Their median is taken, and their deviation counts for at most `MOST_VARIED`
    times that of `usual`, the same of `USUAL`: an entry that plays badly on a few fresh draws gains nothing by it. Of
    one draw, sequences are compared (Welch 1947), with the same limit.

    >>> two = [np.array([1.0, 1.0]), np.array([1.25, 1.5])]
    >>> difference([np.array([0.5, 0.75])], two, two).value
    0.5625
    """
    if len(fresh) > 1:
        own, other = (np.array([part.mean() for part in one]) for one in (fresh, usual))
        deviation = min(own.std(ddof=1), MOST_VARIED * other.std(ddof=1))
        return Difference(
            float(np.median(own)) - _mean(public), float(deviation * np.sqrt(1 + 1 / len(own))), len(own) - 1.0
        )
    value, sizes = _mean(fresh) - _mean(public), [len(public[0]), len(fresh[0])]
    if min(sizes) < 2:
        return Difference(value, float("nan"), 1.0)
    most = MOST_VARIED**2 * usual[0].var(ddof=1)
    parts = [min(part[0].var(ddof=1), most) / size for part, size in zip((public, fresh), sizes, strict=True)]
    total = sum(parts)
    freedom = total**2 / sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True)) if total else 1.0
    return Difference(value, float(np.sqrt(total)), float(freedom))


def paired(differences: Float) -> Difference:
    """The mean of paired differences (n,)."""
    count = len(differences)
    deviation = float(differences.std(ddof=1) / np.sqrt(count)) if count > 1 else float("nan")
    return Difference(float(differences.mean()), deviation, count - 1.0)
