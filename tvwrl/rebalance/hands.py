"""What carrying out a plan does to a cluster: through the API, or only in imagination."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tvwrl.rebalance.cluster_state import ClusterState
from tvwrl.rebalance.eviction_budgets import MOST_TEXT, Eviction, Evictions
from tvwrl.rebalance.execution import Replaced
from tvwrl.rebalance.kube_api import OTHER, ApiError, Json, KubeApi
from tvwrl.rebalance.kubernetes_objects import Field, Objects
from tvwrl.rebalance.kubernetes_state import state_of
from tvwrl.rebalance.leadership import Leadership
from tvwrl.rebalance.plan_of_moves import PodMove

SLACK = 5.0  # seconds by which clocks of API servers may differ


class ApiHands:
    """Evicts pods and waits for their replacements.

    Parameters
    ----------
    api : KubeApi
        The API server.
    leadership : Leadership
        Whether this process may act.
    wait : callable
        Lets so many seconds pass; whether to go on.
    read : callable
        Reads what may be moved where from objects.
    """

    def __init__(
        self,
        api: KubeApi,
        leadership: Leadership,
        wait: Callable[[float], bool],
        read: Callable[[Objects], ClusterState] = state_of,
    ) -> None:
        self._read = read
        self._api, self._leadership, self._wait = api, leadership, wait
        self._pods: dict[str, Json] = {}  # by uid, at the last look
        self._known: dict[str, set[str]] = {}  # uid of an evicted pod -> uids of its controller's pods at that time

    def now(self) -> float:
        return self._api.now()

    def look(self) -> ClusterState:
        objects = self._api.objects()
        self._pods = {_uid(pod): pod for pod in objects.by_kind["Pod"]}
        return self._read(objects)

    def controller(self, move: PodMove) -> str:
        return controller_of(self._pods.get(move.uid, {}))

    def unplaced(self, waiting: Sequence[Eviction]) -> list[Eviction]:
        pods = [pod for pod in self._pods.values() if (pod.get("spec") or {}).get("nodeName")]
        placed = {one.uid for one, _ in self._matched(waiting, pods, set())}
        return [one for one in waiting if one.uid not in placed]

    def note(self, evictions: Evictions) -> None:
        text = evictions.text()
        if len(text) > MOST_TEXT:
            raise ApiError(OTHER, f"{len(evictions)} evictions are more than the Lease can remember")
        self._leadership.write(text)

    def may_act(self) -> bool:
        return self._leadership.leads(self._api.timeout)

    def evict(self, move: PodMove) -> None:
        controller = self.controller(move)
        self._known[move.uid] = {uid for uid, pod in self._pods.items() if controller_of(pod) == controller}
        namespace, _, name = move.pod.partition("/")
        self._api.evict(namespace, name, move.uid)

    def still_there(self, move: PodMove) -> bool:
        namespace, _, name = move.pod.partition("/")
        pod = self._api.pod(namespace, name)
        return pod is not None and _uid(pod) == move.uid and not pod["metadata"].get("deletionTimestamp")

    def replacements(self, waiting: Sequence[Eviction], taken: set[str]) -> list[Replaced]:
        found = list[Replaced]()
        for namespace in sorted({one.namespace for one in waiting}):
            pods = [pod for pod in self._api.pods(namespace) if is_ready(pod)]
            here = [one for one in waiting if one.namespace == namespace]
            for one, pod in self._matched(here, pods, taken):
                name = f"{namespace}/{pod['metadata']['name']}"
                found.append(Replaced(one, name, _uid(pod), pod["spec"]["nodeName"]))
        return found

    def wait(self, seconds: float) -> bool:
        return self._wait(seconds)

    def _matched(
        self, waiting: Sequence[Eviction], pods: Sequence[Json], taken: set[str]
    ) -> Iterator[tuple[Eviction, Json]]:
        """Evictions with their replacements among some pods: those on their targets first, then the oldest."""
        used, left = set(taken), list(waiting)
        order = sorted(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp")))
        for on_target in (True, False):
            for one in list(left):
                for pod in order:
                    fits = not on_target or (pod.get("spec") or {}).get("nodeName") == one.target
                    if fits and _uid(pod) not in used and self._replaces(pod, one):
                        used.add(_uid(pod))
                        left.remove(one)
                        yield one, pod
                        break

    def _replaces(self, pod: Json, one: Eviction) -> bool:
        """Whether a pod may be the replacement of an evicted one: its controller made it since."""
        if controller_of(pod) != one.controller or pod["metadata"].get("deletionTimestamp") or _uid(pod) == one.uid:
            return False
        if one.uid in self._known:
            return _uid(pod) not in self._known[one.uid]
        created = Field(pod, "Pod").at("metadata", "creationTimestamp").moment()
        return created >= one.time - SLACK  # it was evicted before this process began


class RehearsingHands:
    """Does nothing, and imagines that every evicted pod goes where it should.

    Parameters
    ----------
    api : KubeApi
        The API server, which is only read.
    read : callable
        Reads what may be moved where from objects.
    """

    def __init__(self, api: KubeApi, read: Callable[[Objects], ClusterState] = state_of) -> None:
        self._api, self._read = api, read
        self._controllers: dict[str, str] = {}
        self._on_their_way: dict[str, PodMove] = {}
        self._moved: dict[str, PodMove] = {}

    def now(self) -> float:
        return self._api.now()

    def look(self) -> ClusterState:
        objects = self._api.objects()
        self._controllers = {_uid(pod): controller_of(pod) for pod in objects.by_kind["Pod"]}
        return imagined(self._read(objects), self._moved, self._on_their_way)

    def controller(self, move: PodMove) -> str:
        return self._controllers.get(move.uid, "")

    def unplaced(self, waiting: Sequence[Eviction]) -> list[Eviction]:
        return [one for one in waiting if one.uid in self._on_their_way]

    def note(self, evictions: Evictions) -> None:
        pass

    def may_act(self) -> bool:
        return True

    def evict(self, move: PodMove) -> None:
        self._on_their_way[move.uid] = move

    def still_there(self, move: PodMove) -> bool:
        return move.uid not in self._on_their_way

    def replacements(self, waiting: Sequence[Eviction], taken: set[str]) -> list[Replaced]:
        ours = [one for one in waiting if one.uid in self._on_their_way]
        for one in ours:
            self._moved[one.uid] = self._on_their_way.pop(one.uid)
        return [Replaced(one, one.pod, f"imagined {one.uid}", one.target) for one in ours]

    def wait(self, seconds: float) -> bool:
        return True


def imagined(state: ClusterState, moved: dict[str, PodMove], on_their_way: dict[str, PodMove]) -> ClusterState:
    """A state in which some pods run on their targets already, and others count against what budgets allow."""
    at, uids, place = state.at.copy(), state.uid.copy(), {name: i for i, name in enumerate(state.node.tolist())}
    row = {uid: i for i, uid in enumerate(state.uid.tolist())}
    for uid, move in moved.items():
        if uid in row and move.target in place:
            at[row[uid]] = place[move.target]
            uids[row[uid]] = ""  # of a replacement nobody knows it yet
    gone = {row[uid] for uid in on_their_way if uid in row}
    budgets = tuple(
        one._replace(allowed=max(one.allowed - len(gone & set(one.pods.tolist())), 0)) for one in state.budgets
    )
    return replace(state, at=at, uid=uids, budgets=budgets)


def controller_of(pod: Json) -> str:
    """Uid of the controller of a pod as the API has it, "" for none."""
    owners = (pod.get("metadata") or {}).get("ownerReferences") or []
    return next((str(one.get("uid", "")) for one in owners if one.get("controller")), "")


def is_ready(pod: Json) -> bool:
    """Whether a pod runs on a node, is ready, and is not about to end."""
    status = pod.get("status") or {}
    ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or [])
    ends = pod["metadata"].get("deletionTimestamp")
    return bool(ready and status.get("phase") == "Running" and not ends and (pod.get("spec") or {}).get("nodeName"))


def _uid(pod: Json) -> str:
    return str((pod.get("metadata") or {}).get("uid", ""))
