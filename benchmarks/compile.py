"""What compiling takes on a fresh installation: each use in a process of its own with an empty cache, CPU seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

import tyro

RESET = """
import time
begin = time.process_time()
import torch
after = time.process_time()
import gymnasium
import tvwrl
env = gymnasium.make("tvwrl/Placement-v0")
env.reset(seed=0)
print(after - begin, time.process_time() - after)
"""


def fresh(*command: str) -> str:
    """What a Python process with an empty kernel cache prints."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, *command], env=environment, stdout=subprocess.PIPE, check=True, text=True
        )
        return done.stdout


def measure(use: str) -> dict[str, float]:
    """Seconds of each kernel that a use compiles, without those that it calls; "" has the whole work."""
    from numba.core import event

    seconds: dict[str, float] = {}
    running: list[list[float]] = []  # when each began, and the seconds of kernels inside it

    class Listener(event.Listener):
        def on_start(self, event: event.Event) -> None:
            running.append([time.process_time(), 0.0])

        def on_end(self, event: event.Event) -> None:
            begin, inside = running.pop()
            whole = time.process_time() - begin
            function = event.data["dispatcher"].py_func
            if not function.__module__.startswith("tvwrl"):
                return  # numba's own, which count as part of what calls them
            if running:
                running[-1][1] += whole
            name = f"{function.__module__}.{function.__qualname__}"
            seconds[name] = seconds.get(name, 0.0) + whole - inside

    event.register("numba:compile", Listener())
    from tvwrl.warm_up import use_kernels

    begin = time.process_time()
    use_kernels(use)
    return {name: round(spent, 2) for name, spent in seconds.items()} | {"": round(time.process_time() - begin, 2)}


def main(use: str = "") -> None:
    """Print one line per use.

    Args:
        use: measure only this one, in this process, and print JSON.
    """
    if use:
        print(json.dumps(measure(use)))
        return
    from tvwrl.warm_up import USES

    torch, reset = map(float, fresh("-c", RESET).split())
    print(f"import torch: {torch:.1f} s; after it, import tvwrl, make and the first reset: {reset:.1f} s")
    for name in USES:
        kernels = json.loads(fresh(__file__, "--use", name))
        whole = kernels.pop("")
        print(f"{name:12s} {len(kernels):3d} kernels, {sum(kernels.values()):5.1f} s of {whole:5.1f} s")


if __name__ == "__main__":
    tyro.cli(main)
