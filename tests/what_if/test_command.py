"""The whole command from tables, what its page says, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tests.what_if.conftest import generated, record
from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
from tvwrl.agents.config import PRESETS
from tvwrl.agents.export import export_policy
from tvwrl.agents.exported import open_policy
from tvwrl.agents.training import Trainer
from tvwrl.envs.problem import Problem
from tvwrl.schedulers import make_scheduler
from tvwrl.types import InputError
from tvwrl.what_if.command import WhatIfSettings, what_if
from tvwrl.what_if.compared import compare
from tvwrl.what_if.replay import Placed, Replay
from tvwrl.what_if.report import page
from tvwrl.what_if.words import verdict


@pytest.fixture(scope="module")
def policy(google, tmp_path_factory):
    """A small policy, hardly trained."""
    config = replace(PRESETS["smoke"], train_sequences=2, imitate=0, eval_every=100)
    config = replace(config, scenario=replace(config.scenario, machines=3, workloads=6))
    folder = tmp_path_factory.mktemp("policy") / "run"
    Trainer(Problem.build(google, config.scenario, "none"), config, folder, {}, print).save()
    return folder


def test_files_and_page(week, capsys):
    what_if(WhatIfSettings(**week, price_per_machine_hour=0.5, currency="EUR"))
    out = capsys.readouterr().out
    found = json.loads((week["out"] / "what-if.json").read_text())
    assert found["outcomes"]["as-placed"]["needed"]["mean"] == 6
    best = found["outcomes"]["most-allocated"]
    assert best["needed"]["mean"] < 6
    assert best["needed_change"]["mean"] == best["needed"]["mean"] - 6
    hours = best["machine_hours_change"]["mean"]
    assert best["saved_a_month"]["mean"] == pytest.approx(-hours * 0.5 * 30)
    assert best["if_running_pods_stay"]["needed_change"]["mean"] >= best["needed_change"]["mean"]
    assert "EUR per 30 days" in " ".join(out.split())
    assert "2 whole days: intervals from so few mean little" in out
    assert "kube-default" in (week["out"] / "report.md").read_text()
    assert len(pl.read_csv(week["out"] / "days.csv")) == 2 * (1 + 7 * 20)
    assert (week["out"] / "what-if.png").stat().st_size > 10_000


def test_the_same_twice(week):
    what_if(WhatIfSettings(**week, schedulers=("best-fit", "random")))
    first = (week["out"] / "days.csv").read_bytes()
    week["out"] = week["out"].with_name("again")
    what_if(WhatIfSettings(**week, schedulers=("best-fit", "random")))
    assert (week["out"] / "days.csv").read_bytes() == first


def test_a_folder_that_holds_something_is_refused_before_anything_is_read(week):
    """Like those of `place` and `provision`; an empty one, such as a mounted volume, is filled."""
    week["out"].mkdir()
    what_if(WhatIfSettings(**week, schedulers=()))
    before = (week["out"] / "report.md").read_bytes()
    with pytest.raises(InputError, match="out already exists and is not empty: give another folder, or remove this"):
        what_if(WhatIfSettings(**(week | {"usage": week["usage"].with_name("no such file")}), schedulers=("best-fit",)))
    assert (week["out"] / "report.md").read_bytes() == before


def test_a_policy_is_replayed(week, policy):
    what_if(WhatIfSettings(**week, schedulers=(), policies=(str(policy),)))
    found = json.loads((week["out"] / "what-if.json").read_text())["outcomes"]["run"]
    assert found["knowledge"]["note"].endswith("(learnt)")
    assert found["unplaced"] == 0


def test_an_exported_policy_is_replayed_like_the_run_that_it_is_of(week, policy, tmp_path):
    exported = tmp_path / "run.onnx"
    exported.write_bytes(export_policy(Checkpoint.load(find_checkpoint(policy)), "run").content)
    found = []
    for one in (policy, exported):
        week["out"] = tmp_path / f"report {len(found)}"
        what_if(WhatIfSettings(**week, schedulers=(), policies=(str(one),)))
        found.append(json.loads((week["out"] / "what-if.json").read_text())["outcomes"]["run"])
    assert found[0]["needed"] == found[1]["needed"]


def test_a_policy_for_another_cluster(policy):
    (made, facts), replay = open_policy(policy), Replay(generated())
    with pytest.raises(InputError, match="'run' was trained on the resources cpu, gpu: a cluster has cpu and mem"):
        replay.play_policy(made, replace(facts, resources=("cpu", "gpu")))
    with pytest.raises(InputError, match=r"was trained with slots of 1800 s; give --decision-seconds 1800"):
        Replay(generated(), 600).play_policy(made, facts)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give either --prometheus URL, or --usage FILE"),
        ({"prometheus": "http://x", "usage": "u"}, "give either --prometheus URL, or --usage FILE"),
        ({"usage": "u"}, "--usage and --nodes belong together"),
        ({"prometheus": "http://x", "decision_seconds": 1000}, "decision_seconds is 1000: must be a multiple of"),
        ({"prometheus": "http://x", "currency": "EUR"}, "currency is EUR, but there is no price"),
        ({"prometheus": "http://x", "limit": 0.0}, "limit is 0.0: must be a number > 0"),
        ({"prometheus": "http://x", "schedulers": ("best-fti",)}, "did you mean best-fit"),
        ({"prometheus": "http://x", "schedulers": ("best-fit", "best-fit")}, "must be different"),
        ({"prometheus": "http://x", "schedulers": ("rollout(spread)",)}, "needs training workloads"),
        ({"prometheus": "http://x", "schedulers": ("deeprm=run",)}, "give training runs as --policies RUN"),
        ({"prometheus": "http://x", "policies": ("none",)}, "none: no such run folder or checkpoint"),
        ({"prometheus": "ftp://x"}, "not the address of a Prometheus server"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        what_if(WhatIfSettings(**options))


def test_one_node_one_day_and_no_requests():
    """Nothing can be saved, and the page says so."""
    replay = Replay(record([{"name": "x/1", "node": "a", "slots": range(288)}], [("a", 4, 16)]))
    compared = compare(replay, [replay.play(make_scheduler("best-fit"))])
    text = page(compared, replay)
    assert "`best-fit` would have needed as many machines as recorded, 1.0" in text
    assert "One day, so no intervals" in text
    assert "1 pod (100.0%) requests no CPU" in text


def test_a_saving_never_stands_without_the_overshoot_that_it_costs():
    """Two pods of 3 of 4 cores on one node instead of two."""
    pods = [{"name": f"x/{i}", "node": "ab"[i], "slots": range(288), "cpu": 3} for i in range(2)]
    replay = Replay(record(pods))
    crowded = Placed("crowded", np.array([0, 0]), np.array([0, 0]), make_scheduler("best-fit").knowledge)
    compared = compare(replay, [crowded])
    requests, nothing, line, few = verdict(compared)
    assert "No pod has a request" in requests
    assert "1.0 fewer machines than the 2.0 recorded, and overshot CPU for 24.0 more machine-hours a day" in line
    assert "No rule is recommended" in nothing
    assert "`crowded` overshoots more than as-placed" in nothing
    assert "1 whole day" in few
    (row,) = [text for text in page(compared, replay).splitlines() if text.startswith("| crowded")]
    assert "1.0 !" in row


def test_what_does_not_differ_is_not_said():
    """Two pods on two nodes, placed alike in both orders, at a price."""
    pods = [{"name": f"x/{i}", "node": "ab"[i], "slots": range(576)} for i in range(2)]
    replay = Replay(record(pods))
    replay = replace(replay, recorded=replace(replay.recorded, price=np.ones(2)))
    same = Placed("same", np.array([0, 1]), np.array([0, 0]), make_scheduler("best-fit").knowledge)
    text = " ".join(page(compare(replay, [same, same]), replay).split())
    assert "Here they make no difference to machines needed, nor to CPU overshoot." in text
    assert "from 0.0 to 0.0" not in text
    assert "`same` would have needed as many machines as recorded, 2.0, without more overshoot." in text


def test_what_was_left_out_is_said():
    pods = [
        {"name": "x/1", "node": "a", "slots": range(288)},
        {"name": "x/2", "node": None, "slots": range(288), "cpu": 3},
        {"name": "x/d", "node": "a", "slots": range(288), "owner": "x/daemonset/d"},
    ]
    replay = Replay(record(pods))
    text = " ".join(page(compare(replay, []), replay).split())
    assert "Left out: 1 pod whose node is unknown" in text
    assert "with 60.0% of all CPU used" in text
    assert "1 pod of a DaemonSet, or static, stays on its node" in text
    assert "1 node had no pods at all" in text


def test_a_record_in_which_nearly_everything_is_missing_is_pointed_out_first():
    replay = Replay(record([{"name": "x/1", "node": "a", "slots": range(288), "cpu": 0.01, "mem": 0.01}]))
    first, *_ = verdict(compare(replay, []))
    assert "The pods of this record use 0.12% of the nodes: most of the cluster is probably missing" in first


def test_less_than_a_day_and_nodes_that_come_and_go():
    pods = [{"name": f"x/{i}", "node": f"n{i}", "slots": range(12 * i, 12 * i + 12)} for i in range(4)]
    replay = Replay(record(pods, [(f"n{m}", 4, 16) for m in range(4)]))
    text = " ".join(page(compare(replay, []), replay).split())
    assert "The record has 4.0 hours" in text
    assert "At most 1 of the 4 nodes had pods at the same time" in text
