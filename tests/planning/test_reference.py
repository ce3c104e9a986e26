"""Counts of machines against those of the published code with the paper's arithmetic."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.planning.hand_plans import plan
from tvwrl.planning.instance import Fleet, Instance

SMALL = (
    "small_1000_arbitrary_d1_s104",
    "small_2000_normal_d5_s106",
    "small_500_threshold_d10_s103",
    "small_400_threshold_d10_s101_TS",
)
LARGE = ("TClab_2D", "arbitrary_d1_0", "TClab_TS", "arbitrary_d1_0_TS")
TOLERANCE = 0.003  # ties and 32-bit sums
EXACT = {"NCD-DotProduct", "NCD-L2Norm", "NCD-TightFill", "LRASched-Fitness"}  # with fixed demand


@pytest.mark.real_data
@pytest.mark.parametrize("name", [*SMALL, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGE)])
def test_counts_are_those_of_the_published_code(
    reference: Path, published: Callable[[str], Instance], name: str
) -> None:
    """Every planner that did not fall back there needs as many machines, give or take."""
    instance, measured = published(name), json.loads((reference / "reference.json").read_text())["instances"][name]
    expected = measured["as_published_code" if name.endswith("TS") else "as_in_paper"]
    counts = {
        algorithm: (plan(instance, Fleet.of([64, 128]), algorithm).machines, row["nodes"])
        for algorithm, row in expected.items()
        if not row["ub_fallback"]
    }
    exact = set() if name.endswith("TS") else EXACT
    allowed = {k: 0 if k in exact else max(1, TOLERANCE * m) for k, (_, m) in counts.items()}
    assert {k: (n, m) for k, (n, m) in counts.items() if abs(n - m) > allowed[k]} == {}
