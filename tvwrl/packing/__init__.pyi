from .affinity import (
    Applications as Applications,
    Packing as Packing,
    UNLIMITED as UNLIMITED,
    degrees as degrees,
    entries as entries,
    own_limits as own_limits,
)
from .best_fit_kernels import Probes as Probes, fit_by_passes as fit_by_passes, fit_by_sorting as fit_by_sorting
from .booking import book as book, residual_ahead as residual_ahead, room_ahead as room_ahead, room_now as room_now
from .bounds import fewest_bins as fewest_bins
from .bounds import (
    ScheduleBounds as ScheduleBounds,
    lower_bounds as lower_bounds,
    machines_that_hold as machines_that_hold,
    up as up,
)
from .contents import (
    INITIAL_WEIGHT as INITIAL_WEIGHT,
    add as add,
    clear_limits as clear_limits,
    contents_of as contents_of,
    drop_empty_entries as drop_empty_entries,
    remove as remove,
    set_limits as set_limits,
)
from .ejection import affinity_ejections as affinity_ejections, capacity_ejections as capacity_ejections
from .filling import Queue as Queue, Score as Score, Sizes as Sizes, fill as fill
from .first_fit_kernels import fewest_candidates as fewest_candidates, first_fit as first_fit, new_row as new_row
from .fit import (
    enlarged as enlarged,
    exceeds as exceeds,
    fits as fits,
    has_room as has_room,
    int64 as int64,
    is_used_up as is_used_up,
    lacks as lacks,
    needed as needed,
    overbooked as overbooked,
    replicas_that_fit as replicas_that_fit,
)
from .lrasched_kernels import (
    Fitness as Fitness,
    improve as improve,
    place_whole as place_whole,
    scratch_for as scratch_for,
)
from .lrasched_kernels import fitness as fitness, measure as measure
from .matching import Pairs as Pairs, match as match
from .orders import Ordering as Ordering, refresh as refresh, weights as weights
from .patterns import (
    Machine as Machine,
    all_patterns as all_patterns,
    best_pattern as best_pattern,
    compile_kernels as compile_kernels,
)
from .running import close_machine as close_machine, open_machine as open_machine, search as search
from .running import put_back as put_back, refill as refill, replicas_away as replicas_away, return_home as return_home
from .spreading import spread as spread
