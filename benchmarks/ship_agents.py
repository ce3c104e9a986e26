"""Write the agents that come with the package, `tvwrl/agents/models/`: python benchmarks/ship_agents.py RUN...

A run is one of `tvwrl train --trace TRACE --train-loads 0.3,0.5,0.8 --no-deeprm --out FOLDER/NAME`, whose best
checkpoint becomes NAME.onnx (schedules without PyTorch), NAME.pt (weights to start a training from) and NAME.md.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import tyro

from tvwrl.agents import Checkpoint, export_policy, find_checkpoint, load_exported, write_export
from tvwrl.agents.shipped import FOLDER
from tvwrl.experiments.model_card import model_card

LICENSE = "apache-2.0"
TERMS = {  # trace -> the terms of what was learnt from
    "google": "a synthetic population that comes with this package; it holds no recorded usage",
    "google2011": "Google cluster trace 2011 (clusterdata-2011-2), CC BY 4.0, by Google",
    "google2019": "Google Borg trace 2019 (clusterdata-2019), CC BY 4.0, by Google",
}


def main(runs: tyro.conf.Positional[tuple[Path, ...]], folder: Path = FOLDER) -> None:
    """Write three files for each run.

    Args:
        runs: folders of training runs.
        folder: where the files go.
    """
    folder.mkdir(exist_ok=True)
    for run in runs:
        source = find_checkpoint(run).resolve()
        saved = Checkpoint.load(source)
        made = export_policy(saved, run.name)
        file = folder / f"{run.name}.onnx"
        card = model_card(made, saved, file, source, LICENSE, TERMS[saved.trace["name"]])
        write_export(made, file)
        file.with_suffix(".md").write_text(card, encoding="utf-8")
        facts = load_exported(file).facts  # without the series that its forecaster learnt from
        weights = replace(
            saved,
            classes=facts.classes,
            forecaster=facts.forecaster,
            trace={name: saved.trace[name] for name in ("name", "source", "hash")} | {"argument": None},
            learner={},
            random={},
            best_policy=None,
        )
        weights.save(file.with_suffix(".pt"))
        sizes = (f"{one.stat().st_size / 1e6:.2f} MB" for one in (file, file.with_suffix(".pt")))
        print(run.name, *sizes, f"iteration {saved.iteration}")


if __name__ == "__main__":
    tyro.cli(main)
