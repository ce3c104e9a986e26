"""What TensorBoard shows of a training: curves in an order that answers questions, and a text on what each one is."""

from __future__ import annotations

from typing import Any, NamedTuple

from tvwrl.markdown import markdown_table


class Curve(NamedTuple):
    """A curve: what it is, its unit, and which way is better."""

    meaning: str
    unit: str
    better: str


_UNITS = "reward; its scale is the penalty weights'"
CURVES = {
    "eval/reward": Curve("mean reward of the policy on validation sequences; it chooses best.pt", _UNITS, "higher"),
    "eval/unplaced": Curve(
        "workloads never placed, per validation sequence; where it is above 0, there are no other points",
        "workloads",
        "0",
    ),
    "eval/overshoot_pct": Curve("demand above capacity, on validation sequences", "% of all capacity", "lower"),
    "eval/machines_used": Curve("machines that ran anything, on validation sequences", "machines", "lower"),
    "eval/wait_mean": Curve("wait from arrival to placement, on validation sequences", "slots", "lower"),
    "eval/contention": Curve("products of demands that share a machine, without weight", "units squared", "lower"),
    "eval/utilisation_*": Curve("use of the machines that run anything, by resource", "share, 0 to 1", "higher"),
    "eval/slowdown": Curve("DeepRM: time from arrival to end, by the time of running", "ratio", "lower"),
    "eval/unused": Curve("DeepRM: its penalty of capacity that is not used, on validation sequences", _UNITS, "lower"),
    "train/reward": Curve(
        "mean reward of the training episodes; actions are drawn, so it lies lower", _UNITS, "higher"
    ),
    "penalty/contention": Curve("part of the penalty of training episodes for sharing a machine", _UNITS, "lower"),
    "penalty/under_utilisation": Curve("part for unused capacity of machines in use", _UNITS, "lower"),
    "penalty/overshoot": Curve("part for demand above capacity", _UNITS, "lower"),
    "penalty/wait": Curve("part for workloads that wait", _UNITS, "lower"),
    "penalty/*": Curve("DeepRM: the parts of its own penalty", _UNITS, "lower"),
    "train/expected_regret": Curve("the loss: cost of the policy's decisions beyond the best ones", _UNITS, "lower"),
    "train/value_loss": Curve("the loss of the critic, which predicts returns", "square of scaled returns", "lower"),
    "train/explained_variance": Curve("how much of the returns the critic predicts", "share, at most 1", "higher"),
    "train/entropy": Curve("how undecided the policy is", "nats per decision", "falls slowly while it learns"),
    "train/gradient_norm": Curve("size of the policy's gradient", "", "steady; peaks mean a learning rate too high"),
    "train/critic_gradient_norm": Curve("size of the critic's gradient", "", "steady"),
    "train/waits": Curve("decisions in which the base policy waits", "share, 0 to 1", "neither"),
    "train/decisions": Curve("decisions that the iteration learnt from", "decisions", "neither"),
    "train/learning_rate": Curve("step size of the optimiser", "", "neither"),
    "train/steps_per_second": Curve("speed: decisions played and learnt from", "decisions per second", "higher"),
}
LAYOUT = {  # regular expressions of tags
    "What matters": {
        "reward on validation sequences (higher is better)": ["Multiline", ["^eval/reward$"]],
        "penalties of training episodes (lower is better)": ["Multiline", ["^penalty/.*"]],
        "overshoot on validation sequences, % (lower is better)": ["Multiline", ["^eval/overshoot_pct$"]],
    },
    "How it learns": {
        "loss (lower is better)": ["Multiline", ["^train/expected_regret$", "^train/value_loss$"]],
        "entropy, nats per decision": ["Multiline", ["^train/entropy$"]],
        "speed, decisions per second (higher is better)": ["Multiline", ["^train/steps_per_second$"]],
    },
}


def explain_curves(writer: Any, step: int) -> None:
    """Give a `SummaryWriter` the layout of its custom scalars, and a text that says what each curve is."""
    body = [[name, *curve] for name, curve in CURVES.items()]
    writer.add_custom_scalars(LAYOUT)
    writer.add_text("curves", markdown_table(["curve", "what it is", "unit", "better"], body), step)
