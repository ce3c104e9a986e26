"""Networks that scikit-learn trains."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from sklearn.neural_network import MLPClassifier

from tvwrl.forecasting.perceptron import train_layers


class Interrupted(MLPClassifier):
    """A network whose second epoch is interrupted by Ctrl-C."""

    epochs = 0

    def _update_no_improvement_count(self, *arguments: object) -> None:
        self.epochs += 1
        if self.epochs == 2:
            signal.raise_signal(signal.SIGINT)
        super()._update_no_improvement_count(*arguments)


def test_ctrl_c_leaves_no_network_that_is_half_trained() -> None:
    inputs = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(KeyboardInterrupt):
        train_layers(Interrupted((4,), max_iter=5), inputs, inputs[:, 0] > 0)


def test_a_network_is_trained_to_its_end() -> None:
    inputs = np.random.default_rng(0).normal(size=(40, 3))
    network = MLPClassifier((4,), max_iter=5)
    layers = train_layers(network, inputs, inputs[:, 0] > 0)
    assert [weights.shape for weights, _ in layers] == [(3, 4), (4, 1)]
    assert network.n_iter_ == 5
