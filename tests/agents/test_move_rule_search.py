"""Policy search over the options of rules that move: what is drawn, what is kept, and that it goes on the same."""

import json
import math

import pytest

from tvwrl.agents.move_rule_search import Option, learn_rule, options_of
from tvwrl.agents.value_settings import ValueSettings
from tvwrl.envs.problem import Problem
from tvwrl.schedulers import make_move_rule
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError

FEW = ValueSettings(sequences=3, validation=2, generations=2)


@pytest.fixture(scope="module")
def moving(google):
    return Problem.build(google, Scenario(moves_per_slot=2, machines=4, workloads=20)).with_forecasts()


def test_options_are_drawn_around_the_values_that_rules_are_tuned_over():
    threshold, overshoot, late, most = options_of("evacuate")
    assert math.exp(threshold.mean) == pytest.approx(math.sqrt(1_000 * 20_000))
    assert math.exp(overshoot.mean) == pytest.approx(1)
    assert (late.mean, late.by_factors) == (0.25, False)
    assert (most.mean, most.is_count) == (3, True)


def test_what_is_drawn_is_possible_however_far_off():
    assert Option("late", 0.0, 1.0, False, False).value(-2.0) == 0
    assert Option("most", 3.0, 1.0, False, True).value(-2.0) == 1
    assert Option("most", 3.0, 1.0, False, True).value(99.0) == 8
    assert Option("threshold", 0.0, 1.0, True, False).value(math.log(12_345)) == 12_300


def test_it_goes_on_with_the_same_result(moving, tmp_path):
    whole = learn_rule([moving], "evacuate", FEW, kept=tmp_path)
    assert make_move_rule(whole).name == whole
    (tmp_path / "generation-2.json").unlink()  # as if it had been killed there
    assert learn_rule([moving], "evacuate", FEW, kept=tmp_path) == whole
    said = list[str]()
    assert learn_rule([moving], "evacuate", FEW, said.append, tmp_path) == whole
    kept = [json.loads((tmp_path / f"generation-{n}.json").read_text())["validation"] for n in (1, 2)]
    first = float(said[0].split(": ")[1].split(" %")[0]) / 100
    assert (whole == "evacuate") == (first <= min(kept) + 5e-4)


def test_what_was_learnt_otherwise_or_is_damaged_is_refused(moving, tmp_path):
    few = ValueSettings(sequences=3, validation=2, generations=1)
    learn_rule([moving], "greedy", few, kept=tmp_path)
    with pytest.raises(InputError, match="rule"):
        learn_rule([moving], "evacuate", few, kept=tmp_path)
    file = tmp_path / "generation-1.json"
    kept = json.loads(file.read_text())
    for change in ({"mean": [1.0]}, {"deviation": None}, {"validation": "much"}):
        file.write_text(json.dumps(kept | change))
        with pytest.raises(InputError, match="damaged"):
            learn_rule([moving], "greedy", few, kept=tmp_path)
    with pytest.raises(InputError, match="rule"):
        learn_rule([moving], "karpenter", few)
    with pytest.raises(InputError, match="places is 'spread'"):
        learn_rule([moving], "greedy", ValueSettings(places="spread"))
