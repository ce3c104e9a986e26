"""Environments are registered whichever of the two packages is imported first, and only then."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "imports",
    [
        "import tvwrl, gymnasium",
        "import gymnasium, tvwrl",
        "import tvwrl; from gymnasium.envs.registration import registry; import gymnasium",
        "import tvwrl.envs, gymnasium",
    ],
)
def test_environments_are_registered_in_either_order(imports: str) -> None:
    code = f"{imports}; print(*(name for name in gymnasium.registry if name.startswith('tvwrl/')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = done.stdout.split()
    assert names[0] == "tvwrl/Placement-v0"
    assert "tvwrl/google-0.5-v1" in names
    assert len(names) == len(set(names)) == 78


@pytest.mark.slow
def test_a_process_that_has_imported_nothing_finds_a_task() -> None:
    """As workers of vector environments do: the part before the colon is what Gymnasium imports."""
    code = (
        "import gymnasium as gym\n"
        "if __name__ == '__main__':\n"
        "    name = 'tvwrl:tvwrl/google-0.5-v1'\n"
        "    print(gym.make(name).spec.id, gym.make_vec(name, num_envs=2).num_envs)\n"
        "    make = [lambda: gym.make(name)] * 2\n"
        "    several = gym.vector.AsyncVectorEnv(make, context='spawn')\n"
        "    print(several.reset(seed=0)[0]['grid'].shape[0])\n"
        "    several.close()\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["tvwrl/google-0.5-v1", "2", "2"]


def test_gymnasium_is_not_imported_for_it() -> None:
    code = "import sys, tvwrl; print([name for name in ('gymnasium', 'numpy') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
