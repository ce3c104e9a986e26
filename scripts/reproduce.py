"""Reproduce the paper's figures and tables beside the published numbers, and set an agent beside every heuristic."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass, field, make_dataclass, replace
from pathlib import Path
from typing import Any, Literal

import tyro
from tqdm import tqdm

from tvwrl import command_line, papers
from tvwrl.agents.config import PRESETS, TrainConfig
from tvwrl.agents.deeprm.scheduler import KNOWLEDGE as OF_DEEPRM
from tvwrl.bench import (
    lrasched_learning,
    lrasched_simulations,
    lrasched_testbed,
    pism_classifier,
    pism_laws,
    pism_nginx,
    pism_prediction,
    pism_schedulers,
    pism_simulation,
    pism_traces,
)
from tvwrl.bench.cells import TRAINED, Bench, Cell, check_cells
from tvwrl.bench.experiments import EXPERIMENTS, LOADS
from tvwrl.bench.published import TABLE1
from tvwrl.bench.reproduction import SCALES, as_in_the_paper, complete_cells, overview, table1, told, write_report
from tvwrl.bench.results import results_cells, write_results
from tvwrl.bench.targets import AGENTS, DEEPRM
from tvwrl.command_line import Names, Numbers, Shares
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
        text = "\n\n".join(parts) + "\n"
        write_json(out / "table1.json", facts | provenance())
        (out / "table1.md").write_text(text, encoding="utf-8")
        print(text)
        print(f"written to {out}")


def _to_go_on(out: Path) -> str:
    """The command line that goes on in the folder."""
    given = ["python", *sys.argv]
    if not any(word.partition("=")[0] == "--out" for word in given):
        given += ["--out", str(out)]
    return shlex.join(given)


@dataclass(frozen=True)
class Scale:
    """How much is trained, how, and where it is kept."""

    preset: Literal["smoke", "medium", "paper"] = "medium"
    """smoke: a trial in seconds a cell; medium: PPO, minutes a cell, 3 seeds; paper: its hyper-parameters, 5 seeds,
    days. In the paper's experiments agents know what the paper's does, whatever the preset."""
    seeds: Numbers | None = None
    """One training of each kind per seed; default: the preset's."""
    iterations: int | None = None
    """Updates of a policy; default: the preset's."""
    deeprm_iterations: int | None = None
    """Updates of DeepRM's policy; default: those of its own preset, with smoke or --iterations as many as of others."""
    sequences: int | None = None
    """Test sequences of an evaluation; default: the preset's (medium, paper: 30)."""
    workers: int = 1
    """Cells at a time, each in a process of its own."""
    ray: str | None = None
    """Ray cluster that the cells are spread over: HOST:PORT, auto or local; --out has to be shared by its machines."""
    dry_run: bool = False
    """Only list the cells, and what of them is done in --out."""
    out: Path | None = None
    """Folder of cells and tables; give the same again to go on, or to share trainings. Default: runs/<name>-<time>."""

    def _scale(self) -> tuple[TrainConfig, tuple[int, ...]]:
        """Hyper-parameters and seeds, checked."""
        base, seeds = SCALES[self.preset]
        seeds = seeds if self.seeds is None else self.seeds
        if not seeds or min(seeds) < 0 or len(set(seeds)) != len(seeds):
            raise InputError(f"seeds is {seeds}: must be different numbers >= 0")
        if self.workers < 1:
            raise InputError(f"workers is {self.workers}: must be at least 1")
        changes = {"iterations": self.iterations, "comparison_sequences": self.sequences}
        return replace(base, **{name: value for name, value in changes.items() if value is not None}), seeds

    def _bench(self, label: str, base: TrainConfig, traces: dict[str, str]) -> Bench:
        """What all cells have in common."""
        own = self.deeprm_iterations
        if own is None and self.iterations is None and self.preset != "smoke":
            own = PRESETS["deeprm"].iterations
        bench = Bench(self.out or default_folder(label), base, traces, own)
        bench.config(Cell("", DEEPRM, "", DEEPRM))  # refuses a bad number before anything is trained
        return bench

    def _complete(self, bench: Bench, cells: list[Cell]) -> dict[str, str]:
        """Train and evaluate what is missing; run folder -> error of those that failed."""
        go_on = _to_go_on(bench.out)
        print(f"{len({cell.run for cell in cells})} cells in {bench.out}; if stopped, go on with:\n  {go_on}")
        try:
            return complete_cells(bench, cells, self.workers, self.ray, tqdm.write)
        except (KeyboardInterrupt, SystemExit):
            print(f"stopped; go on with:\n  {go_on}")
            raise


@dataclass(frozen=True)
class Reproduction(Scale):
    """Train what is missing, evaluate it, and print the table beside the published one; resumable."""

    google: str = "google"
    """Trace that stands for the published Google one: a name, a canonical trace folder."""
    alibaba: str = "alibaba"
    """Trace that stands for the published Alibaba one, e.g. tianchi."""

    names = ()  # experiments: a class attribute, set for each command

    def run(self) -> int:
        """Train, evaluate, report."""
        base, seeds = self._scale()
        base = as_in_the_paper(base)
        label = self.names[0] if len(self.names) == 1 else "paper"
        bench = self._bench(label, base, {"google": self.google, "alibaba": self.alibaba})
        cells = {name: EXPERIMENTS[name].cells(seeds) for name in self.names}
        every = [cell for own in cells.values() for cell in own]
        sources = {like: self._source(bench.traces[like]) for like in sorted({cell.trace for cell in every})}
        print("\n".join(sources.values()))
        if self.dry_run:
            print(overview(bench, every))
            return 0
        failed = self._complete(bench, every)
        scale = (
            f"Preset `{self.preset}`: seeds {', '.join(map(str, seeds))}, {base.comparison_sequences} test sequences."
        )
        for name, own in cells.items():
            if any(cell.run in failed for cell in own):
                continue
            learnt = {c.scheduler: bench.config(c) for c in own if c.scheduler in TRAINED}
            how = "\n".join(told(config, n, OF_DEEPRM if n == "deeprm" else None) for n, config in learnt.items())
            head = "\n\n".join([*(sources[like] for like in sorted({cell.trace for cell in own})), scale, how])
            facts = {"preset": self.preset, "seeds": seeds, "config": base.to_dict(), "sources": sources}
            print(write_report(bench, name, own, head, facts))
            print(f"written to {bench.out / name}")
        if len(self.names) > 1 and self.preset != "smoke" and not (bench.out / "table1" / "table1.md").exists():
            Table1(self.google, self.alibaba, out=bench.out / "table1").run()
        if failed:
            raise InputError("; ".join(f"cell {run}: {error}" for run, error in failed.items()))
        return 0

    @staticmethod
    def _source(name: str) -> str:
        trace = open_trace(name)
        if missing := {"cpu", "mem"} - set(trace.resources):
            raise InputError(
                f"trace '{name}' lacks {', '.join(sorted(missing))}: the paper's tables are of cpu and mem"
            )
        return describe_source(trace, name)


@dataclass(frozen=True)
class Results(Scale):
    """Train agents and DeepRM per trace and seed, set them beside every heuristic at every load, and write a page;
    resumable."""

    traces: Names = ("google2011", "google2019", "tianchi", "bitbrains")
    """Names or folders of traces."""
    loads: Shares = LOADS
    """Offered loads."""
    agents: Names = tuple(AGENTS)
    """What is trained: agent sees requests and class forecasts; agent-history load and history alone; agent-peak
    requests and lifetime peaks; agent-forecast-peak all of it."""
    train_loads: Shares = LOADS
    """Offered loads that agents are trained at, sequence by sequence in turn."""
    page: Path | None = None
    """The page, e.g. docs/results.md, with a folder of pictures beside it; default: results/results.md in --out."""
    page_only: bool = False
    """Only write the page again, from what is finished in --out."""

    def run(self) -> int:
        """Train, evaluate, write the page."""
        base, seeds = self._scale()
        named = {re.sub(r"[^\w.-]+", "-", Path(argument).name): argument for argument in self.traces}
        for what, values, kinds in (("traces", self.traces, named), ("loads", self.loads, set(self.loads))):
            if not values or len(kinds) != len(values):
                raise InputError(f"{what} is {', '.join(map(str, values))}: must be different ones, at least one")
        if self.page_only and self.out is None:
            raise InputError("page_only needs --out: the folder whose cells the page is made from")
        if not self.agents or set(self.agents) - AGENTS.keys() or len(set(self.agents)) != len(self.agents):
            raise InputError(f"agents is {', '.join(self.agents)}: must be different ones of {', '.join(AGENTS)}")
        for load in (*self.loads, *self.train_loads):
            replace(base.scenario, load=load)
        base = replace(base, train_loads=self.train_loads)
        bench = self._bench("results", base, named)
        cells = results_cells(list(named), self.loads, seeds, self.agents)
        sources = [describe_source(open_trace(argument)) for argument in self.traces]
        print("\n".join(sources))
        if self.dry_run:
            print(overview(bench, cells))
            return 0
        by_seed = sorted(cells, key=lambda cell: cell.seed)  # so that a page of one seed is soon complete
        check_cells(bench, cells) if self.page_only else None
        failed = {} if self.page_only else self._complete(bench, by_seed)
        head = self._head(bench, seeds, sources)
        facts = {"preset": self.preset, "seeds": seeds, "config": base.to_dict(), "sources": sources}
        print(f"written to {write_results(bench, cells, self.page, head, facts)}")
        if failed:
            raise InputError("; ".join(f"cell {run}: {error}" for run, error in failed.items()))
        return 0

    def _head(self, bench: Bench, seeds: tuple[int, ...], sources: list[str]) -> str:
        """What the page is of, and the commands that make it."""
        base, names = bench.base, list(bench.traces)
        scale = f"`{self.preset}`: training seeds {', '.join(map(str, seeds))}, {base.comparison_sequences} test "
        scale += "sequences per trace and load, of workloads that nothing was trained on"
        words = ["python", "scripts/reproduce.py", "results", "--preset", self.preset]
        lists = {"traces": names, "loads": self.loads, "agents": self.agents, "seeds": seeds}
        lists["train-loads"] = self.train_loads
        words += [word for name, values in lists.items() for word in (f"--{name}", ",".join(map(str, values)))]
        given = {"iterations": self.iterations, "deeprm-iterations": self.deeprm_iterations}
        given["sequences"] = self.sequences
        words += [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
        again = [*words, "--out", "runs/results", "--page", "docs/results.md"]
        commands = f"```\n{shlex.join(again)}\n{shlex.join([*again, '--page-only'])}   # the page alone\n```"
        trained_at = ", ".join(map(str, self.train_loads))
        knows = f"What is learnt, is of one trace and seed, and trained at the loads {trained_at} in turn:\n\n"
        seen = {agent: replace(base, scenario=replace(base.scenario, **AGENTS[agent])) for agent in self.agents}
        lines = [told(config, agent) for agent, config in seen.items()]
        deeprm = bench.config(Cell("", DEEPRM, names[0], DEEPRM))
        knows += "\n".join([*lines, told(deeprm, DEEPRM, OF_DEEPRM) + "; the baseline, no agent"])
        made = f"Generated from `results/rows.csv` and `results/trainings.csv` of the output folder by\n\n{commands}"
        return "\n\n".join([made, f"Preset {scale}.", knows, "\n".join(f"- {source}" for source in sources)])


@dataclass(frozen=True)
class Figure:
    """A figure or table of a paper about placement."""

    out: Path | None = None
    """Output folder, a folder in it per figure; default: runs/<paper>-<name>-<time>. Give the same again to share
    what is placed, and to go on."""

    paper, names = "", ()  # and the figure or table: class attributes, set for each command

    def run(self) -> None:
        """Measure, report."""
        (name,) = self.names
        out = self.out or default_folder(f"{self.paper}-{name}")
        try:
            print(self.reproduce(name, out))  # of the settings it is combined with
        except (KeyboardInterrupt, SystemExit):
            kept = out.is_dir() and any(out.iterdir())
            print(f"stopped; {'go on' if kept else 'nothing was kept; begin again'} with:\n  {_to_go_on(out)}")
            raise
        print(f"written to {out}")


# names of its commands begin with, title of the paper, figures, settings
OTHER_PAPERS: tuple[tuple[str, str, dict[str, str], type], ...] = (
    ("lrasched", "LRASched paper", lrasched_learning.NAMES, lrasched_learning.LearningSettings),
    ("lrasched", "LRASched paper", lrasched_testbed.NAMES, lrasched_testbed.TestbedSettings),
    ("lrasched", "LRASched paper", lrasched_simulations.NAMES, lrasched_simulations.PlacementSettings),
    ("pism", "PISM paper", pism_traces.NAMES, pism_traces.TraceSettings),
    ("pism", "PISM paper", pism_classifier.NAMES, pism_classifier.ClassifierSettings),
    ("pism", "PISM paper", pism_simulation.NAMES, pism_simulation.SimulationSettings),
    ("pism", "PISM paper", pism_prediction.NAMES, pism_prediction.PredictionSettings),
    ("pism", "PISM paper", pism_nginx.NAMES, pism_nginx.NginxSettings),
    ("pism", "PISM paper", pism_schedulers.NAMES, pism_schedulers.SchedulerSettings),
    ("pism", "PISM paper", pism_laws.NAMES, pism_laws.LawSettings),
)


def _command_for(name: str, names: tuple[str, ...], summary: str, base: type = Reproduction) -> type:
    """A reproduction with its experiments or figures, as a command of its own."""
    content = {"names": names, "__doc__": summary, "__module__": __name__}
    return make_dataclass(name, [], bases=(base,), frozen=True, namespace=content)


def main() -> int | None:
    """Parse the arguments, reproduce."""
    commands: dict[str, Any] = {"table1": Table1}
    commands |= {name: _command_for(name, (name,), f"{one.title}.") for name, one in EXPERIMENTS.items()}
    commands["results"] = Results
    everything = "All of these in one folder; trainings that several need are made once. Smoke leaves table1 out."
    commands["all"] = _command_for("all", tuple(EXPERIMENTS), everything)
    for paper, called, titles, settings in OTHER_PAPERS:
        base = make_dataclass("Figure", [], bases=(settings, Figure), frozen=True, namespace={"paper": paper})
        for name, title in titles.items():
            commands[f"{paper}-{name}"] = _command_for(name, (name,), f"{called}, {title}.", base)
    commands |= papers.commands()
    return tyro.extras.subcommand_cli_from_dict(commands, description=__doc__).run()


if __name__ == "__main__":
    command_line.run(main)
