from .cluster_state import Budget as Budget, ClusterState as ClusterState, Term as Term
from .plan_of_moves import MovePlan as MovePlan, PodMove as PodMove
