"""The picture of docs/results/flow.md: machines that a running plan can do without, by how many replicas may move."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import tyro

from tvwrl.markdown import markdown_table
from tvwrl.planning.best import search
from tvwrl.planning.bounds_on_machines import lower_bound
from tvwrl.planning.plan import Plan
from tvwrl.planning.problem import PlanningProblem
from tvwrl.planning.referee import validate
from tvwrl.planning.registry import make_plan, title_of_planner
from tvwrl.planning.sources.generated import generate_cluster
from tvwrl.planning.sources.tianchi import read_tianchi
from tvwrl.planning.suite import warm_up
from tvwrl.plotting import COLOURS, DPI, OTHERS, OURS, WIDTH, new_figure, tidy

STARTS = ("FF", "Aladdin+H.4", "Aladdin+H.2(SRF)")
MOVE = 0.004  # machines that a move costs
SHARES = (0.025, 0.05, 0.1, 0.15)  # of the replicas, in the table
LINES = ((OURS, "-"), (OTHERS, "--"), (COLOURS[0], ":"))


def main(tianchi: Path, seconds: float = 60.0, figure: Path = Path("docs/results/flow/moves.png")) -> None:
    """Let the search improve running plans, and record each better plan: machines in use, and replicas moved.

    Args:
        tianchi: the Tianchi contest's zip or folder.
        seconds: of each search.
        figure: where it is drawn.
    """
    problems = {
        "generated, 100,000 replicas": generate_cluster(12_000, 100_000),
        "contest, 68,224 replicas": read_tianchi(str(tianchi)),
    }
    page = new_figure(WIDTH, 4.2)
    rows = []
    for axis, (name, problem) in zip(page.subplots(1, 2), problems.items(), strict=True):
        bound = lower_bound(problem).machines
        warm_up(problem, "best")
        axis.axhline(bound, color="#222222", lw=1.0, label="lower bound")
        for start, (colour, line) in zip(STARTS, LINES, strict=True):
            found = improved(problem, start, bound, seconds)
            share = 100 * found[:, 1] / problem.instance.replicas.sum()
            axis.plot(share, found[:, 0], line, color=colour, lw=1.8, label=f"from {title_of_planner(start)}")
            least = [found[share <= 100 * most, 0].min() for most in SHARES]
            rows.append([name, start, *(f"{count:,.0f}" for count in (found[0, 0], *least)), f"{bound:,}"])
        axis.set_title(name, fontsize=10)
        axis.set_xlabel("running replicas that move, %")
        axis.set_xlim(left=0)
        tidy(axis)
    page.axes[0].set_ylabel("machines in use (lower is better)")
    page.legend(
        *page.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=9
    )
    page.savefig(figure, dpi=DPI)
    print(markdown_table(["problem", "from", "machines", *(f"{share:.1%} move" for share in SHARES), "bound"], rows))


def improved(problem: PlanningProblem, start: str, bound: int, seconds: float) -> np.ndarray:
    """(n, 2) machines in use and replicas moved of each better plan, from that of the planner `start` on."""
    running = make_plan(problem, start)
    problem, found = replace(problem, running=running), []

    def record(plan: Plan) -> None:
        verdict = validate(problem, plan)
        assert verdict.feasible, verdict.examples
        found.append((verdict.machines, verdict.moved))

    search(problem, seconds, save=record, bound=bound, moves_cost=MOVE)
    return np.array(found)


if __name__ == "__main__":
    tyro.cli(main)
