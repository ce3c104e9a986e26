"""`tvwrl dataset`: what is recorded is what a scheduler did, and others can learn from it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

import tvwrl
from tvwrl.benchmark.dataset import dataset_id_of, record_dataset
from tvwrl.benchmark.tasks import TASKS, Task, forecaster_of, problem_of
from tvwrl.cli.dataset import DatasetSettings, write_dataset
from tvwrl.penalties import TERMS
from tvwrl.schedulers import Runner, make_scheduler
from tvwrl.types import InputError

pytest.importorskip("h5py")
minari = pytest.importorskip("minari")


@pytest.fixture(autouse=True)
def datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Minari keeps its datasets."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path / "minari"


@pytest.fixture(autouse=True)
def known_to_gymnasium(small: Task, moving: Task) -> Iterator[None]:
    for task in (small, moving):
        gym.register(f"tvwrl/{task.name}", "tvwrl.benchmark.environment:TaskEnv", kwargs={"task": task.name})
    yield
    for task in (small, moving):
        gym.registry.pop(f"tvwrl/{task.name}")


def content(name: str) -> list[np.ndarray]:
    """All arrays of a dataset."""
    found = []
    for episode in minari.load_dataset(name):
        arrays = {**episode.observations, **episode.infos}
        found += [arrays[key] for key in sorted(arrays)]
        found += [episode.actions, episode.rewards, episode.terminations, episode.truncations]
    return found


def replayed(name: str) -> Iterator[tuple[object, dict[str, float]]]:
    """Episodes of a dataset, and what their actions cost in the environment that it recovers, which must pay alike."""
    dataset = minari.load_dataset(name)
    env = dataset.recover_environment()
    for episode, facts in zip(dataset, dataset.storage.get_episode_metadata(dataset.episode_indices), strict=True):
        sequence = int(facts["options"]["sequence"])
        observation, _ = env.reset(seed=facts["seed"], options={"sequence": sequence})
        costs = dict.fromkeys(TERMS, 0.0)
        for t, action in enumerate(episode.actions.tolist()):
            for key, array in observation.items():
                assert np.array_equal(array, episode.observations[key][t])
            mask = env.get_wrapper_attr("action_masks")()
            assert np.array_equal(mask, episode.infos["action_mask"][t])
            observation, reward, terminated, truncated, info = env.step(action)
            assert (reward, terminated, truncated) == (
                episode.rewards[t], episode.terminations[t], episode.truncations[t]
            )  # fmt: skip
            costs = {term: cost + info[term] for term, cost in costs.items()}
        assert terminated or truncated
        assert not (episode.terminations | episode.truncations)[:-1].any()
        yield episode, costs


PLACING = ["random", "best-fit", "spread", "kube-default", "expected-cost", "best-fit-peak", "clairvoyant", "n-sigma"]
MOVING = ["expected-cost + evacuate", "expected-cost + karpenter", "expected-cost + greedy-evacuate", "machine-value"]


@pytest.mark.parametrize(
    ("called", "scheduler"),
    [("small-v1", name) for name in PLACING] + [("small-move-v1", name) for name in (*MOVING[:3], "spread")],
)
def test_recorded_actions_cost_what_the_referee_finds_the_scheduler_to_cost(called: str, scheduler: str) -> None:
    task = TASKS[called]
    name = record_dataset(task, [scheduler], episodes=2, seed=5)
    problem = problem_of(task)
    if make_scheduler(scheduler).needs_forecasts:
        problem = replace(problem, forecaster=forecaster_of(task))
    drawn = problem.sequences("train", 2, 5)
    runner = Runner(drawn, problem.machines, problem.scenario, 5)
    moved = 0
    for i, (episode, costs) in enumerate(replayed(name)):
        row = problem.score(runner.play(make_scheduler(scheduler), i))
        assert row["unplaced"] == 0
        assert -sum(costs.values()) == pytest.approx(row["reward"], rel=1e-12)
        assert episode.rewards.sum() * task.penalty_unit == pytest.approx(row["reward"], rel=1e-12)
        assert episode.terminations[-1]
        moved += row.get("moves", 0)
    assert (moved > 0) == (scheduler in MOVING)


def test_several_take_turns_and_the_same_seed_gives_the_same(small: Task) -> None:
    first = record_dataset(small, ["random", "expert", "medium"], episodes=4, seed=1)
    again = record_dataset(small, ["random", "expert", "medium"], episodes=4, seed=1, dataset_id="mine/again-v0")
    other = record_dataset(small, ["random", "expert", "medium"], episodes=4, seed=2, dataset_id="mine/other-v0")
    assert first == "tvwrl/small/random-and-expert-and-medium-v1"
    assert all(map(np.array_equal, content(first), content(again)))
    assert not all(map(np.array_equal, content(first), content(other)))
    dataset = minari.load_dataset(first)
    facts = list(dataset.storage.get_episode_metadata(range(4)))
    assert [one["scheduler"] for one in facts] == ["random", "expert", "medium", "random"]
    assert [int(one["options"]["sequence"]) for one in facts] == [0, 1, 2, 3]
    metadata = dataset.storage.metadata
    assert metadata["algorithm_name"] == "random, expert (expected-cost), medium (spread)"
    assert metadata["task"]["sequences_hash"] == small.sequences_hash
    assert {first, again, other} == set(minari.list_local_datasets())


def test_only_training_workloads_are_recorded(small: Task) -> None:
    name = record_dataset(small, ["spread"], episodes=3)
    env = minari.load_dataset(name).recover_environment()
    used = set(env.unwrapped.simulation.sequences.workload_id.flat)
    judge = minari.load_dataset(name).recover_environment(eval_env=True)
    assert not used & set(judge.unwrapped.simulation.sequences.workload_id.flat)
    tested = set(problem_of(small).sequences("test", small.sequences, small.seed).workload_id.flat)
    assert used
    assert not used & tested


def test_what_is_observed_can_be_chosen_and_parts_are_put_together_from_it(small: Task) -> None:
    from tvwrl.envs.observations import Costs, Head, Machines, PerMachine, Progress, Room

    options = {"observe_forecast": True, "history": 4}
    name = record_dataset(small, ["expert"], episodes=1, observe=options)
    dataset = minari.load_dataset(name)
    assert dataset.env_spec.kwargs == {"task": small.name, "sequences": 1, "seed": 0, "hold_action": True, **options}
    assert dataset.action_space.n == 5
    (episode,) = dataset
    rows = PerMachine(Costs(), Room(), Machines(), Head(), Progress())
    env = tvwrl.make(
        small.name, observation=[rows], **{k: v for k, v in dataset.env_spec.kwargs.items() if k != "task"}
    )
    known = {key: episode.infos[key] for key in ("machines", "progress")}
    offline = env.view.batch({**episode.observations, **known})[rows.name]
    observation, _ = env.reset(options={"sequence": 0})
    for t, action in enumerate(episode.actions.tolist()):
        assert np.array_equal(observation[rows.name], offline[t])
        observation, *_ = env.step(action)


@pytest.mark.parametrize(
    ("of", "observe", "message"),
    [
        (["n-sigma"], {"hold_action": False}, "lets workloads wait, and no action says that: give --observe hold"),
        (["best-fit-backfill"], {}, "places workload [2-5] of the queue.*give --observe choose_from_queue=true"),
    ],
)
def test_decisions_that_no_action_says_are_refused(
    datasets: Path, of: Sequence[str], observe: dict[str, bool], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        record_dataset("google-0.8-v1", of, episodes=8, observe=observe)
    assert not minari.list_local_datasets()
    assert not list(datasets.rglob("*.partial"))


def test_what_chooses_from_the_queue_is_recorded_with_actions_that_do(small: Task) -> None:
    name = record_dataset(small, ["best-fit-backfill"], episodes=2, observe={"choose_from_queue": True})
    for episode, _ in replayed(name):
        assert episode.infos["action_mask"].shape[1] == 5 * 4 + 1


def test_a_function_in_a_file_is_recorded_with_what_it_observes(small: Task, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("def entry(observation, mask):\n    return int(mask[:-1].argmax())\n")
    name = record_dataset(small, [str(path)], episodes=1)
    assert name == "tvwrl/small/mine-v1"
    for episode, _ in replayed(name):
        assert np.array_equal(episode.actions, episode.infos["action_mask"][:-1, :-1].argmax(axis=1))


def test_an_episode_that_never_ends_is_cut_where_the_environment_cuts_it(small: Task, tmp_path: Path) -> None:
    path = tmp_path / "waits.py"
    path.write_text("def entry(observation, mask):\n    return 4 if mask[4] else 0\n")
    name = record_dataset(small, [str(path)], episodes=1)
    for episode, _ in replayed(name):
        assert episode.truncations[-1] or episode.terminations[-1]
        assert episode.infos["slots"].sum() <= small.scenario.max_slots


def test_it_is_there_whole_or_not_at_all(small: Task, datasets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tvwrl.benchmark import dataset as module

    record, seen = module._recorded, []

    def interrupted(*arguments: object) -> object:
        seen.append(1)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return record(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(module, "_recorded", interrupted)
        with pytest.raises(KeyboardInterrupt):
            record_dataset(small, ["spread"], episodes=3)
    assert not minari.list_local_datasets()
    assert not [path for path in datasets.rglob("*") if path.suffix in (".hdf5", ".partial")]
    name = record_dataset(small, ["spread"], episodes=1)
    with pytest.raises(InputError, match=f"there is already a dataset {name} in .*: give another --id, or remove it"):
        record_dataset(small, ["spread"], episodes=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"of": ()}, "nobody plays: give --of NAME"),
        ({"of": ("mixed",)}, "of is 'mixed': name those that take turns"),
        ({"of": ("expertt",)}, "'expertt' is neither a training run nor a scheduler"),
        ({"of": ("spread", "random"), "episodes": 1}, "episodes is 1: must be at least 2"),
        ({"of": ("spread",), "id": "google-0.5"}, "id is 'google-0.5': must be NAMESPACE/NAME-vN"),
        ({"of": ("spread",), "id": "mine"}, "id is 'mine': must be NAMESPACE/NAME-vN"),
        ({"of": ("spread",), "observe": ("K_w=1.0",)}, "'K_w' is fixed by the task"),
        ({"of": ("spread",), "observe": ("history",)}, "must be FIELD=VALUE"),
    ],
)
def test_bad_options_are_refused(small: Task, options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        write_dataset(DatasetSettings(small.name, **options))
    assert not minari.list_local_datasets()


def test_the_usual_name_has_the_version_of_the_task() -> None:
    assert dataset_id_of(TASKS["google-0.5-v1"], ["runs/mine/"]) == "tvwrl/google-0-5/mine-v1"
    assert dataset_id_of(TASKS["google-0.5-move-v1"], ["a/b.onnx", "n-sigma(n=3)"]) == (
        "tvwrl/google-0-5-move/b-and-n-sigma-n-3-v1"
    )


@pytest.mark.slow
def test_a_stranger_recovers_the_environment_and_clones_the_behaviour(capsys: pytest.CaptureFixture[str]) -> None:
    write_dataset(DatasetSettings("google-0.5-v1", ("expert",), episodes=60))
    name = capsys.readouterr().out.split('"')[1]
    code = f"import minari; print(minari.load_dataset('{name}').recover_environment().reset(seed=0)[0]['queue'].shape)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "(5, 7)\n"

    import torch

    dataset = minari.load_dataset(name)

    def rows_of(
        seen: dict[str, np.ndarray],
    ) -> torch.Tensor:  # of each machine: its last five slots, and the queue's head
        grid, queue = (torch.from_numpy(np.asarray(seen[key])).float() for key in ("grid", "queue"))
        used = (grid[:, :, :, -5:] > 0).float().mean(-1).flatten(2)
        head = queue[:, 0, 1:] / 8
        label = torch.nn.functional.one_hot(queue[:, 0, 0].long(), 7).float()
        same = (grid[:, :, 0, -1] == queue[:, 0, 0, None, None]).float().mean(-1, keepdim=True)
        about = torch.cat([head, label], 1)[:, None].expand(-1, grid.shape[1], -1)
        return torch.cat([used, same, about], 2)

    rows = torch.cat([rows_of(episode.observations)[:-1] for episode in dataset])
    mask = torch.cat([torch.from_numpy(episode.infos["action_mask"][:-1]) for episode in dataset])
    action = torch.cat([torch.from_numpy(episode.actions) for episode in dataset])
    kept = (action < 10) & mask[torch.arange(len(action)), action]
    rows, mask, action = rows[kept], mask[kept, :10], action[kept]
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(rows.shape[2], 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(1000):
        part = torch.randint(len(action), (256,))
        logits = net(rows[part])[..., 0].masked_fill(~mask[part], -1e9)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits, action[part]).backward()
        optimizer.step()

    def cloned(observation: dict[str, np.ndarray], allowed: np.ndarray) -> int:
        with torch.no_grad():
            logits = net(rows_of({key: array[None] for key, array in observation.items()}))[0, :, 0].numpy()
        return int(np.where(allowed, logits, -np.inf).argmax())

    found = tvwrl.compare({"cloned": cloned}, sequences=20, against=["random"], bounds=False)
    means = {name: rows["reward"].mean() for (name,), rows in found.rows.group_by("scheduler")}
    assert means["cloned"] > 0.85 * means["random"]  # rewards are below 0
