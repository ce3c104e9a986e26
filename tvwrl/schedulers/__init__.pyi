from .base import Scheduler as Scheduler
from .head_of_queue import Backfill as Backfill, Greedy as Greedy, HeadOfQueue as HeadOfQueue
from .knowledge import (
    CURRENT_LOAD as CURRENT_LOAD,
    FORECASTS as FORECASTS,
    FORECASTS_AND_PEAKS as FORECASTS_AND_PEAKS,
    FUTURE as FUTURE,
    GROUPS as GROUPS,
    HISTORY_AND_REQUESTS as HISTORY_AND_REQUESTS,
    PEAKS as PEAKS,
    PEAKS_AND_LENGTHS as PEAKS_AND_LENGTHS,
    REQUESTS as REQUESTS,
    Knowledge as Knowledge,
)
from .registry import (
    BASELINES as BASELINES,
    KNOWLEDGE as KNOWLEDGE,
    PRODUCTION as PRODUCTION,
    RECONSTRUCTED as RECONSTRUCTED,
    ROLLOUTS as ROLLOUTS,
    SCHEDULERS as SCHEDULERS,
    SEARCHING as SEARCHING,
    list_schedulers as list_schedulers,
    make_scheduler as make_scheduler,
)
from .runner import Runner as Runner
