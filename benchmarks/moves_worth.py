"""What moves are worth on unseen sequences, by trace, load and price: no moves, tuned rules, learnt values, references.

Values are learnt on a trace at all loads and prices together (`own`), and on the other traces alone (`others`), so that
the trace is one that they have never seen. Those, and the value that ships, are also played with the options that are
best on the training sequences on which rules are tuned (`tuned`). What `out` has is not learnt or played again (nor
tuned anew, where options of rules have changed since): run several at once, one trace each, and read the table of all
with `--read`.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from tvwrl import Scenario, open_trace
from tvwrl.agents import ValueSettings, learn_value
from tvwrl.envs import Problem
from tvwrl.experiments.statistics import paired_bootstrap
from tvwrl.experiments.tuned_moves import with_tuned_moves
from tvwrl.markdown import markdown_table
from tvwrl.schedulers import PLACING, Runner, Scheduler, make_scheduler, plus

TRACES = ("google2011", "google2019", "tianchi", "bitbrains")
RULES = ("greedy", "evacuate", "greedy-evacuate")  # each at the settings that are best on 60 training sequences
TUNED = " tuned"  # of a value, behind its kind
KINDS = ("shipped", "shipped" + TUNED, "own", "others", "others" + TUNED, "apart")
REFERENCE, REFERENCES = "perfect-forecast", 10  # the best rule with perfect forecasts, on so many sequences
MEASURES = ("reward", "moves_per_workload", "moved_often", "overshoot_pct")
COLUMNS = ("trace", "load", "price", "scheduler", "name", "sequence", *MEASURES)
SETTINGS: dict[str, Any] = {"gammas": (0.9,), "thresholds": (0.7, 1.0, 1.5), "placings": (0.0, 0.3), "validation": 90}
EACH = 40  # training sequences of a trace, load and price
Row = dict[str, object]
_problems: dict[str, Problem] = {}


def main(
    out: Path = Path("moves-worth"),
    traces: Sequence[str] = TRACES,
    loads: Sequence[float] = (0.3, 0.5, 0.8),
    prices: Sequence[float] = (300.0, 1000.0, 3000.0),
    seeds: Sequence[int] = (0,),
    sequences: int = 60,
    others: bool = True,
    references: bool = True,
    places: str = PLACING,
    apart: Path | None = None,
    read: bool = False,
) -> None:
    """Learn and play what `out` does not have yet, and print the tables.

    Args:
        out: folder with values, and a CSV for each trace with a row per scheduler and sequence.
        traces: names of prepared traces.
        loads: offered loads.
        prices: prices of a move.
        seeds: of learning.
        sequences: test sequences of each cell.
        others: learn on the other three traces too.
        references: play the best rule with perfect forecasts.
        places: who places what waits, here and while values are learnt.
        apart: another `out`, whose own values, learnt while another rule placed, are played here too, and whose rows
            are compared with these.
        read: print the tables of what is there, and play nothing.
    """
    for trace in () if read else traces:
        file = out / f"{trace}.csv"
        rows = _read(file)
        values = {"shipped": "machine-value", f"shipped{TUNED}": "machine-value"}
        for seed in seeds:
            values[f"own-{seed}"] = _learnt(out, f"{trace}-own-{seed}", [trace], loads, prices, seed, places)
            if apart is not None:
                values[f"apart-{seed}"] = f"machine-value={apart / 'values' / f'{trace}-own-{seed}.npz'}"
            if others:
                rest = [one for one in TRACES if one != trace]
                values[f"others-{seed}"] = _learnt(out, f"{trace}-others-{seed}", rest, loads, prices, seed, places)
                values[f"others{TUNED}-{seed}"] = values[f"others-{seed}"]
        for load in loads:
            for price in prices:
                cell = {"trace": trace, "load": str(load), "price": str(price)}
                here = [row for row in rows if all(row[name] == cell[name] for name in cell)]
                played = _played(_at(trace, load, price), here, values, sequences, references, places)
                new = [cell | row for row in played]
                if new:
                    rows += new
                    _write(file, rows)
                    print(f"{trace}, load {load:g}, price {price:g}: {len(new)} rows", flush=True)
    rows = [row for file in sorted(out.glob("*.csv")) for row in _read(file)]
    print(tables(rows))
    if apart is not None:
        there = [row for file in sorted(apart.glob("*.csv")) for row in _read(file)]
        print(f"\nMore than with the rule that places in {apart}:\n\n{beside(rows, there)}")


def _at(trace: str, load: float, price: float) -> Problem:
    if trace not in _problems:
        _problems[trace] = Problem.build(open_trace(trace), Scenario(moves_per_slot=2)).with_forecasts()
    return _problems[trace].at_load(load).at_price(price)


def _learnt(
    out: Path, name: str, traces: Sequence[str], loads: Sequence[float], prices: Sequence[float], seed: int, places: str
) -> str:
    """The rule by a value that is learnt unless it is there."""
    file = out / "values" / f"{name}.npz"
    if not file.is_file():
        problems = [_at(trace, load, price) for trace in traces for load in loads for price in prices]
        settings = ValueSettings(sequences=EACH * len(problems), seed=seed, places=places, **SETTINGS)
        file.parent.mkdir(parents=True, exist_ok=True)
        kept = file.with_suffix("")  # from which an interrupted call goes on
        learn_value(problems, settings, lambda line: print(f"{name}: {line}", flush=True), kept).save(file)
    return f"machine-value={file}"


def _played(
    problem: Problem, known: Sequence[Row], values: dict[str, str], sequences: int, references: bool, places: str
) -> Iterator[Row]:
    """Rows of a cell that are not known yet."""
    done = {str(row["scheduler"]) for row in known}
    runner = Runner(problem.sequences("test", sequences, 1), problem.machines, problem.scenario)
    schedulers: dict[str, Scheduler] = {} if "none" in done else {"none": make_scheduler(places)}
    if missing := [rule for rule in RULES if rule not in done]:
        schedulers |= dict(zip(missing, with_tuned_moves(problem, places, missing), strict=True))
    for label, rule in values.items():
        if label in done:
            continue
        if TUNED in label:
            (schedulers[label],) = with_tuned_moves(problem, places, [rule])
        else:
            schedulers[label] = make_scheduler(plus(places, rule))
    rewards: dict[str, list[float]] = {}
    for row in known:
        rewards.setdefault(str(row["name"]), []).append(float(str(row["reward"])))
    for label, scheduler in schedulers.items():
        for row in _rows(problem, runner, scheduler, sequences):
            rewards.setdefault(scheduler.name, []).append(float(str(row["reward"])))
            yield {"scheduler": label, "name": scheduler.name} | row
    if references and REFERENCE not in done:
        by_rule = {name: np.mean(of) for name, of in rewards.items() if "value" not in name and " + " in name}
        best = max(by_rule, key=lambda name: float(by_rule[name]))
        scheduler = make_scheduler(f"{REFERENCE}({best})")
        for row in _rows(problem, runner, scheduler, min(REFERENCES, sequences)):
            yield {"scheduler": REFERENCE, "name": scheduler.name} | row


def _rows(problem: Problem, runner: Runner, scheduler: Scheduler, sequences: int) -> Iterator[Row]:
    for i in range(sequences):
        row = problem.score(runner.play(scheduler, i))
        yield {"sequence": i} | {name: row[name] for name in MEASURES}


def tables(rows: Sequence[Row]) -> str:
    """Of each cell: mean rewards in thousands; what learnt values gain on no moves and on the best rule."""
    lines, summary = [], []
    cells = _cells(rows)
    for trace, load, price in cells:
        of = _cell(rows, (trace, load, price))
        rewards = _rewards(of)
        still = rewards["none"]
        best = _best_rule(rewards)
        line = [trace, f"{load:g}", f"{price:,.0f}", f"{still.mean():.0f}", f"{rewards[best].mean():.0f} {best}"]
        for kind in KINDS:
            if not (labels := [label for label in rewards if label.split("-")[0] == kind]):
                line.append("")
                continue
            learnt = _over_seeds(rewards, labels)
            gain, low, high = paired_bootstrap(learnt, rewards[best])
            line.append(f"{learnt.mean():.0f} ({gain:+.0f} [{low:+.0f}, {high:+.0f}])")
            summary.append(
                {
                    "kind": kind,
                    "load": load,
                    "price": price,
                    "less": 100 * (1 - learnt.mean() / still.mean()),
                    "rule less": 100 * (1 - rewards[best].mean() / still.mean()),
                    "over rule": 100 * gain / -rewards[best].mean(),
                    "better": low > 0,
                    "worse": high < 0,
                    "overshoot": np.mean([_array(of, label, "overshoot_pct").mean() for label in labels])
                    <= _array(of, "none", "overshoot_pct").mean(),
                    "often": np.mean([_array(of, label, "moved_often").mean() for label in labels]),
                }
            )
        perfect = rewards.get(REFERENCE)
        line.append("" if perfect is None else f"{perfect.mean():.0f} / {still[: len(perfect)].mean():.0f}")
        lines.append(line)
    head = ["trace", "load", "price", "no moves", "best tuned rule", *KINDS]
    head.append(f"best rule with perfect forecasts / no moves, {REFERENCES} sequences")
    return markdown_table(head, lines) + "\n\n" + _summaries(summary)


Cell = tuple[str, float, float]  # trace, load, price


def _cells(rows: Sequence[Row]) -> list[Cell]:
    return list(dict.fromkeys(_cell_of(row) for row in rows))


def _cell_of(row: Row) -> Cell:
    return str(row["trace"]), float(str(row["load"])), float(str(row["price"]))


def _cell(rows: Sequence[Row], cell: Cell) -> list[Row]:
    return [row for row in rows if _cell_of(row) == cell]


def _rewards(rows: Sequence[Row]) -> dict[str, np.ndarray]:
    """In thousands, by scheduler, of the rows of a cell."""
    labels = dict.fromkeys(str(row["scheduler"]) for row in rows)
    return {label: _array(rows, label, "reward") / 1000 for label in labels}


def _best_rule(rewards: dict[str, np.ndarray]) -> str:
    return max((rule for rule in RULES if rule in rewards), key=lambda rule: float(rewards[rule].mean()))


def _over_seeds(rewards: dict[str, np.ndarray], labels: Sequence[str]) -> np.ndarray:
    """Means over seeds by sequence, so that intervals are paired."""
    return np.mean([rewards[label] for label in labels], axis=0)


def beside(here: Sequence[Row], there: Sequence[Row]) -> str:
    """What is gained here on what another `out` has, by cell: without moves, by the best rule and by values.

    `apart`: values that were learnt there are played here.
    """
    lines = []
    better: dict[str, list[tuple[bool, bool]]] = {}
    for cell in _cells(here):
        mine, theirs = _rewards(_cell(here, cell)), _rewards(_cell(there, cell))
        line = [cell[0], f"{cell[1]:g}", f"{cell[2]:,.0f}"]
        pairs = {"no moves": ("none", "none"), "best tuned rule": (_best_rule(mine), _best_rule(theirs))}
        pairs |= {"shipped": ("shipped", "shipped"), "apart": ("apart-0", "own-0"), "own": ("own-0", "own-0")}
        pairs["own against apart"] = ("own-0", "apart-0")
        for what, (one, other) in pairs.items():
            against = mine if what == "own against apart" else theirs
            if one not in mine or other not in against:
                line.append("")
                continue
            gain, low, high = paired_bootstrap(mine[one], against[other])
            line.append(f"{gain:+.0f} [{low:+.0f}, {high:+.0f}]")
            better.setdefault(what, []).append((low > 0, high < 0))
        lines.append(line)
    counts = [f"{sum(b for b, _ in of)} / {sum(w for _, w in of)} of {len(of)}" for of in better.values()]
    lines.append(["surely better / worse", "", "", *counts])
    return markdown_table(["trace", "load", "price", *better], lines)


def _summaries(cells: Sequence[dict[str, object]]) -> str:
    """By kind of value, loads and price: means over traces, and how often it is surely better or worse."""
    lines = []
    for kind in dict.fromkeys(str(cell["kind"]) for cell in cells):
        for loads in ([0.5], sorted({float(str(cell["load"])) for cell in cells})):
            for price in sorted({float(str(cell["price"])) for cell in cells}):
                of = [c for c in cells if c["kind"] == kind and c["load"] in loads and c["price"] == price]
                if not of:
                    continue
                means = [
                    f"{np.mean([float(str(c[name])) for c in of]):.0f} %" for name in ("less", "rule less", "over rule")
                ]
                counts = [f"{sum(bool(c[name]) for c in of)} of {len(of)}" for name in ("better", "worse", "overshoot")]
                often = f"{max(float(str(c['often'])) for c in of):.0%}"
                where = " ".join(f"{load:g}" for load in loads)
                lines.append([kind, where, f"{price:,.0f}", *means, *counts, often])
    head = ["value", "loads", "price", "less cost than no moves", "best rule", "less cost than that rule"]
    head += ["surely better", "surely worse", "no more overshoots than without moves", "most moved more than twice"]
    return markdown_table(head, lines)


def _array(rows: Sequence[Row], scheduler: str, measure: str) -> np.ndarray:
    return np.array([float(str(row[measure])) for row in rows if row["scheduler"] == scheduler])


def _read(file: Path) -> list[Row]:
    if not file.is_file():
        return []
    with file.open(newline="") as opened:
        return [dict(row) for row in csv.DictReader(opened)]


def _write(file: Path, rows: Sequence[Row]) -> None:
    partial = file.with_name(file.name + ".part")
    with partial.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    partial.replace(file)


if __name__ == "__main__":
    tyro.cli(main)
