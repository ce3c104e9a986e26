"""What is recommended for a new application: the goal, the two choices, and the curves that they rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvwrl.checks import within
from tvwrl.lrasched.profiles import Bool, Configuration
from tvwrl.types import Float

Measured = Mapping[str, float]  # configuration -> performance, 0..1


@dataclass(frozen=True)
class Goal:
    """The performance to reach, and a margin beyond it against errors of prediction. Refuses values outside 0..1."""

    performance: float  # 0..1
    margin: float = 0.0  # 0..1
    higher_is_better: bool = True

    def __post_init__(self) -> None:
        within(0, 1, goal=self.performance, margin=self.margin)

    @property
    def limit(self) -> float:
        """Goal and margin together, 0..1; never beyond the best performance there is."""
        return (
            min(self.performance + self.margin, 1.0)
            if self.higher_is_better
            else max(self.performance - self.margin, 0.0)
        )

    def met(self, performance: Float) -> Bool:
        """Which of these performances reach the limit."""
        above = performance - self.limit
        return np.asarray((above if self.higher_is_better else -above) >= -1e-12)


@dataclass(frozen=True)
class Choice:
    """One decision: the configurations in order of preference, their performance, and the chosen one."""

    configurations: tuple[Configuration, ...]  # k of them, the preferred ones first
    performance: Float  # (k,) 0..1: measured where measured, else predicted
    predicted: Float  # (k,) 0..1, whether measured or not
    measured: Bool  # (k,)
    chosen: int
    reached: bool  # whether the chosen one meets the goal with its margin

    @property
    def configuration(self) -> Configuration:
        """The chosen one."""
        return self.configurations[self.chosen]

    @property
    def expected(self) -> float:
        """Performance of the chosen one, 0..1."""
        return float(self.performance[self.chosen])

    @classmethod
    def of(cls, configurations: Sequence[Configuration], predicted: Float, measured: Measured, goal: Goal) -> Choice:
        """Choose the first that meets the goal (paper: "just leads to"), or the best performing one if none does."""
        known = np.array([c.name in measured for c in configurations])
        performance = np.array(
            [measured.get(c.name, guess) for c, guess in zip(configurations, predicted, strict=True)]
        )
        met = goal.met(performance)
        best = np.argmax(performance) if goal.higher_is_better else np.argmin(performance)
        chosen = int(np.argmax(met)) if met.any() else int(best)
        return cls(tuple(configurations), performance, predicted, known, chosen, bool(met.any()))


@dataclass(frozen=True)
class Recommendation:
    """Size and degree of collocation for an application, and the measurements and predictions they rest on."""

    application: str
    goal: Goal
    size: Choice  # among sizes, smallest first
    degree: Choice  # among degrees of the chosen size, largest first
    assumed: bool  # no degree was measured: the predicted performance of the size replaces one
    unused: tuple[str, ...] = ()  # measured degrees of sizes that were not considered

    @property
    def configuration(self) -> Configuration:
        """The recommended configuration."""
        return self.degree.configuration

    @property
    def reached(self) -> bool:
        """Whether the recommended configuration is expected to meet the goal with its margin."""
        return self.degree.reached

    def rows(self) -> list[dict[str, Any]]:
        """Both curves as a table: a row per decision and configuration."""
        return [
            {
                "decision": decision,
                "configuration": c.name,
                "cpu": c.cpu,
                "mem": c.mem,
                "collocation": c.collocation,
                "predicted": round(float(choice.predicted[i]), 6),
                "measured": round(float(choice.performance[i]), 6) if choice.measured[i] else "",
                "meets_goal": bool(self.goal.met(choice.performance[i])),
                "chosen": i == choice.chosen,
            }
            for decision, choice in (("size", self.size), ("degree", self.degree))
            for i, c in enumerate(choice.configurations)
        ]

    def to_dict(self) -> dict[str, Any]:
        """The recommendation as JSON-able values."""
        chosen = self.configuration
        return {
            "application": self.application,
            "goal": self.goal.performance,
            "margin": self.goal.margin,
            "higher_is_better": self.goal.higher_is_better,
            "configuration": chosen.name,
            "cpu": chosen.cpu,
            "mem": chosen.mem,
            "collocation": chosen.collocation,
            "expected_performance": self.degree.expected,
            "reached": self.reached,
            "size_reached": self.size.reached,
            "degree_measured": bool(self.degree.measured[self.degree.chosen]),
            "curve": self.rows(),
        }
