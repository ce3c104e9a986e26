"""Policies written as PyTorch operations give the logits of the policies themselves, features and all."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.agents.exporting import EVERY, MORE, checkpoint_of, environments, states
from tvwrl.agents.episodes import logits_of
from tvwrl.agents.export import exportable, random_states
from tvwrl.agents.exported import Facts
from tvwrl.agents.networks import DeepRMPolicy
from tvwrl.types import InputError


def difference(policy, module, seen, mask):
    """Largest difference between both, as a share of the logit where that is above 1."""
    expected = logits_of(policy, seen, mask, "cpu")[0].numpy()
    with torch.no_grad():
        found = module(**{name: torch.from_numpy(part) for name, part in seen.items()}, mask=torch.from_numpy(mask))
    assert found.shape == expected.shape
    return float((np.abs(found.numpy() - expected) / np.maximum(np.abs(expected), 1)).max())


@pytest.mark.parametrize("name", EVERY)
def test_logits_are_those_of_the_policy(problem, name):
    kind, scenario, _ = EVERY[name]
    checkpoint, envs = checkpoint_of(problem, name)
    policy = checkpoint.make_policy().eval()
    module = exportable(policy)
    assert difference(policy, module, *states(envs)) < 1e-5
    random = random_states(Facts.of(checkpoint, name), 4, 300)
    assert difference(policy, module, random, random.pop("mask")) < 1e-5
    if kind != "flat":
        wider = environments(problem, replace(scenario, load=1.0, machine_types=MORE))
        assert difference(policy, module, *states(wider, 10)) < 1e-5


def test_what_is_not_allowed_is_next_to_impossible(problem):
    checkpoint, envs = checkpoint_of(problem, "pairs with expected-cost")
    seen, mask = states(envs)
    module = exportable(checkpoint.make_policy())
    with torch.no_grad():
        logits = module(**{name: torch.from_numpy(part) for name, part in seen.items()}, mask=torch.from_numpy(mask))
    assert not mask.all()
    assert np.array_equal(logits.numpy() > -1e8, mask)


def test_deeprm_is_refused():
    policy = DeepRMPolicy({"cluster": (4, 2), "queue": (3, 3), "actions": 4}, 5)
    with pytest.raises(InputError, match="DeepRM policy cannot be exported: it chooses a workload"):
        exportable(policy)
