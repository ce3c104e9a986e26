"""The table of subcommands: where the options and the work of each are, and a line of help. It imports none of them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

CELLS = ("out", "workers", "dry_run")


@dataclass(frozen=True)
class Command:
    """A subcommand of `tvwrl`."""

    name: str
    summary: str
    settings: str  # MODULE:NAME of the dataclass of its options; of a family, of the function NAME -> that dataclass
    work: str  # MODULE:NAME of the function that takes the options and returns an exit code, or None for 0
    often: tuple[str, ...] = ()  # options that `--help` shows, by field; without any, it shows all
    fresh: bool = False  # whether --out has to be new or empty; other commands continue what it holds
    continues: str = ""  # the folder without which what --out holds cannot be continued
    alone: bool = False  # whether no other command may work in --out or --resume meanwhile
    family: str = ""  # MODULE:NAME of the function that lists its members: title -> name -> a line of help
    one: str = ""  # what a member of the family is called, in errors


GROUPS: dict[str, tuple[Command, ...]] = {
    "Traces": (
        Command(
            "prepare",
            "turn published files, your own table or a Prometheus server into a trace",
            "tvwrl.cli.prepare:options_of",
            "tvwrl.cli.prepare:prepare_trace",
            (
                "source", "name", "out", "slot_seconds", "gaps", "min_records", "readers", "plots",
                "columns", "scale", "workload_column", "time_column", "time_unit",
                "application_column", "interval",
            ),
            fresh=True,
            family="tvwrl.cli.prepare:loaders",
            one="loader",
        ),
        Command(
            "population",
            "fit a synthetic population of workloads to a trace, and judge it by outcomes",
            "tvwrl.experiments.population_command:PopulationOptions",
            "tvwrl.experiments.population_command:fit_and_judge",
        ),
    ),
    "Policies": (
        Command(
            "train",
            "train a placement policy on a trace, then compare it with heuristics",
            "tvwrl.experiments.train_command:TrainingSettings",
            "tvwrl.experiments.train_command:train",
            (
                "trace", "preset", "config_file", "out", "resume", "iterations", "load", "algo", "seed", "seeds",
            ),
            fresh=True,
            alone=True,
        ),
        Command(
            "learn-moves",
            "learn which running workloads to move (the same as tvwrl train --moves)",
            "tvwrl.experiments.learn_moves_command:MoveTrainingSettings",
            "tvwrl.experiments.learn_moves_command:learn_moves",
            (
                "trace", "slot_seconds", "algo", "rule", "loads", "from_shipped", "out", "resume", "K_m", "generations",
                "machines", "seed",
            ),
            fresh=True,
            alone=True,
        ),
        Command(
            "tune",
            "search for hyper-parameters with many short training runs",
            "tvwrl.experiments.tune_command:TuningSettings",
            "tvwrl.experiments.tune_command:tune",
            ("trace", "preset", "trials", "seconds", *CELLS, "resume", "load", "machines"),
        ),
        Command(
            "learn-online",
            "let a policy keep learning while workloads arrive and their mix shifts",
            "tvwrl.experiments.learn_online_command:OnlineSettings",
            "tvwrl.experiments.learn_online_command:learn_online",
            ("checkpoint", "trace", "shift_to", "shift_load", "out", "resume", "before", "after", "clusters", "seed"),
            fresh=True,
            alone=True,
        ),
        Command(
            "export",
            "write a trained policy to an ONNX file that schedules without PyTorch, with a model card",
            "tvwrl.experiments.export_command:ExportSettings",
            "tvwrl.experiments.export_command:export",
        ),
        Command(
            "dataset",
            "record episodes of schedulers and agents on a benchmark task, for offline learning with Minari",
            "tvwrl.cli.dataset:DatasetSettings",
            "tvwrl.cli.dataset:write_dataset",
        ),
        Command(
            "classes",
            "find equivalence classes of a trace's workloads",
            "tvwrl.ec.fitting:ClassFitOptions",
            "tvwrl.ec.fitting:fit_and_report",
            ("trace", "slot_seconds", "out", "representations", "representation", "k", "compare_by_forecast", "seed"),
            fresh=True,
            alone=True,
        ),
        Command(
            "forecast",
            "compare forecasters of demand, and keep the best network for training",
            "tvwrl.experiments.fit_forecaster_command:ForecasterFitOptions",
            "tvwrl.experiments.fit_forecaster_command:fit_forecasters",
            ("trace", "slot_seconds", "also", "candidates", "loads", "sequences", *CELLS, "seed"),
        ),
    ),
    "Comparisons": (
        Command(
            "evaluate",
            "compare schedulers and trained policies on a trace",
            "tvwrl.experiments.evaluate_command:ComparisonSettings",
            "tvwrl.experiments.evaluate_command:compare_schedulers",
            (
                "trace", "slot_seconds", "schedulers", "list_schedulers", "checkpoint", "loads", "machines",
                "moves_per_slot", "sequences", "out", "workers",
            ),
            continues="cells",
            alone=True,
        ),
        Command(
            "explore",
            "see every decision of an evaluation, and what each alternative would have cost, in the browser",
            "tvwrl.experiments.exploring.explore_command:ExploreSettings",
            "tvwrl.experiments.exploring.explore_command:explore",
        ),
        Command(
            "compare",
            "compare schedulers, training runs and ONNX files with ours on a benchmark task",
            "tvwrl.cli.compare:TaskComparison",
            "tvwrl.cli.compare:compare_on_task",
            fresh=True,
            alone=True,
        ),
        Command(
            "benchmark",
            "run schedulers on all benchmark tasks, or check a submission",
            "tvwrl.benchmark.study:BenchmarkSettings",
            "tvwrl.benchmark.study:run_benchmark",
            ("named_tasks", "list_tasks", "schedulers", "runs", "submissions", "check", "sequences", "out", "workers"),
        ),
        Command(
            "reproduce",
            "reproduce the figures and tables of the papers",
            "tvwrl.cli.reproduce:options_of",
            "tvwrl.cli.reproduce:make_figure",
            ("preset", *CELLS, "seeds", "iterations", "sequences", "data", "report_only", "page"),
            family="tvwrl.cli.reproduce:figures",
            one="figure",
        ),
    ),
    "Clusters": (
        Command(
            "what-if",
            "replay what a Kubernetes cluster has done under other schedulers, and say what they would have saved",
            "tvwrl.what_if.command:WhatIfSettings",
            "tvwrl.rebalance.move_rule:what_if",
            (
                "prometheus", "days", "usage", "nodes", "schedulers", "moves", "keep_running", "price_per_machine_hour",
                "out",
            ),
        ),
        Command(
            "rebalance",
            "plan which running pods of a Kubernetes cluster to move where, in which order, and what that is worth",
            "tvwrl.rebalance.command:RebalanceSettings",
            "tvwrl.rebalance.command:rebalance",
            (
                "prometheus", "objects", "usage", "nodes", "generated", "goal", "most_moves", "dry_run", "watch", "out",
            ),
        ),
        Command(
            "serve",
            "schedule the pods of a Kubernetes cluster with a rule or a policy",
            "tvwrl.serve.options:ServeSettings",
            "tvwrl.serve.options:serve",
            ("policy", "prometheus", "listen", "shadow", "record", "poll_seconds", "deadline_ms"),
        ),
    ),
    "Plans": (
        Command(
            "provision",
            "plan the fewest machines that hold all replicas of many applications",
            "tvwrl.experiments.provision_command:PlanningSettings",
            "tvwrl.experiments.provision_command:plan_machines",
            ("instance", "machine", "counts", "fixed", "planners", "best", "seconds", "verify", "out"),
            fresh=True,
            alone=True,
        ),
        Command(
            "place",
            "place applications with affinity on machines of many kinds",
            "tvwrl.experiments.place_command:PlacementSettings",
            "tvwrl.experiments.place_command:place",
            (
                "instance", "planners", "list_planners", "seconds", "running", "moves_cost", "most_moves", "machines",
                "out",
            ),
            fresh=True,
            alone=True,
        ),
        Command(
            "size",
            "recommend how large the replicas of a new application should be",
            "tvwrl.lrasched.sizing:SizingSettings",
            "tvwrl.lrasched.sizing:size_application",
            (
                "profiles", "measured", "application", "goal", "sure", "machine_cpu", "machine_mem", "cpu_price",
                "mem_price", "out",
            ),
            fresh=True,
            alone=True,
        ),
        Command(
            "interference",
            "learn a score for machines that says how much batch work slows services",
            "tvwrl.interference.fitting:InterferenceFitOptions",
            "tvwrl.interference.fitting:fit_or_explain",
            ("file", "trace", "data", "explain", "law", "load", "episodes", "machines", "seed"),
        ),
    ),
    "This installation": (
        Command(
            "doctor",
            "say what is installed, which traces are on this machine, and what is wrong",
            "tvwrl.cli.doctor:DoctorOptions",
            "tvwrl.cli.doctor:examine",
        ),
        Command(
            "warm-up",
            "compile kernels now, so that no command has to wait for it later",
            "tvwrl.warm_up:WarmUpOptions",
            "tvwrl.warm_up:report_warm_up",
        ),
    ),
}  # fmt: skip
COMMANDS = {command.name: command for commands in GROUPS.values() for command in commands}


def imported(place: str) -> Any:
    """What stands at MODULE:NAME."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
