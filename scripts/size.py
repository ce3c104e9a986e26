"""Recommend size and degree of collocation for a new application from short profiles of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from tvwrl import command_line
from tvwrl.lrasched.explanation import explain, plot_recommendation
from tvwrl.lrasched.predictors import PREDICTORS
from tvwrl.lrasched.profiles import read_configurations, read_profiles
from tvwrl.lrasched.sizing import Goal, Recommendation, Recommender
from tvwrl.runs import check_new_folder, default_folder, provenance, whole_file, write_csv, write_json
from tvwrl.types import InputError


@dataclass(frozen=True)
class Arguments:
    """Recommend how much CPU and memory the replicas of a new application need, and how many may share a machine.

    Learns from --profiles, applications measured in many configurations, and from --measured, the new application in
    two of them. Take the smallest size that reaches the goal, then the largest degree of collocation that still does.
    Without files everything comes from a simulated testbed. Prints the decision and writes recommendation.json,
    curve.csv and curve.png to --out. Tables are CSV or Parquet.
    """

    profiles: Path | None = None
    """Table of earlier applications: application, configuration, performance (0..1); may also hold --configurations."""
    measured: Path | None = None
    """The same columns for the one new application: two sizes at the smallest degree, later degrees of its size."""
    configurations: Path | None = None
    """Table of configurations: configuration, cpu (cores), mem (GiB) and, if replicas shared machines, collocation;
    default: these columns of --profiles."""
    goal: float = 0.8
    """Performance to reach, 0..1."""
    margin: float = 0.02
    """How much more than the goal is asked for, against errors of prediction."""
    lower_is_better: bool = False
    """Performance is e.g. a normalised latency: the goal is the most there may be."""
    predictor: Literal["factorization-machine", "matrix-factorization", "means"] = "factorization-machine"
    """What predicts: the paper's model, its baseline (new applications folded in), or plain means, added."""
    simulate: bool = False
    """Use the simulated testbed: --applications earlier ones, and a new one that is measured when asked for."""
    applications: int = 100
    """Earlier applications of the simulated testbed, at least 2."""
    seed: int = 0
    """Of the model, and of the simulated testbed."""
    out: Path | None = None
    """Output folder; default: runs/size-<timestamp>."""


def main() -> None:
    """Parse the arguments, recommend, write."""
    arguments = tyro.cli(Arguments)
    files = (arguments.profiles, arguments.measured, arguments.configurations)
    if arguments.simulate and any(files):
        raise InputError("--simulate goes with none of --profiles, --measured, --configurations")
    if any(files) and (arguments.profiles is None or arguments.measured is None):
        raise InputError("--profiles and --measured go together: earlier applications, and the new one")
    if arguments.seed < 0:
        raise InputError(f"seed is {arguments.seed}: must be >= 0")
    Goal(arguments.goal, arguments.margin)
    out = arguments.out or default_folder("size")
    check_new_folder(out)
    found, source = from_files(arguments) if any(files) else from_simulation(arguments)
    write_json(
        out / "recommendation.json",
        found.to_dict() | {"source": source, "predictor": arguments.predictor} | provenance(),
    )
    write_csv(out / "curve.csv", found.rows())
    with whole_file(out / "curve.png") as partial:
        plot_recommendation(found, partial, f"{found.application} ({source})")
    print(explain(found, source))
    print(f"\nwritten to {out}")


def from_files(arguments: Arguments) -> tuple[Recommendation, str]:
    """Recommend from the user's own measurements."""
    assert arguments.profiles is not None
    assert arguments.measured is not None
    higher = not arguments.lower_is_better
    offered = read_configurations(arguments.configurations or arguments.profiles)
    history = read_profiles(arguments.profiles, [one.name for one in offered], higher)
    new = read_profiles(arguments.measured, [one.name for one in offered], higher)
    if len(new.applications) > 1:
        raise InputError(f"{arguments.measured}: holds {len(new.applications)} applications: must be one, the new one")
    measured = {offered[c].name: float(y) for c, y in zip(new.configuration, new.performance, strict=True)}
    recommender = Recommender(history, offered, PREDICTORS[arguments.predictor], arguments.seed)
    if recommender.left_out:
        names = ", ".join(recommender.left_out)
        print(f"Left out, as no application of {arguments.profiles.name} was measured in: {names}.\n")
    found = recommender.recommend(new.applications[0], measured, arguments.goal, arguments.margin)
    return found, f"learnt from {len(history.applications)} applications of {arguments.profiles.name}"


def from_simulation(arguments: Arguments) -> tuple[Recommendation, str]:
    """Recommend for an application of the simulated testbed."""
    import numpy as np

    from tvwrl.lrasched.testbed import configurations, draw_applications, profile

    if arguments.applications < 2:
        raise InputError(f"applications is {arguments.applications}: must be at least 2")
    if arguments.lower_is_better:
        raise InputError("--lower-is-better: performance of the simulated testbed is throughput, more is better")
    *earlier, new = draw_applications(arguments.applications + 1, arguments.seed)
    offered, rng = configurations(), np.random.default_rng(arguments.seed)
    recommender = Recommender(
        profile(earlier, offered, arguments.seed), offered, PREDICTORS[arguments.predictor], arguments.seed
    )
    found = recommender.profile(
        new.name, lambda one: new.measure(one, rng), arguments.goal, arguments.margin, arguments.seed
    )
    return found, f"SIMULATED, learnt from {len(earlier)} simulated applications"


if __name__ == "__main__":
    command_line.run(main)
