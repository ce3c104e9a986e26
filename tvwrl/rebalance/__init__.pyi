from .batches import BatchLimits as BatchLimits, batches_of as batches_of
from .cluster_state import Budget as Budget, ClusterState as ClusterState, Term as Term
from .forecast import Forecast as Forecast, foresee as foresee
from .generated import Generated as Generated, generated_cluster as generated_cluster
from .plan_of_moves import MovePlan as MovePlan, PodMove as PodMove
from .planner import make_plan as make_plan
from .search import Beside as Beside, Found as Found, Goal as Goal, find_moves as find_moves
from .worth import expected_worth as expected_worth
