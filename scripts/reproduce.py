"""Reproduce the papers' figures and tables beside the published numbers, and set an agent beside every heuristic."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from pathlib import Path

import tyro

from tvwrl import command_line, papers
from tvwrl.bench import (
    pism_classifier,
    pism_laws,
    pism_nginx,
    pism_prediction,
    pism_schedulers,
    pism_simulation,
    pism_traces,
)
from tvwrl.experiments.reproduce import command_to_continue
from tvwrl.experiments.results import study as results
from tvwrl.runs import default_folder


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
            how = "continue" if kept else "nothing was kept; start again"
            print(f"stopped; {how} with:\n  {command_to_continue(out)}")
            raise
        print(f"written to {out}")


# names of its commands begin with, title of the paper, figures, settings
OTHER_PAPERS: tuple[tuple[str, str, dict[str, str], type], ...] = (
    ("pism", "PISM paper", pism_traces.NAMES, pism_traces.TraceSettings),
    ("pism", "PISM paper", pism_classifier.NAMES, pism_classifier.ClassifierSettings),
    ("pism", "PISM paper", pism_simulation.NAMES, pism_simulation.SimulationSettings),
    ("pism", "PISM paper", pism_prediction.NAMES, pism_prediction.PredictionSettings),
    ("pism", "PISM paper", pism_nginx.NAMES, pism_nginx.NginxSettings),
    ("pism", "PISM paper", pism_schedulers.NAMES, pism_schedulers.SchedulerSettings),
    ("pism", "PISM paper", pism_laws.NAMES, pism_laws.LawSettings),
)


def main() -> int | None:
    """Parse the arguments, reproduce."""
    commands = papers.commands() | results.COMMANDS
    for paper, called, titles, settings in OTHER_PAPERS:
        base = make_dataclass("Figure", [], bases=(settings, Figure), frozen=True, namespace={"paper": paper})
        for name, title in titles.items():
            content = {"names": (name,), "__doc__": f"{called}, {title}.", "__module__": __name__}
            commands[f"{paper}-{name}"] = make_dataclass(name, [], bases=(base,), frozen=True, namespace=content)
    return tyro.extras.subcommand_cli_from_dict(commands, description=__doc__).run()


if __name__ == "__main__":
    command_line.run(main)
