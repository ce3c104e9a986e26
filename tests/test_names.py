"""The grammar of names: what is read, what is refused, and that writing is the inverse of reading."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvwrl.names import Form, Name, choice, name_and_source, numbers, read_name, share, shares, whole, written
from tvwrl.types import InputError

WORD = st.text("abcxyz-", min_size=1)
OPTIONS = st.dictionaries(st.sampled_from("abcd"), st.integers(-99, 99), max_size=3)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("spread", Name("spread", "", ())),
        ("n-sigma(n=3)", Name("n-sigma", "", ("n=3",))),
        ("rollout(spread)", Name("rollout", "spread", ())),
        ("rollout( spread+policy , horizon=8, )", Name("rollout", "spread+policy", ("horizon=8",))),
        ("spread()", Name("spread", "", ())),
    ],
)
def test_parts(text: str, parts: Name) -> None:
    assert read_name(text, "scheduler") == parts


@given(st.dictionaries(st.sampled_from("ab"), st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_numbers_are_written_to_the_last_digit(options: dict[str, float]) -> None:
    found = read_name(written("n-sigma", options=options), "scheduler")
    assert numbers("it", found.options, dict.fromkeys("ab", float)) == options


@pytest.mark.parametrize("text", ["n-sigma(n=3", "n-sigma)", "a((b)", "a(b))", "a(b)c", "a(b)(c)"])
def test_brackets_have_to_match(text: str) -> None:
    with pytest.raises(InputError, match="brackets do not match"):
        read_name(text, "scheduler")


@given(WORD, st.one_of(st.just(""), WORD), OPTIONS)
def test_what_is_written_is_read_again(head: str, of: str, options: dict[str, int]) -> None:
    found = read_name(written(head, of, options), "scheduler")
    assert (found.head, found.of) == (head, of)
    assert numbers("it", found.options, dict.fromkeys("abcd", int)) == options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["m=1"], "it has no option 'm'; it has: n"),
        (["n=1", "n=2"], "it: 'n' is given twice"),
        (["n=1.5"], "it: n is '1.5': must be a whole number"),
        (["3"], "it: '3' is not OPTION=NUMBER; the options are: n"),
    ],
)
def test_options_are_numbers_that_are_known(options: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        numbers("it", options, {"n": int})


@pytest.mark.parametrize(
    ("entry", "sides"),
    [
        ("deeprm=runs/a=b", ("deeprm", "runs/a=b")),
        ("rollout(spread+policy,horizon=8)", ("rollout(spread+policy,horizon=8)", "")),
        ("rollout(spread+policy,horizon=8)=RUN", ("rollout(spread+policy,horizon=8)", "RUN")),
        ("n-sigma(n=3)", ("n-sigma(n=3)", "")),
    ],
)
def test_sides_of_the_first_equals_sign_outside_of_brackets(entry: str, sides: tuple[str, str]) -> None:
    assert name_and_source(entry) == sides


SPREAD = Form(
    "Spread-{size}[-Hybrid{alpha}].{times}",
    {
        "size": choice({"Avg": 1, "Max": 2}, {"Avg": "average"}, ("Avg", "Max")),
        "alpha": share(),
        "times": whole("time", 1, 2, least=0),
    },
)


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("Spread-Avg.1", {"size": 1, "times": 1}, "average, 1 time"),
        ("Spread-Max.0", {"size": 2, "times": 0}, "Max, 0 times"),
        ("Spread-Avg-Hybrid0.5.2", {"size": 1, "alpha": 0.5, "times": 2}, None),  # which the title leaves out
    ],
)
def test_published_names_are_read_and_said(name: str, values: dict[str, float], said: str | None) -> None:
    texts = SPREAD.read(name)
    assert texts is not None
    assert SPREAD.values(texts) == values
    assert SPREAD.say("{size}, {times}", texts) == said


@pytest.mark.parametrize(
    "name", ["", "Spread-Avg", "Spread-Min.1", "spread-Avg.1", "Spread-Avg-Hybrid1.5.1", "Spread-Avgx1"]
)
def test_names_of_another_form_are_not_read(name: str) -> None:
    assert SPREAD.read(name) is None


def test_listed_names_leave_out_parts_without_a_list() -> None:
    assert SPREAD.names == ["Spread-Avg.1", "Spread-Avg.2", "Spread-Max.1", "Spread-Max.2"]
    weights = Form("W({weights})", {"weights": shares(2, "1,0.5")})
    assert (weights.names, weights.read("W(1,0.5)"), weights.read("W(1)")) == (["W(1,0.5)"], {"weights": "1,0.5"}, None)
    assert weights.values({"weights": "1,0.5"}) == {"weights": (1.0, 0.5)}
