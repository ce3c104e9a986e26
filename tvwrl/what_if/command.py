"""What `tvwrl what-if` does: reads a cluster's past, replays it under other schedulers, and writes the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from tvwrl.agents import Facts, ObservingScheduler, open_policy
from tvwrl.checks import at_least, different, positive
from tvwrl.experiments import parts_of, scheduler_of
from tvwrl.forecasting import shipped_forecaster
from tvwrl.progress import phase, say
from tvwrl.runs import check_new_folder, default_folder
from tvwrl.schedulers import Scheduler
from tvwrl.types import InputError
from tvwrl.what_if import moves_report, without_moves
from tvwrl.what_if.compared import Compared, compare, with_kept
from tvwrl.what_if.from_csv import USUAL, prices_of, read_csv_record, with_prices, without_pools
from tvwrl.what_if.from_prometheus import Asked, read_prometheus_record
from tvwrl.what_if.move_names import movers
from tvwrl.what_if.moves import compare_moves
from tvwrl.what_if.recorded import Recorded
from tvwrl.what_if.replay import FEWEST_ORDERS, Placed, Replay
from tvwrl.what_if.report import write
from tvwrl.what_if.shadow import shadow_placements

Learnt = tuple[ObservingScheduler, Facts]  # a policy and what is known of it
ALWAYS = "as-placed"
NO_PRICE = "there is no price: give --price-per-machine-hour or --prices"
DEFAULT = (
    "kube-default", "most-allocated", "best-fit", "load-aware", "target-load-packing", "forecast-fit",
    "expected-cost-backfill",
)  # fmt: skip


@dataclass(frozen=True)
class WhatIfSettings:
    """Replay what a Kubernetes cluster has done, as other schedulers would have placed its pods, and say what that
    would have saved and cost.

    Reads a Prometheus server (cAdvisor and kube-state-metrics) or two CSV files; changes nothing. Prints a verdict and
    tables, and writes report.md, pictures, what-if.json, days.csv, nodes-off.csv and requests.csv to --out. What is
    read of a server is kept in TVWRL_DATA (~/.cache/tvwrl), so that after Ctrl-C the same command continues.
    """

    prometheus: str | None = None
    """Address of the Prometheus server, e.g. http://host:9090. Set the environment
    variable TVWRL_PROMETHEUS_HEADER to a header that it requires."""
    days: float = 7.0
    """Days to read from the server; a CSV is read whole."""
    end: str | None = None
    """End of the trace; default: the last midnight UTC on the server's clock."""
    selector: str = ""
    """Label matchers of the cluster, e.g. 'cluster="a"'. Those of namespace and pod choose pods, which serve refuses;
    all others hold for nodes too."""
    chunk: float = 6.0
    """Hours per query; halved if the server refuses a query for too many samples."""
    timeout: float = 60.0
    """Timeout of a request, seconds."""
    retries: int = 4
    """Number of retries after a failed request, with growing waits between them."""
    usage: Path | None = None
    """CSV or Parquet instead of a server, with columns pod, time, cpu (cores), memory (GiB), and if known node,
    request_cpu, request_memory and owner; one row for each pod and sample."""
    nodes: Path | None = None
    """With --usage: columns node, cpu (cores) and memory (GiB), and if known kind, price (of an hour), pool, role
    (control-plane) and gpus."""
    excluded_nodes: tuple[str, ...] = USUAL
    """Nodes to leave out, with the pods on them: names of pools, kinds or nodes, in which * stands for any letters.
    control-plane and gpu are those with that role, and with GPUs; none: leave out none."""
    interval: int = 300
    """Interval of the samples, seconds; of a server, at least twice the scrape interval."""
    schedulers: tuple[str, ...] = DEFAULT
    """Rules to replay, as in tvwrl evaluate; tvwrl evaluate --list-schedulers lists them."""
    policies: tuple[str, ...] = ()
    """Trained policies to replay: training runs (folders or .pt files), exported .onnx files, or shipped:NAME."""
    moves: tuple[str, ...] | None = None
    """Rules that move running pods, to replay in place of --schedulers: names as in tvwrl evaluate, such as karpenter
    or most-allocated + karpenter, or rebalance, the plans of tvwrl rebalance; each at several settings, unless its name
    has options. Without a name: those of other projects, and ours."""
    moves_per_hour: int | None = None
    """With --moves: pods that may be evicted in an hour; default: 1 % of those that run at a time, at least 1."""
    record: Path | None = None
    """Decisions of a server in shadow mode (its --record) to score like a rule: JSON lines with time (seconds since
    1970), pod (namespace/name) and node (null: hold)."""
    record_of_moves: Path | None = None
    """The record of tvwrl rebalance --watch: say what the moves that it carried out were worth, and replay nothing
    else."""
    decision_seconds: int | None = None
    """Time between decisions, seconds; a multiple of --interval. Default: --interval for rules, and for forecasts and
    policies the slots that they were fitted for."""
    longest_hold: float = 900.0
    """Seconds for which the policy may hold a pod; then Kubernetes decides alone."""
    keep_running: bool = False
    """Keep pods that run when the record begins on their nodes; otherwise they are placed anew with all others."""
    ignore_requests: bool = False
    """Let requests exceed a node, which kube-scheduler never does: shows what lower requests could save."""
    limit: float = 1.0
    """Share of a node above which usage counts as overshoot."""
    orders: int | None = None
    """How many orders of what ties to play each rule in; default: 5 to 20, fewer for larger records; policies: 5."""
    seed: int = 0
    """Draws these orders."""
    price_per_machine_hour: float | None = None
    """Price of an hour of each node without a price of its own, to give savings in money too."""
    prices: tuple[str, ...] = ()
    """Price of an hour by kind of node, e.g. m5.xlarge=0.192,m5.2xlarge=0.384, or a CSV file with columns kind and
    price. Kinds are from the column kind, or the label node.kubernetes.io/instance-type."""
    currency: str = ""
    """Currency of the prices, e.g. EUR."""
    out: Path | None = None
    """Output folder; default: runs/what-if-<timestamp>."""

    def check(self) -> None:
        """Raise InputError for options that are wrong by themselves or together."""
        if (self.prometheus is None) == (self.usage is None):
            raise InputError("what to replay: give either --prometheus URL, or --usage FILE and --nodes FILE")
        if (self.usage is None) != (self.nodes is None):
            raise InputError("--usage and --nodes belong together: usage of pods, and sizes of nodes")
        for option in ("selector", "end"):
            if self.usage is not None and (given := getattr(self, option)):
                raise InputError(f"--{option} {given}: is of a server; a table of --usage is read whole")
        at_least(1, interval=self.interval, decision_seconds=self.decision_seconds)
        at_least(0, longest_hold=self.longest_hold)
        at_least(0, retries=self.retries, seed=self.seed)
        at_least(1, orders=self.orders, moves_per_hour=self.moves_per_hour)
        positive(
            days=self.days,
            chunk=self.chunk,
            timeout=self.timeout,
            limit=self.limit,
            price_per_machine_hour=self.price_per_machine_hour,
        )
        if self.decision_seconds is not None and self.decision_seconds % self.interval:
            raise InputError(
                f"decision_seconds is {self.decision_seconds}: must be a multiple of interval, {self.interval}"
            )
        if self.currency and self.nodes is None and self.price_per_machine_hour is None and not self.prices:
            raise InputError(f"currency is {self.currency}, but {NO_PRICE}")
        for given in (self.schedulers, self.policies):
            if given:
                different(schedulers=given)
        self._check_moves()
        prices_of(self.prices)

    def _check_moves(self) -> None:
        """Refuse options that have no effect beside --moves and --record-of-moves, and without them."""
        usual = {one.name: one.default for one in fields(self)}
        if self.record_of_moves is not None:
            for name in ("schedulers", "policies", "record", "keep_running", "longest_hold", "moves", "orders"):
                if (value := getattr(self, name)) != usual[name]:
                    raise InputError(f"{name} is {value}: has no effect with --record-of-moves, which replays nothing")
        if self.moves is None:
            if self.moves_per_hour is not None:
                raise InputError(f"moves_per_hour is {self.moves_per_hour}, but nothing moves: add --moves")
            return
        for name in ("schedulers", "policies", "record", "keep_running", "longest_hold"):
            if (value := getattr(self, name)) != usual[name]:
                raise InputError(f"{name} is {value}: has no effect with --moves, under which pods arrive as recorded")
        movers(self.moves)


def what_if(settings: WhatIfSettings) -> None:
    """Replay the record, write the folder and print the page. Raises InputError for bad options and input."""
    settings.check()
    if settings.out is not None:
        check_new_folder(settings.out)  # before a reading of hours
    schedulers = [_rule(name) for name in settings.schedulers if name != ALWAYS]
    policies = [open_policy(run) for run in settings.policies]
    names = [one.name for one in (*schedulers, *(policy for policy, _ in policies))]
    if names:
        different(schedulers=names)
    if settings.usage is not None and settings.nodes is not None:
        with phase(f"reading {settings.usage}"):
            recorded = read_csv_record(settings.usage, settings.nodes, settings.interval)
    else:
        recorded = read_prometheus_record(_asked(settings), say)
    if settings.record_of_moves is not None:
        out, text = replayed_without_moves(settings, recorded, settings.record_of_moves)
    elif settings.moves is None:
        out, text = replayed(settings, recorded, schedulers, policies)
    else:
        out, text = replayed_moves(settings, recorded, settings.moves)
    print(text)
    print(f"written to {out}")


def _asked(settings: WhatIfSettings) -> Asked:
    """What to read of the server."""
    names = ("days", "end", "interval", "selector", "chunk", "timeout", "retries")
    return Asked(settings.prometheus or "", **{name: getattr(settings, name) for name in names})


def replayed(
    settings: WhatIfSettings, recorded: Recorded, schedulers: Sequence[Scheduler], policies: Sequence[Learnt]
) -> tuple[Path, str]:
    """The folder written, and its page."""
    recorded = _chosen(settings, recorded)
    slot = settings.decision_seconds
    replay = Replay(
        recorded, slot or recorded.interval, not settings.ignore_requests, settings.keep_running, settings.longest_hold
    )
    shadow = None if settings.record is None else shadow_placements(settings.record, replay)
    seen = [] if shadow is None else [shadow.placed]
    placements = _placements(settings, replay, schedulers, policies)
    compared = compare(replay, [*seen, *placements], settings.limit, settings.currency)
    _check_currency(settings, compared)
    if not settings.keep_running and placements:
        kept = replace(replay, keep_running=True)
        compared = with_kept(compared, kept, _placements(settings, kept, schedulers, policies))
    out = settings.out or default_folder("what-if")
    return out, write(out, compared, replay, shadow)


def replayed_moves(settings: WhatIfSettings, recorded: Recorded, names: Sequence[str]) -> tuple[Path, str]:
    """The same of rules that move pods."""
    recorded = _chosen(settings, recorded)
    slot, usual = settings.decision_seconds, shipped_forecaster().step_seconds
    slot = slot or (recorded.interval if usual % recorded.interval else usual)
    replay = Replay(recorded, slot, not settings.ignore_requests)
    chosen = (settings.moves_per_hour, settings.orders, settings.seed, settings.limit, settings.currency)
    moves = compare_moves(replay, names, *chosen)
    _check_currency(settings, moves.compared)
    out = settings.out or default_folder("what-if")
    return out, moves_report.write(out, moves, replay)


def replayed_without_moves(settings: WhatIfSettings, recorded: Recorded, file: Path) -> tuple[Path, str]:
    """The same of moves that were carried out."""
    replay = Replay(_chosen(settings, recorded), settings.decision_seconds or recorded.interval)
    found, compared = without_moves.worth_of(file, replay, settings.limit, settings.currency)
    _check_currency(settings, compared)
    out = settings.out or default_folder("what-if")
    return out, without_moves.write(out, found, compared, replay)


def _chosen(settings: WhatIfSettings, recorded: Recorded) -> Recorded:
    """The nodes that are not left out, with their prices."""
    recorded = without_pools(recorded, settings.excluded_nodes)
    return with_prices(recorded, prices_of(settings.prices), settings.price_per_machine_hour)


def _check_currency(settings: WhatIfSettings, compared: Compared) -> None:
    if settings.currency and not compared.priced:
        raise InputError(f"currency is {settings.currency}, but {NO_PRICE}")


def _placements(
    settings: WhatIfSettings, replay: Replay, schedulers: Sequence[Scheduler], policies: Sequence[Learnt]
) -> list[Placed]:
    """Where each would have placed the pods, in each order."""
    slot, placements = settings.decision_seconds, list[Placed]()
    forecaster = shipped_forecaster() if any(one.needs_forecasts for one in schedulers) else None
    ending = ", with what ran at first where it was" if replay.keep_running else ""
    replays: dict[int, Replay] = {}  # what their orders share is forgotten at the end

    def every(seconds: int) -> Replay:
        if seconds not in replays:
            replays[seconds] = replay.every(seconds)
        return replays[seconds]

    for scheduler in schedulers:
        known = forecaster if scheduler.needs_forecasts else None
        own = every(replay.decision_seconds if known is None else slot or known.step_seconds)
        with phase(f"replaying {scheduler.name}{ending}"):
            for rng in _draws(settings, replay.orders()):
                placements.append(replay.in_my_order(own.play(scheduler, known, rng), own))
    for policy, facts in policies:
        own = every(slot or facts.scenario.step_seconds)
        with phase(f"replaying {policy.name}{ending}"):
            for rng in _draws(settings, FEWEST_ORDERS):
                placements.append(replay.in_my_order(own.play_policy(policy, facts, rng), own))
    return placements


def _draws(settings: WhatIfSettings, orders: int) -> Iterator[np.random.Generator]:
    """What draws each order: the same for all rules."""
    return (np.random.default_rng([settings.seed, order]) for order in range(settings.orders or orders))


def _rule(entry: str) -> Scheduler:
    """The rule of that name. Raises InputError for one that cannot be replayed here."""
    from tvwrl.schedulers import Hindsight, Rollout

    name = parts_of(entry)[0]
    if "policy" in name or name.startswith("deeprm"):
        raise InputError(
            f"scheduler is '{entry}': give training runs as --policies RUN; DeepRM policies cannot be replayed"
        )
    made = scheduler_of(entry, "cpu")
    if isinstance(made, Rollout | Hindsight):
        raise InputError(
            f"scheduler is '{entry}': it needs training workloads or a whole search; name its base instead"
        )
    return made
