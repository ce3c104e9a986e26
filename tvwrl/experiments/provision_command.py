"""Plans how few machines hold an instance, or checks a plan, as `tvwrl provision` is asked to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tyro

from tvwrl.command_line import SlotSeconds
from tvwrl.experiments.episode_rows import demand_table, episode_table, table_of, write_rows
from tvwrl.experiments.exploring.plan_explorer import write_explorer_of
from tvwrl.experiments.place_command import SearchOptions
from tvwrl.markdown import markdown_table
from tvwrl.metrics import score_episode
from tvwrl.penalties import PenaltyWeights
from tvwrl.planning import (
    APPLICATIONS,
    MACHINES,
    SEARCH,
    Budget,
    Fleet,
    Instance,
    Plan,
    PlanningProblem,
    Reading,
    check_fits,
    is_folder,
    is_trace,
    open_instance,
    open_problem,
    play,
    read_applications,
    read_machines,
    read_plans,
    read_running,
    run_planners,
    title_of_problem,
    validate,
)
from tvwrl.progress import say
from tvwrl.runs import default_folder, provenance, whole_folder, write_json
from tvwrl.traces import open_trace
from tvwrl.types import InputError, Trace


@dataclass(frozen=True)
class PlanningSettings(SearchOptions):
    """Plan as few machines as possible for all replicas of many applications, by one or more planners.

    Writes rows.csv, plan.csv, plan.parquet, trade-off.png, explorer.html and run.json to --out, and prints the rows.
    Without --planners, --best or --milp-seconds it searches for the best plan, as --best does. Every plan is checked
    before it is written.
    """

    instance: str
    """Applications to place: a published .csv or .csv.gz; the Tianchi contest's zip or folder; a trace (name, folder or
    CSV); or a CSV with columns application, replicas, optionally limit (replicas on one machine), and one column per
    resource."""
    machine: tyro.conf.UseAppendAction[tuple[tuple[float, ...], ...]] = ()
    """Capacity of a machine, one number per resource (cores, GiB). Repeat it for several kinds; machines are opened in
    this order."""
    machines_file: Path | None = None
    """Instead of --machine: a CSV with a row per machine, or per kind with a column count; optionally with columns
    machine (names) and cost; the other columns hold the free amount of each resource."""
    counts: tuple[int, ...] = ()
    """Numbers of machines, one of each kind; unless --fixed, any number of machines of the last kind may be added."""
    costs: tuple[float, ...] = ()
    """What a machine of each kind costs, one number each; plans then cost as little as possible. Default: 1 each, which
    minimises the number of machines."""
    fixed: bool = False
    """Use only these machines and place as many replicas as possible."""
    slack: float = 0.0
    """Share of every machine to keep free, at least 0 and below 1."""
    planners: tuple[str, ...] = ()
    """Planners to compare, e.g. FF,SpreadWFD-Avg-BinSearch; tvwrl place --list-planners names all."""
    best: bool = False
    """Search for the best plan within --seconds: several algorithms, then guided ejection. Writes every better plan as
    soon as it is found."""
    seconds: float = 30.0
    """With --best: time limit of the search, seconds."""
    milp_seconds: float | None = None
    """Also run the integer programme, with this time limit in seconds, on up to 2,000 applications; it starts from the
    best plan of the other planners and makes it cheaper. If --fixed machines cannot hold
    everything, it places as many whole applications as possible."""
    fragment_weight: float = 0.0
    """With --milp-seconds and --fixed: value of a machine without a fragment, in applications (see
    docs/how-to/size-an-application.md)."""
    bound_seconds: float = 0.0
    """Seconds to spend on each linear programme that improves the lower bound (evaluate solves dozens per sequence,
    provision one); 0: none."""
    verify: Path | None = None
    """Only check this plan.csv or plan.parquet against instance and machines; the exit code is 1 if it is
    infeasible."""
    hand_over: bool = False
    """For a trace: play the plan with the fewest machines in the simulator, slot by slot, and write an evaluation
    folder, hand-over/, to --out."""
    times: int | None = None
    """Cut series of demand into this many windows, and plan for the largest demand of each; default: all their times.
    1: one number per resource."""
    affinity: Path | None = None
    """Affinity limits, .parquet or .csv with app_a, app_b, limit; default: the instance's own."""
    slot_seconds: SlotSeconds = None
    seed: int = 0
    """Seed of the search of --best."""
    out: Path | None = None
    """Output folder; default: runs/provisioning-<instance>-<timestamp>."""

    def fleet(self, resources: tuple[str, ...]) -> Fleet:
        """The machines to plan with. Raises InputError for options that exclude one another or are out of range."""
        if self.machines_file is not None:
            if self.machine or self.counts:
                raise InputError("--machines-file cannot be combined with --machine or --counts: the file has both")
            return read_machines(self.machines_file, resources).fleet(self.fixed, self.slack)
        if not self.machine:
            example = " ".join(str(2 ** (5 + d)) for d in range(len(resources)))
            raise InputError(
                f"no machines are given: give the capacity of one, as in --machine {example} ({', '.join(resources)}), "
                "or --machines-file"
            )
        if self.fixed and not self.counts:
            raise InputError("--fixed needs --counts (the number of machines of each kind) or --machines-file")
        return Fleet.of_kinds(self.machine, self.counts, self.fixed, self.slack, self.costs or None)

    def problem(self) -> PlanningProblem:
        """Applications and machines."""
        folder = Path(self.instance).expanduser()
        if is_folder(folder):
            names = "times", "affinity", "slot_seconds", "running"
            reading = Reading(**{name: getattr(self, name) for name in names})
            if self.machine or self.machines_file is not None:
                resources = read_applications(folder / APPLICATIONS).resources
                return open_problem(self.instance, self.fleet(resources), reading)
            for option in ("counts", "costs", "slack"):
                if value := getattr(self, option):
                    raise InputError(
                        f"--{option} is {value}: must be left out without --machine or --machines-file: {MACHINES} "
                        "says what machines there are"
                    )
            return open_problem(self.instance, reading=reading)
        instance = open_instance(self.instance, self.times, self.affinity, self.slot_seconds)
        problem = PlanningProblem(instance, self.fleet(instance.resources))
        if self.running is not None:
            running, pinned = read_running(self.running, problem)
            problem = replace(problem, running=running, pinned=pinned)
        return problem

    def trace(self) -> Trace:
        """The trace that the instance was made of."""
        if not is_trace(self.instance):
            raise InputError("--hand-over needs a canonical trace: tvwrl prepare makes one of the contest's files")
        return open_trace(self.instance, self.slot_seconds)


def plan_machines(settings: PlanningSettings) -> int:
    """Plan, or check a plan; returns the exit code, 1 for a plan that breaks a rule.

    Raises InputError for bad options, instances and plans; KeyboardInterrupt passes through, with the plans so far
    written.
    """
    if settings.planners and settings.verify is not None:
        raise InputError("--planners cannot be combined with --verify, which does not plan")
    problem = settings.problem()
    if not problem.fleet.fixed:
        check_fits(problem.instance, problem.fleet, settings.instance)
    print(title_of_problem(problem))
    if is_trace(settings.instance) and (problem.instance.replicas > 1).any():
        print("each replica counts with the largest demand that any workload of its application has at the time")
    if settings.verify is not None:
        return _verify(settings.verify, problem)
    instance = problem.instance
    out = settings.out or default_folder(f"provisioning-{instance.name}")
    search = settings.best or not (settings.planners or settings.milp_seconds is not None)
    trace = settings.trace() if settings.hand_over else None
    budget = Budget(
        settings.seconds,
        settings.milp_seconds,
        settings.bound_seconds,
        settings.moves_cost,
        settings.most_moves,
        settings.searches,
        settings.fragment_weight,
    )
    names = [*settings.planners, *[SEARCH] * (search and SEARCH not in settings.planners)]
    start = settings.plan_to_improve(problem)
    facts = {"slack": settings.slack, "source": settings.instance}
    try:
        results = run_planners(problem, names, out, budget, settings.seed, start, facts)
    except KeyboardInterrupt:
        if (out / "rows.csv").exists():
            say(f"stopped; the plans so far are in {out}")
        raise
    print(results.summary())
    if trace is not None:
        whole = replace(settings, slack=0.0).fleet(instance.resources)  # what is kept free is there
        row = write_hand_over(trace, instance, whole, results.best().plan, out / "hand-over")
        print(f"{row['scheduler']}, played: {row['machines_used']} machines, overshoot {row['overshoot_pct']:g} %")
    print(f"written to {out}")
    write_explorer_of(results)
    return 0


def _verify(file: Path, problem: PlanningProblem) -> int:
    """Check a plan file, and print what is wrong with each plan in it."""
    plans = read_plans(file, problem, whole=not problem.fleet.fixed)
    verdicts = [validate(problem, plan) for plan in plans]
    head = ("planner", "machines in use", "missing", "wrong replicas", "above capacity", "above affinity", "elsewhere")
    rows = [
        (
            v.algorithm,
            v.machines,
            v.missing,
            v.misplaced,
            v.over_capacity,
            v.broken_limits,
            v.apart + v.barred + v.unpinned,
        )
        for v in verdicts
    ]
    print(markdown_table(head, [[str(value) for value in row] for row in rows]))
    for verdict in verdicts:
        for example in verdict.examples:
            print(f"{verdict.algorithm}: {example}")
    good = all(verdict.feasible for verdict in verdicts)
    print("no rule is broken" if good else "the plan breaks rules")
    return 0 if good else 1


def write_hand_over(trace: Trace, instance: Instance, fleet: Fleet, plan: Plan, out: Path) -> dict[str, Any]:
    """Play and write `episodes.parquet`, `demand.parquet`, `rows.csv`, `run.json`; returns the row of metrics."""
    weights = PenaltyWeights()
    with whole_folder(out) as folder:
        episode, sequences, machines = play(trace, instance, fleet, plan)
        row = score_episode(episode, machines, weights)
        episode_table(episode).write_parquet(folder / "episodes.parquet")
        demand_table(sequences).write_parquet(folder / "demand.parquet")
        write_rows(table_of([row]), folder / "rows.csv")
        facts = {
            "trace": {"name": trace.name, "source": trace.source, "workloads": len(trace)},
            "plan": plan.algorithm,
            "resources": list(trace.resources),
            "capacities": machines.as_dicts(),
            "step_seconds": trace.slot_seconds,
            "penalty_weights": {name: getattr(weights, name) for name in ("K_c", "K_u", "K_o", "K_w")},
            "overshoot_per": "workload",
            "background": 0,
        }
        write_json(folder / "run.json", provenance() | facts)
    return row
