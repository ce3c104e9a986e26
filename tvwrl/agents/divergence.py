"""Detects updates that break a policy, and rolls them back."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from tvwrl.agents.policy_gradient import Learner

LARGEST = 1e6  # weight; larger ones could take logits out of the range of float32
EXPLODED = 1000.0  # multiple of the usual norm above which a gradient has exploded
NORMS = ("gradient_norm", "critic_gradient_norm")  # columns of progress.csv
USUAL, LEAST = 20, 5  # recent iterations that define the usual norm, and the fewest that suffice


class Diverged(Exception):
    """An update broke the policy; the message says how."""


@contextmanager
def restored_on_divergence(policy: nn.Module, learner: Learner) -> Iterator[None]:
    """Restore policy and learner to their present state if the block raises Diverged."""
    good = copy.deepcopy((policy.state_dict(), learner.state()))
    try:
        yield
    except Diverged:
        policy.load_state_dict(good[0])
        learner.restore(good[1])
        raise


def check_update(logged: Mapping[str, float], weights: Iterable[Tensor]) -> None:
    """Raise Diverged if a logged number is not finite, or a weight is not finite or exceeds `LARGEST`.

    The weights are checked too because the log shows only gradients of the weights before the step.
    """
    for name, value in logged.items():
        if not np.isfinite(value):
            raise Diverged(f"{name.replace('_', ' ')} is {value}")
    with torch.no_grad():
        largest = float(torch.stack([weight.abs().max() for weight in weights]).max())  # nan, if one is
    if not largest <= LARGEST:
        raise Diverged(f"a weight is {largest:.3g} (at most {LARGEST:g})")


def check_gradients(logged: Mapping[str, float], before: Iterable[Mapping[str, float | str]]) -> None:
    """Raise Diverged if a gradient explodes; `before`: the log of earlier iterations, the latest last."""
    rows = list(before)[-USUAL:]
    for name in NORMS:
        lately = [float(row[name]) for row in rows if row.get(name) not in (None, "")]
        if name in logged and len(lately) >= LEAST and logged[name] > EXPLODED * max(np.median(lately), 1e-3):
            raise Diverged(
                f"the gradient explodes: its norm is {logged[name]:.3g} "
                f"({np.median(lately):.3g} in the {len(lately)} iterations before)"
            )
