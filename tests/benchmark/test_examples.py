"""The examples do what docs/how-to/enter-the-benchmark.md says of them."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from PIL import Image

import tvwrl

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.outside
@pytest.mark.parametrize(("example", "entry"), [("own_scheduler", "emptiest"), ("own_agent", "mine")])
def test_an_example_prints_its_table(example, entry):
    command = [sys.executable, f"examples/{example}.py", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [line.split()[0] for line in done.stdout.splitlines() if line]
    assert {entry, "spread", "kube-default", "best-fit-peak", "clairvoyant"} <= set(lines)
    assert "2 sequences" in done.stdout


@pytest.mark.slow
@pytest.mark.outside
@pytest.mark.parametrize(
    ("example", "entry", "options"),
    [
        ("ppo", "ppo", ["--minutes", "0.05", "--sequences", "2"]),
        ("maskable_ppo", "maskable-ppo", ["--timesteps", "256", "--sequences", "2"]),
    ],
)
def test_an_agent_trains_and_joins_the_table(example, entry, options):
    if example == "maskable_ppo":
        pytest.importorskip("sb3_contrib")
    command = [sys.executable, f"examples/{example}.py", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"\n{entry} " in done.stdout


SWITCHES = {
    "hold": ("none", "discounted"),
    "room_mask": (False,),
    "shared": (False,),
    "forecasts": (False,),
    "rule": (False,),
}


@pytest.mark.slow
@pytest.mark.outside
@pytest.mark.parametrize(("switch", "value"), [(name, value) for name, values in SWITCHES.items() for value in values])
def test_each_insight_of_the_example_can_be_switched_off(switch, value):
    example = runpy.run_path(str(ROOT / "examples" / "ppo.py"))
    args = example["Args"](minutes=0.001, num_envs=4, num_steps=8, **{switch: value})
    agent, observed, options = example["train"](args)
    envs = tvwrl.make_vec(args.task, 2, observation=[observed], **options)
    rows = torch.from_numpy(envs.reset(seed=0)[0][observed.name])
    mask = torch.from_numpy(envs.action_masks())
    policy, value_of_state = agent(rows, mask)
    assert policy.probs.shape == (2, 10 if value == "none" else 11)
    assert value_of_state.shape == (2,)
    order = torch.randperm(10, generator=torch.Generator().manual_seed(0))
    exchanged, _ = agent(rows[:, order], torch.ones_like(mask))
    free, _ = agent(rows, torch.ones_like(mask))
    same = torch.allclose(exchanged.probs[:, :10], free.probs[:, order], atol=1e-5)
    assert same == (switch != "shared")  # one network for all machines, or one that knows them apart
    has_costs = "expected overshoot" in observed.columns(envs.view.about)
    assert has_costs == (switch != "forecasts")
    assert agent.has_rule == (switch not in ("forecasts", "rule"))


@pytest.mark.slow
@pytest.mark.outside
def test_the_insights_are_played_on_the_sequences_that_are_compared(tmp_path):
    insights = runpy.run_path(str(ROOT / "benchmarks" / "insights.py"))
    example = insights["EXAMPLE"]
    agent, observed, options = example["train"](example["Args"](minutes=0.001, num_envs=4, num_steps=8))
    played = insights["play"]("google-0.5-v1", 2, agent, observed, options)

    def act(observation, mask):
        policy, _ = agent(torch.from_numpy(observation[observed.name][None]), torch.from_numpy(np.asarray(mask))[None])
        return int(policy.probs.argmax())

    found = tvwrl.compare({"ppo": act}, "google-0.5-v1", 2, ["spread"], options, observation=[observed])
    for name, rewards in (("ppo", played), ("spread", insights["rule"]("google-0.5-v1", 2, "spread"))):
        rows = found.rows.filter(pl.col("scheduler") == name).sort("sequence")
        assert rewards * 1000 == pytest.approx(rows["reward"].to_numpy())


@pytest.mark.slow
@pytest.mark.outside
def test_an_episode_is_filmed(tmp_path):
    options = ["--out", str(tmp_path / "episode.gif"), "--first", "10", "--frames", "3", "--scheduler", "expected-cost"]
    command = [sys.executable, "examples/episode_gif.py", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == f"3 frames are in {tmp_path / 'episode.gif'}"
    with Image.open(tmp_path / "episode.gif") as film:
        assert (film.n_frames, film.format) == (3, "GIF")


def test_the_first_picture_of_the_readme_is_what_its_caption_says():
    film = runpy.run_path(str(ROOT / "examples" / "episode_gif.py"))
    for page in ("README.md", "docs/index.md"):
        assert film["CAPTION"] in " ".join((ROOT / page).read_text().split())
    picture = ROOT / "docs" / "pictures" / "episode.gif"
    assert picture.stat().st_size < 1_500_000
    with Image.open(picture) as drawn:
        assert drawn.n_frames == film["Args"]().frames


@pytest.mark.slow
@pytest.mark.outside
def test_a_trace_of_ones_own_has_a_table_too(tmp_path):
    usage = tmp_path / "usage.csv"
    rows = [f"w{w},{slot},{0.1 + 0.01 * (slot % 7)},0.2" for w in range(20) for slot in range(300)]
    usage.write_text("\n".join(["workload_id,slot,cpu,mem", *rows]))
    command = [sys.executable, "examples/own_trace.py", str(usage), "1800"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [line.split()[0] for line in done.stdout.splitlines() if line]
    assert {"spread", "kube-default", "best-fit-peak", "clairvoyant"} <= set(lines)


@pytest.mark.slow
@pytest.mark.outside
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_forecaster_of_ones_own_is_judged_beside_the_network():
    command = [
        sys.executable,
        "examples/own_forecaster.py",
        "--trace",
        "google",
        "--sequences",
        "2",
        "--windows",
        "300",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    rewards = {line.split()[0]: float(line.split()[1].replace(",", "")) for line in done.stdout.splitlines()}
    assert rewards.keys() == {"own", "network"}
    assert all(reward < 0 for reward in rewards.values())


@pytest.mark.outside
def test_a_forecaster_of_ones_own_says_what_a_csv_lacks(tmp_path):
    usage = tmp_path / "usage.csv"
    usage.write_text("workload_id,slot,cpu\na,0,0.5\n")
    command = [sys.executable, "examples/own_forecaster.py", "--trace", str(usage)]
    for more, said in (([], "--slot-seconds 300"), (["--slot-seconds", "0"], "slot_seconds: 0")):
        done = subprocess.run([*command, *more], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert done.stderr.startswith(f"error: {usage}")
        assert said in done.stderr
