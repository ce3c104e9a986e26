from .base import Opinion as Opinion, Scheduler as Scheduler
from .expected_cost import (
    ExpectedCost as ExpectedCost,
    ABOVE as ABOVE,
    ACCEPTED_OVERSHOOT as ACCEPTED_OVERSHOOT,
    EXACT as EXACT,
    FAR as FAR,
    LEAST_CHANCE as LEAST_CHANCE,
    LEAST_PEAK_SPREAD as LEAST_PEAK_SPREAD,
    LEAST_SPREAD as LEAST_SPREAD,
    LENGTHS as LENGTHS,
    OVERSHOOT as OVERSHOOT,
    PER_DEVIATION as PER_DEVIATION,
    RISK as RISK,
    UNUSED as UNUSED,
    border as border,
    expected_costs as expected_costs,
    plain_expected_cost as plain_expected_cost,
    leaving_gains as leaving_gains,
)
from .head_of_queue import (
    BACKFILL as BACKFILL,
    Backfill as Backfill,
    Greedy as Greedy,
    HeadOfQueue as HeadOfQueue,
    best as best,
)
from .knowledge import (
    CURRENT_LOAD as CURRENT_LOAD,
    FORECASTS as FORECASTS,
    FORECASTS_AND_PEAKS as FORECASTS_AND_PEAKS,
    FUTURE as FUTURE,
    GROUPS as GROUPS,
    HISTORY_AND_REQUESTS as HISTORY_AND_REQUESTS,
    Knowledge as Knowledge,
    LEARNT_PEAKS_AND_LENGTHS as LEARNT_PEAKS_AND_LENGTHS,
    PEAKS as PEAKS,
    PEAKS_AND_LENGTHS as PEAKS_AND_LENGTHS,
    REQUESTS as REQUESTS,
    knowing_no_more as knowing_no_more,
    known_by as known_by,
    knowledge_of as knowledge_of,
    stated_knowledge as stated_knowledge,
)
from .load_scores import (
    REPORT_WEIGHT as REPORT_WEIGHT,
    load_aware as load_aware,
    no_history as no_history,
    remember as remember,
    risk_balancing as risk_balancing,
    spread as spread,
    stack as stack,
    target_load_packing as target_load_packing,
)
from .moving.base import (
    MOVE_RULES as MOVE_RULES,
    PLACING as PLACING,
    PLUS as PLUS,
    MoveRule as MoveRule,
    Moving as Moving,
    head_of as head_of,
    make_move_rule as make_move_rule,
    parted as parted,
    plus as plus,
)
from .moving.machine_costs import (
    Costs as Costs,
    Layers as Layers,
    Present as Present,
    SLOPE as SLOPE,
    costs_of as costs_of,
    feature_count as feature_count,
    present as present,
)
from .moving.machine_value import (
    ByMachineValue as ByMachineValue,
    MachineValue as MachineValue,
    SCALE as SCALE,
    meaning as meaning,
    shipped_value as shipped_value,
)
from .moving.move_policy import (
    Decisions as Decisions,
    Drawing as Drawing,
    climb as climb,
    draw_moves as draw_moves,
    no_decisions as no_decisions,
    untouched as untouched,
)
from .moving.move_search import BySearch as BySearch, MOST_TOGETHER as MOST_TOGETHER
from .planning.continuation import Continuation as Continuation, NONE as NONE, WAIT as WAIT
from .planning.cost_bound import cost_bound as cost_bound
from .planning.perfect_forecast import PerfectForecast as PerfectForecast
from .planning.hindsight import Hindsight as Hindsight
from .planning.replay import (
    BASES as BASES,
    CompiledRule as CompiledRule,
    RESERVING as RESERVING,
    Replay as Replay,
    check_costs as check_costs,
    check_memory as check_memory,
)
from .planning.rollout import (
    CERTAINTY as CERTAINTY,
    CERTAINTY_OF_RISKS as CERTAINTY_OF_RISKS,
    HORIZON as HORIZON,
    Rollout as Rollout,
    USUAL_ROLLOUTS as USUAL_ROLLOUTS,
)
from .production.kubernetes import (
    BalancedAllocation as BalancedAllocation,
    KubeDefault as KubeDefault,
    LeastAllocated as LeastAllocated,
    MostAllocated as MostAllocated,
)
from .registry import (
    BASELINES as BASELINES,
    KNOWLEDGE as KNOWLEDGE,
    PRODUCTION as PRODUCTION,
    RECONSTRUCTED as RECONSTRUCTED,
    ROLLOUTS as ROLLOUTS,
    ROLLOUT_NAMES as ROLLOUT_NAMES,
    SCHEDULERS as SCHEDULERS,
    SEARCHING as SEARCHING,
    UnknownScheduler as UnknownScheduler,
    list_schedulers as list_schedulers,
    make_scheduler as make_scheduler,
    moves_of as moves_of,
    rule_that_moves as rule_that_moves,
    with_moves as with_moves,
    rollout_of as rollout_of,
    tunable as tunable,
)
from .runner import MAX_IDLE_SLOTS as MAX_IDLE_SLOTS, Runner as Runner, position_in_queue as position_in_queue
from .best_fit import emptiest as emptiest
from .titles import (
    INITIAL as INITIAL,
    is_ours as is_ours,
    is_registered as is_registered,
    title_of as title_of,
    titles_of as titles_of,
)
