"""What the checks of options accept and refuse."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tvwrl import checks
from tvwrl.types import InputError

MANY = [*"abcdefghi", "spread"]


@pytest.mark.parametrize(
    ("check", "good", "bad", "message"),
    [
        (partial(checks.at_least, 2), (2, 3.5, None, (2, 3)), (1, np.nan, np.inf, (2, 1)), "must be at least 2"),
        (checks.positive, (1e-9, 7), (0, 0.0, -1, np.nan, np.inf), "must be a number > 0"),
        (partial(checks.below, 1), (0, 0.99), (-0.1, 1, np.nan), "must be at least 0 and below 1"),
        (partial(checks.within, 0, 1), (0, 1, np.array([0.5])), (-0.1, 1.1, np.nan), "must be 0 to 1"),
        (checks.fraction, (0.01, 1, None), (0, 65, 1.01, np.nan), r"must be a fraction above 0 and at most 1 .*"),
        (checks.percent, (1, 70.0, 100), (0, 0.7, 101, np.nan), r"must be a percentage, 1 to 100 .*"),
        (partial(checks.one_of, {"a": 1, "b": 2}), ("a", None, ("a", "b")), ("c", "", ("a", "c")), "one of a, b"),
        (checks.different, ((1, 2), "ab"), ((), (1, 1)), "must be different values, at least one"),
    ],
)
def test_values_are_refused_outside_their_limits(check, good, bad, message):
    for value in good:
        check(option=value)
    for value in bad:
        with pytest.raises(InputError, match=f"^option is .*: .*{message}$"):
            check(option=value)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: checks.at_least(1, machines=3, workers=0), "workers is 0: must be at least 1"),
        (lambda: checks.positive(loads=(0.5, np.float64(-1))), "loads is -1.0: must be a number > 0"),
        (lambda: checks.one_of(("a", "b"), law="c"), "law is 'c': must be one of a, b"),
        (
            lambda: checks.one_of(("spread", 3), law="sprad"),
            "law is 'sprad': did you mean spread? It must be one of spread, 3",
        ),
        (lambda: checks.one_of(MANY, law="sprad"), "law is 'sprad': did you mean spread?"),
        (lambda: checks.one_of(MANY, law="x"), "law is 'x': must be one of 10, such as a, b, c"),
        (
            lambda: checks.one_of(MANY, "--list-laws lists all", law="x"),
            "law is 'x': --list-laws lists all",
        ),
        (lambda: checks.different(seeds=(1, 1)), "seeds is 1, 1: must be different values, at least one"),
        (lambda: checks.different(seeds=()), "seeds is empty: must be different values, at least one"),
    ],
)
def test_the_error_names_the_first_value_out_of_range(check, message):
    with pytest.raises(InputError) as refusal:
        check()
    assert str(refusal.value) == message
