"""What moves are worth on unseen sequences: no moves, tuned rules, and a learnt value, by trace, load and price."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tyro

from tvwrl import Scenario, open_trace
from tvwrl.envs import Problem
from tvwrl.experiments.statistics import paired_bootstrap
from tvwrl.experiments.tuned_moves import with_tuned_moves
from tvwrl.markdown import markdown_table
from tvwrl.schedulers import PLACING, Runner, Scheduler, make_scheduler, plus

RULES = ("evacuate", "greedy-evacuate")  # each at the settings that are best on 60 training sequences
COLUMNS = (
    "trace",
    "load",
    "price",
    "scheduler",
    "sequence",
    "reward",
    "moves_per_workload",
    "moved_often",
    "overshoot_pct",
)


def main(
    out: Path = Path("moves-worth.csv"),
    traces: Sequence[str] = ("google2011", "google2019", "tianchi", "bitbrains"),
    loads: Sequence[float] = (0.5,),
    prices: Sequence[float] = (300.0, 1000.0, 3000.0),
    sequences: int = 60,
    seed: int = 1,
    value: str = "",
) -> None:
    """Play what `out` does not have yet, and print the table.

    Args:
        out: CSV with a row per scheduler and sequence; the same call goes on with it.
        traces: names of prepared traces.
        loads: offered loads.
        prices: prices of a move.
        sequences: test sequences of each.
        seed: of these.
        value: file of a learnt value; default: the one that ships.
    """
    done = _read(out)
    for name in traces:
        base = None
        for load in loads:
            for price in prices:
                if any((row["trace"], float(row["load"]), float(row["price"])) == (name, load, price) for row in done):
                    continue
                base = base or Problem.build(open_trace(name), Scenario(moves_per_slot=2)).with_forecasts()
                rows = _cell(base.at_load(load).at_price(price), sequences, seed, value)
                done += [{"trace": name, "load": load, "price": price} | row for row in rows]
                _write(out, done)
                print(f"{name}, load {load:g}, price {price:g}: done", flush=True)
    print(table(done))


def _cell(problem: Problem, sequences: int, seed: int, value: str) -> list[dict[str, object]]:
    runner = Runner(problem.sequences("test", sequences, seed), problem.machines, problem.scenario)
    learnt = make_scheduler(plus(PLACING, "machine-value" + (f"={value}" if value else "")))
    learnt.name = plus(PLACING, "machine-value")
    schedulers: list[Scheduler] = [make_scheduler(PLACING), learnt, *with_tuned_moves(problem, PLACING, RULES)]
    rows = []
    for scheduler in schedulers:
        for i in range(sequences):
            row = problem.score(runner.play(scheduler, i))
            rows.append({"scheduler": scheduler.name, "sequence": i} | {name: row[name] for name in COLUMNS[5:]})
    return rows


def table(rows: Sequence[dict[str, object]]) -> str:
    """Mean rewards in thousands, and what the learnt value gains on no moves and on the better rule."""
    lines = []
    cells = dict.fromkeys((str(row["trace"]), float(str(row["load"])), float(str(row["price"]))) for row in rows)
    for trace, load, price in cells:
        of = [r for r in rows if (r["trace"], float(str(r["load"])), float(str(r["price"]))) == (trace, load, price)]
        names = list(dict.fromkeys(str(row["scheduler"]) for row in of))
        rewards = {
            name: np.array([float(str(row["reward"])) for row in of if row["scheduler"] == name]) / 1000
            for name in names
        }
        still, learnt, *rules = names
        best = max(rules, key=lambda name: float(rewards[name].mean()))
        moves = np.mean([float(str(row["moves_per_workload"])) for row in of if row["scheduler"] == learnt])
        gains = [paired_bootstrap(rewards[learnt], rewards[other]) for other in (still, best)]
        shares = [
            f"{gain:+.0f} [{low:+.0f}, {high:+.0f}] ({100 * gain / -rewards[other].mean():+.0f} %)"
            for (gain, low, high), other in zip(gains, (still, best), strict=True)
        ]
        means = [f"{rewards[name].mean():.0f}" for name in (still, best, learnt)]
        rule = best.removeprefix(plus(PLACING, ""))
        lines.append(
            [trace, f"{load:g}", f"{price:,.0f}", means[0], f"{means[1]} `{rule}`", means[2], *shares, f"{moves:.2f}"]
        )
    head = [
        "trace",
        "load",
        "price",
        "no moves",
        "best tuned rule",
        "learnt value",
        "against no moves",
        "against the rule",
    ]
    return markdown_table([*head, "moves per workload"], lines)


def _read(file: Path) -> list[dict[str, object]]:
    if not file.is_file():
        return []
    with file.open(newline="") as opened:
        return [dict(row) for row in csv.DictReader(opened)]


def _write(file: Path, rows: Sequence[dict[str, object]]) -> None:
    partial = file.with_name(file.name + ".part")
    with partial.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    partial.replace(file)


if __name__ == "__main__":
    tyro.cli(main)
