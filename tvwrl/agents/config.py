"""Every hyper-parameter of training in one place, with a line of help each, and the presets."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from tvwrl.agents.features import BUILT_IN
from tvwrl.checks import at_least, different, one_of, positive, with_known_fields, within
from tvwrl.schedulers import (
    BASES,
    CURRENT_LOAD,
    FORECASTS,
    FORECASTS_AND_PEAKS,
    KNOWLEDGE,
    PEAKS,
    SCHEDULERS,
    Knowledge,
)
from tvwrl.simulation import Scenario
from tvwrl.types import InputError

ALGORITHMS = Literal["ppo", "reinforce", "counterfactual", "sb3-ppo", "sb3-a2c"]

# fmt: off
LIST = "tvwrl evaluate --list-schedulers"
COUNTS = (
    "hidden", "iterations", "train_sequences", "sequences_per_iteration", "trajectories", "epochs", "minibatches",
    "threads", "horizon", "branches", "eval_every", "eval_sequences", "comparison_sequences",
    "save_every", "picture_every",
)
RATES = (
    "learning_rate", "final_learning_rate", "imitation_rate", "train_loads", "gamma", "label_share", "cost_scale",
    "most_cost",
)
WEIGHTS = ("entropy_bonus", "final_entropy_bonus", "max_gradient_norm", "clip", "advantage_clip", "unused_weight")
# fmt: on


TRAJECTORIES = 8  # episodes per sequence, where a preset of another algorithm is turned into one for reinforce
INFORMED = Scenario(observe_demand=True, observe_forecast=True, hold_action=True, max_slots=0)


@with_known_fields
@dataclass(frozen=True)
class TrainConfig:
    """Hyper-parameters; all of them travel with the checkpoint.

    Parameters
    ----------
    algo : ALGORITHMS, default 'ppo'
        ppo: PPO with a critic that values every machine; reinforce: REINFORCE, as in the paper; counterfactual: rolls
        every action out with --base-policy in the recorded future, and lowers the expected cost; sb3-ppo, sb3-a2c: PPO
        and A2C of Stable-Baselines3.
    policy : Literal['shared', 'flat', 'deeprm'], default 'shared'
        shared: one network with the same weights for each machine, for any number of machines; flat: the paper's
        network; deeprm: the DeepRM baseline, which chooses the next workload.
    network : str, default ''
        MODULE:NAME of a network of your own in place of --policy's, a subclass of tvwrl.agents.Policy; --hidden is
        passed to it.
    hidden : int, default 64
        Neurons of a hidden layer (paper: 20).
    iterations : int, default 30
        Updates of the policy.
    imitate : int, default 40
        Training sequences on which the policy imitates --teacher before it learns from rewards; 0: none. Ignored if the
        teacher is built in.
    teacher : str, default ''
        Scheduler that the initial policy behaves like. expected-cost, expected-cost-peak, expected-cost-known-peak and
        best-fit-peak are built into a shared policy that sees what they know; others are imitated and may know more.
        Default: with forecasts, expected-cost; with forecasts and lifetime peaks, the best of the other three on
        training and validation sequences; otherwise best-fit-peak.
    start_from : str, default ''
        Run folder or checkpoint of the initial policy, or shipped:NAME, in place of --teacher; it may have been trained
        on another trace or load.
    imitation_rate : float, default 0.002
        Learning rate of Adam during imitation.
    train_sequences : int, default 300
        Arrival sequences to train on (paper: 100).
    train_loads : tuple[float, ...], optional
        Offered loads of training and validation sequences, in turn; default: --load.
    also : tuple[str, ...], optional
        Further traces to train on, in turn with --trace; validation and test use --trace alone. Each has its own
        forecasts, and its own classes, made in the same way and as many as for --trace.
    sequences_per_iteration : int, default 160
        Sequences sampled for one update (paper: 20).
    trajectories : int, default 1
        Episodes per sampled sequence (paper: 20); reinforce uses their mean return as the baseline and needs at least
        2.
    learning_rate : float, default 0.002
        Learning rate of Adam in the first update (paper: 0.001).
    final_learning_rate : float, default 0.0002
        Learning rate of Adam in the last update; it falls linearly.
    gamma : float, default 0.999
        Discount per slot.
    gae_lambda : float, default 0.95
        Lambda of generalised advantage estimation, per placement (ppo): 1 relies on returns only, 0 on the critic only.
    entropy_bonus : float, default 0.001
        Weight of the policy's entropy.
    final_entropy_bonus : float, default 0.0
        Weight of the policy's entropy in the last update; it falls linearly from --entropy-bonus.
    advantage_scaling : bool, default True
        Divide advantages by their standard deviation over the batch.
    epochs : int, default 3
        Passes over the episodes of an update; 1 pass with 1 minibatch is plain REINFORCE (paper).
    minibatches : int, default 16
        Minibatches, thus steps of Adam, per pass.
    clip : float, default 0.2
        Clipping range of the probability ratio when episodes are reused; no effect in plain REINFORCE.
    advantage_clip : float, default 5.0
        Clip scaled advantages to +- this value, because one overshoot costs as much as hundreds of other slots.
    max_gradient_norm : float, default 0.5
        Clip gradients to this norm; 0: no clipping.
    seed : int, default 0
        Seed of all random choices.
    base_policy : str, default ''
        counterfactual: base policy, the rule that decides in a rollout after its first action. Default: the --teacher,
        if built in; otherwise expected-cost with forecasts, best-fit-peak with lifetime peaks, expected-cost-peak with
        both, and spread with neither.
    horizon : int, optional
        counterfactual: length of a rollout, slots; default: 24 if the policy sees lifetime peaks, otherwise 16.
    generations : int, default 1
        counterfactual: number of equal parts of the training. In the first, rollouts follow --base-policy; each later
        part starts from the best policy so far, and its rollouts follow that policy.
    branches : int, default 4
        counterfactual: most probable placements to roll out in a state, from the second generation on.
    label_share : float, default 0.7
        counterfactual: share of decisions whose actions are rolled out; from the second generation on, a fifth of it.
    cost_scale : float, default 2000.0
        counterfactual: cost that counts as 1 in the loss.
    most_cost : float, default 100000.0
        counterfactual: cap on the extra cost of an action compared with the best one.
    device : str, default 'cpu'
        PyTorch device of policies: cpu, cuda, cuda:1.
    threads : int, default 1
        CPU threads for the networks, which are small: more threads rarely help.
    eval_every : int, default 10
        Updates between validations.
    eval_sequences : int, default 60
        Validation sequences, cut from series held out from training.
    comparison_sequences : int, default 30
        Test sequences of the comparison at the end of the run.
    save_every : int, default 10
        Updates between saves of checkpoints/last.pt.
    checkpoint_every : int, default 0
        Updates between checkpoints that are kept, checkpoints/iteration-<number>.pt; 0: none.
    picture_every : int, default 100
        Updates between pictures of the cluster in TensorBoard.
    unused_weight : float, default 0.1
        DeepRM: penalty for a slot in which the whole cluster is unreserved.
    scenario : Scenario, optional
        What happens in an episode and what the policy sees of it.

    Examples
    --------
    >>> TrainConfig(iterations=11).at(5, 1.0, 0.0)
    0.5
    """

    algo: ALGORITHMS = "ppo"
    policy: Literal["shared", "flat", "deeprm"] = "shared"
    network: str = ""
    hidden: int = 64
    iterations: int = 30
    imitate: int = 40
    teacher: str = ""
    start_from: str = ""
    imitation_rate: float = 2e-3
    train_sequences: int = 300
    train_loads: tuple[float, ...] = ()
    also: tuple[str, ...] = ()
    sequences_per_iteration: int = 160
    trajectories: int = 1
    learning_rate: float = 2e-3
    final_learning_rate: float = 2e-4
    gamma: float = 0.999
    gae_lambda: float = 0.95
    entropy_bonus: float = 0.001
    final_entropy_bonus: float = 0.0
    advantage_scaling: bool = True
    epochs: int = 3
    minibatches: int = 16
    clip: float = 0.2
    advantage_clip: float = 5.0
    max_gradient_norm: float = 0.5
    seed: int = 0
    base_policy: str = ""
    horizon: int | None = None
    generations: int = 1
    branches: int = 4
    label_share: float = 0.7
    cost_scale: float = 2000.0
    most_cost: float = 1e5
    device: str = "cpu"
    threads: int = 1
    eval_every: int = 10
    eval_sequences: int = 60
    comparison_sequences: int = 30
    save_every: int = 10
    checkpoint_every: int = 0
    picture_every: int = 100
    unused_weight: float = 0.1
    scenario: Scenario = field(default_factory=lambda: INFORMED)

    def __post_init__(self) -> None:
        values = vars(self)
        at_least(1, **{name: values[name] for name in COUNTS})
        at_least(
            0,
            seed=self.seed,
            imitate=self.imitate,
            checkpoint_every=self.checkpoint_every,
            **{name: values[name] for name in WEIGHTS},
        )
        positive(**{name: values[name] for name in RATES})
        within(0, 1, gamma=self.gamma, gae_lambda=self.gae_lambda, label_share=self.label_share)
        one_of(SCHEDULERS, f"{LIST} lists all; names with brackets or = cannot teach", teacher=self.teacher or None)
        one_of(BASES, base_policy=self.base_policy or None)
        if self.scenario.moves_per_slot:
            raise InputError(
                f"moves_per_slot is {self.scenario.moves_per_slot}: these policies place only; train without it, or "
                "learn what to move: tvwrl train --moves"
            )
        if self.also:
            different(also=self.also)
        if self.also and self.algo.startswith("sb3"):
            raise InputError(f"also is {', '.join(self.also)}: algo {self.algo} trains on one trace; use another algo")
        if len(self.also) >= self.iterations:
            raise InputError(
                f"also is {', '.join(self.also)}: an iteration trains on one trace, so iterations, {self.iterations}, "
                f"must be at least {len(self.also) + 1}"
            )
        if self.generations > 1 and self.algo != "counterfactual":
            raise InputError(f"generations is {self.generations}: must be 1 for algo {self.algo}")
        within(1, self.iterations, generations=self.generations)
        if self.algo == "counterfactual":
            if self.policy == "deeprm":
                raise InputError("algo counterfactual needs a policy that chooses machines: use policy shared or flat")
            knowledge = KNOWLEDGE[self.base_rule]
            if not self._shows(knowledge):
                raise InputError(
                    f"base_policy is {self.base_rule}: it knows {knowledge.note}, which the policy does not see; show "
                    "it (observe_forecast, observe_peak) or take another rule"
                )
        one_of(get_args(ALGORITHMS), algo=self.algo)
        one_of(("shared", "flat", "deeprm"), policy=self.policy)
        if self.network and self.policy == "deeprm":
            raise InputError(f"network is {self.network}: must be empty for policy deeprm")
        if self.network and not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*", self.network):
            raise InputError(f"network is '{self.network}': must be MODULE:NAME, as in mypackage.networks:Mine")
        if self.imitate and self.policy == "deeprm":
            raise InputError(f"imitate is {self.imitate}: must be 0 for policy deeprm, which chooses no machines")
        foresees = bool(self.teacher) and KNOWLEDGE[self.teacher].group in (FORECASTS.group, FORECASTS_AND_PEAKS.group)
        if self.imitate and foresees and not self.scenario.looks_ahead:
            raise InputError(f"teacher is {self.teacher}: it needs forecasts; set observe_forecast, or name another")

    @property
    def built_in(self) -> str:
        """The rule that the untrained policy approximates (see `SharedPolicy`); empty for none."""
        knowledge = KNOWLEDGE[self._teacher]
        can = self.policy == "shared" and not self.network and self._teacher in BUILT_IN and self._shows(knowledge)
        return self._teacher if can else ""

    def _shows(self, knowledge: Knowledge) -> bool:
        """Whether the policy sees all that a rule of this knowledge needs."""
        forecasts, peaks = self.scenario.observe_forecast, self.scenario.observe_peak
        both = forecasts and peaks
        return {CURRENT_LOAD: True, FORECASTS: forecasts, PEAKS: peaks, FORECASTS_AND_PEAKS: both}.get(knowledge, False)

    @property
    def imitates(self) -> str:
        """The scheduler that the policy imitates before it learns from rewards; empty for none."""
        return "" if self.built_in or self.start_from or not self.imitate else self._teacher

    @property
    def _teacher(self) -> str:
        forecasts, peaks = self.scenario.observe_forecast, self.scenario.observe_peak
        informed = "expected-cost-peak" if peaks else "expected-cost"
        return self.teacher or (informed if forecasts else "best-fit-peak")

    @property
    def starting_rules(self) -> tuple[str, ...]:
        """The rules that the initial policy may act like; training picks the best of them (`with_starting_rule`)."""
        both = self.scenario.observe_forecast and self.scenario.observe_peak
        free = both and self.policy == "shared" and not self.network and not self.teacher and not self.start_from
        return ("expected-cost-peak", "expected-cost-known-peak", "best-fit-peak") if free else (self._teacher,)

    @property
    def generation_starts(self) -> tuple[int, ...]:
        """How many iterations come before each generation."""
        return tuple(g * self.iterations // self.generations for g in range(self.generations))

    def begins_generation(self, iteration: int) -> int:
        """The number (2 or more) of the generation that begins after so many iterations; 0 if none does.

        Parameters
        ----------
        iteration : int
            How many are done.
        """
        starts = self.generation_starts
        return starts.index(iteration) + 1 if iteration in starts[1:] else 0

    def ends_generation(self, iteration: int) -> int:
        """The number of the generation that ends with this iteration; 0 if none does.

        Parameters
        ----------
        iteration : int
            How many are done.
        """
        return self.generations if iteration == self.iterations else max(self.begins_generation(iteration) - 1, 0)

    @property
    def rollout_slots(self) -> int:
        """Length of rollouts in counterfactual learning, slots; chosen on validation sequences
        (docs/results/training.md)."""
        return self.horizon or (24 if self.scenario.observe_peak else 16)

    @property
    def base_rule(self) -> str:
        """The base policy of counterfactual learning."""
        forecasts, peaks = self.scenario.observe_forecast, self.scenario.observe_peak
        told = "expected-cost-peak" if forecasts else "best-fit-peak"
        return self.base_policy or self.built_in or (told if peaks else "expected-cost" if forecasts else "spread")

    def at(self, iteration: int, start: float, end: float) -> float:
        """A value that falls linearly over the iterations.

        Parameters
        ----------
        iteration : int
            How many are done.
        start : float
            In the first iteration.
        end : float
            In the last one.
        """
        return start + (end - start) * iteration / max(self.iterations - 1, 1)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for a checkpoint or JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> TrainConfig:
        """The inverse of `to_dict`.

        Parameters
        ----------
        content : dict
            What `to_dict` returned, perhaps as JSON keeps it.
        """
        scenario: dict[str, Any] = dict(content["scenario"])
        lists = {name: tuple(content.get(name, ())) for name in ("train_loads", "also")}
        return cls(**{**content, "scenario": Scenario(**scenario), **lists})


PRESETS: dict[str, TrainConfig] = {
    "medium": TrainConfig(),
    "counterfactual": TrainConfig(
        algo="counterfactual",
        iterations=40,
        train_sequences=1200,
        learning_rate=1e-3,
        final_learning_rate=1e-4,
        entropy_bonus=0.002,
        eval_sequences=200,
        comparison_sequences=200,
        scenario=replace(INFORMED, choose_from_queue=True),
    ),
    "paper": TrainConfig(
        algo="reinforce",
        imitate=0,
        policy="flat",
        hidden=20,
        iterations=2000,
        train_sequences=100,
        sequences_per_iteration=20,
        trajectories=20,
        gamma=0.99,
        learning_rate=1e-3,
        final_learning_rate=1e-3,
        epochs=1,
        advantage_clip=1e9,
        minibatches=1,
        max_gradient_norm=1.0,
        entropy_bonus=0.0,
        final_entropy_bonus=0.0,
        eval_every=50,
        scenario=Scenario(observe_request=False),
    ),
}
PRESETS["deeprm"] = replace(
    PRESETS["medium"],
    algo="reinforce",
    imitate=0,
    policy="deeprm",
    hidden=20,
    iterations=200,
    sequences_per_iteration=20,
    trajectories=TRAJECTORIES,
    minibatches=4,
    advantage_clip=3.0,
    max_gradient_norm=1.0,
    gamma=1.0,  # a late start is charged only when the workload ends
    learning_rate=1e-2,
    final_learning_rate=1e-3,
    entropy_bonus=0.01,
    final_entropy_bonus=0.001,
    scenario=Scenario(max_slots=0),
)
PRESETS["smoke"] = replace(
    PRESETS["medium"],
    iterations=6,
    imitate=2,
    train_sequences=8,
    sequences_per_iteration=16,
    eval_every=3,
    scenario=replace(INFORMED, observe_forecast=False),
)


def preset_for(preset: str = "", algo: str = "", policy: str = "") -> TrainConfig:
    """The preset of that name; without one, `deeprm` for policy deeprm, `medium` for any other policy or algorithm that
    is asked for, and else `counterfactual`.

    With reinforce, its episodes are several trajectories of fewer sequences. An unknown name is as none.
    """
    usual = algo in ("", "counterfactual") and policy in ("", "shared")
    name = "deeprm" if policy == "deeprm" else "counterfactual" if usual else "medium"
    config = PRESETS.get(preset or name, PRESETS[name])
    if policy in ("flat", "deeprm"):  # ppo's critic needs the per-machine features of `shared`
        config = replace(config, algo="reinforce")
    if policy == "deeprm":  # teachers choose machines, not workloads
        config = replace(config, imitate=0)
    if (algo or config.algo) == "reinforce" and config.trajectories < 2:
        fewer = max(config.sequences_per_iteration // TRAJECTORIES, 1)
        config = replace(config, sequences_per_iteration=fewer, trajectories=TRAJECTORIES)
    return config
