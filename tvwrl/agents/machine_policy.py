"""Policies for PPO of Stable-Baselines3 and sb3-contrib with weights shared by machines, on observations of parts."""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn

from tvwrl.types import InputError

LARGEST = 10.0  # inputs are cut to +- this


class MachineFeatures(BaseFeaturesExtractor):
    """Hidden features of each machine, all by the same network, followed by their mean.

    Exchanging two machines exchanges their features. For `policy_kwargs={"features_extractor_class": ...}`;
    `MachinePolicy` has it already, and goes on with shared weights.

    Parameters
    ----------
    observation_space : spaces.Dict
        Of an environment with `observation=[...]`: parts with a row for each machine, side by side; the others are
        repeated in every row.
    hidden : int, default 64
        Features of each machine (H).

    Raises
    ------
    InputError
        For any other observation, such as the standard one.

    Examples
    --------
    >>> space = spaces.Dict({"permachine": spaces.Box(-1, 1, (10, 4))})
    >>> MachineFeatures(space, hidden=8)({"permachine": torch.zeros(2, 10, 4)}).shape
    torch.Size([2, 88])
    """

    def __init__(self, observation_space: spaces.Dict, hidden: int = 64) -> None:
        shapes = {name: space.shape or () for name, space in observation_space.spaces.items()}
        counts = {shape[0] for shape in shapes.values() if len(shape) == 2}
        if len(counts) != 1 or any(len(shape) not in (1, 2) for shape in shapes.values()):
            raise InputError(
                f"the observation has arrays {shapes}: must have rows for each machine, as in "
                "tvwrl.make(task, observation=[PerMachine(Costs(), Machines(), Head())])"
            )
        (self.machines,) = counts
        super().__init__(observation_space, (self.machines + 1) * hidden)
        inputs = sum(shape[-1] for shape in shapes.values())
        self.network = nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())

    def forward(self, observations: dict[str, Tensor]) -> Tensor:
        """(B, (M + 1) H): H features of each machine, then their means."""
        rows = [
            part if part.ndim == 3 else part[:, None].expand(-1, self.machines, -1) for part in observations.values()
        ]
        each = self.network(torch.cat(rows, dim=2).clamp(-LARGEST, LARGEST))
        return torch.cat([each, each.mean(1, keepdim=True)], dim=1).flatten(1)


class MachineScores(nn.Module):
    """From `MachineFeatures`, a logit for each machine by the same weights, and one for waiting if that is possible."""

    def __init__(self, machines: int, hidden: int, actions: int) -> None:
        super().__init__()
        if actions not in (machines, machines + 1):
            raise InputError(f"the environment has {actions} actions: must be {machines} machines, or one more to wait")
        self.machines, self.place = machines, nn.Linear(2 * hidden, 1)
        self.hold = nn.Linear(hidden, 1) if actions > machines else None

    def forward(self, features: Tensor) -> Tensor:
        """(B, actions) logits."""
        each = features.view(len(features), self.machines + 1, -1)
        mean = each[:, -1]
        logits = self.place(torch.cat([each[:, :-1], mean[:, None].expand(-1, self.machines, -1)], dim=2))[..., 0]
        return logits if self.hold is None else torch.cat([logits, self.hold(mean)], dim=1)


class StateValue(nn.Module):
    """The value of the state from the mean of `MachineFeatures`."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden, self.output = hidden, nn.Linear(hidden, 1)

    def forward(self, features: Tensor) -> Tensor:
        """(B, 1)."""
        value: Tensor = self.output(features[:, -self.hidden :])
        return value


class SharedByMachines(BasePolicy):
    """What `MachinePolicy` and `MaskableMachinePolicy` share: the networks."""

    features_dim: int
    action_net: Any
    value_net: Any

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Discrete,
        lr_schedule: Any,
        hidden: int = 64,
        **options: Any,
    ) -> None:
        self.hidden = hidden
        networks: dict[str, Any] = {
            "features_extractor_class": MachineFeatures,
            "features_extractor_kwargs": {"hidden": hidden},
        }
        super().__init__(observation_space, action_space, lr_schedule, net_arch=[], **networks, **options)

    def _build(self, lr_schedule: Any) -> None:
        """Put our heads in place of those of Stable-Baselines3; before training all actions are equally likely."""
        super()._build(lr_schedule)  # type: ignore[misc]
        machines, space = self.features_dim // self.hidden - 1, self.action_space
        assert isinstance(space, spaces.Discrete)
        scores: nn.Module = MachineScores(machines, self.hidden, int(space.n))
        value: nn.Module = StateValue(self.hidden)
        for weight in scores.parameters():
            nn.init.zeros_(weight)
        self.action_net, self.value_net = scores, value
        rate: dict[str, Any] = {"lr": lr_schedule(1)}
        self.optimizer = self.optimizer_class(self.parameters(), **rate, **self.optimizer_kwargs)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        """What a saved policy is made from again."""
        ours = ("net_arch", "features_extractor_class", "features_extractor_kwargs")
        kept = {name: value for name, value in super()._get_constructor_parameters().items() if name not in ours}
        return kept | {"hidden": self.hidden}


class MachinePolicy(SharedByMachines, ActorCriticPolicy):
    """A policy for PPO and A2C of Stable-Baselines3 that scores every machine with the same weights.

    Exchanging two machines exchanges their probabilities, so it learns from each machine for all. It works on
    environments with `observation=[...]` (see `MachineFeatures`). `MaskableMachinePolicy` is the same for MaskablePPO
    of sb3-contrib.

    Parameters
    ----------
    observation_space, action_space, lr_schedule
        What Stable-Baselines3 gives.
    hidden : int, default 64
        Units of each layer, as in `policy_kwargs={"hidden": 32}`.
    **options
        Any other argument of the policies of Stable-Baselines3, except networks.

    Raises
    ------
    InputError
        For other observations, and for actions that do not choose a machine.

    Examples
    --------
    >>> env = tvwrl.make("google-0.5-v1", observation=[PerMachine(Costs(), Head())])  # doctest: +SKIP
    >>> model = PPO(MachinePolicy, env, gamma=0.95)  # doctest: +SKIP
    """
