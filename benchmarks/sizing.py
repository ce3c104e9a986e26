"""How much size each way to recommend costs at the same share of goals met, and whether doubts are true.

OMP_NUM_THREADS=1 python benchmarks/sizing.py. Two configurations of each arriving application are measured, drawn at
random; a size is recommended, and judged by the true performance. `simulated`: sizes of the testbed. From --folder:
`Erms` (erms_inflection.csv.gz), whose sizes are levels of CPU and memory that neighbours leave, and `nginx`
(ntua_nginx_ibench.csv.gz), whose sizes are a machine's share: one of the pods that run there. A point prediction is
safer with a larger margin beyond the goal, ours with a larger probability; what is compared is the size at equal shares
of goals met.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

from tvwrl.lrasched import (
    PREDICTORS,
    Asked,
    Configuration,
    PerformanceModel,
    Profiles,
    Target,
    advise,
    configurations,
    draw_applications,
    profile,
)
from tvwrl.lrasched.advice import WORSE
from tvwrl.papers.lrasched.cells import read_erms, read_nginx
from tvwrl.plotting import COLOURS, DPI, WIDTH, new_figure, tidy
from tvwrl.types import Float, Int

GOALS_MET = (0.90, 0.95, 0.99)
MARGINS = np.linspace(-0.2, 0.9, 221)
CERTAINTIES = np.concatenate([np.linspace(0.05, 0.95, 91), 1.0 - np.geomspace(0.05, 0.002, 30)])
LEVELS = (0.5, 0.8, 0.9, 0.95)
NEIGHBOURS = 0.15  # bandwidth of the kernel over histories, in performance
SURER = "ours, asked for 0.99"
FIRST, ARRIVING, TENTHS = 8, 80, 10  # applications known at first, that arrive, and parts of these, as in Figure 5
QUANTILES = (0.3, 0.5, 0.7)  # of the performance of real applications, which serve as goals


@dataclass(frozen=True)
class Case:
    """What is known, what arrives, and what it costs."""

    offered: tuple[Configuration, ...]
    history: Profiles
    arriving: Float  # (N, C) measured
    truth: Float  # (N, C)
    cost: Float  # (C,)
    goals: tuple[float, ...]


def simulated(seed: int, earlier: int = 100, count: int = 40) -> Case:
    """Sizes of the testbed, one replica on a machine."""
    offered = configurations((1,))
    applications = draw_applications(earlier + count, seed)
    whole = profile(applications, offered, seed)
    truth = np.array([[one.performance(c) for c in offered] for one in applications[earlier:]])
    cost = np.array([c.cpu / 4 + c.mem / 4 for c in offered])
    early = whole.select(np.arange(earlier))
    return Case(offered, early, whole.grid()[earlier:], truth, cost, (0.9,))


def erms(seed: int, folder: Path) -> Case:
    """Microservices; a larger size is less that neighbours take."""
    whole = read_erms(folder / "erms_inflection.csv.gz")
    levels = np.array([[float(part) for part in re.findall(r"[\d.]+", name)] for name in whole.configurations])
    left = levels.max(axis=0) * 1.25 - levels
    offered = tuple(Configuration(name, *size) for name, size in zip(whole.configurations, left.tolist(), strict=True))
    return _split(whole, offered, (left / left.max(axis=0)).sum(axis=1), seed)


def nginx(seed: int, folder: Path) -> Case:
    """Services beside pods of one kind: of CPU, of the cache, of memory bandwidth."""
    whole = read_nginx(folder / "ntua_nginx_ibench.csv.gz")
    offered, cost = list[Configuration](), list[float]()
    for name in whole.configurations:
        pods = int(name[0]) if name[0].isdigit() else 0
        cpu, cache, band = (pods if kind in name else 0 for kind in ("CPU", "l3", "memBW"))
        offered.append(Configuration(name, 5.0 - cpu, 5.0 - cache, 1 + band))
        cost.append(1.0 / (1 + pods))
    return _split(whole, tuple(offered), np.array(cost), seed)


def _split(whole: Profiles, offered: tuple[Configuration, ...], cost: Float, seed: int) -> Case:
    """Two thirds are known; the others arrive."""
    grid, count = whole.grid(), len(whole.applications)
    late = np.random.default_rng(seed).permutation(count) >= round(2 / 3 * count)
    goals = tuple(float(one) for one in np.nanquantile(grid, QUANTILES))
    return Case(offered, whole.select(~late), grid[late], grid[late], cost, goals)


def chosen(safe: Float, cost: Float) -> int:
    """The cheapest that is safe; if none is, the safest."""
    return int(np.argmin(np.where(safe >= 0, cost, np.inf)) if (safe >= 0).any() else np.lexsort((cost, -safe))[0])


def kernel(history: Float, which: Int, values: Float) -> Float:
    """Mean of earlier curves, by how near they were where the new one was measured."""
    known = np.isnan(history)
    near = np.exp(-0.5 * np.nansum((history[:, which] - values) ** 2, axis=1) / NEIGHBOURS**2) + 1e-9
    weight = np.where(known, 0.0, near[:, None])
    return np.asarray((weight * np.nan_to_num(history)).sum(axis=0) / np.maximum(weight.sum(axis=0), 1e-12))


def played(case: Case, seed: int) -> Iterator[tuple[str, Float, Float, Float, Float, float]]:
    """Method, performance or probability (C,), truth (C,), goal, whether the truth lies in the intervals of `LEVELS`
    (levels, C), NaN where that is not asked, and seconds; of each arriving application."""
    rng, history = np.random.default_rng(seed + 1), case.history.grid()
    points = {name: PREDICTORS[name](seed) for name in PREDICTORS}
    for model in points.values():
        model.fit(case.history)
    ours = PerformanceModel(case.history, case.offered)
    if ours.history.against_order() > WORSE:  # the command says so too, and how to do without the assumption
        ours = PerformanceModel(case.history, case.offered, monotone=False)
    for i, (row, truth) in enumerate(zip(case.arriving, case.truth, strict=True)):
        there = np.flatnonzero(~np.isnan(row))
        which = np.sort(rng.choice(there, 2, replace=False))
        expected = {"kernel": kernel(history, which, row[which])}
        for name, model in points.items():
            model.learn(len(history) + i, which, row[which])
            expected[name] = model.predict(len(history) + i, np.arange(len(row)))
        start = time.perf_counter()
        known = {case.offered[c].name: float(row[c]) for c in which}
        outlook = ours.outlook(known)
        took = time.perf_counter() - start
        surer = ours.outlook(known, 0.99)
        ends = np.array([outlook.interval(level) for level in LEVELS])
        inside = np.where(np.isnan(truth), np.nan, (ends[:, 0] <= truth + 1e-12) & (truth - 1e-12 <= ends[:, 1]))
        inside[:, which] = np.nan
        nothing = np.full_like(inside, np.nan)
        for goal in case.goals:
            for name, guess in expected.items():
                guess = guess.copy()
                guess[which] = row[which]
                yield name, guess - goal, truth, np.array(goal), nothing, 0.0
            yield "ours", ours.probability(outlook, known, Target(goal)), truth, np.array(goal), inside, took
            yield SURER, ours.probability(surer, known, Target(goal)), truth, np.array(goal), nothing, 0.0


def judged(runs: list[tuple[Float, Float, Float]], cost: Float, thresholds: Float) -> Float:
    """(thresholds, 2) share of goals met and mean size beyond the smallest sufficient one, where one suffices."""
    table = np.zeros((len(thresholds), 2))
    for k, threshold in enumerate(thresholds):
        met, beyond = list[bool](), list[float]()
        for safe, truth, goal in runs:
            enough = truth >= goal - 1e-12
            if not enough.any() or enough[~np.isnan(truth)].all():
                continue
            there = np.where(np.isnan(truth), -np.inf, safe - threshold)
            one = chosen(there, cost)
            met.append(bool(enough[one]))
            beyond.append(float(cost[one] / cost[enough].min()) - 1.0)
        table[k] = np.mean(met), np.mean(beyond)
    return table


def learnt_as_it_goes(seeds: range, picture: Path) -> None:
    """Recommend sizes for one application of the testbed after another; what it shows in all sizes is learnt then."""
    parts: dict[str, list[Float]] = {"error": [], "sure": [], "met": [], "beyond": []}
    for seed in seeds:
        case = simulated(seed, FIRST, ARRIVING)
        rng, model = np.random.default_rng(seed + 1), PerformanceModel(case.history, case.offered)
        found = np.full((4, ARRIVING), np.nan)
        for i, (row, truth) in enumerate(zip(case.arriving, case.truth, strict=True)):
            which = np.sort(rng.choice(len(row), 2, replace=False))
            known = {case.offered[c].name: float(row[c]) for c in which}
            advice = advise(model, "new", known, Asked(Target(case.goals[0])))
            found[0, i] = np.sqrt(np.mean(np.delete(advice.outlook.expected - truth, which) ** 2))
            enough = truth >= case.goals[0]
            if enough.any():
                found[1, i] = advice.reached
                found[2, i] = truth[advice.chosen] >= case.goals[0] if advice.reached else np.nan
                found[3, i] = case.cost[advice.chosen] / case.cost[enough].min() - 1.0
            model.partial_fit(f"arrived-{i}", {c.name: float(y) for c, y in zip(case.offered, row, strict=True)})
        for name, values in zip(parts, found, strict=True):
            parts[name].append(np.array([np.nanmean(part) for part in np.array_split(values, TENTHS)]))
    print("\n| tenth | error | sure, % | of these met, % | size beyond the smallest, % |")
    table = {name: np.array(values) for name, values in parts.items()}
    for k in range(TENTHS):
        mean = {name: float(np.nanmean(values[:, k])) for name, values in table.items()}
        rest = " | ".join(f"{100 * mean[name]:.1f}" for name in ("sure", "met", "beyond"))
        print(f"| {k + 1} | {mean['error']:.3f} | {rest} |")
    figure = new_figure(WIDTH, 3.2)
    titles = ("root mean square error", "sure enough, share", "size beyond the smallest")
    for axis, name, title in zip(figure.subplots(1, 3), ("error", "sure", "beyond"), titles, strict=True):
        x, mean = (np.arange(TENTHS) + 0.5) * ARRIVING / TENTHS + FIRST, np.nanmean(table[name], axis=0)
        spread = 1.96 * np.nanstd(table[name], axis=0, ddof=1) / np.sqrt(len(seeds))
        axis.fill_between(x, mean - spread, mean + spread, color=COLOURS[0], alpha=0.2, lw=0)
        axis.plot(x, mean, "-o", color=COLOURS[0], ms=4)
        axis.set_ylim(bottom=0)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("applications learnt", fontsize=9)
        tidy(axis, "y")
    figure.savefig(picture, dpi=DPI, format="png")


def main(
    folder: Path | None = None, seeds: int = 20, earlier: int = 100, as_it_goes: Path | None = None, first: int = 100
) -> None:
    """Print the tables.

    Args:
        folder: with the real files; default: the testbed alone.
        seeds: of what is drawn.
        earlier: applications of the testbed that were measured before.
        first: seed; those below 100 chose how many errors count.
        as_it_goes: instead, picture of how recommendations become better as applications arrive and are learnt.
    """
    if as_it_goes is not None:
        learnt_as_it_goes(range(first, first + seeds), as_it_goes)
        return
    cases: dict[str, Callable[[int], Case]] = {"simulated": lambda seed: simulated(seed, earlier)}
    if folder is not None:
        cases |= {"Erms": lambda seed: erms(seed, folder), "nginx": lambda seed: nginx(seed, folder)}
    for name, make in cases.items():
        found: dict[str, list[list[tuple[Float, Float, Float]]]] = {}
        within, seconds, cost = list[Float](), list[float](), np.zeros(0)
        for seed in range(seeds):
            case = make(first + seed)
            cost = case.cost
            for method, safe, truth, goal, inside, took in played(case, first + seed):
                runs = found.setdefault(method, [[] for _ in range(seeds)])
                runs[seed].append((safe, truth, goal))
                if method == "ours":
                    within.append(inside[:, ~np.isnan(inside[0])])
                    seconds.append(took)
        print(f"\n## {name}: mean size beyond the smallest sufficient one, at equal shares of goals met\n")
        print(f"| method | {' | '.join(f'{share:.0%}' for share in GOALS_MET)} |")
        for method, by_seed in found.items():
            sweep = CERTAINTIES if method in ("ours", SURER) else MARGINS
            tables = np.array([judged(runs, cost, sweep) for runs in by_seed])
            mean = tables.mean(axis=0)
            cells = []
            for share in GOALS_MET:
                enough = np.flatnonzero(mean[:, 0] >= share)
                cells.append(f"+{mean[enough, 1].min():.1%}" if len(enough) else f"at most {mean[:, 0].max():.1%} met")
            print(f"| {method} | {' | '.join(cells)} |")
            if sweep is CERTAINTIES:
                for sure in (0.9, 0.95) if method == "ours" else (0.99,):
                    k = int(np.abs(sweep - sure).argmin())
                    print(f"    asked {sure:g}: {mean[k, 0]:.1%} met, +{mean[k, 1]:.1%}")
        for level, share in zip(LEVELS, np.concatenate(within, axis=1).mean(axis=1), strict=True):
            print(f"    {level:.0%} interval holds {share:.1%}")
        print(f"    {np.mean(seconds):.3f} s each")


if __name__ == "__main__":
    tyro.cli(main)
