"""What every registered rule that moves keeps to."""

import pytest

import tvwrl
from tvwrl.checks import InputError
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.moving.base import MOVE_RULES, make_move_rule
from tvwrl.schedulers.runner import Runner
from tvwrl.simulation.scenario import Scenario

FROM_A_RECORD = ("rebalance",)  # plans from the record of a cluster, which an episode is not
PLAYED = [rule for rule in MOVE_RULES if rule not in FROM_A_RECORD]


@pytest.fixture(scope="module")
def moving():
    """A small problem in which running workloads may move, with forecasts."""
    scenario = Scenario(moves_per_slot=2, machines=5, workloads=40)
    return tvwrl.Problem.build(tvwrl.open_trace("synthetic:google"), scenario).with_forecasts()


@pytest.fixture(scope="module")
def played(moving):
    """(rule) -> the records of two episodes, and their scores."""
    runner = Runner(moving.sequences("validation", 2, seed=0), moving.machines, moving.scenario)

    def play(rule, placing="expected-cost"):
        scheduler = make_scheduler(f"{placing} + {rule}")
        records = [runner.play(scheduler, sequence) for sequence in range(2)]
        return records, [moving.score(record)["reward"] for record in records]

    return play


@pytest.mark.parametrize("rule", PLAYED)
def test_plays_to_the_end_and_the_same_twice(played, rule):
    records, rewards = played(rule)
    assert all(-1e9 < reward < 0 for reward in rewards)
    again, same = played(rule)
    assert rewards == same
    for one, other in zip(records, again, strict=True):
        assert one.moves.workload.tolist() == other.moves.workload.tolist()
        assert one.moves.target.tolist() == other.moves.target.tolist()


def test_a_rule_that_plans_from_a_record_says_so(played):
    import tvwrl.rebalance.move_rule  # noqa: F401 registers it

    for rule in FROM_A_RECORD:
        with pytest.raises(InputError, match="what-if --moves"):
            played(rule)


def _refusal(name):
    """Why a rule cannot be made; empty if it can."""
    try:
        make_move_rule(name)
    except InputError as why:
        return str(why)
    return ""


@pytest.mark.parametrize("rule", MOVE_RULES)
def test_options_are_tuned_over_valid_values(rule):
    """Some are refused beside another option's default, as a low threshold above the high one; tuning skips these."""
    made = make_move_rule(rule)
    for option, values in made.options.items():
        said = [_refusal(f"{rule}({option}={value})") for value in values]
        assert said.count("") >= min(len(values), 2)
        assert all("must be at most" in one for one in filter(None, said))
        with pytest.raises(InputError):
            make_move_rule(f"{rule}({option}=-1)")
