"""TVW-RL and relatives: placement of long-running workloads whose resource usage changes over time.

Public is what `__all__` names here and in the packages below; everything else may change without notice. Importing it
registers `tvwrl/Placement-v0` and the tasks of the benchmark (`TASK_NAMES`) with Gymnasium; everything heavy is
imported where it is used.

>>> import tvwrl
>>> env = tvwrl.make("google-0.5-v1")  # doctest: +SKIP
>>> print(tvwrl.evaluate(["spread", "best-fit"], "google"))  # doctest: +SKIP
>>> run = tvwrl.train("google", "smoke")  # doctest: +SKIP
>>> print(tvwrl.compare({"mine": run.policy}))  # doctest: +SKIP
"""

import lazy_loader

from tvwrl.registration import register_environments

__version__ = "0.1.0"

_TRACES = ("google", "google2011", "google2019", "tianchi", "bitbrains")
_KINDS = tuple(  # TRACE-LOAD or TRACE-LOAD-VARIANT; tvwrl.benchmark.tasks defines each
    f"{trace}-{kind}" for trace in _TRACES for kind in ("0.3", "0.5", "0.8", "0.5-burst", "0.5-delay", "0.5-large")
)
_MOVING = tuple(f"{trace}-{load}-move" for trace in _TRACES for load in ("0.3", "0.5", "0.8"))
_PRICED = ("google2011-0.5-move300", "google2011-0.5-move3000")  # moves at other prices
TASK_NAMES = tuple(f"{kind}-v1" for kind in (*_KINDS, *_MOVING, *_PRICED))
SUPERSEDED_TASKS = tuple(
    f"{kind}-v0" for kind in _KINDS
)  # can still be played; docs/reference/tasks.md has the changes

register_environments((*SUPERSEDED_TASKS, *TASK_NAMES))

__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["SUPERSEDED_TASKS", "TASK_NAMES"]


def __dir__() -> list[str]:
    return __all__
