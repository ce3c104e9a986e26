"""Online learning on several streams: is it worse without a shift, and better after one? Means of the last thirds."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
from tvwrl.agents.online import ONLINE, OnlineConfig, OnlineLearner, Phase
from tvwrl.bench.online import online_table, play_others, plot_rewards, rewards_by_phase
from tvwrl.schedulers import make_scheduler
from tvwrl.traces import open_trace
from tvwrl.traces.catalogue import trace_identity


def main() -> None:
    """Play the streams of all seeds, print a table for each and one of all, draw their mean."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--shift-to", default="bitbrains")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--episodes", type=int, default=OnlineConfig.episodes)
    parser.add_argument("--episodes-per-update", type=int, default=OnlineConfig.episodes_per_update)
    parser.add_argument("--learning-rate", type=float, default=OnlineConfig.learning_rate)
    parser.add_argument("--gamma", type=float, default=OnlineConfig.gamma)
    parser.add_argument("--epochs", type=int, default=OnlineConfig.epochs)
    parser.add_argument("--minibatches", type=int, default=OnlineConfig.minibatches)
    parser.add_argument("--greedy", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/online-seeds"), help="folder of the runs and the figure")
    options = vars(parser.parse_args())
    saved = Checkpoint.load(find_checkpoint(options.pop("checkpoint")))
    names = saved.trace["argument"], options.pop("shift_to")
    out, seeds = options.pop("out"), options.pop("seeds")
    base = OnlineConfig(explore=not options.pop("greedy"), **options)
    traces = [(open_trace(name), name) for name in names]
    problems = [(saved.problem(trace), trace_identity(trace, name)) for trace, name in traces]
    every = []
    for seed in range(seeds):
        config = replace(base, seed=seed)
        stream = [Phase.draw(*problem, place, config) for place, problem in enumerate(problems)]
        learner = OnlineLearner(saved, stream, config, out / f"seed-{seed}")
        learner.run()
        schedulers = [make_scheduler(name) for name in ("best-fit-peak", "forecast-fit")]
        rows = learner.progress + play_others(stream, saved, schedulers, config)
        every.append(rewards_by_phase(rows, len(stream)))
        titles = [phase.name for phase in stream]
        print(f"seed {seed}\n\n{online_table(every[-1], titles)}", flush=True)
    # Episode i of one seed has nothing to do with that of another: the table of all takes them one after another
    thirds = [np.array_split(np.arange(base.episodes), 3) for _ in range(seeds)]
    order = [np.concatenate([k * base.episodes + thirds[k][t] for k in range(seeds)]) for t in range(3)]
    mean = [{name: np.mean([e[p][name] for e in every], axis=0) for name in every[0][p]} for p in range(len(titles))]
    pooled = [
        {name: np.concatenate([e[p][name] for e in every])[np.concatenate(order)] for name in every[0][p]}
        for p in range(len(titles))
    ]
    print(f"all seeds\n\n{online_table(pooled, titles)}\n{ONLINE}: {base}")
    plot_rewards(mean, titles, out / "rewards.png")


if __name__ == "__main__":
    main()
