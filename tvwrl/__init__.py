"""TVW-RL and relatives: placement of long-running workloads whose resource usage changes over time.

Public is what `__all__` names here and in the packages below; everything else may change without notice. Importing it
registers `tvwrl/Placement-v0` and the tasks of the benchmark (`TASK_NAMES`) with Gymnasium; everything heavy is
imported where it is used.

>>> import tvwrl
>>> env = tvwrl.make("google-0.5-v0")  # doctest: +SKIP
>>> print(tvwrl.evaluate(["spread", "best-fit"], "google"))  # doctest: +SKIP
>>> run = tvwrl.train("google", "smoke")  # doctest: +SKIP
>>> print(tvwrl.compare({"mine": run.policy}))  # doctest: +SKIP
"""

import lazy_loader

from tvwrl.registration import register_environments

__version__ = "0.1.0"

TASK_NAMES = tuple(  # TRACE-LOAD-VERSION or TRACE-LOAD-VARIANT-VERSION; tvwrl.benchmark.tasks defines each
    f"{trace}-{kind}-v0"
    for trace in ("google", "google2011", "google2019", "tianchi", "bitbrains")
    for kind in ("0.3", "0.5", "0.8", "0.5-burst", "0.5-delay", "0.5-large")
)

register_environments(TASK_NAMES)

__getattr__, _, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ += ["TASK_NAMES"]


def __dir__() -> list[str]:
    return __all__
