"""Training samples per second of the factorization machine, and prediction time, against a plain numpy version.

The numpy version takes the same rows through the same equations, a vector operation per row, so the ratio says the
same on a busy machine as on a quiet one. Times are processor time of one core, the least of --repeats.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tyro
from scipy.sparse import csr_array
from timing import least_seconds

from tvwrl.lrasched.factorization import FactorizationMachine
from tvwrl.lrasched.predictors import factorization_machine, matrix_factorization, seconds_of_prediction
from tvwrl.lrasched.testbed import configurations, draw_applications, profile
from tvwrl.markdown import markdown_table

NONZEROS = 3


class Plain:
    """The same state and steps in numpy: w and v are computed from z and n (Eq. 5 to 7) whenever a row needs them."""

    def __init__(self, of: FactorizationMachine, features: int) -> None:
        self.of = of
        of.partial_fit(csr_array((1, features)), [0.0])
        self.zw, self.nw = np.zeros(1 + features), np.zeros(1 + features)
        self.zv, self.nv = of._factors[1].copy(), np.zeros((features, of.factors))

    def parameters(self, z: Any, n: Any, kind: str) -> Any:
        """Eq. 5 to 7."""
        alpha, beta, l1, l2 = (getattr(self.of, f"{name}_{kind}") for name in ("alpha", "beta", "lambda1", "lambda2"))
        return np.where(np.abs(z) <= l1, 0.0, -(z - np.sign(z) * l1) / ((beta + np.sqrt(n)) / alpha + l2))

    def learn(self, index: Any, value: Any, y: float) -> None:
        """Algorithms 1 and 2 for one row."""
        at, x = np.array([0, *(1 + index)]), np.array([1.0, *value])
        w = self.parameters(self.zw[at], self.nw[at], "w")
        v = self.parameters(self.zv[index], self.nv[index], "v")
        sums = value @ v
        guess = w @ x + 0.5 * (sums @ sums - (value**2) @ (v**2).sum(axis=1))
        slope = 2 * (guess - y)
        for z, n, where, theta, g, kind in (
            (self.zw, self.nw, at, w, slope * x, "w"),
            (self.zv, self.nv, index, v, slope * (np.outer(value, sums) - v * value[:, None] ** 2), "v"),
        ):
            sigma = (np.sqrt(n[where] + g * g) - np.sqrt(n[where])) / getattr(self.of, f"alpha_{kind}")
            z[where] += g - sigma * theta
            n[where] += g * g


def main(samples: int = 200_000, features: int = 1_000, factors: int = 8, repeats: int = 5) -> None:
    """Measure, print a table."""
    rng = np.random.default_rng(0)
    index = np.sort((rng.integers(features, size=(samples, 1)) + np.array([0, 17, 501])) % features, axis=1)
    y, value = rng.random(samples), rng.random(index.size)
    x = csr_array((value, index.ravel(), np.arange(0, index.size + 1, NONZEROS)), shape=(samples, features))
    machine = FactorizationMachine(factors).partial_fit(x[:10], y[:10])  # compiles
    ours = samples / least_seconds(lambda: machine.partial_fit(x, y), repeats)
    few, plain, checked = 3_000, Plain(FactorizationMachine(factors), features), FactorizationMachine(factors)

    def learn_plainly() -> None:
        for i in range(few):
            plain.learn(index[i], value[NONZEROS * i : NONZEROS * (i + 1)], y[i])

    theirs = few / least_seconds(learn_plainly, 1)
    checked.partial_fit(x[:few], y[:few])
    np.testing.assert_allclose(checked._factors[1], plain.zv, rtol=1e-6, atol=1e-9)  # the same was learnt
    row = x[[0]]
    alone = least_seconds(lambda: [machine.predict(row) for _ in range(1000)], repeats)  # ms, of 1,000
    rows = [
        ["partial_fit, samples/s", f"{ours:,.0f}", f"{theirs:,.0f}", f"{ours / theirs:,.0f}"],
        ["predict of one CSR row, ms", f"{alone:.4f}", "", ""],
    ]
    earlier = profile(draw_applications(100, 0), configurations((1,)), 0)
    for name, predictor in (("factorization machine", factorization_machine()), ("MF", matrix_factorization())):
        predictor.fit(earlier)
        predictor.learn(100, np.array([3, 7]), np.array([0.4, 0.8]))
        each = min(seconds_of_prediction(predictor, 100) for _ in range(repeats)) * 1000
        rows.append([f"{name}, performance of one configuration, ms", f"{each:.4f}", "", ""])
    print(f"{samples:,} samples, {features:,} features, {factors} factors, {NONZEROS} non-zeros\n")
    print(markdown_table(("", "measured", "numpy", "times"), rows))


if __name__ == "__main__":
    tyro.cli(main)
