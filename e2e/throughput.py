"""How many pods a second go through the real scheduler: with tvwrl, with a rule of one line, and with no extender?"""

from __future__ import annotations

import statistics
import time

from e2e import load
from e2e.judging import bindings, check_once
from e2e.report import Report, percentile
from e2e.setting import Setting

BACKLOG, ROUNDS = 500, 2
RATE, SECONDS = 100, 10
"""of the sustained run"""
LAG = 1.0
"""seconds from creation to binding that 99 of 100 pods of the sustained run may take"""


def run(setting: Setting, report: Report) -> None:
    """The three beside each other, by turns."""
    setting.kubelets.start_pods = False  # nothing but the scheduling is to be measured
    setting.reference.start(path="/healthz")
    found: dict[str, list[float]] = {"tvwrl": [], "reference": [], "none": []}
    for turn in range(ROUNDS):
        for kind, rates in found.items():
            report.say(f"{BACKLOG} pods, extender: {kind}, round {turn + 1}")
            rates.append(_backlog(setting, kind, turn))
            setting.settle()
            setting.empty()
    setting.reference.stop()
    names = {"tvwrl": "with tvwrl serve", "reference": "with the reference extender", "none": "without any"}
    for kind, rates in found.items():
        each = ", ".join(f"{rate:.0f}" for rate in rates)
        report.measure(f"pods a second, {names[kind]}", f"{statistics.mean(rates):.0f} ({each})")
    _sustained(setting, report)
    setting.kubelets.start_pods = True


def _backlog(setting: Setting, kind: str, turn: int) -> float:
    """Pods a second from the first binding to the last, of pods that wait when the scheduler starts."""
    setting.plane.pause()
    uids = setting.create(load.population(BACKLOG, seed=10 + turn, prefix=f"rate-{kind}-{turn}"))
    wanted = set(uids)
    setting.schedule({"tvwrl": setting.extender, "reference": setting.reference, "none": None}[kind])
    setting.bound(uids, 120)
    times = [binding.time for binding in bindings(setting.plane.audit) if binding.uid in wanted]
    return (len(times) - 1) / (max(times) - min(times))


def _sustained(setting: Setting, report: Report) -> None:
    """Pods that arrive at a fixed rate."""
    report.say(f"{RATE} pods a second for {SECONDS} s")
    setting.schedule()
    pods = load.population(RATE * SECONDS, seed=20, prefix="sustained")
    begin, uids = time.monotonic(), []
    for i in range(0, len(pods), 10):
        time.sleep(max(0.0, begin + i / RATE - time.monotonic()))
        uids += setting.create(pods[i : i + 10])
    took = time.monotonic() - begin
    lives = setting.kubelets.wait_bound(uids, 60)
    lags = [(life.bound_at or 0.0) - life.created for life in lives]
    late = percentile(lags, 0.99)
    figure = (
        f"{len(lives):,} bound, created in {took:.1f} s; median {percentile(lags, 0.5):.3f} s, 99% within {late:.3f} s"
    )
    report.check(f"{RATE} pods a second sustained", len(lives) == len(uids) and late < LAG, figure)
    check_once(report, "sustained", uids, setting.kubelets.lives, setting.plane.audit)
