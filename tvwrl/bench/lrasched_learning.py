"""The learning half of paper 000's evaluation: Table 2, Figures 2 and 5, on simulated and real measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tvwrl.bench.figures import write_figure
from tvwrl.bench.lrasched_decisions import decisions
from tvwrl.command_line import Numbers
from tvwrl.experiments.plots import plot_lines
from tvwrl.experiments.statistics import bootstrap_interval, paired_bootstrap
from tvwrl.lrasched.evaluation import held_out_errors, rmse, seconds_of_prediction
from tvwrl.lrasched.measured import read_erms, read_nginx
from tvwrl.lrasched.predictors import Means, Predictor, factorization_machine, folding_in, matrix_factorization
from tvwrl.lrasched.profiles import Configuration, Profiles
from tvwrl.lrasched.testbed import DEGREES, SERVICES, configurations, draw_applications, profile
from tvwrl.markdown import markdown_table
from tvwrl.types import Float, InputError

FM, MF = "FTRL factorization machine", "matrix factorization, online"
PREDICTORS: dict[str, Callable[[int], Predictor]] = {
    FM: factorization_machine,
    MF: matrix_factorization,
    "matrix factorization, folding in": folding_in,
    "mean of configuration": lambda seed: Means(of_application=False),
    "mean of application": lambda seed: Means(of_configuration=False),
    "both means, added": lambda seed: Means(),
}
PUBLISHED = {FM: (0.243, 1.15), MF: (0.582, 0.73)}  # RMSE, ms of a prediction (Table 2)
EARLIER, ARRIVING = 100, 40  # applications: "a few hundreds" offline, 40 on the testbed (4.2.1)
SIZE = (2.0, 4.0)  # cores, GiB: the size at which degrees are compared; eight of it fill a machine
REAL = {"Erms microservices": ("erms_inflection.csv.gz", read_erms), "nginx": ("ntua_nginx_ibench.csv.gz", read_nginx)}
NAMES = {
    "table2": "Table 2, accuracy and latency of predictions",
    "fig2": "Figure 2, performance by degree of collocation",
    "fig5": "Figure 5, accuracy as applications arrive",
    "margin": "recommendations by margin, which the paper has no figure of",
}


@dataclass(frozen=True)
class LearningSettings:
    """How well size and affinity are learnt, on a simulated testbed and on real measurements."""

    seeds: Numbers = tuple(range(10))
    """Of drawn applications and of models; means and intervals are over them."""
    data: Path | None = None
    """Folder with erms_inflection.csv.gz and ntua_nginx_ibench.csv.gz; default: simulated data only. Of table2."""
    earlier: int = EARLIER
    """Simulated applications that were profiled before. Of table2 and margin."""
    arriving: int = ARRIVING
    """Simulated applications that arrive; twice as many in fig5."""

    def check(self) -> None:
        """Raise InputError for values out of range."""
        if not self.seeds or min(self.seeds) < 0 or len(set(self.seeds)) != len(self.seeds):
            raise InputError(f"seeds is {', '.join(map(str, self.seeds))}: must be different numbers >= 0")
        for name, value in (("earlier", self.earlier), ("arriving", self.arriving)):
            if value < 2:
                raise InputError(f"{name} is {value}: must be at least 2")

    def reproduce(self, name: str, out: Path) -> str:
        """Markdown of one of `NAMES`, which is written to a folder of that name in `out` too."""
        self.check()
        make = {"table2": _table2, "fig2": _fig2, "fig5": _fig5, "margin": _margin}[name]
        text, rows, plot = make(self)
        write_figure(out / name, text, rows, {"plot": plot}, asdict(self))
        return text


Made = tuple[str, list[dict[str, Any]], Callable[[Path], None]]


def _splits(settings: LearningSettings) -> dict[str, Callable[[int], tuple[Profiles, Profiles]]]:
    """Data -> seed -> earlier and arriving applications."""

    def drawn(offered: Sequence[Configuration]) -> Callable[[int], tuple[Profiles, Profiles]]:
        def split(seed: int) -> tuple[Profiles, Profiles]:
            applications = draw_applications(settings.earlier + settings.arriving, seed)
            whole = profile(applications, offered, seed)
            return _divided(whole, np.arange(len(applications)) < settings.earlier)

        return split

    def read(whole: Profiles) -> Callable[[int], tuple[Profiles, Profiles]]:
        def split(seed: int) -> tuple[Profiles, Profiles]:
            count = len(whole.applications)
            return _divided(whole, np.random.default_rng(seed).permutation(count) < round(2 / 3 * count))

        return split

    splits = {
        "sizes (simulated)": drawn(configurations((1,))),
        "degrees (simulated)": drawn([c for c in configurations() if c.size == SIZE]),
    }
    if settings.data is not None:
        splits |= {name: read(reader(settings.data / file)) for name, (file, reader) in REAL.items()}
    return splits


def _divided(whole: Profiles, early: np.ndarray[Any, np.dtype[np.bool_]]) -> tuple[Profiles, Profiles]:
    """Applications of `early` (applications,), and the others."""
    grid = whole.grid()
    first, second = (
        Profiles.of_grid([whole.applications[i] for i in np.nonzero(own)[0]], whole.configurations, grid[own])
        for own in (early, ~early)
    )
    return first, second


def _table2(settings: LearningSettings) -> Made:
    rows = []
    splits = _splits(settings)
    jobs = [(data, seed, name) for data in splits for seed in settings.seeds for name in PREDICTORS]
    for data, seed, name in tqdm(jobs, desc="predicting", disable=None, leave=False):
        earlier, arriving = splits[data](seed)
        predictor = PREDICTORS[name](seed)
        errors = held_out_errors(predictor, earlier, arriving, seed)
        each = [rmse(row) for row in errors if not np.isnan(row).all()]
        latency = seconds_of_prediction(predictor, len(earlier.applications)) * 1000
        rows.append(
            {
                "data": data,
                "seed": seed,
                "predictor": name,
                "rmse": rmse(errors),
                "worst_rmse": max(each),
                "latency_ms": latency,
            }
        )
    parts = ["# Table 2: accuracy and latency of predictions", _table2_words(settings)]
    for data in splits:
        parts += [f"## {data}", _table2_of([row for row in rows if row["data"] == data])]
    text = "\n\n".join(parts) + "\n"
    lines = {
        name: np.array([[r["rmse"] for r in rows if r["predictor"] == name and r["data"] == data] for data in splits])
        for name in PREDICTORS
    }
    return text, rows, lambda file: plot_lines(file, list(splits), lines, "", "RMSE of held-out cells", joined=False)


def _table2_words(settings: LearningSettings) -> str:
    real = "; real data: two thirds of the applications are the earlier ones" if settings.data else ""
    return (
        f"Simulated testbed: {settings.earlier} earlier applications, {settings.arriving} that arrive{real}. Two cells "
        f"of each that arrives are measured, the others predicted. Means over {len(settings.seeds)} seeds [95 % "
        "bootstrap interval]; predictions are cut to 0..1 for all. Worst: the application with the largest RMSE. "
        "Latency: one prediction from application and configuration to performance, the least median over the seeds."
    )


def _table2_of(rows: list[dict[str, Any]]) -> str:
    of = {name: [row for row in rows if row["predictor"] == name] for name in PREDICTORS}
    body = []
    for name, own in of.items():
        values = np.array([row["rmse"] for row in own])
        low, high = bootstrap_interval(values)
        published = [f"{value:g}" for value in PUBLISHED[name]] if name in PUBLISHED else ["", ""]
        worst, latency = max(row["worst_rmse"] for row in own), min(row["latency_ms"] for row in own)
        shown = [f"{values.mean():.3f} [{low:.3f}, {high:.3f}]", published[0], f"{worst:.3f}", f"{latency:.4f}"]
        body.append([name, *shown, published[1]])
    head = ("predictor", "RMSE", "paper", "worst", "latency, ms", "paper, ms")
    best, note = of[FM], []
    for name in list(PREDICTORS)[1:]:
        a, b = (np.array([row["rmse"] for row in own]) for own in (best, of[name]))
        difference, low, high = paired_bootstrap(a, b)
        note.append(f"{difference:+.3f} [{low:+.3f}, {high:+.3f}] to {name}")
    return markdown_table(head, body) + f"\n\nRMSE of the {FM} less that of the others, paired: {'; '.join(note)}."


def _fig2(settings: LearningSettings) -> Made:
    """Capacity and latency of the four services, at the load of 50 % of a replica's capacity alone."""
    count, rows = 40, []
    by_degree = {c.collocation: c for c in configurations() if c.size == SIZE}
    for seed in settings.seeds:
        for one in draw_applications(count, seed):
            alone = one.capacity(by_degree[1])
            at_half = type(one)(one.name, one.service, 0.5 * alone)
            for degree, configuration in by_degree.items():
                rows.append(
                    {
                        "service": one.service.name,
                        "seed": seed,
                        "application": one.name,
                        "collocation": degree,
                        "throughput_pct": 100 * one.capacity(configuration) / alone,
                        "p99_pct": 100 * at_half.p99_ms(configuration) / at_half.p99_ms(by_degree[1]),
                    }
                )
    names = [service.name for service in SERVICES]

    def shown(column: str, service: str) -> Float:
        """(degrees, seeds) means of the seed's applications."""
        grid = [
            [
                np.mean([r[column] for r in rows if (r["service"], r["seed"], r["collocation"]) == (service, seed, d)])
                for seed in settings.seeds
            ]
            for d in DEGREES
        ]
        return np.array(grid)

    body = [
        [service, label, *(_interval(row, 1) for row in shown(column, service))]
        for service in names
        for column, label in (("throughput_pct", "throughput at saturation"), ("p99_pct", "p99 at half load"))
    ]
    head = ("service (simulated)", "% of alone", *(f"{d} on a machine" for d in DEGREES))
    text = (
        "# Figure 2: performance by degree of collocation (simulated)\n\n"
        f"Replicas of 2 cores and 4 GiB on a machine of 16 cores and 32 GiB; {count // len(names)} applications per "
        f"service and seed, {len(settings.seeds)} seeds [95 % bootstrap interval]. Paper: two Cassandra replicas "
        "on a machine cost about 1 % of throughput (or add it to the 99th percentile), more degrade it significantly; "
        f"HBase does best with two.\n\n{markdown_table(head, body)}\n"
    )
    lines = {service: shown("throughput_pct", service) for service in names}
    label = "throughput, % of that alone (simulated)"
    return text, rows, lambda file: plot_lines(file, [str(d) for d in DEGREES], lines, "replicas on a machine", label)


def _fig5(settings: LearningSettings) -> Made:
    """RMSE of those that arrive, tenth by tenth, beginning with few earlier applications."""
    early, steps, rows = 8, 10, []
    arriving = 2 * settings.arriving
    offered = configurations((1,))
    jobs = [(seed, name) for seed in settings.seeds for name in PREDICTORS]
    for seed, name in tqdm(jobs, desc="arriving", disable=None, leave=False):
        drawn = draw_applications(early + arriving, seed)
        first, then = _divided(profile(drawn, offered, seed), np.arange(len(drawn)) < early)
        errors = held_out_errors(PREDICTORS[name](seed), first, then, seed, later=len(offered))
        for i, part in enumerate(np.array_split(errors, steps)):
            rows.append({"predictor": name, "seed": seed, "tenth": i + 1, "rmse": rmse(part)})
    lines = {
        name: np.array(
            [[row["rmse"] for row in rows if row["predictor"] == name and row["tenth"] == i + 1] for i in range(steps)]
        )
        for name in PREDICTORS
    }
    shown = (0, 1, 3, 5, 7, 9)
    body = [[name, *(_interval(values[i], 3) for i in shown)] for name, values in lines.items()]
    head = ("predictor (simulated)", *(f"{10 * i}-{10 * i + 10} %" for i in shown))
    text = (
        "# Figure 5: accuracy as applications arrive (simulated)\n\n"
        f"RMSE of held-out sizes of those applications that arrive in each tenth of the time: {early} were profiled "
        f"before, {arriving} arrive. Two sizes of each are measured, the rest predicted and then learnt too, as "
        "it runs on and is profiled for history. Paper: 0.25 on average, below 0.5, falling over time.\n\n"
        f"{markdown_table(head, body)}\n"
    )
    label = "RMSE of held-out sizes (simulated)"
    names = [str(round((i + 0.5) * arriving / steps)) for i in range(steps)]
    return text, rows, lambda file: plot_lines(file, names, lines, "applications that have arrived", label)


def _margin(settings: LearningSettings) -> Made:
    return decisions(settings.seeds, settings.earlier, settings.arriving)


def _interval(values: Float, decimals: int) -> str:
    low, high = bootstrap_interval(values)
    return f"{values.mean():.{decimals}f} [{low:.{decimals}f}, {high:.{decimals}f}]"
