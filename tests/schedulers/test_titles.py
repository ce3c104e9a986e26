"""What people call schedulers with options, and runs, which are the learnt policy."""

from __future__ import annotations

from tvwrl.schedulers.titles import is_ours, title_of, titles_of

RUN = "google-20261123-172926"


def test_options_and_backfilling_are_kept():
    assert title_of("n-sigma(n=3)-backfill") == "N-sigma (Google), n=3 + backfill"
    assert title_of("rollout(spread,milliseconds=50)") == "Rollout of Spread, milliseconds=50"


def test_rules_that_move_keep_their_options_and_their_file():
    value = "spread + machine-value(most=2)=runs/a/value.npz"
    assert title_of(value) == "Spread + Learnt value of machines, most=2, runs/a/value.npz"
    assert is_ours(value)
    assert not is_ours("spread + karpenter")


def test_a_run_is_the_learnt_policy():
    assert titles_of([RUN, f"{RUN}-initial"]) == {
        RUN: "Learnt policy",
        f"{RUN}-initial": "Learnt policy, before training",
    }
    assert list(titles_of([RUN, "mine"]).values()) == ["Learnt policy google", "Learnt policy mine"]
    again = "google-20261124-000000"
    assert titles_of([RUN, again])[again] == f"Learnt policy {again}"  # without the time, both would be the same


def test_ours_are_the_policies_and_the_rules_of_this_project():
    assert all(map(is_ours, (RUN, "expected-cost-peak", "forecast-fit", "agent-history", "rollout(spread)")))
    assert not any(map(is_ours, ("tetris", "kube-default", "deeprm", "n-sigma(n=3)", "clairvoyant")))
