"""Metrics that are slow, broken, empty, lying or gone: are pods scheduled all the same, and is it counted?"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from e2e import load, monitoring
from e2e.processes import Failure, wait_for
from e2e.report import Report, share
from e2e.setting import Setting

BATCH = 20
NOTICE_SECONDS = 40.0
"""seconds within which the extender has to notice, and later to recover"""


def run(setting: Setting, report: Report) -> None:
    """One kind of trouble after the other."""
    prometheus = setting.monitoring.process
    assert prometheus
    for name, trouble in {
        "slow": monitoring.slow,
        "HTTP 500": monitoring.failing,
        "a page of HTML": monitoring.nonsense,
        "a closed connection": monitoring.shut,
        "NaN everywhere": monitoring.not_a_number,
    }.items():
        _blind(setting, report, f"metrics: {name}", lambda t=trouble: setattr(setting.door, "trouble", t))  # type: ignore[misc]
        setting.door.trouble = None
        _recover(setting, report, f"metrics: {name}")
    _blind(setting, report, "Prometheus killed", prometheus.kill)
    setting.monitoring.start()
    _recover(setting, report, "Prometheus killed")
    _blind(
        setting, report, "an exporter that shows nothing", lambda: setattr(setting.exporter, "twist", lambda text: "")
    )
    setting.exporter.twist = None
    _recover(setting, report, "an exporter that shows nothing")
    _lies(setting, report)


def _blind(setting: Setting, report: Report, name: str, begin: Callable[[], object]) -> None:
    """Pods that come while the extender has no metrics."""
    begin()
    try:
        wait_for("the extender notices", lambda: setting.extender.status("/readyz") == 503, NOTICE_SECONDS)
    except Failure as failure:
        report.check(f"{name}: noticed", False, str(failure))
    before = setting.extender.counters("tvwrl_fallbacks_total")
    uids = setting.create(_batch(name))
    start = time.monotonic()
    bound = setting.kubelets.wait_bound(uids, 30)
    took = time.monotonic() - start
    counted = setting.extender.counters("tvwrl_fallbacks_total") - before
    figure = f"{share(len(bound), BATCH)} bound within {took:.1f} s, {counted:.0f} fallbacks counted"
    report.check(f"{name}: pods go on", len(bound) == BATCH and counted >= BATCH, figure)


def _recover(setting: Setting, report: Report, name: str) -> None:
    """Once the trouble is over, the policy decides again."""
    start = time.monotonic()
    try:
        wait_for("the extender is ready again", lambda: setting.extender.status("/readyz") == 200, NOTICE_SECONDS)
        report.measure(f"{name}: seconds until ready again", f"{time.monotonic() - start:.1f}")
    except Failure as failure:
        report.check(f"{name}: recovers", False, str(failure))


def _lies(setting: Setting, report: Report) -> None:
    """Single series that are NaN, negative, infinite or absurd."""
    for name, twist in {
        "usage is NaN": _usage("NaN"),
        "usage is negative": _usage("-1e9"),
        "usage is infinite": _usage("+Inf"),
        "usage is absurd": _usage("1e300"),
    }.items():
        setting.exporter.twist = twist
        time.sleep(6)
        errors = setting.extender.position()
        uids = setting.create(_batch(name))
        bound = setting.kubelets.wait_bound(uids, 30)
        events = setting.extender.events(errors)
        decided = {event["pod"] for event in events if event["event"] == "decision" and event["node"]}
        failed = [event for event in events if event["event"] == "error"]
        alive = setting.extender.process is not None and setting.extender.process.running
        figure = f"{share(len(bound), BATCH)} bound, {len(decided)} by the policy, {len(failed)} errors logged"
        report.check(f"metrics: {name}: pods go on", len(bound) == BATCH and alive and not failed, figure)
        setting.exporter.twist = None
    _recover(setting, report, "metrics: lies")


def _usage(value: str) -> Callable[[str], str]:
    """Usage of every third pod is ``value``."""
    lines = re.compile(r"^(container_[a-z_]+\{.*pod=\"[^\"]*[0369]\".*\}) .*$", re.MULTILINE)
    return lambda text: lines.sub(rf"\g<1> {value}", text)


def _batch(name: str) -> list[load.Json]:
    prefix = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")
    return load.population(BATCH, seed=1, prefix=prefix)
