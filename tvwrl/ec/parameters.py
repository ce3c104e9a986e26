"""Parameters of our estimators, as scikit-learn's `clone` and searches ask for them, without importing scikit-learn."""

from __future__ import annotations

import inspect
from typing import Any, Self


class Parameters:
    """`get_params` and `set_params` for a class whose `__init__` stores each argument under its own name."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Argument names and values; `deep` makes no difference, as no argument is an estimator."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **values: Any) -> Self:
        """Change arguments. Raises ValueError for an unknown one."""
        for name, value in values.items():
            if name not in self.get_params():
                raise ValueError(
                    f"{type(self).__name__} has no parameter '{name}'; valid: {', '.join(self.get_params())}"
                )
            setattr(self, name, value)
        return self
