from .clock_kernels import (
    begin as begin,
    may_place_more as may_place_more,
    next_random as next_random,
    place as place,
    tick as tick,
)
from .cluster import Cluster as Cluster, Mask as Mask
from .scenario import Scenario as Scenario
from .simulation import Simulation as Simulation, queue_features as queue_features, requests_of as requests_of
from .state import (
    ARRIVAL as ARRIVAL,
    ARRIVED as ARRIVED,
    CHANGING as CHANGING,
    GOING as GOING,
    IDLE as IDLE,
    LENGTH as LENGTH,
    MACHINE as MACHINE,
    MACHINE_OVERSHOT as MACHINE_OVERSHOT,
    OVER as OVER,
    OVERSHOOT_PER_MACHINE as OVERSHOOT_PER_MACHINE,
    OVERSHOT as OVERSHOT,
    PLACED as PLACED,
    PLACEMENTS_PER_SLOT as PLACEMENTS_PER_SLOT,
    PLACES as PLACES,
    RUNNING as RUNNING,
    RUNS as RUNS,
    SEQUENCE as SEQUENCE,
    SLOT as SLOT,
    SLOTS as SLOTS,
    START as START,
    STREAM as STREAM,
    TERMINATED as TERMINATED,
    TRUNCATED as TRUNCATED,
    USAGE_DELAY as USAGE_DELAY,
    WAIT as WAIT,
    WAITING as WAITING,
    WAITS as WAITS,
)
