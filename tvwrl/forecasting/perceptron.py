"""Small networks of dense ReLU layers: trained by scikit-learn or torch, kept and run without them."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

Layers = list[tuple[Any, Any]]  # weights (inputs, outputs) and biases (outputs,) of each layer


@contextlib.contextmanager
def seeded(threads: int, seed: int) -> Iterator[None]:
    """Set torch's seed and number of threads in the block, and restore both afterwards.

    With one thread, results do not depend on the number of cores, and a busy core slows nothing else down.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(before)


def train_layers(network: Any, inputs: Any, targets: Any) -> Layers:
    """Fit `network`, a scikit-learn MLP, on one thread, and return its layers.

    Ctrl-C raises KeyboardInterrupt, as everywhere: scikit-learn itself would return a network that is half trained.
    """
    from sklearn.exceptions import ConvergenceWarning
    from threadpoolctl import threadpool_limits

    with warnings.catch_warnings(), threadpool_limits(1):  # small matrices: threads cost more than they save
        warnings.simplefilter("ignore", ConvergenceWarning)  # the epochs are limited on purpose
        warnings.filterwarnings("error", "Training interrupted by user")
        try:
            network.fit(inputs, targets)
        except UserWarning:
            raise KeyboardInterrupt from None
    return list(zip(network.coefs_, network.intercepts_, strict=True))


def forward(layers: Layers, values: Any) -> Any:
    """Outputs (..., O), before any activation, for inputs (..., I)."""
    for weights, bias in layers[:-1]:
        values = np.maximum(values @ weights + bias, 0.0)
    weights, bias = layers[-1]
    return values @ weights + bias


def layers_to_lists(layers: Layers) -> list[list[Any]]:
    """Plain lists from which `layers_from_lists` makes equal layers."""
    return [[weights.tolist(), bias.tolist()] for weights, bias in layers]


def layers_from_lists(content: list[list[Any]], inputs: int, dtype: type = np.float64) -> Layers:
    """Layers for so many inputs. Raises ValueError where they do not fit together or a number is not finite."""
    layers: Layers = [(np.array(weights, dtype), np.array(bias, dtype)) for weights, bias in content]
    shapes = [weights.shape for weights, _ in layers]
    if shapes != list(pairwise([inputs, *(len(bias) for _, bias in layers)])):
        raise ValueError(f"layers of shapes {shapes} do not fit together and {inputs} inputs")
    if not all(np.isfinite(part).all() for layer in layers for part in layer):
        raise ValueError("a weight is not finite")
    return layers
