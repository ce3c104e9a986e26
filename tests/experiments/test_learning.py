"""What training brought, in a sentence."""

import polars as pl
import pytest

from tvwrl.experiments.train_command import INITIAL, rules_ahead, what_training_brought


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
    said = what_training_brought(rows_of(4 * best, 4 * [-10000.0, -11000.0, -9000.0]), "mine", 7)
    assert said.startswith(begins)
    assert "to that of iteration 7, on 12 unseen sequences" in said


@pytest.mark.parametrize(
    ("rewards", "said"),
    [
        ({"spread": [-4.0, -6.0, -5.0], "random": [-3.0, -5.0, -4.0]}, "rules random and spread"),
        ({"spread": [-4.0, -6.0, -5.0], "random": [-9.0, -9.0, -9.0]}, "rule spread"),
        ({"spread": [-4.0, -14.0, -5.0], "clairvoyant": [-1.0, -1.0, -1.0]}, ""),  # by chance; it knows more
        ({"spread": [-4.0, -3.0], "random": [-3.0, -4.0]}, ""),  # of too few sequences
    ],
)
def test_simple_rules_that_are_ahead_are_named(rewards, said):
    rewards = {name: 4 * values for name, values in rewards.items()}
    own = {"mine": [-8.0] * len(rewards["spread"])}
    rows = [
        {"scheduler": name, "load": 0.5, "sequence": i, "reward": reward}
        for name, values in (own | rewards).items()
        for i, reward in enumerate(values)
    ]
    found = rules_ahead(pl.DataFrame(rows), "mine")
    assert found == (said and f"the policy is still behind the simple {said}")


def test_one_sequence_says_nothing_about_chance():
    said = what_training_brought(rows_of([-8000.0], [-10000.0]), "mine", 7)
    assert said.startswith("on one unseen sequence, +2.0 thousand (+20.0 %) from the initial policy")
    assert "too few to rule out chance; compare on more (--comparison-sequences)" in said
    assert "nan" not in said
    assert "on 9 unseen sequences" in what_training_brought(rows_of(9 * [-8.0], 9 * [-9.0]), "mine", 7)
