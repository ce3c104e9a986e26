"""`tvwrl train --seeds N`: a training per seed in a folder of its own, then the mean over seeds and how sure it is."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.checks import at_least
from tvwrl.command_line import parse
from tvwrl.experiments.episode_rows import incomplete_by, no_value, read_rows
from tvwrl.experiments.evaluation import is_unfinished
from tvwrl.experiments.learning_curve import RULES, curve_of, plot_learning
from tvwrl.experiments.statistics import (
    NO_ESTIMATE,
    Estimate,
    estimates_by_column,
    interquartile_mean,
    with_interval,
)
from tvwrl.experiments.train_command import (
    LEFT_OUT,
    TrainingSettings,
    begin,
    check_name,
    compare_with_heuristics,
    take_up,
)
from tvwrl.experiments.training_runs import pass_on_signal
from tvwrl.markdown import markdown_table
from tvwrl.option_files import read_options, write_options
from tvwrl.parallel import run_calls
from tvwrl.progress import Report, nothing, say, ticking
from tvwrl.runs import (
    LAST,
    OPTIONS,
    SEEDS,
    check_new_folder,
    default_folder,
    how_to_continue,
    provenance,
    read_csv,
    whole_file,
    write_csv,
    write_json,
)
from tvwrl.schedulers import INITIAL
from tvwrl.traces import open_and_describe
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

PLAYED = "evaluation"  # folder of a run with its comparison
STOPPED = "stopped"


def train_seeds(settings: TrainingSettings, report: Report) -> int:
    """Train with every seed from the start, or with those that are not finished in `resume`; returns the exit code.

    Raises InputError for bad options and for seeds that failed, when all others have ended; KeyboardInterrupt and
    SystemExit pass through, and leave a checkpoint of every seed that was under way. With several workers that is the
    last one of each, as processes have a few seconds to end.
    """
    folder = settings.resume or _begun(settings)
    asked = _asked(folder) if settings.resume else settings
    seeds = seeds_of(folder)
    again = f"continue with: {how_to_continue(folder)}"
    todo = [seed for seed in seeds if not is_done(folder / name_of(seed))]
    calls = [
        (train_one, (replace(asked, seeds=1, workers=1, config_file=None, resume=None, stop_after=settings.stop_after,
                             out=folder / name_of(seed), config=replace(asked.config, seed=seed)),))
        for seed in todo
    ]  # fmt: skip
    report(f"{len(seeds)} trainings, seeds {seeds[0]} to {seeds[-1]}, in {folder}" + _done_before(seeds, todo))
    failed, stopped = dict[str, Exception](), False
    try:
        with ticking("trainings", _ticks(asked, report), total=len(todo), unit="training") as bar:
            for position, result in run_calls(calls, asked.workers, None, processes=True, keep_going=True):
                name = name_of(todo[position])
                bar.update()
                if isinstance(result, Exception):
                    failed[name] = result
                    report(f"{name}: failed: {result}")
                    continue
                stopped |= result["ended"] == STOPPED
                report(f"{name} has {'stopped' if result['ended'] == STOPPED else 'ended'}")
    except (KeyboardInterrupt, SystemExit):
        report(f"stopped; {again}")
        raise
    if failed:
        if begun := any((folder / name_of(seed)).exists() for seed in seeds):
            report(again)
        else:  # what is wrong is wrong for all: nothing is in the way of the next attempt
            shutil.rmtree(folder, ignore_errors=True)
        same = {
            str(error): [name for name, one in failed.items() if str(one) == str(error)] for error in failed.values()
        }
        raise InputError("; ".join((f"{', '.join(names)}: " if begun else "") + error for error, names in same.items()))
    if stopped:
        report(again)
        return 0
    print(combine(folder, seeds))
    report(f"the runs of the seeds, {', '.join(WRITTEN)} are in {folder}")
    return 0


def _ticks(settings: TrainingSettings, report: Report) -> Report:
    """Of a clock beside trainings: they report themselves if they run here, one after the other."""
    return report if settings.workers > 1 else nothing


def _done_before(seeds: Sequence[int], todo: Sequence[int]) -> str:
    return f"; {len(seeds) - len(todo)} are finished" if len(todo) < len(seeds) else ""


def _begun(settings: TrainingSettings) -> Path:
    """The new folder of trainings, which says what was asked for. Raises InputError for bad options."""
    at_least(1, workers=settings.workers)
    folder = settings.out
    if folder is None:
        trace = open_and_describe(settings.trace, settings.slot_seconds, nothing)
        folder = default_folder(trace.name)
    check_name(settings, folder)
    check_new_folder(folder)
    text = write_options(settings, "train", LEFT_OUT)
    with whole_file(folder / OPTIONS) as file:
        file.write_text(text, encoding="utf-8")
    seeds = list(range(settings.config.seed, settings.config.seed + settings.seeds))
    write_json(folder / SEEDS, provenance() | {"seeds": seeds})
    return folder


def _asked(folder: Path) -> TrainingSettings:
    """What a folder of trainings was begun with."""
    file = folder / OPTIONS
    found: TrainingSettings = parse(TrainingSettings, args=read_options(file))
    return found


def seeds_of(folder: Path) -> list[int]:
    """The seeds of the trainings in a folder. Raises InputError where its list is damaged."""
    try:
        return [int(seed) for seed in json.loads((folder / SEEDS).read_text(encoding="utf-8"))["seeds"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / SEEDS} cannot be read ({error}): train again, with another --out") from error


def name_of(seed: int) -> str:
    """The folder of a training, and the name of its policy."""
    return f"seed-{seed}"


def is_done(run: Path) -> bool:
    """Whether a training was compared."""
    return (run / PLAYED / "rows.csv").is_file() and not is_unfinished(run / PLAYED)


def train_one(settings: TrainingSettings) -> dict[str, Any]:
    """Begin a training or take it up again, train and compare it; `ended`: how."""
    folder = settings.out
    assert folder is not None
    report = partial(_named, folder.name)
    if (folder / OPTIONS).is_file() and (folder / LAST).is_file():
        trainer = take_up(folder, report)
    else:  # what a kill left of its beginning
        shutil.rmtree(folder, ignore_errors=True)
        trainer = begin(settings, report)
    ended = trainer.run(settings.stop_after)
    if ended == STOPPED:
        return {"ended": ended}
    pass_on_signal(ended)
    compare_with_heuristics(trainer, report)
    return {"ended": ended}


def _named(name: str, text: str) -> None:
    say(f"{name}: {text}")


# ---- what all seeds found

TABLE, ROWS, CURVE, PICTURE = "table.md", "rows.csv", "learning.csv", "learning.png"
WRITTEN = (TABLE, ROWS, CURVE, PICTURE)


def combine(folder: Path, seeds: Sequence[int]) -> str:
    """Write rows, curve, picture and table of all seeds to their folder; returns the table."""
    check_same_trace(folder, seeds)
    rows = rows_of(folder, seeds)
    with whole_file(folder / ROWS) as file:
        rows.fill_nan(None).write_csv(file)
    progress = [read_csv(folder / name_of(seed) / "progress.csv") for seed in seeds]
    curve = curve_of(progress)
    each = [f"seed_{seed}" for seed in seeds]
    found = [
        {"iteration": at, "steps": steps, "mean": mean, "low": low, "high": high}
        | dict(zip(each, rewards.tolist(), strict=True))
        for at, steps, mean, (low, high), rewards in zip(
            curve.iteration, curve.steps.tolist(), curve.mean.tolist(), curve.band.tolist(), curve.reward.T, strict=True
        )
    ]
    write_csv(folder / CURVE, found)
    plot_learning(progress, None, folder / PICTURE, rules_of(folder, seeds))
    text = table(rows, folder.resolve().name, len(seeds))
    with whole_file(folder / TABLE) as file:
        file.write_text(text + "\n", encoding="utf-8")
    return text


def check_same_trace(folder: Path, seeds: Sequence[int]) -> None:
    """Raise InputError if a trace has changed between two trainings."""
    found = {seed: json.loads((folder / name_of(seed) / "run.json").read_text())["trace"]["hash"] for seed in seeds}
    if other := [seed for seed in seeds if found[seed] != found[seeds[0]]]:
        raise InputError(
            f"{folder / name_of(other[0])} was trained on another trace than {name_of(seeds[0])}: its content has "
            "changed in between; train all seeds again, with another --out"
        )


def rules_of(folder: Path, seeds: Sequence[int]) -> dict[str, float]:
    """Mean rewards of the rules that placed all validation sequences of every seed, which differ."""
    every = [read_csv(folder / name_of(seed) / RULES) for seed in seeds]
    found = [{row["scheduler"]: float(row["eval_reward"]) for row in rows} for rows in every]
    return {
        rule: float(np.mean([one[rule] for one in found])) for rule in found[0] if all(rule in one for one in found)
    }


def rows_of(folder: Path, seeds: Sequence[int]) -> pl.DataFrame:
    """The rows of all comparisons, with a column `seed`; policies are named after the folder of all seeds."""
    import polars as pl

    name, parts = folder.resolve().name, []
    for seed in seeds:
        own = name_of(seed)
        rows = read_rows(folder / own / PLAYED)
        if own + INITIAL not in rows["scheduler"]:  # the initial policy was the best, and is the policy
            rows = pl.concat([rows, rows.filter(scheduler=own).with_columns(scheduler=pl.lit(own + INITIAL))])
        called = {own: name, own + INITIAL: name + INITIAL}
        rows = rows.with_columns(pl.col("scheduler").replace(called))
        parts.append(rows.select(pl.lit(seed).alias("seed"), pl.all()))
    return pl.concat(parts, how="diagonal_relaxed")


def table(rows: pl.DataFrame, policy: str, seeds: int) -> str:
    """Markdown: the reward of every scheduler over seeds and sequences, and the policy's minus it.

    Parameters
    ----------
    rows : pl.DataFrame
        `seed`, `scheduler`, `sequence`, `reward` and more.
    policy : str
        The scheduler whose training the seeds are of.
    seeds : int
        How many.
    """
    import polars as pl

    named = rows.with_columns(pl.lit("").alias("group"), pl.col("scheduler").alias("column"))
    means = estimates_by_column(named, "reward")[""]
    middles = estimates_by_column(named, "reward", interquartile_mean)[""]
    missing = incomplete_by(rows, ["scheduler"])
    played = dict(rows.group_by("scheduler").len().iter_rows())
    for name in set(played) - {one for (one,) in missing}:
        if played[name] != played[policy]:  # a difference would be of other seeds
            missing[(name,)] = f"of {rows.filter(scheduler=name)['seed'].n_unique()} of {seeds} seeds alone"
            means[name] = NO_ESTIMATE
    order = sorted(means, key=lambda name: (not math.isnan(means[name].mean), means[name].mean), reverse=True)
    body = []
    for name in order:
        if what := missing.get((name,)):
            body.append([name, no_value(what), "", "", ""])
            continue
        ahead = _shown(means[policy] - means[name], "+") if name != policy else ""
        body.append([name, _shown(means[name]), _scatter(rows, name), _shown(middles[name]), ahead])
    head = ["scheduler", "reward", "means of seeds", "IQM", f"{policy} minus it"]
    count = rows["sequence"].n_unique()
    return (
        f"{markdown_table(head, body)}\n\n"
        f"Reward in thousands, {seeds} training seeds, each on the same {count} unseen sequences; in brackets 95 % "
        "bootstrap intervals, for which seeds and sequences are drawn anew; of differences they are paired by seed and "
        "sequence. IQM: mean of the middle half of all episodes.\n\n"
        f"{brought(means, policy, missing)}"
    )


def brought(means: Mapping[str, Estimate], policy: str, missing: Mapping[Any, str]) -> str:
    """A sentence on what training brought over all seeds; empty where the initial policy was not played."""
    initial = policy + INITIAL
    if initial not in means or any((name,) in missing for name in (policy, initial)):
        return ""
    gain = means[policy] - means[initial]
    low, high = gain.interval
    verdict = "improved the policy" if low > 0 else "made the policy worse" if high < 0 else "made no sure difference"
    share = 100 * gain.mean / max(abs(means[initial].mean), 1e-9)
    return f"Over seeds and sequences, training {verdict}: {_shown(gain, '+')} thousand ({share:+.1f} %)."


def _shown(estimate: Estimate, sign: str = "") -> str:
    return with_interval(estimate.mean / 1000, tuple(end / 1000 for end in estimate.interval), 1, sign)  # type: ignore[arg-type]


def _scatter(rows: pl.DataFrame, name: str) -> str:
    """Lowest and highest mean of a seed; empty where all are the same."""
    import polars as pl

    means = rows.filter(pl.col("scheduler") == name).group_by("seed").agg(pl.col("reward").mean())["reward"].to_numpy()
    low, high = means.min() / 1000, means.max() / 1000
    return "" if np.isclose(low, high) else f"{low:.1f} to {high:.1f}"
