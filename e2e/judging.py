"""Was every pod bound once, and where the extender said? From the API server's audit log and the extender's log."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from e2e.kubelets import Life
from e2e.report import Report, share

AUDIT_SECONDS = 10.0  # within which the audit log shows what happened
Decisions = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Binding:
    """A request to bind a pod that the API server granted."""

    uid: str
    node: str
    time: float


def bindings(audit: Path) -> list[Binding]:
    """All granted bindings, in order. Bindings of the same pod (uid) may occur twice only if something is wrong."""
    found = []
    for line in audit.read_text().splitlines():
        try:
            event = json.loads(line)
            granted = event["responseStatus"]["code"] == 201
            request = event["requestObject"]
            uid, node = request["metadata"]["uid"], request["target"]["name"]
        except (ValueError, KeyError):
            continue  # a line that is being written, or a request without a body
        if granted:
            at = datetime.fromisoformat(event["stageTimestamp"]).timestamp()
            found.append(Binding(uid, node, at))
    return found


@dataclass(frozen=True)
class Agreement:
    """How bound pods compare with what the extender logged last about each before it was bound."""

    as_decided: int
    elsewhere: list[str]
    undecided: int
    fallback: int


def compare(lives: Sequence[Life], decisions: Decisions) -> Agreement:
    """Where pods are, against the extender's last word about each."""
    agreed, elsewhere, undecided, fallback = 0, [], 0, 0
    for life in lives:
        about = [event for event in decisions.get(f"default/{life.name}", ()) if event.get("uid", life.uid) == life.uid]
        if not about:
            undecided += 1
        elif about[-1]["event"] == "fallback":
            fallback += 1
        elif about[-1]["node"] == life.node:
            agreed += 1
        else:
            elsewhere.append(f"{life.name} on {life.node}, decided {about[-1]['node']}")
    return Agreement(agreed, elsewhere, undecided, fallback)


def check_once(report: Report, what: str, created: Sequence[str], lives: dict[str, Life], audit: Path) -> None:
    """Every pod that was created was bound, and none twice.

    A watcher may hear of a binding before the API server has written it into its audit log.
    """
    until = time.monotonic() + AUDIT_SECONDS
    while True:
        granted = Counter(binding.uid for binding in bindings(audit))
        if all(granted[uid] for uid in created) or time.monotonic() > until:
            break
        time.sleep(0.2)
    lost = [uid for uid in created if not granted[uid]]
    twice = [uid for uid in created if granted[uid] > 1 or len(lives[uid].bound) > 1]
    figure = f"{len(created):,} created, {len(lost)} lost, {len(twice)} bound twice"
    report.check(f"{what}: no pod lost or bound twice", not lost and not twice, figure)


def check_decided(report: Report, what: str, lives: Sequence[Life], decisions: Decisions) -> None:
    """Every pod is where the extender said, and it said something about each."""
    agreement = compare(lives, decisions)
    figure = share(agreement.as_decided, len(lives))
    if agreement.elsewhere:
        figure += f"; {agreement.elsewhere[0]}"
    report.check(f"{what}: bound where decided", agreement.as_decided == len(lives), figure)
