"""How much is trained for a figure or page: presets, seeds and iterations, as options of a command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from tvwrl.agents import PRESETS, TrainConfig
from tvwrl.command_line import Numbers
from tvwrl.experiments.deeprm_baseline import DEEPRM
from tvwrl.experiments.reproducing import check_seeds
from tvwrl.experiments.training_cells import Setup
from tvwrl.schedulers import Knowledge, knowledge_of

Scales = Mapping[str, tuple[TrainConfig, tuple[int, ...]]]  # --preset: hyper-parameters, training seeds

SCALES: Scales = {
    "smoke": (replace(PRESETS["smoke"], comparison_sequences=4), (0,)),
    "medium": (PRESETS["medium"], (0, 1, 2)),
    "paper": (PRESETS["paper"], (0, 1, 2, 3, 4)),
}


@dataclass(frozen=True)
class Scale:
    """How much is trained and evaluated."""

    scales: ClassVar[Scales] = SCALES
    preset: Literal["smoke", "medium", "paper"] = "medium"
    """smoke: a trial, seconds per training; medium: PPO, minutes per training, 3 seeds; paper: the paper's
    hyper-parameters, 5 seeds, half an hour and more per training."""
    seeds: Numbers | None = None
    """Training seeds; default: the preset's."""
    iterations: int | None = None
    """Updates of the policy; default: the preset's."""
    deeprm_iterations: int | None = None
    """Updates of DeepRM's policy; default: its preset's, or with smoke or --iterations the same as for other
    policies."""
    sequences: int | None = None
    """Test sequences per load; default: the preset's (medium, paper: 30)."""

    @property
    def base(self) -> TrainConfig:
        """The preset's hyper-parameters with the changes asked for."""
        changes: dict[str, Any] = {"iterations": self.iterations, "comparison_sequences": self.sequences}
        return replace(
            self.scales[self.preset][0], **{name: value for name, value in changes.items() if value is not None}
        )

    @property
    def training_seeds(self) -> tuple[int, ...]:
        """The seeds. Raises InputError unless they are different numbers >= 0."""
        seeds = self.scales[self.preset][1] if self.seeds is None else self.seeds
        check_seeds(seeds)
        return seeds

    def setup(self, base: TrainConfig, traces: Mapping[str, str]) -> Setup:
        """What all trainings have in common. Raises InputError for a bad number before anything is trained."""
        own = self.deeprm_iterations
        if own is None and self.iterations is None and self.preset != "smoke":
            own = PRESETS["deeprm"].iterations
        setup = Setup(base, traces, own)
        setup.config(DEEPRM, {})
        return setup


def describe_training(config: TrainConfig, name: str, knowledge: Knowledge | None = None) -> str:
    """A line of Markdown: how a learnt scheduler is trained, and what it knows (default: what its scenario shows)."""
    known = knowledge or knowledge_of(config.scenario)
    rules = ", ".join(f"`{rule}`" for rule in config.starting_rules)
    several = f", starting from the best of {rules}" if len(config.starting_rules) > 1 else ""
    start = several or (f", starting from `{config.built_in}`" if config.built_in else "")
    start += f", after imitating `{config.imitates}`" if config.imitates else ""
    return (
        f"- `{name}`: `{config.algo}`, policy `{config.policy}`, {config.iterations} iterations{start}; knows "
        f"*{known.group}*: {known.note}"
    )
