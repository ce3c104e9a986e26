"""Policy search over the options of rules that move: what is drawn, what is kept, and that it goes on the same."""

import json
import math
from typing import get_args, get_type_hints

import numpy as np
import pytest

from tvwrl.agents.move_rule_search import SEARCHED, Option, _round, learn_rule, options_of
from tvwrl.agents.value_learning import Judge
from tvwrl.agents.value_settings import ValueSettings
from tvwrl.envs.problem import Problem
from tvwrl.experiments.learn_moves_command import MoveTrainingSettings
from tvwrl.schedulers import make_move_rule
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError

FEW = ValueSettings(sequences=3, validation=2, generations=2)


@pytest.fixture(scope="module")
def moving(google):
    return Problem.build(google, Scenario(moves_per_slot=2, machines=4, workloads=20)).with_forecasts()


def test_options_are_drawn_around_the_values_that_rules_are_tuned_over():
    threshold, overshoot, late, most = options_of("evacuate")
    assert math.exp(threshold.mean) == pytest.approx(math.sqrt(1_000 * 60_000))
    assert math.exp(overshoot.mean) == pytest.approx(math.sqrt(0.25 * 2))
    assert (late.mean, late.by_factors) == (0.25, False)
    assert (most.mean, most.is_count) == (5, True)


def test_what_is_drawn_is_possible_however_far_off():
    assert Option("late", 0.0, 1.0, False, False).value(-2.0) == 0
    assert Option("most", 3.0, 1.0, False, True).value(-2.0) == 1
    assert Option("most", 3.0, 1.0, False, True).value(99.0) == 8
    assert Option("risk", 0.0, 1.0, True, False).value(-9.0) == 1
    assert Option("threshold", 0.0, 1.0, True, False).value(math.log(12_345)) == 12_300


def test_it_goes_on_with_the_same_result(moving, tmp_path):
    whole = learn_rule([moving], "evacuate", FEW, kept=tmp_path)
    assert make_move_rule(whole).name == whole
    (tmp_path / "generation-2.json").unlink()  # as if it had been killed there
    assert learn_rule([moving], "evacuate", FEW, kept=tmp_path) == whole
    assert learn_rule([moving], "evacuate", FEW, kept=tmp_path) == whole


class Bowl:
    """Costs that are least for a threshold of 4,000 and two workloads at once."""

    def cost_of(self, make):
        rule = make(Scenario()).rule
        return 1 + (math.log(rule.threshold / 4_000)) ** 2 + (rule.most - 2) ** 2


def test_draws_move_to_what_costs_least():
    space = options_of("evacuate")
    mean, deviation = (np.array([option[k] for option in space]) for k in (1, 2))
    rng = np.random.default_rng(0)
    for _ in range(8):
        mean, deviation, least = _round(Bowl(), "expected-cost", "evacuate", space, mean, deviation, rng)
    assert math.exp(mean[0]) == pytest.approx(4_000, rel=0.2)
    assert round(mean[3]) == 2
    assert least < 1.1
    assert (deviation < [option.deviation for option in space]).all()


def test_the_rule_as_it_is_stays_where_none_is_better(moving, tmp_path):
    said = list[str]()
    whole = learn_rule([moving], "evacuate", FEW, said.append, tmp_path)
    kept = [json.loads((tmp_path / f"generation-{n}.json").read_text())["validation"] for n in (1, 2)]
    first = next(float(line.split(": ")[1].split(" %")[0]) / 100 for line in said if "as it is" in line)
    assert (whole == "evacuate") == (first <= min(kept) + 5e-4)


def test_what_was_learnt_otherwise_or_is_damaged_is_refused(moving, tmp_path):
    few = ValueSettings(sequences=3, validation=2, generations=1)
    learn_rule([moving], "greedy", few, kept=tmp_path)
    with pytest.raises(InputError, match=r"generation-1.json was learnt with other .*rule: give another folder$"):
        learn_rule([moving], "evacuate", few, kept=tmp_path)
    file = tmp_path / "generation-1.json"
    kept = json.loads(file.read_text())
    for change in ({"mean": [1.0]}, {"deviation": None}, {"validation": "much"}, {"validation": math.nan}):
        file.write_text(json.dumps(kept | change))
        with pytest.raises(InputError, match="damaged"):
            learn_rule([moving], "greedy", few, kept=tmp_path)
    with pytest.raises(InputError, match="rule"):
        learn_rule([moving], "karpenter", few)
    with pytest.raises(InputError, match="places is 'spread'"):
        ValueSettings(places="spread")
    assert ValueSettings(places="expected-cost(opening=2e2)").places == "expected-cost(opening=200)"


def test_what_is_unplaced_is_never_the_best(moving, monkeypatch):
    """The rule as it is leaves workloads unplaced; anything that was searched is better."""
    costs = iter([math.nan, 0.9, 0.8])
    monkeypatch.setattr(Judge, "cost_of", lambda judge, make: next(costs) if judge.total == FEW.validation else 0.5)
    assert learn_rule([moving], "greedy", FEW) != "greedy"


def test_the_command_offers_what_can_be_searched():
    assert set(get_args(get_type_hints(MoveTrainingSettings)["rule"])) == set(SEARCHED)
