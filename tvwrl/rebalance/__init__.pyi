from .batches import BatchLimits as BatchLimits, batches_of as batches_of
from .cluster_state import Budget as Budget, ClusterState as ClusterState, Term as Term
from .forecast import Forecast as Forecast, foresee as foresee
from .from_record import state_of_record as state_of_record, with_record as with_record
from .generated import Generated as Generated, generated_cluster as generated_cluster
from .kubernetes_objects import Objects as Objects, read_objects as read_objects
from .kubernetes_state import read_state as read_state, state_of as state_of
from .plan_of_moves import MovePlan as MovePlan, PodMove as PodMove
from .planner import make_plan as make_plan
from .referee import faults as faults
from .search import Beside as Beside, Found as Found, Goal as Goal, find_moves as find_moves
from .search import most_emptied as most_emptied, movable_now as movable_now
from .worth import expected_worth as expected_worth
