"""tvwrl train --moves from end to end: learning, comparison, resumption, bad input."""

import json

import polars as pl
import pytest

from tvwrl.experiments.learn_moves_command import what_moves_bring
from tvwrl.runs import check_new_folder
from tvwrl.schedulers import MachineValue
from tvwrl.types import InputError

SMALL = [
    "--trace", "synthetic:google", "--sequences", 4, "--validation", 2, "--epochs", 1, "--units", 8, 4,
    "--gammas", 0.9, "--risks", 1, "--thresholds", "1,2", "--machines", 4, "--workloads", 20,
    "--no-from-shipped",
]  # fmt: skip


def test_learns_and_goes_on_after_an_interruption(call, refused, tmp_path):
    out = tmp_path / "run"
    done = call("train", "--moves", *SMALL, "--comparison-sequences", 0, "--out", out)
    assert done.returncode == 0, done.stderr
    value = MachineValue.load(out / "value.npz")
    assert json.loads((out / "run.json").read_text())["moves"]["environment"]["moves_per_slot"] == 2

    (out / "value.npz").unlink()
    (out / "generations" / "generation-2.npz").unlink()  # as if it had been killed there
    again = call("train", "--moves", "--resume", out)
    assert again.returncode == 0, again.stderr
    assert MachineValue.load(out / "value.npz").digest == value.digest

    entry = f"expected-cost + machine-value={out / 'value.npz'}"
    played = call(
        "evaluate", "--trace", "synthetic:google", "--machines", 4, "--workloads", 20, "--moves-per-slot", 2,
        "--sequences", 1, "--no-bounds", "--schedulers", entry, "--out", tmp_path / "e",
    )  # fmt: skip
    assert played.returncode == 0, played.stderr
    with pytest.raises(InputError, match="tvwrl train --moves --resume"):
        check_new_folder(out)
    refused("train", "--moves", "--resume", out, "--seed", 1, message=["--resume continues with the run's own"])


@pytest.mark.parametrize("algo", ["reinforce", "ppo"])
def test_learns_by_policy_gradient_and_goes_on(call, tmp_path, algo):
    out = tmp_path / "run"
    small = [
        "--trace", "synthetic:google", "--validation", 2, "--machines", 4, "--workloads", 20, "--batches", 1,
        "--sequences-per-iteration", 1, "--trajectories", 2,
    ]  # fmt: skip
    done = call("train", "--moves", "--algo", algo, *small, "--comparison-sequences", 0, "--out", out)
    assert done.returncode == 0, done.stderr
    learnt = MachineValue.load(out / "generations" / "generation-2.npz")
    assert learnt.facts["algo"] == algo
    value = MachineValue.load(out / "value.npz")

    (out / "value.npz").unlink()
    (out / "generations" / "generation-2.npz").unlink()  # as if it had been killed there
    again = call("train", "--moves", "--resume", out)
    assert again.returncode == 0, again.stderr
    assert MachineValue.load(out / "value.npz").digest == value.digest
    assert MachineValue.load(out / "generations" / "generation-2.npz").digest == learnt.digest


def test_searches_options_of_a_rule(call, refused, tmp_path):
    out = tmp_path / "run"
    small = ["--trace", "synthetic:google", "--sequences", 2, "--validation", 2, "--machines", 4, "--workloads", 20]
    search = ["train", "--moves", "--algo", "policy-search", *small]
    places = "expected-cost(opening=200)-backfill"
    done = call(*search, "--rule", "greedy", "--places", places, "--comparison-sequences", 0, "--out", out)
    assert done.returncode == 0, done.stderr
    rule = json.loads((out / "rule.json").read_text())["rule"]
    assert f"{places} + {rule}" in done.stdout
    (out / "rule.json").write_text("{")
    refused("train", "--moves", "--resume", out, message=["rule.json", "damaged"])
    (out / "rule.json").unlink()
    again = call("train", "--moves", "--resume", out)
    assert again.returncode == 0, again.stderr
    assert json.loads((out / "rule.json").read_text())["rule"] == rule
    refused(*search, "--no-from-shipped", message=["from_shipped", "policy-search"])
    refused(*search, "--places", "spread", message=["places is 'spread'", "expected-cost"])
    refused(*search, "--gammas", 0.8, message=["gammas", "policy-search"])
    refused(*search, "--rule", "karpenter", message=["karpenter", "greedy-evacuate"])
    refused("train", "--moves", *small, "--rule", "greedy", message=["rule is greedy", "machine-value"])


@pytest.mark.outside
def test_compares_with_tuned_rules(call, tmp_path):
    done = call("train", "--moves", *SMALL, "--comparison-sequences", 2, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert "learnt moves on 2 unseen sequences" in done.stdout
    rows = pl.read_csv(tmp_path / "run" / "evaluation" / "rows.csv")
    assert {"expected-cost", "expected-cost + learnt"} < set(rows["scheduler"])
    about = json.loads((tmp_path / "run" / "evaluation" / "run.json").read_text())
    assert about["schedulers"]["expected-cost + learnt"].endswith("value.npz")
    assert (rows.filter(pl.col("scheduler") == "expected-cost")["moves"] == 0).all()


def test_what_moves_bring_is_said_of_pairs():
    """By hand: learnt is 100 thousand better than no moves on each sequence, and 10 worse than the best rule."""
    names = {"expected-cost + learnt": -200, "expected-cost": -300, "expected-cost + evacuate": -190}
    rows = pl.DataFrame(
        [
            {"scheduler": name, "load": 0.5, "sequence": i, "reward": 1000.0 * (mean + i), "unplaced": 0}
            for name, mean in names.items()
            for i in range(3)
        ]
    )
    said = what_moves_bring(rows, "expected-cost + learnt", ["expected-cost + evacuate"])
    assert "against no moves: +100.0 thousand [+100.0, +100.0] (+33.4 %), surely better" in said
    assert "evacuate: -10.0 thousand [-10.0, -10.0] (-5.3 %), surely worse" in said


def test_bad_input_is_refused(refused, tmp_path):
    refused("train", "--moves", "--resume", tmp_path, message=["no run of tvwrl train --moves"])
    refused("train", "--moves", "--moves-per-slot", 0, message=["moves_per_slot is 0"])
    refused("train", "--moves", "--K-m", -1, message=["K_m"])
    refused("train", "--moves", "--gammas", 1, message=["gammas is 1"])
    refused("train", "--moves", "--loads", "0.5,0.5", message=["loads"])
    refused("train", "--moves", "--algo", "sb3-ppo", message=["--algo"])
    no_start = ["train", "--moves", "--algo", "ppo", "--no-from-shipped"]
    refused(*no_start, "--risks", "1,2", message=["risks are", "give one"])
    refused("train", "--K-m", 300, message=["K_m is 300", "nothing moves", "tvwrl train --moves"])
    refused("tune", "--K-m", 300, message=["K_m is 300", "nothing moves"])
    refused("evaluate", "--immovable", 0.5, message=["immovable is 0.5", "add --moves-per-slot"])
    named = "expected-cost,expected-cost + greedy"
    refused(
        "evaluate", "--schedulers", named, message=["'expected-cost + greedy' moves what runs", "--moves-per-slot 2"]
    )
    refused("train", "--algo", "policy-search", message=["tvwrl train --moves --algo policy-search"])
    refused("train", "--moves", "--algo", "ppo", "--epochs", 2, message=["epochs is 2", "algo ppo has no epochs"])
    refused("train", "--moves", "--clip", 0.1, message=["clip is 0.1", "machine-value has no clip"])
    refused("train", "--moves", "--seconds", 0, message=["seconds is 0"])
