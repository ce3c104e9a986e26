"""Small problems, hand-made inputs and a way to call scripts that many tests share, handed out as fixtures."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, partialmethod
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import strategies as st

from tvwrl.ec import EquivalenceClasses
from tvwrl.envs.problem import Problem
from tvwrl.forecasting import NetworkForecaster, training_windows
from tvwrl.planning.instance import Affinity, Fleet, Instance
from tvwrl.schedulers.planning import hindsight
from tvwrl.simulation.scenario import Scenario
from tvwrl.traces.synthetic import synthetic_trace
from tvwrl.types import SequenceSet, Trace

# Shells start background jobs with SIGINT ignored, and what tests interrupt would inherit that and never end.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def short_searches() -> Iterator[None]:
    """What is often done takes a moment: hindsight tries few changes, the page that ends evaluations knows few
    alternatives, few sequences tell which rule to start from, futures are sampled from few workloads, and classes and
    forecasters that a problem makes itself learn from few examples."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hindsight, "PROPOSALS", 300)
        patch.setattr("tvwrl.envs.problem.training_windows", partial(training_windows, count=300))
        patch.setattr("tvwrl.envs.problem.FUTURE_WINDOWS", 300)
        if find_spec("torch"):  # not in the environment of make test-sklx
            patch.setattr("tvwrl.agents.head_start.SEQUENCES", 20)
        patch.setattr("tvwrl.envs.problem.EXAMPLES", 2000)
        patch.setattr(EquivalenceClasses, "fit", partialmethod(EquivalenceClasses.fit, examples=2000))
        patch.setattr("tvwrl.experiments.exploring.explored.FIRST_LOOK", 0.01)
        yield


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What is prepared is kept for the processes of this test run, and for no other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TVWRL_CACHE", str(tmp_path_factory.getbasetemp().parent / "prepared"))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_prepared_traces(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """`google` means the synthetic trace in every test, whatever was prepared on this machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TVWRL_DATA", str(tmp_path_factory.mktemp("no-traces")))
        yield


def _call(command: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs `tvwrl COMMAND` in this process, as imports cost seconds each time."""
    from tvwrl.cli import main

    out, err, words = io.StringIO(), io.StringIO(), ["tvwrl", command, *map(str, arguments)]
    with (
        mock.patch.object(sys, "argv", words),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
        pytest.raises(SystemExit) as exit,
    ):
        main()
    return subprocess.CompletedProcess(words, exit.value.code or 0, out.getvalue(), err.getvalue())  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def google() -> Trace:
    """60 synthetic workloads of 4 days, slots of 300 s."""
    return synthetic_trace("google", workloads=60, seed=0, days=4)


@pytest.fixture(scope="session")
def problem(google: Trace) -> Problem:
    """Four machines of 8 units and 16 workloads per sequence, with forecasts."""
    plain = Problem.build(google, Scenario(machines=4, workloads=16, history=6))
    return replace(plain, forecaster=NetworkForecaster(epochs=100).fit(training_windows(plain.sampler, 200)))


@pytest.fixture(scope="session")
def train(problem: Problem) -> SequenceSet:
    """Eight training sequences of `problem`."""
    return problem.sequences("train", 8, seed=0)


def _make_sequences(
    *sequences: Sequence[tuple[Any, ...]],
    request: Any = None,
    classes: int = 6,
    resources: tuple[str, ...] = ("cpu", "mem"),
    slots: int = 0,
) -> SequenceSet:
    """Sequences of rows (arrival, demand (length, D)[, label or labels (length + 1)]); ids are a, b, c, ...

    Labels default to 1; `request` (S, N, D) defaults to unknown; `slots` is the least L to pad to.
    """
    count, workloads, kinds = len(sequences), len(sequences[0]), len(resources)
    length = np.array([[len(row[1]) for row in rows] for rows in sequences], dtype=np.int64)
    longest = max(int(length.max()), slots)
    demand = np.zeros((count, workloads, longest, kinds))
    label = np.ones((count, workloads, longest + 1), np.uint8)
    for s, rows in enumerate(sequences):
        for i, row in enumerate(rows):
            demand[s, i, : length[s, i]] = row[1]
            if len(row) > 2:
                label[s, i, : length[s, i] + 1] = row[2]
    names = np.array([[chr(ord("a") + i) for i in range(workloads)]] * count, dtype=object)
    unknown = np.full((count, workloads, kinds), np.nan)
    return SequenceSet(
        resources=resources,
        workload_id=names,
        source_workload=names.copy(),
        source_slot=np.zeros((count, workloads), np.int64),
        arrival=np.array([[row[0] for row in rows] for rows in sequences], dtype=np.int64),
        length=length,
        demand=demand,
        request=unknown if request is None else np.asarray(request, np.float64).reshape(unknown.shape),
        label=label,
        classes=classes,
        load=0.5,
    )


def _make_trace(
    series: Sequence[Any],
    slot_seconds: int = 300,
    slots: Sequence[Any] | None = None,
    request: Any = None,
    name: str = "hand",
) -> Trace:
    """A trace of the given usage arrays (rows, 2); `slots` are the slot numbers of each, by default 0, 1, 2, ..."""
    rows = [len(one) for one in series]
    ids = np.array([f"w{i}" for i in range(len(series))], dtype=object)
    return Trace(
        name=name,
        resources=("cpu", "mem"),
        slot_seconds=slot_seconds,
        workload_id=ids,
        offsets=np.concatenate([[0], np.cumsum(rows)]).astype(np.int64),
        slot=np.concatenate([np.arange(n) for n in rows] if slots is None else list(slots)).astype(np.int64),
        usage=np.concatenate([np.asarray(one, np.float64) for one in series]),
        application=ids.copy(),
        arrival=np.zeros(len(series), np.int64),
        priority=np.full(len(series), np.nan),
        scheduling_class=np.full(len(series), np.nan),
        request=np.full((len(series), 2), np.nan) if request is None else np.asarray(request, np.float64),
    )


def _make_instance(replicas: Sequence[int], demand: object, arcs: Sequence[tuple[int, int, int]] = ()) -> Instance:
    """Applications a, b, c, ... of `demand` (A, H, D) or (A, D), and arcs (i, j, a_ij)."""
    sizes = np.asarray(demand, np.float64)
    sizes = sizes[:, None] if sizes.ndim == 2 else sizes
    i, j, limit = (np.array([arc[n] for arc in arcs], np.int64) for n in range(3))
    names = np.array([chr(ord("a") + n) for n in range(len(replicas))], dtype=object)
    resources = ("cpu", "mem", "disk")[: sizes.shape[2]]
    return Instance("hand", names, np.array(replicas), sizes, resources, Affinity.of(len(names), i, j, limit))


@st.composite
def _instances(draw: st.DrawFn, applications: int = 3, replicas: int = 3, most: int = 5, times: int = 2) -> Instance:
    """Tiny ones of two resources whose sizes are whole numbers up to `most`, with affinity and self limits."""
    count = draw(st.integers(1, applications))
    shape = (count, draw(st.integers(1, times)), 2)
    sizes = draw(st.lists(st.integers(0, most), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    pairs = draw(st.sets(st.sampled_from(list(product(range(count), repeat=2)))))
    arcs = [(i, j, draw(st.integers(int(i == j), 2))) for i, j in sorted(pairs)]
    several = draw(st.lists(st.integers(1, replicas), min_size=count, max_size=count))
    return _make_instance(several, np.array(sizes).reshape(shape), arcs)


def _fits(instance: Instance, counts: Sequence[int], capacity: Sequence[float]) -> bool:
    """Whether a machine may hold so many replicas of each: from the definition, limit by limit."""
    load = np.einsum("a,ahd->hd", np.asarray(counts, np.float64), instance.demand)
    a = instance.affinity
    arcs = [(i, a.to[e], a.limit[e]) for i in range(len(counts)) for e in range(a.start[i], a.start[i + 1])]
    return bool((load <= capacity).all()) and all(not counts[i] or counts[j] <= limit for i, j, limit in arcs)


def _fewest_machines(instance: Instance, fleet: Fleet) -> int:
    """By trying everything: machines of one kind that hold all replicas."""
    every = product(*(range(n + 1) for n in instance.replicas.tolist()))
    fillings = [np.array(c) for c in every if any(c) and _fits(instance, c, fleet.capacity[0])]
    left, machines = {tuple(instance.replicas.tolist())}, 0
    while not any(not any(state) for state in left):
        left = {tuple((np.array(s) - f).tolist()) for s in left for f in fillings if (f <= np.array(s)).all()}
        machines += 1
    return machines


def _handed_out(function: Callable[..., Any]) -> Any:
    """A fixture that is the function itself."""
    return pytest.fixture(scope="session")(lambda: function)


call = _handed_out(_call)
make_sequences, make_trace, make = map(_handed_out, (_make_sequences, _make_trace, _make_instance))
instances, fits, fewest_machines = map(_handed_out, (_instances, _fits, _fewest_machines))


@pytest.fixture(scope="session")
def batch_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both files of batch tasks: 60 jobs of three shapes, three a minute; the graph of the 61st occurs once."""
    shapes = (("M1", "R2_1"), ("M1", "M2", "J3_1_2"), ("M1", "R2_1", "R3_2", "J4_2"))
    folder, rng = tmp_path_factory.mktemp("batch"), np.random.default_rng(0)
    usage, arrivals = [], []
    for j in range(61):
        names = shapes[j % 3] if j < 60 else ("M1", "M2", "M3")
        for k, name in enumerate(names):
            values = np.array([0.2 * 4**k, 0.05 * 3**k, 20.0 * (k + 1)]) * rng.uniform(0.9, 1.1, 3)
            cpu, memory, seconds = np.round(values, 4)
            usage.append(f"j{j},{name},{k + 1},{20 * j},{20 * j + 9},{seconds},100,0.3,1,1,{cpu},{memory}")
            arrivals.append(f"{20 * j},j{j},{name},{int(seconds)},100,0.3,{k + 1}")
    head = "job,task,instances,start_time,end_time,mean_inst_duration,plan_cpu,plan_mem,cpu_sum_pct,mem_sum"
    lines = [f"{head},cpu_per_inst_cores,mem_per_inst", *usage]
    (folder / "ali18_usage_tasks.csv.gz").write_text("\n".join(lines) + "\n")
    lines = ["arrive_s,job,task,duration_s,plan_cpu,plan_mem,instances", *arrivals]
    (folder / "spar_sample_tasks.csv.gz").write_text("\n".join(lines) + "\n")
    return folder
