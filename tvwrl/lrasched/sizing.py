"""Sizes an application from files or on the simulated testbed, and writes the recommendation to a folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from tvwrl.checks import at_least
from tvwrl.lrasched.advice import Asked, Prices
from tvwrl.lrasched.recommend_size import Sizing, recommend_size
from tvwrl.lrasched.target import Target
from tvwrl.lrasched.testbed import CORES, MEMORY, configurations, draw_applications, profile
from tvwrl.progress import phase
from tvwrl.runs import check_new_folder, default_folder
from tvwrl.types import InputError

MEASURED = 2  # sizes in which a simulated application is measured at first


@dataclass(frozen=True)
class SizingSettings:
    """Recommend how much CPU and memory the replicas of an application need, and how many may share a machine.

    Learns from --profiles, applications measured in many configurations, and from what was measured of the application
    in some of them. Recommends the cheapest size that meets the goal with the probability --sure, then the largest
    degree of collocation that still does, and names the measurement that would make it surer. Without files it uses a
    simulated testbed. Writes recommendation.json, curve.csv and curve.png to --out. Tables are CSV or Parquet.
    """

    profiles: Path | None = None
    """Table of applications: application, configuration, and a column that is called like what the goal limits; may
    also have the columns of --configurations."""
    measured: Path | None = None
    """The same columns for the one application that is asked about, in as many configurations as you like."""
    application: str | None = None
    """Name of the application that is asked about; what --profiles hold of it counts as measured."""
    configurations: Path | None = None
    """Table of configurations: configuration, cpu (cores), mem (GiB) and, if replicas shared machines, collocation;
    default: taken from --profiles."""
    goal: str = "0.8"
    """Such as "p99 <= 20 ms" or "throughput >= 900": a column, a limit, and a unit to be printed. A number alone is the
    least performance there may be."""
    sure: float = 0.9
    """Probability with which the goal has to be met."""
    machine_cpu: float | None = None
    """Cores of a machine, which replicas that share it may not exceed together."""
    machine_mem: float | None = None
    """GiB of a machine, likewise."""
    cpu_price: float | None = None
    """Price of a core; default: a replica costs its share of the largest CPU plus its share of the largest memory."""
    mem_price: float | None = None
    """Price of a GiB for the same time."""
    currency: str = ""
    """Currency of the prices, e.g. EUR."""
    monotone: bool = True
    """Take more CPU or memory to be not worse, and more neighbours to be not better."""
    predictor: Literal["auto", "curves", "factorization-machine", "matrix-factorization", "means"] = "auto"
    """curves: earlier applications that behaved alike; means: plain means; factorization-machine: the paper's model;
    matrix-factorization: its baseline; auto: what predicts --profiles best (of more than 1,000 measurements, one of the
    first two)."""
    simulate: bool = False
    """Use the simulated testbed: --earlier applications, and a new one that is measured on demand."""
    earlier: int = 100
    """Number of earlier applications on the simulated testbed, at least 2."""
    seed: int = 0
    """Seed of the model and of the simulated testbed."""
    out: Path | None = None
    """Output folder; default: runs/size-<timestamp>."""

    def check(self) -> None:
        """Raise InputError for options out of range or that exclude one another."""
        files = (self.profiles, self.measured, self.configurations, self.application)
        if self.simulate and any(files):
            raise InputError(
                "--simulate cannot be combined with --profiles, --measured, --configurations or --application"
            )
        if any(files) and (self.profiles is None or (self.measured is None and self.application is None)):
            raise InputError(
                "give --profiles (earlier applications), and --measured (the new one) or --application (one of them)"
            )
        at_least(0, seed=self.seed)
        if not any(files):
            at_least(2, earlier=self.earlier)
            if self.machine_cpu is not None or self.machine_mem is not None:
                raise InputError(f"machines of the simulated testbed have {CORES:g} cores and {MEMORY:g} GiB")
        for one, other in (("machine_cpu", "machine_mem"), ("cpu_price", "mem_price")):
            given = [name for name in (one, other) if getattr(self, name) is not None]
            if len(given) == 1:
                raise InputError(f"{given[0]} is given alone: {one} and {other} belong together")
        if self.currency and self.prices is None:
            raise InputError(f"currency is {self.currency}: has no effect without cpu_price and mem_price")
        self.asked  # noqa: B018 raises

    @property
    def prices(self) -> Prices | None:
        """Of a core and a GiB. Raises InputError."""
        if self.cpu_price is None or self.mem_price is None:
            return None
        return Prices(self.cpu_price, self.mem_price, self.currency)

    @property
    def asked(self) -> Asked:
        """Goal, certainty, machine and prices. Raises InputError."""
        machine = None
        if self.machine_cpu is not None and self.machine_mem is not None:
            machine = self.machine_cpu, self.machine_mem
        return Asked(Target.parse(self.goal), self.sure, machine, self.prices)


def size_application(settings: SizingSettings) -> str:
    """Recommend, write recommendation.json, curve.csv and curve.png, and return the explanation.

    Raises InputError for bad settings or tables, and for an output folder that holds something.
    """
    settings.check()
    out = settings.out or default_folder("size")
    check_new_folder(out)
    asked = settings.asked
    if settings.profiles is None:
        found = _simulated(settings)
    else:
        with phase("comparing with earlier applications"):
            found = recommend_size(
                settings.profiles,
                settings.measured,
                asked.target,
                application=settings.application,
                configurations=settings.configurations,
                sure=asked.sure,
                machine=asked.machine,
                prices=asked.prices,
                predictor=settings.predictor,
                monotone=settings.monotone,
                seed=settings.seed,
            )
    return f"{found}\n\nwritten to {found.write(out)}"


def _simulated(settings: SizingSettings) -> Sizing:
    """A new application of the testbed, measured in two sizes."""
    *earlier, new = draw_applications(settings.earlier + 1, settings.seed)
    offered, rng = configurations(), np.random.default_rng(settings.seed)
    history, asked = profile(earlier, offered, settings.seed), settings.asked
    alone = [one for one in offered if one.collocation == 1]
    drawn = [alone[i] for i in sorted(rng.choice(len(alone), MEASURED, replace=False))]
    found = recommend_size(
        history,
        {one.name: new.measure(one, rng) for one in drawn},
        asked.target,
        application=new.name,
        configurations=offered,
        sure=asked.sure,
        machine=(CORES, MEMORY),
        prices=asked.prices,
        predictor=settings.predictor,
        monotone=settings.monotone,
        seed=settings.seed,
    )
    return replace(found, source=f"SIMULATED, learnt from {len(earlier)} simulated applications")
