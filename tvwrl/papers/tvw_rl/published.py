"""What the paper reports, as data: numbers of its tables, and statements of its text about its figures.

Paper: "Scheduling of Time-Varying Workloads Using Reinforcement Learning" (AAAI 2021). Figures 4 and 5 are bars without
numbers; of these the text gives ratios.
"""

from __future__ import annotations

from dataclasses import dataclass

INFINITE = float("inf")

TABLE1: dict[str, dict[str, tuple[int, float, float]]] = {  # trace -> distance -> k, f, effective gain in %
    "google": {"aggregate": (5, 0.65, 6.82), "temporal": (6, 0.58, 9.83), "dtw": (3, 0.55, 9.3)},
    "alibaba": {"aggregate": (4, 0.68, 5.13), "temporal": (4, 0.54, 8.14), "dtw": (3, 0.25, 5.73)},
}


@dataclass(frozen=True)
class Metric:
    """A column of the rows: the paper's name, whether more is better, decimals shown."""

    column: str
    title: str
    more: bool
    decimals: int = 3
    scale: float = 1.0  # shown = scale * value

    @property
    def plotted(self) -> str:
        """The title of its plot, without abbreviations."""
        return self.title.replace("util", "utilisation").replace("frag", "fragmentation").replace("MEM", "Memory")


SIX = (  # of the paper
    Metric("utilisation_cpu", "CPU util", True),
    Metric("utilisation_mem", "MEM util", True),
    Metric("fragmentation_cpu", "CPU frag", False),
    Metric("fragmentation_mem", "MEM frag", False),
    Metric("machines_used", "Machines used", False, 2),
    Metric("overshoot_pct", "Overshoot, %", False),
)
BESIDE = (  # of ours
    Metric("wait_mean", "Wait, slots", False, 2),
    Metric("unplaced", "Unplaced", False, 2),
    Metric("peak_gap_pct", "Peak machines above bound, %", False, 1),
    Metric("slots_gap_waiting_pct", "Machine slots above bound, %", False, 1),
    Metric("reward", "Reward, thousands", True, 1, 0.001),
)

Numbers = dict[str, dict[str, float]]  # column of the table -> column of the rows -> value


def _numbers(columns: tuple[str, ...], *rows: tuple[float, ...]) -> Numbers:
    """Rows of a published table, in the order of `SIX`."""
    return {
        column: {metric.column: row[i] for metric, row in zip(SIX, rows, strict=True)}
        for i, column in enumerate(columns)
    }


CLUSTERING = _numbers(
    ("no classes", "aggregate", "dtw", "temporal"),
    (0.328, 0.347, 0.345, 0.345),
    (0.613, 0.653, 0.649, 0.649),
    (0.795, 0.776, 0.779, 0.777),
    (0.734, 0.708, 0.708, 0.723),
    (6.38, 6.10, 6.12, 6.17),
    (0.051, 0.284, 0.24, 0.52),
)
NOISE = _numbers(
    ("trained [0-1]", "trained [0-2]", "trained [0-3]", "not trained [0-1]", "not trained [0-2]", "not trained [0-3]"),
    (0.144, 0.155, 0.132, 0.146, 0.153, 0.157),
    (0.231, 0.243, 0.206, 0.234, 0.240, 0.245),
    (0.679, 0.671, 0.706, 0.684, 0.678, 0.677),
    (0.652, 0.645, 0.675, 0.657, 0.652, 0.648),
    (5.975, 5.892, 7.033, 5.933, 5.892, 5.933),
    (0.133, 0.134, 0.055, 0.108, 0.118, 0.132),
)
KU = _numbers(
    ("K_u = 0", "K_u = 1", "K_u = 2", "K_u = 3"),
    (0.103, 0.117, 0.130, 0.179),
    (0.171, 0.195, 0.216, 0.298),
    (0.701, 0.695, 0.689, 0.627),
    (0.646, 0.64, 0.635, 0.581),
    (8.967, 7.867, 7.1, 5.167),
    (0.0, 0.0, 0.0, 0.145),
)
KO: Numbers = {
    "K_o = 0": {"overshoot_pct": 2.20, "machines_used": 2, "utilisation_cpu": 0.455, "utilisation_mem": 0.752},
    "K_o = 15000": {"overshoot_pct": 0.20},
    "K_o = 30000": {"overshoot_pct": 0.15},
    "K_o = 45000": {"overshoot_pct": 0.09, "machines_used": 6.2},
}
KC: Numbers = {
    "K_c = 0": {"utilisation_cpu": 0.17, "utilisation_mem": 0.28},
    "K_c = 10": {"utilisation_cpu": 0.12, "utilisation_mem": 0.20},
}


@dataclass(frozen=True)
class Claim:
    """A statement of the text: in every group, `metric` of column `over` is low to high times that of `under`."""

    metric: str
    over: str
    under: str
    low: float
    high: float
    source: str  # the paper's words, shortened


def _both(kind: str, over: str, under: str, low: float, high: float, source: str) -> tuple[Claim, ...]:
    return tuple(Claim(f"{kind}_{r}", over, under, low, high, source) for r in ("cpu", "mem"))


FIGURE_CLAIMS = (
    *_both("utilisation", "tvw-rl", "deeprm", 1.3, 4.0, "30-300 % more than DeepRM"),
    *_both("utilisation", "tvw-rl", "tetris", 1.68, 2.0, "68-100 % more than Tetris"),
    *_both("utilisation", "best-fit", "tvw-rl", 1.0, INFINITE, "Best-Fit provides higher utilization"),
    *_both("fragmentation", "tvw-rl", "deeprm", 0.50, 0.95, "5-50 % less than DeepRM"),
    *_both("fragmentation", "tvw-rl", "tetris", 0.87, 0.94, "6-13 % less than Tetris"),
    Claim("machines_used", "tvw-rl", "tetris", 0.60, 0.75, "significantly fewer than Tetris; bars of about 0.60-0.75"),
    # "Huge" beside "almost negligible" is not a number; five times, as in `targets.OF_BEST_FIT`, is our reading.
    Claim("overshoot_pct", "best-fit", "tvw-rl", 5.0, INFINITE, "huge over-utilization; of TVW-RL almost negligible"),
)
NOISE_CLAIMS = (
    Claim("overshoot_pct", "not trained [0-3]", "trained [0-3]", 2.4, 2.4, "240 % larger than the trained version"),
    Claim("utilisation_cpu", "trained perturbed", "no noise", 0.98, 0.98, "CPU utilization dropped by 2 %"),
    Claim("utilisation_mem", "trained perturbed", "no noise", 0.93, 0.93, "memory utilization dropped by 7 %"),
    Claim("utilisation_cpu", "not trained perturbed", "no noise", 0.98, 0.98, "CPU utilization dropped by 2 %"),
    Claim("utilisation_mem", "not trained perturbed", "no noise", 0.93, 0.93, "memory utilization dropped by 7 %"),
)
