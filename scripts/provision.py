"""Plan how few machines hold all replicas of many applications, or check or seed a plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tyro

from tvwrl import command_line
from tvwrl.markdown import markdown_table
from tvwrl.provisioning.instance import Fleet, Instance, check_fits
from tvwrl.provisioning.plan import Plan
from tvwrl.provisioning.sources.lists import read_machines
from tvwrl.provisioning.sources.opening import is_trace, open_instance
from tvwrl.runs import default_folder
from tvwrl.types import InputError, Trace

MILP_ENDS = {
    "optimal": "MILP: solved; no plan is better",
    "time limit": "MILP: out of time; its row is the best plan so far, the bound is what it proved",
    "too large": "MILP: too large for memory; its row is the best plan so far",
}


@dataclass(frozen=True)
class Arguments:
    """Plan how few machines hold all replicas of many applications, by the algorithms asked for.

    Writes rows.csv, plan.parquet, trade-off.png and run.json to --out, and prints the rows. Without --algorithms,
    --best or --milp it looks for the best plan, as --best does. Every plan is checked before it is written.
    """

    instance: str
    """The published .csv or .csv.gz, the Tianchi contest's zip or folder, a trace (name, folder or CSV), or a CSV list
    with columns application, replicas, perhaps limit (replicas on one machine), and one per resource."""
    machine: tyro.conf.UseAppendAction[tuple[tuple[float, ...], ...]] = ()
    """Capacity of a machine, a number per resource (cores, GiB). Repeat for several kinds, opened in this order."""
    machines: Path | None = None
    """Instead: a CSV with a row per machine, or per kind with a column count; columns of resources say what is free."""
    count: tuple[int, ...] = ()
    """How many of each kind; beyond them there are machines like the last, without end, unless --fixed."""
    fixed: bool = False
    """There are no other machines: place as many replicas as possible."""
    slack: float = 0.0
    """Share of every machine that is kept free, 0 to below 1."""
    algorithms: str = ""
    """Comma-separated names, as FF,SpreadWFD-Avg-BinSearch; an unknown one lists those that there are."""
    best: bool = False
    """Search for the best plan within --seconds: several algorithms, then guided ejection. Better plans are written
    as they come."""
    seconds: float = 30.0
    """Time budget of --best and --advise."""
    milp: float | None = None
    """Seconds for the integer programme, up to 2,000 applications; it begins with the best plan of the others. With
    --fixed it looks for the most applications that can be placed wholly."""
    fragment_weight: float = 0.0
    """With --milp and --fixed: what a machine that is left no fragment is worth, in applications (docs/lrasched.md)."""
    bound_seconds: float = 0.0
    """Seconds for the linear programme of the lower bound; 0 = the quick bounds only."""
    advise: bool = False
    """Only say which algorithm suits the instance and the time budget, and why."""
    verify: Path | None = None
    """Only check this plan.parquet against instance and machines; exit code 1 if it breaks a rule."""
    hand_over: bool = False
    """Of a trace: play the plan with the fewest machines in the simulator, slot by slot, and write hand-over/ to
    --out, an evaluation folder."""
    times: int | None = None
    """Cut the series into so many windows, each with its largest demand; 1 = one number per resource."""
    affinity: Path | None = None
    """Affinity limits, .parquet or .csv with app_a, app_b, limit; default: those that come with the instance."""
    slot_seconds: int | None = None
    """Interval of a CSV trace, seconds."""
    seed: int = 0
    """Seed of the search of --best."""
    out: Path | None = None
    """Output folder; default: runs/provisioning-<instance>-<timestamp>."""


def main() -> int:
    """Parse the arguments, plan, print the rows."""
    arguments = tyro.cli(Arguments)
    names = command_line.split_list(arguments.algorithms)
    if arguments.algorithms and not names:
        raise InputError("algorithms: no name is given")
    if names and (arguments.advise or arguments.verify is not None):
        raise InputError("--algorithms goes with neither --advise nor --verify: they plan nothing")
    instance = open_instance(arguments.instance, arguments.times, arguments.affinity, arguments.slot_seconds)
    fleet = fleet_of(arguments, instance.resources)
    if fleet.capacity.shape[1] != len(instance.resources):
        raise InputError(
            f"machine has {fleet.capacity.shape[1]} numbers: must be {len(instance.resources)} "
            f"({', '.join(instance.resources)})"
        )
    check_fits(instance, fleet, arguments.instance)
    print(f"{instance.name}: {len(instance):,} applications, {instance.replicas.sum():,} replicas, ", end="")
    print(f"{instance.demand.shape[1]} times, {len(instance.affinity):,} affinity limits")
    if arguments.verify is not None:
        return verify(arguments.verify, instance, fleet)
    if arguments.advise:
        return advise(instance, fleet, arguments)
    return plan(instance, fleet, names, arguments)


def fleet_of(arguments: Arguments, resources: tuple[str, ...]) -> Fleet:
    """The machines to plan with."""
    if arguments.machines is not None:
        if arguments.machine or arguments.count:
            raise InputError("--machines goes with neither --machine nor --count: the file has both")
        kinds, count = read_machines(arguments.machines, resources)
        return Fleet.of_kinds(kinds, count, arguments.fixed, arguments.slack)
    if arguments.fixed and not arguments.count:
        raise InputError("--fixed: give --count, how many machines there are of each kind, or --machines")
    return Fleet.of_kinds(arguments.machine, arguments.count, arguments.fixed, arguments.slack)


def plan(instance: Instance, fleet: Fleet, names: list[str], arguments: Arguments) -> int:
    """Plan, and perhaps hand over."""
    from tvwrl.provisioning.suite import provision

    out = arguments.out or default_folder(f"provisioning-{instance.name}")
    best = arguments.best or not (names or arguments.milp is not None)
    trace = trace_of(arguments) if arguments.hand_over else None
    try:
        results = provision(
            instance,
            fleet,
            out,
            names,
            arguments.seconds if best else None,
            arguments.milp,
            arguments.bound_seconds,
            arguments.seed,
            {"slack": arguments.slack, "source": arguments.instance},
            arguments.fragment_weight,
        )
    except KeyboardInterrupt:
        print(f"stopped; the plans so far are in {out}")
        raise
    rows = results.rows()
    print(markdown_table(list(rows[0])[1:], [[str(value) for value in list(row.values())[1:]] for row in rows]))
    if results.milp:
        if (found := results.admitted) is not None:
            print(f"MILP: worth {found.value:g}, at most {found.bound:g} is possible (gap {100 * found.gap:.1f} %)")
        print(MILP_ENDS[results.milp])
    for result in results.made.values():
        names = not_whole(instance, result.plan)
        if names:
            print(f"{result.plan.algorithm}: not wholly placed: {', '.join(names[:10])}{', ...' * (len(names) > 10)}")
    if trace is not None:
        from tvwrl.experiments.handover import write_hand_over

        whole = fleet_of(replace(arguments, slack=0.0), instance.resources)  # what is kept free is there
        row = write_hand_over(trace, instance, whole, results.best().plan, out / "hand-over")
        print(f"{row['scheduler']}, played: {row['machines_used']} machines, overshoot {row['overshoot_pct']:g} %")
    print(f"written to {out}")
    return 0


def not_whole(instance: Instance, made: Plan) -> list[str]:
    """Applications that lack a replica."""
    placed = np.bincount(made.application, weights=made.replicas, minlength=len(instance))
    return [str(name) for name in instance.application[placed < instance.replicas]]


def verify(file: Path, instance: Instance, fleet: Fleet) -> int:
    """Check a plan file; says what is wrong with each plan in it."""
    from tvwrl.provisioning.plan_file import read_plans
    from tvwrl.provisioning.referee import validate

    verdicts = [validate(instance, fleet, made) for made in read_plans(file, instance, whole=not fleet.fixed)]
    head = ("algorithm", "machines in use", "missing", "wrong replicas", "above capacity", "above affinity")
    rows = [(v.algorithm, v.machines, v.missing, v.replicas, v.capacity, v.affinity) for v in verdicts]
    print(markdown_table(head, [[str(value) for value in row] for row in rows]))
    for verdict in verdicts:
        for example in verdict.examples:
            print(f"{verdict.algorithm}: {example}")
    good = all(verdict.feasible for verdict in verdicts)
    print("no rule is broken" if good else "the plan breaks rules")
    return 0 if good else 1


def advise(instance: Instance, fleet: Fleet, arguments: Arguments) -> int:
    """Say which algorithm to use, and why."""
    from tqdm import tqdm

    from tvwrl.provisioning.advice import advise

    with tqdm(desc="trying", bar_format="{desc} {postfix} {elapsed}", disable=None, leave=False) as bar:
        advice = advise(instance, fleet, arguments.seconds, arguments.seed, bar.set_postfix_str)
    f = advice.features
    alone = ", ".join(f"{name} alone needs {count:,} machines" for name, count in f.needed.items())
    print(f"{alone}; dominant: {f.dominant or 'none'}; density {100 * f.density:.2g} %")
    print(f"seconds: carried on from samples of up to {advice.sample:,} applications\n")
    head = ("algorithm", "grows like", "worst case", "seconds", "above bound, %", "why")
    rows = [
        (c.algorithm, f"A^{c.growth:.1f}", c.worst_case, f"{c.seconds:.2g}", f"{c.deviation_pct:.1f}", c.why)
        for c in advice.candidates
    ]
    print(markdown_table(head, rows))
    print(f"\nuse {advice.algorithm}: {advice.reason}")
    return 0


def trace_of(arguments: Arguments) -> Trace:
    """The trace that the instance was made of."""
    from tvwrl.traces import open_trace

    if not is_trace(arguments.instance):
        raise InputError("--hand-over needs a canonical trace: prepare_trace.py makes one of the contest's files")
    return open_trace(arguments.instance, arguments.slot_seconds)


if __name__ == "__main__":
    command_line.run(main)
