"""What an entry of --schedulers means, and what a bad one gets to hear."""

from dataclasses import replace

import pytest

from tvwrl.agents.config import PRESETS
from tvwrl.agents.training import Trainer
from tvwrl.envs.problem import Problem
from tvwrl.experiments.scheduler_names import is_of_checkpoint, parts_of, scheduler_of
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.runner import Runner
from tvwrl.types import InputError


def test_parts():
    assert parts_of("tetris") == ("tetris", "", "")
    assert parts_of("deeprm=runs/a+pism=b.npz") == ("deeprm+pism", "runs/a", "b.npz")
    assert parts_of("rollout(spread+policy)=runs/a") == ("rollout(spread+policy)", "runs/a", "")
    quick = "rollout(spread,milliseconds=50)"
    assert parts_of(quick) == (quick, "", "")
    assert parts_of("n-sigma(n=3)-backfill") == ("n-sigma(n=3)-backfill", "", "")
    assert parts_of(f"{quick}+pism=b.npz") == (f"{quick}+pism", "", "b.npz")
    assert parts_of("rollout(spread+policy,horizon=8)=a=b") == ("rollout(spread+policy,horizon=8)", "a=b", "")


def test_options_are_part_of_the_name():
    assert scheduler_of("rollout(spread)", "cpu").name == "rollout(spread)"
    entry = "rollout(best-fit-peak-backfill,milliseconds=2.5,rollouts=40,horizon=8,certainty=0)"
    assert scheduler_of(entry, "cpu").name == entry
    assert scheduler_of("n-sigma(n=3)", "cpu").name == "n-sigma(n=3)"
    assert scheduler_of("n-sigma( n = 3.0 )", "cpu").name == "n-sigma(n=3)"
    assert scheduler_of("rollout(spread, horizon = 8)", "cpu").name == "rollout(spread,horizon=8)"


def test_a_rollout_improves_the_policy_of_the_checkpoint(problem, train):
    policy = make_scheduler("worst-fit-peak")
    scheduler = scheduler_of("rollout(spread+policy,rollouts=20,horizon=8)", "cpu", policy)
    assert scheduler.name == "rollout(spread+policy,rollouts=20,horizon=8)"
    assert (Runner(train, problem.machines, problem.scenario).play(scheduler, 0).start >= 0).all()
    assert scheduler_of("policy", "cpu", policy) is policy
    of_it = {"policy+pism=a.npz", "rollout(spread+policy)", "rollout(spread+policy,horizon=8)+pism=a.npz"}
    others = {"spread", "rollout(spread)", "rollout(spread+policy)=runs/a", "deeprm=runs/a+pism=b.npz"}
    assert {entry for entry in of_it | others if is_of_checkpoint(entry)} == of_it


def test_a_rollout_improves_the_policy_of_a_run(google, tmp_path):
    config = replace(PRESETS["smoke"], train_sequences=2, imitate=0)
    config = replace(config, scenario=replace(config.scenario, machines=3, workloads=6), eval_every=100)
    problem = Problem.build(google, config.scenario, "none")
    trainer = Trainer(problem, config, tmp_path, {}, print)
    trainer.save()
    scheduler = scheduler_of(f"rollout(spread+policy)={tmp_path}", "cpu")
    assert scheduler.name == "rollout(spread+policy)"
    runner = Runner(problem.sequences("test", 1, 0), problem.machines, problem.scenario)
    assert (runner.play(scheduler, 0).start >= 0).all()
    with pytest.raises(InputError, match="base is best-fit-peak: it knows more"):
        scheduler_of(f"rollout(best-fit-peak+policy)={tmp_path}", "cpu")


def test_what_is_missing_or_unknown_is_named():
    for entry, message in (
        ("rollout(spread+policy)", r"rollout\(spread\+policy\)=RUN: the training run of the policy is missing"),
        ("rollout(tetris)", "rollout's base is 'tetris': must be one of .*best-fit-peak,"),
        (
            "rollout(spread,seconds=1)",
            r"'seconds' is not an option; write OPTION=NUMBER, with any of milliseconds, rol",
        ),
        ("rollout(spread,50)", r"rollout\(BASE,50\): '50' is not an option"),
        ("rollout(spread,horizon=8,horizon=9)", "'horizon' is given twice"),
        ("rollout(spread,milliseconds=fast)", "milliseconds is 'fast': must be a number"),
        ("rollout(spread,rollouts=2.5)", r"rollouts is '2.5': must be a whole number"),
        ("rollout(spread,milliseconds=0)", r"milliseconds is 0.0: must be a number > 0"),
        ("rollout(spread,rollouts=1)", "rollouts is 1: must be at least 2"),
        (
            "rollout(tetris,horizon=8)",
            "rollout's base is 'tetris': must be one of .*best-fit,",
        ),
        ("n-sigma(m=3)", r"n-sigma\(m=3\): 'm' is not an option; write OPTION=NUMBER, with any of n"),
        ("n-sigma(n=-1)", "n is -1.0: must be at least 0"),
        ("tetris(n=3)", r"scheduler is 'tetris\(n=3\)': tetris has no options"),
        ("best(n=3)", r"scheduler is 'best\(n=3\)': did you mean best-fit"),
        ("n-sigma(n=3", r"scheduler is 'n-sigma\(n=3': brackets do not match"),
        ("deeprm+pism", r"deeprm\+pism=FILE: the file of tvwrl interference is missing"),
    ):
        with pytest.raises(InputError, match=message):
            scheduler_of(entry, "cpu")
