"""`tvwrl.compare`: every kind of entry, the table, and what bad entries get to hear."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
import torch
from gymnasium.spaces import Box
from polars.testing import assert_frame_equal
from stable_baselines3 import PPO

import tvwrl
from tvwrl import progress
from tvwrl.benchmark import comparison as comparison_module
from tvwrl.benchmark.entries import Setting, entry_of
from tvwrl.benchmark.environment import TaskEnv
from tvwrl.benchmark.models import checked_action, of_torch
from tvwrl.benchmark.tasks import TASKS, problem_of, sequences_hash, trace_of
from tvwrl.envs.observations import Costs, Machines, PerMachine, Room
from tvwrl.envs.problem import Problem
from tvwrl.schedulers.head_of_queue import HeadOfQueue
from tvwrl.schedulers.knowledge import CURRENT_LOAD, Knowledge
from tvwrl.schedulers.runner import Runner
from tvwrl.types import InputError

KEPT = ("sequence", "workload_id", "arrival", "start", "finish", "machine")


def first(observation, mask):
    """The first machine."""
    return int(np.flatnonzero(mask)[0])


class First(HeadOfQueue):
    """The same as a scheduler."""

    name, knowledge = "first", CURRENT_LOAD

    def choose(self, cluster, workload):
        return 0


class Linear(torch.nn.Module):
    """A module of the expected form that prefers the first machine."""

    def forward(self, seen):
        return -torch.arange(4.0)[None] + 0.0 * seen["queue"].sum()


def played(comparison, name):
    """What an entry placed where."""
    return comparison.episodes.filter(pl.col("scheduler") == name).select(KEPT)


def alone(act, task, **options):
    """A comparison on one sequence with nobody."""
    return tvwrl.compare({"mine": act}, task, 1, against=(), bounds=False, **options)


def here(given, task, **observe):
    """The machines that an entry chooses on one sequence, in this process."""
    entry = entry_of("mine", given, replace(Setting.of_task(task), apart=False), observe)
    problem = entry.problem or problem_of(task)
    runner = Runner(problem.sequences("test", 1, task.seed), problem.machines, problem.scenario, task.seed)
    return runner.play(entry.scheduler, 0).machine.tolist()


def test_entries_of_every_kind_that_decide_alike_place_alike(small, tmp_path):
    file = tmp_path / "first.py"
    file.write_text("def entry(observation, mask):\n    return mask.argmax()\n")
    entries = {"function": first, "scheduler": First(), "module": Linear(), "file": file}
    everywhere = {"mask": "any"}  # so that the first machine is always allowed
    found = tvwrl.compare(entries, small, 2, against=("best-fit-peak", "clairvoyant"), observe=everywhere)
    for name in entries:
        assert_frame_equal(played(found, name), played(found, "function"))
    assert set(played(found, "function")["machine"]) == {0}
    assert found.rows.height == 6 * 2
    assert found.origins["file"] == "Python file first.py: function entry"
    assert {"slots_gap_pct", "overshoot_pct", "wait_mean", "decision_ms"} <= set(found.rows.columns)
    assert "Reward of `function` minus that of each other scheduler" in found.table()
    assert "gap closed %" in found.table()
    assert "-- the whole future" in str(found)


def test_a_comparison_can_be_written(small, tmp_path):
    found = alone(first, small)
    assert_frame_equal(pl.read_parquet(found.write(tmp_path / "out") / "episodes.parquet"), found.episodes)
    assert (tmp_path / "out" / "run.json").is_file()
    with pytest.raises(InputError, match="not empty"):
        found.write(tmp_path / "out")


def test_a_function_plays_as_in_the_environment(small):
    """By hand: the same decisions in `PlacementEnv` on the test sequence, to the end."""
    from tvwrl.envs import PlacementEnv

    def emptiest(observation, mask):
        free = (observation["grid"][:, :, -1] == 0).sum(axis=(1, 2))
        room = free.max() >= observation["queue"][0, -2:].sum()
        return int(free.argmax()) if room or not mask[-1] else len(mask) - 1  # it waits for room

    held = {"hold_action": True}
    problem = problem_of(small, held)
    env = PlacementEnv(problem.sequences("test", 1, 0), scenario=problem.scenario)
    seen, _ = env.reset(options={"sequence": 0})
    total, over = 0.0, False
    while not over:
        seen, reward, over, *_ = env.step(emptiest(seen, env.action_masks()))
        total += reward
    assert alone(emptiest, small, observe=held).rows["reward"][0] == pytest.approx(total)


def test_a_model_of_stable_baselines(small):
    model = PPO("MultiInputPolicy", TaskEnv(small, sequences=2), n_steps=8, batch_size=8, seed=0)
    found = alone(model, small)
    assert found.origins == {"mine": "model PPO"}
    with pytest.raises(
        InputError, match=r"trained on a different observation: its 'queue' is \(5, 7\), here it is \(5, 5\)"
    ):
        here(model, small, observe_demand=False)
    with pytest.raises(
        InputError, match=r"actions Discrete\(4\), here .*; give compare\(observe={'hold_action': False"
    ):
        here(model, small, hold_action=True)


def test_a_model_that_observes_one_array(small):
    box, actions = Box(0.0, 1.0, (3,)), TaskEnv(small, sequences=2).action_space
    model = SimpleNamespace(predict=lambda seen, deterministic: (0, None), observation_space=box, action_space=actions)
    with pytest.raises(InputError, match=r"'mine', sequence 0.*the model observes Box\(.*: give a function"):
        here(model, small)


def test_masks_go_to_models_that_take_them(small):
    def predict(observation, deterministic, action_masks):
        assert deterministic
        return np.array(np.flatnonzero(action_masks)[0]), None

    env = TaskEnv(small, sequences=2)
    model = SimpleNamespace(predict=predict, observation_space=env.observation_space, action_space=env.action_space)
    assert here(model, small) == here(first, small)


def test_an_onnx_file_of_somebody_else(small, tmp_path):
    helper, kinds = pytest.importorskip("onnx").helper, pytest.importorskip("onnx").TensorProto
    pytest.importorskip("onnxruntime")
    shape = [1, 4]
    mask, logits = (helper.make_tensor_value_info(name, kinds.FLOAT, shape) for name in ("mask", "logits"))
    graph = helper.make_graph([helper.make_node("Identity", ["mask"], ["logits"])], "mine", [mask], [logits])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    file = tmp_path / "mine.onnx"
    file.write_bytes(model.SerializeToString())
    found = alone(str(file), small, observe={"mask": "any"})
    assert set(played(found, "mine")["machine"]) == {0}
    assert found.origins == {"mine": "ONNX file mine.onnx"}


def test_the_inputs_of_an_onnx_file(small, monkeypatch, tmp_path):
    """With a stand-in for onnxruntime, which need not be installed."""
    file = tmp_path / "policy.onnx"
    file.touch()
    queue = {"name": "queue", "type": "tensor(double)", "shape": ["batch", 5, 7]}
    inputs = [
        SimpleNamespace(name="grid", type="tensor(uint8)", shape=[1, None, None, None, None]),
        SimpleNamespace(name="mask", type="tensor(bool)", shape=[1, 4]),
        SimpleNamespace(**queue),
    ]

    class Session:
        def __init__(self, path, options, providers):
            assert path == str(file)
            if not inputs:
                raise RuntimeError("Protobuf parsing failed")

        def get_inputs(self):
            return inputs

        def run(self, outputs, given):
            assert {name: str(array.dtype) for name, array in given.items()} == {
                "queue": "float64",
                "grid": "uint8",
                "mask": "bool",
            }
            assert (given["queue"].shape, given["mask"].shape) == ((1, 5, 7), (1, 4))
            return [-np.arange(4.0)[None]]

    monkeypatch.setitem(
        sys.modules, "onnxruntime", SimpleNamespace(InferenceSession=Session, SessionOptions=SimpleNamespace)
    )
    assert here(file, small) == here(first, small)
    for change, message in (
        ({"name": "x"}, "input 'x' is not observed; observed are backlog, grid, queue, mask"),
        ({"shape": [1, 5, 3]}, r"input 'queue' is \(1, 5, 3\), here it is \(1, 5, 7\); give compare\(observe=\.\.\.\)"),
        (
            {"name": "mask", "shape": [1, 5]},
            r"is \(1, 5\), here it is \(1, 4\); give compare\(observe={'hold_action': True}",
        ),
        ({"type": "tensor(string)"}, r"input 'queue' is a tensor\(string\): must be a tensor of numbers"),
    ):
        inputs[-1] = SimpleNamespace(**(queue | change))
        with pytest.raises(InputError, match=message):
            here(file, small)
    inputs.clear()
    with pytest.raises(InputError, match=r"entry 'mine': .*policy\.onnx is not an ONNX model: Protobuf parsing failed"):
        here(file, small)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(InputError, match="needs onnxruntime: pip install onnxruntime"):
        here(str(file), small)
    with pytest.raises(InputError, match=r"no\.onnx: no such file"):
        alone("no.onnx", small)


def test_who_observes_more_plays_the_same_sequences(small):
    def look(observation, mask):
        assert (observation["queue"].shape, len(mask)) == ((5, 3), 5)
        return 0

    found = tvwrl.compare(
        {"mine": look},
        small,
        1,
        against=("spread",),
        bounds=False,
        observe={"observe_request": False, "hold_action": True},
    )
    assert found.knowledge["mine"].group == "current load and history"
    mine, theirs = (played(found, name).select("workload_id", "arrival") for name in ("mine", "spread"))
    assert_frame_equal(mine, theirs)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (4, "the action is 4: must be 0 to 3"),
        (-1, "the action is -1: must be 0 to 3"),
        (0.5, r"the action is 0\.5: must be a whole number"),
        (np.array([0, 1]), "must be a whole number"),
        (None, "the action is None: must be a whole number"),
        (True, "the action is True: must be a whole number"),
        (np.array([True]), "must be a whole number"),
    ],
)
def test_actions_outside_the_space(action, message):
    with pytest.raises(InputError, match=message):
        checked_action(action, 4)


def test_an_action_outside_the_space_is_refused_with_sequence_and_slot(small):
    with pytest.raises(InputError, match=r"'mine', sequence 0, slot \d+: the action is 4: must be 0 to 3"):
        alone(lambda observation, mask: 4, small)


class Sick(torch.nn.Module):
    """Its output is `value`."""

    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, seen):
        return self.value


class Reads(torch.nn.Module):
    """Takes the array `key` as logits."""

    def __init__(self, key):
        super().__init__()
        self.key = key

    def forward(self, seen):
        return seen[self.key]


def test_a_module_sees_the_mask_and_hears_which_keys_there_are(small):
    assert here(Reads("mask"), small) == here(first, small)
    with pytest.raises(InputError, match=r"KeyError: 'quue'; the module's input has the keys grid, queue, .*mask"):
        here(Reads("quue"), small)


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (torch.tensor([[0.0, torch.nan, 0.0, 0.0]]), "the model's output is NaN for action 1"),
        (torch.zeros(1, 3), r"output has shape \(1, 3\): must be \(1, 4\)"),
        ((torch.zeros(1, 4), torch.zeros(1, 1)), r"a tuple: must be a tensor \(1, 4\) of logits; wrap the module"),
        (torch.full((1, 4), -torch.inf), "output is -inf for every action that is allowed"),
    ],
)
def test_sick_models(output, message):
    with pytest.raises(InputError, match=message):
        of_torch(Sick(output)).act({}, np.ones(4, np.bool_))


@pytest.mark.parametrize(
    ("entries", "options", "message"),
    [
        ({}, {}, r"entries is {}: must map names to schedulers, as in compare\({'mine': act}\)"),
        (first, {}, "entries is <function first .*: must map names to schedulers"),
        ({1: first}, {}, "entry 1: a name has letters"),
        ({"mine": first}, {"task": 5}, "task is 5: must be a name"),
        ({"mine": first}, {"sequences": 1.5}, r"sequences is 1\.5: must be a whole number"),
        ({"mine": first}, {"against": "spread"}, r"against is 'spread': must be names .* against=\('spread', "),
        ({"mine": first}, {"observe": "hold_action"}, "observe is 'hold_action': must map fields to values"),
        ({"spread": first}, {}, "has the name of a scheduler that it is compared with"),
        ({"../up": first}, {}, "a name has letters"),
        ({"mine": 3}, {}, "entry 'mine': it is 3: must be a function"),
        ({"mine": First}, {}, r"entry 'mine': it is a class: give an instance, First\(\)"),
        ({"mine": "bset-fit"}, {}, "'bset-fit' is neither a training run nor a scheduler: did you mean best-fit"),
        (
            {"mine": "google-0.5-v1"},
            {},
            "it is a task, which is named by `task`",
        ),
        ({"mine": "kube-default(foo=1)"}, {}, r"^kube-default has no option 'foo'"),
        ({"mine": "n-sigma(n=3"}, {}, r"^scheduler is 'n-sigma\(n=3': brackets do not match; write NAME"),
        ({"mine": "mine.py"}, {}, r"^entry 'mine': mine\.py: no such file$"),
        ({"mine": "runs/mine"}, {}, r"^runs/mine: no such file or folder$"),
        ({"mine": "mine.pt"}, {}, r"^mine\.pt: no such file or folder$"),
        ({"mine": "crane(threshold=65)"}, {}, r"threshold is 65\.0: must be a fraction above 0 and at most 1"),
        ({"mine": "katalyst-load(threshold=0.7)"}, {}, r"threshold is 0\.7: must be a percentage, 1 to 100"),
        ({"mine": first}, {"sequences": 4}, "sequences is 4: must be 1 to 3"),
        ({"mine": first}, {"observe": {"load": 0.1}}, "is fixed by the task"),
        (
            {"mine": first},
            {"against": ("sprad",)},
            r"^'sprad' is neither a training run nor a scheduler: did you mean spread",
        ),
    ],
)
def test_what_cannot_enter(small, entries, options, message):
    with pytest.raises(InputError, match=message):
        tvwrl.compare(entries, **({"task": small} | options))


def test_a_scheduler_has_to_say_what_it_may_know(small):
    class Silent(First):
        knowledge = None

    class Vague(First):
        knowledge = "stuff"

    class Odd(First):
        knowledge = Knowledge("stuff", "")

    with pytest.raises(InputError, match="does not say what it knows"):
        alone(Silent(), small)
    with pytest.raises(InputError, match="entry 'mine': it has the knowledge 'stuff': set knowledge = CURRENT_LOAD"):
        alone(Vague(), small)
    with pytest.raises(InputError, match=r"has the knowledge Knowledge\(group='stuff'.*: set knowledge = CURRENT_LOAD"):
        alone(Odd(), small)


def test_models_that_others_saved(small, tmp_path):
    """Neither is a training run: their owner has to load them."""
    weights, saved = tmp_path / "weights.pt", tmp_path / "ppo.zip"
    torch.save({"linear": torch.zeros(3)}, weights)
    saved.touch()
    with pytest.raises(InputError, match="Load them into your module, and give the module"):
        alone(weights, small)
    with pytest.raises(InputError, match=r"Load it, as with PPO\.load, and give the model"):
        alone(str(saved), small)


def test_a_task_that_is_unknown():
    with pytest.raises(InputError, match="did you mean"):
        tvwrl.compare({"mine": first}, "google-05-v1")


def test_own_problems_with_other_sequences_are_refused(small, tmp_path):
    from tvwrl.benchmark.tasks import trace_of
    from tvwrl.experiments.evaluation import EvaluationSetup, Player, evaluate

    other = Problem.build(trace_of(small), TASKS["google-0.3-v1"].scenario, "none")
    with pytest.raises(InputError, match="only what is observed may differ"):
        evaluate(EvaluationSetup(problem_of(small), [0.5], 1), [Player(First(), problem=other)], tmp_path / "out")


def cheapest(observation, mask):
    """The machine with room where the head of the queue costs least, by `Costs`; it waits as `expected-cost` does."""
    room, danger, unused = observation["permachine"].T
    best = int(np.where(room > 0, danger + unused, np.inf).argmin())
    waits = not room.any() or danger[best] > 500 * 50 / 6400
    return len(mask) - 1 if waits and mask[-1] else best


def test_a_function_that_observes_parts_decides_as_the_rule_behind_them(small, tmp_path):
    parts = [PerMachine(Room(), Costs())]
    more = {"observe": {"hold_action": True}, "observation": parts, "bounds": False}
    found = tvwrl.compare({"mine": cheapest}, small, against=["expected-cost"], **more)
    rewards = {
        name: part["reward"].to_list() for (name,), part in found.rows.group_by("scheduler", maintain_order=True)
    }
    assert rewards["mine"] == pytest.approx(rewards["expected-cost"])
    assert found.observe == {"hold_action": True, "observe_demand": True, "observe_forecast": True}
    with pytest.raises(InputError, match=r"entries observed parts \(permachine\), which a submission cannot hold"):
        tvwrl.submit(found, tmp_path / "mine", name="me")


def test_a_scheduler_observes_no_parts(small):
    class Mine(HeadOfQueue):
        name, knowledge = "own", CURRENT_LOAD

        def choose(self, cluster, workload):
            return 0

    with pytest.raises(InputError, match="observation is for functions and models"):
        tvwrl.compare({"mine": Mine()}, small, against=[], observation=[Machines()], bounds=False)


def never(observation, mask):
    return len(mask) - 1


def test_an_agent_that_never_places_is_cut_as_in_training_and_not_asked_for_ever(small, monkeypatch):
    monkeypatch.setattr("tvwrl.experiments.evaluation.HOPELESS", 2)
    said = []
    monkeypatch.setattr(comparison_module, "say", said.append)
    scenario = replace(small.scenario, max_slots=40)
    problem = Problem.build(trace_of(small), scenario)
    own_hash = sequences_hash(problem.sequences("test", 3, seed=0), problem.sampler)
    task = replace(small, scenario=scenario, sequences_hash=own_hash)
    options = {"observe": {"hold_action": True}, "bounds": False}
    found = tvwrl.compare({"never": never}, task, against=["spread"], **options)
    own = found.rows.filter(pl.col("scheduler") == "never")
    assert own["unplaced"].to_list() == [20] * 3
    assert own["decision_ms"].is_null().to_list() == [False, False, True]
    text = " ".join(str(found).split())
    what = "2 of 2 sequences incomplete, 40 workloads not placed; for that reason not asked on the other 1"
    assert f"No means for never: {what}." in text
    assert "An agent's episode is cut after 40 slots, as in training" in text
    assert any("never left workloads unplaced on each of the first 2 sequences" in line for line in said)
    assert found.table().index("spread") < found.table().index("never")
    with pytest.raises(InputError, match=f"entry 'never': {what}"):
        tvwrl.submit(found, "nowhere", name="me")
    alone = tvwrl.compare({"never": never}, task, against=[], **options)  # then some columns are empty
    assert f"No means for never: {what}." in " ".join(str(alone).split())


def test_an_agent_that_places_now_and_then_is_asked_on_all_sequences(small, monkeypatch):
    monkeypatch.setattr("tvwrl.experiments.evaluation.HOPELESS", 2)

    class Second(HeadOfQueue):  # places nothing of sequence 0
        name, knowledge = "own", CURRENT_LOAD

        def reset(self, cluster, rng):
            self.begun = getattr(self, "begun", 0) + 1

        def choose(self, cluster, workload):
            return None if self.begun <= 2 else 0  # once to load what it needs

    found = tvwrl.compare({"second": Second()}, small, against=[], bounds=False)
    assert found.rows["unplaced"].to_list() == [20, 0, 0]
    assert "No means for second: 1 of 3 sequences incomplete, 20 workloads not placed." in str(found)


def test_a_slow_agent_is_heard_of_in_its_first_episode_and_ctrl_c_ends_it(small, monkeypatch):
    said = []

    def say(text):
        said.append(text)
        if "slow: 0 of 3, in sequence 0: slot " in text:
            os.kill(os.getpid(), signal.SIGINT)

    def slow(observation, mask):
        time.sleep(0.3)
        return int(mask.argmax())

    monkeypatch.setattr(comparison_module, "say", say)
    monkeypatch.setattr(progress, "SOON", 0.5)
    with pytest.raises(KeyboardInterrupt):
        tvwrl.compare({"slow": slow}, small, against=[], bounds=False)
    assert "of 20 workloads placed" in said[-2]
    assert said[-1].startswith("stopped, and nothing is kept: for a first look")
