"""Optional libraries that compute what tvwrl computes too: the package and the extra that bring each."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tvwrl.types import InputError

NEEDED = {  # backend -> its module, the extra of tvwrl that brings it
    "tsfresh": ("tsfresh", "tsfresh"),
    "tslearn": ("tslearn.metrics", "tslearn"),
    "kmedoids": ("kmedoids", "kmedoids"),
    "sklearn-extra": ("sklearn_extra.cluster", "sklx"),
}


def load_backend(name: str) -> Any:
    """The module of a backend, None for tvwrl's own. Raises InputError, saying what to install, if it is missing."""
    if name not in NEEDED:
        return None
    module, extra = NEEDED[name]
    try:
        return import_module(module)
    except (ImportError, ValueError) as error:  # ValueError: scikit-learn-extra, built against another numpy
        alone = ", in an environment of its own, as it needs numpy < 2" if extra == "sklx" else ""
        raise InputError(f"backend '{name}' cannot be used ({error}): pip install 'tvwrl[{extra}]'{alone}") from None
