"""Learning from what every action would have cost: decisions change neither arrivals nor demand, so all actions can be
rolled out."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from tvwrl.agents.acting import DeterministicActions, PolicyReplay
from tvwrl.agents.config import TrainConfig
from tvwrl.agents.episodes import Environments, Trajectories, numbers_of, play
from tvwrl.agents.networks import FORBIDDEN, Policy
from tvwrl.agents.policy_gradient import CHUNK, EpisodeLearner
from tvwrl.schedulers import Replay

POLICY_SHARE = 0.2  # of the decisions that a rule would roll out: a policy takes a hundred times as long


class Counterfactual(EpisodeLearner):
    """Approximate policy improvement: lowers the expected cost of a decision after which a base policy takes over.

    In the states that the policy visits, every action is rolled out in the same recorded future. The base policy is a
    rule (`Replay`), in later generations the policy with which the generation began (`PolicyReplay`). A policy that may
    hold learns to hold where the base policy waits; there, the costs of placing do not count.
    """

    def __init__(self, policy: Policy, config: TrainConfig) -> None:
        super().__init__(policy, config)
        self._base: Policy | None = None  # of the generations after the first
        self._plays = 0  # batches of episodes so far; which decisions are labelled depends on it

    def begin_generation(self) -> None:
        """Make the policy, as it is now, the base policy; steps no longer follow what gradients were before it."""
        self.optimiser = self.make_optimiser()
        self._base = copy.deepcopy(self.policy).requires_grad_(False)

    def state(self) -> dict[str, Any]:
        """See `Learner.state`."""
        base = {} if self._base is None else {"base": self._base.state_dict()}
        return super().state() | base | {"plays": self._plays}

    def restore(self, state: dict[str, Any]) -> None:
        """See `Learner.restore`."""
        super().restore(state)
        self._plays = state.get("plays", 0)  # none in older checkpoints
        if "base" in state:
            self._base = copy.deepcopy(self.policy).requires_grad_(False)
            self._base.load_state_dict(state["base"])

    def play(
        self, envs: Environments, sequence: npt.NDArray[np.int64], how: torch.Generator | DeterministicActions
    ) -> Trajectories:
        """See `EpisodeLearner.play`; encodings include `costs` (n, placements), and which are `labelled` (n,).

        Unknown costs are infinite. Where the base policy waits, all costs of a labelled decision are.
        """
        config, share = self.config, self.config.label_share
        replay: Replay | PolicyReplay
        if self._base is None:
            replay = Replay(envs.simulation, config.base_rule, config.rollout_slots)
        else:
            base, share = numbers_of(self._base, config.device), share * POLICY_SHARE
            replay = PolicyReplay(envs.simulation, base, config.rollout_slots, config.branches)
        draws = np.random.default_rng([config.seed, 7, self._plays])
        placements = envs.simulation.placements
        found: list[Tensor] = []
        seen: list[Tensor] = []

        def label(rows: npt.NDArray[np.int64], allowed: npt.NDArray[np.bool_]) -> None:
            chosen = draws.random(len(rows)) < share
            chosen[:1] |= not found  # at least one decision is labelled
            costs, some = np.full((len(rows), placements), np.inf, np.float32), np.flatnonzero(chosen)
            if config.scenario.hold_action:  # where the base waits, costs do not count
                some = some[replay.choices(rows)[some] < placements]  # of all rows: a policy remembers its decisions
            played_on = replay.costs(rows[some], allowed[some, :placements])[0][:, :-1].sum(axis=2)
            costs[some] = np.where(np.isnan(played_on), np.inf, played_on)
            found.append(torch.from_numpy(costs))
            seen.append(torch.from_numpy(chosen))

        played = play(self.policy, envs, sequence, how, config.device, label)
        self._plays += 1
        played.encoded |= {"costs": torch.cat(found), "labelled": torch.cat(seen)}
        return played

    def update(self, played: Trajectories, iteration: int, rng: torch.Generator) -> dict[str, float]:
        """See `EpisodeLearner.update`."""
        config, labelled = self.config, played.encoded["labelled"]
        rows, costs = torch.nonzero(labelled)[:, 0], played.encoded["costs"][labelled].double().numpy()
        placements = costs.shape[1]
        waits = torch.from_numpy(np.isinf(costs).all(axis=1)).float()
        costs = np.where(waits[:, None].bool().numpy(), 0.0, costs)
        known = torch.from_numpy(np.isfinite(costs))
        beyond = np.minimum(costs - costs.min(axis=1, keepdims=True), config.most_cost)
        target = torch.from_numpy(beyond / config.cost_scale).float()
        bonus = config.at(iteration, config.entropy_bonus, config.final_entropy_bonus)
        expected: list[float] = []
        entropies: list[float] = []

        def backward(part: Tensor) -> None:
            for some in torch.split(part, CHUNK):
                encoded = {name: values[rows[some]].to(config.device) for name, values in played.encoded.items()}
                logits = self.policy.logits(encoded)
                compared = logits[:, :placements].masked_fill(~known[some].to(config.device), FORBIDDEN)
                log_probability = torch.log_softmax(compared, dim=1)
                probability = log_probability.exp()
                may = encoded["mask"][:, placements:].float()  # (part, 1), or (part, 0) for a policy that never holds
                held = waits[some].to(config.device)[:, None] * may
                cost = (probability * target[some].to(config.device) * (1 - held.sum(dim=1, keepdim=True))).sum()
                entropy = -(probability * log_probability).sum()
                holds = logits[:, placements:] - torch.logsumexp(logits[:, :placements], dim=1, keepdim=True)
                hold = (binary_cross_entropy_with_logits(holds, held, reduction="none") * may).sum()
                loss = cost - bonus * entropy + hold
                (loss / len(part)).backward()  # type: ignore[no-untyped-call]
                expected.append(float(cost.detach()) / len(some))
                entropies.append(float(entropy.detach()) / len(some))

        norms = self.descend(self.policy, self.optimiser, iteration, len(rows), rng, backward)
        return {
            "expected_regret": config.cost_scale * float(np.mean(expected[: config.minibatches])),
            "waits": float(waits.mean()),
            "entropy": float(np.mean(entropies)),
            "gradient_norm": float(np.mean(norms)),
            "decisions": float(played.alive.sum()),
        }
