"""What `tvwrl rebalance` does: sees a cluster, plans moves, writes the plan, and carries it out if it is told to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from tvwrl.checks import at_least, positive, within
from tvwrl.progress import phase, say
from tvwrl.rebalance.batches import BatchLimits
from tvwrl.rebalance.by_rule import moves_of_rule, rule_called
from tvwrl.rebalance.cluster_state import ClusterState
from tvwrl.rebalance.controller import Controller, ControllerOptions, WatchOptions
from tvwrl.rebalance.eviction_budgets import EvictionBudgets
from tvwrl.rebalance.execution import ExecutionOptions, Result
from tvwrl.rebalance.forecast import HOUR, Forecast, foresee
from tvwrl.rebalance.from_record import as_now, state_of_record, with_record
from tvwrl.rebalance.generated import generated_cluster
from tvwrl.rebalance.handing_over import ExtenderOptions
from tvwrl.rebalance.kube_api import ApiError, ApiOptions, connect
from tvwrl.rebalance.kubernetes_objects import COMMAND, read_objects
from tvwrl.rebalance.kubernetes_state import MovableOptions, state_of
from tvwrl.rebalance.latest_usage import read_latest
from tvwrl.rebalance.leadership import LeaseOptions
from tvwrl.rebalance.page import About, write
from tvwrl.rebalance.plan_of_moves import MovePlan, read_plan
from tvwrl.rebalance.planner import Finds, make_plan, search
from tvwrl.rebalance.referee import faults
from tvwrl.rebalance.search import OVERLOAD, Goal
from tvwrl.runs import check_new_folder, default_folder
from tvwrl.traces import ClusterMetrics, RetryPolicy, Selector, Server, address
from tvwrl.types import InputError
from tvwrl.what_if import Asked, Recorded, prices_of, read_csv_record, read_prometheus_record, trust, with_prices

NOW, SEARCH = "now", "search"
FAR = float("inf")  # seconds since usage that nobody has seen
Part = TypeVar("Part")


@dataclass(frozen=True)
class TaskOptions:
    """What to do."""

    heading = "what to do"
    watch: bool = False
    """Look, plan and act every few minutes until it is stopped; with --dry-run only record what it would do."""
    execute: Path | None = None
    """Carry out this plan.json, if it is younger than --longest-age, instead of planning."""
    out: Path | None = None
    """Output folder; default: runs/rebalance-<timestamp>."""


@dataclass(frozen=True)
class SourceOptions:
    """What is read of the cluster."""

    heading = "reading the cluster"
    prometheus: str | None = None
    """Address of the Prometheus server, e.g. http://host:9090. Set the environment
    variable TVWRL_PROMETHEUS_HEADER to a header that it requires."""
    objects: Path | None = None
    """What Kubernetes knows of the same cluster, as kubectl get nodes,pods,... -A -o json writes it (a file or a
    folder), where its API cannot be reached; the page lists what it does not say, and what that means."""
    assume_movable: bool = False
    """Know nothing of Kubernetes' objects: every pod that has an owner, and is no job, may go to every node."""
    selector: str = ""
    """Label matchers of the cluster, e.g. 'cluster="a"'."""
    days: float = 7.0
    """Days to read from the server, and to forecast from."""
    end: str = NOW
    """End of what is read, 2026-01-31T12:00:00Z; now: the last whole hour on the server's clock."""
    interval: int = 300
    """Interval of the samples, seconds; of a server, at least twice the scrape interval."""
    chunk: float = 6.0
    """Hours per query; halved if the server refuses a query for too many samples."""
    timeout: float = 60.0
    """Timeout of a request, seconds."""
    retries: int = 4
    """Number of retries after a failed request, with growing waits between them."""
    usage: Path | None = None
    """CSV or Parquet instead of a server, as of tvwrl what-if; its end is taken as now."""
    nodes: Path | None = None
    """With --usage: sizes of nodes, as of tvwrl what-if."""
    generated: int | None = None
    """Instead of all these: a generated cluster of so many nodes, to try it out."""


@dataclass(frozen=True)
class GoalOptions:
    """What moves are for."""

    heading = "goal, and prices"
    goal: str = "machines"
    """machines: empty as many nodes as the moves can; cost: the same, by the price of each; overload: relieve nodes
    whose load will exceed --limit."""
    moves_by: str = SEARCH
    """What chooses the moves: search, or a rule that moves, such as karpenter or "most-allocated + karpenter(after=1)"
    (tvwrl evaluate --list-schedulers); of its moves those are made that nothing forbids."""
    most_moves: int | None = None
    """Moves at most; default: 2 % of the pods that may be moved, but 5 or more."""
    limit: float = 0.8
    """Share of a node that forecast load may take; requests may take all of it."""
    price_per_machine_hour: float | None = None
    """Price of an hour of each node without a price of its own, to give savings in money too."""
    prices: tuple[str, ...] = ()
    """Price of an hour by kind of node, e.g. m5.xlarge=0.192,m5.2xlarge=0.384, or a CSV file with columns kind and
    price."""
    currency: str = ""
    """Currency of the prices, e.g. EUR."""
    seed: int = 0
    """Draws the orders in which nodes are tried."""


@dataclass(frozen=True)
class RebalanceSettings(
    ExtenderOptions,
    LeaseOptions,
    ApiOptions,
    WatchOptions,
    ExecutionOptions,
    EvictionBudgets,
    GoalOptions,
    MovableOptions,
    SourceOptions,
    TaskOptions,
):
    """Plan which running pods to move where: to empty nodes, or to relieve full ones.

    Reads the usage of the last days and the objects of Kubernetes, forecasts the next day, and prints the moves in
    order, with what each is for, what it saves, and what it risks. Writes plan.json, moves.csv, report.md, a picture
    and a page for the browser to --out. Changes nothing in the cluster, unless --no-dry-run is given: then it evicts
    these pods through the Eviction API, batch by batch, within budgets. With --watch it does so again and again.
    """

    def check(self) -> None:
        """Raise InputError for options that are wrong by themselves or together."""
        prices_of(self.prices)
        within(1, HOUR, interval=self.interval)
        at_least(0, retries=self.retries, seed=self.seed)
        at_least(1, days=self.days)
        positive(
            chunk=self.chunk,
            timeout=self.timeout,
            price_per_machine_hour=self.price_per_machine_hour,
        )
        self.wanted  # noqa: B018 raises
        if self.moves_by != SEARCH:
            rule_called(self.moves_by)
        self.options.check()
        acts = self.watch or self.execute is not None or not self.dry_run
        if acts and (self.objects is not None or self.assume_movable or self.prometheus is None):
            raise InputError(
                "to act on a cluster it has to be seen as it is now: give --prometheus, without --objects, --usage, "
                "--generated and --assume-movable"
            )
        if self.execute is not None and (self.watch or self.dry_run):
            raise InputError("--execute carries one plan out: add --no-dry-run, and leave out --watch")
        self._check_source()
        self._check_effects()

    def _check_effects(self) -> None:
        """Refuse options that would have no effect."""
        usual = RebalanceSettings()
        acts = self.watch or self.execute is not None or not self.dry_run
        useless = {
            "--goal overload": ("price_per_move",) if self.goal == OVERLOAD else (),
            "--moves-by": ("price_per_move",) if self.moves_by != SEARCH else (),
            "--watch": ("out",) if self.watch else (),
            "--execute": ("out", "most_moves", "moves_by") if self.execute is not None else (),
            "acting on a cluster as it is now": ("end",) if acts else (),
            "--generated": ("prices", "price_per_machine_hour", "selector", "end", "delete_emptydir_data")
            if self.generated is not None
            else (),
            "--assume-movable": ("delete_emptydir_data",) if self.assume_movable else (),
            "--usage": ("selector", "end") if self.usage is not None else (),
        }
        for beside, names in useless.items():
            for name in names:
                if getattr(self, name) != getattr(usual, name):
                    raise InputError(f"{name} is {getattr(self, name)}: has no effect with {beside}; leave it out")

    def _check_source(self) -> None:
        given = [name for name in ("prometheus", "usage", "generated") if getattr(self, name) is not None]
        if len(given) != 1:
            several = f", not {' and '.join(f'--{name}' for name in given)} together" if given else ""
            raise InputError(
                "which cluster: give --prometheus URL, --usage FILE with --nodes FILE, or --generated NODES" + several
            )
        if (self.usage is None) != (self.nodes is None):
            raise InputError("--usage and --nodes belong together: usage of pods, and sizes of nodes")
        known = (self.objects is not None) + self.assume_movable
        if self.generated is not None and known:
            raise InputError("a generated cluster has rules of its own: leave out --objects and --assume-movable")
        if known == 2:
            raise InputError("--objects say what may be moved where: leave out --assume-movable")
        if self.usage is not None and not known:
            raise InputError(
                f"what may be moved where: give --objects FILE, which this writes, or --assume-movable:\n  {COMMAND}"
            )

    @property
    def wanted(self) -> Goal:
        """The goal. Raises InputError."""
        return Goal(self.goal, self.most_moves, self.price_per_move, self.limit, seed=self.seed)

    @property
    def batches(self) -> BatchLimits:
        """How many pods may be on their way. Raises InputError."""
        return BatchLimits(self.on_their_way)

    @property
    def options(self) -> ControllerOptions:
        """Those of the controller."""
        return ControllerOptions(
            self._part(WatchOptions),
            self._part(ApiOptions),
            self._part(LeaseOptions),
            self.budgets,
            self._part(ExecutionOptions),
            self._part(ExtenderOptions),
            self._part(MovableOptions),
        )

    @property
    def budgets(self) -> EvictionBudgets:
        """How many pods may be evicted in an hour."""
        return self._part(EvictionBudgets)

    def _part(self, kind: type[Part]) -> Part:
        return kind(**{one.name: getattr(self, one.name) for one in fields(kind)})  # type: ignore[arg-type]


def rebalance(settings: RebalanceSettings) -> None:
    """Plan, write the folder and print the page; act if that is asked for. Raises InputError for bad options and input,
    and where the API server cannot be reached."""
    settings.check()
    if settings.watch:
        Controller(lambda state: _plan(settings, state)[1], settings.options, usage_age=_age(settings)).run()
        return
    if settings.out is not None:
        check_new_folder(settings.out)  # before a reading of minutes
    out = settings.out or default_folder("rebalance")
    if settings.dry_run:
        recorded, state = seen(settings)
        print(_written(settings, out, state, recorded))
        print(f"Nothing has been changed in the cluster. Written to {out}")
        return
    ready = None if settings.execute is None else read_plan(settings.execute)

    def plan_of(state: ClusterState) -> MovePlan:
        nonlocal ready
        if ready is None:
            forecast, ready, trusted = _plan(settings, state)
            print(write(out, state, forecast, ready, settings.wanted, _about(settings, trusted)))
        return ready

    done = Controller(plan_of, settings.options, usage_age=_age(settings)).once()
    if done is not None and done.stopped and not done.evicted:
        raise InputError(f"nothing was evicted: {done.stopped}")
    print("nothing to do" if done is None else _done(done))


def _done(result: Result) -> str:
    """What came of carrying a plan out."""
    lines = [f"{len(result.evicted)} pods evicted: {', '.join(f'{n} {what}' for what, n in result.outcomes.items())}"]
    lines += [f"not moved: {pod}: {why}" for pod, why in result.refused.items()]
    return "\n".join([*lines, *[f"stopped: {result.stopped}"] * bool(result.stopped)])


def _written(settings: RebalanceSettings, out: Path, state: ClusterState, recorded: Recorded) -> str:
    """The page of a plan that was written to a folder."""
    with phase("forecasting the next day"):
        forecast = foresee(recorded, state, max(int(settings.days), 1))
    plan = planned(settings, state, forecast, recorded)
    return write(out, state, forecast, plan, settings.wanted, _about(settings, _trusted(settings, recorded)))


def _plan(settings: RebalanceSettings, state: ClusterState) -> tuple[Forecast, MovePlan, list[str]]:
    """A plan for the cluster as the API server shows it, and how far what it rests on can be trusted."""
    recorded = as_now(_recorded(settings), state)
    state = with_record(state, recorded)
    forecast = foresee(recorded, state, max(int(settings.days), 1))
    return forecast, planned(settings, state, forecast, recorded), _trusted(settings, recorded)


def _about(settings: RebalanceSettings, trusted: list[str]) -> About:
    """What the page says beside the plan."""
    rule = "" if settings.moves_by == SEARCH else settings.moves_by
    return About(settings.currency, trusted, rule, settings.longest_age / 60)


def _trusted(settings: RebalanceSettings, recorded: Recorded) -> list[str]:
    """How far the record can be trusted, in sentences; of a generated one there is nothing to say."""
    return [] if settings.generated is not None else trust(recorded, replayed=False)


def planned(settings: RebalanceSettings, state: ClusterState, forecast: Forecast, recorded: Recorded) -> MovePlan:
    """A plan that the referee found no fault in."""
    goal = settings.wanted
    with phase("searching for moves"):
        plan = make_plan(
            state, forecast, goal, recorded, settings.batches, _finds(settings, recorded), settings.budgets
        )
        load = forecast.at_moments(goal.step_seconds).astype(float)
        found = faults(state, plan.moves, plan.drained, load, goal.limit)
    if found:
        raise RuntimeError(f"the plan has {len(found)} faults, which is a fault of the search; first: {found[0]}")
    return plan


def _finds(settings: RebalanceSettings, recorded: Recorded) -> Finds:
    """What finds the moves."""
    return search if settings.moves_by == SEARCH else partial(moves_of_rule, settings.moves_by, recorded)


def seen(settings: RebalanceSettings) -> tuple[Recorded, ClusterState]:
    """The past of the cluster, and what it looks like now. Raises InputError."""
    if settings.generated is not None:
        with phase(f"generating a cluster of {settings.generated} nodes"):
            cluster = generated_cluster(settings.generated, settings.seed)
        return cluster.past, cluster.state
    recorded = _recorded(settings)
    if settings.assume_movable:
        return recorded, state_of_record(recorded)
    if settings.objects is not None:
        with phase(f"reading {settings.objects}"):
            state = state_of(read_objects(settings.objects), delete_emptydir_data=settings.delete_emptydir_data)
    else:
        with phase("reading the objects of Kubernetes"):
            try:
                objects = connect(settings.options.api).objects()
                state = state_of(objects, delete_emptydir_data=settings.delete_emptydir_data)
            except ApiError as error:
                raise InputError(
                    f"the API server of Kubernetes: {error}; where it cannot be reached give --objects FILE, which "
                    f"this writes, or --assume-movable:\n  {COMMAND}"
                ) from error
    recorded = as_now(recorded, state)
    return recorded, with_record(state, recorded)


def _recorded(settings: RebalanceSettings) -> Recorded:
    """The past, with prices. Raises InputError."""
    recorded = _read(settings)
    return with_prices(recorded, prices_of(settings.prices), settings.price_per_machine_hour)


def _read(settings: RebalanceSettings) -> Recorded:
    if settings.usage is not None and settings.nodes is not None:
        with phase(f"reading {settings.usage}"):
            return read_csv_record(settings.usage, settings.nodes, settings.interval)
    names = ("days", "interval", "selector", "chunk", "timeout", "retries")
    asked = Asked(settings.prometheus or "", **{name: getattr(settings, name) for name in names})
    if settings.end == NOW:
        return read_latest(asked, say)
    return read_prometheus_record(replace(asked, end=settings.end), say)


def _age(settings: RebalanceSettings) -> Callable[[], float]:
    """Tells how old the newest usage is, seconds."""

    def age() -> float:
        server = Server(address(settings.prometheus or ""), RetryPolicy(1, settings.timeout))
        found = ClusterMetrics(server, Selector(settings.selector)).sample_age(server.clock())
        return FAR if found is None else float(found)

    return age
