"""Made-up episodes in the form that the explorer's page reads, and a browser to show them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvwrl.explorer.html import write_explorer

Tree = dict[str, Any]
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
SEGMENTS = ((1, 1), (2, 3), (4, 7), (8, 15), (16, 31), (32, 63))
SCHEDULERS = (
    ("spread", "Spread", "current load", "what every machine uses now", "score", "spread"),
    ("best-fit", "Best fit", "current load", "what every machine uses now", "score", "best-fit"),
    ("policy", "Trained policy", "forecasts", "forecasts of every workload", "probability", "spread"),
)


def index_of(trees: list[Tree], machines: int, schedulers: int = 3, title: str = "made-up") -> Tree:
    """The index of such sequences."""
    sequences, costliest = [], []
    for s, tree in enumerate(trees):
        rows = []
        for e, episode in enumerate(tree["episodes"]):
            total = episode["costs"].sum(axis=2)
            known = np.isfinite(total).all(axis=1) if len(total) else np.zeros(0, bool)
            rows.append(
                {
                    "scheduler": e,
                    "penalties": [float(v) for v in episode["penalties"].sum(axis=0)],
                    "unplaced": int((episode["machine"] < 0).sum()),
                    "decisions": len(total),
                    "simulated": int(known.sum()),
                }
            )
            for k in np.nonzero(known)[0]:
                own = int((episode["machines"][k] == episode["chosen"][k]).argmax())
                best = int(total[k].argmin())
                costliest.append(
                    {
                        "scheduler": e,
                        "sequence": s,
                        "decision": int(k),
                        "slot": int(episode["slot"][k]),
                        "workload": tree["workloads"]["name"][episode["workload"][k]],
                        "chosen": int(episode["chosen"][k]),
                        "best": int(episode["machines"][k][best]),
                        "regret": float(total[k, own] - total[k, best]),
                        "parts": [float(v) for v in episode["costs"][k, own] - episode["costs"][k, best]],
                    }
                )
        slots = max((len(one["penalties"]) for one in tree["episodes"]), default=0)
        sequences.append(
            {"load": 0.5, "sequence": s, "workloads": len(tree["workloads"]["name"]), "slots": slots, "episodes": rows}
        )
    costliest.sort(key=lambda one: -one["regret"])
    kept = [one for e in range(schedulers) for one in [c for c in costliest if c["scheduler"] == e][:20]]
    names = ("name", "title", "group", "knows", "meaning", "continued_by")
    return {
        "version": 1,
        "kind": "episodes",
        "title": title,
        "trace": {"name": "google", "source": "synthetic"},
        "slot_seconds": 300,
        "resources": ["cpu", "mem"],
        "capacity": np.full((machines, 2), 32.0),
        "peak_units": 8,
        "classes": len(COLOURS),
        "class_colours": list(COLOURS),
        "weights": {"K_c": 0.1, "K_u": 3.0, "K_o": 30000.0, "K_w": 50.0},
        "overshoot_per": "workload",
        "terms": ["contention", "under-utilisation", "overshoot", "waiting"],
        "waiting": "waiting one slot",
        "schedulers": [dict(zip(names, row, strict=True)) for row in SCHEDULERS[:schedulers]],
        "sequences": sequences,
        "costliest": sorted(kept, key=lambda one: -one["regret"]),
        "left_out": [],
    }


def sequence_of(
    seed: int, machines: int = 10, workloads: int = 60, schedulers: int = 3, slots: int = 160, length: int = 40
) -> Tree:
    """Workloads that come and go, placed at random with a taste that differs by scheduler."""
    rng = np.random.default_rng(seed)
    count = np.minimum(rng.geometric(1 / length, workloads) + 8, slots // 2)
    arrival = np.sort(rng.integers(0, slots // 2, workloads))
    offset = np.concatenate([[0], np.cumsum(count)])
    rows, own = int(offset[-1]), np.repeat(np.arange(workloads), count)
    age = np.arange(rows) - offset[own]
    level = rng.integers(1, 6, (workloads, 2))
    wave = 1 + 0.6 * np.sin(age[:, None] / rng.integers(3, 12, workloads)[own][:, None])
    demand = np.clip(np.round(level[own] * wave + rng.normal(0, 0.4, (rows, 2))), 0, 8).astype(np.uint8)
    aged = rows + workloads
    label = np.repeat(rng.integers(1, 7, workloads), count + 1).astype(np.uint8)
    most = np.repeat((level * 25).astype(np.uint8), count + 1, axis=0)[:, None, :].repeat(len(SEGMENTS), axis=1)
    request = np.where(rng.random((workloads, 1)) < 0.8, level + 2.0, np.nan).astype(np.float32)
    return {
        "workloads": {
            "name": [f"w{i}" for i in range(workloads)],
            "source": [f"series-{i % 7}" for i in range(workloads)],
            "arrival": arrival,
            "length": count,
            "offset": offset,
            "demand": demand,
            "request": request,
            "label": label,
        },
        "background": None,
        "forecast": {
            "segments": [list(one) for one in SEGMENTS],
            "step": 0.05,
            "step_variance": 0.02,
            "every_age": True,
            "most": most,
            "spread": np.broadcast_to(np.arange(1, 7, dtype=np.uint8)[None, :, None] * 8, (aged, 6, 2)),
        },
        "episodes": [
            _episode(np.random.default_rng([seed, min(e, 1), e]), machines, arrival, count, e)
            for e in range(schedulers)
        ],
    }


def _episode(rng: np.random.Generator, machines: int, arrival: Any, count: Any, scheduler: int) -> Tree:
    workloads = len(arrival)
    wait = rng.geometric(0.6, workloads) - 1
    machine = np.random.default_rng(workloads).integers(0, machines, workloads)
    changed = rng.random(workloads) < 0.3 * min(scheduler, 1)
    machine = np.where(changed, rng.integers(0, machines, workloads), machine)
    start = arrival + np.where(changed, wait, 0)
    slots = int((start + count).max()) + 1 if workloads else 0
    order = np.lexsort((np.arange(workloads), start))
    width = min(machines, 10) + 1
    machines_of = np.empty((workloads, width), np.int64)
    for k, i in enumerate(order):
        others = (machine[i] + 1 + np.arange(width - 2)) % machines
        machines_of[k] = [machine[i], *others, -1]
    costs = rng.gamma(2.0, 400.0, (workloads, width, 4)).round(2)
    costs[:, :, 2] = 30000.0 * rng.binomial(3, 0.1, (workloads, width))
    scores = rng.random((workloads, width)).astype(np.float32)
    scores[:, -1] = np.nan
    penalties = rng.gamma(1.0, 100.0, (slots, 4)).round(2)
    penalties[:, 2] = 30000.0 * (rng.random(slots) < 0.03)
    rank = np.empty(workloads, np.int64)
    rank[order] = np.arange(workloads)
    waiting = np.array([int(((arrival <= start[i]) & (rank >= rank[i])).sum()) for i in order], dtype=np.int64)
    return {
        "machine": machine,
        "start": start,
        "penalties": penalties,
        "slot": start[order],
        "workload": order,
        "chosen": machine[order],
        "waiting": waiting,
        "machines": machines_of,
        "costs": costs,
        "scores": scores,
        "possible": rng.random((workloads, width)) < 0.9,
        "why_none_is_costly": "no alternative was simulated",
    }


@pytest.fixture(scope="session")
def made_up() -> Callable[..., Tree]:
    """Makes a sequence: made_up(seed, machines=10, workloads=60, schedulers=3)."""
    return sequence_of


@pytest.fixture(scope="session")
def write(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes an explorer of sequences; further arguments replace what is in the index."""

    def written(trees: list[Tree], machines: int = 10, schedulers: int = 3, **changes: Any) -> Path:
        file = tmp_path_factory.mktemp("explorer") / "explorer.html"
        write_explorer(file, index_of(trees, machines, schedulers) | changes, trees)
        return file

    return written


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium without a window; the browser of the system, or else that of playwright."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    quiet = ("disable-gpu", "disable-quic", "no-first-run", "disable-background-networking", "disable-component-update")
    with api.sync_playwright() as playwright:
        try:
            opened = playwright.chromium.launch(
                executable_path=shutil.which("chromium") or shutil.which("google-chrome"),
                args=["--no-sandbox", "--disable-sync", *(f"--{name}" for name in quiet)],
            )
        except api.Error as fault:
            pytest.skip(f"there is no Chromium that starts: {str(fault).splitlines()[0]}")
        yield opened
        opened.close()


@pytest.fixture
def show(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a file and waits until it is drawn; at the end no page has written an error or asked for anything."""
    faults: list[str] = []
    contexts = []

    def shown(
        file: Path, fragment: str = "", width: int = 1366, height: int = 768, script: str = "", **options: Any
    ) -> Any:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("console", lambda line: faults.append(f"{line.type}: {line.text}"))
        page.on("dialog", lambda dialog: faults.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: faults.append(request.url) if outside(request.url) else None)
        if script:
            page.add_init_script(script)
        page.goto(file.as_uri() + fragment)
        page.wait_for_selector("body[data-ready], #trouble:not([hidden])")
        return page

    def outside(url: str) -> bool:
        return not url.startswith(("data:", "blob:", "file:")) or (
            url.startswith("file:") and "explorer.html" not in url
        )

    yield shown
    for context in contexts:
        context.close()
    assert not faults


@pytest.fixture(scope="session")
def trees(made_up: Callable[..., Tree]) -> list[Tree]:
    """Two sequences of 60 workloads on 10 machines under three schedulers."""
    return [made_up(seed) for seed in range(2)]


@pytest.fixture(scope="session")
def small(trees: list[Tree], write: Callable[..., Path]) -> Path:
    return write(trees, title="made-up <b>folder</b>")
