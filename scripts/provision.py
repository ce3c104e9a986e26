"""Plan how few machines hold all replicas of many applications, or check or seed a plan."""

from __future__ import annotations

import tyro

from tvwrl import command_line
from tvwrl.experiments.provision_command import PlanningSettings, plan_machines


def main() -> int:
    """Parse the arguments and plan."""
    return plan_machines(tyro.cli(PlanningSettings))


if __name__ == "__main__":
    command_line.run(main)
