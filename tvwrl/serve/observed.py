"""A cluster at a moment: its nodes, its pods, and what they used in the last slots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tvwrl.types import Float, Int

RESOURCES = ("cpu", "mem")  # cores, bytes


@dataclass(frozen=True, eq=False)
class Observed:
    """What was seen of a cluster: M nodes, N pods of which the first `running` still run, H slots."""

    time: float  # seconds since 1970, by the clock of Prometheus
    sample_age: float  # seconds since the newest sample of usage, >= 0
    slot: int  # number of the current slot since 1970
    nodes: tuple[str, ...]  # (M,)
    capacity: Float  # (M, 2) cores and bytes that pods can use, > 0
    pods: tuple[str, ...]  # (N,) "namespace/name"
    uid: tuple[str, ...]  # (N,) of those that run, as Kubernetes has it; "": not known
    running: int  # 0..N
    node: Int  # (N,) 0..M - 1, -1: not known
    owner: tuple[str, ...]  # (N,) see `owner_of`; "": not known
    request: Float  # (N, 2) cores and bytes, NaN: none
    usage: Float  # (N, H, 2) cores and bytes in each slot, the current one last; NaN: not recorded
    doubts: tuple[str, ...] = ()  # sentences about what cannot be true of nodes and pods

    def runs(self, pods: Mapping[str, str]) -> dict[str, int]:
        """Which of some pods (uid -> "namespace/name") run: uid -> row. A namesake with another uid is another pod."""
        rows = {self.pods[i]: i for i in range(self.running)}
        found = {uid: rows.get(name, -1) for uid, name in pods.items()}
        return {uid: i for uid, i in found.items() if i >= 0 and self.uid[i] in ("", uid)}
