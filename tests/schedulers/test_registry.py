"""What every name in the registry needs: a scheduler of that name, what it knows, and a title of its own."""

from __future__ import annotations

import pytest

from tvwrl.schedulers import GROUPS, KNOWLEDGE, ROLLOUTS, SCHEDULERS, make_scheduler
from tvwrl.schedulers.titles import title_of
from tvwrl.types import InputError


@pytest.mark.parametrize("name", [*SCHEDULERS, *ROLLOUTS])
def test_a_name_has_a_title_of_its_own(name: str) -> None:
    title = title_of(name)
    assert title != name, f"give {name!r} a title where it is registered: what people call it in pictures"
    same = [other for other in KNOWLEDGE if title_of(other) == title and other != name]
    assert same == [], f"the title of {name!r} is taken: {title}"


@pytest.mark.parametrize("name", KNOWLEDGE)
def test_a_name_says_what_it_knows(name: str) -> None:
    assert make_scheduler(name).name == name
    assert KNOWLEDGE[name].group in GROUPS
    assert KNOWLEDGE[name].note


def test_names_are_those_of_rules_and_rollouts() -> None:
    assert set(KNOWLEDGE) == {*SCHEDULERS, *ROLLOUTS}


def test_an_unknown_name_is_refused_with_names_that_are_near() -> None:
    with pytest.raises(InputError, match="there is no scheduler 'x'; tvwrl evaluate --list-schedulers lists all"):
        make_scheduler("x")
    with pytest.raises(InputError, match=r"scheduler is 'bset-fit': did you mean best-fit, best-fit-peak"):
        make_scheduler("bset-fit")
