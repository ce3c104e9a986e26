"""A folder in which the commands of the pages find what they name: tables, traces, runs, as small as can be."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.agents.exporting import checkpoint_of
from tvwrl.agents.config import PRESETS
from tvwrl.agents.training import Trainer
from tvwrl.envs.problem import Problem
from tvwrl.experiments.evaluation import EvaluationSetup, evaluate
from tvwrl.experiments.hyperparameter_search import Search, open_search
from tvwrl.forecasting import NetworkForecaster
from tvwrl.forecasting.files import write_forecaster
from tvwrl.progress import nothing
from tvwrl.schedulers import make_scheduler
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces import write_trace
from tvwrl.traces.catalogue import trace_identity
from tvwrl.traces.sequences import SequenceSampler

LONG = (  # where long work starts
    "tvwrl.agents.checkpoint.Checkpoint.problem",
    "tvwrl.agents.exported.read_onnx",
    "tvwrl.agents.is_of_export",
    "tvwrl.benchmark.study.check_submission",
    "tvwrl.benchmark.study.trace_of",
    "tvwrl.benchmark.comparison.compare",
    "tvwrl.ec.fitting.compare",
    "tvwrl.ec.classes.EquivalenceClasses.load",
    "tvwrl.envs.problem.Problem.build",
    "tvwrl.experiments.engine.complete",
    "tvwrl.experiments.seeds.run_calls",
    "tvwrl.experiments.exploring.explore_command.complete",
    "tvwrl.planning.suite.Results",
    "tvwrl.agents.export.export_policy",
    "tvwrl.interference.score.InterferenceScore.load",
    "tvwrl.interference.fitting.train_on_batch_tasks",
    "tvwrl.lrasched.sizing.draw_applications",
    "tvwrl.rebalance.command.Controller",
    "tvwrl.rebalance.command.read_plan",
    "tvwrl.rebalance.command.seen",
    "tvwrl.serve.service.Service.run",
    "tvwrl.traces.preparation.prepare.prepare",
    "tvwrl.what_if.command.read_csv_record",
    "socket.getaddrinfo",
)


class Began(BaseException):
    """The long work would start now. No `except Exception` on the way may take it for a fault."""


RUNS = ("RUN", "runs/google", "runs/google-20260101-120000", "runs/mine", "runs/sb3", "runs/history")
TRACES = ("google2011", "google2019", "tianchi", "bitbrains", "mine", "my-trace")
PUBLISHED = (  # files of others, of which a command that only begins reads no more than the name
    "ali18_usage_tasks.csv.gz", "spar_sample_tasks.csv.gz", "taobench_colocation.csv", "ntua_nginx_ibench.csv.gz",
    "erms_inflection.csv.gz",
)  # fmt: skip
CLASSES = ("runs/classes", "runs/ec-google2011-...")  # of which likewise no more is read
APPLICATIONS = "application,replicas,limit,cpu,mem\nweb,12,2,4,8\napi,8,2,2,4\n"
MACHINES = "cpu,mem,count\n32,64,5\n16,128,2\n"
TABLES = {
    "usage.csv": "workload_id,slot,cpu,mem\n" + "".join(f"w{i},{s},0.2,0.1\n" for i, s in product(range(9), range(99))),
    "applications.csv": APPLICATIONS,
    "machines.csv": MACHINES,
    "mine.yaml": "iterations: 5\n",
    "runs/google/config.yaml": "iterations: 5\n",
    "runs/five/config.yaml": "trace: google\nseeds: 2\n",
    "runs/five/seeds.json": '{"seeds": [0, 1]}',
    "my_networks.py": "from tvwrl.agents import Policy\n\n\nclass Mine(Policy):\n    pass\n",
    "history.csv": "application,configuration,performance,p99,throughput,cpu,mem\n"
    + "".join(
        f"{name},{size},0.{size},{100 // size},{300 * size},{size},{size}\n"
        for name, size in product((*(f"a{i}" for i in range(12)), "checkout"), (2, 4, 8))
    ),
    "new.csv": "application,configuration,performance,p99,throughput\nmine,2,0.2,50,600\nmine,8,0.8,12,2400\n",
    "my-usage.csv": "time,replica,service,cpu_percent,rss_gib,cpu_reserved\n"
    + "".join(f"2026-01-01T0{s // 60}:{s % 60:02}:00,r{i},web,50,2,4\n" for i, s in product(range(3), range(540))),
    "runs/monday/plan.csv": "planner,application,machine,replicas\nbest,web,1,2\n",
    "shop/applications.csv": APPLICATIONS,
    "shop/machines.csv": MACHINES,
    "FOLDER/applications.csv": APPLICATIONS,
    "FOLDER/machines.csv": MACHINES,
    "FOLDER/published_summary.csv": "set,graph,param,algo,mean_dev_pct,mean_time_s\n",
    "FOLDER/reference.json": '{"instances": {}}',
}


def began(*_: Any, **__: Any) -> None:
    raise Began


@contextmanager
def reader_in(here: Path, problem: Problem) -> Iterator[Path]:
    """Commands run in `here`, which is filled, as far as where long work would begin: `Began` is raised there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TVWRL_DATA", str(here / "data"))
        patch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        patch.chdir(here)
        fill(here, problem)
        for place in LONG:
            room, name = ".".join(place.split(".")[: 2 if place.startswith("tvwrl.") else 1]), place.split(".")[-1]
            if hasattr(importlib.import_module(room), name):  # a room keeps what it was asked for
                patch.setattr(f"{room}.{name}", began)
            patch.setattr(place, began)
        yield here


def fill(here: Path, problem: Problem) -> None:
    """Write everything; `here`/data is TVWRL_DATA meanwhile and later."""
    for name, text in TABLES.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text)
    for name in PUBLISHED:
        (here / "FOLDER" / name).touch()
    for i, name in enumerate(TRACES):  # of each another part, as traces have to differ
        one = problem.trace.select(range(0 if i == 0 else i, len(problem.trace)))
        write_trace(replace(one, name=name), here / "data" / name)
    _write_runs(here, problem)
    played = [make_scheduler("spread"), make_scheduler("best-fit-peak")]
    evaluate(EvaluationSetup(problem, (0.5,), 1, bound_seconds=None), played, here / "runs/compared", plots=False)


def _write_runs(here: Path, problem: Problem) -> None:
    """What runs of other commands would have left: untrained policies, a forecaster, a search."""
    first = replace(problem, trace=replace(problem.trace, name=TRACES[0]))
    checkpoint, _ = checkpoint_of(first, "pairs with expected-cost")
    checkpoint.trace = trace_identity(first.trace, TRACES[0])
    for name in RUNS:
        folder = here / name / "checkpoints"
        folder.mkdir(parents=True)
        checkpoint.save(folder / "last.pt")
        shutil.copy(folder / "last.pt", folder / "best.pt")
    sampler = SequenceSampler(first.trace, Scenario())
    assert isinstance(problem.forecaster, NetworkForecaster)
    write_forecaster(here / "runs/forecaster/forecaster.json", problem.forecaster, sampler)
    search = Search(TRACES[0], None, "none", replace(PRESETS["smoke"], scenario=Scenario(observe_forecast=False)))
    open_search(search, here / "runs/tune")
    for name in CLASSES:
        (here / name).mkdir()
    blind = replace(problem, forecaster=None, scenario=replace(problem.scenario, observe_forecast=False))
    config = replace(
        PRESETS["deeprm"], scenario=blind.scenario, train_sequences=2, sequences_per_iteration=2, eval_sequences=2
    )
    Trainer(blind, config, here / "runs/deeprm", checkpoint.trace, nothing).save()
