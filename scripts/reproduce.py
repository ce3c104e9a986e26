"""Reproduce tables of the paper and print them beside the published numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import tyro

from tvwrl import command_line
from tvwrl.agents.config import PRESETS
from tvwrl.bench.reproduction import TABLE1, table1, table2_clustering
from tvwrl.ec.lstnet import ForecastSettings
from tvwrl.runs import default_folder, provenance, write_json
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import describe_source, open_trace, trace_hash
from tvwrl.traces.sequences import SequenceSampler
from tvwrl.types import InputError


@dataclass(frozen=True)
class Table1:
    """Classes by aggregate features, temporal features and DTW: k, f, effective prediction gain (minutes per trace)."""

    google: str = "google"
    """Trace to set beside the published Google one; "" leaves it out."""
    alibaba: str = "alibaba"
    """Trace to set beside the published Alibaba one; "" leaves it out."""
    radius: int | None = None
    """Sakoe-Chiba band of dynamic time warping, slots; default: no band."""
    step_seconds: int = Scenario.step_seconds
    """Length of a slot, seconds."""
    seed: int = 0
    """Seed of everything random."""
    out: Path | None = None
    """Output folder; default: runs/table1-<timestamp>."""
    forecast: ForecastSettings = field(default_factory=ForecastSettings)

    def run(self) -> None:
        """Compare the representations on each trace."""
        asked = {"google": self.google, "alibaba": self.alibaba}
        if not any(asked.values()):
            raise InputError("both traces are left out: nothing to do")
        out = self.out or default_folder("table1")
        scenario = Scenario(step_seconds=self.step_seconds, placements_per_slot=None)
        traces = {like: open_trace(name) for like, name in asked.items() if name}
        samplers = {like: SequenceSampler(trace, scenario) for like, trace in traces.items()}  # refuse before long work
        parts, facts = ["# Table 1: different distance methods (published values in brackets)"], {}
        for like, trace in traces.items():
            source = describe_source(trace, asked[like])
            print(source)
            text, comparison = table1(like, samplers[like], self.forecast, self.radius, self.seed)
            parts += [f"## {like.capitalize()}", source, text]
            facts[like] = {
                "trace": trace.name,
                "hash": trace_hash(trace),
                "published": TABLE1[like],
                "candidates": [candidate.to_dict() for candidate in comparison.candidates],
                "chance": comparison.chance.to_dict() if comparison.chance else None,
            }
        finish(out, "table1", "\n\n".join(parts) + "\n", facts)


@dataclass(frozen=True)
class Table2Clustering:
    """Scheduling without classes and with each kind of them at load 0.5: the paper's six metrics (four trainings)."""

    trace: str = "google"
    """google, alibaba, the name of a prepared trace, a canonical trace folder, or a CSV."""
    slot_seconds: int | None = None
    """Interval of a CSV trace, seconds."""
    preset: Literal["fast", "paper", "smoke"] = "fast"
    """Hyper-parameters: fast (minutes per training), paper (hours), smoke (a trial)."""
    seeds: tuple[int, ...] = (0,)
    """One training of each kind per seed; the paper's are means over 5."""
    iterations: int | None = None
    """Updates of the policy; default: the preset's."""
    own_labels: int = 40
    """Labels where there are no classes: each workload of a sequence has its own, in turn beyond so many."""
    out: Path | None = None
    """Output folder; give the same again to go on after a stop. Default: runs/table2-clustering-<timestamp>."""

    def run(self) -> None:
        """Train and evaluate all variants."""
        if not self.seeds or min(self.seeds) < 0 or len(set(self.seeds)) != len(self.seeds):
            raise InputError(f"seeds is {self.seeds}: must be different numbers >= 0")
        if not 1 <= self.own_labels <= 253:
            raise InputError(f"own_labels is {self.own_labels}: must be 1 to 253")
        trace = open_trace(self.trace, self.slot_seconds)
        source = describe_source(trace, self.trace)
        print(source)
        config = PRESETS[self.preset]
        if self.iterations is not None:
            config = replace(config, iterations=self.iterations)
        out = self.out or default_folder("table2-clustering")
        print(f"trainings are kept in {out}; if stopped, go on with: --out {out}")
        text = table2_clustering(trace, config, self.seeds, self.own_labels, out)
        head = f"# Table 2, variation of clustering (published values in brackets)\n\n{source}\n\n"
        facts = {"trace": trace.name, "hash": trace_hash(trace), "seeds": self.seeds, "config": config.to_dict()}
        finish(out, "table2-clustering", head + text, facts)


def finish(out: Path, name: str, text: str, facts: dict[str, object]) -> None:
    """Write <name>.md and .json, and print."""
    write_json(out / f"{name}.json", facts | provenance())
    (out / f"{name}.md").write_text(text, encoding="utf-8")
    print(text)
    print(f"written to {out}")


def main() -> None:
    """Parse the arguments, reproduce."""
    commands = {"table1": Table1, "table2-clustering": Table2Clustering}
    tyro.extras.subcommand_cli_from_dict(commands, description=__doc__).run()


if __name__ == "__main__":
    command_line.run(main)
