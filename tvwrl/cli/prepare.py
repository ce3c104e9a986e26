"""`tvwrl prepare`: the options of one loader beside those of all."""

from __future__ import annotations

import re
from dataclasses import fields, make_dataclass
from typing import Any

import tyro

from tvwrl.traces import LOADERS, PrepareOptions, data_folder, prepare_and_report

FIRST = re.compile(r"\.\s+(?=[A-Z-])|\n\n")  # ends a first sentence


_PLACES = {  # where the trace is written to
    "out": property(lambda self: self.common.out),
    "folder": property(lambda self: self.common.out or data_folder()),
}


def loaders() -> dict[str, dict[str, str]]:
    """Loaders in groups, each with the first sentence that describes it."""
    own = ("csv", "parquet", "prometheus")
    titles = {name: FIRST.split(kind.__doc__ or "")[0].rstrip(".") for name, kind in LOADERS.items()}
    return {
        "Published traces": {name: title for name, title in titles.items() if name not in own},
        "Your own data": {name: titles[name] for name in own},
    }


def options_of(name: str) -> type:
    """The options of a loader and of all loaders. Those of the loader are checked only when it is made."""
    kind: Any = LOADERS[name]
    unchecked = type(kind.__name__, (kind,), {"__post_init__": lambda self: None, "__module__": kind.__module__})
    unchecked.__doc__ = kind.__doc__
    unprefixed = tyro.conf.OmitArgPrefixes
    parts = [("common", unprefixed[PrepareOptions]), ("loader", unprefixed[unchecked])]
    made = make_dataclass(kind.__name__, parts, namespace=_PLACES | {"kind": kind})
    made.__doc__ = kind.__doc__
    return made


def prepare_trace(options: Any) -> None:
    """Prepare a trace as `options_of` a loader ask."""
    loader = options.kind(**{field.name: getattr(options.loader, field.name) for field in fields(options.kind)})
    prepare_and_report(options.common, loader, print)
