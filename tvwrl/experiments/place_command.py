"""Places one problem by the planners asked for, as `tvwrl place` is asked to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from textwrap import fill

from tvwrl.experiments.exploring.plan_explorer import write_explorer_of
from tvwrl.planning import (
    GENERATED,
    IMPROVED,
    PLANNERS,
    REGISTERED,
    Budget,
    Plan,
    PlanningProblem,
    Reading,
    abilities,
    about_stopping,
    check_planner,
    family_of,
    open_problem,
    read_running,
    run_planners,
    title_of_problem,
)
from tvwrl.progress import say
from tvwrl.runs import default_folder


@dataclass(frozen=True, kw_only=True)
class SearchOptions:
    """What the search starts from, and what moves cost."""

    running: Path | None = None
    """Where replicas run now: a CSV with application, machine and replicas, or an earlier plan.csv or plan.parquet; it
    overrides the folder's running.csv. If more replicas run than the application asks for, the surplus stops, first
    on the machines with the fewest."""
    moves_cost: float = 0.0
    """With --running, running.csv or --improve: what moving a replica costs, in machines (or in the unit of their
    costs); the search then starts from there."""
    most_moves: int | None = None
    """With --running, running.csv or --improve: replicas that the search may move at most."""
    improve: Path | None = None
    """A plan.csv or plan.parquet of an earlier run for the search to improve."""
    searches: int = 1
    """Searches side by side, each in a process with a seed of its own; the best plan of any counts."""

    def plan_to_improve(self, problem: PlanningProblem) -> Plan | None:
        """The plan in `improve`."""
        if self.improve is None:
            return None
        plan, _ = read_running(self.improve, problem)
        for line in about_stopping(problem, plan):
            say(f"{self.improve}: {line}")
        return plan


@dataclass(frozen=True)
class PlacementSettings(SearchOptions):
    """Place the replicas of applications on the machines that there are, of any kinds, by one or more planners.

    Writes rows.csv, plan.csv, plan.parquet, unplaced.csv, trade-off.png, explorer.html and run.json to --out, and
    prints a table. Replicas that cannot be placed are listed with the reason; all others are placed. A referee that
    shares no code with the planners checks every plan.
    """

    instance: str = GENERATED
    """Applications and machines: generated (random, with the paper's distributions); a folder with applications.csv,
    machines.csv and optionally affinity.csv, anti-affinity.csv, blacklist.csv and running.csv; or the Tianchi contest's
    zip or folder."""
    planners: tuple[str, ...] = ("best",)
    """Planners to compare, e.g. best,FF,Aladdin+H.4(SRF); --list-planners names all."""
    list_planners: bool = False
    """Only list what --planners takes."""
    seconds: float = 30.0
    """Time limit of the search, seconds."""
    machines: int | None = None
    """Machines in the cluster; default: 12,000 if generated, 6,000 of the contest. Fewer of the contest have a
    proportional share of its applications."""
    replicas: int | None = None
    """Replicas to generate; default: 100,000 per 12,000 machines."""
    demand: float | None = None
    """Demand of generated replicas, as a share of the scarcer resource of all machines, above 0 and at most 1; default:
    0.75."""
    times: int | None = None
    """For the contest: cut series of demand into this many windows, and plan for the largest demand of each; default:
    1."""
    bounds: bool = True
    """Compute lower bounds on the number of machines needed, and the gaps to them."""
    seed: int = 0
    """Seed of generated problems and of the planners."""
    out: Path | None = None
    """Output folder; default: runs/place-<instance>-<timestamp>."""

    def problem(self) -> PlanningProblem:
        """What is to be placed, and on what."""
        size = {name: getattr(self, name) for name in ("machines", "replicas", "demand", "times", "seed", "running")}
        return open_problem(self.instance, reading=Reading(**size))


def place(settings: PlacementSettings) -> None:
    """Place the problem by each planner, write the files and print the table. Raises InputError for bad options."""
    if settings.list_planners:
        print(planners_by_family())
        return
    budget = Budget(
        settings.seconds,
        bound_seconds=0.0 if settings.bounds else None,
        moves_cost=settings.moves_cost,
        most_moves=settings.most_moves,
        searches=settings.searches,
    )
    problem = settings.problem()
    for name in settings.planners:
        check_planner(name, problem)
    out = settings.out or default_folder(f"place-{problem.instance.name}")
    start = settings.plan_to_improve(problem)
    print(title_of_problem(problem))
    facts = {"source": settings.instance, "demand": settings.demand, "times": settings.times}
    results = run_planners(problem, settings.planners, out, budget, settings.seed, start, facts)
    print(results.summary())
    print(f"written to {out}")
    write_explorer_of(results)


def planners_by_family() -> str:
    """All planners, by how they place: what each family cannot do, its names, and their forms by source."""
    families: dict[str, list[str]] = {}
    for name in PLANNERS:
        families.setdefault(family_of(name), []).append(name)
    lines = []
    for family, names in families.items():
        can = abilities(names[0])
        lacks = [*["fixed fleets only"] * (not can.open_fleet), *["may break limits"] * (not can.keeps_constraints)]
        forms: dict[str, list[str]] = {}
        for one in REGISTERED:
            if one.family == family:
                forms.setdefault(one.source, []).append(one.form.text)
        lines.append(f"{family} ({', '.join(lacks)}):" if lacks else f"{family}:")
        for text in (", ".join(names), *(f"{source}: {', '.join(of)}" for source, of in forms.items())):
            lines.append(fill(text, 78, break_on_hyphens=False, initial_indent="  ", subsequent_indent="  "))
    told = dict.fromkeys(f"  {{{name}}}: {part.told}" for one in REGISTERED for name, part in one.form.parts.items())
    return "\n".join(
        [
            *lines,
            "",
            "Forms of names stand behind their source: parts in [] can be left out, and parts in {} can be:",
            *told,
            f"NAME{IMPROVED} lets the search go on from the plan of any planner that keeps limits.",
        ]
    )
