"""The controller: every few minutes it looks, plans, and carries the plan out within budgets, if it is the leader."""

from __future__ import annotations

import signal
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tvwrl.checks import positive, within
from tvwrl.rebalance.cluster_state import ClusterState
from tvwrl.rebalance.eviction_budgets import HOUR, EvictionBudgets, Evictions
from tvwrl.rebalance.execution import (
    BY_BUDGET,
    FAILED,
    MISSING,
    NOT_EVICTED,
    REFUSALS,
    ExecutionOptions,
    Executor,
    HandOver,
    Result,
    plan_id,
    refilled_nodes,
    saving,
)
from tvwrl.rebalance.handing_over import Extender, ExtenderOptions
from tvwrl.rebalance.hands import ApiHands, RehearsingHands
from tvwrl.rebalance.kube_api import ApiError, ApiOptions, KubeApi, connect
from tvwrl.rebalance.kubernetes_state import MovableOptions, state_of
from tvwrl.rebalance.leadership import Leadership, LeaseOptions, NotLeading
from tvwrl.rebalance.monitoring import Monitoring, Pages
from tvwrl.rebalance.moves_record import MovesRecord, evictions_in
from tvwrl.rebalance.plan_of_moves import MovePlan
from tvwrl.serve import Log, make_server
from tvwrl.types import InputError

SILENCE = 1800.0  # seconds without any progress after which a restart may help
STANDBY = 2.0  # seconds between looks at a Lease that another holds
COUNTED = (MISSING, NOT_EVICTED, BY_BUDGET, REFUSALS, FAILED)  # events that are outcomes by themselves


@dataclass(frozen=True)
class WatchOptions:
    """How the controller runs."""

    heading = "watching, and acting"
    every: float = 10.0
    """Minutes between looks at the cluster."""
    dry_run: bool = True
    """Evict nothing, and only say or record what would be evicted."""
    record_of_moves: Path | None = None
    """File for the record of moves, JSON lines; default: moves.jsonl in the working directory."""
    record_mib: int = 64
    """Most that the record takes, MiB, in eight files of which the oldest goes when a new one begins."""
    listen: str = "127.0.0.1:8889"
    """HOST:PORT of /metrics, /healthz and /readyz."""

    def check(self) -> None:
        """Raise InputError for values out of range."""
        positive(every=self.every)
        within(1, 2**20, record_mib=self.record_mib)
        self.address  # noqa: B018 raises

    @property
    def address(self) -> tuple[str, int]:
        """Host and port. Raises InputError."""
        host, colon, port = self.listen.rpartition(":")
        if not colon or not port.isdigit() or not 0 <= int(port) < 65536 or not host.strip("[]"):
            raise InputError(f"listen is {self.listen}: needed: HOST:PORT, such as 127.0.0.1:8889")
        return host.strip("[]"), int(port)


@dataclass(frozen=True)
class ControllerOptions:
    """All options of the controller."""

    watch: WatchOptions = field(default_factory=WatchOptions)
    api: ApiOptions = field(default_factory=ApiOptions)
    lease: LeaseOptions = field(default_factory=LeaseOptions)
    budgets: EvictionBudgets = field(default_factory=EvictionBudgets)
    execution: ExecutionOptions = field(default_factory=ExecutionOptions)
    extender: ExtenderOptions = field(default_factory=ExtenderOptions)
    movable: MovableOptions = field(default_factory=MovableOptions)

    def check(self) -> None:
        """Raise InputError for values that are wrong by themselves or together."""
        for part in (self.watch, self.api, self.lease, self.budgets, self.execution, self.extender):
            part.check()
        if self.lease.lease_seconds <= self.api.api_timeout + 1:
            raise InputError(
                f"lease_seconds is {self.lease.lease_seconds}: must be more than a second above api_timeout, "
                f"{self.api.api_timeout:g}: an eviction has to end before another controller may act"
            )


class Controller:
    """Looks, plans and acts.

    Parameters
    ----------
    make_plan : callable
        (state) -> plan. Raises InputError where none can be made, as for stale metrics.
    options : ControllerOptions
        All that is asked of it.
    usage_age : callable or None
        Seconds since the newest usage that is known.
    api : KubeApi or None
        The API server; default: as the options say.
    log : callable or None
        Takes an event and its facts; default: lines of JSON on stderr.
    sleep : callable or None
        Lets so many seconds pass; default: until the controller is stopped, at most.

    Raises
    ------
    InputError
        For options and files that cannot be used.

    Examples
    --------
    >>> Controller(make_plan, ControllerOptions()).run()  # until SIGTERM or Ctrl-C  # doctest: +SKIP
    """

    def __init__(
        self,
        make_plan: Callable[[ClusterState], MovePlan],
        options: ControllerOptions,
        *,
        usage_age: Callable[[], float] | None = None,
        api: KubeApi | None = None,
        log: Callable[..., None] | None = None,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        options.check()
        self._make_plan, self._options = make_plan, options
        self._usage_age, self._api = usage_age, connect(options.api) if api is None else api
        self._read = partial(state_of, delete_emptydir_data=options.movable.delete_emptydir_data)
        self._stopped = threading.Event()
        self._sleep = self._stopped.wait if sleep is None else sleep
        self._log = Log() if log is None else log
        self.identity = f"{socket.gethostname()[:200]}-{uuid.uuid4().hex[:12]}"
        self._leadership = Leadership(self._api, options.lease, self.identity)
        self.evictions = Evictions(options.budgets)
        file = options.watch.record_of_moves or Path("moves.jsonl")
        self.evictions.join([] if options.watch.dry_run else evictions_in(file))
        self._record = MovesRecord(
            file, options.watch.record_mib * 2**20, lambda why: self._log("record failed", error=why)
        )
        self._imagined = deepcopy(self.evictions)  # what a dry run would have evicted, for its budgets
        self._plan: MovePlan | None = None
        self._drained: tuple[str, ...] = ()
        self._beat, self._good = self._api.clock(), False
        self.monitoring = Monitoring(options.watch.dry_run, self._plan_age, self._left)
        self._hand_over: HandOver | None = None
        if options.extender.extender is not None and not options.watch.dry_run:
            self._hand_over = Extender(options.extender, self._unheard)
        self._executor: Executor | None = None
        self._term = 0  # of the leadership in which what others evicted was last read

    def run(self) -> None:
        """Run until SIGTERM or Ctrl-C. Raises InputError if the address for metrics cannot be used."""
        with _until_told(self._stopped):
            self._run()

    def _run(self) -> None:
        """See `run`."""
        pages = Pages(self.monitoring, self._alive, lambda: self._good)
        server = make_server(pages, *self._options.watch.address, None)
        serving = threading.Thread(target=server.run, name="pages", daemon=True)
        serving.start()
        if not self._options.watch.dry_run:
            self._leadership.keep(self._stopped)
        self._log("watching", dry_run=self._options.watch.dry_run, identity=self.identity)
        try:
            while not self._stopped.is_set():
                led = self.turn()
                self.wait(self._options.watch.every * 60 if led else STANDBY)
                if not serving.is_alive() and not self._stopped.is_set():
                    raise InputError(f"listen is {self._options.watch.listen}: the address cannot be used")
        finally:
            server.should_exit = True
            serving.join(timeout=3.0)
            self._end()

    def once(self) -> Result | None:
        """Look, plan and act once, and end; None: there was nothing to do.

        Raises InputError where the API server does not answer, and where another controller leads.
        """
        with _until_told(self._stopped):
            return self._once()

    def _once(self) -> Result | None:
        """See `once`."""
        try:
            if not self._options.watch.dry_run:
                self._leadership.keep(self._stopped)
                for _ in range(int(2 * self._options.lease.lease_seconds / STANDBY) + 1):
                    if self._lead() or not self.wait(STANDBY):
                        break
                else:
                    raise InputError(f"another controller holds the Lease {self._options.lease.lease}: it acts already")
            return None if self._stopped.is_set() else self._act()
        except ApiError as error:
            raise InputError(f"the API server: {error}") from error
        except NotLeading as error:
            raise InputError(f"another controller has taken over: {error}") from error
        finally:
            self._end()

    def turn(self) -> bool:
        """Look, plan and act once; whether this one leads, or needs not to."""
        self._beat = self._api.clock()
        dry_run = self._options.watch.dry_run
        try:
            if not dry_run and not self._lead():
                self.monitoring.turns.labels("not_leading").inc()
                self._good = True
                return False
            result = self._act()
        except NotLeading as error:
            self.monitoring.turns.labels("not_leading").inc()
            self.monitoring.leads.set(0)
            self._log("no longer leading", reason=str(error))
            return False
        except Exception as error:  # of a planner, say: the next turn may succeed, and until then nothing is evicted
            self.monitoring.turns.labels("failed").inc()
            self._good = False
            known = isinstance(error, ApiError | InputError)
            self._log("turn failed", error=str(error) if known else repr(error))
            return True
        self._good = True
        self.monitoring.turns.labels("nothing_to_do" if result is None else "done").inc()
        return True

    def wait(self, seconds: float) -> bool:
        """Let time pass; whether to go on."""
        self._beat = self._api.clock()
        self._sleep(seconds)
        return not self._stopped.is_set()

    def _end(self) -> None:
        self._stopped.set()
        self._leadership.release()
        self._record.close()
        self._log("ended")

    def _lead(self) -> bool:
        """Whether this one may act; one that begins to counts what its predecessors evicted, and waits for the
        replacements that they could not wait for."""
        if not self._leadership.acquire():
            self.monitoring.leads.set(0)
            return False
        self.monitoring.leads.set(1)
        if self._leadership.terms != self._term:
            self.evictions.join_text(self._leadership.note, f"the Lease {self._options.lease.lease}")
            self._term = self._leadership.terms
        if self._executor is None:
            hands = ApiHands(self._api, self._leadership, self.wait, self._read)
            self._executor = Executor(
                hands,
                self.evictions,
                self._options.execution,
                self._journal,
                hand_over=self._hand_over,
                plan_again=self._make_plan,
                usage_age=self._usage_age,
            )
        if self.evictions.waiting:
            result = self._executor.resume()
            if result.useless:
                self._pause(result.stopped)
        return True

    def _act(self) -> Result | None:
        """Plan, and carry the plan out or imagine it; None: there is nothing to do."""
        state = self._read(self._api.objects())
        now = self._api.now()
        refilled = refilled_nodes(state, self._drained)
        if refilled and 2 * len(refilled) >= len(self._drained):
            self._pause(f"{', '.join(refilled)} had been drained and is in use")
        self._drained = ()
        plan = self._plan = self._make_plan(state)
        gain, moves = saving(plan), len(plan.moves)
        self.monitoring.moves.set(moves)
        self.monitoring.saving.set(gain)
        facts = {"plan": plan_id(plan), "moves": moves, "machine_hours": round(gain, 3), "drained": list(plan.drained)}
        self._log("plan", **facts, unknown=list(plan.unknown))
        if not moves or gain <= self._options.execution.price_per_move * moves or now < self.evictions.paused_until:
            return None
        if self._options.watch.dry_run:
            return self._rehearse(plan)
        assert self._executor is not None
        result = self._executor.run(plan)
        left = set(plan.drained) - {move.source for move in plan.moves if move not in result.evicted}
        self._drained = tuple(sorted(left)) if result.evicted else ()
        if result.useless:
            self._pause(result.stopped)
        return result

    def _rehearse(self, plan: MovePlan) -> Result:
        """What would be evicted, as if everything went well."""
        hands = RehearsingHands(self._api, self._read)
        executor = Executor(
            hands,
            self._imagined,
            self._options.execution,
            self._journal,
            usage_age=self._usage_age,
        )
        return executor.run(plan)

    def _pause(self, why: str) -> None:
        """Evict nothing for some hours."""
        self.evictions.paused_until = self._api.now() + self._options.execution.pause_hours * HOUR
        self._journal("paused", reason=why, until=round(self.evictions.paused_until))
        if not self._options.watch.dry_run:
            self._leadership.write(self.evictions.text())

    def _journal(self, event: str, **facts: Any) -> None:
        """See `Journal`: into the record, the log, the metrics, and an event on each evicted pod."""
        dry_run, now = self._options.watch.dry_run, self._api.now()
        self._beat = self._api.clock()
        self._record(now, event, dry_run, **facts)
        if event != "planned":
            self._log(event, dry_run=dry_run, **facts)
        if event == "error":
            self.monitoring.errors.inc()
        elif event == "stopped":
            self.monitoring.stops.inc()
        elif event == "replaced" or event in COUNTED:
            counter = self.monitoring.imagined if dry_run else self.monitoring.evictions
            counter.labels(facts.get("outcome", event)).inc()
        if event == "evicted" and not dry_run:
            namespace, _, name = facts["pod"].partition("/")
            about = {"namespace": namespace, "name": name, "uid": facts["uid"]}
            text = f"Evicted from {facts['source']}, to run on {facts['target']} (plan {facts['plan']})"
            try:
                self._api.event(about, "Rebalanced", text, self.identity)
            except ApiError as error:
                self._log("event failed", pod=facts["pod"], error=str(error))

    def _unheard(self, why: str) -> None:
        self.monitoring.unheard.inc()
        self._log("hand-over failed", error=why)

    def _plan_age(self) -> float:
        try:
            return float("nan") if self._plan is None else self._api.now() - self._plan.made
        except ApiError:
            return float("nan")

    def _left(self) -> float:
        """Of the hour's budget; not known while another leads."""
        try:
            if self._options.watch.dry_run:
                return float(self._imagined.left(self._api.now()))
            return float(self.evictions.left(self._api.now())) if self._leadership.leads() else float("nan")
        except ApiError:
            return float("nan")

    def _alive(self) -> bool:
        return self._api.clock() - self._beat < SILENCE + self._options.watch.every * 60


@contextmanager
def _until_told(stopped: threading.Event) -> Iterator[None]:
    """SIGTERM and Ctrl-C set `stopped` within the block, and do afterwards what they did before it."""
    before = {number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
