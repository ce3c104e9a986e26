"""How a plan of moves is carried out: one batch after the other, each pod looked at again right before it is evicted.

`Executor` is the whole procedure. What it does to the cluster are `Hands`: `ApiHands` evict and wait; `RehearsingHands`
only imagine it, so that a rehearsal and the real run decide by the same code.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, Protocol

import numpy as np

from tvwrl.checks import at_least, positive
from tvwrl.rebalance.cluster_state import ClusterState
from tvwrl.rebalance.eviction_budgets import Eviction, Evictions
from tvwrl.rebalance.kube_api import ABSENT, BROKEN, CONFLICT, FORBIDDEN, REFUSED, SILENT, ApiError
from tvwrl.rebalance.leadership import NotLeading
from tvwrl.rebalance.plan_of_moves import MovePlan, PodMove
from tvwrl.rebalance.referee import faults
from tvwrl.types import Float, InputError

AHEAD = 60.0  # seconds that a plan may come from the future: clocks of API servers differ
POLL = 1.0  # seconds between looks for replacements

GOALS = {"machines": "machine_hours", "cost": "money", "overload": "overload_hours"}  # what each counts
READING, ACTING = "reading", "acting"
AS_PLANNED, ELSEWHERE, RETURNED, MISSING = "as_planned", "elsewhere", "returned", "missing"
NOT_EVICTED, BY_BUDGET, REFUSALS, FAILED = "not_evicted", "disruption_budget", "refused", "failed"
OUTCOMES = (AS_PLANNED, ELSEWHERE, RETURNED, MISSING, NOT_EVICTED, BY_BUDGET, REFUSALS, FAILED)


@dataclass(frozen=True)
class ExecutionOptions:
    """When a plan is carried out no further."""

    heading = "when to stop"
    longest_age: float = 15.0
    """Minutes from reading the cluster after which a plan is not carried out any more."""
    replacement_timeout: float = 300.0
    """Seconds within which the replacement of an evicted pod has to be ready; otherwise the run stops."""
    eviction_tries: int = 5
    """Times that a pod is tried to be evicted that a PodDisruptionBudget protects, or where the API server fails."""
    retry_seconds: float = 20.0
    """Seconds between two of these tries; more where the API server asks for it."""
    most_errors: int = 5
    """Failures of the API server in a row after which the run stops."""
    batches_without_help: int = 2
    """Times in a row that most of the pods on their way together did not end where they should, after which the run
    stops. The first pod of a run goes alone, and so do others until one has ended where it should."""
    price_per_move: float = 0.0
    """What each move has to save over the next day at least: machine-hours, or money with --goal cost. A run
    stops once what is left saves less."""
    stale_seconds: float = 300.0
    """Age of the newest usage, seconds, from which on nothing is evicted."""
    pause_hours: float = 6.0
    """Hours for which nothing is evicted after evictions did not help."""

    def check(self) -> None:
        """Raise InputError for values out of range."""
        positive(longest_age=self.longest_age, replacement_timeout=self.replacement_timeout)
        positive(stale_seconds=self.stale_seconds, pause_hours=self.pause_hours)
        at_least(0, price_per_move=self.price_per_move, retry_seconds=self.retry_seconds)
        at_least(
            1,
            eviction_tries=self.eviction_tries,
            most_errors=self.most_errors,
            batches_without_help=self.batches_without_help,
        )


class Stopped(Exception):
    """A run that ends before its plan does; `useless`: as evictions do not help."""

    def __init__(self, why: str, useless: bool = False) -> None:
        super().__init__(why)
        self.useless = useless


class Journal(Protocol):
    """Is told what happened: event, and its facts."""

    def __call__(self, event: str, **facts: Any) -> None: ...


class HandOver(Protocol):
    """Tells a scheduler where the next pod of a controller should go, for so long; 0: that it need not any more."""

    def __call__(self, controller: str, node: str, avoid: Sequence[str], seconds: float) -> None: ...


@dataclass(frozen=True)
class Replaced:
    """What became of an evicted pod."""

    eviction: Eviction
    pod: str  # namespace/name of the replacement, "" where none came
    uid: str
    node: str


class Hands(Protocol):
    """What is done to a cluster, and seen of it."""

    def now(self) -> float:
        """Seconds since 1970."""

    def look(self) -> ClusterState:
        """The cluster now. Raises ApiError and InputError."""

    def controller(self, move: PodMove) -> str:
        """Uid of the controller of a pod that was just looked at, "" for none."""

    def unplaced(self, waiting: Sequence[Eviction]) -> list[Eviction]:
        """Those whose replacement had no node yet at the last look."""

    def note(self, evictions: Evictions) -> None:
        """Write down what is about to be evicted, where it outlives the process. Raises NotLeading and ApiError."""

    def may_act(self) -> bool:
        """Whether an eviction that is asked for now ends before anybody else may act."""

    def evict(self, move: PodMove) -> None:
        """Evict. Raises ApiError."""

    def still_there(self, move: PodMove) -> bool:
        """Whether the pod is there and not about to end. Raises ApiError."""

    def replacements(self, waiting: Sequence[Eviction], taken: set[str]) -> list[Replaced]:
        """Those that are ready, of pods that are not in `taken`, by uid. Raises ApiError."""

    def wait(self, seconds: float) -> bool:
        """Let time pass; whether to go on."""


def plan_id(plan: MovePlan) -> str:
    """A short name of a plan that no other has."""
    text = repr((plan.made, plan.moves))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def saving(plan: MovePlan) -> float:
    """What a plan saves over the next day, in what its goal counts; of one that does not say it, machine-hours."""
    counted = plan.expected.get(GOALS.get(plan.goal, ""))
    if counted is None or counted.value != counted.value:
        return sum(move.saving for move in plan.moves)
    return -counted.value if plan.goal == "overload" else counted.value


@dataclass
class Result:
    """What came of a run."""

    plan: str
    evicted: list[PodMove] = field(default_factory=list)  # or would be, in a rehearsal
    outcomes: Counter[str] = field(default_factory=Counter)
    refused: dict[str, str] = field(default_factory=dict)  # pod -> why
    stopped: str = ""  # why the run ended early
    useless: bool = False  # as evictions did not help


class Executor:
    """Carries plans out.

    Parameters
    ----------
    hands : Hands
        What acts.
    evictions : Evictions
        What was evicted before, and the budgets.
    options : ExecutionOptions
        When to stop.
    journal : Journal
        Is told what happens.
    hand_over : HandOver or None
        Tells a scheduler of targets.
    plan_again : callable or None
        Makes a plan of the state as it is, for whether there is anything left to gain.
    usage_age : callable or None
        Seconds since the newest usage that is known.
    """

    def __init__(
        self,
        hands: Hands,
        evictions: Evictions,
        options: ExecutionOptions,
        journal: Journal,
        *,
        hand_over: HandOver | None = None,
        plan_again: Callable[[ClusterState], MovePlan] | None = None,
        usage_age: Callable[[], float] | None = None,
    ) -> None:
        self._hands, self._evictions, self._options = hands, evictions, options
        self._journal, self._hand_over = journal, hand_over
        self._plan_again, self._usage_age = plan_again, usage_age
        self._errors, self._useless = Counter[str](), 0  # failures in a row, of reading and of acting
        self._counted: Eviction | None = None  # an earlier try to evict the same pod
        self._requests: dict[str, Float] = {}  # of evicted pods, by uid
        self._taken: set[str] = set()  # uids of replacements that belong to an eviction

    def run(self, plan: MovePlan) -> Result:
        """Carry out a plan as far as it may be. Raises NotLeading as soon as another may act."""
        name = plan_id(plan)
        result, lost = Result(name), set[str]()
        self._errors, self._useless = Counter[str](), 0
        batches: dict[int, list[PodMove]] = {}
        for move in plan.moves:
            batches.setdefault(move.batch, []).append(move)
        for move in plan.moves:
            self._tell("planned", move, name, reason=move.reason, saving=move.saving, batch=move.batch)
        try:
            self._too_old(plan)
            for number, batch in enumerate(batches[key] for key in sorted(batches)):
                if number:
                    self._worth_going_on(plan, result)
                self._batch(plan, batch, result, lost)
        except Stopped as stopped:
            result.stopped, result.useless = str(stopped), stopped.useless
            self._journal("stopped", plan=name, reason=str(stopped))
            with suppress(Stopped):  # those on their way arrive all the same
                self._await(result)
        return result

    def resume(self) -> Result:
        """Wait for the replacements of pods that were evicted before this process began."""
        result = Result("")
        try:
            for one in self._evictions.waiting:
                if self._ask(lambda one=one: self._hands.still_there(_as_move(one))):  # type: ignore[misc]
                    self._evictions.settle(one.uid)  # it counts all the same: the server may have been asked
                    result.outcomes[NOT_EVICTED] += 1
                    self._tell(
                        NOT_EVICTED, _as_move(one), one.plan, reason="the controller ended before it was evicted"
                    )
            self._await(result)
            self._ask(lambda: self._hands.note(self._evictions))
        except Stopped as stopped:
            result.stopped, result.useless = str(stopped), stopped.useless
            self._journal("stopped", reason=str(stopped))
        return result

    def _batch(self, plan: MovePlan, batch: Sequence[PodMove], result: Result, lost: set[str]) -> None:
        """Evict the pods of a batch, as many at a time as may be on their way, and wait for all replacements."""
        todo, tries = list(batch), Counter[str]()
        while todo:
            later, wait, before = list[PodMove](), 0.0, Counter(result.outcomes)
            # The first goes alone: where nothing leads replacements to their targets, few learn it the hard way.
            most = self._evictions.budgets.on_their_way if result.outcomes[AS_PLANNED] else 1
            for move in todo:
                if move.source in lost and move.source in plan.drained:
                    self._refuse(result, lost, plan, move, f"{move.source} cannot be drained any more")
                    continue
                if move.target in lost:
                    self._refuse(result, lost, plan, move, f"a pod that was to leave {move.target} did not")
                    continue
                if len(self._evictions.waiting) >= most:
                    later.append(move)
                    continue
                again = self._one(plan, move, result, lost)
                if again is None:
                    continue
                tries[move.uid] += not self._evictions.waiting  # our own evictions may be why it was refused
                if tries[move.uid] >= self._options.eviction_tries:
                    self._refuse(result, lost, plan, move, f"given up after {tries[move.uid]} tries")
                else:
                    later.append(move)
                    wait = max(wait, again)
            on_their_way = bool(self._evictions.waiting)
            self._await(result)
            self._ask(lambda: self._hands.note(self._evictions))
            todo = later
            self._judge(result.outcomes - before)
            if todo and wait and not on_their_way and not self._hands.wait(wait):
                raise Stopped("the controller is ending")

    def _one(self, plan: MovePlan, move: PodMove, result: Result, lost: set[str]) -> float | None:
        """Evict one pod if that is right; None: done with it; otherwise seconds until it may be tried again."""
        name, options = result.plan, self._options
        self._too_old(plan)
        if self._usage_age is not None and not (age := self._ask(self._usage_age)) < options.stale_seconds:
            old = f"the newest usage is {age:.0f} s old" if isfinite(age) else "no usage is recorded any more"
            raise Stopped(f"{old}: must be less than {options.stale_seconds:g} s old")
        self._evictions.forget(self._hands.now())
        if why := self._evictions.refusal(move, self._hands.now()):
            self._refuse(result, lost, plan, move, why)
            return None
        state = self._ask(self._hands.look)
        now = self._hands.now()
        move = with_replacement(state, plan, move)
        row, why = find(state, move)
        unplaced = self._hands.unplaced(self._evictions.waiting)
        coming = [(one.target, self._requests[one.uid]) for one in unplaced if one.uid in self._requests]
        why = why or impossible(with_room_kept(state, coming), move)
        if why:
            self._refuse(result, lost, plan, move, why)
            return None
        protecting = [one.name for one in state.budgets if row in one.pods and one.allowed < 1]
        if protecting:
            result.outcomes[BY_BUDGET] += 1
            self._tell(BY_BUDGET, move, name, reason=f"PodDisruptionBudget {protecting[0]} allows none")
            return options.retry_seconds
        controller = self._hands.controller(move)
        if not controller:
            self._refuse(result, lost, plan, move, "nobody would replace it")
            return None
        self._requests[move.uid] = state.request[row]
        self._counted = self._evictions.get(move.uid)
        self._evictions.add(Eviction(now, move.uid, move.pod, move.owner, controller, move.source, move.target, name))
        try:
            self._hands.note(self._evictions)
        except NotLeading:
            self._take_back(move, controller)
            raise
        except ApiError as error:
            self._take_back(move, controller)
            self._failed(error, ACTING)
            return max(options.retry_seconds, error.wait)
        if self._hand_over is not None:
            self._hand_over(
                controller, move.target, self._evictions.left_by(move.owner, now), options.replacement_timeout
            )
        try:
            self._too_old(plan)
            if not self._hands.may_act():
                raise NotLeading("the Lease has run out")
        except (Stopped, NotLeading):
            self._take_back(move, controller)
            raise
        self._tell("evicting", move, name, controller=controller)
        try:
            self._hands.evict(move)
        except ApiError as error:
            return self._not_evicted(plan, move, controller, error, result, lost)
        self._errors[ACTING] = 0
        result.evicted.append(move)
        self._tell("evicted", move, name)
        return None

    def _not_evicted(
        self, plan: MovePlan, move: PodMove, controller: str, error: ApiError, result: Result, lost: set[str]
    ) -> float | None:
        """What to make of an eviction that the server did not confirm; as `_one` returns."""
        name, wait = result.plan, max(self._options.retry_seconds, error.wait)
        if error.name in (SILENT, BROKEN):  # it may have happened, and may still happen: it stays counted
            self._failed(error, ACTING)
            if self._ask(lambda: self._hands.still_there(move)):
                self._evictions.settle(move.uid)
                result.outcomes[FAILED] += 1
                self._tell(FAILED, move, name, reason=str(error))
                return wait
            result.evicted.append(move)
            self._tell("evicted", move, name, reason=str(error))
            return None
        self._take_back(move, controller)
        if error.name == REFUSED:
            self._errors[ACTING] = 0
            result.outcomes[BY_BUDGET] += 1
            self._tell(BY_BUDGET, move, name, reason=str(error))
            return wait
        if error.name == FORBIDDEN:
            raise Stopped(f"evictions are not allowed: {error}")
        if error.name == ABSENT or (error.name == CONFLICT and not self._ask(lambda: self._hands.still_there(move))):
            self._refuse(result, lost, plan, move, "the pod is gone, or another has its name")
            return None
        self._failed(error, ACTING)
        result.outcomes[FAILED] += 1
        self._tell(FAILED, move, name, reason=str(error))
        return wait

    def _take_back(self, move: PodMove, controller: str) -> None:
        """An eviction certainly did not happen."""
        self._evictions.withdraw(move.uid)
        if self._counted is not None:  # an earlier try, of which this is not certain
            self._evictions.add(self._counted._replace(waits=False))
        if self._hand_over is not None:
            self._hand_over(controller, move.target, (), 0.0)

    def _await(self, result: Result) -> None:
        """Wait until all that is on its way has been replaced."""
        while waiting := self._evictions.waiting:
            for one in self._ask(lambda: self._hands.replacements(waiting, self._taken)):
                self._settle(one, result)
            left = self._evictions.waiting
            if not left:
                return
            late = [one for one in left if self._hands.now() - one.time > self._options.replacement_timeout]
            for one in late:
                self._evictions.settle(one.uid)
                result.outcomes[MISSING] += 1
                self._tell(MISSING, _as_move(one), one.plan)
            if late:
                raise Stopped(
                    f"no replacement of {late[0].pod} is ready after {self._options.replacement_timeout:g} s",
                    useless=True,
                )
            if not self._hands.wait(POLL):
                raise Stopped("the controller is ending")

    def _settle(self, one: Replaced, result: Result) -> None:
        eviction, now = one.eviction, self._hands.now()
        left = self._evictions.left_by(eviction.owner, now)
        outcome = AS_PLANNED if one.node == eviction.target else RETURNED if one.node in left else ELSEWHERE
        self._taken.add(one.uid)
        self._evictions.settle(eviction.uid, returned=outcome == RETURNED)
        result.outcomes[outcome] += 1
        facts = {"replacement": one.pod, "replacement_uid": one.uid, "node": one.node, "outcome": outcome}
        self._tell("replaced", _as_move(eviction), eviction.plan, **facts)

    def _judge(self, outcomes: Mapping[str, int]) -> None:
        """Stop if evictions do not help. Raises Stopped."""
        moved = sum(outcomes.get(name, 0) for name in (AS_PLANNED, ELSEWHERE, RETURNED))
        if not moved:
            return
        self._useless = self._useless + 1 if 2 * outcomes.get(AS_PLANNED, 0) < moved else 0
        if self._useless >= self._options.batches_without_help:
            raise Stopped(
                f"evictions do not help: {self._useless} times in a row most pods did not end where they should",
                useless=True,
            )

    def _worth_going_on(self, plan: MovePlan, result: Result) -> None:
        """Stop if nothing is left to gain, or what was emptied is filled again. Raises Stopped."""
        state = self._ask(self._hands.look)
        sources = Counter(move.source for move in plan.moves)
        done = Counter(move.source for move in result.evicted)
        emptied = [node for node in plan.drained if sources[node] and done[node] == sources[node]]
        refilled = refilled_nodes(state, emptied)
        if refilled and 2 * len(refilled) >= len(emptied):
            raise Stopped(f"evictions do not help: {', '.join(refilled)} had been drained and is in use", useless=True)
        if self._plan_again is None:
            return
        try:
            again = self._plan_again(state)
        except InputError as error:
            raise Stopped(f"no plan can be made any more: {error}") from None
        left, price = saving(again), self._options.price_per_move * len(again.moves)
        if left <= price:
            raise Stopped(f"the gain is gone: what is left saves {left:.2f}, and must save {price:.2f}")

    def _too_old(self, plan: MovePlan) -> None:
        age = self._hands.now() - plan.made
        if age > self._options.longest_age * 60:
            raise Stopped(f"the plan is {age / 60:.1f} min old: must be at most {self._options.longest_age:g}")
        if age < -AHEAD:
            raise Stopped(f"the plan is from {-age:.0f} s in the future")

    def _refuse(self, result: Result, lost: set[str], plan: MovePlan, move: PodMove, why: str) -> None:
        """Done with a move that is not carried out."""
        result.refused[move.pod] = why
        result.outcomes[REFUSALS] += 1
        lost.add(move.source)
        self._tell("refused", move, result.plan, reason=why)

    def _ask(self, question: Callable[[], Any]) -> Any:
        """An answer of the API server, asked again after a while where it fails. Raises Stopped."""
        while True:
            try:
                answer = question()
            except ApiError as error:
                if error.name == FORBIDDEN:
                    raise Stopped(str(error)) from None
                self._failed(error, READING)
                if not self._hands.wait(max(self._options.retry_seconds, error.wait)):
                    raise Stopped("the controller is ending") from None
                continue
            except InputError as error:
                raise Stopped(f"what is needed cannot be read: {error}") from None
            self._errors[READING] = 0
            return answer

    def _failed(self, error: ApiError, what: str) -> None:
        """Count a failure. Raises Stopped after too many in a row."""
        self._errors[what] += 1
        self._journal("error", reason=str(error), in_a_row=self._errors[what])
        if self._errors[what] >= self._options.most_errors:
            raise Stopped(f"the API server failed {self._errors[what]} times in a row: {error}")

    def _tell(self, event: str, move: PodMove, plan: str, **facts: Any) -> None:
        about = {"pod": move.pod, "uid": move.uid, "owner": move.owner, "source": move.source, "target": move.target}
        self._journal(event, **about, plan=plan, **facts)


def with_replacement(state: ClusterState, plan: MovePlan, move: PodMove) -> PodMove:
    """A move of a pod that replaces one which was moved before, and that no plan can name: the only pod of its owner on
    the node where it should wait. Other moves stay as they are."""
    if move.uid or not any(one.uid and one.pod == move.pod and one.target == move.source for one in plan.moves):
        return move
    there = np.flatnonzero((state.owner == move.owner) & (state.node[state.at] == move.source))
    if len(there) != 1:
        return move
    return move._replace(pod=str(state.pod[there[0]]), uid=str(state.uid[there[0]]))


def find(state: ClusterState, move: PodMove) -> tuple[int, str]:
    """Row of the pod of a move, and why it is not what the plan saw; "" if it is."""
    rows = np.flatnonzero(state.uid == move.uid) if move.uid else np.zeros(0, np.int64)
    if len(rows) != 1:
        return -1, "the pod is gone, or another has its name"
    row = int(rows[0])
    if str(state.pod[row]) != move.pod or str(state.owner[row]) != move.owner:
        return row, "the pod has another name or owner than in the plan"
    if str(state.node[state.at[row]]) != move.source:
        return row, f"the pod runs on {state.node[state.at[row]]}, and not on {move.source}"
    if state.stays[row]:
        return row, f"it must not be moved: {state.stays[row]}"
    if move.target not in state.node:
        return row, f"there is no node {move.target}"
    return row, ""


def impossible(state: ClusterState, move: PodMove) -> str:
    """Why Kubernetes would not let the pod of a move go there, "" if it would; budgets of disruptions aside."""
    found = faults(replace(state, budgets=()), [move._replace(batch=0)])
    return found[0].removeprefix("batch 0: ") if found else ""


def with_room_kept(state: ClusterState, coming: Iterable[tuple[str, Float]]) -> ClusterState:
    """The state with room kept on nodes for pods that are on their way there, given what each requests (2,)."""
    size, most, at = state.size.copy(), state.most_pods.copy(), {name: i for i, name in enumerate(state.node.tolist())}
    for target, request in coming:
        if target in at:
            size[at[target]] = np.maximum(size[at[target]] - request, 0.0)
            most[at[target]] = max(most[at[target]] - 1, 0)
    return replace(state, size=size, most_pods=most)


def refilled_nodes(state: ClusterState, emptied: Iterable[str]) -> list[str]:
    """Those of some nodes that run a pod again that does not belong to them."""
    used = set(state.node[state.in_use].tolist())
    return sorted(used & set(emptied))


def _as_move(one: Eviction) -> PodMove:
    return PodMove(0, one.pod, one.uid, one.owner, one.source, one.target, "", 0.0, "")
