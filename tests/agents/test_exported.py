"""An exported file schedules as the policy that it was made from, without PyTorch."""

import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.agents.exporting import MORE, checkpoint_of, export_of
from tvwrl.agents.exported import ExportedPolicy, load_exported
from tvwrl.agents.policy_scheduler import PolicyScheduler
from tvwrl.envs.problem import Problem
from tvwrl.explorer.recorder import record
from tvwrl.schedulers.runner import Runner
from tvwrl.types import InputError

PLAYED = ("flat that sees all", "shared that never holds", "pairs with expected-cost")


@pytest.fixture(scope="module", params=PLAYED)
def both(request, problem, tmp_path_factory):
    """A policy as PyTorch computes it, the same from its file, and the file."""
    checkpoint, _ = checkpoint_of(problem, request.param)
    file = tmp_path_factory.mktemp("exported") / "policy.onnx"
    file.write_bytes(export_of(problem, request.param))
    return PolicyScheduler("mine", checkpoint), load_exported(file), file


def runner_for(problem, scheduler, scenario):
    """Test sequences of the scheduler's environment, on perhaps other machines."""
    facts = scheduler.facts
    own = Problem.build(problem.trace, scenario, facts.classes, np.array(facts.unit), facts.forecaster)
    return Runner(own.sequences("test", 4, 0), own.machines, scenario)


def test_whole_episodes_are_equal(problem, both):
    policy, exported, _ = both
    scenarios = [exported.scenario]
    if exported.facts.any_machines:
        scenarios.append(replace(exported.scenario, load=1.0, machine_types=MORE))
    held = 0
    for scenario in scenarios:
        runner = runner_for(problem, exported, scenario)
        for sequence in range(2):
            mine, theirs = runner.play(exported, sequence), runner.play(policy, sequence)
            assert np.array_equal(mine.machine, theirs.machine)
            assert np.array_equal(mine.start, theirs.start)
            held += (mine.start > mine.arrival).sum()
    assert held > 0


def test_opinions_alternatives_and_costs_of_alternatives_are_equal(problem, both):
    policy, exported, _ = both
    runner = runner_for(problem, exported, exported.scenario)
    mine, theirs = (record(runner, scheduler, 0, seconds=1e6) for scheduler in (exported, policy))
    assert np.array_equal(mine.chosen, theirs.chosen)
    assert mine.meaning == theirs.meaning == "probability"
    assert mine.scores == pytest.approx(theirs.scores, abs=1e-5, nan_ok=True)
    assert mine.costs == pytest.approx(theirs.costs, nan_ok=True)


def test_the_file_says_what_the_policy_was_made_for(problem, both):
    policy, exported, _ = both
    assert exported.name == "mine"
    assert exported.knowledge == policy.knowledge
    assert exported.scenario == policy.checkpoint.config.scenario
    assert exported.classes.to_dict() == problem.classes.to_dict()
    assert (exported.forecaster is None) is (not exported.scenario.observe_forecast)
    assert exported.facts.knows(problem.trace)
    assert exported.facts.resources == ("cpu", "mem")
    own = exported.facts.problem(problem.trace)
    assert own.sampler.unit.tolist() == policy.checkpoint.unit


def test_its_forecaster_forecasts_as_the_original(problem, both):
    _, exported, _ = both
    if exported.forecaster is None:
        pytest.skip("it sees no forecasts")
    scenario = exported.scenario
    tables = []
    for forecaster in (exported.forecaster, problem.forecaster):
        own = Problem.build(problem.trace, scenario, exported.classes, np.array(exported.facts.unit), forecaster)
        tables.append(own.sequences("test", 2, 0).forecast.values)
    assert np.array_equal(*tables)
    with pytest.raises(InputError, match="only weights"):
        _ = exported.forecaster.learnt


def test_it_goes_to_other_processes(problem, both):
    _, exported, _ = both
    again = pickle.loads(pickle.dumps(exported))
    runner = runner_for(problem, exported, exported.scenario)
    assert np.array_equal(runner.play(again, 0).machine, runner.play(exported, 0).machine)
    assert exported.fork()._graph is exported._graph
    assert repr(again) == f"<ExportedPolicy name='mine', knows='{exported.knowledge.group}'>"


def test_another_environment_is_refused_by_name(problem, both):
    _, exported, _ = both
    other = replace(exported.scenario, history=5)
    with pytest.raises(InputError, match="policy 'mine' was trained with history 6, not 5"):
        runner_for(problem, exported, other).play(exported, 0)
    if not exported.facts.any_machines:
        wider = replace(exported.scenario, load=1.0, machine_types=MORE)
        with pytest.raises(InputError, match="machines 4, not 11"):
            runner_for(problem, exported, wider).play(exported, 0)


def test_a_file_is_read_and_schedules_without_pytorch(both):
    _, _, file = both
    script = (
        "import sys, numpy as np\n"
        "from tvwrl.agents.exported import load_exported\n"
        f"policy = load_exported({str(file)!r})\n"
        "shapes, wide = policy.facts.shapes, policy.facts.shapes['shows']['forecast']\n"
        "seen = {'grid': np.ones((1, *shapes['grid']), np.uint8), 'queue': np.ones((1, *shapes['queue']), np.float32),"
        " 'backlog': np.zeros((1, 1), np.float32)}\n"
        "seen |= {'forecast': np.ones((1, shapes['grid'][0], wide), np.float32)} if wide else {}\n"
        "assert policy.logits(seen, np.ones((1, shapes['actions']), bool)).shape == (1, shapes['actions'])\n"
        "print([name for name in ('torch', 'onnx', 'onnxscript') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_logits_that_are_no_numbers_are_refused(problem):
    policy = ExportedPolicy.from_bytes(export_of(problem, "shared that never holds"), "it")
    shapes = policy.facts.shapes
    seen = {
        "grid": np.ones((1, *shapes["grid"]), np.uint8),
        "queue": np.full((1, *shapes["queue"]), np.nan, np.float32),
        "backlog": np.zeros((1, 1), np.float32),
    }
    with pytest.raises(InputError, match=r"it gives logits that are not \(1, 4\) finite numbers"):
        policy.logits(seen, np.ones((1, shapes["actions"]), np.bool_))
    with pytest.raises(InputError, match=r"it failed: .*backlog"):
        policy.logits({name: seen[name] for name in ("grid", "queue")}, np.ones((1, 4), np.bool_))
