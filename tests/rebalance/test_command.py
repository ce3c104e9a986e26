"""`tvwrl rebalance` from the options to the folder, without a cluster."""

import json
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from tvwrl.rebalance import generated_cluster
from tvwrl.rebalance.command import RebalanceSettings, rebalance
from tvwrl.rebalance.move_rule import Rebalance
from tvwrl.rebalance.plan_of_moves import read_plan
from tvwrl.schedulers import Moving, make_scheduler
from tvwrl.types import InputError
from tvwrl.what_if import Replay, compare

FILES = {"plan.json", "moves.csv", "report.md", "before-and-after.png", "explorer.html"}


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """The folder of a plan for a generated cluster."""
    out = tmp_path_factory.mktemp("plans") / "plan"
    rebalance(RebalanceSettings(generated=12, most_moves=20, out=out, currency="EUR"))
    return out


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A generated cluster as CSV files, without its last day: hourly usage."""
    folder = tmp_path_factory.mktemp("tables")
    past = generated_cluster(10).past
    parts = []
    for pod, owner, node, start, used, asked in zip(
        past.pod, past.owner, past.node, past.start, past.usage, past.request * past.reference, strict=True
    ):
        hours = [k for k in range(len(used)) if (start + k) % 12 == 0]
        columns = {
            "pod": pod,
            "owner": owner,
            "node": past.node_name[node],
            "time": [past.at(start + k) for k in hours],
        }
        columns |= {name: (used[hours] * past.reference)[:, d] for d, name in enumerate(("cpu", "memory"))}
        parts.append(pl.DataFrame(columns | {"request_cpu": asked[0], "request_memory": asked[1]}))
    pl.concat([part for part in parts if len(part)]).write_csv(folder / "usage.csv")
    size = past.size * past.reference
    pl.DataFrame({"node": past.node_name.astype(str), "cpu": size[:, 0], "memory": size[:, 1]}).write_csv(
        folder / "nodes.csv"
    )
    return {"usage": folder / "usage.csv", "nodes": folder / "nodes.csv", "interval": 3600}


def test_the_folder_and_the_page(planned):
    assert {file.name for file in planned.iterdir()} == FILES
    plan = read_plan(planned / "plan.json")
    page = (planned / "report.md").read_text()
    assert plan.drained
    assert all(name in page for name in plan.drained)
    assert f"{len(plan.moves)} moves" in page
    moves = pl.read_csv(planned / "moves.csv")
    assert moves["pod"].to_list() == [move.pod for move in plan.moves]
    assert json.loads((planned / "plan.json").read_text())["version"] == 1


def test_the_same_plan_twice(planned, tmp_path):
    rebalance(RebalanceSettings(generated=12, most_moves=20, out=tmp_path / "again", currency="EUR"))
    assert read_plan(tmp_path / "again" / "plan.json") == read_plan(planned / "plan.json")


def test_tables_of_usage_without_kubernetes(tables, tmp_path, capsys):
    rebalance(RebalanceSettings(**tables, assume_movable=True, most_moves=40, out=tmp_path / "out"))
    plan = read_plan(tmp_path / "out" / "plan.json")
    assert plan.drained
    assert "--assume-movable" in capsys.readouterr().out


def test_what_the_record_lacks_is_on_the_page_as_what_if_says_it(tables, tmp_path):
    """A pod on a node of which no size is known is left out, and with it what it uses."""
    usage = pl.read_csv(tables["usage"])
    stray = usage.filter(pl.col("pod") == usage["pod"][0]).with_columns(
        pod=pl.lit("shop/stray"), node=pl.lit("nowhere"), cpu=pl.lit(1.0)
    )
    pl.concat([usage, stray], how="vertical_relaxed").write_csv(tmp_path / "usage.csv")
    rebalance(
        RebalanceSettings(**tables | {"usage": tmp_path / "usage.csv"}, assume_movable=True, out=tmp_path / "out")
    )
    page = " ".join((tmp_path / "out" / "report.md").read_text().split())
    head, said = page.split("## How far the record can be trusted")
    assert "1 on 1 node without a size (nowhere)" in head
    assert "The cluster looks emptier than it was." in head
    assert "The pods used" in said
    assert "a node that looks empty may run some of them" in head
    kept = json.loads((tmp_path / "out" / "plan.json").read_text())["trusted"]
    assert any("nowhere" in one for one in kept)
    assert not any("replay" in one for one in kept)


def test_a_plan_does_not_depend_on_the_order_of_rows(tables, tmp_path):
    def made(name, seed):
        files = {one: tmp_path / f"{name}-{one}.csv" for one in ("usage", "nodes")}
        for one, file in files.items():
            table = pl.read_csv(tables[one])
            (table if seed is None else table.sample(fraction=1.0, shuffle=True, seed=seed)).write_csv(file)
        out = tmp_path / name
        rebalance(RebalanceSettings(**tables | files, assume_movable=True, most_moves=40, out=out))
        return read_plan(out / "plan.json")

    first = made("first", None)
    assert first.moves
    for seed in range(2):
        again = made(f"again-{seed}", seed)
        assert (again.moves, again.drained, again.expected) == (first.moves, first.drained, first.expected)


def test_a_rule_in_place_of_the_search(tmp_path):
    rebalance(
        RebalanceSettings(generated=12, moves_by="most-allocated + karpenter", most_moves=30, out=tmp_path / "out")
    )
    assert len(read_plan(tmp_path / "out" / "plan.json").moves) <= 30


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "which cluster"),
        ({"generated": 12, "prometheus": "http://x"}, "which cluster"),
        ({"generated": 2}, "nodes is 2"),
        ({"generated": 12, "assume_movable": True}, "rules of its own"),
        ({"usage": "u.csv"}, "belong together"),
        ({"usage": "u.csv", "nodes": "n.csv"}, "kubectl get nodes"),
        ({"generated": 12, "goal": "money"}, "goal"),
        ({"generated": 12, "moves_by": "karpnter"}, "karpenter"),
        ({"generated": 12, "moves_by": "kube-default"}, "move"),
        ({"generated": 12, "dry_run": False}, "seen as it is now"),
        ({"generated": 12, "watch": True}, "seen as it is now"),
        ({"prometheus": "http://x", "execute": "plan.json"}, "--no-dry-run"),
        ({"generated": 12, "limit": -1.0}, "limit"),
        ({"generated": 12, "days": 0.5}, "days"),
        ({"generated": 12, "goal": "overload", "price_per_move": 1.0}, "has no effect with --goal overload"),
        ({"generated": 12, "price_per_machine_hour": 1.0}, "has no effect with --generated"),
    ],
)
def test_options_that_are_refused(options, message, tmp_path):
    with pytest.raises(InputError, match=message):
        rebalance(
            RebalanceSettings(**options, **({} if options.keys() & {"watch", "execute"} else {"out": tmp_path / "out"}))
        )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("version", 2, "version: must be 1"),
        ("moves", [{"pod": 3}], "is no plan"),
        ("made", float("nan"), "made is nan"),
        ("made", 10**400, "is no plan"),
        ("expected", {"machine_hours": {"value": "many", "low": 0, "high": 0}}, "must be numbers"),
        ("expected", None, "is no plan"),
    ],
)
def test_plan_files_that_are_refused(planned, tmp_path, field, value, message):
    content = json.loads((planned / "plan.json").read_text())
    (tmp_path / "plan.json").write_text(json.dumps(content | {field: value}))
    with pytest.raises(InputError, match=f"plan.json.*{re.escape(message)}"):
        read_plan(tmp_path / "plan.json")


def test_batches_of_a_plan_file_never_fall(planned, tmp_path):
    content = json.loads((planned / "plan.json").read_text())
    content["moves"][0]["batch"] = 99
    (tmp_path / "plan.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="batch must be 0 or more, and never fall"):
        read_plan(tmp_path / "plan.json")


def test_plans_replayed_beside_other_rules_save_machines_and_never_see_the_future():
    whole = generated_cluster(12).whole
    replay = Replay(whole, 1800)

    def played(of):
        return of.play_moves(Moving(make_scheduler("most-allocated"), Rebalance(price=1.5)), 10)

    placed = played(replay)
    outcome = compare(replay, [placed]).outcomes[1]
    assert compare(replay, [placed]).saved(outcome, "machine_hours").value > 0
    # What is used after the fourth day, but by pods that belong to their nodes, changes nothing of what was decided.
    cut = 4 * 288
    usage = tuple(
        np.where((start + np.arange(len(one))[:, None] < cut) | bound, one, 1e-3)
        for one, start, bound in zip(whole.usage, whole.start.tolist(), whole.bound.tolist(), strict=True)
    )
    other = played(Replay(replace(whole, usage=usage), 1800))
    assert moved_before(placed, cut) == moved_before(other, cut)


def moved_before(placed, slot):
    segments = placed.segments
    rows = zip(segments.pod.tolist(), segments.node.tolist(), segments.begin.tolist(), strict=True)
    return sorted(row for row in rows if row[2] < slot)


@pytest.mark.parametrize(
    ("budgets", "hours"),
    [({}, 0), ({"hourly": 10}, 1), ({"hourly_per_owner": 1}, 2)],
)
def test_the_page_says_how_long_the_budgets_make_it_take(tmp_path, capsys, budgets, hours):
    """Whichever of them takes longest: 19 moves, three of which are of one owner."""
    large = {"hourly": 100, "hourly_per_node": 100, "hourly_per_namespace": 100, "hourly_per_owner": 100}
    rebalance(RebalanceSettings(generated=12, most_moves=20, out=tmp_path / "out", **large | budgets))
    page = " ".join(capsys.readouterr().out.split())
    said = re.search(r"The last move is taken to be made ([0-9.]+) h after", page)
    assert int(float(said[1])) == hours
    assert ("--watch plans anew for what is left" in page) == (hours > 0)
