"""A trained policy as a scheduler: its deterministic action."""

from __future__ import annotations

from pathlib import Path

from tvwrl.agents.acting import Logits, Seen
from tvwrl.agents.checkpoint import Checkpoint, find_checkpoint
from tvwrl.agents.deeprm import DeepRM
from tvwrl.agents.episodes import logits_of
from tvwrl.agents.networks import SharedPolicy, check_device
from tvwrl.agents.observing import ObservingScheduler
from tvwrl.agents.shipped import is_shipped
from tvwrl.simulation import Mask
from tvwrl.types import InputError


class PolicyScheduler(ObservingScheduler):
    """Places with the policy of a checkpoint, which observes what the environment shows and nothing else.

    Parameters
    ----------
    name : str
        What tables call it.
    checkpoint : Checkpoint
        Of the policy.
    device : str, default 'cpu'
        Of PyTorch: cpu, cuda, cuda:1.

    Examples
    --------
    >>> load_policy("runs/google")  # doctest: +SKIP
    <PolicyScheduler name='google', knows='demand forecasts'>
    """

    def __init__(self, name: str, checkpoint: Checkpoint, device: str = "cpu") -> None:
        check_device(device)
        policy = checkpoint.make_policy()
        super().__init__(
            name,
            checkpoint.config.scenario,
            checkpoint.shapes,
            isinstance(policy, SharedPolicy),
            forecaster=checkpoint.forecaster,
        )
        self._device, self.checkpoint = device, checkpoint
        self._policy = policy.to(device).eval()

    def logits(self, seen: Seen, mask: Mask) -> Logits:
        return logits_of(self._policy, seen, mask, self._device)[0].cpu().numpy()


def load_policy(run: str | Path, checkpoint: Checkpoint | None = None, device: str = "cpu") -> PolicyScheduler | DeepRM:
    """Load the policy of a training run as a scheduler.

    Parameters
    ----------
    run : str or Path
        Its folder, of which the best checkpoint is taken, or the last if none is best yet; or a .pt file.
    checkpoint : Checkpoint, optional
        That of the run, if it is loaded already.
    device : str, default 'cpu'
        Of PyTorch: cpu, cuda, cuda:1.

    Returns
    -------
    PolicyScheduler | DeepRM
        A scheduler with the name of the run.

    Raises
    ------
    InputError
        For a run that is missing, a file that is damaged or no checkpoint, and an unknown device.

    Examples
    --------
    >>> policy = load_policy("runs/google")  # doctest: +SKIP
    >>> policy.knowledge.group  # doctest: +SKIP
    'demand forecasts'
    """
    if is_shipped(run):
        raise InputError(f"{run} needs no PyTorch: load it with tvwrl.agents.load({str(run).partition(':')[2]!r})")
    run = Path(run).resolve()
    checkpoint = Checkpoint.load(find_checkpoint(run)) if checkpoint is None else checkpoint
    folder = run.parent.parent if run.is_file() and run.parent.name == "checkpoints" else run
    make = DeepRM if checkpoint.config.policy == "deeprm" else PolicyScheduler
    return make(folder.stem if folder.is_file() else folder.name, checkpoint, device)
