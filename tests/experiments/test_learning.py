"""What training brought, in a sentence."""

import polars as pl
import pytest

from tvwrl.experiments.learning import INITIAL, what_training_brought


def rows_of(best, initial):
    """Rows of the policy `mine` and of its beginning, with these rewards."""
    both = {"mine": best, "mine" + INITIAL: initial}
    rows = [
        {"scheduler": name, "load": 0.5, "sequence": i, "reward": reward}
        for name, rewards in both.items()
        for i, reward in enumerate(rewards)
    ]
    return pl.DataFrame(rows)


@pytest.mark.parametrize(
    ("best", "begins"),
    [
        (
            [-8000.0, -9000.0, -7000.0],
            "training improved the policy: +2.0 thousand [+2.0, +2.0] per sequence (+20.0 %)",
        ),
        ([-12000.0, -13000.0, -11000.0], "training made the policy worse: -2.0 thousand [-2.0, -2.0]"),
        ([-9000.0, -12000.0, -9000.0], "training made no significant difference: +0.0"),
    ],
)
def test_an_interval_without_zero_decides(best, begins):
    said = what_training_brought(rows_of(best, [-10000.0, -11000.0, -9000.0]), "mine", 7)
    assert said.startswith(begins)
    assert "to that of iteration 7, on 3 unseen sequences" in said


def test_one_sequence_says_nothing_about_chance():
    said = what_training_brought(rows_of([-8000.0], [-10000.0]), "mine", 7)
    assert said.startswith("on one unseen sequence, +2.0 thousand (+20.0 %) from the initial policy")
    assert "one is too few to rule out chance; compare on more (--comparison-sequences)" in said
    assert "nan" not in said
