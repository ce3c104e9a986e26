"""Each alert fires when it should and stays silent when it should not, by Prometheus' own test of rules."""

import shutil
import subprocess
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ALERTS = Path(__file__).resolve().parents[2] / "deploy" / "alerts.yaml"
NAMES = (
    "TvwrlMetricsStale", "TvwrlMetricsDoubtful", "TvwrlFallsBack", "TvwrlSlow", "TvwrlHolds", "TvwrlDown",
    "TvwrlRebalanceReturns", "TvwrlRebalanceBlind",
)  # fmt: skip
MOVED, TURNS = 'tvwrl_rebalance_evictions_total{outcome="%s"}', 'tvwrl_rebalance_turns_total{result="failed"}'
AGE, SLOW = "tvwrl_metrics_age_seconds", 'tvwrl_request_seconds_bucket{path="/filter",le="%s"}'
DOUBTS = "tvwrl_metrics_doubts"
ENDLESS, NO_NUMBER = "+Inf " * 201, "NaN " * 201
HEALTHY = {
    AGE: "20x200",
    DOUBTS: "0x200",
    'tvwrl_fallbacks_total{reason="late"}': "0+0x200",
    'tvwrl_fallbacks_total{reason="no_metrics"}': "7+0x200",
    'tvwrl_decisions_total{outcome="placed"}': "0+60x200",
    'tvwrl_decisions_total{outcome="held"}': "0+20x200",
    SLOW % "0.1": "0+60x200",
    SLOW % "1.0": "0+60x200",
    SLOW % "+Inf": "0+60x200",
}
CASES = {  # what differs from a healthy server, and what then fires
    "healthy": ({}, set()),
    "idle": (dict.fromkeys(HEALTHY.keys() - {AGE, DOUBTS}, "5+0x200"), set()),
    "old samples": ({AGE: "100+60x200"}, {"TvwrlMetricsStale"}),
    "old samples for a moment": ({AGE: "20x90 300x3 20x100"}, set()),
    "no sample yet": ({AGE: ENDLESS}, {"TvwrlMetricsStale"}),
    "an age that is not a number": ({AGE: NO_NUMBER}, {"TvwrlMetricsStale"}),
    "from the future": ({AGE: "-3600x200"}, set()),
    "a doubt": ({DOUBTS: "1x200"}, {"TvwrlMetricsDoubtful"}),
    "a doubt for a moment": ({DOUBTS: "0x100 1x20 0x80"}, set()),
    "one in ten late": ({'tvwrl_fallbacks_total{reason="late"}': "0+8x200"}, set()),
    "one in eight late": ({'tvwrl_fallbacks_total{reason="late"}': "0+12x200"}, {"TvwrlFallsBack"}),
    "only fallbacks": (
        {'tvwrl_fallbacks_total{reason="no_metrics"}': "0+1x200", 'tvwrl_decisions_total{outcome="placed"}': "0+0x200",
         'tvwrl_decisions_total{outcome="held"}': "0+0x200"}, {"TvwrlFallsBack"},
    ),
    "two in a hundred slow": ({SLOW % "0.1": "0+58.8x200"}, {"TvwrlSlow"}),
    "one in a thousand slow": ({SLOW % "0.1": "0+59.94x200"}, set()),
    "slower than all buckets": ({SLOW % "0.1": "0+0x200", SLOW % "1.0": "0+0x200"}, {"TvwrlSlow"}),
    "holds most": ({'tvwrl_decisions_total{outcome="held"}': "0+700x200"}, {"TvwrlHolds"}),
    "holds all": (
        {'tvwrl_decisions_total{outcome="held"}': "0+1x200", 'tvwrl_decisions_total{outcome="placed"}': "0+0x200"},
        {"TvwrlHolds"},
    ),
    "pods moved as planned": ({MOVED % "as_planned": "0+1x200", MOVED % "returned": "3+0x200", TURNS: "9+0x200"}, set()),  # noqa: E501
    "a pod went back": ({MOVED % "returned": "0x150 1x50"}, {"TvwrlRebalanceReturns"}),
    "no replacement": ({MOVED % "missing": "2x150 3x50"}, {"TvwrlRebalanceReturns"}),
    "one turn failed": ({TURNS: "0x150 1x50"}, set()),
    "every turn fails": ({TURNS: "0+0.1x200"}, {"TvwrlRebalanceBlind"}),
    "gone": (dict.fromkeys(HEALTHY, "1 stale _x200"), {"TvwrlDown"}),
    "never there": (dict.fromkeys(HEALTHY), {"TvwrlDown"}),
    "restarted all the time": ({'tvwrl_decisions_total{outcome="placed"}': "0 60 120 0 60 120 0+60x190"}, set()),
}  # fmt: skip


def labelled(name):
    return name.replace("}", ',namespace="tvwrl"}') if "}" in name else f'{name}{{namespace="tvwrl"}}'


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool, of Debian's package prometheus")
def test_alerts(tmp_path):
    """After three hours, counters are those of 60 decisions a minute."""
    rules = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))
    assert [rule["alert"] for group in rules["groups"] for rule in group["rules"]] == list(NAMES)
    for group in rules["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]  # their words are tested below
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
    cases = []
    for name, (changes, firing) in CASES.items():
        series = {labelled(one): values for one, values in {**HEALTHY, **changes}.items() if values is not None}
        expected = []
        for alert in NAMES:
            labels = {"severity": "info"} if alert == "TvwrlDown" else {"severity": "warning", "namespace": "tvwrl"}
            alerts = [{"exp_labels": labels}] if alert in firing else []
            expected.append({"eval_time": "3h", "alertname": alert, "exp_alerts": alerts})
        cases.append(
            {"name": name, "interval": "1m", "alert_rule_test": expected,
             "input_series": [{"series": one, "values": values} for one, values in series.items()]}
        )  # fmt: skip
    done = promtool(tmp_path, {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": cases})
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool, of Debian's package prometheus")
@pytest.mark.parametrize(("values", "words"), [("200x200", "3m 20s"), (ENDLESS, "+Inf"), (NO_NUMBER, "NaN")])
def test_annotations_can_be_written_of_any_value(tmp_path, values, words):
    series = [{"series": labelled(AGE), "values": values}]
    firing = {"eval_time": "1h", "alertname": "TvwrlMetricsStale", "exp_alerts": []}
    made = {"interval": "1m", "input_series": series, "alert_rule_test": [firing]}
    done = promtool(tmp_path, {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": [made]})
    assert f"no new usage data for {words}" in done.stdout + done.stderr
    assert "error calling" not in done.stdout + done.stderr


def promtool(folder, content):
    (folder / "tests.yaml").write_text(yaml.safe_dump(content))
    return subprocess.run(["promtool", "test", "rules", folder / "tests.yaml"], capture_output=True, text=True)
