"""Which categories of batch work raise an interference score, and by how much."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvwrl.interference.categories import CATEGORY_NAMES
from tvwrl.interference.machines import uniform_machines
from tvwrl.interference.observations import CATEGORIES
from tvwrl.interference.score import InterferenceScore
from tvwrl.markdown import markdown_table
from tvwrl.types import InputError, Int

MOST = 100_000  # most instances of a category on a machine
TRIED = (1, 3, 5)  # numbers of instances of one category on an otherwise empty machine


def explain_score(score: InterferenceScore, tasks: Sequence[str] = ()) -> str:
    """Markdown: how much each category contributes to the score of a machine with one instance of every service.

    `tasks`: batch instances as CATEGORY=INSTANCES; none: the effect of `TRIED` instances of each category alone.
    Raises InputError as `parse_tasks`.
    """
    counts, services = parse_tasks(tasks), len(score.services)
    tried = [count * np.eye(CATEGORIES, dtype=np.int64) for count in TRIED]
    machines = uniform_machines(np.concatenate([counts[None], np.zeros_like(counts)[None], *tried]), services)
    total, empty, *others = score.of(machines, 0.0)
    head = ["category", "CPU, memory, makespan"]
    if tasks:
        head += ["instances", "points"]
        rows = [
            [str(one.category), CATEGORY_NAMES[one.category], str(one.instances), f"{one.points:+.1f}"]
            for one in score.explain(machines, 0)
        ]
        scores = f"The machine scores {total:.1f} of 100, an empty one {empty:.1f}."
    else:
        head += [f"points of {count}" for count in TRIED]
        points = (np.array(others) - empty).reshape(len(TRIED), CATEGORIES).T
        rows = [
            [str(c), CATEGORY_NAMES[c], *(f"{value:+.1f}" for value in points[c])]
            for c in np.argsort(-points.sum(axis=1), kind="stable")
            if points[c].any()
        ]
        scores = f"The empty machine scores {empty:.1f} of 100."
    classes = "" if score.thresholds is None else f"Classes begin at {score.thresholds.describe()}.\n\n"
    return f"Learnt from {score.about or 'observations'}.\n\n{classes}{markdown_table(head, rows)}\n\n{scores}"


def parse_tasks(tasks: Sequence[str]) -> Int:
    """(60,) instances by category of entries CATEGORY=INSTANCES.

    Raises InputError for a malformed entry, an unknown category, or more than `MOST` instances of one category.
    """
    counts = np.zeros(CATEGORIES, np.int64)
    for entry in tasks:
        category, _, instances = entry.partition("=")
        if not (category.isdecimal() and instances.isdecimal() and int(category) < CATEGORIES):
            raise InputError(f"tasks is '{entry}': must be CATEGORY=INSTANCES with a category 0 to {CATEGORIES - 1}")
        counts[int(category)] += min(int(instances), MOST + 1)
        if counts[int(category)] > MOST:
            raise InputError(f"tasks is '{entry}': no machine runs more than {MOST:,} instances of a category")
    return counts
