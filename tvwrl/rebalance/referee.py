"""The referee: follows a list of moves batch by batch and says everything that is wrong with it.

It shares no code with what makes plans, so a fault there shows here. Letters: N pods, M nodes, S slots of a forecast,
D = 2 resources (CPU in cores, memory in GiB).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tvwrl.rebalance.cluster_state import AFFINITY, ANTI_AFFINITY, ClusterState, Term
from tvwrl.rebalance.plan_of_moves import PodMove
from tvwrl.types import Float, InputError, Int

RESOURCES = (("CPU", "cores"), ("memory", "GiB"))
TOLERANCE = 1e-9  # share of what is compared; rounding of sums is no fault


def faults(
    state: ClusterState,
    moves: Sequence[PodMove],
    drained: Sequence[str] = (),
    load: Float | None = None,
    limit: float = 1.0,
) -> list[str]:
    """Say in a sentence each what Kubernetes would refuse of these moves, or what they promise and do not keep.

    A node must have room for all that arrive while nothing of the batch has left: a pod that is moved holds room on
    both nodes until its batch is over. What was wrong before the moves is no fault unless a move makes it worse.

    Parameters
    ----------
    state : ClusterState
        Before the moves.
    moves : sequence of PodMove
        In the order of their batches.
    drained : sequence of str
        Nodes said to run no pod at the end but those that belong to them.
    load : Float, optional
        (N, S, D) what each pod is expected to use, cores and GiB.
    limit : float
        Share of a node's size above which no expected load may be, > 0.

    Returns
    -------
    list of str
        Empty if nothing is wrong.

    Raises
    ------
    InputError
        For a load of another shape, or with a value that is no number >= 0.

    Examples
    --------
    >>> faults(state, plan.moves, plan.drained)  # doctest: +SKIP
    ['batch 0: shop/cart-1 stays (is not ready) and is moved']
    """
    if load is not None and (load.ndim != 3 or load.shape[::2] != (len(state), len(RESOURCES))):
        raise InputError(f"load has the shape {load.shape}: must be ({len(state)}, slots, {len(RESOURCES)})")
    if load is not None and not (np.isfinite(load).all() and (load >= 0).all()):
        raise InputError("load has a value that is not finite, or is negative: must be numbers >= 0")
    if not 0 < limit < np.inf:
        raise InputError(f"limit is {limit}: must be a number > 0")
    return list(_Course(state).follow(moves, drained, load, limit))


class _Course:
    """Where every pod is, batch after batch."""

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.at = state.at.copy()
        self.row = {name: number for number, name in enumerate(state.pod)}
        self.node = {name: number for number, name in enumerate(state.node)}
        self.terms_of: dict[int, set[int]] = defaultdict(set)
        for number, term in enumerate(state.terms):
            for row in (*term.carriers.tolist(), *term.matched.tolist()):
                self.terms_of[row].add(number)
        self.budgets_of: dict[int, list[int]] = defaultdict(list)
        for number, budget in enumerate(state.budgets):
            for row in budget.pods.tolist():
                self.budgets_of[row].append(number)

    def follow(
        self, moves: Sequence[PodMove], drained: Sequence[str], load: Float | None, limit: float
    ) -> Iterator[str]:
        numbers = [move.batch for move in moves]
        if numbers != sorted(numbers) or min(numbers, default=0) < 0:
            yield "the moves are not in the order of their batches, which count from 0"
        batches: dict[int, list[PodMove]] = defaultdict(list)
        for move in moves:
            batches[move.batch].append(move)
        for number in sorted(batches):
            prefix = f"batch {number}: "
            found: list[str] = []
            going = self._known(batches[number], found)
            found += self._without_room(going)
            found += self._beyond_budgets(going)
            if load is not None:
                found += self._overloaded_meanwhile(going, load, limit)
            before = self.at.copy()
            for row, target in going.items():
                self.at[row] = target
            found += self._broken_terms(going, before)
            yield from (prefix + one for one in found)
        yield from self._not_drained(drained)
        if load is not None:
            yield from self._overloaded(load, limit)

    def _known(self, moves: Iterable[PodMove], found: list[str]) -> dict[int, int]:
        """The moves of a batch that can be followed, pod -> target; what is wrong with each is appended."""
        state, going = self.state, {}
        for move in moves:
            row, target = self.row.get(move.pod, -1), self.node.get(move.target, -1)
            if row < 0:
                found.append(f"there is no pod {move.pod}")
                continue
            if target < 0:
                found.append(f"{move.pod} goes to {move.target}, which is no node")
                continue
            if row in going:
                found.append(f"{move.pod} is moved twice")
                continue
            here = state.node[self.at[row]]
            if state.stays[row]:
                found.append(f"{move.pod} stays ({state.stays[row]}) and is moved")
            if state.bound[row]:
                found.append(f"{move.pod} belongs to its node and is moved")
            if move.uid and state.uid[row] and move.uid != state.uid[row]:
                found.append(f"{move.pod} has the uid {state.uid[row]}, not {move.uid}")
            if move.source != here:
                found.append(f"{move.pod} is on {here}, not on {move.source}")
            if move.target == here:
                found.append(f"{move.pod} is on {here} already")
                continue
            if not state.open[target]:
                found.append(f"{move.pod} goes to {move.target}, which is closed to new pods")
            if not state.allowed[state.group[row], target]:
                found.append(f"{move.pod} goes to {move.target}, where selectors, affinity or taints do not let it go")
            going[row] = target
        return going

    def _without_room(self, going: dict[int, int]) -> Iterator[str]:
        """Nodes that lack room for what arrives while nothing has left.

        As for kube-scheduler, pods that request nothing find room anywhere. Of those that request one resource, older
        versions ask for room of the other too.
        """
        state = self.state
        arriving: dict[int, list[int]] = defaultdict(list)
        for row, target in going.items():
            arriving[target].append(row)
        for target, rows in arriving.items():
            there = np.flatnonzero(self.at == target)
            if len(there) + len(rows) > state.most_pods[target]:
                yield (
                    f"{state.node[target]} would run {len(there) + len(rows)} pods, "
                    f"and may run {state.most_pods[target]}"
                )
            used = state.request[there].sum(axis=0) + state.request[rows].sum(axis=0)
            for resource, (name, unit) in enumerate(RESOURCES):
                most = state.size[target, resource]
                if state.request[rows].any() and used[resource] > most * (1 + TOLERANCE):
                    yield (
                        f"on {state.node[target]}, {used[resource]:.6g} {unit} of {name} would be requested, "
                        f"and it has {most:.6g}"
                    )

    def _overloaded_meanwhile(self, going: dict[int, int], load: Float, limit: float) -> Iterator[str]:
        """Nodes of which load exceeds the limit at some time once the pods of a batch have come and none has left."""
        for target in sorted(set(going.values())):
            coming = [row for row, to in going.items() if to == target]
            used = load[self.at == target].sum(axis=0) + load[coming].sum(axis=0)
            if (used > self.state.size[target] * limit * (1 + TOLERANCE)).any():
                yield f"{self.state.node[target]} would exceed {limit:.0%} of its size while pods arrive"

    def _beyond_budgets(self, going: dict[int, int]) -> Iterator[str]:
        down = Counter(number for row in going for number in self.budgets_of[row])
        for number, count in sorted(down.items()):
            budget = self.state.budgets[number]
            if count > budget.allowed:
                yield f"{count} of the pods of the budget {budget.name} are moved, which allows {budget.allowed}"

    def _broken_terms(self, going: dict[int, int], before: Int) -> Iterator[str]:
        for number in sorted({term for row in going for term in self.terms_of[row]}):
            term = self.state.terms[number]
            for row in going:
                if row in term.carriers and term.domain[self.at[row]] < 0:
                    yield f"{self._placed(row)}, which lacks the label of its rule of {term.kind}"
            if term.kind == AFFINITY:
                yield from self._alone(term, going, before)
            elif term.kind == ANTI_AFFINITY:
                yield from self._together(term, going)
            else:
                yield from self._skewed(term, going, before)

    def _placed(self, row: int) -> str:
        return f"{self.state.pod[row]} goes to {self.state.node[self.at[row]]}"

    def _alone(self, term: Term, going: dict[int, int], before: Int) -> Iterator[str]:
        """Affinity: carriers without another matched pod in their domain."""
        matched, now, then = set(term.matched.tolist()), term.domain[self.at], term.domain[before]
        count, counted_before = (Counter(domain[term.matched].tolist()) for domain in (now, then))
        for row in term.carriers.tolist():
            itself = row in matched
            if now[row] < 0 or count[now[row]] > itself:
                continue
            if row in going:
                anywhere = sum(number for domain, number in count.items() if domain >= 0)
                if not itself or anywhere > 1:  # the first of its kind may run in any domain
                    yield f"{self._placed(row)}, where no pod is that it must run with"
            elif then[row] >= 0 and counted_before[then[row]] > itself:
                yield f"{self.state.pod[row]} is left without a pod that it must run with"

    def _together(self, term: Term, going: dict[int, int]) -> Iterator[str]:
        """Anti-affinity: a moved pod in one domain with another, where one of them is carrier and the other matched."""
        domain = term.domain[self.at]
        carriers, matched = set(term.carriers.tolist()), set(term.matched.tolist())
        for row in going:
            for mine, others in ((carriers, matched), (matched, carriers)):
                if row not in mine or domain[row] < 0:
                    continue
                near = [one for one in sorted(others) if one != row and domain[one] == domain[row]]
                if near:
                    yield f"{self._placed(row)}, too near to {self.state.pod[near[0]]} by a rule of anti-affinity"
                    break

    def _skewed(self, term: Term, going: dict[int, int], before: Int) -> Iterator[str]:
        """Spread: a moved carrier in a domain with too many, and domains that grew apart."""
        domains = np.unique(term.domain[term.domain >= 0])
        if not len(domains):
            return

        def excess(at: Int) -> dict[int, int]:
            there = Counter(term.domain[at[term.matched]].tolist())
            least = min(there[domain] for domain in domains.tolist())
            return {domain: there[domain] - least for domain in domains.tolist()}

        now, then = excess(self.at), max(excess(before).values())
        wrong = False
        for row in going:
            domain = int(term.domain[self.at[row]])
            if row in term.carriers and domain >= 0 and now[domain] > term.skew:
                wrong = True
                yield (
                    f"{self._placed(row)}, where {now[domain]} more run than elsewhere, "
                    f"and its spread allows {term.skew}"
                )
        if not wrong and max(now.values()) > max(term.skew, then):
            first = self.state.pod[term.carriers[0]]
            yield f"the spread of {first} and its like grows to {max(now.values())}, and {term.skew} is allowed"

    def _not_drained(self, drained: Sequence[str]) -> Iterator[str]:
        for name in drained:
            node = self.node.get(name, -1)
            if node < 0:
                yield f"{name} is said to be drained and is no node"
                continue
            left = np.flatnonzero((self.at == node) & ~self.state.bound)
            if len(left):
                yield f"{name} is said to be drained and runs {len(left)} pods, such as {self.state.pod[left[0]]}"

    def _overloaded(self, load: Float, limit: float) -> Iterator[str]:
        state = self.state
        for node in np.unique(self.at[self.at != state.at]).tolist():
            now, then = load[self.at == node].sum(axis=0), load[state.at == node].sum(axis=0)
            most = limit * state.size[node]
            slack = TOLERANCE * np.maximum(state.size[node], 1.0)
            wrong = (now > most + slack) & (now > then + slack)
            for resource, (name, unit) in enumerate(RESOURCES):
                slots = np.flatnonzero(wrong[:, resource])
                if len(slots):
                    worst = slots[np.argmax(now[slots, resource])]
                    yield (
                        f"{state.node[node]} is expected to use {now[worst, resource]:.6g} {unit} of {name} in slot "
                        f"{worst}, above the limit of {most[resource]:.6g}"
                    )
