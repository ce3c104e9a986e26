"""Parameters of our estimators, as scikit-learn's `clone` asks for them, without importing scikit-learn."""

from __future__ import annotations

import inspect
from typing import Any


class Parameters:
    """`get_params` for a class whose `__init__` stores each argument under its own name."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Argument names and values; `deep` makes no difference, as no argument is an estimator."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
