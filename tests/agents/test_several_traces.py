"""Training on several traces in turn, and from the policy of another run."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tvwrl.agents import training
from tvwrl.agents.config import INFORMED, TrainConfig
from tvwrl.agents.head_start import check_start
from tvwrl.agents.training import Trainer, make_tasks, open_others
from tvwrl.ec import OwnLabels
from tvwrl.envs.problem import Problem
from tvwrl.traces.synthetic import synthetic_trace
from tvwrl.types import InputError

SEEN = replace(INFORMED, machines=4, workloads=12, history=6, observe_forecast=False, observe_peak=True)
TINY = TrainConfig(
    algo="counterfactual",
    iterations=4,
    imitate=2,
    train_sequences=6,
    sequences_per_iteration=6,
    eval_sequences=2,
    hidden=16,
    scenario=SEEN,
)


@pytest.fixture
def other(monkeypatch):
    """Another trace, which opens under the name `other`."""
    trace = synthetic_trace("google", workloads=60, seed=9)
    monkeypatch.setattr(training, "open_trace", lambda name: trace)
    return trace


def make(problem, folder, config, told=None, trace=None):
    there = replace(problem, scenario=config.scenario)
    return Trainer(
        there,
        config,
        folder,
        {"hash": ""} if trace is None else trace,
        (lambda text: None) if told is None else told.append,
    )


def test_it_learns_on_both_traces_in_turn_and_resumes_exactly(problem, other, tmp_path):
    both = replace(TINY, also=("other",))
    played = []
    whole = make(problem, tmp_path / "whole", both)
    iterate = whole.learner.iterate

    def noted(envs, *rest):
        played.append(float(envs.simulation.sequences.demand.sum()))
        return iterate(envs, *rest)

    whole.learner.iterate = noted
    whole.run()
    assert played[0] == played[2] != played[1] == played[3]
    assert len(whole.trace["also"]["other"]) > 10  # its hash
    first = make(problem, tmp_path / "parts", both)
    first.run(stop_after=3)
    second = make(problem, tmp_path / "parts", both)
    second.restore(first.checkpoint())
    second.run()
    for name, weights in whole.policy.state_dict().items():
        assert torch.equal(weights, second.policy.state_dict()[name])


def test_a_trace_that_changed_or_has_other_resources_is_named(problem, other, tmp_path, monkeypatch):
    both = replace(TINY, also=("other",))
    with pytest.raises(InputError, match="also other: the content of this trace has changed"):
        make(problem, tmp_path, both, trace={"hash": "", "also": {"other": "abc"}})
    fewer = replace(other, resources=("cpu",), usage=other.usage[:, :1], request=other.request[:, :1])
    monkeypatch.setattr(training, "open_trace", lambda name: fewer)
    with pytest.raises(InputError, match=r"also other: it has the resources cpu, but trace '.*' has cpu, mem"):
        make(problem, tmp_path, both)
    with pytest.raises(InputError, match="also is other: algo sb3-ppo trains on one trace"):
        replace(both, algo="sb3-ppo")


@pytest.mark.parametrize("classes", [OwnLabels(9), None], ids=["none", "the main trace's"])
def test_each_trace_has_as_many_classes_of_the_same_kind(problem, other, classes):
    there = replace(problem, scenario=SEEN, classes=classes or problem.classes)
    main, second = make_tasks(there, replace(TINY, also=("other",)), [other])
    assert type(second.problem.classes) is type(there.classes)
    assert second.problem.classes.k == there.classes.k
    assert second.shapes == main.shapes


def test_a_trace_that_looks_different_to_the_network_is_refused(problem, other, monkeypatch):
    there = replace(problem, scenario=SEEN)
    fewer = replace(there, trace=other, classes=OwnLabels(2))  # as where few workloads are distinct
    monkeypatch.setattr(Problem, "build", lambda *arguments, **options: fewer)
    with pytest.raises(InputError, match=r"also other: the network would see classes 2, but \d+ of trace 'google'"):
        make_tasks(there, replace(TINY, also=("other",)), [other])


def test_a_trace_is_named_once_and_gets_an_iteration(problem, other, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="also other2: it has the same content as also other; name every"):
        open_others(replace(TINY, also=("other", "other2")), problem.trace)
    monkeypatch.setattr(training, "open_trace", lambda name: problem.trace)
    with pytest.raises(InputError, match="also again: it has the same content as trace 'google'"):
        make(problem, tmp_path, replace(TINY, also=("again",)))
    with pytest.raises(InputError, match=r"also usage\.csv: must be a prepared trace; tvwrl prepare"):
        open_others(replace(TINY, also=("usage.csv",)), problem.trace)
    with pytest.raises(InputError, match=r"also is a, b: .* so iterations, 2, must be at least 3"):
        replace(TINY, also=("a", "b"), iterations=2)


def test_it_starts_from_the_policy_of_another_run(problem, tmp_path):
    before = make(problem, tmp_path / "before", TINY)
    before.run()
    told: list[str] = []
    config = replace(TINY, start_from=str(tmp_path / "before"), iterations=1, seed=5)
    after = make(problem, tmp_path / "after", config, told)
    after.run()
    assert any("initial policy is that of" in line for line in told)
    assert not any("imitated" in line for line in told)
    start = torch.load(tmp_path / "after" / "checkpoints" / "initial.pt", weights_only=True)["policy"]
    best = torch.load(tmp_path / "before" / "checkpoints" / "best.pt", weights_only=True)["policy"]
    assert all(torch.equal(start[name], best[name]) for name in best)
    assert np.isfinite(after.progress[0]["eval_reward"])
    for changes, difference in (
        ({"hidden": 8}, "hidden 16, not 8"),
        ({"policy": "flat"}, "policy shared, not flat"),
        ({"queue": 4}, "queue 5, not 4"),
        (
            {"observe_forecast": True, "observe_peak": False},
            "observe_forecast False, not True",
        ),  # of the same shapes
        ({"choose_from_queue": True}, "choose_from_queue False, not True"),
    ):
        seen = {name: value for name, value in changes.items() if hasattr(SEEN, name)}
        own = {name: value for name, value in changes.items() if name not in seen}
        other = replace(config, scenario=replace(SEEN, **seen), **own)
        with pytest.raises(InputError, match=f"start_from is .*: its policy was trained with {difference}; use"):
            check_start(other, problem.trace.resources, problem.classes.k)
    k = problem.classes.k
    with pytest.raises(InputError, match=f"trained with classes {k}, not {k + 1}"):
        check_start(config, problem.trace.resources, problem.classes.k + 1)
    with pytest.raises(InputError, match="trained with resources cpu, mem, not cpu"):
        check_start(config, ("cpu",), problem.classes.k)
    with pytest.raises(InputError, match="trained with hidden 16, not 8"):
        make(problem, tmp_path / "wide", replace(config, hidden=8)).run()
    for known in (k, None):  # None: as many as the policy knows
        check_start(replace(config, scenario=replace(SEEN, machines=9, load=0.8)), problem.trace.resources, known)
