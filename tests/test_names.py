"""The grammar of names: what is read, what is refused, and that writing is the inverse of reading."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvwrl.names import Name, name_and_source, numbers, read_name, written
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
        (["m=1"], "it: 'm' is not an option; write OPTION=NUMBER, with any of n"),
        (["n=1", "n=2"], "it: 'n' is given twice"),
        (["n=1.5"], "it: n is '1.5': must be a whole number"),
        (["3"], "it: '3' is not an option"),
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
