"""Film an episode: python examples/episode_gif.py; of a training run of your own: ... --run runs/google

Each frame is a slot in which workloads wait: machines as grids of what ran on them, the queue, in red what exceeds a
machine's capacity, and the time. (A Gymnasium environment with `render_mode="rgb_array"` draws the same frames, one per
decision.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro
from PIL import Image

import tvwrl
from tvwrl.agents import Checkpoint, find_checkpoint
from tvwrl.envs import draw_cluster, picture
from tvwrl.schedulers import Runner, Scheduler, make_scheduler, title_of
from tvwrl.simulation import Cluster
from tvwrl.types import Placement, Workload

SCENARIO = tvwrl.Scenario(machines=6, load=0.8)
CAPTION = (  # of the picture in the README, which these defaults make
    f"{SCENARIO.machines} machines, each with its CPU and memory over the last {SCENARIO.history} half-hour slots, the "
    "newest at the bottom. Colours stand for classes of workloads that behave alike; red marks demand above a "
    "machine's capacity. Best-Fit packs by current usage, so machines overflow when workloads grow together."
)


@dataclass
class Args:
    """What is filmed."""

    out: Path = Path("episode.gif")
    run: Path | None = None
    """A training run, whose policy plays on the cluster that it was trained for; default: --scheduler plays."""
    scheduler: str = "best-fit"
    """The name of a scheduler, which plays on six machines."""
    trace: str = "google"
    """Whose workloads arrive; that of the run, if you film one."""
    first: int = 0
    """Slot of the first frame."""
    frames: int = 100
    """How many frames, at most."""
    milliseconds: int = 250
    """How long each frame is shown."""
    pixel: int = 9
    """Side of a grid's pixel at most: small ones leave the text large in a small frame."""


class Filmed(Scheduler):
    """Another scheduler, and a frame of every slot from `first` on in which workloads wait, before any is placed."""

    looks_at_grid = True  # so that it is drawn

    def __init__(self, played: Scheduler, args: Args) -> None:
        self.name, self.knowledge, self.needs_forecasts = played.name, played.knowledge, played.needs_forecasts
        self.frames: list[Image.Image] = []
        self._played, self._args, self._next = played, args, args.first

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """Begin an episode."""
        self._played.reset(cluster, rng)

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """What the other does."""
        seen = picture(cluster.simulation, title=title_of(self.name), pixel=self._args.pixel)
        if seen.slot >= self._next and len(self.frames) < self._args.frames:
            self.frames.append(Image.fromarray(draw_cluster(seen)))
            self._next = seen.slot + 1
        yield from self._played.schedule(cluster, pending)


def film(args: Args) -> list[Image.Image]:
    """The frames. Raises InputError for a run, scheduler or trace that is not there."""
    scenario, classes, forecaster = SCENARIO, "temporal", None
    player = make_scheduler(args.scheduler) if args.run is None else tvwrl.load_policy(args.run)
    if args.run is not None:
        saved = Checkpoint.load(find_checkpoint(args.run))
        scenario, classes, forecaster = saved.config.scenario, saved.classes, saved.forecaster
    problem = tvwrl.Problem.build(tvwrl.open_trace(args.trace), scenario, classes, forecaster=forecaster)
    problem = problem.with_forecasts() if player.needs_forecasts else problem
    filmed = Filmed(player, args)
    Runner(problem.sequences("test", 1, seed=0), problem.machines, problem.scenario).play(filmed, 0)
    return filmed.frames


def write(frames: list[Image.Image], out: Path, milliseconds: int) -> None:
    """One GIF that repeats, in the colours of its last frame."""
    palette = frames[-1].quantize(64, dither=Image.Dither.NONE)
    few = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    few[0].save(out, save_all=True, append_images=few[1:], duration=milliseconds, loop=0, optimize=True)


if __name__ == "__main__":
    args = tyro.cli(Args)
    frames = film(args)
    if not frames:
        raise SystemExit(f"the episode is over before slot {args.first}: choose a smaller --first")
    write(frames, args.out, args.milliseconds)
    print(f"{len(frames)} frames are in {args.out}")
