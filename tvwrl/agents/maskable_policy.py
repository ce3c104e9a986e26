"""The policy of `machine_policy` for MaskablePPO; needs sb3-contrib."""

from __future__ import annotations

from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from tvwrl.agents.machine_policy import SharedByMachines


class MaskableMachinePolicy(SharedByMachines, MaskableActorCriticPolicy):
    """`MachinePolicy` for MaskablePPO of sb3-contrib: actions that the mask forbids have probability 0.

    Parameters
    ----------
    observation_space, action_space, lr_schedule, hidden, **options
        As of `MachinePolicy`.

    Examples
    --------
    >>> model = MaskablePPO(MaskableMachinePolicy, env, gamma=0.95)  # doctest: +SKIP
    """
