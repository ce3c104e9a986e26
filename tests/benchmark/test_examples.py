"""The examples do what docs/how-to/enter-the-benchmark.md says of them."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

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
