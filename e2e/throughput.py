"""How many pods a second go through the real scheduler: with tvwrl, with a rule of one line, and with no extender?"""

from __future__ import annotations

import statistics
import time

from e2e import load
from e2e.judging import bindings, check_once
from e2e.report import Report, percentile, share
from e2e.setting import Setting

BACKLOG, ROUNDS = 500, 2
TARGET = 100.0
"""pods a second with tvwrl serve, or as many as the scheduler manages alone"""
SECONDS = 10
"""of the sustained run"""
KINDS = {"tvwrl": "with tvwrl serve", "reference": "with the reference extender", "none": "without any"}


def run(setting: Setting, report: Report) -> None:
    """The three beside each other, by turns."""
    setting.kubelets.start_pods = False  # nothing but the scheduling is to be measured
    setting.reference.start(path="/healthz")
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    before = _spent(setting)
    for turn in range(ROUNDS):
        for kind in KINDS:
            report.say(f"{BACKLOG} pods, extender: {kind}, round {turn + 1}")
            rates[kind].append(_backlog(setting, kind, turn))
            setting.settle()
            setting.empty()
    for kind, name in KINDS.items():
        each = ", ".join(f"{rate:.0f}" for rate in rates[kind])
        report.measure(f"pods a second, {name}", f"{statistics.mean(rates[kind]):.0f} ({each})")
    limit = min(TARGET, statistics.mean(rates["none"]))
    reached = statistics.mean(rates["tvwrl"])
    report.check(f"pods a second with tvwrl serve: {limit:.0f}", reached >= limit, f"{reached:.0f}")
    spent = [1000 * (after - was) / (ROUNDS * BACKLOG) for was, after in zip(before, _spent(setting), strict=True)]
    figure = f"/filter {spent[0]:.2f}, /prioritize {spent[1]:.2f}, decision {spent[2]:.2f}; processor {spent[3]:.2f}"
    report.measure("tvwrl serve: ms per pod", figure)
    for kind, name in KINDS.items():
        _sustained(setting, report, kind, name)
    setting.reference.stop()


def _spent(setting: Setting) -> tuple[float, float, float, float]:
    """Seconds so far of /filter, /prioritize, decisions and the processor, in the extender."""
    extender = setting.extender
    assert extender.process
    asked, scored = (
        extender.counters("tvwrl_request_seconds_sum", f'path="{path}"') for path in ("/filter", "/prioritize")
    )
    return asked, scored, extender.counters("tvwrl_decision_seconds_sum"), extender.process.cpu_seconds()


def _backlog(setting: Setting, kind: str, turn: int) -> float:
    """Pods a second from the first binding to the last, of pods that wait when the scheduler starts."""
    setting.plane.pause()
    uids = setting.create(load.population(BACKLOG, seed=10 + turn, prefix=f"rate-{kind}-{turn}"))
    wanted = set(uids)
    _schedule(setting, kind)
    setting.bound(uids, 120)
    times = [binding.time for binding in bindings(setting.plane.audit) if binding.uid in wanted]
    return (len(times) - 1) / (max(times) - min(times))


def _schedule(setting: Setting, kind: str) -> None:
    setting.schedule({"tvwrl": setting.extender, "reference": setting.reference, "none": None}[kind])


def _sustained(setting: Setting, report: Report, kind: str, name: str) -> None:
    """Pods that arrive at a fixed rate."""
    report.say(f"{TARGET:g} pods a second for {SECONDS} s, extender: {kind}")
    _schedule(setting, kind)
    pods = load.population(int(TARGET * SECONDS), seed=20, prefix=f"sustained-{kind}")
    begin, uids = time.monotonic(), []
    for i in range(0, len(pods), 5):
        time.sleep(max(0.0, begin + i / TARGET - time.monotonic()))
        uids += setting.create(pods[i : i + 5])
    took = time.monotonic() - begin
    lives = setting.kubelets.wait_bound(uids, 60)
    lags = [(life.bound_at or 0.0) - life.created for life in lives]
    figure = f"{share(len(lives), len(uids))} bound, created in {took:.1f} s; seconds to binding: "
    figure += f"median {percentile(lags, 0.5):.3f}, 99% within {percentile(lags, 0.99):.3f}"
    report.check(f"{TARGET:g} pods a second arrive, {name}", len(lives) == len(uids), figure)
    check_once(report, f"{TARGET:g} pods a second arrive, {name}", uids, setting.kubelets.lives, setting.plane.audit)
    setting.settle()
    setting.empty()
